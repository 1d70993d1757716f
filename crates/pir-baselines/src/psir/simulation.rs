//! How many queries the blocks of a client serve.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::{IntoParallelIterator, ParallelIterator};

/// Runs of which one generator draws all blocks.
const BATCH: u64 = 1000;

/// A database, and blocks of random records of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// n.
    pub records: u64,
    /// k - 1: records of a block, any set of them as probable as any other.
    pub members: u64,
    /// c.
    pub blocks: u32,
}

/// Queries of records drawn at random that the blocks serve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Serviced {
    /// In the mean over all runs.
    pub average: f64,
    /// In the worst run.
    pub minimum: u32,
}

/// Asks for random records until there is no block left, so many times. Every query takes the next block that does not hold
/// its record, and throws those before away.
///
/// Whether a block holds a record is drawn when it is asked, and of each block it is asked once: a set that is uniform among
/// those of `members` records holds a record that was chosen without it with probability `members / records`.
///
/// # Panics
/// If there are no records, or no runs.
#[must_use]
pub fn simulate(setting: Setting, runs: u64, seed: u64) -> Serviced {
    assert!(setting.records > 0 && runs > 0, "a database, and runs");
    let batch = |number: u64| {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(number);
        let runs = BATCH.min(runs - number * BATCH);
        let mut serves = |_: &u32| below(&mut rng, setting.records) >= setting.members;
        let serviced = |_| (0..setting.blocks).filter(&mut serves).count() as u32;
        (0..runs).map(serviced).fold((0, u32::MAX), of_both)
    };
    let (sum, minimum) = (0..runs.div_ceil(BATCH))
        .into_par_iter()
        .map(batch)
        .reduce(|| (0, u32::MAX), |a, b| (a.0 + b.0, a.1.min(b.1)));
    Serviced { average: sum as f64 / runs as f64, minimum }
}

fn of_both((sum, minimum): (u64, u32), serviced: u32) -> (u64, u32) {
    (sum + u64::from(serviced), minimum.min(serviced))
}

/// A number below a bound, drawn at random: the product's high half, of which the bias is below `bound / 2^64`.
fn below(rng: &mut ChaCha20Rng, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    use super::super::{Init, Shape};
    use super::{Setting, simulate};

    #[test]
    fn as_many_blocks_are_lost_as_hold_what_is_asked() {
        let all = simulate(Setting { records: 9, members: 0, blocks: 40 }, 1500, 1);
        assert_eq!((all.average, all.minimum), (40.0, 40));
        let none = simulate(Setting { records: 9, members: 9, blocks: 40 }, 1500, 1);
        assert_eq!((none.average, none.minimum), (0.0, 0));
        let third = simulate(Setting { records: 9, members: 3, blocks: 60 }, 4000, 1);
        assert!((third.average - 40.0).abs() < 0.5 && (15..32).contains(&third.minimum), "{third:?}");
    }

    /// What is simulated is what clients do: real blocks, of random sets, and queries for random records.
    #[test]
    fn real_blocks_serve_as_many_queries() {
        let shape = Shape::new(500, 1).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let (mut serviced, runs) = (0, 60);
        for _ in 0..runs {
            let mut init = Init::new(&shape, 50, &mut rng);
            init.stream(&[0; 500]).unwrap();
            let mut state = init.finish().unwrap();
            while state.take(rng.next_u32() as usize % 500, &mut rng).is_some() {
                serviced += 1;
            }
        }
        let setting = Setting { records: shape.parts() as u64, members: 1, blocks: 50 };
        let expected = simulate(setting, 10_000, 3).average;
        let average = f64::from(serviced) / f64::from(runs);
        // Both are 50 (1 - 1/p) in the mean; the first one with a standard deviation of 0.25, under a fixed seed.
        assert!((average - expected).abs() < 0.8, "{average}, {expected}");
    }
}
