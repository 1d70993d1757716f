//! The preprocessed database: plaintexts in evaluation form, packed, in the order the first dimension reads them.

use std::sync::LazyLock;

use rayon::iter::{IndexedParallelIterator, IntoParallelRefMutIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use sha2::{Digest, Sha256};

use super::shape::{Parameters, plaintext_bytes};
use crate::ring::{self, COLUMNS, Evaluation, Lanes, Modulus, Polynomial, RowSums, sampling};
use crate::{Error, bfv};

/// Slots that are stored and multiplied together.
const LANES: usize = size_of::<Lanes>() / size_of::<u64>();

/// Plaintexts that are encoded before they are put in their places: enough for long runs, few enough for the cache.
const BATCH: usize = 32;

/// Bytes of selectors that stay in the second-level cache while all bundles meet them.
const CACHED: usize = 1 << 19;

/// A database ready to answer.
///
/// The columns of every group stand together in bundles of four, the last one of a group possibly smaller. A bundle
/// holds, for each prime and each eight neighbouring slots, its rows one after the other: in each row, for each of its
/// columns, eight residues of `bits(q_i)` bits packed into as many bytes. The first dimension reads it from end to end,
/// with the sums of a bundle in registers; at 36 bits, 3.2 bytes are kept per byte of 288-byte elements.
pub struct Database {
    parameters: Parameters,
    /// Group by group.
    bundles: Vec<Vec<u8>>,
}

/// Results of the first dimension for one client and group.
///
/// For each column, c0 and c1 over the ciphertext basis.
#[derive(Clone, Default)]
pub(super) struct Products(Vec<u64>);

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
        let basis = bfv::Parameters::s4096().ciphertext_basis();
        let (columns, rows) = (self.parameters.columns(), self.parameters.rows());
        for products in products.iter_mut() {
            products.0.resize(columns * 2 * basis.transforms().len() * basis.degree(), 0);
        }
        let per_group = bundles_per_group(&self.parameters);
        let bundles = &self.bundles[group * per_group..(group + 1) * per_group];
        let (mut scratch, mut out, mut arranged) = (RowSums::new(selectors.len()), Vec::new(), Vec::new());
        let blocks: Vec<Block<'_>> = Block::all(&self.parameters).collect();
        let block_bytes = selectors.len() * rows * size_of::<[Lanes; 2]>();
        let most = (CACHED / block_bytes.max(1)).max(1);
        // All blocks of a run are of one prime, and follow each other in every bundle.
        for run in blocks.chunk_by(|a, b| a.prime == b.prime).flat_map(|blocks| blocks.chunks(most)) {
            let ([first, ..], [.., last]) = (run, run) else { continue };
            arrange(run, rows, selectors, &mut arranged);
            let arranged: Vec<&[[Lanes; 2]]> = arranged.chunks_exact(rows).collect();
            for (index, bundle) in bundles.iter().enumerate() {
                let columns = columns_in_bundle(&self.parameters, index);
                let packed = &bundle[columns * first.start..columns * last.end];
                let clients = selectors.len();
                out.resize(run.len() * clients * columns, [[0; LANES]; 2]);
                let out = &mut out[..run.len() * clients * columns];
                ring::row_products(first.modulus, packed, columns, &arranged, out, &mut scratch);
                for (client, products) in products.iter_mut().enumerate() {
                    products.put(
                        index * COLUMNS,
                        columns,
                        run,
                        out.chunks_exact(columns).skip(client).step_by(clients),
                    );
                }
            }
        }
    }
}

/// Puts the first `rows` selectors of every client into the order they are read in: block by block and client by client,
/// row by row, both halves.
fn arrange(
    run: &[Block<'_>],
    rows: usize,
    clients: &[&[bfv::Ciphertext<Evaluation>]],
    arranged: &mut Vec<[Lanes; 2]>,
) {
    arranged.resize(clients.len() * run.len() * rows, [[0; LANES]; 2]);
    let prime = run.first().map_or(0, |block| block.prime);
    for (client, selectors) in clients.iter().enumerate() {
        for (row, selector) in selectors.iter().take(rows).enumerate() {
            let halves = [&selector.c0, &selector.c1].map(|half| half.channel(prime));
            let places = arranged.chunks_exact_mut(rows).skip(client).step_by(clients.len());
            for (block, place) in run.iter().zip(places) {
                for (half, lanes) in halves.into_iter().zip(&mut place[row]) {
                    lanes.copy_from_slice(&half[block.slot..][..LANES]);
                }
            }
        }
    }
}

impl Products {
    /// Puts the results of some columns, block by block, in their places.
    fn put<'a>(
        &mut self,
        first_column: usize,
        columns: usize,
        run: &[Block<'_>],
        results: impl Iterator<Item = &'a [[Lanes; 2]]> + Clone,
    ) {
        let basis = bfv::Parameters::s4096().ciphertext_basis();
        let (degree, primes) = (basis.degree(), basis.transforms().len());
        for i in 0..2 * columns {
            let channel = &mut self.0[(2 * first_column + i) * primes * degree..];
            for (block, result) in run.iter().zip(results.clone()) {
                channel[block.prime * degree + block.slot..][..LANES].copy_from_slice(&result[i / 2][i % 2]);
            }
        }
    }

    /// c0 and c1 of a column.
    pub(super) fn column(&mut self, column: usize) -> [&mut [u64]; 2] {
        let basis = bfv::Parameters::s4096().ciphertext_basis();
        let residues = basis.degree() * basis.transforms().len();
        let (c0, c1) = self.0[2 * column * residues..2 * (column + 1) * residues].split_at_mut(residues);
        [c0, c1]
    }
}

/// Eight neighbouring slots of one prime.
struct Block<'a> {
    prime: usize,
    modulus: &'a Modulus,
    slot: usize,
    /// Where they begin and end in a bundle of one column, bytes.
    start: usize,
    end: usize,
}

