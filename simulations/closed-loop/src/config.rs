//! What is to be run.

use anyhow::ensure;
use serde::Serialize;
use sotto_measuring::code::CodeName;
use sotto_measuring::cpu::cores;
use sotto_measuring::engine::EngineName;
use sotto_protocol::{CodeKind, ServerParameters};
use sottod::Preference;

use crate::lines::GATHER_MS;

/// What to run.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Config {
    /// Users, the real clients included: each has one message in every round.
    #[arg(long, default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    pub users: u32,
    /// Real clients.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub clients: u32,
    /// Messages that each of them retrieves per round (k).
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub retrieve: u16,
    /// Rounds that are measured, after one that is not.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The PIR engine.
    #[arg(long, value_enum, default_value_t)]
    #[serde(skip)]
    pub engine: EngineName,
    /// With Voce, what its rounds are arranged for.
    #[arg(long, value_enum, default_value_t)]
    pub prefer: Preference,
    /// The batch code: single, hybrid, cuckoo, or partitioned, with which boxes are found by slots and not by labels.
    #[arg(long, value_enum, default_value_t)]
    pub code: CodeName,
    /// Threads that compute in the server [default: as many as there are cores].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    #[serde(skip)]
    pub threads: Option<u16>,
    /// How long the server waits for more requests to answer together, up to 16, ms. Clients that share its machine may be slower
    /// to ask than those of a deployment; latencies grow with it.
    #[arg(long, default_value_t = GATHER_MS, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    #[serde(skip)]
    pub gather_ms: u64,
    /// Leave out the bare stages with which each round is compared: half the memory, and no overhead is told.
    #[arg(long)]
    #[serde(skip)]
    pub without_bare: bool,
    /// Seed of all messages, keys and choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Config {
    /// Whether it can be run.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Self { users, clients, retrieve, engine, prefer, .. } = *self;
        ensure!(users >= clients, "{clients} clients are among the users: there must be as many users");
        ensure!(
            users - clients >= u32::from(retrieve) - 1,
            "a client retrieves one message of another client and {} of simulated users, of whom there are {}",
            retrieve - 1,
            users - clients
        );
        ensure!(
            !engine.is_insecure(),
            "no server runs the paper's parameters: they offer less than 128 bits of security"
        );
        ensure!(
            engine.packs() || prefer == Preference::Balanced,
            "--prefer is for voce, voce-hint and voce-apart: other engines have one arrangement"
        );
        // There are at most 1,024 buckets.
        let most = match self.code.kind()? {
            CodeKind::Single | CodeKind::Cuckoo | CodeKind::Partitioned | CodeKind::Standing => {
                ServerParameters::RETRIEVE_MAX
            }
            CodeKind::Hybrid => ServerParameters::BUCKETS_MAX / 9,
        };
        ensure!(
            retrieve <= most,
            "with this batch code a client retrieves at most {most} messages per round"
        );
        Ok(())
    }

    /// The server's threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or_else(cores, usize::from)
    }
}
