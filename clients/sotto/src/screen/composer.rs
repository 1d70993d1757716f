//! The line in which a person writes.

use sotto_protocol::TEXT_MAX;
use unicode_segmentation::UnicodeSegmentation as _;
use zeroize::{Zeroize as _, Zeroizing};

/// Lines that can be had again.
const HISTORY_MAX: usize = 100;

/// A text that is being written, and those before it. All of it is wiped when it is gone.
pub(super) struct Composer {
    /// Never grown, so that no copy stays behind.
    text: Zeroizing<String>,
    /// In bytes, between two signs.
    cursor: usize,
    history: Vec<Zeroizing<String>>,
    /// Which of them is shown, as long as nothing is changed in it.
    recalled: Option<usize>,
}

impl Default for Composer {
    fn default() -> Self {
        let text = Zeroizing::new(String::with_capacity(TEXT_MAX));
        Self { text, cursor: 0, history: Vec::new(), recalled: None }
    }
}

impl Composer {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text before the cursor.
    pub(super) fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    fn after(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Puts a text in at the cursor; as much of it as there is room for. Whether that was all.
    pub(super) fn insert(&mut self, text: &str) -> bool {
        let mut room = TEXT_MAX - self.text.len();
        let mut all = true;
        for character in text.chars() {
            if character.len_utf8() > room {
                all = false;
                break;
            }
            room -= character.len_utf8();
            self.text.insert(self.cursor, character);
            self.cursor += character.len_utf8();
        }
        self.recalled = None;
        all
    }

    /// Takes out bytes, and leaves none of them behind.
    fn remove(&mut self, from: usize, to: usize) {
        let rest = Zeroizing::new(self.text.get(to..).unwrap_or_default().to_owned());
        let kept = Zeroizing::new(self.text.get(..from).unwrap_or_default().to_owned());
        self.text.zeroize();
        self.text.push_str(&kept);
        self.text.push_str(&rest);
        self.cursor = from;
        self.recalled = None;
    }

    pub(super) fn backspace(&mut self) {
        self.remove(self.left_of(), self.cursor);
    }

    pub(super) fn delete(&mut self) {
        let (from, to) = (self.cursor, self.right_of());
        self.remove(from, to);
    }

    pub(super) fn delete_word(&mut self) {
        self.remove(self.word_left(), self.cursor);
    }

    pub(super) fn delete_to_start(&mut self) {
        self.remove(self.line_start(), self.cursor);
    }

    pub(super) fn delete_to_end(&mut self) {
        let (from, to) = (self.cursor, self.line_end());
        self.remove(from, to);
    }

    pub(super) fn left(&mut self) {
        self.cursor = self.left_of();
    }

    pub(super) fn right(&mut self) {
        self.cursor = self.right_of();
    }

    pub(super) fn left_by_word(&mut self) {
        self.cursor = self.word_left();
    }

    pub(super) fn right_by_word(&mut self) {
        let mut words = self.after().split_word_bound_indices();
        let end = words.find(|(_, word)| !word.trim().is_empty()).map(|(at, word)| at + word.len());
        self.cursor = end.map_or(self.text.len(), |end| self.cursor + end);
    }

    /// To the beginning of the line.
    pub(super) fn home(&mut self) {
        self.cursor = self.line_start();
    }

    /// To the end of the line.
    pub(super) fn end(&mut self) {
        self.cursor = self.line_end();
    }

    /// What was written before. Only where nothing is lost by it: in an empty line, or in one that was recalled.
    pub(super) fn older(&mut self) -> bool {
        if !self.is_empty() && self.recalled.is_none() {
            return false;
        }
        let next = self.recalled.unwrap_or(self.history.len()).checked_sub(1);
        if let Some(next) = next {
            self.recall(Some(next));
        }
        true
    }

    /// What was written after it; the last is the empty line.
    pub(super) fn newer(&mut self) -> bool {
        let Some(recalled) = self.recalled else { return false };
        self.recall(Some(recalled + 1).filter(|next| *next < self.history.len()));
        true
    }

    fn recall(&mut self, place: Option<usize>) {
        self.text.zeroize();
        if let Some(text) = place.and_then(|place| self.history.get(place)) {
            self.text.push_str(text);
        }
        self.cursor = self.text.len();
        self.recalled = place;
    }

    /// Takes the text out, and keeps it for [`Composer::older`].
    pub(super) fn take(&mut self) -> Zeroizing<String> {
        let text = self.take_secret();
        if self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        if self.history.len() > HISTORY_MAX {
            self.history.remove(0);
        }
        text
    }

    /// Takes the text out, and keeps nothing of it.
    pub(super) fn take_secret(&mut self) -> Zeroizing<String> {
        let text = self.text.clone();
        self.text.zeroize();
        (self.cursor, self.recalled) = (0, None);
        text
    }

    fn left_of(&self) -> usize {
        self.before().grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn right_of(&self) -> usize {
        self.cursor + self.after().graphemes(true).next().map_or(0, str::len)
    }

    fn word_left(&self) -> usize {
        let mut words = self.before().split_word_bound_indices();
        words.rfind(|(_, word)| !word.trim().is_empty()).map_or(0, |(at, _)| at)
    }

    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.cursor + self.after().find('\n').unwrap_or(self.after().len())
    }
}

#[cfg(test)]
mod tests {
    use sotto_protocol::TEXT_MAX;

