//! How a database is packed and arranged, and the choice of the cheapest arrangement.

use super::format::{HEADER_BYTES, QUERY_DROPPED_BITS, SEED_BYTES};
use crate::dimensions::{ANSWER_MARGIN_BITS, AnswerForm};
use crate::expand::substitutions;
use crate::noise::{self, Circuit};
use crate::packing::Packing;
use crate::ring::bits::packed_bytes;
use crate::{Error, bfv};

/// No query is larger.
pub const MAXIMUM_QUERY_BYTES: usize = 4096;

/// No answer for a single query a round is larger, unless the elements leave no choice.
pub const MAXIMUM_ANSWER_BYTES: usize = 108 << 10;

/// Everything both ends must agree on: packing, arrangement, number of levels, size of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    packing: Packing,
    /// Sets of columns that share the selectors; the answer holds the result of each.
    parts: usize,
    circuit: Circuit,
}

/// Cost of the server's work, in microseconds as measured with the kernel `avx512` (`docs/BENCHMARKS.md`). Shapes are part
/// of the protocol, so the weights are constants; what counts is their ratio, and the optimum is flat.
mod cost {
    /// A selector of a row: a substitution, the switch of its leaf, and its place in the first dimension.
    pub(super) const ROW_SELECTOR: f64 = 36.0;
    /// A selector of a column: a substitution.
    pub(super) const COLUMN_SELECTOR: f64 = 22.0;
    /// A plaintext of the first dimension.
    pub(super) const PLAINTEXT: f64 = 0.75;
    /// A column of the second dimension.
    pub(super) const COLUMN: f64 = 27.0;
    /// A ciphertext of the answer.
    pub(super) const ANSWER_CIPHERTEXT: f64 = 10.0;
    /// A KiB sent is worth as much, where answers shall be short: one dimension wins over two only if it costs little
    /// more.
    pub(super) const ANSWER_KIB: f64 = 6.0;
}

impl Parameters {
    /// The cheapest admissible arrangement, short answers being worth something; see [`crate::Scheme::parameters`].
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, an element is empty, or there is no admissible arrangement.
    pub fn choose(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        Self::admissible(elements, element_bytes, 1)?
            .min_by(|a, b| a.price().total_cmp(&b.price()))
            .ok_or(Error::Shape("too many elements"))
    }

    /// The arrangement that costs the server least among those whose answers have at most `answer_bytes` bytes.
    ///
    /// The columns may be dealt into several parts. One selector of the second dimension then serves a column of every
    /// part, so that queries have fewer selectors, and fewer are expanded; the answer holds the results of all parts.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::choose`], or if no answer is as short as that.
    pub fn choose_within(elements: usize, element_bytes: usize, answer_bytes: usize) -> Result<Self, Error> {
        let bfv = bfv::Parameters::s2048();
        let least_bits = bfv.plaintext_bits() + ANSWER_MARGIN_BITS.start();
        let most_parts = (answer_bytes / packed_bytes(2 * bfv.degree(), least_bits)).max(1);
        Self::admissible(elements, element_bytes, most_parts)?
            .filter(|shape| shape.answer_bytes() <= answer_bytes)
            .min_by(|a, b| a.cost().total_cmp(&b.cost()))
            .ok_or(Error::Shape("no answer is as short as that"))
    }

    /// All arrangements in up to so many parts, one for each number of columns of which none is empty.
    fn admissible(
        elements: usize,
        element_bytes: usize,
        most_parts: usize,
    ) -> Result<impl Iterator<Item = Self>, Error> {
        let plaintexts = Packing::new(elements, element_bytes)?.plaintexts();
        let bfv = bfv::Parameters::s2048();
        let (most, levels) = (plaintexts.min(bfv.degree()), bfv.levels() as u32);
        Ok((1..=most_parts).flat_map(move |parts| {
            (1..=most / parts)
                .filter(move |columns| {
                    plaintexts.div_ceil(plaintexts.div_ceil(parts * columns)) == parts * columns
                })
                .filter_map(move |columns| Self::new(elements, element_bytes, [columns, parts], levels).ok())
        }))
    }

    /// The arrangement in the given number of columns: one for d = 1, more for d = 2. For tests and measurements.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::choose`], or if there are more columns than plaintexts (two columns are
    /// always allowed).
    pub fn with_columns(elements: usize, element_bytes: usize, columns: usize) -> Result<Self, Error> {
        let levels = bfv::Parameters::s2048().levels() as u32;
        Self::new(elements, element_bytes, [columns, 1], levels)
    }

