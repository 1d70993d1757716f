//! The preprocessed database: plaintexts in evaluation form, packed, in the order the first dimension reads them.

use std::sync::LazyLock;

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use sha2::{Digest, Sha256};

use super::shape::{Parameters, plaintext_bytes};
use crate::pages::Pages;
use crate::ring::{self, Aligned, COLUMNS, Evaluation, Lanes, Products, RowSums, Selectors, sampling};
use crate::{Error, bfv};

/// Slots that are stored and multiplied together.
const LANES: usize = size_of::<Lanes>() / size_of::<u64>();

/// Plaintexts for each thread that are encoded before they are put in their places: enough for long runs, few enough for
/// the cache.
const BATCH: usize = 32;

/// Bytes of selectors put in order at a time; with many clients or rows, more.
const ARRANGED_BYTES: usize = 1 << 20;

/// Blocks whose selectors are put in order at a time: neighbours in memory, of which the processor fetches many at once.
const ARRANGED_BLOCKS: core::ops::RangeInclusive<usize> = 8..=32;

/// A database ready to answer.
///
/// For each eight neighbouring slots (a *block*), the columns stand together in bundles of four, the last one of a group
/// possibly smaller. A bundle holds its rows one after the other: in each row, for each of its columns, eight residues of
/// `bits(q)` bits packed into as many bytes. The first dimension reads all of it once, from end to end, with the sums of a
/// bundle in registers and the selectors of a block in the cache; at 36 bits, 4 bytes are kept per byte of 288-byte
/// elements.
pub struct Database {
    parameters: Parameters,
    /// Block by block, group by group.
    packed: Pages,
}

impl Database {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters; [`Error::Memory`] if there is no room for it.
    pub fn new(parameters: &Parameters, elements: &[u8]) -> Result<Self, Error> {
        if elements.len() != parameters.elements() * parameters.element_bytes() {
            return Err(Error::Shape("size of the database"));
        }
        let mut packed = Pages::new(parameters.groups() * group_bytes(parameters))?;
        for (group, packed) in packed.chunks_exact_mut(group_bytes(parameters)).enumerate() {
            encode_group(parameters, elements, group, packed);
        }
        Ok(Self { parameters: *parameters, packed })
    }

    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.packed.len()
    }

    /// For every client and column, `sum_r selectors[r] * plaintext(r, column)` over the `n1` rows r, for both halves of
    /// the selectors, modulo q and in evaluation form, in one pass over the database.
    pub(crate) fn first_dimension(
        &self,
        group: usize,
        selectors: &[&[bfv::Ciphertext<Evaluation>]],
        products: &mut [&mut Products],
    ) {
        if selectors.is_empty() {
            return;
        }
        let ntt = bfv::Parameters::s2048().small();
        let (columns, rows) = (self.parameters.all_columns(), self.parameters.rows());
        for products in products.iter_mut() {
            products.resize(columns, ntt.degree());
        }
        let bytes = group_bytes(&self.parameters);
        let packed = &self.packed[group * bytes..(group + 1) * bytes];
        let block_bytes = block_bytes(&self.parameters);
        let mut scratch = RowSums::default();
        let mut arranged = Selectors::new(selectors.len(), rows);
        let at_once = (ARRANGED_BYTES / arranged.block_bytes().max(1))
            .clamp(*ARRANGED_BLOCKS.start(), *ARRANGED_BLOCKS.end());
        for (index, packed) in packed.chunks(at_once * block_bytes).enumerate() {
            let first = index * at_once;
            let blocks = first..first + packed.len() / block_bytes;
            let slots = blocks.start * LANES..blocks.end * LANES;
            arranged.resize(blocks);
            for (client, selectors) in selectors.iter().enumerate() {
                for (row, selector) in selectors.iter().take(rows).enumerate() {
                    let halves = [&selector.c0, &selector.c1].map(|half| &half.residues()[slots.clone()]);
                    ring::arrange(ntt.modulus(), &mut arranged, client, row, halves);
                }
            }
            ring::row_products(ntt.modulus(), packed, columns, &arranged, products, &mut scratch);
        }
    }
}

/// Bytes of a block of a group.
fn block_bytes(parameters: &Parameters) -> usize {
    parameters.rows() * parameters.all_columns() * residue_bits()
}

/// Bytes of all blocks of a group.
fn group_bytes(parameters: &Parameters) -> usize {
    bfv::Parameters::s2048().degree() / LANES * block_bytes(parameters)
}

/// Bits of a stored residue, and bytes of eight.
fn residue_bits() -> usize {
    bfv::Parameters::s2048().small().modulus().bits() as usize
}

