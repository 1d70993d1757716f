//! Clients against an honest, a lossy and a lying server, all in memory.

mod attack;
mod blocks;
mod crashes;
mod crowding;
mod disturbances;
mod finder;
mod groups;
mod handshake;
mod invitations;
mod malice;
mod pairs;
mod restored;
mod rotation;
mod slots;
mod versions;
mod world;

/// The seeds to play: so many in the gate, or those that are asked for by `SOTTO_SEEDS=N`, from `SOTTO_SEED_FIRST` on.
fn seeds(gate: u64) -> core::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let first = number("SOTTO_SEED_FIRST").unwrap_or(0);
    first..first + number("SOTTO_SEEDS").unwrap_or(gate)
}

/// Of these moments at which something may happen, those to play: every `step`th in the gate, all of them where seeds are
/// asked for.
fn moments<T>(all: impl IntoIterator<Item = T>, step: usize) -> impl Iterator<Item = T> {
    let step = if std::env::var_os("SOTTO_SEEDS").is_some() { 1 } else { step };
    all.into_iter().step_by(step)
}
