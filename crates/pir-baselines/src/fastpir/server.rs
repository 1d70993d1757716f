//! SETUP and ANSWER.

use core::ops::Range;
use std::sync::LazyLock;

use pir_core::bfv::Ciphertext;
use pir_core::dimensions::{PackedMatrix, Products, Stage};
use pir_core::ring::bits::BitWriter;
use pir_core::ring::{Evaluation, Ntt, Polynomial, Rescale, sampling};
use pir_core::{Error, PagePool};
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};
use sha2::{Digest, Sha256};

use super::batching::slot;
use super::encoding::{SEED_BYTES, answer_header, query_header, read_polynomial};
use super::keys::PublicKeys;
use super::lattice::{DEGREE, Lattice, PLACES, convert, inverse, lower};
use super::shape::Parameters;

/// Clients that are answered in one pass over the database.
const TILE: usize = 16;

/// Parsed queries and columns of a tile take at most as many bytes, unless one client alone takes more.
const TILE_BYTES: usize = 1 << 28;

/// Rows that are encoded before they are put in their places: enough for long runs.
const BATCH_ROWS: usize = 8;

/// Bytes of elements that are whitened at a time, unless one row has more.
const BATCH_BYTES: usize = 8 << 20;

/// What a value is read from beyond the last byte of its element.
const WORD: usize = size_of::<u64>();

/// A database ready to answer: for each prime of q, the plaintexts in evaluation form.
pub struct Database<const Q: u32> {
    parameters: Parameters<Q>,
    primes: Vec<PackedMatrix>,
}

/// XORs the public keystream of an element into its bytes, or the first of them.
pub(super) fn whiten(bytes: &mut [u8], index: usize) {
    static SEED: LazyLock<[u8; 32]> = LazyLock::new(|| Sha256::digest(b"sotto fastpir whitening v1").into());
    sampling::whiten(bytes, &SEED, index as u64);
}

impl<const Q: u32> Database<Q> {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool, into memory of a page
    /// pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters; [`Error::Memory`] if there is no room.
    pub fn new(pool: &PagePool, parameters: &Parameters<Q>, elements: &[u8]) -> Result<Self, Error> {
        let size = parameters.element_bytes();
        if elements.len() != parameters.elements() * size {
            return Err(Error::Shape("size of the database"));
        }
        let lattice = Lattice::of::<Q>();
        let (rows, shape) = (parameters.rows(), [parameters.rows(), parameters.columns()]);
        let primes =
            lattice.data().iter().map(|ring| PackedMatrix::new(pool, ring, parameters.groups(), shape));
        let mut primes = primes.collect::<Result<Vec<_>, _>>()?;
        let padded = parameters.padded_bytes() + WORD;
        let at_once = (BATCH_BYTES / (PLACES * padded)).clamp(1, BATCH_ROWS).min(rows);
        let mut whitened = vec![0; at_once * PLACES * padded];
        let mut batch = Batch::default();
        for first in (0..rows).step_by(at_once) {
            let rows = first..rows.min(first + at_once);
            let whitened = &mut whitened[..rows.len() * PLACES * padded];
            whitened.par_chunks_exact_mut(padded).enumerate().for_each(|(i, bytes)| {
                let index = first * PLACES + i;
                bytes.fill(0);
                if let Some(element) = elements.get(index * size..(index + 1) * size) {
                    bytes[..size].copy_from_slice(element);
                }
                whiten(&mut bytes[..padded - WORD], index);
            });
            for group in 0..parameters.groups() {
                let mut column = 0;
                while column < parameters.columns() {
                    let bundle = primes[0].bundle(column);
                    batch.encode(parameters, whitened, group, bundle.clone());
                    for (ring, matrix) in lattice.data().iter().zip(&mut primes) {
                        let transformed = batch.transform(parameters, ring);
                        matrix.write_rows(group, column, first, &transformed);
                    }
                    column = bundle.end;
                }
            }
        }
        Ok(Self { parameters: *parameters, primes })
    }

    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters<Q> {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.primes.iter().map(PackedMatrix::bytes).sum()
    }
}

/// Plaintexts in the making: row by row, those of the columns of a bundle.
#[derive(Default)]
struct Batch {
    /// Coefficients modulo t.
    coefficients: Vec<u64>,
    /// The same in evaluation form modulo a prime of q.
    transformed: Vec<u64>,
}