    /// The same with fewer levels of EXPAND than the log2 N that [`Parameters::choose`] takes, and longer queries. For
    /// measurements.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::with_columns`], or if the levels are too few or too many.
    pub fn with_columns_and_levels(
        elements: usize,
        element_bytes: usize,
        columns: usize,
        levels: u32,
    ) -> Result<Self, Error> {
        Self::new(elements, element_bytes, [columns, 1], levels)
    }

    /// The arrangement that a server has announced, whatever it costs: this many columns in this many parts, so many levels,
    /// and so many bits of each coefficient of the answer.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::with_columns_and_levels`], or if the answer has too few bits for the failure
    /// bound, or more than any server needs.
    pub fn announced(
        elements: usize,
        element_bytes: usize,
        columns_and_parts: [usize; 2],
        levels: u32,
        answer_bits: u32,
    ) -> Result<Self, Error> {
        let least = bfv::Parameters::s2048().plaintext_bits() + ANSWER_MARGIN_BITS.start();
        let margin = answer_bits.checked_sub(least).map(|more| more + ANSWER_MARGIN_BITS.start());
        let margin = margin.filter(|margin| ANSWER_MARGIN_BITS.contains(margin));
        let margin = margin.ok_or(Error::Shape("bits of the answer"))?;
        Self::within(elements, element_bytes, columns_and_parts, levels, margin..=margin)
    }

    fn new(
        elements: usize,
        element_bytes: usize,
        columns_and_parts: [usize; 2],
        levels: u32,
    ) -> Result<Self, Error> {
        Self::within(elements, element_bytes, columns_and_parts, levels, ANSWER_MARGIN_BITS)
    }

    /// The arrangement with the least of these margins that keeps the failure bound.
    fn within(
        elements: usize,
        element_bytes: usize,
        [columns, parts]: [usize; 2],
        levels: u32,
        margins: core::ops::RangeInclusive<u32>,
    ) -> Result<Self, Error> {
        let packing = Packing::new(elements, element_bytes)?;
        let (plaintexts, groups) = (packing.plaintexts(), packing.groups());
        if columns == 0 || parts == 0 || columns * parts > plaintexts.max(2) {
            return Err(Error::Shape("more columns than plaintexts"));
        }
        let rows = plaintexts.div_ceil(columns * parts);
        let selectors = if columns == 1 { rows } else { rows + columns };
        let bfv = bfv::Parameters::s2048();
        // A query that is not too large has fewer selectors than there are leaves.
        if levels as usize > bfv.levels() || query_bytes(selectors, levels) > MAXIMUM_QUERY_BYTES {
            return Err(Error::Shape("query too large"));
        }
        let circuit = margins
            .map(|margin| Circuit {
                query_dropped_bits: QUERY_DROPPED_BITS,
                levels,
                rows,
                columns,
                groups,
                answer_bits: bfv.plaintext_bits() + margin,
            })
            .find(|circuit| noise::failure_log2(bfv, circuit) <= noise::MAXIMUM_FAILURE_LOG2)
            .ok_or(Error::Shape("too much noise"))?;
        Ok(Self { packing, parts, circuit })
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

    /// Elements in one plaintext.
    #[must_use]
    pub fn elements_per_plaintext(&self) -> usize {
        self.packing.elements_per_plaintext()
    }

    /// Plaintexts of one group: `ceil(n / elements_per_plaintext)`, at most `n1 n2` in each part.
    #[must_use]
    pub fn plaintexts(&self) -> usize {
        self.packing.plaintexts()
    }

    /// Plaintexts that one element spans; the answer holds a result for each.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.circuit.groups
    }