impl Block<'static> {
    /// In the order they are stored.
    fn all(parameters: &Parameters) -> impl Iterator<Item = Self> {
        let (bfv, rows) = (bfv::Parameters::s4096(), parameters.rows());
        let blocks = bfv.ciphertext_basis().moduli().enumerate().flat_map(|(prime, modulus)| {
            (0..bfv.degree()).step_by(LANES).map(move |slot| (prime, modulus, slot))
        });
        let mut end = 0;
        blocks.map(move |(prime, modulus, slot)| {
            let start = end;
            end += rows * modulus.bits() as usize;
            Self { prime, modulus, slot, start, end }
        })
    }
}

fn bundles_per_group(parameters: &Parameters) -> usize {
    parameters.columns().div_ceil(COLUMNS)
}

/// Columns of bundle `index` of a group.
fn columns_in_bundle(parameters: &Parameters, index: usize) -> usize {
    COLUMNS.min(parameters.columns() - index * COLUMNS)
}

/// Encodes a batch of neighbouring rows, then writes, block by block, the run of bytes they share.
fn encode_bundle(parameters: &Parameters, elements: &[u8], index: usize) -> Vec<u8> {
    let (group, index) = (index / bundles_per_group(parameters), index % bundles_per_group(parameters));
    let columns = columns_in_bundle(parameters, index);
    let mut bundle = vec![0; columns * Block::all(parameters).last().map_or(0, |block| block.end)];
    let rows_at_once = BATCH.div_ceil(columns);
    let mut batch =
        vec![Polynomial::zero(bfv::Parameters::s4096().ciphertext_basis()); rows_at_once * columns];
    for first in (0..parameters.rows()).step_by(rows_at_once) {
        let rows = rows_at_once.min(parameters.rows() - first);
        let batch = &mut batch[..rows * columns];
        batch.par_chunks_exact_mut(columns).enumerate().for_each(|(row, encoded)| {
            for (column, encoded) in encoded.iter_mut().enumerate() {
                let row = first + row;
                *encoded =
                    encode(parameters, elements, group, (index * COLUMNS + column) * parameters.rows() + row);
            }
        });
        let channels: Vec<Vec<&[u64]>> = (0..bfv::Parameters::s4096().ciphertext_basis().transforms().len())
            .map(|prime| batch.iter().map(|encoded| encoded.channel(prime)).collect())
            .collect();
        for block in Block::all(parameters) {
            let width = block.modulus.bits() as usize;
            let run = &mut bundle[columns * (block.start + first * width)..][..rows * columns * width];
            ring::pack(width, block.slot, &channels[block.prime], run);
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
    let bfv = bfv::Parameters::s4096();
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
        return Polynomial::zero(bfv.ciphertext_basis());
    }
    bytes[..part.len()].copy_from_slice(part);
    whiten(parameters, &mut bytes, group, plaintext);

    let bits = bfv.plaintext_bits();
    let mut coefficients = vec![0; bfv.degree()];
    ring::unpack(bits as usize, &bytes, &mut coefficients);
    let mut encoded = Polynomial::zero(bfv.ciphertext_basis());
    for (i, ntt) in bfv.ciphertext_basis().transforms().iter().enumerate() {
        ring::chunk(ntt.modulus(), 0, bits, encoded.channel_mut(i), &coefficients);
        ntt.forward(encoded.channel_mut(i));
    }
    encoded
}

/// XORs the public keystream of a plaintext into its bytes: ChaCha20 under SHA-256("sotto sealpir whitening v1"), stream
/// `plaintext * groups + group`.
pub(super) fn whiten(parameters: &Parameters, bytes: &mut [u8], group: usize, plaintext: usize) {
    static SEED: LazyLock<[u8; 32]> = LazyLock::new(|| Sha256::digest(b"sotto sealpir whitening v1").into());
    sampling::mask(bytes, &SEED, (plaintext * parameters.groups() + group) as u64);
}
