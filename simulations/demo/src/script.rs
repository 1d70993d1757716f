//! Who takes part, what they say, and the ledger of what must arrive where.

use std::collections::HashMap;

/// The named participants: the first two talk one to one, the others in a group.
pub(crate) const NAMES: [&str; 6] = ["Alice", "Bob", "Carol", "Dave", "Erin", "Frank"];
/// Name of the group.
pub(crate) const GROUP: &str = "desk";
/// How many of [`NAMES`] talk one to one.
const PAIR: usize = 2;

const LINES: [[&str; 6]; 6] = [
    [
        "Are you there?",
        "I have the documents.",
        "Forty pages, scanned.",
        "Not by mail.",
        "Tonight, then.",
        "Good.",
    ],
    [
        "I am here.",
        "How many?",
        "Can you bring them?",
        "Same place as last time?",
        "I shall wait.",
        "Until then.",
    ],
    [
        "The draft is ready for reading.",
        "Chapter two needs a second source.",
        "Legal wants the names out.",
        "I moved the chart to page three.",
        "Headline suggestions?",
        "Ready when you are.",
    ],
    [
        "Reading it now.",
        "I know somebody for chapter two.",
        "Names are out.",
        "The chart looks better there.",
        "Keep the headline plain.",
        "I sign off.",
    ],
    [
        "Half way through.",
        "The second source agrees to talk.",
        "Legal is content.",
        "Numbers in the chart are checked.",
        "Plain is good.",
        "Signed off.",
    ],
    [
        "Morning, all.",
        "Photographs are in.",
        "Captions follow.",
        "One photograph is withdrawn.",
        "Captions done.",
        "Send it.",
    ],
];

/// A line one participant says.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Place in [`NAMES`].
    pub(crate) speaker: usize,
    /// Places in [`NAMES`] of those who must receive it.
    pub(crate) listeners: Vec<usize>,
    /// What is said; no speaker says the same twice.
    pub(crate) text: String,
}

/// Everything that is said in `rounds` rounds, one line per participant and round, in order.
pub(crate) fn lines(rounds: u32) -> Vec<Line> {
    let mut lines = Vec::new();
    for round in 0..rounds as usize {
        for (speaker, own) in LINES.iter().enumerate() {
            let line = own[round % own.len()];
            let text = if round < own.len() {
                line.to_owned()
            } else {
                format!("{line} ({})", round / own.len() + 1)
            };
            lines.push(Line { speaker, listeners: listeners(speaker), text });
        }
    }
    lines
}

/// Whether this participant talks one to one.
pub(crate) fn in_pair(participant: usize) -> bool {
    participant < PAIR
}

fn listeners(speaker: usize) -> Vec<usize> {
    let side = if in_pair(speaker) { 0..PAIR } else { PAIR..NAMES.len() };
    side.filter(|&participant| participant != speaker).collect()
}

/// How an arrival compares with the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Expected, and for the first time; others still wait for it.
    Expected,
    /// Expected, and now everybody has it.
    Complete,
    /// Expected, but already here.
    Duplicate,
    /// Nobody said this to this listener.
    Altered,
}

/// What must arrive where, and what did.
#[derive(Debug)]
pub(crate) struct Ledger {
    lines: Vec<Line>,
    /// (speaker, listener, text) to the number of arrivals.
    arrivals: HashMap<(usize, usize, String), u32>,
    duplicated: u32,
    altered: u32,
}

/// The ledger's bottom line; a line counts as delivered once all its listeners have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) sent: u32,
    pub(crate) delivered: u32,
    pub(crate) duplicated: u32,
    pub(crate) altered: u32,
}

impl Tally {
    /// Lines that did not reach everybody.
    pub(crate) fn lost(&self) -> u32 {
        self.sent - self.delivered
    }

    /// Whether everything arrived everywhere, unaltered and once.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost() == 0 && self.duplicated == 0 && self.altered == 0
    }
}

