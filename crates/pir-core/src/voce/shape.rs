//! How the buckets of a round are arranged, and the choice of an arrangement.

use core::ops::Range;

use super::noise;
use super::ring::{ANSWER_BITS, DEGREE, HINT_BITS, MODULUS_BITS, PLAINTEXT_BITS, QUERY_BITS};
use crate::Error;
use crate::ring::bits::packed_bytes;

/// Outputs that are computed at a time; an element takes a multiple of it.
pub(super) const BLOCK: usize = 16;

/// More columns are never worth their packing.
const MAXIMUM_COLUMNS: usize = 1024;

/// Version of the formats, first byte of a profile.
const VERSION: u8 = 1;

/// What a KiB that a client sends or receives is worth, in microseconds of a core.
const KIB: f64 = 15.0;
/// Cost of packing an output, microseconds for each client as measured with the kernel `avx512` (`docs/VOCE.md`).
const PACKED_OUTPUT: f64 = 0.078;
/// Cost of two coefficients of the database in the first dimension.
const PAIR: f64 = 4.2e-5;

/// The arrangement of every bucket: `rows` by `columns` elements, of which a query selects a row and an answer holds all
/// columns; and how many buckets are packed together, a *unit*.
///
/// Everything about an arrangement follows from the form of the buckets and the number of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    elements: usize,
    element_bytes: usize,
    columns: usize,
    buckets: usize,
}

impl Shape {
    /// The cheapest arrangement of so many buckets of so many elements, bytes being worth something: the least of
    /// `core time + 15 us for each KiB` of query, answer and hint, where these are counted for one bucket.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no bucket or element, elements are empty or above 2,304 bytes, or there are too many.
    pub fn choose(buckets: usize, elements: usize, element_bytes: usize) -> Result<Self, Error> {
        let columns = (0..=MAXIMUM_COLUMNS.ilog2()).map(|log| 1 << log);
        columns
            .filter_map(|columns| Self::new(buckets, elements, element_bytes, columns).ok())
            .min_by(|a, b| a.cost().total_cmp(&b.cost()))
            .ok_or(Error::Shape("no arrangement of such elements"))
    }

    /// The arrangement in so many columns, a power of two.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Shape::choose`], or if the noise is too much for the failure bound.
    pub fn new(buckets: usize, elements: usize, element_bytes: usize, columns: usize) -> Result<Self, Error> {
        let largest = DEGREE * PLAINTEXT_BITS as usize / 8;
        if buckets == 0 || buckets > 1 << 16 {
            return Err(Error::Shape("1 to 65536 buckets"));
        }
        if elements == 0 || elements > 1 << 28 || element_bytes == 0 || element_bytes > largest {
            return Err(Error::Shape("elements of 1 to 2304 bytes, at least one"));
        }
        if !columns.is_power_of_two() || columns > MAXIMUM_COLUMNS || columns >= 2 * elements {
            return Err(Error::Shape("number of columns"));
        }
        let shape = Self { elements, element_bytes, columns, buckets: 1 };
        let shape = Self { buckets: (DEGREE / shape.bucket_outputs()).clamp(1, buckets), ..shape };
        if noise::failure_log2(&shape) > crate::noise::MAXIMUM_FAILURE_LOG2 {
            return Err(Error::Shape("too much noise"));
        }
        Ok(shape)
    }

    /// The arrangement that a server has announced.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Shape::new`], or if the profile is of another version.
    pub fn announced(
        buckets: usize,
        elements: usize,
        element_bytes: usize,
        profile: &[u8; 16],
    ) -> Result<Self, Error> {
        let [VERSION, log, rest @ ..] = *profile else { return Err(Error::Shape("version of the profile")) };
        if rest != [0; 14] || u32::from(log) > MAXIMUM_COLUMNS.ilog2() {
            return Err(Error::Shape("profile"));
        }
        Self::new(buckets, elements, element_bytes, 1 << log)
    }

    /// What the server announces: the version, log2 of the columns, and zeros.
    #[must_use]
    pub fn profile(&self) -> [u8; 16] {
        let mut profile = [0; 16];
        profile[..2].copy_from_slice(&[VERSION, self.columns.ilog2() as u8]);
        profile
    }

    /// Elements of a bucket.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Bytes of an element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// n2.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// n1.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.elements.div_ceil(self.columns)
    }

    /// Coefficients of a query for one bucket: each selects one of two rows.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.rows().div_ceil(2)
    }

    /// Outputs of an element: a coefficient each, of log2 t bits, and a multiple of 16.
    #[must_use]
    pub fn element_outputs(&self) -> usize {
        (8 * self.element_bytes).div_ceil(PLAINTEXT_BITS as usize).next_multiple_of(BLOCK)
    }

    /// Outputs of a bucket: those of one element in every column.
    #[must_use]
    pub fn bucket_outputs(&self) -> usize {
        self.columns * self.element_outputs()
    }

    /// Buckets that are packed together, at least 1.
    #[must_use]
    pub fn unit_buckets(&self) -> usize {
        self.buckets
    }

    /// Outputs of a unit.
    #[must_use]
    pub fn unit_outputs(&self) -> usize {
        self.buckets * self.bucket_outputs()
    }

    /// Packed polynomials of a unit, 2,048 outputs each; the last one may hold fewer.
    #[must_use]
    pub fn packs(&self) -> usize {
        self.unit_outputs().div_ceil(DEGREE)
    }

    /// Ciphertexts of which the coefficients of a unit's queries are.
    pub(super) fn ciphertexts(&self) -> usize {
        (self.buckets * self.positions()).div_ceil(DEGREE)
    }

    /// Where a bucket's query lies among the coefficients of its unit's ciphertexts.
    pub(super) fn coefficients(&self, bucket_of_unit: usize) -> Range<usize> {
        bucket_of_unit * self.positions()..(bucket_of_unit + 1) * self.positions()
    }

    /// A client's keys, bytes: two polynomials, in every request.
    #[must_use]
    pub fn keys_bytes() -> usize {
        packed_bytes(2 * DEGREE, MODULUS_BITS)
    }

    /// A query for one bucket, bytes.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        packed_bytes(self.positions(), QUERY_BITS)
    }

    /// A request, bytes: keys, and a query for each of so many buckets; `None` if there are more than there can be.
    #[must_use]
    pub fn request_bytes(&self, buckets: usize) -> Option<usize> {
        self.query_bytes().checked_mul(buckets)?.checked_add(Self::keys_bytes())
    }

    /// The answer of a unit, bytes.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        packed_bytes(self.unit_outputs(), ANSWER_BITS)
    }

    /// The hint of a unit, bytes.
    #[must_use]
    pub fn hint_bytes(&self) -> usize {
        packed_bytes(self.packs() * DEGREE, HINT_BITS)
    }

    /// Of one bucket and client, microseconds.
    fn cost(&self) -> f64 {
        let (outputs, buckets) = (self.bucket_outputs() as f64, self.buckets as f64);
        let packed = (self.packs() * DEGREE) as f64 / buckets;
        let bytes = self.query_bytes() as f64 + (self.answer_bytes() + self.hint_bytes()) as f64 / buckets;
        let time = packed * PACKED_OUTPUT + outputs * self.positions() as f64 * PAIR;
        time + bytes / 1024.0 * KIB
    }
}
