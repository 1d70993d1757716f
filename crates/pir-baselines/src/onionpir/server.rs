//! SETUP and ANSWER.

use core::ops::Range;

use pir_core::dimensions::{AnswerForm, Matrix, Products, Stage};
use pir_core::ring::Aligned;
use pir_core::{Error, PagePool, bfv};

use super::encoding::answer_header;
use super::keys::PublicKeys;
use super::selectors::{Buffers, Query, Rgsw, Selectors};
use super::shape::Parameters;

/// Clients that are answered in one pass over the database.
const TILE: usize = 16;

/// Selectors and columns of a tile take at most as many bytes, unless one client alone takes more.
const TILE_BYTES: usize = 1 << 28;

/// A database ready to answer.
pub struct Database {
    parameters: Parameters,
    matrix: Matrix,
}

impl Database {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool, into memory of a
    /// page pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters; [`Error::Memory`] if there is no room.
    pub fn new(pool: &PagePool, parameters: &Parameters, elements: &[u8]) -> Result<Self, Error> {
        let shape = [parameters.rows(), parameters.columns()];
        let matrix = Matrix::new(pool, parameters.packing(), shape, elements)?;
        Ok(Self { parameters: *parameters, matrix })
    }

    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.matrix.bytes()
    }
}

/// [`pir_core::Scheme::answer_tile`], telling `observe` whenever a stage has ended for a whole tile.
pub(super) fn answer_tile(
    database: &Database,
    queries: &[(&PublicKeys, &[u8])],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let parameters = &database.parameters;
    let ciphertexts = parameters.rows() + parameters.columns() + 2 * parameters.values();
    let each = ciphertexts * 2 * bfv::Parameters::s2048().degree() * size_of::<u64>();
    let tile = (TILE_BYTES / each).clamp(1, TILE);
    queries.chunks(tile).flat_map(|queries| answer_some(database, queries, observe)).collect()
}

fn answer_some(
    database: &Database,
    queries: &[(&PublicKeys, &[u8])],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let parameters = &database.parameters;
    let expanded: Vec<Result<Selectors, Error>> = queries
        .iter()
        .map(|(keys, query)| Ok(Query::decode(parameters, query)?.expand(parameters, keys)))
        .collect();
    observe(Stage::Expanded);
    let selectors: Vec<&Selectors> = expanded.iter().flatten().collect();
    let mut products: Vec<Products> = selectors.iter().map(|_| Products::default()).collect();
    let mut answers = vec![answer_header(parameters).to_vec(); selectors.len()];
    let mut buffers = Buffers::default();
    for group in 0..parameters.groups() {
        first_dimension(database, group, &selectors, &mut products);
        observe(Stage::FirstDimension);
        for ((selectors, products), answer) in selectors.iter().zip(&products).zip(&mut answers) {
            let chosen = choose(products, &selectors.bits, 0..parameters.columns(), &mut buffers);
            write_answer(parameters.answer_form(), chosen, answer);
        }
        observe(Stage::FurtherDimensions);
    }
    let mut answers = answers.into_iter();
    expanded.into_iter().map(|expanded| expanded.map(|_| answers.next().unwrap_or_default())).collect()
}

/// The columns of a group for all clients, in one pass over the database.
pub(super) fn first_dimension(
    database: &Database,
    group: usize,
    selectors: &[&Selectors],
    products: &mut [Products],
) {
    let rows: Vec<_> = selectors.iter().map(|selectors| &selectors.rows[..]).collect();
    let mut products: Vec<&mut Products> = products.iter_mut().collect();
    database.matrix.first_dimension(group, &rows, &mut products);
}

/// Of a range of columns that begins at a multiple of the least power of two that is not below its length, the one of which
/// the bits are the number, modulo Q and in coefficients.
pub(super) fn choose(
    products: &Products,
    bits: &[Rgsw],
    columns: Range<usize>,
    buffers: &mut Buffers,
) -> [Aligned<u64>; 2] {
    if columns.len() <= 1 {
        return lifted(products, columns.start);
    }
    let half = columns.len().next_power_of_two() / 2;
    let middle = columns.start + half;
    let mut chosen = choose(products, bits, columns.start..middle, buffers);
    let other = choose(products, bits, middle..columns.end, buffers);
    bits[half.ilog2() as usize].choose(&mut chosen, &other, buffers);
    chosen
}

/// A column, switched from q to Q: `round(Q x / q)`, or one less.
pub(super) fn lifted(products: &Products, column: usize) -> [Aligned<u64>; 2] {
    let bfv = bfv::Parameters::s2048();
    let [large, small] = [bfv.large(), bfv.small()].map(|ntt| ntt.modulus().value());
    // Q / q in units of 2^-64, without its integer part.
    let fraction = ((u128::from(large % small) << 64) / u128::from(small)) as u64;
    let mut halves = Aligned::filled(0, 2 * bfv.degree());
    products.read(column..column + 1, &mut halves);
    let (c0, c1) = halves.split_at_mut(bfv.degree());
    [c0, c1].map(|half| {
        bfv.small().inverse(half);
        let lift = |x: &u64| {
            let rest = u128::from(*x) * u128::from(fraction) + (1 << 63);
            x * (large / small) + (rest >> 64) as u64
        };
        half.iter().map(lift).collect()
    })
}

/// Switches a ciphertext to few bits and appends it.
pub(super) fn write_answer(form: AnswerForm, mut ciphertext: [Aligned<u64>; 2], answer: &mut Vec<u8>) {
    let large = bfv::Parameters::s2048().large();
    ciphertext.iter_mut().for_each(|half| large.forward(half));
    form.write(large, ciphertext.each_mut().map(|half| &mut **half), answer);
}
