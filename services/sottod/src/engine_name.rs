//! The engines that a server can run.

use core::fmt;
use std::sync::Arc;

use mpir::Engine;
use serde::{Deserialize, Serialize};

/// An engine of private retrieval, as operators name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
    /// Every query is answered by itself.
    #[default]
    Sealpir,
    /// Nearly everything is computed once per round for all clients.
    Voce,
    /// As voce, with less work for the server, more bytes, and a public hint that everybody downloads.
    VoceHint,
    /// As voce-hint, with a secret for every bucket: no answer depends on what another bucket was asked. More work and bytes.
    VoceApart,
}

impl EngineName {
    /// The engine.
    #[must_use]
    pub fn engine(self) -> Arc<dyn Engine> {
        match self {
            Self::Sealpir => mpir::sealpir(),
            Self::Voce => mpir::voce(),
            Self::VoceHint => mpir::voce_hint(),
            Self::VoceApart => mpir::voce_apart(),
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sealpir => "sealpir",
            Self::Voce => "voce",
            Self::VoceHint => "voce-hint",
            Self::VoceApart => "voce-apart",
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::EngineName;

    #[test]
    fn every_engine_has_one_name_on_command_lines_and_in_files_and_clients_know_what_it_announces() {
        for engine in EngineName::value_variants() {
            let name = engine.to_string();
            assert_eq!(EngineName::from_str(&name, false), Ok(*engine));
            assert_eq!(serde_json::to_string(engine).unwrap(), format!("{name:?}"));
            assert!(mpir::Engines::default().get(engine.engine().name()).is_some());
        }
    }
}
