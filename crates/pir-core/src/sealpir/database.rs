//! The preprocessed database: plaintexts in evaluation form, packed, in the order the first dimension reads them.

use std::sync::LazyLock;

use rayon::iter::{IndexedParallelIterator, IntoParallelRefMutIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use sha2::{Digest, Sha256};

use super::shape::{Parameters, plaintext_bytes};
use crate::ring::{self, Aligned, COLUMNS, Evaluation, Lanes, Polynomial, RowSums, Selectors, sampling};
use crate::{Error, bfv};

/// Slots that are stored and multiplied together.
const LANES: usize = size_of::<Lanes>() / size_of::<u64>();

/// Plaintexts that are encoded before they are put in their places: enough for long runs, few enough for the cache.
const BATCH: usize = 32;

/// Bytes of selectors that stay in the second-level cache while all bundles meet them.
const CACHED: usize = 1 << 19;

/// Blocks whose selectors are put in order at a time: neighbours in memory, of which the processor fetches many at once.
const ARRANGED: usize = 32;

/// A database ready to answer.
///
/// The columns of every group stand together in bundles of four, the last one of a group possibly smaller. A bundle
/// holds, for each eight neighbouring slots (a *block*), its rows one after the other: in each row, for each of its
/// columns, eight residues of `bits(q)` bits packed into as many bytes. The first dimension reads it from end to end,
/// with the sums of a bundle in registers; at 36 bits, 4 bytes are kept per byte of 288-byte elements.
pub struct Database {
    parameters: Parameters,
    /// Group by group.
    bundles: Vec<Vec<u8>>,
}

/// Results of the first dimension for one client and group.
///
/// For each column, c0 and c1 modulo q, in evaluation form.
#[derive(Clone, Default)]
pub(super) struct Products(Aligned<u64>);

impl Database {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters.
    pub fn new(parameters: &Parameters, elements: &[u8]) -> Result<Self, Error> {
        if elements.len() != parameters.elements() * parameters.element_bytes() {
            return Err(Error::Shape("size of the database"));
        }
        let mut bundles = vec![Vec::new(); parameters.groups() * bundles_per_group(parameters)];
        bundles.par_iter_mut().enumerate().for_each(|(index, bundle)| {
            *bundle = encode_bundle(parameters, elements, index);
        });
        Ok(Self { parameters: *parameters, bundles })
    }

    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bundles.iter().map(Vec::len).sum()
    }

    /// For every client and column, `sum_r selectors[r] * plaintext(r, column)` over the `n1` rows r, for both halves of
    /// the selectors, in one pass over the database.
    pub(super) fn first_dimension(
        &self,
        group: usize,
        selectors: &[&[bfv::Ciphertext<Evaluation>]],
        products: &mut [&mut Products],
    ) {
        if selectors.is_empty() {
            return;
        }
        let ntt = bfv::Parameters::s2048().small();
        let (columns, rows) = (self.parameters.columns(), self.parameters.rows());
        for products in products.iter_mut() {
            products.0.resize(columns * 2 * ntt.degree(), 0);
        }
        let per_group = bundles_per_group(&self.parameters);
        let bundles = &self.bundles[group * per_group..(group + 1) * per_group];
        let (mut scratch, mut out) = (RowSums::default(), Aligned::default());
        let clients = selectors.len();
        let mut arranged = Selectors::new(clients, rows);
        let blocks = ntt.degree() / LANES;
        let most = (CACHED / arranged.block_bytes().max(1)).clamp(1, ARRANGED);
        for first in (0..blocks).step_by(ARRANGED) {
            let batch = ARRANGED.min(blocks - first);
            arranged.resize(batch);
            for (client, selectors) in selectors.iter().enumerate() {
                for (row, selector) in selectors.iter().take(rows).enumerate() {
                    let slots = first * LANES..(first + batch) * LANES;
                    let halves = [&selector.c0, &selector.c1].map(|half| &half.residues()[slots.clone()]);
                    ring::arrange(ntt.modulus(), &mut arranged, client, row, halves);
                }
            }
            for start in (0..batch).step_by(most) {
                let run = start..batch.min(start + most);
                for (index, bundle) in bundles.iter().enumerate() {
                    let columns = columns_in_bundle(&self.parameters, index);
                    let block_bytes = block_bytes(&self.parameters, columns);
                    let packed = &bundle[(first + run.start) * block_bytes..(first + run.end) * block_bytes];
                    out.resize(run.len() * clients * columns, [[0; LANES]; 2]);
                    let out = &mut out[..run.len() * clients * columns];
                    ring::row_products(
                        ntt.modulus(),
                        packed,
                        columns,
                        arranged.run(run.start),
                        out,
                        &mut scratch,
                    );
                    for (client, products) in products.iter_mut().enumerate() {
                        let results = out.chunks_exact(columns).skip(client).step_by(clients);
                        products.put(index * COLUMNS, columns, first + run.start, results);
                    }
                }
            }
        }
    }
}

