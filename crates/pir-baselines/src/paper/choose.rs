//! The search for the largest plaintext modulus.

use pir_core::Error;
use pir_core::noise::MAXIMUM_FAILURE_LOG2;

use super::kernel::DEGREE;
use super::noise;
use super::shape::Parameters;

impl<const T: u32> Parameters<T> {
    /// **Without any demand on security**: for reproductions of the paper alone, in one or two dimensions.
    ///
    /// The plaintext modulus t' is the largest power of two that satisfies Equation (1) with `log t = T` and whose failure
    /// bound is 2^-40; in the paper's words, t is lowered where the result would not always decrypt.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, an element is empty or longer than a plaintext, or no such t'.
    pub fn new_allowing_insecure_parameters(
        elements: usize,
        element_bytes: usize,
        dimensions: usize,
    ) -> Result<Self, Error> {
        if elements == 0 || element_bytes == 0 || !(1..=2).contains(&dimensions) {
            return Err(Error::Shape("an empty database, or neither one dimension nor two"));
        }
        let bytes = elements.checked_mul(element_bytes).filter(|bytes| *bytes <= 1 << 44);
        bytes.ok_or(Error::Shape("database too large"))?;
        (2..=T)
            .rev()
            .map(|plaintext_bits| Self { elements, element_bytes, dimensions, plaintext_bits })
            .filter(|parameters| parameters.elements_per_plaintext() > 0)
            .find(|parameters| {
                parameters.rows() <= DEGREE
                    && parameters.plaintext_bits + parameters.levels()[0] <= T
                    && noise::failure_log2(parameters) <= MAXIMUM_FAILURE_LOG2
            })
            .ok_or(Error::Shape("too many elements, or too long ones"))
    }
}
