//! What 'sotto run' shows: one line on a terminal, and below no more than happens. Nothing of what is said, or with whom.

use core::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::print::{harmless, status};

const TICK: Duration = Duration::from_millis(250);

/// Hidden without a terminal, and in a detached process.
pub(super) struct Face {
    bar: Option<ProgressBar>,
}

impl Face {
    pub(super) fn new(detached: bool) -> Self {
        Self { bar: (!detached).then(ProgressBar::new_spinner) }
    }

    pub(super) fn online(&self, server: &str, name: &str, stay: Option<Duration>) {
        let Some(bar) = &self.bar else { return };
        let end = match stay {
            Some(stay) => format!("leaves in {} s", stay.as_secs()),
            None => "stays until Ctrl-C or 'sotto stop'".to_owned(),
        };
        status(&format!("online at {server} as {name}; {end}"));
        if let Ok(style) = ProgressStyle::with_template("{spinner:.green} {msg:.dim}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
    }

    pub(super) fn note(&self, line: &str) {
        if let Some(bar) = &self.bar {
            bar.suspend(|| status(line));
        }
    }

    pub(super) fn round(&self, line: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(harmless(line));
        }
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
