//! Texts in rows. What is shown passes here, and with it the filter of characters that may not be shown.

use unicode_segmentation::UnicodeSegmentation as _;

use crate::cli::print::harmless_character;
pub(super) use crate::columns::columns;

/// Longest sign that is drawn, in bytes: more marks on one letter would be drawn over other lines.
const SIGN_MAX: usize = 48;
const REPLACED: &str = "\u{fffd}";

/// A text as it may be shown: lines stay lines.
pub(super) fn shown(text: &str) -> String {
    text.chars()
        .map(|character| if character == '\n' { '\n' } else { harmless_character(character) })
        .collect()
}

/// A name as it may be shown: one line, cut to so many columns.
pub(super) fn name(name: &str, most: usize) -> String {
    let line: String = name.chars().map(harmless_character).collect();
    cut(&line, most)
}

/// The beginning of a line that has been made [`shown`], in so many columns, marked if it is not all.
pub(super) fn cut(line: &str, most: usize) -> String {
    if columns(line) <= most {
        return line.to_owned();
    }
    let mut kept = String::new();
    let mut taken = 0;
    for sign in line.graphemes(true) {
        taken += columns(sign);
        if taken >= most {
            break;
        }
        kept.push_str(sign);
    }
    if most > 0 {
        kept.push('…');
    }
    kept
}

/// Rows of at most `width` columns, broken at spaces where that is possible. An empty text has one row.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut rows = Vec::new();
    for line in shown(text).split('\n') {
        wrap_line(line, width, &mut rows);
    }
    rows
}

fn wrap_line(line: &str, width: usize, rows: &mut Vec<String>) {
    let mut row = String::new();
    let mut taken = 0;
    // Where the row can be broken, in bytes, behind a space.
    let mut space = None;
    for sign in line.graphemes(true) {
        let sign = if sign.len() > SIGN_MAX || columns(sign) > width { REPLACED } else { sign };
        let wide = columns(sign);
        if taken + wide > width {
            if sign == " " {
                // It stays at the end of the full row, where nobody sees it.
                rows.push(core::mem::take(&mut row));
                (taken, space) = (0, None);
                continue;
            }
            let rest = space.map_or_else(String::new, |at| row.split_off(at));
            rows.push(core::mem::replace(&mut row, rest).trim_end_matches(' ').to_owned());
            (taken, space) = (columns(&row), None);
        }
        row.push_str(sign);
        taken += wide;
        if sign == " " {
            space = Some(row.len());
        }
    }
    rows.push(row);
}

#[cfg(test)]
mod tests {
    use super::{columns, cut, name, wrap};

    #[test]
    fn rows_break_at_spaces_and_never_exceed_their_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("a-very-long-word and", 6), ["a-very", "-long-", "word", "and"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("a\n\nb", 5), ["a", "", "b"]);
        for width in 2..20 {
            for row in wrap("Grüße, 你好世界 👨\u{200d}👩\u{200d}👧 ends herewithoutanyspaceatall", width)
            {
                assert!(columns(&row) <= width, "{row} in {width}");
            }
        }
    }

    #[test]
    fn a_sign_of_two_columns_is_not_cut_in_half() {
        assert_eq!(wrap("你好世", 3), ["你", "好", "世"]);
        assert_eq!(wrap("你好世", 4), ["你好", "世"]);
        assert_eq!(cut("你好世界", 5), "你好…");
        assert_eq!(cut("你好世界", 4), "你…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_comes_through() {
        let evil = "a\u{1b}[2Jb\u{202e}c\u{200b}d\te\r\u{7}";
        assert_eq!(wrap(evil, 40), ["a\u{fffd}[2Jb\u{fffd}c\u{fffd}d e\u{fffd}\u{fffd}"]);
        assert_eq!(name("al\nice\u{1b}", 20), "al\u{fffd}ice\u{fffd}");
        let piled = format!("a{}b", "\u{301}".repeat(500));
        assert_eq!(wrap(&piled, 40), ["\u{fffd}b"]);
    }
}