    /// d, 1 or 2.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        if self.circuit.columns == 1 { 1 } else { 2 }
    }

    /// n1.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.circuit.rows
    }

    /// n2, 1 if d = 1: the columns of one part.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.circuit.columns
    }

    /// Sets of columns that share the selectors; the answer holds the result of each.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// The columns of all parts.
    #[must_use]
    pub fn all_columns(&self) -> usize {
        self.parts * self.columns()
    }

    /// Selectors in a query: n1, and n2 more if d = 2.
    #[must_use]
    pub fn selectors(&self) -> usize {
        if self.dimensions() == 1 { self.rows() } else { self.rows() + self.columns() }
    }

    /// Levels h of EXPAND.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.circuit.levels
    }

    /// Bits of each coefficient of the answer.
    #[must_use]
    pub fn answer_coefficient_bits(&self) -> u32 {
        self.circuit.answer_bits
    }

    /// Ciphertexts in the answer for each group and part: 1, or the four chunks if d = 2.
    #[must_use]
    pub fn answer_ciphertexts(&self) -> usize {
        self.answer_form().ciphertexts()
    }

    /// What the noise depends on.
    #[must_use]
    pub fn circuit(&self) -> Circuit {
        self.circuit
    }

    /// Size of a query, bytes.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        query_bytes(self.selectors(), self.levels())
    }

    /// Size of an answer, bytes.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        HEADER_BYTES + self.groups() * self.parts * self.answer_form().bytes()
    }

    /// The ciphertexts of one part's result for one group.
    pub(super) fn answer_form(&self) -> AnswerForm {
        AnswerForm { dimensions: self.dimensions() as u32, bits: self.answer_coefficient_bits() }
    }

    /// How elements lie in plaintexts.
    pub(super) fn packing(&self) -> &Packing {
        &self.packing
    }

    /// Size of the prepared database in memory, bytes: what the first dimension reads for an answer.
    #[must_use]
    pub fn database_bytes(&self) -> usize {
        let bfv = bfv::Parameters::s2048();
        self.groups()
            * packed_bytes(bfv.degree(), bfv.small().modulus().bits())
            * self.rows()
            * self.all_columns()
    }

    /// Transforms of degree N that EXPAND costs: `l + 1` for a substitution with l digits, seven to switch two rows that
    /// one substitution makes, four for a last row.
    #[must_use]
    pub fn expand_transforms(&self) -> usize {
        let bfv = bfv::Parameters::s2048();
        let transforms = |(level, count)| count * (bfv.gadget(level).digits as usize + 1);
        substitutions(self.selectors(), self.levels()).enumerate().map(transforms).sum::<usize>()
            + 7 * (self.rows() / 2)
            + 4 * (self.rows() % 2)
    }

    fn price(&self) -> f64 {
        self.cost() + self.answer_bytes() as f64 / 1024.0 * cost::ANSWER_KIB
    }

    fn cost(&self) -> f64 {
        let (rows, all_columns) = (self.rows() as f64, self.all_columns() as f64);
        let (column_selectors, second) = match self.dimensions() {
            1 => (0.0, 0.0),
            _ => (self.columns() as f64, all_columns),
        };
        rows * cost::ROW_SELECTOR
            + column_selectors * cost::COLUMN_SELECTOR
            + self.groups() as f64
                * (rows * all_columns * cost::PLAINTEXT
                    + second * cost::COLUMN
                    + (self.parts * self.answer_ciphertexts()) as f64 * cost::ANSWER_CIPHERTEXT)
    }
}

/// Bits of a coefficient of a query.
pub(super) fn query_coefficient_bits() -> u32 {
    bfv::Parameters::s2048().large().modulus().bits() - QUERY_DROPPED_BITS
}

fn query_bytes(selectors: usize, levels: u32) -> usize {
    let coefficients = selectors * (bfv::Parameters::s2048().degree() >> levels);
    HEADER_BYTES + SEED_BYTES + packed_bytes(coefficients, query_coefficient_bits())
}

#[cfg(test)]
mod tests {
    use super::Parameters;

    /// Counted by hand: what is left out here would be chosen too often.
    #[test]
    fn an_arrangement_costs_what_its_parts_cost() {
        let of = |elements, bytes, columns_and_parts| {
            Parameters::new(elements, bytes, columns_and_parts, 11).unwrap()
        };
        // Three rows, three plaintexts, one ciphertext.
        assert_eq!(of(24, 288, [1, 1]).cost(), 3.0 * 36.0 + 3.0 * 0.75 + 10.0);
        // 64 rows and 8 columns, four ciphertexts of 8,704 bytes behind four more.
        let square = of(4_096, 288, [8, 1]);
        assert_eq!(square.cost(), 64.0 * 36.0 + 8.0 * 22.0 + 512.0 * 0.75 + 8.0 * 27.0 + 40.0);
        assert_eq!(square.price(), square.cost() + 34_820.0 / 1_024.0 * 6.0);
        // 256 rows and twice 8 columns, of elements that are in three plaintexts.
        let several = 3.0 * (4_096.0 * 0.75 + 16.0 * 27.0 + 8.0 * 10.0);
        assert_eq!(of(4_096, 5_000, [8, 2]).cost(), 256.0 * 36.0 + 8.0 * 22.0 + several);
    }
}
