//! From labels to positions: how a reader finds out what to ask of which bucket.

mod bloom;
mod filters;
mod lookup;

pub(crate) use bloom::FALSE_POSITIVES;
pub use bloom::{BloomMapping, MAPPING_HEADER_BYTES};
pub use lookup::{Lookup, Outcome, Reading, Sought, Targets};

/// The most positions that are searched in a bucket of `count` elements.
pub(crate) fn window_length(count: usize) -> usize {
    (2 * half_window(count) + 1).min(count)
}

/// How many positions are searched either way of `order * count / 2^64`, where a key with a uniform order is expected: six
/// standard deviations, each at most `sqrt(count) / 2`, and at least 8.
fn half_window(count: usize) -> usize {
    (3 * (count.isqrt() + 1)).max(8)
}
