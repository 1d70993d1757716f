//! From labels to positions: how a reader finds out what to ask of which bucket.

mod bloom;
mod lookup;

pub(crate) use bloom::FALSE_POSITIVES;
pub use bloom::{BloomMapping, MAPPING_HEADER_BYTES};
pub use lookup::{Lookup, Outcome, Reading, Sought, Targets};

/// The positions to search for a key in a bucket of `count` elements sorted by a uniform key: six standard deviations,
/// each at most `sqrt(count) / 2`, around `order * count / 2^64`, and at least 8 positions either way.
fn window(order: u64, count: usize) -> core::ops::Range<usize> {
    let half = half_window(count);
    // Below `count`, so it fits.
    let centre = ((u128::from(order) * count as u128) >> 64) as usize;
    centre.saturating_sub(half)..centre.saturating_add(half + 1).min(count)
}

/// The most positions that are searched in a bucket of `count` elements.
pub(crate) fn window_length(count: usize) -> usize {
    (2 * half_window(count) + 1).min(count)
}

fn half_window(count: usize) -> usize {
    (3 * (count.isqrt() + 1)).max(8)
}
