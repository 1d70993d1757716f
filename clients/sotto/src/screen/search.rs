//! Finding a text in the open conversation.

use super::composer::Composer;
use super::thread::Thread;
use super::wrap::shown;

/// A search that goes on.
#[derive(Default)]
pub(super) struct Search {
    pub(super) query: Composer,
    /// The text that was found.
    pub(super) found: Option<u64>,
    /// Whether nothing was found in that direction.
    pub(super) failed: bool,
}

/// Whether a text contains what is sought, whatever the case of the letters.
pub(super) fn contains(text: &str, query: &str) -> bool {
    if query.is_empty() {
        return false;
    }
    if query.is_ascii() {
        let mut windows = text.as_bytes().windows(query.len());
        return windows.any(|window| window.eq_ignore_ascii_case(query.as_bytes()));
    }
    shown(text).to_lowercase().contains(&query.to_lowercase())
}

/// The newest text before a place that contains what is sought.
pub(super) fn older(thread: &Thread, before: u64, query: &str) -> Option<u64> {
    (thread.first()..before.min(thread.end())).rev().find(|text| holds(thread, *text, query))
}

/// The oldest text behind a place that contains what is sought.
pub(super) fn newer(thread: &Thread, behind: u64, query: &str) -> Option<u64> {
    (behind.saturating_add(1).max(thread.first())..thread.end()).find(|text| holds(thread, *text, query))
}

fn holds(thread: &Thread, text: u64, query: &str) -> bool {
    thread.get(text).is_some_and(|said| contains(&said.text, query))
}

#[cfg(test)]
mod tests {
    use super::contains;

    #[test]
    fn what_is_sought_is_found_whatever_its_case() {
        assert!(contains("Are you THERE?", "there"));
        assert!(contains("Grüße aus KÖLN", "köln"));
        assert!(!contains("there", "three") && !contains("the", "there") && !contains("there", ""));
    }
}
