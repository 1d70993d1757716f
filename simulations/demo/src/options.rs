//! What can be chosen about the demonstration.

use sottod::EngineName;

/// What can be chosen about the demonstration.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Simulated users, who deposit cover in every round
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub(crate) users: u32,
    /// Messages each participant retrieves per round (k)
    #[arg(long, default_value_t = 4, value_name = "K", value_parser = clap::value_parser!(u16).range(3..=256))]
    pub(crate) retrieve: u16,
    /// What answers retrievals
    #[arg(long, value_enum, default_value = "sealpir")]
    pub(crate) engine: EngineName,
    /// Rounds of conversation; introductions come before them
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60))]
    pub(crate) rounds: u32,
    /// Print nothing but one JSON object, as the last line
    #[arg(long)]
    pub(crate) json: bool,
    /// Seed of all keys and cover of this demonstration; random if not given
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}