/// The plaintext, counted column by column, at a place of every block.
fn plaintext_at(parameters: &Parameters, place: usize) -> usize {
    let (rows, columns) = (parameters.rows(), parameters.all_columns());
    let (bundle, place) = (place / (rows * COLUMNS), place % (rows * COLUMNS));
    let in_bundle = COLUMNS.min(columns - bundle * COLUMNS);
    (bundle * COLUMNS + place % in_bundle) * rows + place / in_bundle
}

/// Encodes plaintexts that stand next to each other, then writes, block by block, the run of bytes they share.
fn encode_group(parameters: &Parameters, elements: &[u8], group: usize, packed: &mut [u8]) {
    let (degree, width) = (bfv::Parameters::s2048().degree(), residue_bits());
    let places = parameters.rows() * parameters.all_columns();
    let at_once = places.min(BATCH * rayon::current_num_threads());
    let mut batch = Aligned::filled(0, at_once * degree);
    for first in (0..places).step_by(at_once) {
        let batch = &mut batch[..at_once.min(places - first) * degree];
        batch.par_chunks_exact_mut(degree).enumerate().for_each_init(
            Encoder::default,
            |encoder, (i, encoded)| {
                encoder.encode(parameters, elements, group, plaintext_at(parameters, first + i), encoded);
            },
        );
        let sources: Vec<&[u64]> = batch.chunks_exact(degree).collect();
        packed.par_chunks_exact_mut(block_bytes(parameters)).enumerate().for_each(|(block, bytes)| {
            ring::pack(width, block * LANES, &sources, &mut bytes[first * width..][..sources.len() * width]);
        });
    }
}

/// Buffers of one thread for plaintexts in the making.
#[derive(Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    coefficients: Vec<u64>,
}

impl Encoder {
    /// Plaintext `plaintext` of group `group`, in evaluation form: whitened bytes, cut into coefficients of log2 t bits
    /// centred in `[-t/2, t/2)`.
    pub(crate) fn encode(
        &mut self,
        parameters: &Parameters,
        elements: &[u8],
        group: usize,
        plaintext: usize,
        encoded: &mut [u64],
    ) {
        if plaintext >= parameters.plaintexts() {
            // Places that the last columns have too many.
            encoded.fill(0);
            return;
        }
        let bfv = bfv::Parameters::s2048();
        let per_plaintext = parameters.elements_per_plaintext();
        let size = parameters.element_bytes();
        let first = (plaintext * per_plaintext).min(parameters.elements());
        let last = (first + per_plaintext).min(parameters.elements());
        let source = &elements[first * size..last * size];
        // One of the two factors is 1: several elements in a plaintext, or several plaintexts (groups) to an element.
        let offset = group * plaintext_bytes();
        let part = &source[offset.min(source.len())..source.len().min(offset + plaintext_bytes())];
        self.bytes.clear();
        self.bytes.extend_from_slice(part);
        self.bytes.resize(plaintext_bytes(), 0);
        whiten(parameters, &mut self.bytes, group, plaintext);

        let bits = bfv.plaintext_bits();
        self.coefficients.resize(bfv.degree(), 0);
        ring::unpack(bits as usize, &self.bytes, &mut self.coefficients);
        ring::chunk(bfv.small().modulus(), 0, bits, encoded, &self.coefficients);
        bfv.small().forward(encoded);
    }
}

/// XORs the public keystream of a plaintext into its bytes: ChaCha8 under SHA-256("sotto sealpir whitening v2"), stream
/// `plaintext * groups + group`.
pub(super) fn whiten(parameters: &Parameters, bytes: &mut [u8], group: usize, plaintext: usize) {
    static SEED: LazyLock<[u8; 32]> = LazyLock::new(|| Sha256::digest(b"sotto sealpir whitening v2").into());
    sampling::whiten(bytes, &SEED, (plaintext * parameters.groups() + group) as u64);
}

#[cfg(test)]
mod tests {
    use super::{Parameters, encode_group, group_bytes};

    #[test]
    fn every_byte_is_written_whatever_was_there() {
        // Columns and a last plaintext that are not full; elements of several plaintexts.
        for (elements, element_bytes) in [(1000, 288), (5, 6000)] {
            let parameters = Parameters::choose(elements, element_bytes).unwrap();
            let bytes: Vec<u8> = (0..elements * element_bytes).map(|i| (i * 7 % 251) as u8).collect();
            for group in 0..parameters.groups() {
                let [zeros, ones] = [0, 0xFF].map(|content| {
                    let mut packed = vec![content; group_bytes(&parameters)];
                    encode_group(&parameters, &bytes, group, &mut packed);
                    packed
                });
                assert_eq!(zeros, ones, "{elements} of {element_bytes} bytes");
            }
        }
    }
}
