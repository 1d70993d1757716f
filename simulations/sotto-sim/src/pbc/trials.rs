//! Counting failures by trying.

use pbc::BatchCode;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use rayon::prelude::{IntoParallelIterator, ParallelIterator};
use sotto_measuring::progress;

use super::code::{Code, Dimensions};

/// Batches that share one seed: a fresh code costs more than a fresh set of keys.
const TRIALS_PER_SEED: u64 = 1_000;

/// Where the hashes of the wanted keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A generator of random numbers.
    Drawn,
    /// Keys, by the code itself.
    Hashed,
}

impl Source {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Drawn => "hashes drawn at random",
            Self::Hashed => "keys hashed",
        }
    }
}

pub(crate) struct Count {
    pub(crate) failures: u64,
    pub(crate) trials: u64,
    pub(crate) last_seed: u64,
}

/// Tries `trials` batches, rounded up to whole seeds, on all threads of the pool.
pub(crate) fn count_failures(
    dimensions: Dimensions,
    source: Source,
    first_seed: u64,
    trials: u64,
) -> anyhow::Result<Count> {
    let code = Code::new(dimensions, [0; 32])?;
    let seeds = trials.div_ceil(TRIALS_PER_SEED).max(1);
    let progress = progress::bar(seeds as usize, "batches");
    let failures = (first_seed..first_seed.saturating_add(seeds))
        .into_par_iter()
        .map(|seed| {
            let failures = match source {
                Source::Drawn => drawn(&code, seed),
                Source::Hashed => hashed(dimensions, seed)?,
            };
            progress.inc(1);
            Ok(failures)
        })
        .sum::<anyhow::Result<u64>>();
    progress.finish_and_clear();
    let last_seed = first_seed.saturating_add(seeds - 1);
    Ok(Count { failures: failures?, trials: seeds * TRIALS_PER_SEED, last_seed })
}

fn drawn(code: &Code, seed: u64) -> u64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..TRIALS_PER_SEED).filter(|_| !code.batch.serves_batch(&mut || rng.next_u64())).count() as u64
}

fn hashed(dimensions: Dimensions, seed: u64) -> anyhow::Result<u64> {
    let mut round_seed = [0; 32];
    round_seed[..8].copy_from_slice(&seed.to_le_bytes());
    let code = Code::new(dimensions, round_seed)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut failures = 0;
    for _ in 0..TRIALS_PER_SEED {
        let elements = code.partitioned.as_ref().map(pbc::PartitionedCode::elements);
        let keys = keys(&*code.batch, elements, &mut rng);
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        failures += u64::from(!code.batch.schedule(&keys, &|_, _| true).is_complete());
    }
    Ok(failures)
}

/// Different keys, or different indices below `elements`.
fn keys(code: &dyn BatchCode, elements: Option<usize>, rng: &mut Xoshiro256PlusPlus) -> Vec<[u8; 8]> {
    let mut drawn = Vec::with_capacity(code.batch_size());
    while drawn.len() < code.batch_size().min(elements.unwrap_or(usize::MAX)) {
        let key = match elements {
            Some(n) => rng.random_range(0..n as u64),
            None => rng.random(),
        };
        if !drawn.contains(&key) {
            drawn.push(key);
        }
    }
    drawn.into_iter().map(u64::to_le_bytes).collect()
}
