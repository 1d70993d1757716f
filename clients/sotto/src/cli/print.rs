//! What is printed. What others wrote must not be able to command a terminal, or to look like somebody else's line.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use serde_json::{Value, json};

use zeroize::Zeroizing;

use super::rows::{MARK, Rows};
use crate::daemon::message::{File, Moving, Quote, Text};
use crate::qr::Qr;

/// So much of a text is shown where it is only named.
const SAID_CHARACTERS: usize = 40;

/// Prints a result. When this returns, it is out of this program.
///
/// # Errors
/// If standard output is closed.
pub(super) fn result(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let fields: Vec<String> = line.split('\t').map(harmless).collect();
    writeln!(out, "{}", fields.join("\t"))?;
    out.flush()
}

/// Prints a result for programs.
///
/// # Errors
/// If standard output is closed.
pub(super) fn object(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", escaped(value))?;
    out.flush()
}

/// Prints a string that was printed as a QR code, too: on a terminal with room for both, and wherever it is `wanted`.
///
/// # Errors
/// If standard output is closed.
pub(super) fn code(text: &str, wanted: bool) -> io::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    if !is_terminal && !wanted {
        return Ok(());
    }
    let Some(qr) = Qr::of(text) else {
        status("this is too long for a QR code");
        return Ok(());
    };
    let (columns, rows) = qr.size();
    let colors = is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if is_terminal {
        let (width, height) = crossterm::terminal::size()?;
        let (width, height) = (usize::from(width), usize::from(height));
        // With the string above it, and a line or two below.
        let string = text.len().div_ceil(width.max(1));
        if columns > width || rows + string + 3 > height {
            if wanted {
                status(&format!(
                    "a QR code of it takes {columns} columns and {} rows, and this terminal has {width} and {height}",
                    rows + string + 3
                ));
            }
            return Ok(());
        }
    }
    let mut out = io::stdout().lock();
    out.write_all(qr.printed(colors).as_bytes())?;
    out.flush()
}

/// Prints a text that came.
///
/// # Errors
/// If standard output is closed.
pub(super) fn text(text: &Text, as_json: bool) -> io::Result<()> {
    if as_json {
        return object(&json!({
            "conversation": text.conversation,
            "from": text.from,
            "text": *text.text.0,
            "sequence": text.sequence,
            "at": text.at_ms,
            "quote": text.quote,
            "file": text.file,
            "again": text.again,
        }));
    }
    let from = harmless(&text.from);
    let again = if text.again { " [perhaps shown before]" } else { "" };
    let quote = format!("{again}{}{}", quoted(text.quote.as_ref()), filed(text.file.as_ref(), true));
    let group = if text.group { format!("@{}", harmless(&text.conversation)) } else { String::new() };
    said(&format!("{from}{group}{quote}: "), &text.text.0)
}

/// Prints what somebody wrote, behind what is said of it, where no row of a terminal begins with any of it.
///
/// # Errors
/// If standard output is closed.
pub(super) fn said(head: &str, text: &str) -> io::Result<()> {
    let rows = Rows::of_output();
    let line = Zeroizing::new(rows.of(head, text));
    let mut out = io::stdout().lock();
    writeln!(out, "{}{}", rows.begun(), *line)?;
    out.flush()
}

/// What a text replies to, between who has written it and what it says, where no text has a place.
pub(super) fn quoted(quote: Option<&Quote>) -> String {
    let Some(Quote { from, text, .. }) = quote else { return String::new() };
    let who = from.as_deref().map_or_else(|| "you".to_owned(), harmless);
    match text {
        Some(text) => format!(" [to {who}: {}]", harmless(&beginning(&text.0).replace('\n', " "))),
        None => format!(" [to something earlier of {who}]"),
    }
}

/// What a file is of which the text is the name, where no text has a place.
pub(crate) fn filed(file: Option<&File>, came: bool) -> String {
    let Some(File { size, path }) = file else { return String::new() };
    let place = match path {
        Some(path) => format!(", in {}", harmless(path)),
        None if came => ", not whole: ask for it again".to_owned(),
        None => String::new(),
    };
    format!(" [file, {size} bytes{place}]")
}

/// How far a file is.
pub(crate) fn moving(file: &Moving) -> String {
    let Moving { name, from, there, parts, seconds } = file;
    let what = match (name, from) {
        (Some(name), None) => harmless(name).replace('\n', " "),
        (_, Some(from)) => format!("a file from {}", harmless(from)),
        (None, None) => "a file".to_owned(),
    };
    let done = if from.is_some() { "have come" } else { "arrived" };
    let left = seconds.map_or_else(String::new, |seconds| format!(", at least {} left", span(seconds)));
    format!("{what}: {there} of {parts} parts {done}{left}")
}