impl Batch {
    /// Encodes the values of some columns of the elements of some rows.
    fn encode<const Q: u32>(
        &mut self,
        parameters: &Parameters<Q>,
        whitened: &[u8],
        group: usize,
        columns: Range<usize>,
    ) {
        let (batching, padded) = (parameters.batching(), parameters.padded_bytes() + WORD);
        let mask = (1 << batching.bits()) - 1;
        let rows = whitened.len() / (PLACES * padded);
        self.coefficients.resize(rows * columns.len() * DEGREE, 0);
        self.coefficients.par_chunks_exact_mut(DEGREE).enumerate().for_each(|(i, values)| {
            let (row, column) = (i / columns.len(), columns.start + i % columns.len());
            let elements = whitened[row * PLACES * padded..].chunks_exact(padded);
            let bits = [0, 1].map(|half| parameters.value_at(group, half, column) * batching.bits() as usize);
            for (place, element) in elements.take(PLACES).enumerate() {
                for (half, bit) in bits.into_iter().enumerate() {
                    let word = element[bit / 8..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
                    values[slot(half, place)] = word >> (bit % 8) & mask;
                }
            }
            batching.encode(values);
        });
    }

    /// What was encoded, in evaluation form over a ring of q.
    fn transform<const Q: u32>(&mut self, parameters: &Parameters<Q>, ring: &Ntt) -> Vec<&[u64]> {
        let t = parameters.batching().modulus();
        self.transformed.resize(self.coefficients.len(), 0);
        let pairs =
            self.transformed.par_chunks_exact_mut(DEGREE).zip(self.coefficients.par_chunks_exact(DEGREE));
        pairs.for_each(|(transformed, coefficients)| {
            transformed.copy_from_slice(coefficients);
            convert(t, ring.modulus(), transformed);
            ring.forward(transformed);
        });
        self.transformed.chunks_exact(DEGREE).collect()
    }
}

/// The ciphertexts of a query, for each prime of q.
pub(super) type Selectors = Vec<Vec<Ciphertext<Evaluation>>>;

/// Parses a query.
pub(super) fn decode_query<const Q: u32>(
    parameters: &Parameters<Q>,
    bytes: &[u8],
) -> Result<Selectors, Error> {
    const WHAT: &str = "query";
    if bytes.len() != parameters.query_bytes() {
        return Err(Error::Malformed(WHAT));
    }
    let body = bytes.strip_prefix(&query_header(parameters)).ok_or(Error::Malformed(WHAT))?;
    let (seed, mut rest) = body.split_first_chunk::<SEED_BYTES>().ok_or(Error::Malformed(WHAT))?;
    let data = Lattice::of::<Q>().data();
    let mut selectors = vec![Vec::with_capacity(parameters.rows()); data.len()];
    for row in 0..parameters.rows() {
        for (number, (ring, selectors)) in data.iter().zip(&mut selectors).enumerate() {
            let stream = (row * data.len() + number) as u64;
            let c0 = read_polynomial(ring, &mut rest, WHAT)?;
            selectors.push(Ciphertext { c0, c1: sampling::uniform(ring, seed, stream) });
        }
    }
    Ok(selectors)
}

/// [`pir_core::Scheme::answer_tile`], telling `observe` whenever a stage has ended for a whole tile.
pub(super) fn answer_tile<const Q: u32>(
    database: &Database<Q>,
    queries: &[(&PublicKeys<Q>, &[u8])],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let parameters = &database.parameters;
    let ciphertexts = (parameters.rows() + parameters.columns()) * database.primes.len();
    let tile = (TILE_BYTES / (ciphertexts * 2 * DEGREE * size_of::<u64>())).clamp(1, TILE);
    queries.chunks(tile).flat_map(|queries| answer_some(database, queries, observe)).collect()
}

fn answer_some<const Q: u32>(
    database: &Database<Q>,
    queries: &[(&PublicKeys<Q>, &[u8])],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let parameters = &database.parameters;
    let parsed: Vec<_> = queries.iter().map(|(_, query)| decode_query(parameters, query)).collect();
    observe(Stage::Expanded);
    let selectors: Vec<&Selectors> = parsed.iter().flatten().collect();
    let mut columns: Vec<Columns> = selectors.iter().map(|_| Columns::new(database)).collect();
    let mut answers: Vec<Result<Vec<u8>, Error>> = parsed
        .iter()
        .map(|parsed| parsed.as_ref().map(|_| answer_header(parameters).to_vec()).map_err(|e| *e))
        .collect();
    for group in 0..parameters.groups() {
        first_dimension(database, group, &selectors, &mut columns);
        observe(Stage::FirstDimension);
        let good = queries
            .iter()
            .zip(&mut answers)
            .filter_map(|((keys, _), answer)| Some((keys, answer.as_mut().ok()?)));
        for ((keys, answer), columns) in good.zip(&columns) {
            write_answer(parameters, columns.combined(keys, 0..parameters.columns()), answer);
        }
        observe(Stage::FurtherDimensions);
    }
    answers
}

/// The columns of a group for all clients, in one pass over the database for each prime of q.
pub(super) fn first_dimension<const Q: u32>(
    database: &Database<Q>,
    group: usize,
    selectors: &[&Selectors],
    columns: &mut [Columns],
) {
    for (number, (ring, matrix)) in Lattice::of::<Q>().data().iter().zip(&database.primes).enumerate() {
        let selectors: Vec<_> = selectors.iter().map(|selectors| &selectors[number][..]).collect();
        let mut products: Vec<_> = columns.iter_mut().map(|columns| &mut columns.0[number]).collect();
        matrix.products(ring, group, &selectors, &mut products);
    }
}

/// One client's columns, for each prime of q: for every place, the value there of the element that was asked for, or 0.
pub(super) struct Columns(Vec<Products>);

impl Columns {
    pub(super) fn new<const Q: u32>(database: &Database<Q>) -> Self {
        Self(database.primes.iter().map(|_| Products::default()).collect())
    }

