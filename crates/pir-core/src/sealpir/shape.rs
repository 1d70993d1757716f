//! How a database is packed and arranged, and the choice of the cheapest arrangement.

use super::encoding::HEADER_BYTES;
use crate::expand::substitutions;
use crate::noise::{self, Circuit};
use crate::ring::bits::packed_bytes;
use crate::{Error, bfv};

/// No query is larger.
pub const MAXIMUM_QUERY_BYTES: usize = 4096;

/// Low bits that are not sent of the coefficients of a query; at the noise of EXPAND, nobody misses them.
pub(super) const QUERY_DROPPED_BITS: u32 = 20;

/// The bits of an answer's coefficients beyond those of its plaintext: 8, or more where the failure bound demands.
pub(crate) const ANSWER_MARGIN_BITS: core::ops::RangeInclusive<u32> = 8..=12;

/// Bytes of the seed of a query's uniform half.
pub(super) const SEED_BYTES: usize = 32;

/// Everything both ends must agree on: packing, arrangement, number of levels, size of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    elements: usize,
    element_bytes: usize,
    /// Elements per plaintext; 1 if an element spans several.
    elements_per_plaintext: usize,
    /// Plaintexts, not counting groups.
    plaintexts: usize,
    circuit: Circuit,
}

/// Cost of the server's work, in microseconds as measured with the kernel `avx512f` (`docs/BENCHMARKS.md`). Shapes are part
/// of the protocol, so the weights are constants; what counts is their ratio, and the optimum is flat.
mod cost {
    /// A selector: one substitution and the switch of its leaf.
    pub(super) const SELECTOR: f64 = 56.0;
    /// A plaintext of the first dimension.
    pub(super) const PLAINTEXT: f64 = 1.6;
    /// A column of the second dimension.
    pub(super) const COLUMN: f64 = 40.0;
    /// A ciphertext of the answer.
    pub(super) const ANSWER_CIPHERTEXT: f64 = 25.0;
    /// A KiB sent is worth as much: one dimension wins over two only if it costs little more.
    pub(super) const ANSWER_KIB: f64 = 10.0;
}

impl Parameters {
    /// The cheapest admissible arrangement; see [`crate::Scheme::parameters`].
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, an element is empty, or there is no admissible arrangement.
    pub fn choose(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        let plaintexts = Packing::new(elements, element_bytes)?.plaintexts;
        let most = plaintexts.min(bfv::Parameters::s2048().degree());
        (1..=most)
            // Rows that leave the last column empty are those of a smaller number of columns.
            .filter(|columns| plaintexts.div_ceil(plaintexts.div_ceil(*columns)) == *columns)
            .filter_map(|columns| Self::with_columns(elements, element_bytes, columns).ok())
            .min_by(|a, b| a.cost().total_cmp(&b.cost()))
            .ok_or(Error::Shape("too many elements"))
    }

    /// The arrangement in the given number of columns: one for d = 1, more for d = 2. For tests and measurements.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::choose`], or if there are more columns than plaintexts (two columns are
    /// always allowed).
    pub fn with_columns(elements: usize, element_bytes: usize, columns: usize) -> Result<Self, Error> {
        let levels = bfv::Parameters::s2048().levels() as u32;
        Self::with_columns_and_levels(elements, element_bytes, columns, levels)
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
        let Packing { elements_per_plaintext, plaintexts, groups } = Packing::new(elements, element_bytes)?;
        if columns == 0 || columns > plaintexts.max(2) {
            return Err(Error::Shape("more columns than plaintexts"));
        }
        let rows = plaintexts.div_ceil(columns);
        let selectors = if columns == 1 { rows } else { rows + columns };
        let bfv = bfv::Parameters::s2048();
        if levels as usize > bfv.levels()
            || selectors > 1 << levels
            || query_bytes(selectors, levels) > MAXIMUM_QUERY_BYTES
        {
            return Err(Error::Shape("query too large"));
        }
        let circuit = ANSWER_MARGIN_BITS
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
        Ok(Self { elements, element_bytes, elements_per_plaintext, plaintexts, circuit })
    }

