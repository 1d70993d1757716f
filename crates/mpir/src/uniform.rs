//! Random indices.

use pir_core::constant_time::public;
use rand_core::Rng;
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroizing;

/// What is asked of every bucket: the target or, where there is none, an element drawn uniformly. A number is drawn for every
/// bucket, and used where none is wanted, so that which there are shows in no branch, no access and no amount of randomness.
pub fn indices<R: Rng + ?Sized>(
    targets: &[Option<usize>],
    elements: usize,
    rng: &mut R,
) -> Zeroizing<Vec<usize>> {
    Zeroizing::new(targets.iter().map(|target| select(*target, uniform_below(elements, rng))).collect())
}

/// The target or, where there is none, the dummy; which of them it is must not show.
fn select(target: Option<usize>, dummy: usize) -> usize {
    let wanted = Choice::from(u8::from(target.is_some()));
    // Any value will do where it is not taken. With 0 this is a mask; the constant-time test watches that it stays one.
    let index = target.unwrap_or_default();
    u64::conditional_select(&(dummy as u64), &(index as u64), wanted) as usize
}

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
