//! SETUP and ANSWER.

use core::ops::Range;
use std::sync::LazyLock;

use pir_core::bfv::Ciphertext;
use pir_core::dimensions::{PackedMatrix, Products, Stage};
use pir_core::expand::position;
use pir_core::ring::bits::{BitWriter, unpack};
use pir_core::ring::{Evaluation, sampling};
use pir_core::{Error, PagePool};
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};
use sha2::{Digest, Sha256};

use super::convert::{choose, pack, to_gsw, to_matrix};
use super::encoding::{SEED_BYTES, answer_header, query_header, read_coefficients, read_slots};
use super::expand::{Scalar, Tree};
use super::keys::{Conversion, PublicKeys};
use super::lattice::{DEGREE, LEVELS, Words, zeros};
use super::preset::BIT_LEVELS;
use super::shape::Parameters;
use super::switch::{Scratch, Switch};

/// Clients that are answered in one pass over the database.
const TILE: usize = 16;

/// Queries and columns of a tile take at most as many bytes, unless one client alone takes more.
const TILE_BYTES: usize = 1 << 28;

/// Polynomials for each thread that are encoded before they are put in their places.
const BATCH: usize = 64;

/// Columns that are read together: neighbours in memory.
const COLUMNS_AT_ONCE: usize = 4;

/// A database ready to answer: for each prime of q, its polynomials in evaluation form. Of a plaintext of n x n polynomials,
/// number `b n + k` stands in row k and column b; of a plaintext that is packed, every one has a matrix of its own.
pub struct Database {
    parameters: Parameters,
    primes: Vec<PackedMatrix>,
}

/// XORs the public keystream of a polynomial's bytes.
pub(super) fn whiten(
    parameters: &Parameters,
    bytes: &mut [u8],
    plaintext: usize,
    [group, number]: [usize; 2],
) {
    static SEED: LazyLock<[u8; 32]> = LazyLock::new(|| Sha256::digest(b"sotto spiral whitening v1").into());
    let part = group * parameters.polynomials() + number;
    sampling::whiten(bytes, &SEED, (part as u64) << 40 | plaintext as u64);
}

impl Database {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool, into memory of a page
    /// pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters; [`Error::Memory`] if there is no room.
    pub fn new(pool: &PagePool, parameters: &Parameters, elements: &[u8]) -> Result<Self, Error> {
        if elements.len() != parameters.elements() * parameters.element_bytes() {
            return Err(Error::Shape("size of the database"));
        }
        let (ring, width) = (&parameters.preset().lattice.data, parameters.width());
        let matrices = parameters.pack().pow(2);
        let shape = [parameters.rows() * width, parameters.columns() * width];
        let primes = ring
            .primes()
            .iter()
            .map(|prime| PackedMatrix::new(pool, prime, parameters.groups() * matrices, shape));
        let mut primes = primes.collect::<Result<Vec<_>, _>>()?;
        let (mut coefficients, mut transformed) = (Vec::new(), Vec::new());
        for group in 0..parameters.groups() * matrices {
            let mut column = 0;
            while column < shape[1] {
                let bundle = primes[0].bundle(column);
                let at_once = (BATCH * rayon::current_num_threads() / bundle.len()).max(1);
                for first in (0..shape[0]).step_by(at_once) {
                    let rows = first..shape[0].min(first + at_once);
                    coefficients.resize(rows.len() * bundle.len() * DEGREE, 0);
                    let places = coefficients.par_chunks_exact_mut(DEGREE).enumerate();
                    places.for_each_init(Vec::new, |bytes, (i, out)| {
                        let place = [rows.start + i / bundle.len(), bundle.start + i % bundle.len()];
                        encode(parameters, elements, group, place, bytes, out);
                    });
                    for (prime, matrix) in ring.primes().iter().zip(&mut primes) {
                        transformed.resize(coefficients.len(), 0);
                        let pairs = transformed
                            .par_chunks_exact_mut(DEGREE)
                            .zip(coefficients.par_chunks_exact(DEGREE));
                        let (half, p) =
                            (1 << (parameters.plaintext_bits() - 1), 1 << parameters.plaintext_bits());
                        pairs.for_each(|(out, values)| {
                            for (out, value) in out.iter_mut().zip(values) {
                                // Centred in [-p/2, p/2).
                                let negative = prime.modulus().value() - p;
                                *out = value + if *value < half { 0 } else { negative };
                            }
                            prime.forward(out);
                        });
                        let sources: Vec<&[u64]> = transformed.chunks_exact(DEGREE).collect();
                        matrix.write_rows(group, column, first, &sources);
                    }
                }
                column = bundle.end;
            }
        }
        Ok(Self { parameters: *parameters, primes })
    }

    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.primes.iter().map(PackedMatrix::bytes).sum()
    }
}

