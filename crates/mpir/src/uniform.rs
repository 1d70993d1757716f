//! Random indices.

use pir_core::constant_time::public;
use rand_core::Rng;

/// A number below `bound`, exactly uniform; 0 if `bound` is 0.
///
/// Of a random word times `bound` the upper half is the number; a word whose lower half is below `2^64 mod bound` would
/// favour some numbers and is drawn again, which happens with probability below `bound / 2^64`.
pub(crate) fn uniform_below<R: Rng + ?Sized>(bound: usize, rng: &mut R) -> usize {
    let bound = bound as u64;
    let excess = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        // Whether a word is thrown away says nothing about the next one.
        if public(product as u64 >= excess) {
            // Below `bound`, which came from a usize.
            return (product >> 64) as usize;
        }
    }
}
