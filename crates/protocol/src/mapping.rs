//! From labels to positions: how a reader finds out what to ask of which bucket.

mod bloom;
mod oracle;

use pbc::{BucketIndex, HashedCode};

use crate::Label;

pub use bloom::{BloomMapping, MAPPING_HEADER_BYTES};
pub use oracle::{LabelOracle, Outcome};

/// Positions of one bucket at which a label may stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// How many.
    pub count: usize,
    /// The lowest; 0 if there is none.
    pub first: usize,
    /// The highest; 0 if there is none.
    pub last: usize,
}

impl Hits {
    fn of(positions: impl Iterator<Item = usize>) -> Self {
        positions.fold(Self::default(), |hits, position| Self {
            count: hits.count + 1,
            first: if hits.count == 0 { position } else { hits.first },
            last: position,
        })
    }
}

/// A published mapping of one round.
///
/// A label that was deposited is found in every bucket that holds a copy of it, but for a chance below 2^-29 that it
/// stands outside the window searched; one that was not may seem to be there.
pub trait Mapping {
    /// The buckets that hold a copy of a label's box, in the code's order, with the positions at which it may stand.
    /// Where a code reads sums of boxes, the summands stand at the position of the copy ([`pbc::BatchCode::holder`]).
    fn lookup(&self, code: &dyn HashedCode, label: &Label) -> Vec<(BucketIndex, Hits)>;
}

/// The positions to search for a key in a bucket of `count` elements sorted by a uniform key: six standard deviations,
/// each at most `sqrt(count) / 2`, around `order * count / 2^64`, and at least 8 positions either way.
fn window(order: u64, count: usize) -> core::ops::Range<usize> {
    let half = (3 * (count.isqrt() + 1)).max(8);
    // Below `count`, so it fits.
    let centre = ((u128::from(order) * count as u128) >> 64) as usize;
    centre.saturating_sub(half)..centre.saturating_add(half + 1).min(count)
}