/// The polynomial at a row and a column of a matrix of the database, as coefficients in `[0, p)`.
pub(super) fn encode(
    parameters: &Parameters,
    elements: &[u8],
    matrix: usize,
    [row, column]: [usize; 2],
    bytes: &mut Vec<u8>,
    out: &mut [u64],
) {
    let (width, matrices) = (parameters.width(), parameters.pack().pow(2));
    let (group, packed) = (matrix / matrices, matrix % matrices);
    let plaintext = column / width * parameters.rows() + row / width;
    let number = if matrices > 1 { packed } else { column % width * width + row % width };
    if plaintext >= parameters.plaintexts() {
        // Places that the last columns have too many.
        out.fill(0);
        return;
    }
    let (size, each) = (parameters.element_bytes(), parameters.elements_per_plaintext());
    let first = plaintext * each;
    let last = (first + each).min(parameters.elements());
    let source = &elements[first * size..last * size];
    // Either several elements are in a plaintext, or an element is in several, which are groups.
    let offset = group * parameters.plaintext_bytes() + number * parameters.polynomial_bytes();
    let end = offset + parameters.polynomial_bytes();
    bytes.clear();
    bytes.extend_from_slice(&source[offset.min(source.len())..end.min(source.len())]);
    bytes.resize(parameters.polynomial_bytes(), 0);
    whiten(parameters, bytes, plaintext, [group, number]);
    unpack(parameters.plaintext_bits(), bytes, out);
}

/// A query, ready to be multiplied.
pub(super) struct Selectors {
    /// Prime by prime and pair by pair of a column's polynomials: for every row and column of its matrix, the pair.
    pub(super) rows: Vec<Vec<Ciphertext<Evaluation>>>,
    /// For every fold, the lowest first, its bit.
    pub(super) bits: Vec<Switch>,
}

/// Parses a query, and expands and converts what is in it.
pub(super) fn read_query(
    parameters: &Parameters,
    keys: &PublicKeys,
    bytes: &[u8],
) -> Result<Selectors, Error> {
    let mut scratch = Scratch::default();
    let (rows, bits) = read_scalars(parameters, keys, bytes, &mut scratch)?;
    let (preset, width) = (parameters.preset(), parameters.width());
    let position = preset.widths.iter().position(|candidate| *candidate == width);
    let conversion = position.map(|position| &keys.conversions[position]);
    let bits = match bits {
        Bits::Columns(bits) => bits,
        Bits::Scalars(scalars) => {
            let digits = parameters.folding().digits as usize;
            let conversion = conversion.ok_or(Error::Malformed("query"))?;
            let scalars = scalars.chunks_exact(digits);
            scalars.map(|scalars| to_gsw(preset, conversion, scalars, width, &mut scratch)).collect()
        }
    };
    Ok(Selectors { rows: to_rows(parameters, conversion, rows, &mut scratch), bits })
}

/// The scalar ciphertexts of the rows alone.
#[cfg(test)]
pub(super) fn read_rows(
    parameters: &Parameters,
    keys: &PublicKeys,
    bytes: &[u8],
    scratch: &mut Scratch,
) -> Result<Vec<Scalar>, Error> {
    read_scalars(parameters, keys, bytes, scratch).map(|(rows, _)| rows)
}

/// The folding bits of a query.
enum Bits {
    /// A scalar ciphertext for each digit of each.
    Scalars(Vec<Scalar>),
    Columns(Vec<Switch>),
}