impl Products {
    /// Puts the results of some columns, block by block from `first_block` on, in their places.
    fn put<'a>(
        &mut self,
        first_column: usize,
        columns: usize,
        first_block: usize,
        results: impl Iterator<Item = &'a [[Lanes; 2]]> + Clone,
    ) {
        let degree = bfv::Parameters::s2048().degree();
        let places = self.0.chunks_exact_mut(degree).skip(2 * first_column).take(2 * columns);
        for (i, half) in places.enumerate() {
            let blocks = half.as_chunks_mut().0[first_block..].iter_mut();
            blocks.zip(results.clone()).for_each(|(place, result)| *place = result[i / 2][i % 2]);
        }
    }

    /// c0 and c1 of a column.
    pub(super) fn column(&mut self, column: usize) -> [&mut [u64]; 2] {
        let degree = bfv::Parameters::s2048().degree();
        self.0[2 * column * degree..2 * (column + 1) * degree].split_at_mut(degree).into()
    }
}

fn bundles_per_group(parameters: &Parameters) -> usize {
    parameters.columns().div_ceil(COLUMNS)
}

/// Columns of bundle `index` of a group.
fn columns_in_bundle(parameters: &Parameters, index: usize) -> usize {
    COLUMNS.min(parameters.columns() - index * COLUMNS)
}

/// Bytes of a block of a bundle of so many columns.
fn block_bytes(parameters: &Parameters, columns: usize) -> usize {
    parameters.rows() * columns * residue_bits()
}

/// Bits of a stored residue, and bytes of eight.
fn residue_bits() -> usize {
    bfv::Parameters::s2048().small().modulus().bits() as usize
}

/// Encodes a batch of neighbouring rows, then writes, block by block, the run of bytes they share.
fn encode_bundle(parameters: &Parameters, elements: &[u8], index: usize) -> Vec<u8> {
    let degree = bfv::Parameters::s2048().degree();
    let (group, index) = (index / bundles_per_group(parameters), index % bundles_per_group(parameters));
    let columns = columns_in_bundle(parameters, index);
    let (block_bytes, width) = (block_bytes(parameters, columns), residue_bits());
    let mut bundle = vec![0; degree / LANES * block_bytes];
    let rows_at_once = BATCH.div_ceil(columns);
    let mut batch = vec![Polynomial::zero(degree); rows_at_once * columns];
    for first in (0..parameters.rows()).step_by(rows_at_once) {
        let rows = rows_at_once.min(parameters.rows() - first);
        let batch = &mut batch[..rows * columns];
        batch.par_chunks_exact_mut(columns).enumerate().for_each(|(row, encoded)| {
            for (column, encoded) in encoded.iter_mut().enumerate() {
                let column = index * COLUMNS + column;
                *encoded = encode(parameters, elements, group, column * parameters.rows() + first + row);
            }
        });
        let sources: Vec<&[u64]> = batch.iter().map(Polynomial::residues).collect();
        for (block, bytes) in bundle.chunks_exact_mut(block_bytes).enumerate() {
            let run = &mut bytes[first * columns * width..][..rows * columns * width];
            ring::pack(width, block * LANES, &sources, run);
        }
    }
    bundle
}

/// Plaintext `plaintext` of group `group`: whitened bytes, cut into coefficients of log2 t bits centred in
/// `[-t/2, t/2)`.
pub(super) fn encode(
    parameters: &Parameters,
    elements: &[u8],
    group: usize,
    plaintext: usize,
) -> Polynomial<Evaluation> {
    let bfv = bfv::Parameters::s2048();
    let mut bytes = vec![0; plaintext_bytes()];
    let per_plaintext = parameters.elements_per_plaintext();
    let size = parameters.element_bytes();
    let first = (plaintext * per_plaintext).min(parameters.elements());
    let last = (first + per_plaintext).min(parameters.elements());
    let source = &elements[first * size..last * size];
    // One of the two factors is 1: several elements in a plaintext, or several plaintexts (groups) to an element.
    let offset = group * plaintext_bytes();
    let part = &source[offset.min(source.len())..source.len().min(offset + plaintext_bytes())];
    if plaintext >= parameters.plaintexts() {
        // Places that the last column has too many.
        return Polynomial::zero(bfv.degree());
    }
    bytes[..part.len()].copy_from_slice(part);
    whiten(parameters, &mut bytes, group, plaintext);

    let bits = bfv.plaintext_bits();
    let mut coefficients = vec![0; bfv.degree()];
    ring::unpack(bits as usize, &bytes, &mut coefficients);
    let mut encoded = Polynomial::zero(bfv.degree());
    ring::chunk(bfv.small().modulus(), 0, bits, encoded.residues_mut(), &coefficients);
    bfv.small().forward(encoded.residues_mut());
    encoded
}

/// XORs the public keystream of a plaintext into its bytes: ChaCha20 under SHA-256("sotto sealpir whitening v1"), stream
/// `plaintext * groups + group`.
pub(super) fn whiten(parameters: &Parameters, bytes: &mut [u8], group: usize, plaintext: usize) {
    static SEED: LazyLock<[u8; 32]> = LazyLock::new(|| Sha256::digest(b"sotto sealpir whitening v1").into());
    sampling::mask(bytes, &SEED, (plaintext * parameters.groups() + group) as u64);
}
