//! Sizes in the encodings, and the digits of key switching.

use pir_core::ring::bits::packed_bytes;

use super::kernel::{DEGREE, Q_BITS};

/// Bytes of every header.
pub(super) const HEADER_BYTES: usize = 4;

/// Bytes of a polynomial.
pub(super) const POLYNOMIAL_BYTES: usize = packed_bytes(DEGREE, Q_BITS);

/// Version of the formats of keys, queries and answers.
pub(super) const VERSION: u8 = 1;

/// l and B: digits of key switching and the bits of each, together at least those of q.
///
/// The paper does not say which. Eight digits of 8 bits make the keys as large as those of the paper, 2.9 MB in words of
/// 64 bits; their noise is too much for log t = 23, which gets ten digits of 6 bits.
pub(super) const fn decomposition<const T: u32>() -> (u32, u32) {
    const { assert!(T == 20 || T == 23, "log t as in the paper's experiments") };
    if T == 20 { (8, 8) } else { (10, 6) }
}
