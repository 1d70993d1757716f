//! What a figure is, and its part of the report.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use sotto_measuring::machine::{self, Machine};
use sotto_measuring::table::Table;
use time::OffsetDateTime;

use super::item::Item;

/// What comes of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Figure {
    pub(super) table: Table,
    /// In a file of its own.
    #[serde(skip)]
    pub(super) svg: String,
    /// What it shows.
    pub(super) shows: String,
    /// What differs from the paper's figure, and why.
    pub(super) differs: String,
}

/// A figure's part of the report; its chart lies beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) item: Item,
    #[serde(flatten)]
    pub(super) figure: Figure,
    pub(super) made: Made,
}

/// By what, when and where a figure was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) machine: Machine,
    commit: Option<String>,
    pub(super) command: String,
    /// Year, month, day.
    pub(super) date: String,
    seconds: f64,
    pub(super) quick: bool,
}

impl Section {
    /// The part of a figure that was just made.
    pub(super) fn new(item: Item, figure: Figure, took: Duration, quick: bool) -> Self {
        let release = if cfg!(debug_assertions) { "" } else { " --release" };
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let made = Made {
            machine: Machine::here(),
            commit: machine::commit(),
            command: format!("cargo run{release} -p sotto-sim -- {}", arguments.join(" ")),
            date: OffsetDateTime::now_utc().date().to_string(),
            seconds: took.as_secs_f64(),
            quick,
        };
        Self { item, figure, made }
    }
}

impl Made {
    pub(super) fn duration(&self) -> String {
        let seconds = self.seconds.ceil() as u64;
        if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
    }

    pub(super) fn commit(&self) -> &str {
        self.commit.as_deref().unwrap_or("unknown")
    }

    pub(super) fn size(&self) -> &'static str {
        if self.quick { "quick: smaller than the paper's, to see that everything works" } else { "full" }
    }
}
