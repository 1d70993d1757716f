//! How the database is arranged, and the choice of the cheapest arrangement.

use pir_core::dimensions::{ANSWER_MARGIN_BITS, AnswerForm};
use pir_core::noise::MAXIMUM_FAILURE_LOG2;
use pir_core::packing::Packing;
use pir_core::ring::bits::packed_bytes;
use pir_core::{Error, bfv};

use super::encoding::{HEADER_BYTES, ROW_DROPPED_BITS, SEED_BYTES, VALUE_DROPPED_BITS};
use super::noise;
use super::selectors::PRODUCT;

/// No query is larger.
pub const MAXIMUM_QUERY_BYTES: usize = 1 << 15;

/// No database has more columns.
const MAXIMUM_COLUMNS: usize = 1 << 14;

/// Everything both ends must agree on: packing, arrangement, size of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    packing: Packing,
    rows: usize,
    columns: usize,
    /// Bits of each coefficient of the answer.
    answer_bits: u32,
}

/// Cost of the server's work, in microseconds; see the weights of [`pir_core::sealpir::Parameters`], which these agree with.
mod cost {
    /// A row's ciphertext: a substitution, the switch of its leaf, and its place in the first dimension.
    pub(super) const ROW: f64 = 36.0;
    /// A plaintext of the first dimension.
    pub(super) const PLAINTEXT: f64 = 0.75;
    /// A column: it is lifted, and one of two is chosen.
    pub(super) const COLUMN: f64 = 55.0;
    /// A value of a bit: a substitution, and another ciphertext made of it.
    pub(super) const VALUE: f64 = 70.0;
}

impl Parameters {
    /// The arrangement that costs the server least.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, an element is empty, or there is no admissible arrangement.
    pub fn choose(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        let packing = Packing::new(elements, element_bytes)?;
        let plaintexts = packing.plaintexts();
        let most = plaintexts.min(bfv::Parameters::s2048().degree());
        let of = |rows: usize| Self { packing, rows, columns: plaintexts.div_ceil(rows), answer_bits: 0 };
        // More rows for as many columns are only more work.
        let mut shapes: Vec<Self> =
            (1..=most).map(of).filter(|shape| shape.columns <= MAXIMUM_COLUMNS && shape.is_tight()).collect();
        shapes.sort_by(|a, b| a.cost().total_cmp(&b.cost()));
        shapes
            .into_iter()
            .find_map(|shape| Self::with_columns(elements, element_bytes, shape.columns).ok())
            .ok_or(Error::Shape("too many elements"))
    }

    /// The arrangement in the given number of columns. For tests and measurements.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::choose`], or if a column would be empty, or there are too many rows or columns.
    pub fn with_columns(elements: usize, element_bytes: usize, columns: usize) -> Result<Self, Error> {
        let packing = Packing::new(elements, element_bytes)?;
        if !(1..=MAXIMUM_COLUMNS).contains(&columns) {
            return Err(Error::Shape("no columns, or too many"));
        }
        let of = |answer_bits| {
            let rows = packing.plaintexts().div_ceil(columns);
            Self { packing, rows, columns, answer_bits }
        };
        if packing.plaintexts().div_ceil(of(0).rows) != columns {
            return Err(Error::Shape("an empty column"));
        }
        if of(0).rows > bfv::Parameters::s2048().degree() || of(0).query_bytes() > MAXIMUM_QUERY_BYTES {
            return Err(Error::Shape("query too large"));
        }
        ANSWER_MARGIN_BITS
            .map(|margin| of(bfv::Parameters::s2048().plaintext_bits() + margin))
            .find(|parameters| noise::failure_log2(parameters) <= MAXIMUM_FAILURE_LOG2)
            .ok_or(Error::Shape("too much noise"))
    }

    /// Number of elements n.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.packing.elements()
    }

    /// Bytes per element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.packing.element_bytes()
    }

    /// Plaintexts that one element spans; the answer holds a ciphertext for each.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.packing.groups()
    }

    /// n1.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// n2.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Further dimensions, of two each: the bits of a column's number.
    #[must_use]
    pub fn column_bits(&self) -> u32 {
        self.columns.next_power_of_two().ilog2()
    }

    /// Bits of each coefficient of the answer.
    #[must_use]
    pub fn answer_coefficient_bits(&self) -> u32 {
        self.answer_bits
    }

    /// Size of a query, bytes.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        let values = match self.values() {
            0 => 0,
            values => ciphertext_bytes(values, self.value_levels(), VALUE_DROPPED_BITS),
        };
        HEADER_BYTES + self.row_bytes() + values
    }

    /// Size of an answer, bytes.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        HEADER_BYTES + self.groups() * self.answer_form().bytes()
    }

    /// Levels of EXPAND for the rows.
    #[must_use]
    pub fn levels(&self) -> u32 {
        bfv::Parameters::s2048().levels() as u32
    }

    /// Values of bits that the second ciphertext of a query is expanded to.
    pub(super) fn values(&self) -> usize {
        (PRODUCT.digits * self.column_bits()) as usize
    }

    /// Levels that are enough for them.
    pub(super) fn value_levels(&self) -> u32 {
        self.values().next_power_of_two().ilog2()
    }

    /// Bytes of the first ciphertext of a query.
    pub(super) fn row_bytes(&self) -> usize {
        ciphertext_bytes(self.rows, self.levels(), ROW_DROPPED_BITS)
    }

    /// The one ciphertext of a group.
    pub(super) fn answer_form(&self) -> AnswerForm {
        AnswerForm { dimensions: 1, bits: self.answer_bits }
    }

    /// How elements lie in plaintexts.
    pub(super) fn packing(&self) -> &Packing {
        &self.packing
    }

    /// Whether fewer rows would need more columns.
    fn is_tight(&self) -> bool {
        self.packing.plaintexts().div_ceil(self.columns) == self.rows
    }

    fn cost(&self) -> f64 {
        let [rows, columns] = [self.rows, self.columns].map(|size| size as f64);
        rows * cost::ROW
            + self.values() as f64 * cost::VALUE
            + self.groups() as f64 * (rows * columns * cost::PLAINTEXT + columns * cost::COLUMN)
    }
}

/// Bytes of a seed and of what is sent of the other half.
fn ciphertext_bytes(leaves: usize, levels: u32, dropped: u32) -> usize {
    let bfv = bfv::Parameters::s2048();
    let coefficients = leaves * (bfv.degree() >> levels);
    SEED_BYTES + packed_bytes(coefficients, bfv.large().modulus().bits() - dropped)
}
