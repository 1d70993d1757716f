//! What clients draw: secrets, errors, and encryptions under the public matrix.

use pir_core::constant_time::equal;
use pulp::Arch;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use subtle::ConditionallySelectable;
use zeroize::Zeroizing;

use super::matrix::public_column;

/// Standard deviation of the error before it is made an integer, sigma (paper section 4.2).
pub(crate) const DEVIATION: f64 = 6.4;

/// No error is larger; what lies beyond has a probability below 2^-63.
const LARGEST: usize = 60;

/// `exp(-1 / (2 sigma^2))`.
const RATIO: f64 = 0.987_867_172_314_000_3;

/// `thresholds[k]`, of 63 bits: below it with the probability that an error's magnitude is at most k.
///
/// They are made by multiplications and divisions alone, which give the same bits on every machine.
fn thresholds() -> [u64; LARGEST] {
    // The weight of k is ratio^(k^2): the next one is that times ratio^(2 k + 1).
    let (mut weights, mut weight, mut factor) = ([0.0; LARGEST + 1], 1.0, RATIO);
    for (k, place) in weights.iter_mut().enumerate() {
        // Both signs, but for 0, which has none.
        *place = if k == 0 { weight } else { 2.0 * weight };
        weight *= factor;
        factor *= RATIO * RATIO;
    }
    // The small ones first, so that nothing of them is lost.
    let total: f64 = weights.iter().rev().sum();
    let mut above = 0.0;
    let mut thresholds = [0; LARGEST];
    for k in (0..LARGEST).rev() {
        above += weights[k + 1];
        thresholds[k] = (1 << 63) - (above / total * 9_223_372_036_854_775_808.0) as u64;
    }
    thresholds
}

/// The generator of a client's own seed for one purpose.
pub(crate) fn own(seed: &[u8; 32], stream: u64) -> ChaCha20Rng {
    let mut rng = ChaCha20Rng::from_seed(*seed);
    rng.set_stream(stream);
    rng
}

/// So many uniform words.
pub(crate) fn uniform(count: usize, seed: &[u8; 32], stream: u64) -> Zeroizing<Vec<u32>> {
    let mut rng = own(seed, stream);
    Zeroizing::new((0..count).map(|_| rng.next_u32()).collect())
}

/// Discrete Gaussian errors of parameter [`DEVIATION`]: for each 8 bytes, of which the highest bit is the sign. No branch
/// and no memory access depends on what is drawn.
pub(crate) fn errors(count: usize, seed: &[u8; 32], stream: u64) -> Zeroizing<Vec<u32>> {
    let (mut rng, thresholds) = (own(seed, stream), thresholds());
    let draw = |_| {
        let word = rng.next_u64();
        let magnitude: u64 =
            thresholds.iter().map(|threshold| (threshold.wrapping_sub((word & !SIGN) + 1)) >> 63).sum();
        let negative = (word >> 63) as u32;
        // The two's complement of what is to be negative.
        (magnitude as u32 ^ negative.wrapping_neg()).wrapping_add(negative)
    };
    Zeroizing::new((0..count).map(draw).collect())
}

const SIGN: u64 = 1 << 63;

/// Where each of some queries has its message, and under which secret.
pub(crate) struct Ask<'a> {
    pub(crate) secret: &'a [u32],
    pub(crate) errors: &'a [u32],
    /// Which word encrypts 1; the others encrypt 0.
    pub(crate) chosen: usize,
}

/// `A s + e + delta u` of each query (paper section 4.1, Query), where `A` has as many columns as a secret has words, and as
/// many rows as there are errors. A column of A is made once for all queries.
pub(crate) fn encrypt(seed: &[u8; 32], delta: u32, asks: &[Ask<'_>]) -> Vec<Zeroizing<Vec<u32>>> {
    let message = |ask: &Ask<'_>| {
        let word = |(place, error): (usize, &u32)| {
            error.wrapping_add(u32::conditional_select(&0, &delta, equal(place, ask.chosen)))
        };
        Zeroizing::new(ask.errors.iter().enumerate().map(word).collect::<Vec<u32>>())
    };
    let mut queries: Vec<_> = asks.iter().map(message).collect();
    let length = queries.iter().map(|query| query.len()).max().unwrap_or(0);
    let degree = asks.first().map_or(0, |ask| ask.secret.len());
    let (mut column, arch) = (vec![0; length], Arch::new());
    for number in 0..degree {
        public_column(seed, number, &mut column);
        for (query, ask) in queries.iter_mut().zip(asks) {
            let (secret, query) = (ask.secret[number], &mut query[..]);
            arch.dispatch(
                #[inline(always)]
                || {
                    for (word, public) in query.iter_mut().zip(&column) {
                        *word = word.wrapping_add(public.wrapping_mul(secret));
                    }
                },
            );
        }
    }
    queries
}

/// `sum of H[k] s[k]` of one row of a hint, whose words are little-endian.
#[inline(always)]
pub(crate) fn mask(hint: &[u8], secret: &[u32]) -> u32 {
    let words = hint.as_chunks::<4>().0.iter().zip(secret);
    words
        .fold(0, |sum: u32, (word, secret)| sum.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(*secret)))
}

#[cfg(test)]
mod tests {
    use super::{DEVIATION, LARGEST, RATIO, errors, thresholds};

    #[test]
    fn errors_have_the_distribution_that_security_and_noise_are_computed_for() {
        assert!((RATIO - (-1.0 / (2.0 * DEVIATION * DEVIATION)).exp()).abs() < 1e-16);
        let thresholds = thresholds();
        assert!(thresholds.is_sorted() && thresholds[LARGEST - 1] <= 1 << 63);
        let weight = |k: f64| (-k * k / (2.0 * DEVIATION * DEVIATION)).exp();
        let total: f64 = (-200..=200).map(|k| weight(f64::from(k))).sum();
        let mut sum = 0.0;
        for (k, threshold) in thresholds.iter().enumerate() {
            sum += if k == 0 { 1.0 } else { 2.0 * weight(k as f64) };
            assert!((*threshold as f64 / 63f64.exp2() - sum / total).abs() < 1e-14, "{k}");
        }

        let errors: Vec<f64> =
            errors(1 << 18, &[7; 32], 3).iter().map(|error| f64::from(*error as i32)).collect();
        let moment =
            |power: i32| errors.iter().map(|error| error.powi(power)).sum::<f64>() / errors.len() as f64;
        assert!(moment(1).abs() < 0.06, "{}", moment(1));
        assert!((moment(2).sqrt() - DEVIATION).abs() < 0.05, "{}", moment(2).sqrt());
        assert!((moment(4) / moment(2).powi(2) - 3.0).abs() < 0.06, "{}", moment(4));
    }
}
