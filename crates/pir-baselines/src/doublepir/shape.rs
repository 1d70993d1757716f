//! How the database is arranged, and the choice of an arrangement.

use pir_core::Error;
use pir_core::noise::MAXIMUM_FAILURE_LOG2;

use super::noise::Noise;
use crate::lwe::{MODULUS_BITS, WORD_BYTES};

/// A digit is stored in a byte.
const MAXIMUM_PLAINTEXT_BITS: u32 = 8;

/// No query, answer or hint of a database is larger.
const MAXIMUM_BYTES: usize = 1 << 31;

/// What a client downloads at most: longer hints are not chosen.
const MOST_HINT_BYTES: usize = 1 << 26;

/// Everything both ends must agree on: digits, blocks, rows and columns. N words make a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<const N: usize> {
    elements: usize,
    element_bytes: usize,
    /// Elements that stand in one row of a block.
    row_elements: usize,
    /// Blocks r, each of which has some digits of every element.
    blocks: usize,
    /// Of both levels.
    plaintext_bits: [u32; 2],
}

/// Costs of a client, its answer included, in microseconds.
mod cost {
    /// A KiB sent or received is worth as much, as for [`crate::xpir`].
    pub(super) const KIB: f64 = 10.0;
    /// A word of a public matrix made, once for all databases of a round.
    pub(super) const PUBLIC_WORD: f64 = 2.8e-3;
    /// A word of a public matrix or a hint multiplied with a word of a secret.
    pub(super) const PRODUCT: f64 = 1.5e-4;
    /// A byte of a matrix multiplied with a word of a query by the server.
    pub(super) const SCAN: f64 = 3e-5;
}

impl<const N: usize> Parameters<N> {
    /// The arrangement of each of so many databases of one round that costs least for each answer, the hint counted with it:
    /// bytes being worth something, `10 us a KiB + core time`.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no database or element, elements are empty, or there are too many.
    pub fn choose(databases: usize, elements: usize, element_bytes: usize) -> Result<Self, Error> {
        let digits = digits(element_bytes, MAXIMUM_PLAINTEXT_BITS).unwrap_or(0);
        let blocks = 1..=digits.min(16);
        // Steps of an eighth: 8/8, 9/8, .. 15/8 times every power of two.
        let numbers =
            (0..usize::BITS - 4).flat_map(|log| (8..16usize).map(move |eighths| (eighths << log) / 8));
        numbers
            .take_while(|number| *number <= elements)
            .flat_map(|number| blocks.clone().map(move |blocks| (number, blocks)))
            .filter_map(|(number, blocks)| Self::new(elements, element_bytes, number, blocks).ok())
            .filter(|shape| shape.hint_bytes() <= MOST_HINT_BYTES)
            .min_by(|a, b| a.cost(databases).total_cmp(&b.cost(databases)))
            .ok_or(Error::Shape("no arrangement of such elements"))
    }

    /// The paper's arrangement: a block for each digit, and about as many rows in all as columns.
    ///
    /// # Errors
    /// As for [`Parameters::new`].
    pub fn square(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        const TOO_LARGE: Error = Error::Shape("too large");
        let digits = digits(element_bytes, MAXIMUM_PLAINTEXT_BITS).ok_or(TOO_LARGE)?;
        let side = elements.checked_mul(digits).ok_or(TOO_LARGE)?.isqrt();
        Self::new(elements, element_bytes, side.clamp(1, elements.max(1)), digits)
    }

    /// The arrangement with so many elements in a row of each of so many blocks, in digits of as many bits as the noise
    /// allows.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, elements are empty, a row would have none or more than there are, a block
    /// would have none of an element's digits, or something would be too large or too noisy.
    pub fn new(
        elements: usize,
        element_bytes: usize,
        row_elements: usize,
        blocks: usize,
    ) -> Result<Self, Error> {
        if elements == 0 || element_bytes == 0 || !(1..=elements).contains(&row_elements) || blocks == 0 {
            return Err(Error::Shape("elements, as many in a row, and blocks"));
        }
        let shape =
            |bits: [u32; 2]| Self { elements, element_bytes, row_elements, blocks, plaintext_bits: bits };
        let fits = |shape: &Self| shape.largest_bytes().is_some_and(|bytes| bytes <= MAXIMUM_BYTES);
        let quiet = |shape: &Self| shape.noise().failure_log2() <= MAXIMUM_FAILURE_LOG2;
        // Either level may need shorter digits than the other: short ones of the first are more of them, short ones of the
        // second a longer hint.
        let all = || (1..=MAXIMUM_PLAINTEXT_BITS).rev();
        let shapes = all().flat_map(|second| all().map(move |first| shape([first, second])));
        let shape = shapes.filter(fits).find(quiet).ok_or(Error::Shape("too large or too noisy"))?;
        let before_last = shape.element_columns() * (blocks - 1);
        if before_last < shape.digits() { Ok(shape) } else { Err(Error::Shape("a block without digits")) }
    }