impl Ledger {
    pub(crate) fn new(lines: Vec<Line>) -> Self {
        let arrivals = lines
            .iter()
            .flat_map(|line| {
                line.listeners.iter().map(|&listener| ((line.speaker, listener, line.text.clone()), 0))
            })
            .collect();
        Self { lines, arrivals, duplicated: 0, altered: 0 }
    }

    /// Notes that `listener` received `text` from somebody called `speaker`.
    pub(crate) fn arrive(&mut self, listener: usize, speaker: &str, text: &str) -> Arrival {
        let place = NAMES.iter().position(|&name| name == speaker);
        let entry = place.and_then(|speaker| self.arrivals.get_mut(&(speaker, listener, text.to_owned())));
        match entry {
            Some(count @ 0) => {
                *count = 1;
                let line = self.lines.iter().find(|line| Some(line.speaker) == place && line.text == text);
                if line.is_some_and(|line| self.has_arrived(line)) {
                    Arrival::Complete
                } else {
                    Arrival::Expected
                }
            }
            Some(count) => {
                *count += 1;
                self.duplicated += 1;
                Arrival::Duplicate
            }
            None => {
                self.altered += 1;
                Arrival::Altered
            }
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally {
            sent: u32::try_from(self.lines.len()).unwrap_or(u32::MAX),
            delivered: u32::try_from(self.lines.iter().filter(|line| self.has_arrived(line)).count())
                .unwrap_or(u32::MAX),
            duplicated: self.duplicated,
            altered: self.altered,
        }
    }

    fn has_arrived(&self, line: &Line) -> bool {
        line.listeners.iter().all(|&listener| {
            self.arrivals.get(&(line.speaker, listener, line.text.clone())).is_some_and(|&count| count > 0)
        })
    }

    /// What has not arrived, for people to read.
    pub(crate) fn missing(&self) -> Vec<String> {
        let missing =
            self.arrivals.iter().filter(|(_, count)| **count == 0).map(|((speaker, listener, text), _)| {
                format!("{} has not received from {}: {text}", NAMES[*listener], NAMES[*speaker])
            });
        missing.collect()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.arrivals.values().all(|&count| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_unique_to_its_speaker() {
        let lines = lines(20);
        let mut seen = std::collections::HashSet::new();
        assert!(lines.iter().all(|line| seen.insert((line.speaker, line.text.clone()))));
        assert_eq!(lines.len(), 20 * NAMES.len());
    }

    #[test]
    fn losses_duplicates_and_alterations_are_counted() {
        let mut ledger = Ledger::new(lines(1));
        assert_eq!(ledger.tally().lost(), 6);
        let hello = ledger.lines[0].text.clone();
        assert_eq!(ledger.arrive(1, "Alice", &hello), Arrival::Complete);
        assert_eq!(ledger.arrive(1, "Alice", &hello), Arrival::Duplicate);
        assert_eq!(ledger.arrive(1, "Alice", "something else"), Arrival::Altered);
        assert_eq!(ledger.arrive(1, "Mallory", &hello), Arrival::Altered);
        // Heard by one of three members is not delivered.
        let group = ledger.lines[2].text.clone();
        assert_eq!(ledger.arrive(3, "Carol", &group), Arrival::Expected);
        let tally = ledger.tally();
        assert_eq!((tally.delivered, tally.lost(), tally.duplicated, tally.altered), (1, 5, 1, 2));
        assert!(!tally.is_clean() && !ledger.is_complete());
    }

    #[test]
    fn all_arrivals_make_a_clean_ledger() {
        let mut ledger = Ledger::new(lines(3));
        for line in lines(3) {
            for &listener in &line.listeners {
                ledger.arrive(listener, NAMES[line.speaker], &line.text);
            }
        }
        assert!(ledger.is_complete() && ledger.tally().is_clean());
        assert_eq!(ledger.tally().sent, 18);
    }
}
