//! The engines that a server can run.

use core::fmt;
use std::sync::Arc;

use mpir::{Engine, Voce, VoceApart, VoceHint};
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
    /// The engine, which arranges its rounds by a preference; SealPIR knows none.
    #[must_use]
    pub fn engine(self, preference: Preference) -> Arc<dyn Engine> {
        let preference = preference.into();
        match self {
            Self::Sealpir => mpir::sealpir(),
            Self::Voce => Arc::new(Voce::preferring(preference)),
            Self::VoceHint => Arc::new(VoceHint::preferring(preference)),
            Self::VoceApart => Arc::new(VoceApart::preferring(preference)),
        }
    }
}

/// What Voce's rounds are arranged for: the more columns a database has, the more there is to pack, and the shorter are queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Preference {
    /// The least work and memory for the server, with longer queries.
    Time,
    /// Between the two.
    #[default]
    Balanced,
    /// The fewest bytes for clients, with more work and memory for the server.
    Bytes,
}

impl Preference {
    /// As it is written on command lines and in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Balanced => "balanced",
            Self::Bytes => "bytes",
        }
    }
}

impl From<Preference> for mpir::Preference {
    fn from(preference: Preference) -> Self {
        match preference {
            Preference::Time => Self::Time,
            Preference::Balanced => Self::Balanced,
            Preference::Bytes => Self::Bytes,
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

    use mpir::Form;

    use super::{EngineName, Preference};

    #[test]
    fn every_engine_that_has_several_arrangements_heeds_what_is_preferred() {
        for engine in EngineName::value_variants() {
            let heeds = [500, 2_351, 8_448, 22_528, 90_112].into_iter().any(|elements| {
                let form = Form { buckets: 96, elements, element_bytes: 288 };
                let profile = |preference| engine.engine(preference).profile(form).unwrap();
                profile(Preference::Time) != profile(Preference::Bytes)
            });
            assert_eq!(heeds, *engine != EngineName::Sealpir, "{engine}");
        }
    }

    #[test]
    fn every_engine_has_one_name_on_command_lines_and_in_files_and_clients_know_what_it_announces() {
        for engine in EngineName::value_variants() {
            let name = engine.to_string();
            assert_eq!(EngineName::from_str(&name, false), Ok(*engine));
            assert_eq!(serde_json::to_string(engine).unwrap(), format!("{name:?}"));
            assert!(mpir::Engines::default().get(engine.engine(Preference::default()).name()).is_some());
        }
    }
}
