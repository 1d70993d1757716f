//! What a chat prints. What others wrote must not be able to command a terminal, or to look like somebody else's line.

use std::collections::HashMap;
use std::io::{self, Write as _};

use serde_json::json;
use sotto_protocol::client::{MessageId, Notice, Warning};
use sotto_protocol::{ConversationId, ConversationKind, ConversationSummary};
use zeroize::Zeroizing;

use crate::{Event, RoundReport};

/// So much of a text is shown when it has arrived.
const SAID_CHARACTERS: usize = 40;

/// Prints arrivals to standard output and everything else to standard error.
pub(super) struct Printer {
    pub(super) json: bool,
    pub(super) verbose: bool,
    names: HashMap<ConversationId, (String, ConversationKind)>,
    /// How the texts begin that were typed here and have not arrived.
    said: HashMap<MessageId, Zeroizing<String>>,
}

impl Printer {
    pub(super) fn new(json: bool, verbose: bool, conversations: &[ConversationSummary]) -> Self {
        let name = |other: &ConversationSummary| (other.id, (other.name.clone(), other.kind));
        Self { json, verbose, names: conversations.iter().map(name).collect(), said: HashMap::new() }
    }

    /// Remembers how a text begins, to name it when it has arrived.
    pub(super) fn said(&mut self, message: MessageId, text: &str) {
        self.said.insert(message, Zeroizing::new(beginning(text)));
    }

    /// # Errors
    /// If standard output is closed.
    pub(super) fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Notice(Notice::Text { conversation, from, text, sequence, .. }) => {
                self.arrival(*conversation, from, text, *sequence)?;
            }
            Event::Notice(Notice::Established { conversation }) => {
                status(&format!("{} is there: texts can go out", self.name(*conversation)));
            }
            Event::Notice(Notice::Acknowledged { conversation, message }) => {
                let said = self.said.remove(message);
                let text = said.map_or_else(String::new, |text| format!(": {}", *text));
                status(&format!("arrived at {}{text}", self.name(*conversation)));
            }
            Event::Notice(Notice::Left { conversation, from }) => {
                status(&format!("{from} has left {}", self.name(*conversation)));
            }
            Event::Notice(Notice::Warning(warning)) => {
                status(&format!("warning{}: {warning}", self.about(warning)));
            }
            Event::Trouble { round: Some(round), trouble } => {
                status(&format!("warning: round {round}: {trouble}"));
            }
            Event::Trouble { round: None, trouble } => status(&format!("warning: {trouble}")),
            Event::ConnectionLost(error) => status(&format!("connection lost: {error}; trying again")),
            Event::ConnectionRestored => status("connected again"),
            Event::RoundReport(report) if self.verbose => status(&describe(report)),
            Event::RoundReport(_) => {}
            Event::Missed(count) => status(&format!("warning: {count} messages of this program were lost")),
        }
        Ok(())
    }

    fn arrival(&self, conversation: ConversationId, from: &str, text: &str, sequence: u32) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let name = self.name(conversation);
        if self.json {
            let line = json!({"conversation": name, "from": from, "text": text, "sequence": sequence});
            writeln!(out, "{line}")?;
        } else if self.is_group(conversation) {
            writeln!(out, "{}@{}: {}", harmless(from), harmless(name), harmless(text))?;
        } else {
            writeln!(out, "{}: {}", harmless(from), harmless(text))?;
        }
        out.flush()
    }

    fn name(&self, conversation: ConversationId) -> &str {
        self.names.get(&conversation).map_or("?", |(name, _)| name)
    }

    fn is_group(&self, conversation: ConversationId) -> bool {
        matches!(self.names.get(&conversation), Some((_, ConversationKind::Group)))
    }

    fn about(&self, warning: &Warning) -> String {
        match warning {
            Warning::SplitView { conversation }
            | Warning::Corrupted { conversation }
            | Warning::OtherKeys { conversation }
            | Warning::RekeyNeeded { conversation } => format!(" ({})", self.name(*conversation)),
            _ => String::new(),
        }
    }
}

/// Tells the person something that is no result.
pub(super) fn status(line: &str) {
    // Without standard error there is nobody to tell.
    let _ = writeln!(io::stderr(), "* {}", harmless(line));
}

/// The first characters of a text.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(SAID_CHARACTERS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A text that can only be read: further lines are marked, and characters that control a terminal or the direction of
/// writing are replaced.
fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => safe.push_str("\n  | "),
            '\t' => safe.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => {
                safe.push('\u{fffd}');
            }
            control if control.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

fn describe(report: &RoundReport) -> String {
    let up = report.keys.bytes + report.deposit.bytes + report.query.bytes;
    let down = report.mapping.bytes + report.answer.bytes;
    format!(
        "round {}: {} deposits; {} bytes up, {} bytes down; query {} ms, answer {} ms",
        report.round,
        report.entries,
        up,
        down,
        report.build.as_millis(),
        (report.query.time + report.answer.time).as_millis(),
    )
}

#[cfg(test)]
mod tests {
    use super::{beginning, harmless};

    #[test]
    fn of_a_long_text_the_beginning_is_shown() {
        assert_eq!(beginning(&"ä".repeat(40)), "ä".repeat(40));
        assert_eq!(beginning(&"ä".repeat(41)), format!("{}...", "ä".repeat(40)));
    }

    #[test]
    fn a_text_can_neither_command_the_terminal_nor_pass_for_another_line() {
        assert_eq!(harmless("hi\nalice: send the money"), "hi\n  | alice: send the money");
        assert_eq!(harmless("\u{1b}[2Jgone\r\u{7}"), "\u{fffd}[2Jgone\u{fffd}\u{fffd}");
        assert_eq!(harmless("abc\u{202e}def\u{2028}g"), "abc\u{fffd}def\u{fffd}g");
        assert_eq!(harmless("Grüße, 你好 👋"), "Grüße, 你好 👋");
    }
}