/// A scalar ciphertext for each row, and the folding bits.
fn read_scalars(
    parameters: &Parameters,
    keys: &PublicKeys,
    bytes: &[u8],
    scratch: &mut Scratch,
) -> Result<(Vec<Scalar>, Bits), Error> {
    const WHAT: Error = Error::Malformed("query");
    // Their type is that of all presets.
    if keys.preset != parameters.preset {
        return Err(Error::Malformed("public keys"));
    }
    if bytes.len() != parameters.query_bytes() {
        return Err(WHAT);
    }
    let body = bytes.strip_prefix(&query_header(parameters)).ok_or(WHAT)?;
    let (seed, body) = body.split_first_chunk::<SEED_BYTES>().ok_or(WHAT)?;
    let (mut of_rows, mut of_bits) = body.split_at_checked(parameters.row_part_bytes()).ok_or(WHAT)?;
    let preset = parameters.preset();
    let (ring, words) = (&preset.lattice.key, preset.lattice.key.words());
    if preset.streams {
        let mut number = 0;
        let mut read = |bytes: &mut &[u8], height: usize| {
            let mut column = zeros((1 + height) * words);
            let (a, b) = column.residues_mut().split_at_mut(words);
            ring.uniform(seed, number, a);
            number += 1;
            b.chunks_exact_mut(words).try_for_each(|b| read_slots(ring, bytes, "query", b))?;
            Ok::<_, Error>(column)
        };
        let mut scalar = |bytes: &mut &[u8]| {
            let column = read(bytes, 1)?;
            let (a, b) = column.residues().split_at(words);
            let [a, b] = [a, b].map(|half| {
                let mut own = zeros(words);
                own.residues_mut().copy_from_slice(half);
                own
            });
            Ok(Scalar { a, b })
        };
        let rows = (0..parameters.rows()).map(|_| scalar(&mut of_rows)).collect::<Result<_, Error>>()?;
        if preset.converts(parameters.width()) {
            let bits = (0..parameters.bit_leaves()).map(|_| scalar(&mut of_bits));
            return Ok((rows, Bits::Scalars(bits.collect::<Result<_, Error>>()?)));
        }
        let height = 1 + parameters.width();
        let columns = height * parameters.folding().digits as usize;
        let bits = (0..parameters.folds()).map(|_| {
            let columns = (0..columns).map(|_| read(&mut of_bits, parameters.width()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            Ok(Switch::new(ring, columns.iter().map(Words::residues), height))
        });
        return Ok((rows, Bits::Columns(bits.collect::<Result<_, Error>>()?)));
    }
    let root = |number: u64, bytes: &[u8], leaves: usize, levels: u32| {
        let mut root = Scalar::zero(ring);
        ring.uniform(seed, number, root.a.residues_mut());
        let dropped = preset.dropped_bits[number as usize];
        read_coefficients(ring, bytes, dropped, sent(leaves, levels), root.b.residues_mut())?;
        Ok::<_, Error>(root)
    };
    let tree = Tree { ring, keys: &keys.rows, gadgets: &preset.row_gadgets };
    let rows = root(0, of_rows, parameters.rows(), parameters.row_levels())?;
    let bits = root(1, of_bits, parameters.bit_leaves(), parameters.bit_levels())?;
    let rows = tree.expand(rows, parameters.rows(), parameters.row_levels(), scratch);
    let gadgets = [preset.bit_gadget; BIT_LEVELS];
    let tree = Tree { ring, keys: &keys.bits, gadgets: &gadgets };
    let leaves = parameters.bit_leaves();
    let bits =
        if leaves == 0 { Vec::new() } else { tree.expand(bits, leaves, parameters.bit_levels(), scratch) };
    Ok((rows, Bits::Scalars(bits)))
}

/// The coefficients of a ciphertext that so many leaves depend on, leaf by leaf.
pub(super) fn sent(leaves: usize, levels: u32) -> impl Iterator<Item = usize> {
    debug_assert!(levels as usize <= LEVELS, "a tree of the degree");
    (0..leaves).flat_map(move |leaf| (position(leaf, levels)..DEGREE).step_by(1 << levels))
}

/// Matrices of all rows, pair by pair of their polynomials.
fn to_rows(
    parameters: &Parameters,
    conversion: Option<&Conversion>,
    scalars: Vec<Scalar>,
    scratch: &mut Scratch,
) -> Vec<Vec<Ciphertext<Evaluation>>> {
    let (preset, width) = (parameters.preset(), parameters.width());
    let ring = &preset.lattice.data;
    let (words, height) = (ring.words(), 1 + width);
    if width == 1 && ring.primes().len() == 1 {
        // As they are.
        let rows = scalars.into_iter().map(|Scalar { mut a, mut b }| {
            [&mut a, &mut b].into_iter().for_each(|half| preset.lattice.switch(half.residues_mut()));
            Ciphertext { c0: a, c1: b }
        });
        return vec![rows.collect()];
    }
    let pairs = height.div_ceil(2);
    let mut rows: Vec<Vec<_>> =
        (0..ring.primes().len() * pairs).map(|_| Vec::with_capacity(scalars.len() * width)).collect();
    let mut matrix = zeros(width * height * words);
    for scalar in &scalars {
        to_matrix(preset, conversion, scalar, width, scratch, matrix.residues_mut());
        for column in matrix.residues().chunks_exact(height * words) {
            for prime in 0..ring.primes().len() {
                let half = |row: usize| {
                    let part = column.get(row * words + prime * DEGREE..).and_then(|rest| rest.get(..DEGREE));
                    part.map_or_else(|| zeros(DEGREE), |part| Words::from_residues(part.iter().copied()))
                };
                for pair in 0..pairs {
                    let ciphertext = Ciphertext { c0: half(2 * pair), c1: half(2 * pair + 1) };
                    rows[prime * pairs + pair].push(ciphertext);
                }
            }
        }
    }
    rows
}

/// [`pir_core::Scheme::answer_tile`], telling `observe` whenever a stage has ended for a whole tile.
pub(super) fn answer_tile(
    database: &Database,
    queries: &[(&PublicKeys, &[u8])],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let parameters = &database.parameters;
    let (ring, width) = (&parameters.preset().lattice.data, parameters.width());
    let pairs = (1 + width).div_ceil(2) * (parameters.rows() + parameters.columns()) * width;
    let bytes = pairs * 2 * ring.words() * size_of::<u64>();
    let tile = (TILE_BYTES / bytes).clamp(1, TILE);
    queries.chunks(tile).flat_map(|queries| answer_some(database, queries, observe)).collect()
}

fn answer_some(
    database: &Database,
    queries: &[(&PublicKeys, &[u8])],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let parameters = &database.parameters;
    let read: Vec<_> = queries.iter().map(|(keys, query)| read_query(parameters, keys, query)).collect();
    observe(Stage::Expanded);
    let selectors: Vec<&Selectors> = read.iter().flatten().collect();
    let mut columns: Vec<Columns> = selectors.iter().map(|_| Columns::default()).collect();
    let mut answers: Vec<Result<Vec<u8>, Error>> = read
        .iter()
        .map(|read| read.as_ref().map(|_| answer_header(parameters).to_vec()).map_err(|error| *error))
        .collect();
    let matrices = parameters.pack().pow(2);
    let mut scratch = Scratch::default();
    for group in 0..parameters.groups() {
        let mut folded: Vec<Vec<Words>> = selectors.iter().map(|_| Vec::new()).collect();
        for matrix in 0..matrices {
            first_dimension(database, group * matrices + matrix, &selectors, &mut columns);
            observe(Stage::FirstDimension);
            for ((columns, selectors), folded) in columns.iter().zip(&selectors).zip(&mut folded) {
                let all = 0..parameters.columns();
                folded.push(columns.fold(parameters, &selectors.bits, all, &mut scratch));
            }
            observe(Stage::FurtherDimensions);
        }
        let good = queries
            .iter()
            .zip(&mut answers)
            .filter_map(|((keys, _), answer)| Some((keys, answer.as_mut().ok()?)));
        for ((keys, answer), mut folded) in good.zip(folded) {
            let matrix =
                if matrices > 1 { pack(parameters, keys, &folded, &mut scratch) } else { folded.remove(0) };
            write_answer(parameters, matrix, answer);
        }
        observe(Stage::FurtherDimensions);
    }
    answers
}

/// The columns of a matrix of the database for all clients, in one pass over it for each prime of q.
pub(super) fn first_dimension(
    database: &Database,
    matrix: usize,
    selectors: &[&Selectors],
    columns: &mut [Columns],
) {
    let ring = &database.parameters.preset().lattice.data;
    let pairs = (1 + database.parameters.width()).div_ceil(2);
    for (number, (prime, packed)) in ring.primes().iter().zip(&database.primes).enumerate() {
        let here = number * pairs..(number + 1) * pairs;
        let rows: Vec<&[Ciphertext<Evaluation>]> = selectors
            .iter()
            .flat_map(|selectors| selectors.rows[here.clone()].iter().map(Vec::as_slice))
            .collect();
        let mut products: Vec<&mut Products> = columns
            .iter_mut()
            .flat_map(|columns| {
                columns.0.resize_with(pairs * ring.primes().len(), Products::default);
                &mut columns.0[here.clone()]
            })
            .collect();
        packed.products(prime, matrix, &rows, &mut products);
    }
}

/// One client's columns, prime by prime and pair by pair of their polynomials.
#[derive(Default)]
pub(super) struct Columns(Vec<Products>);

impl Columns {
    /// Neighbouring columns, each a matrix column by column, one behind the other.
    pub(super) fn read(&self, parameters: &Parameters, columns: Range<usize>) -> Words {
        let (ring, width) = (&parameters.preset().lattice.data, parameters.width());
        let (words, height, count) = (ring.words(), 1 + width, columns.len() * width);
        let pairs = height.div_ceil(2);
        let mut matrices = zeros(count * height * words);
        if self.0.len() == 1 {
            self.0[0].read(columns, matrices.residues_mut());
            return matrices;
        }
        let mut halves = zeros(count * 2 * DEGREE);
        for (at, products) in self.0.iter().enumerate() {
            let (prime, pair) = (at / pairs, at % pairs);
            products.read(columns.start * width..columns.end * width, halves.residues_mut());
            for (i, half) in halves.residues().chunks_exact(DEGREE).enumerate() {
                let (column, row) = (i / 2, 2 * pair + i % 2);
                if row < height {
                    let at = (column * height + row) * words + prime * DEGREE;
                    matrices.residues_mut()[at..at + DEGREE].copy_from_slice(half);
                }
            }
        }
        matrices
    }

    /// The one of some columns that the bits tell: neighbours by the lowest bit, then pairs of them.
    pub(super) fn fold(
        &self,
        parameters: &Parameters,
        bits: &[Switch],
        columns: Range<usize>,
        scratch: &mut Scratch,
    ) -> Words {
        if columns.len() <= COLUMNS_AT_ONCE {
            let count = columns.len();
            let mut matrices = self.read(parameters, columns);
            let one = matrices.residues().len() / count;
            fold_in_place(parameters, bits, matrices.residues_mut(), one, scratch);
            let mut first = zeros(one);
            first.residues_mut().copy_from_slice(&matrices.residues()[..one]);
            return first;
        }
        let half = columns.len().next_power_of_two() / 2;
        let middle = columns.start + half;
        let mut left = self.fold(parameters, bits, columns.start..middle, scratch);
        let mut right = self.fold(parameters, bits, middle..columns.end, scratch);
        let bit = &bits[half.ilog2() as usize];
        choose(parameters, bit, left.residues_mut(), right.residues_mut(), scratch);
        left
    }
}

/// Folds matrices that stand one behind the other into the first.
fn fold_in_place(
    parameters: &Parameters,
    bits: &[Switch],
    matrices: &mut [u64],
    one: usize,
    scratch: &mut Scratch,
) {
    let count = matrices.len() / one;
    if count <= 1 {
        return;
    }
    let half = count.next_power_of_two() / 2;
    let (left, right) = matrices.split_at_mut(half * one);
    fold_in_place(parameters, bits, left, one, scratch);
    fold_in_place(parameters, bits, right, one, scratch);
    choose(parameters, &bits[half.ilog2() as usize], &mut left[..one], &mut right[..one], scratch);
}

/// Switches a matrix to few bits and appends it.
pub(super) fn write_answer(parameters: &Parameters, mut matrix: Words, answer: &mut Vec<u8>) {
    let (ring, dimension) = (&parameters.preset().lattice.data, parameters.dimension());
    let words = ring.words();
    let ([short, long], column_words) = (parameters.answer_bits(), (1 + dimension) * words);
    ring.inverse(matrix.residues_mut());
    let mut write = |bits: u32, polynomial: &mut [u64]| {
        ring.round(bits, polynomial);
        let mut writer = BitWriter::new(answer);
        polynomial[..DEGREE].iter().for_each(|value| writer.write(*value, bits));
        writer.finish();
    };
    for column in matrix.residues_mut().chunks_exact_mut(column_words) {
        column[words..].chunks_exact_mut(words).for_each(|b| write(short, b));
    }
    for column in matrix.residues_mut().chunks_exact_mut(column_words) {
        write(long, &mut column[..words]);
    }
}
