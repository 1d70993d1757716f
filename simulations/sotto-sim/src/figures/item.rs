//! What can be made.

use core::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A figure of the paper, or what is ours; in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
pub(super) enum Item {
    #[value(name = "5")]
    Figure5,
    #[value(name = "9")]
    Figure9,
    #[value(name = "10")]
    Figure10,
    #[value(name = "11")]
    Figure11,
    #[value(name = "12")]
    Figure12,
    #[value(name = "13")]
    Figure13,
    #[value(name = "14")]
    Figure14,
    #[value(name = "15")]
    Figure15,
    /// How costs grow with the collection and with the batch.
    Scaling,
    /// All engines in rounds of the chat.
    Engines,
    /// SimplePIR's claims, and batches of its queries.
    Linear,
    /// PSIR's tables, and its figure of latencies.
    Stateful,
    /// Spiral's tables II and III.
    Spiral,
    /// The voice calls of Spiral's paper.
    Voice,
}

impl Item {
    /// For people.
    pub(super) fn name(self) -> String {
        match self.title() {
            Some(title) => title.to_owned(),
            None => format!("Figure {self}"),
        }
    }

    /// Of what has no number.
    const fn title(self) -> Option<&'static str> {
        Some(match self {
            Self::Scaling => "Scaling",
            Self::Engines => "Engines",
            Self::Linear => "Linear",
            Self::Stateful => "Stateful",
            Self::Spiral => "Spiral",
            Self::Voice => "Voice",
            _ => return None,
        })
    }

    /// Of all its files.
    pub(super) fn file_stem(self) -> String {
        if self.title().is_some() { self.to_string() } else { format!("figure-{self}") }
    }

    /// Whether a file of this stem would be a part of a report, of this version or another.
    pub(super) fn names_file(stem: &str) -> bool {
        stem.starts_with("figure-") || Self::value_variants().iter().any(|item| stem == item.file_stem())
    }
}

/// As on the command line.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
