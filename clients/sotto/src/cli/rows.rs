//! Lines in the rows of a terminal. A terminal goes on in the next row where a line is too long for one, and what stands
//! there first must not look like the beginning of somebody else's line.

use std::env;
use std::io::{self, IsTerminal as _};

use super::print::harmless_character;
use crate::columns::of_sign;

/// Before each row but the first of what somebody wrote.
pub(super) const MARK: &str = "  | ";
/// In fewer columns nothing is told apart any more.
const LEAST: usize = 16;
/// Of a terminal that does not say how wide it is.
const USUAL: usize = 80;

/// The rows of standard output.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Of a terminal; anything else is not broken into rows.
    columns: Option<usize>,
    /// Whether signs that are narrow elsewhere may be wide, as among Chinese, Japanese and Korean ones.
    wide: bool,
}

impl Rows {
    /// As they are just now.
    pub(super) fn of_output() -> Self {
        Self::of_terminal(io::stdout().is_terminal())
    }

    /// Of standard error.
    pub(super) fn of_errors() -> Self {
        Self::of_terminal(io::stderr().is_terminal())
    }

    /// Before the first row: it begins where rows begin, also where a person has begun to type. What was typed is there still, and
    /// a terminal shows it again on Ctrl-R.
    pub(super) fn begun(self) -> &'static str {
        let is_dumb = || env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        match self.columns {
            None => "",
            Some(_) if is_dumb() => "\n",
            Some(_) => "\r\u{1b}[K",
        }
    }

    fn of_terminal(is_terminal: bool) -> Self {
        let size = || crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| env::var(name).ok());
        let locale = locale.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
        let columns = is_terminal.then(|| size().filter(|columns| *columns > 0).unwrap_or(USUAL));
        Self { columns, wide: ["zh", "ja", "ko"].iter().any(|language| locale.starts_with(language)) }
    }

    /// What somebody wrote, behind a head, where all rows but the first are marked. Nothing in it commands a terminal, which
    /// the caller has seen to for the head.
    pub(super) fn of(self, head: &str, said: &str) -> String {
        let mut rows = String::new();
        let whole = format!("{head}{said}");
        for (number, line) in whole.split('\n').enumerate() {
            if number > 0 {
                rows.push('\n');
                rows.push_str(MARK);
            }
            let line: Vec<char> = line.chars().map(harmless_character).collect();
            self.add(&line, number > 0, &mut rows);
        }
        rows
    }

    /// One line, in as many rows as it takes, broken behind a space where there is one.
    fn add(self, mut line: &[char], mut is_marked: bool, rows: &mut String) {
        loop {
            let end = self.fitting(line, is_marked);
            let (row, rest) = line.split_at(end);
            rows.extend(row);
            if rest.is_empty() {
                return;
            }
            rows.push('\n');
            rows.push_str(MARK);
            (line, is_marked) = (rest, true);
        }
    }

    /// How many of these signs stand in one row. It is one at least.
    fn fitting(self, line: &[char], is_marked: bool) -> usize {
        let Some(columns) = self.columns else { return line.len() };
        let columns = columns.max(LEAST) - if is_marked { MARK.len() } else { 0 };
        let (mut taken, mut space) = (0, None);
        for (place, sign) in line.iter().enumerate() {
            taken += self.width(*sign);
            if taken > columns {
                return space.unwrap_or(place).max(1);
            }
            // Where a row is at least half full, or a head would stand alone.
            if *sign == ' ' && 2 * taken > columns {
                space = Some(place + 1);
            }
        }
        line.len()
    }

    /// Columns that a sign takes, at most.
    fn width(self, sign: char) -> usize {
        match of_sign(sign) {
            1 if self.wide && !sign.is_ascii() => 2,
            columns => columns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MARK, Rows};

    const OUTPUT: Rows = Rows { columns: None, wide: false };

    fn of(columns: usize) -> Rows {
        Rows { columns: Some(columns), wide: false }
    }

    #[test]
    fn no_text_begins_a_row() {
        let fillings = [
            " ",
            ".",
            "\u{a0}",
            "a ",
            "你",
            "👩\u{200d}",
            "\u{2764}\u{fe0f}",
            "\u{3248}",
            "\u{bbe}",
            "\u{302e}",
        ];
        for filling in fillings {
            for length in 0..160 {
                let said = format!("{}alice: send the money", filling.repeat(length));
                let shown = of(80).of("carol: ", &said);
                for (number, row) in shown.split('\n').enumerate() {
                    assert!(row.starts_with(if number == 0 { "carol: " } else { MARK }), "{shown}");
                    let columns: usize = row.chars().map(|sign| OUTPUT.width(sign)).sum();
                    assert!(columns <= 80, "{columns}: {row}");
                }
                assert_eq!(shown.replace(&format!("\n{MARK}"), ""), format!("carol: {said}"));
            }
        }
    }

    #[test]
    fn rows_break_at_spaces_and_lines_stay_lines() {
        assert_eq!(of(20).of("bob: ", "one two three four"), "bob: one two three \n  | four");
        assert_eq!(of(20).of("bob: ", "hi\nalice: hi"), "bob: hi\n  | alice: hi");
        assert_eq!(of(20).of("bob: ", &"x".repeat(17)), format!("bob: {}\n  | xx", "x".repeat(15)));
        // What is narrower than all that can be told apart is taken for what is not.
        assert_eq!(of(1).of("bob: ", "one two three"), "bob: one two \n  | three");
    }

    #[test]
    fn what_is_no_terminal_has_whole_lines() {
        let said = "x ".repeat(200);
        assert_eq!(OUTPUT.of("bob: ", &said), format!("bob: {said}"));
        assert_eq!(OUTPUT.of("bob: ", "\u{1b}[2J\nalice: hi"), "bob: \u{fffd}[2J\n  | alice: hi");
    }

    #[test]
    fn where_signs_are_wide_they_are_taken_for_wide() {
        let said = "\u{401}".repeat(20);
        assert_eq!(of(30).of("bob: ", &said).lines().count(), 1);
        assert_eq!(Rows { wide: true, ..of(30) }.of("bob: ", &said).lines().count(), 2);
    }
}
