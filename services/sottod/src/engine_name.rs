//! The engines that a server can run.

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
    /// Nearly everything is computed once per round for all clients, who download a public hint.
    VoceHint,
}

impl EngineName {
    /// The engine.
    #[must_use]
    pub fn engine(self) -> Arc<dyn Engine> {
        match self {
            Self::Sealpir => mpir::sealpir(),
            Self::VoceHint => mpir::voce_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::EngineName;

    /// The names of the command line are those of the registry, by which clients find the engine.
    #[test]
    fn every_engine_is_called_by_the_name_that_it_announces() {
        for name in EngineName::value_variants() {
            let value = name.to_possible_value().unwrap();
            assert_eq!(value.get_name(), name.engine().name());
            assert!(mpir::Engines::default().get(value.get_name()).is_some());
            assert_eq!(serde_json::to_string(name).unwrap(), format!("{:?}", value.get_name()));
        }
    }
}