    /// Packing, arrangement and answer alone, for engines that share them but neither queries nor noise: nothing is
    /// checked about either.
    pub(crate) fn arranged(
        elements: usize,
        element_bytes: usize,
        [rows, columns]: [usize; 2],
        answer_bits: u32,
    ) -> Result<Self, Error> {
        let Packing { elements_per_plaintext, plaintexts, groups } = Packing::new(elements, element_bytes)?;
        let circuit = Circuit { query_dropped_bits: 0, levels: 0, rows, columns, groups, answer_bits };
        Ok(Self { elements, element_bytes, elements_per_plaintext, plaintexts, circuit })
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

    /// Elements in one plaintext.
    #[must_use]
    pub fn elements_per_plaintext(&self) -> usize {
        self.elements_per_plaintext
    }

    /// Plaintexts of one group: `ceil(n / elements_per_plaintext)`, at most `n1 n2`.
    #[must_use]
    pub fn plaintexts(&self) -> usize {
        self.plaintexts
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

    /// n2, 1 if d = 1.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.circuit.columns
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

    /// Ciphertexts per group in the answer: 1, or the four chunks if d = 2.
    #[must_use]
    pub fn answer_ciphertexts(&self) -> usize {
        if self.dimensions() == 1 { 1 } else { 4 }
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
        let coefficients = 2 * bfv::Parameters::s2048().degree();
        HEADER_BYTES
            + self.groups()
                * self.answer_ciphertexts()
                * packed_bytes(coefficients, self.answer_coefficient_bits())
    }

    /// Size of the prepared database in memory, bytes: what the first dimension reads for an answer.
    #[must_use]
    pub fn database_bytes(&self) -> usize {
        let bfv = bfv::Parameters::s2048();
        self.groups()
            * packed_bytes(bfv.degree(), bfv.small().modulus().bits())
            * self.rows()
            * self.columns()
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

    /// Bytes of an element in group `group`: those of a full plaintext, fewer in the last.
    pub(super) fn bytes_in_group(&self, group: usize) -> usize {
        (self.element_bytes - group * plaintext_bytes()).min(plaintext_bytes())
    }

    fn cost(&self) -> f64 {
        let (groups, columns) = (self.groups() as f64, self.columns() as f64);
        let second = if self.dimensions() == 1 { 0.0 } else { columns * cost::COLUMN };
        self.selectors() as f64 * cost::SELECTOR
            + groups
                * ((self.rows() * self.columns()) as f64 * cost::PLAINTEXT
                    + second
                    + self.answer_ciphertexts() as f64 * cost::ANSWER_CIPHERTEXT)
            + self.answer_bytes() as f64 / 1024.0 * cost::ANSWER_KIB
    }
}

/// Bytes that fit a plaintext: `N log2(t) / 8`.
pub(super) fn plaintext_bytes() -> usize {
    let bfv = bfv::Parameters::s2048();
    bfv.degree() * bfv.plaintext_bits() as usize / 8
}

/// Bits of a coefficient of a query.
pub(super) fn query_coefficient_bits() -> u32 {
    bfv::Parameters::s2048().large().modulus().bits() - QUERY_DROPPED_BITS
}

fn query_bytes(selectors: usize, levels: u32) -> usize {
    let coefficients = selectors * (bfv::Parameters::s2048().degree() >> levels);
    HEADER_BYTES + SEED_BYTES + packed_bytes(coefficients, query_coefficient_bits())
}

/// How elements lie in plaintexts.
struct Packing {
    elements_per_plaintext: usize,
    plaintexts: usize,
    groups: usize,
}

impl Packing {
    fn new(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        if elements == 0 || element_bytes == 0 {
            return Err(Error::Shape("an empty database"));
        }
        // Far above any use, and far below where a size could overflow.
        let bytes = elements.checked_mul(element_bytes).filter(|bytes| *bytes <= 1 << 44);
        bytes.ok_or(Error::Shape("database too large"))?;
        let groups = element_bytes.div_ceil(plaintext_bytes());
        let elements_per_plaintext = (plaintext_bytes() / element_bytes).max(1);
        Ok(Self { elements_per_plaintext, plaintexts: elements.div_ceil(elements_per_plaintext), groups })
    }
}
