//! A figure's part of the report.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::figure::Figure;
use super::item::Item;
use crate::machine::{self, Machine};
use crate::table::Table;

/// A figure's part of the report; its chart lies beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::figures) struct Section {
    pub(in crate::figures) item: Item,
    pub(in crate::figures) table: Table,
    pub(in crate::figures) shows: String,
    pub(in crate::figures) differs: String,
    pub(in crate::figures) made: Made,
}

/// By what, when and where a figure was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::figures) struct Made {
    pub(in crate::figures) machine: Machine,
    commit: Option<String>,
    pub(in crate::figures) command: String,
    /// Year, month, day.
    pub(in crate::figures) date: String,
    seconds: f64,
    pub(in crate::figures) quick: bool,
}

impl Section {
    /// The part of a figure that was just made.
    pub(in crate::figures) fn new(item: Item, figure: Figure, took: Duration, quick: bool) -> Self {
        let Figure { table, shows, differs, svg: _ } = figure;
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
        Self { item, table, shows, differs, made }
    }

    pub(in crate::figures) fn svg_name(&self) -> String {
        format!("{}.svg", self.item.file_stem())
    }
}

impl Made {
    pub(in crate::figures) fn duration(&self) -> String {
        let seconds = self.seconds.ceil() as u64;
        if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
    }

    pub(in crate::figures) fn commit(&self) -> &str {
        self.commit.as_deref().unwrap_or("unknown")
    }

    pub(in crate::figures) fn size(&self) -> &'static str {
        if self.quick { "quick: smaller than the paper's, to see that everything works" } else { "full" }
    }
}

/// What both forms of the report say at their heads.
pub(in crate::figures) const TITLE: &str = "Figures of the paper, measured again";
pub(in crate::figures) const INTRODUCTION: &str = "The figures of \"PIR with compressed queries and amortized query processing\" that are made \
    by this project's own code, with the paper's values beside ours. Times depend on the machine; the paper's servers \
    had 16 cores at 3.6 GHz (Intel Xeon E5-2667), its clients 16 at 2.4 GHz.";
