//! From labels to positions: how a reader finds out what to ask of which bucket.

use pbc::oblivious::{below, select};

mod blocks;
mod bloom;
mod hits;
mod lookup;

pub(crate) use bloom::FALSE_POSITIVES;
pub use bloom::{BloomMapping, MAPPING_HEADER_BYTES};
pub use lookup::{Lookup, Outcome, Places, Reading, Sought, Targets};

/// The stretch of positions to search for a key in a bucket of `count` elements sorted by a uniform key, from the first on up
/// to before the second: so many around `order * count / 2^64`. No branch and no address tells which they are.
fn window(order: u64, count: u32, half: u32) -> (u32, u32) {
    // Below `count`, so it fits.
    let centre = ((u128::from(order) * u128::from(count)) >> 64) as u32;
    let first = select(below(centre, half), 0, centre.wrapping_sub(half));
    // Half a window is shorter than 2^18.
    let after = centre.saturating_add(half + 1);
    (first, select(below(after, count), after, count))
}

/// The most positions that are searched in a bucket of `count` elements.
pub(crate) fn window_length(count: usize) -> usize {
    (2 * half_window(count) + 1).min(count)
}

/// Six standard deviations, each at most `sqrt(count) / 2`, and at least 8 positions.
fn half_window(count: usize) -> usize {
    (3 * (count.isqrt() + 1)).max(8)
}
