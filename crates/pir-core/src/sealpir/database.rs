//! The preprocessed database: plaintexts in evaluation form, in the order the first dimension reads them.

use std::sync::LazyLock;

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use sha2::{Digest, Sha256};

use super::shape::{Parameters, plaintext_bytes};
use crate::ring::bits::BitReader;
use crate::ring::{self, Evaluation, Polynomial, sampling};
use crate::{Error, bfv};

/// Slots that the first dimension works on at a time; their sums stay in the first-level cache.
const BLOCK: usize = 512;

/// Rows that are multiplied and accumulated in one call; their blocks stay in the first-level cache for both halves.
const ROWS: usize = 4;

/// A database ready to answer.
///
/// For each group, column, prime, and block of 512 slots, the blocks of the column's `n1` plaintexts follow each other.
pub struct Database {
    parameters: Parameters,
    slots: Vec<u64>,
}

impl Database {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters.
    pub fn new(parameters: &Parameters, elements: &[u8]) -> Result<Self, Error> {
        if elements.len() != parameters.elements() * parameters.element_bytes() {
            return Err(Error::Shape("size of the database"));
        }
        let mut slots = vec![0; parameters.groups() * parameters.columns() * column_slots(parameters)];
        slots.par_chunks_exact_mut(column_slots(parameters)).enumerate().for_each(|(index, column)| {
            let (group, first) =
                (index / parameters.columns(), index % parameters.columns() * parameters.rows());
            let last = (first + parameters.rows()).min(parameters.plaintexts());
            for plaintext in first..last {
                let encoded = encode(parameters, elements, group, plaintext);
                scatter(parameters, column, plaintext - first, encoded.residues());
            }
        });
        Ok(Self { parameters: *parameters, slots })
    }

    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u64>()
    }

    /// `sum_r selectors[r] * plaintext(r, column)` for the `n1` rows r of a column, for both halves of the selectors.
    pub(super) fn inner_product(
        &self,
        group: usize,
        column: usize,
        selectors: &[bfv::Ciphertext<Evaluation>],
    ) -> bfv::Ciphertext<Evaluation> {
        let bfv = bfv::Parameters::s4096();
        let basis = bfv.ciphertext_basis();
        let mut product = bfv::Ciphertext::zero(basis);
        let mut sums = [[0; BLOCK]; 2];
        let start = (group * self.parameters.columns() + column) * column_slots(&self.parameters);
        let mut blocks = self.slots[start..start + column_slots(&self.parameters)].chunks_exact(BLOCK);
        for (prime, modulus) in basis.moduli().enumerate() {
            for first in (0..bfv.degree()).step_by(BLOCK) {
                let range = first..first + BLOCK;
                for selectors in selectors.chunks(ROWS) {
                    // One vector of four pairs for every half: small against the 2,048 products each stands for.
                    let rows: Vec<&[u64]> = blocks.by_ref().take(selectors.len()).collect();
                    let terms =
                        |half: fn(&bfv::Ciphertext<Evaluation>) -> &Polynomial<Evaluation>| -> Vec<_> {
                            let selectors = selectors
                                .iter()
                                .map(|selector| &half(selector).channel(prime)[range.clone()]);
                            rows.iter().copied().zip(selectors).collect()
                        };
                    ring::multiply_accumulate(&mut sums[0], &terms(|selector| &selector.c0));
                    ring::multiply_accumulate(&mut sums[1], &terms(|selector| &selector.c1));
                }
                ring::reduce(modulus, &mut product.c0.channel_mut(prime)[range.clone()], &mut sums[0]);
                ring::reduce(modulus, &mut product.c1.channel_mut(prime)[range], &mut sums[1]);
            }
        }
        product
    }
}

/// Slots of one column of one group, all primes.
fn column_slots(parameters: &Parameters) -> usize {
    let bfv = bfv::Parameters::s4096();
    parameters.rows() * bfv.degree() * bfv.ciphertext_basis().transforms().len()
}

/// Puts row `row` of a column at its blocks.
fn scatter(parameters: &Parameters, column: &mut [u64], row: usize, residues: &[u64]) {
    let rows = column.chunks_exact_mut(BLOCK).skip(row).step_by(parameters.rows());
    rows.zip(residues.chunks_exact(BLOCK)).for_each(|(block, source)| block.copy_from_slice(source));
}

/// Plaintext `plaintext` of group `group`: whitened bytes, cut into coefficients of log2 t bits centred in
/// `[-t/2, t/2)`.
pub(super) fn encode(
    parameters: &Parameters,
    elements: &[u8],
    group: usize,
    plaintext: usize,
) -> Polynomial<Evaluation> {
    let bfv = bfv::Parameters::s4096();
    let mut bytes = vec![0; plaintext_bytes()];
    let per_plaintext = parameters.elements_per_plaintext();
    let size = parameters.element_bytes();
    let last = ((plaintext + 1) * per_plaintext).min(parameters.elements());
    let source = &elements[plaintext * per_plaintext * size..last * size];
    // One of the two factors is 1: several elements in a plaintext, or several plaintexts (groups) to an element.
    let offset = group * plaintext_bytes();
    let part = &source[offset..source.len().min(offset + plaintext_bytes())];
    bytes[..part.len()].copy_from_slice(part);
    whiten(parameters, &mut bytes, group, plaintext);

    let bits = bfv.plaintext_bits();
    let mut reader = BitReader::new(&bytes);
    let coefficients: Vec<i64> = (0..bfv.degree()).map(|_| centre(reader.read(bits), bits)).collect();
    Polynomial::from_signed(bfv.ciphertext_basis(), &coefficients).into_evaluation(bfv.ciphertext_basis())
}

/// The representative of a residue modulo `2^bits` in `[-2^(bits-1), 2^(bits-1))`.
pub(super) fn centre(value: u64, bits: u32) -> i64 {
    ((value << (64 - bits)) as i64) >> (64 - bits)
}

/// XORs the public keystream of a plaintext into its bytes: ChaCha20 under SHA-256("sotto sealpir whitening v1"), stream
/// `plaintext * groups + group`.
pub(super) fn whiten(parameters: &Parameters, bytes: &mut [u8], group: usize, plaintext: usize) {
    static SEED: LazyLock<[u8; 32]> = LazyLock::new(|| Sha256::digest(b"sotto sealpir whitening v1").into());
    sampling::mask(bytes, &SEED, (plaintext * parameters.groups() + group) as u64);
}
