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

#[cfg(test)]
mod tests {
    use super::{window, window_length};

    /// Positions that are not searched lose boxes, and those that are too many make a false mapping easier.
    #[test]
    fn six_deviations_are_searched_on_both_sides_and_no_position_that_is_none() {
        assert_eq!([0, 10, 100, 10_000, 32_768].map(window_length), [0, 10, 67, 607, 1093]);
        let half = u64::MAX / 2 + 1;
        assert_eq!(window(half, 10_000, 303), (5_000 - 303, 5_000 + 303 + 1));
        assert_eq!([0, u64::MAX].map(|order| window(order, 10_000, 303)), [(0, 304), (9_696, 10_000)]);
        assert_eq!(window(half, 10, 8), (0, 10));
    }
}