    use super::Composer;

    fn with(text: &str) -> Composer {
        let mut composer = Composer::default();
        assert!(composer.insert(text));
        composer
    }

    #[test]
    fn a_sign_of_several_characters_is_moved_over_and_deleted_as_one() {
        let mut composer = with("aé你👨\u{200d}👩\u{200d}👧e\u{301}");
        composer.backspace();
        assert_eq!(composer.text(), "aé你👨\u{200d}👩\u{200d}👧");
        composer.left();
        composer.left();
        assert_eq!(composer.before(), "aé");
        composer.delete();
        assert_eq!(composer.text(), "aé👨\u{200d}👩\u{200d}👧");
        composer.delete();
        assert_eq!((composer.text(), composer.before()), ("aé", "aé"));
        composer.delete();
        composer.right();
        assert_eq!(composer.text(), "aé");
        composer.home();
        composer.backspace();
        composer.left();
        assert_eq!((composer.text(), composer.before()), ("aé", ""));
    }

    #[test]
    fn words_and_lines_are_deleted_and_moved_over() {
        let mut composer = with("one  two, three ");
        composer.delete_word();
        assert_eq!(composer.text(), "one  two, ");
        composer.left_by_word();
        assert_eq!(composer.before(), "one  two");
        composer.left_by_word();
        assert_eq!(composer.before(), "one  ");
        composer.delete_word();
        assert_eq!((composer.text(), composer.before()), ("two, ", ""));
        composer.right_by_word();
        assert_eq!(composer.before(), "two");
        composer.delete_to_end();
        assert_eq!(composer.text(), "two");
        composer.insert("\nsecond line");
        composer.left_by_word();
        composer.delete_to_start();
        assert_eq!(composer.text(), "two\nline");
        composer.end();
        assert_eq!(composer.before(), "two\nline");
        composer.home();
        assert_eq!(composer.before(), "two\n");
        composer.delete_word();
        assert_eq!(composer.text(), "line");
    }

    #[test]
    fn what_was_written_comes_again_and_nothing_that_is_written_is_lost_by_it() {
        let mut composer = Composer::default();
        for text in ["one", "two", "two"] {
            composer.insert(text);
            assert_eq!(*composer.take(), text);
        }
        composer.insert("draft");
        assert!(!composer.older());
        assert_eq!(composer.text(), "draft");
        composer.delete_to_start();
        composer.older();
        assert_eq!(composer.text(), "two");
        composer.older();
        composer.older();
        assert_eq!(composer.text(), "one");
        composer.newer();
        composer.newer();
        assert!(composer.is_empty() && !composer.newer());
        composer.older();
        composer.insert("!");
        assert!(!composer.older() && !composer.newer());
        assert_eq!(composer.text(), "two!");
        composer.delete_to_start();
        composer.insert("secret");
        assert_eq!(*composer.take_secret(), "secret");
        composer.older();
        assert_eq!(composer.text(), "two");
    }

    #[test]
    fn a_text_is_never_longer_than_a_text_may_be() {
        let mut composer = with(&"x".repeat(TEXT_MAX - 1));
        assert!(!composer.insert("é"));
        assert!(composer.insert("y"));
        assert!(!composer.insert("z"));
        assert_eq!((composer.text().len(), composer.text.capacity()), (TEXT_MAX, TEXT_MAX));
    }
}
