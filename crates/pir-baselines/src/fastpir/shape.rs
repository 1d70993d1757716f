//! How records lie in plaintexts, and the choice of t and of the answer's size.

use pir_core::Error;
use pir_core::noise::MAXIMUM_FAILURE_LOG2;
use pir_core::ring::bits::packed_bytes;

use super::batching::Batching;
use super::encoding::{HEADER_BYTES, SEED_BYTES, polynomial_bytes};
use super::lattice::{DEGREE, Lattice, PLACES};
use super::noise;

/// No query is larger: about 5 million records, 3.6 million with the paper's primes.
pub const MAXIMUM_QUERY_BYTES: usize = 64 << 20;

/// Bits of an answer's coefficients beyond those of t: from as few as a rounding takes up.
const ANSWER_MARGIN_BITS: core::ops::RangeInclusive<u32> = 7..=13;

/// Everything both ends must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<const Q: u32> {
    elements: usize,
    element_bytes: usize,
    /// Bits of an element that a value of a plaintext holds.
    value_bits: u32,
    /// Bits of each coefficient of the answer.
    answer_bits: u32,
}

impl<const Q: u32> Parameters<Q> {
    /// With the longest values, and then the shortest answer, whose failure bound is 2^-40.
    ///
    /// # Errors
    /// [`Error::Security`] for the paper's primes; [`Error::Shape`] if there is no element, an element is empty, or there are
    /// too many or too long ones.
    pub fn new(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        let bits = Lattice::of::<Q>().security_bits();
        if bits < 128 {
            return Err(Error::Security { bits });
        }
        Self::new_allowing_insecure_parameters(elements, element_bytes)
    }

    /// **Without any demand on security**: for reproductions of the paper alone. Values have 20 bits there, as in the paper,
    /// for every database that a query fits.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::new`].
    pub fn new_allowing_insecure_parameters(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        if elements == 0 || element_bytes == 0 {
            return Err(Error::Shape("an empty database"));
        }
        // Far above any use, and far below where a size could overflow.
        let bytes = elements.checked_mul(element_bytes).filter(|bytes| *bytes <= 1 << 44);
        bytes.ok_or(Error::Shape("database too large"))?;
        let of = |value_bits, answer_bits| Self { elements, element_bytes, value_bits, answer_bits };
        if of(20, 0).query_bytes() > MAXIMUM_QUERY_BYTES {
            return Err(Error::Shape("too many elements"));
        }
        Batching::all()
            .flat_map(|batching| {
                let t_bits = batching.modulus().bits();
                ANSWER_MARGIN_BITS.map(move |margin| of(batching.bits(), t_bits + margin))
            })
            .find(|parameters| noise::failure_log2(parameters) <= MAXIMUM_FAILURE_LOG2)
            .ok_or(Error::Shape("too much noise"))
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

    /// Bits of an element that a value of a plaintext holds, below log2 t.
    #[must_use]
    pub fn value_bits(&self) -> u32 {
        self.value_bits
    }

    /// t, a prime.
    #[must_use]
    pub fn plaintext_modulus(&self) -> u64 {
        self.batching().modulus().value()
    }

    /// Ciphertexts in a query, `ceil(2 n / N)`, each over as many plaintexts of every column.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.elements.div_ceil(PLACES)
    }

    /// Ciphertexts in an answer: 1 for elements of up to N values.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.values().div_ceil(DEGREE)
    }

    /// Columns of a group, each of two values of every element; at most N/2.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.values().div_ceil(2 * self.groups())
    }

    /// Bits of each coefficient of the answer.
    #[must_use]
    pub fn answer_coefficient_bits(&self) -> u32 {
        self.answer_bits
    }

    /// Size of a query, bytes.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        let row: usize = Lattice::of::<Q>().data().iter().map(polynomial_bytes).sum();
        // A number of elements that is too large gives a size that is too large.
        self.rows().saturating_mul(row).saturating_add(HEADER_BYTES + SEED_BYTES)
    }

    /// Size of an answer, bytes.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        HEADER_BYTES + self.groups() * self.group_bytes()
    }

    /// Bytes of the two polynomials of a group in an answer.
    pub(super) fn group_bytes(&self) -> usize {
        packed_bytes(2 * DEGREE, self.answer_bits)
    }

    /// The plaintext ring.
    pub(super) fn batching(&self) -> &'static Batching {
        Batching::of_bits(self.value_bits)
    }

    /// Bytes of an element with zeros behind it, as many as fill its values in all columns of all groups.
    pub(super) fn padded_bytes(&self) -> usize {
        packed_bytes(2 * self.groups() * self.columns(), self.value_bits)
    }

    /// Which value of an element stands in a row of a column's plaintext.
    pub(super) fn value_at(&self, group: usize, row: usize, column: usize) -> usize {
        (2 * group + row) * self.columns() + column
    }

    /// Values that an element takes.
    fn values(&self) -> usize {
        (8 * self.element_bytes).div_ceil(self.value_bits as usize)
    }
}
