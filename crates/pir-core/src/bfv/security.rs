//! Estimates of security, and with them what is admitted.
//!
//! For a uniform ternary secret, errors of standard deviation 3.2 and more, and 300 N samples; the least of the primal
//! (usvp, bdd), hybrid and dual-hybrid attacks, under the cost model of MATZOV, classical. Provenance and what other
//! models say: `docs/PARAMETERS.md`.

/// Degree, log2 of the modulus rounded up, and the estimate in bits, rounded down; by degree, then by modulus.
///
/// The modulus is all that anything is encrypted under: keys for key switching that live modulo Q times a special prime
/// count with both.
const ESTIMATES: [(usize, u32, u32); 14] = [
    (1024, 26, 131),
    (1024, 27, 126),
    (1024, 28, 121),
    (1024, 30, 113),
    (1024, 32, 106),
    (2048, 36, 193),
    (2048, 50, 137),
    (2048, 52, 131),
    (2048, 53, 128),
    (2048, 54, 126),
    (2048, 60, 113),
    (4096, 106, 128),
    (4096, 109, 125),
    (8192, 218, 125),
];

/// Estimated security in bits of a uniform ternary secret in degree `degree` under a modulus of so many bits.
///
/// A shorter modulus is never less secure, so between two estimates the one for the longer modulus holds; beyond the
/// last one of a degree, and for a degree without any, it is 0.
#[must_use]
pub fn security_bits(degree: usize, modulus_bits: u32) -> u32 {
    let admits = |entry: &&(usize, u32, u32)| entry.0 == degree && modulus_bits <= entry.1;
    ESTIMATES.iter().find(admits).map_or(0, |entry| entry.2)
}

#[cfg(test)]
mod tests {
    use super::{ESTIMATES, security_bits};

    /// An entry out of order would hide those behind it.
    #[test]
    fn security_never_grows_with_the_modulus() {
        assert!(ESTIMATES.is_sorted());
        for degree in [1024, 2048, 4096, 8192] {
            let bits: Vec<u32> = (1..=500).map(|modulus| security_bits(degree, modulus)).collect();
            assert!(bits.is_sorted_by(|shorter, longer| shorter >= longer));
        }
    }

    #[test]
    fn the_longest_moduli_of_128_bits_are_those_documented() {
        let longest = |degree| (1..=1000).rev().find(|bits| security_bits(degree, *bits) >= 128);
        let expected = [(512, None), (1024, Some(26)), (2048, Some(53)), (4096, Some(106)), (8192, None)];
        for (degree, limit) in expected {
            assert_eq!(longest(degree), limit, "{degree}");
        }
        assert_eq!([50, 36, 60].map(|bits| security_bits(2048, bits)), [137, 193, 113]);
    }
}
