//! Announcing the manifest key that follows.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use sotto_wire::RootKey;

use crate::announcement;
use crate::rounds::Rounds;

/// Where the next announcement is, and who puts it into the log.
pub(crate) struct NextKey {
    directory: PathBuf,
    root: RootKey,
    rounds: Rounds,
}

/// What is announced now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rotated {
    /// The first round that the next key signs.
    pub(crate) first: u64,
}

/// The round that takes deposits now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenRound {
    /// Its number.
    pub(crate) round: u64,
}

impl NextKey {
    pub(crate) fn new(directory: PathBuf, root: RootKey, rounds: Rounds) -> Self {
        Self { directory, root, rounds }
    }

    async fn announce(&self) -> anyhow::Result<Rotated> {
        let next = announcement::next(&self.directory, &self.root)?;
        let next = next.with_context(|| {
            format!(
                "{} is not there: 'sottod keys rotate' makes it",
                self.directory.join(announcement::NEXT).display()
            )
        })?;
        let first = self.rounds.announce(next).await.map_err(|refused| anyhow!(refused))?;
        Ok(Rotated { first: first.0 })
    }

    async fn open_round(&self) -> anyhow::Result<OpenRound> {
        let round = self.rounds.current().await.map_err(|refused| anyhow!(refused.to_string()))?;
        Ok(OpenRound { round: round.0 })
    }
}

/// Announces what lies in the data directory.
pub(super) async fn run(next: Option<&NextKey>) -> anyhow::Result<Rotated> {
    next.context("this server has no rounds")?.announce().await
}

/// Says which round is open.
pub(super) async fn open_round(next: Option<&NextKey>) -> anyhow::Result<OpenRound> {
    next.context("this server has no rounds")?.open_round().await
}