    /// The sum of neighbouring columns, each rotated by its distance from the first: place i gets the value of place i + j of
    /// column j. Columns are combined in a tree, of which every level rotates by one power of two.
    pub(super) fn combined<const Q: u32>(
        &self,
        keys: &PublicKeys<Q>,
        columns: Range<usize>,
    ) -> Vec<Ciphertext<Evaluation>> {
        if columns.len() <= 1 {
            return self.column(columns.start);
        }
        let half = columns.len().next_power_of_two() / 2;
        let middle = columns.start + half;
        let mut sum = self.combined(keys, columns.start..middle);
        let mut other = self.combined(keys, middle..columns.end);
        keys.rotate(half.ilog2() as usize, &mut other);
        for ((sum, other), ring) in sum.iter_mut().zip(&other).zip(Lattice::of::<Q>().data()) {
            sum.add_assign(ring.modulus(), other);
        }
        sum
    }

    /// One column.
    pub(super) fn column(&self, column: usize) -> Vec<Ciphertext<Evaluation>> {
        let mut halves = vec![0; 2 * DEGREE];
        let parts = self.0.iter().map(|products| {
            products.read(column..column + 1, &mut halves);
            let [c0, c1] =
                [0, DEGREE].map(|start| Polynomial::from_residues(halves[start..][..DEGREE].iter().copied()));
            Ciphertext { c0, c1 }
        });
        parts.collect()
    }
}

/// Switches a ciphertext to the first prime of q, then to a power of two, and appends it.
pub(super) fn write_answer<const Q: u32>(
    parameters: &Parameters<Q>,
    ciphertext: Vec<Ciphertext<Evaluation>>,
    answer: &mut Vec<u8>,
) {
    let (last, further) = Lattice::of::<Q>().data().split_first().expect("a preset has a prime");
    let mut parts = ciphertext.into_iter();
    let Some(mut sum) = parts.next() else { return };
    for (ring, part) in further.iter().zip(parts) {
        let (inverse, part) = (inverse(ring.modulus(), last.modulus()), part.into_coefficient(ring));
        lower(ring.modulus(), last, inverse, part.c0, &mut sum.c0);
        lower(ring.modulus(), last, inverse, part.c1, &mut sum.c1);
    }
    let bits = parameters.answer_coefficient_bits();
    let rescale = Rescale::new(last.modulus(), 1 << bits);
    let sum = sum.into_coefficient(last);
    let mut writer = BitWriter::new(answer);
    for mut half in [sum.c0, sum.c1] {
        rescale.apply_all(half.residues_mut());
        half.residues().iter().for_each(|value| writer.write(*value, bits));
    }
    writer.finish();
}
