//! How the database is arranged, and the choice of an arrangement.

use pir_core::Error;
use pir_core::noise::MAXIMUM_FAILURE_LOG2;

use super::noise::Noise;
use crate::lwe::WORD_BYTES;

/// A digit is stored in a byte.
const MAXIMUM_PLAINTEXT_BITS: u32 = 8;

/// No query, answer or hint of a database is larger.
const MAXIMUM_BYTES: usize = 1 << 31;

/// Everything both ends must agree on: digits, rows and columns. N words make a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<const N: usize> {
    elements: usize,
    element_bytes: usize,
    /// Elements that stand in one column.
    column_elements: usize,
    plaintext_bits: u32,
}

/// Costs of a client, in microseconds.
mod cost {
    /// A KiB sent or received is worth as much, as for [`crate::xpir`].
    pub(super) const KIB: f64 = 10.0;
    /// A word of the public matrix made, once for all databases of a round.
    pub(super) const PUBLIC_WORD: f64 = 2.8e-3;
    /// A word of the public matrix multiplied with a word of the secret.
    pub(super) const PRODUCT: f64 = 1.5e-4;
}

impl<const N: usize> Parameters<N> {
    /// The arrangement of each of so many databases of one round that costs a client least, the hint counted with each
    /// answer: bytes being worth something, `10 us a KiB + core time`.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no database or element, elements are empty, or there are too many.
    pub fn choose(databases: usize, elements: usize, element_bytes: usize) -> Result<Self, Error> {
        // Steps of an eighth: 8/8, 9/8, .. 15/8 times every power of two.
        let numbers =
            (0..usize::BITS - 4).flat_map(|log| (8..16usize).map(move |eighths| (eighths << log) / 8));
        numbers
            .take_while(|number| *number <= elements)
            .filter_map(|number| Self::new(elements, element_bytes, number).ok())
            .min_by(|a, b| a.cost(databases).total_cmp(&b.cost(databases)))
            .ok_or(Error::Shape("no arrangement of such elements"))
    }

    /// The paper's arrangement: about as many rows as columns.
    ///
    /// # Errors
    /// As for [`Parameters::new`].
    pub fn square(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        let digits = digits(element_bytes, MAXIMUM_PLAINTEXT_BITS).unwrap_or(1).max(1);
        Self::new(elements, element_bytes, (elements / digits).isqrt().max(1))
    }

    /// The arrangement with so many elements in a column, in digits of as many bits as the noise allows.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, elements are empty, a column would have none or more than there are, or
    /// something would be too large or too noisy.
    pub fn new(elements: usize, element_bytes: usize, column_elements: usize) -> Result<Self, Error> {
        if elements == 0 || element_bytes == 0 || !(1..=elements).contains(&column_elements) {
            return Err(Error::Shape("elements, and as many in a column"));
        }
        let shape = |plaintext_bits| Self { elements, element_bytes, column_elements, plaintext_bits };
        let fits = |shape: &Self| {
            let rows = digits(element_bytes, shape.plaintext_bits)
                .and_then(|digits| digits.checked_mul(column_elements))
                .filter(|rows| *rows <= MAXIMUM_BYTES / (WORD_BYTES * N));
            rows.is_some() && shape.columns() <= MAXIMUM_BYTES / WORD_BYTES
        };
        let quiet = |shape: &Self| shape.noise().failure_log2() <= MAXIMUM_FAILURE_LOG2;
        let shapes = (1..=MAXIMUM_PLAINTEXT_BITS).rev().map(shape);
        shapes.filter(fits).find(quiet).ok_or(Error::Shape("too large or too noisy"))
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Bytes B of an element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Elements that stand in one column.
    #[must_use]
    pub fn column_elements(&self) -> usize {
        self.column_elements
    }

    /// Bits b of a digit.
    #[must_use]
    pub fn plaintext_bits(&self) -> u32 {
        self.plaintext_bits
    }

    /// Digits d of an element.
    #[must_use]
    pub fn digits(&self) -> usize {
        // Checked when it was made.
        (8 * self.element_bytes).div_ceil(self.plaintext_bits as usize)
    }

    /// Rows l of the matrix.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.digits() * self.column_elements
    }

    /// Columns m of the matrix.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.elements.div_ceil(self.column_elements)
    }

    /// What the noise depends on.
    #[must_use]
    pub fn noise(&self) -> Noise {
        Noise { columns: self.columns(), plaintext_bits: self.plaintext_bits, digits: self.digits() }
    }

    /// Size of a query, bytes: a word for each column.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        WORD_BYTES * self.columns()
    }

    /// Size of an answer, bytes: a word for each row.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        WORD_BYTES * self.rows()
    }

    /// Size of the hint, bytes: N words for each row.
    #[must_use]
    pub fn hint_bytes(&self) -> usize {
        WORD_BYTES * N * self.rows()
    }

    fn cost(&self, databases: usize) -> f64 {
        let bytes = self.query_bytes() + self.answer_bytes() + self.hint_bytes();
        let words = (N * self.columns()) as f64;
        bytes as f64 / 1024.0 * cost::KIB
            + words * (cost::PUBLIC_WORD / databases.max(1) as f64 + cost::PRODUCT)
    }
}

fn digits(element_bytes: usize, plaintext_bits: u32) -> Option<usize> {
    element_bytes.checked_mul(8).map(|bits| bits.div_ceil(plaintext_bits as usize))
}
