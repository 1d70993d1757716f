//! How many parts a database is divided into, and by what.

use pir_core::Error;
use pir_core::ring::bits::packed_bytes;

use super::field::Field;

/// Polynomials have as many coefficients: what all of them show of a record is less than 2^-72.
const COEFFICIENTS: usize = 32;

/// No database has more records.
const MAXIMUM_ELEMENTS: usize = 1 << 24;

/// What follows from the number and the size of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    elements: usize,
    element_bytes: usize,
    field: Field,
}

impl Shape {
    /// For n records, parts of about `2 sqrt(n)`.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no record, a record is empty, or there are more than 2^24 or too long ones.
    pub fn new(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        if elements == 0 || element_bytes == 0 {
            return Err(Error::Shape("an empty database"));
        }
        let bytes = elements.checked_mul(element_bytes).filter(|bytes| *bytes <= 1 << 44);
        if bytes.is_none() || elements > MAXIMUM_ELEMENTS {
            return Err(Error::Shape("database too large"));
        }
        let records = (4 * elements - 1).isqrt() + 1;
        Ok(Self { elements, element_bytes, field: Field::from(elements.div_ceil(records)) })
    }

    /// Number of records n.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Bytes per record.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// p: parts, and records of a group but the last.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.field.p() as usize
    }

    /// Groups of neighbouring records, `ceil(n / p)`.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.elements.div_ceil(self.parts())
    }

    /// w: coefficients of each group's polynomial.
    #[must_use]
    pub fn coefficients(&self) -> usize {
        COEFFICIENTS.min(self.parts())
    }

    /// Size of a partition, bytes: group by group, the w coefficients, the constant term first, packed as in
    /// [`pir_core::ring::bits`].
    #[must_use]
    pub fn partition_bytes(&self) -> usize {
        packed_bytes(self.groups() * self.coefficients(), self.field.bits())
    }

    pub(super) fn field(&self) -> Field {
        self.field
    }
}