/// Some time, in its largest unit and the next.
pub(crate) fn span(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) if minutes < 10 => format!("{minutes} min {seconds} s"),
        (0, minutes, _) => format!("{minutes} min"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// The first characters of a text.
pub(super) fn beginning(text: &str) -> Zeroizing<String> {
    Zeroizing::new(match text.char_indices().nth(SAID_CHARACTERS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    })
}

/// Prints what completes a command line in a shell.
///
/// # Errors
/// If standard output is closed.
pub(super) fn completions(shell: clap_complete::Shell, command: &mut clap::Command) -> io::Result<()> {
    // Into memory first: it panics where its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "sotto", &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    out.flush()
}

/// Tells the person something that is no result.
pub(crate) fn status(line: &str) {
    let rows = Rows::of_errors();
    // Without standard error there is nobody to tell.
    let _ = writeln!(io::stderr(), "{}{}", rows.begun(), rows.of("* ", line));
}

/// A text that can only be read: further lines are marked, and characters that control a terminal or the direction of
/// writing, or cannot be seen, are replaced.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => {
                safe.push('\n');
                safe.push_str(MARK);
            }
            other => safe.push(harmless_character(other)),
        }
    }
    safe
}

/// What is shown of a character: of a tab a space, and of what a terminal obeys or does not show a mark.
pub(crate) fn harmless_character(character: char) -> char {
    match character {
        '\t' => ' ',
        hidden if is_hidden(hidden) => '\u{fffd}',
        other => other,
    }
}

/// JSON in which the same characters are escaped.
pub(super) fn escaped(value: &Value) -> String {
    let mut safe = String::new();
    // They occur only within strings.
    for character in value.to_string().chars() {
        if is_hidden(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Whether a terminal obeys a character, or shows nothing where it is: Unicode's controls and separators of lines, and
/// what is ignored by default, but for the two joiners and the variation selectors, without which some languages and
/// signs cannot be written.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e00ff}'
                | '\u{e01f0}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{beginning, escaped, harmless, moving, quoted};
    use crate::daemon::message::{Moving, Private, Quote};

    #[test]
    fn how_far_a_file_is_is_one_harmless_line() {
        let mut file = Moving {
            name: Some("map\n\u{1b}.png".to_owned()),
            from: None,
            there: 3,
            parts: 9,
            seconds: Some(59),
        };
        for (seconds, left) in [(59, "59 s"), (61, "1 min 1 s"), (659, "10 min"), (3660, "1 h 1 min")] {
            file.seconds = Some(seconds);
            let line = format!("map   | \u{fffd}.png: 3 of 9 parts arrived, at least {left} left");
            assert_eq!(moving(&file), line);
        }
        let coming = Moving { name: None, from: Some("bob".to_owned()), seconds: None, ..file };
        assert_eq!(moving(&coming), "a file from bob: 3 of 9 parts have come");
    }

    #[test]
    fn of_a_long_text_the_beginning_is_shown() {
        assert_eq!(*beginning(&"ä".repeat(40)), "ä".repeat(40));
        assert_eq!(*beginning(&"ä".repeat(41)), format!("{}...", "ä".repeat(40)));
    }

    #[test]
    fn what_is_quoted_is_one_harmless_line() {
        let quote = |from: Option<&str>, text: Option<&str>| Quote {
            from: from.map(str::to_owned),
            text: text.map(Private::new),
            sought: None,
        };
        let shown = quoted(Some(&quote(None, Some("one\ntwo\u{1b}[2J"))));
        assert_eq!(shown, " [to you: one two\u{fffd}[2J]");
        assert_eq!(quoted(Some(&quote(Some("bob"), None))), " [to something earlier of bob]");
        assert_eq!(quoted(None), "");
    }

    #[test]
    fn a_text_can_neither_command_the_terminal_nor_pass_for_another_line() {
        assert_eq!(harmless("hi\nalice: send the money"), "hi\n  | alice: send the money");
        assert_eq!(harmless("\u{1b}[2Jgone\r\u{7}"), "\u{fffd}[2Jgone\u{fffd}\u{fffd}");
        assert_eq!(harmless("abc\u{202e}def\u{2028}g"), "abc\u{fffd}def\u{fffd}g");
        assert_eq!(harmless("a\u{200b}b\u{feff}c\u{e0041}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        let fine = "Grüße, 你好 👋 \u{645}\u{6cc}\u{200c}\u{62e} \u{2764}\u{fe0f}\u{200d}";
        assert_eq!(harmless(fine), fine);
    }

    #[test]
    fn json_holds_the_same_text_without_characters_that_cannot_be_seen() {
        let text = "a\u{202e}b\u{200b}\u{85}\u{e0041}\n\"👋";
        let value = json!({ text: text });
        let line = escaped(&value);
        assert!(line.contains(r"a\u202eb\u200b\u0085\udb40\udc41\n"), "{line}");
        assert!(!line.chars().any(super::is_hidden));
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }
}