    /// The largest of all that is sent, or of a matrix, if it is a number at all.
    fn largest_bytes(&self) -> Option<usize> {
        let digits = digits(self.element_bytes, self.plaintext_bits[0])?;
        let columns = digits.div_ceil(self.blocks);
        let queries =
            columns.checked_mul(self.row_elements)?.checked_mul(columns)?.checked_add(self.rows())?;
        let hint = self.blocks.checked_mul(self.word_digits() * N * N)?;
        let answer = self.blocks.checked_mul(columns + 1)?.checked_mul(self.word_digits() * (N + 1))?;
        // A byte for each digit of each word.
        let kept = self.blocks.checked_mul(self.word_digits() * N)?.checked_mul(self.rows())? / WORD_BYTES;
        queries.max(hint).max(answer).max(kept).checked_mul(WORD_BYTES)
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

    /// Elements that stand in one row of a block.
    #[must_use]
    pub fn row_elements(&self) -> usize {
        self.row_elements
    }

    /// Blocks r.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bits of a digit of the first and of the second level.
    #[must_use]
    pub fn plaintext_bits(&self) -> [u32; 2] {
        self.plaintext_bits
    }

    /// Digits d of an element.
    #[must_use]
    pub fn digits(&self) -> usize {
        // Checked when it was made.
        (8 * self.element_bytes).div_ceil(self.plaintext_bits[0] as usize)
    }

    /// Columns c that an element has in each block, and queries of the first level.
    #[must_use]
    pub fn element_columns(&self) -> usize {
        self.digits().div_ceil(self.blocks)
    }

    /// Rows l of a block.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.elements.div_ceil(self.row_elements)
    }

    /// Columns m of the matrix.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.row_elements * self.element_columns()
    }

    /// Digits K of a word of the first level.
    #[must_use]
    pub fn word_digits(&self) -> usize {
        MODULUS_BITS.div_ceil(self.plaintext_bits[1]) as usize
    }

    /// What the noise depends on.
    #[must_use]
    pub fn noise(&self) -> Noise {
        let words = self.blocks * (N + self.element_columns());
        Noise {
            errors: [self.columns(), self.rows()],
            plaintext_bits: self.plaintext_bits,
            digits: [self.digits(), words * self.word_digits()],
        }
    }

    /// Size of a query, bytes: a word for each column, as many times as an element has columns, and for each row of a block.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        WORD_BYTES * (self.element_columns() * self.columns() + self.rows())
    }

    /// Size of an answer, bytes: for each block K N words, and K (N + 1) for each column of an element.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        WORD_BYTES * self.blocks * self.block_answer_words()
    }

    /// Words of an answer that concern one block.
    pub(super) fn block_answer_words(&self) -> usize {
        self.word_digits() * (N + self.element_columns() * (N + 1))
    }

    /// Size of the hint, bytes: K N^2 words for each block.
    #[must_use]
    pub fn hint_bytes(&self) -> usize {
        WORD_BYTES * self.blocks * self.word_digits() * N * N
    }

    fn cost(&self, databases: usize) -> f64 {
        let bytes = self.query_bytes() + self.answer_bytes() + self.hint_bytes();
        let [blocks, each] = [self.blocks, self.element_columns()].map(|number| number as f64);
        let [columns, rows] = [self.columns(), self.rows()].map(|number| number as f64);
        let [degree, digits] = [N, self.word_digits()].map(|number| number as f64);
        let public = degree * (columns + rows) * cost::PUBLIC_WORD / databases.max(1) as f64;
        let products = degree * (each * columns + rows + blocks * digits * (degree + each));
        let second = digits * degree * (1.0 + each);
        let scans = blocks * rows * (each * columns + second);
        bytes as f64 / 1024.0 * cost::KIB + public + products * cost::PRODUCT + scans * cost::SCAN
    }
}

fn digits(element_bytes: usize, plaintext_bits: u32) -> Option<usize> {
    element_bytes.checked_mul(8).map(|bits| bits.div_ceil(plaintext_bits as usize))
}
