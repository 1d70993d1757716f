//! Packing by Equation (1) of the paper (section 6), and the square that the plaintexts are arranged in.

use pir_core::{Error, bfv};

use super::format::{HEADER_BYTES, POLYNOMIAL_BYTES};
use super::kernel::{DEGREE, Q_BITS};

/// Everything both ends must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<const T: u32> {
    pub(super) elements: usize,
    pub(super) element_bytes: usize,
    pub(super) dimensions: usize,
    /// log2 t'.
    pub(super) plaintext_bits: u32,
}

impl<const T: u32> Parameters<T> {
    /// Refuses: this lattice has less than 128 bits of security.
    ///
    /// # Errors
    /// [`Error::Security`], always.
    pub fn new(_elements: usize, _element_bytes: usize) -> Result<Self, Error> {
        Err(Error::Security { bits: security_bits() })
    }

    /// Number of elements n.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Bytes per element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// d, 1 or 2.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// log2 t'.
    #[must_use]
    pub fn plaintext_bits(&self) -> u32 {
        self.plaintext_bits
    }

    /// Elements in one plaintext, `alpha = floor(N log(t') / beta)`.
    #[must_use]
    pub fn elements_per_plaintext(&self) -> usize {
        self.plaintext_bytes() / self.element_bytes
    }

    /// Plaintexts, `n_fv = ceil(n / alpha)`.
    #[must_use]
    pub fn plaintexts(&self) -> usize {
        self.elements.div_ceil(self.elements_per_plaintext())
    }

    /// Selectors of the first dimension: the d-th root of the number of plaintexts, rounded up.
    #[must_use]
    pub fn rows(&self) -> usize {
        let plaintexts = self.plaintexts();
        if self.dimensions == 1 {
            plaintexts
        } else {
            plaintexts.isqrt() + usize::from(!is_square(plaintexts))
        }
    }

    /// Selectors of the second dimension, 1 if there is none.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.plaintexts().div_ceil(self.rows())
    }

    /// Levels of EXPAND for the rows and for the columns: `ceil(log2)` of their number.
    #[must_use]
    pub fn levels(&self) -> [u32; 2] {
        [self.rows(), self.columns()].map(|selectors| selectors.next_power_of_two().ilog2())
    }

    /// F: plaintexts that a ciphertext is split into between the dimensions.
    #[must_use]
    pub fn expansion_factor(&self) -> usize {
        2 * Q_BITS.div_ceil(self.plaintext_bits) as usize
    }

    /// Ciphertexts in an answer: `F^(d-1)`.
    #[must_use]
    pub fn answer_ciphertexts(&self) -> usize {
        if self.dimensions == 1 { 1 } else { self.expansion_factor() }
    }

    /// Size of a query, bytes: a ciphertext for each dimension.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        HEADER_BYTES + self.dimensions * 2 * POLYNOMIAL_BYTES
    }

    /// Size of an answer, bytes.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        HEADER_BYTES + self.answer_ciphertexts() * 2 * POLYNOMIAL_BYTES
    }

    /// Selectors of each of the d dimensions, with their levels of EXPAND.
    pub(super) fn selectors(&self) -> impl Iterator<Item = (usize, u32)> {
        [self.rows(), self.columns()].into_iter().zip(self.levels()).take(self.dimensions)
    }

    /// Bytes that fit a plaintext, `N log2(t') / 8`.
    pub(super) fn plaintext_bytes(&self) -> usize {
        DEGREE * self.plaintext_bits as usize / 8
    }
}

fn is_square(x: usize) -> bool {
    x.isqrt().pow(2) == x
}

/// By the rule of [`bfv::Parameters`].
pub(super) fn security_bits() -> u32 {
    bfv::security_bits(DEGREE, Q_BITS)
}
