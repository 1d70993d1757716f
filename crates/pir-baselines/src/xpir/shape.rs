//! How the database is arranged, and the choice of the cheapest arrangement.

use pir_core::dimensions::{ANSWER_MARGIN_BITS, AnswerForm, CHUNKS};
use pir_core::noise::MAXIMUM_FAILURE_LOG2;
use pir_core::packing::Packing;
use pir_core::ring::bits::packed_bytes;
use pir_core::{Error, bfv};

use super::encoding::{HEADER_BYTES, SEED_BYTES};
use super::noise::FreshCircuit;

/// No query is larger.
pub const MAXIMUM_QUERY_BYTES: usize = 16 << 20;

/// Everything both ends must agree on: packing, arrangement, size of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<const D: usize> {
    /// Of all elements.
    packing: Packing,
    /// Rows, columns and, if d = 3, planes.
    shape: [usize; D],
    /// Bits of each coefficient of the answer.
    answer_bits: u32,
}

/// Cost of the server's work, in microseconds; see the weights of [`pir_core::sealpir::Parameters`], which these agree with.
mod cost {
    /// A selector: its slots unpacked, its uniform half drawn.
    pub(super) const SELECTOR: f64 = 20.0;
    /// A plaintext of the first dimension.
    pub(super) const PLAINTEXT: f64 = 1.6;
    /// A ciphertext that a further dimension takes in.
    pub(super) const CIPHERTEXT: f64 = 40.0;
    /// A KiB sent is worth as much.
    pub(super) const KIB: f64 = 10.0;
}

impl<const D: usize> Parameters<D> {
    /// The cheapest admissible arrangement whose every dimension is between half the d-th root of the number of plaintexts
    /// and twice that root; see [`pir_core::Scheme::parameters`].
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, an element is empty, or there is no admissible arrangement.
    pub fn choose(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        let packing = Packing::new(elements, element_bytes)?;
        let plaintexts = packing.plaintexts();
        // No shape has fewer selectors than d times the root.
        let root = (1..=MAXIMUM_QUERY_BYTES / (D * selector_bytes()))
            .find(|root| root.pow(D as u32) >= plaintexts)
            .ok_or(Error::Shape("too many elements"))?;
        let near = root.div_ceil(2)..=2 * root;
        let planes = if D == 3 { near.clone() } else { 1..=1 };
        // Sizes that leave a last column or plane empty are those of a smaller number of them.
        let shapes = planes
            .flat_map(|planes| near.clone().map(move |columns| (columns, planes)))
            .map(|(columns, planes)| [plaintexts.div_ceil(columns * planes), columns, planes])
            .map(|sizes| core::array::from_fn(|dimension| sizes[dimension]))
            .filter(|shape: &[usize; D]| near.contains(&shape[0]) && is_tight(plaintexts, *shape));
        let with_cost = |shape| (shape, Self { packing, shape, answer_bits: 0 }.cost());
        let mut shapes: Vec<_> = shapes.map(with_cost).collect();
        shapes.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let admissible = |(shape, _)| Self::with_shape(elements, element_bytes, shape).ok();
        shapes.into_iter().find_map(admissible).ok_or(Error::Shape("too many elements"))
    }

    /// The arrangement in the given numbers of rows, columns and, if d = 3, planes. For tests and measurements.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::choose`], or if the last column or plane would be empty, or something would
    /// not fit.
    pub fn with_shape(elements: usize, element_bytes: usize, shape: [usize; D]) -> Result<Self, Error> {
        let packing = Packing::new(elements, element_bytes)?;
        if !is_tight(packing.plaintexts(), shape) {
            return Err(Error::Shape("rows, columns and planes that do not fit the plaintexts"));
        }
        if (Self { packing, shape, answer_bits: 0 }).query_bytes() > MAXIMUM_QUERY_BYTES {
            return Err(Error::Shape("query too large"));
        }
        let bfv = bfv::Parameters::s2048();
        ANSWER_MARGIN_BITS
            .map(|margin| Self { packing, shape, answer_bits: bfv.plaintext_bits() + margin })
            .find(|parameters| parameters.circuit().failure_log2(bfv) <= MAXIMUM_FAILURE_LOG2)
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

    /// Plaintexts of one group, at most the product of the shape.
    #[must_use]
    pub fn plaintexts(&self) -> usize {
        self.packing.plaintexts()
    }

    /// Plaintexts that one element spans.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.packing.groups()
    }

    /// Selectors of each dimension: rows, columns and, if d = 3, planes.
    #[must_use]
    pub fn shape(&self) -> [usize; D] {
        self.shape
    }

    /// Selectors in a query.
    #[must_use]
    pub fn selectors(&self) -> usize {
        self.shape().iter().sum()
    }

    /// Bits of each coefficient of the answer.
    #[must_use]
    pub fn answer_coefficient_bits(&self) -> u32 {
        self.answer_bits
    }

    /// What the noise depends on.
    #[must_use]
    pub fn circuit(&self) -> FreshCircuit<D> {
        FreshCircuit {
            selectors: self.shape(),
            groups: self.groups(),
            answer_bits: self.answer_coefficient_bits(),
        }
    }

    /// Size of a query, bytes.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        HEADER_BYTES + SEED_BYTES + self.selectors() * selector_bytes()
    }

    /// Size of an answer, bytes.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        HEADER_BYTES + self.groups() * self.answer_form().bytes()
    }

    /// How elements lie in plaintexts.
    pub(super) fn packing(&self) -> &Packing {
        &self.packing
    }

    /// Rows and columns of a plane.
    pub(super) fn plane(&self) -> [usize; 2] {
        [self.shape[0], self.shape[1]]
    }

    /// The ciphertexts of a group.
    pub(super) fn answer_form(&self) -> AnswerForm {
        AnswerForm { dimensions: D as u32, bits: self.answer_bits }
    }

    fn cost(&self) -> f64 {
        let [rows, columns] = self.plane();
        let planes = self.shape.get(2).copied().unwrap_or(1) as f64;
        let (plane, columns) = ((rows * columns) as f64, columns as f64);
        let third = if D == 3 { CHUNKS as f64 * planes } else { 0.0 };
        let per_group = planes * plane * cost::PLAINTEXT + (planes * columns + third) * cost::CIPHERTEXT;
        self.selectors() as f64 * cost::SELECTOR
            + self.groups() as f64 * per_group
            + (self.query_bytes() + self.answer_bytes()) as f64 / 1024.0 * cost::KIB
    }
}

/// Whether no row, column or plane is missing or empty: as few of each as the others demand.
fn is_tight<const D: usize>(plaintexts: usize, shape: [usize; D]) -> bool {
    let Some(below) = shape[..D - 1].iter().try_fold(1usize, |product, size| product.checked_mul(*size))
    else {
        return false;
    };
    below != 0 && plaintexts.div_ceil(below) == shape[D - 1]
}

/// Bytes of a selector in a query.
pub(super) fn selector_bytes() -> usize {
    let bfv = bfv::Parameters::s2048();
    packed_bytes(bfv.degree(), bfv.small().modulus().bits())
}
