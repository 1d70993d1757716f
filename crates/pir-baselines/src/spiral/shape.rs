//! How elements lie in plaintexts, and plaintexts in rows and columns.

use pir_core::Error;
use pir_core::bfv::Gadget;
use pir_core::constant_time::{divide, equal, public};
use pir_core::ring::bits::packed_bytes;
use subtle::ConditionallySelectable;
use zeroize::Zeroizing;

use super::encoding::{HEADER_BYTES, SEED_BYTES};
use super::lattice::{DEGREE, LEVELS};
use super::preset::Preset;

/// No query is larger.
pub const MAXIMUM_QUERY_BYTES: usize = 32 << 20;

/// Everything both ends must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    pub(super) preset: usize,
    pub(super) elements: usize,
    pub(super) element_bytes: usize,
    /// n.
    pub(super) width: usize,
    /// Dimension of the matrices that answers are packed into, or 1.
    pub(super) pack: usize,
    /// log2 p.
    pub(super) plaintext_bits: u32,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Of the external products.
    pub(super) folding: Gadget,
    /// Of the coefficients of an answer: those of the parts with a message, and the other ones.
    pub(super) answer_bits: [u32; 2],
}

/// Where an element lies.
pub(super) struct Place {
    pub(super) plaintext: usize,
    /// Which of the elements of its plaintext.
    pub(super) slot: usize,
    pub(super) row: usize,
    pub(super) column: usize,
}

impl Parameters {
    pub(super) fn preset(&self) -> &'static Preset {
        Preset::of(self.preset)
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Bytes per element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// n, the dimension of the matrices that are multiplied.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The dimension of the matrices that answers are packed into, or 1.
    #[must_use]
    pub fn pack(&self) -> usize {
        self.pack
    }

    /// log2 of the plaintext modulus p.
    #[must_use]
    pub fn plaintext_bits(&self) -> u32 {
        self.plaintext_bits
    }

    /// Size of the first dimension.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, which are folded by halves.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Folds from all columns to one, `ceil(log2 columns)`: the further dimensions.
    #[must_use]
    pub fn folds(&self) -> u32 {
        self.columns.next_power_of_two().ilog2()
    }

    /// The gadget of the external products.
    #[must_use]
    pub fn folding(&self) -> Gadget {
        self.folding
    }

    /// Bits of the coefficients of an answer: of the parts with a message, and of the other ones.
    #[must_use]
    pub fn answer_bits(&self) -> [u32; 2] {
        self.answer_bits
    }

    /// Whether queries are uploaded as they are needed, and nothing is expanded.
    #[must_use]
    pub fn streams(&self) -> bool {
        self.preset().streams
    }

    /// Levels of the tree of the rows: all, so that queries are short, or as many as the rows need.
    #[must_use]
    pub fn row_levels(&self) -> u32 {
        let needed = self.rows.next_power_of_two().ilog2();
        if self.preset().as_published { needed } else { LEVELS as u32 }
    }

    /// Leaves of the tree of the folding bits, one for each digit of each.
    #[must_use]
    pub fn bit_leaves(&self) -> usize {
        (self.folds() * self.folding.digits) as usize
    }

    /// Levels of that tree.
    #[must_use]
    pub fn bit_levels(&self) -> u32 {
        self.bit_leaves().next_power_of_two().ilog2()
    }

    /// Dimension of the matrix that an answer is.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.width * self.pack
    }

    /// Polynomials of a plaintext.
    #[must_use]
    pub fn polynomials(&self) -> usize {
        self.dimension().pow(2)
    }

    /// Bytes of a plaintext.
    #[must_use]
    pub fn plaintext_bytes(&self) -> usize {
        self.polynomials() * self.polynomial_bytes()
    }

    /// Bytes of a polynomial of a plaintext.
    pub(super) fn polynomial_bytes(&self) -> usize {
        packed_bytes(DEGREE, self.plaintext_bits)
    }

    /// Plaintexts that an element spans; an answer holds a matrix for each.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.element_bytes.div_ceil(self.plaintext_bytes())
    }

    /// Elements in one plaintext.
    #[must_use]
    pub fn elements_per_plaintext(&self) -> usize {
        (self.plaintext_bytes() / self.element_bytes).max(1)
    }

    /// Plaintexts of a group.
    #[must_use]
    pub fn plaintexts(&self) -> usize {
        self.elements.div_ceil(self.elements_per_plaintext())
    }

    /// Bytes of an element in a group.
    pub(super) fn bytes_in_group(&self, group: usize) -> usize {
        (self.element_bytes - group * self.plaintext_bytes()).min(self.plaintext_bytes())
    }

    /// Size of a query, bytes.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        HEADER_BYTES + SEED_BYTES + self.row_part_bytes() + self.bit_part_bytes()
    }

    /// Bytes of the rows in a query.
    pub(super) fn row_part_bytes(&self) -> usize {
        let (preset, key) = (self.preset(), &self.preset().lattice.key);
        if preset.streams {
            return self.rows * polynomial_bytes(key);
        }
        let coefficients = self.rows << (LEVELS as u32 - self.row_levels());
        packed_bytes(coefficients, key.bits() - preset.dropped_bits[0])
    }

    /// Bytes of the folding bits in a query.
    pub(super) fn bit_part_bytes(&self) -> usize {
        let (preset, key) = (self.preset(), &self.preset().lattice.key);
        if preset.streams {
            // One column with one b, or all columns of the matrix.
            let columns = if preset.converts(self.width) { 1 } else { (1 + self.width) * self.width };
            return columns * self.bit_leaves() * polynomial_bytes(key);
        }
        let coefficients = self.bit_leaves() << (LEVELS as u32 - self.bit_levels());
        packed_bytes(coefficients, key.bits() - preset.dropped_bits[1])
    }

    /// Size of an answer, bytes.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        HEADER_BYTES + self.groups() * self.group_bytes()
    }

    /// Bytes of a matrix in an answer.
    pub(super) fn group_bytes(&self) -> usize {
        let ([short, long], dimension) = (self.answer_bits, self.dimension());
        packed_bytes(DEGREE, short) * self.polynomials() + packed_bytes(DEGREE, long) * dimension
    }

    /// Where an element lies.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such element.
    pub(super) fn place(&self, index: usize) -> Result<Place, Error> {
        // A client that asks for what does not exist says so: it gets no query.
        if public(index >= self.elements) {
            return Err(Error::Index);
        }
        let (plaintext, slot) = divide(index, self.elements_per_plaintext());
        let (column, row) = divide(plaintext, self.rows);
        Ok(Place { plaintext, slot, row, column })
    }

    /// Appends the bytes of one slot of a plaintext, touching those of all slots.
    pub(super) fn select(&self, bytes: &[u8], group: usize, slot: usize, element: &mut Vec<u8>) {
        let size = self.bytes_in_group(group);
        let mut chosen = Zeroizing::new(vec![0; size]);
        for (candidate, bytes) in bytes.chunks_exact(size).take(self.elements_per_plaintext()).enumerate() {
            let choice = equal(candidate, slot);
            chosen.iter_mut().zip(bytes).for_each(|(out, byte)| out.conditional_assign(byte, choice));
        }
        element.extend_from_slice(&chosen);
    }
}

/// Bytes of a polynomial in evaluation form: prime by prime, as many bits as the prime has.
pub(super) fn polynomial_bytes(ring: &super::lattice::Ring) -> usize {
    ring.primes().iter().map(|prime| packed_bytes(DEGREE, prime.modulus().bits())).sum()
}
