//! The database as a matrix of digits, its hint, and ANSWER (paper section 4.1).

use pir_core::dimensions::Stage;
use pir_core::{Error, PagePool};
use rayon::prelude::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use super::shape::Parameters;
use crate::lwe::{
    ByteMatrix, Halves, Hinting, STEP, multiply, public_seed, read_words, split_digits, times_public,
};

/// Domain of the seed of A.
pub(super) const PUBLIC: &str = "sotto simplepir public matrix v1";

/// A database ready to answer.
pub struct Database<const N: usize> {
    parameters: Parameters<N>,
    matrix: ByteMatrix,
}

impl<const N: usize> Database<N> {
    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters<N> {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.matrix.bytes()
    }
}

/// See [`crate::Hinted::setup`].
pub(super) fn setup<const N: usize>(
    pool: &PagePool,
    parameters: &Parameters<N>,
    seed: &[u8; 32],
    contents: &[&[u8]],
) -> Result<Hinting<Database<N>>, Error> {
    let matrices: Vec<ByteMatrix> =
        contents.par_iter().map(|content| matrix(pool, parameters, content)).collect::<Result<_, _>>()?;
    let all: Vec<&ByteMatrix> = matrices.iter().collect();
    let hints = times_public(&public_seed(PUBLIC, seed), N, &all);
    let database = |matrix| Database { parameters: *parameters, matrix };
    Ok(matrices.into_iter().map(database).zip(hints).collect())
}

/// Element `c E + s`, E of them being in a column, has its digits in column c, from row `s d` on. Places without an element
/// are 0, centred.
fn matrix<const N: usize>(
    pool: &PagePool,
    parameters: &Parameters<N>,
    elements: &[u8],
) -> Result<ByteMatrix, Error> {
    let (size, digits, each) =
        (parameters.element_bytes(), parameters.digits(), parameters.column_elements());
    if Some(elements.len()) != parameters.elements().checked_mul(size) {
        return Err(Error::Shape("size of the database"));
    }
    let mut matrix = ByteMatrix::zeros(pool, parameters.rows(), parameters.columns())?;
    let stride = matrix.stride();
    matrix.runs_mut(digits).enumerate().for_each(|(slot, rows)| {
        let mut split = vec![0; STEP * digits];
        // A cache line of each row at a time.
        for first in (0..parameters.columns()).step_by(STEP) {
            let columns = first..(first + STEP).min(parameters.columns());
            let of_slot = |column: usize| elements.chunks_exact(size).nth(column * each + slot);
            let here: Vec<&[u8]> = columns.clone().map_while(of_slot).collect();
            for (element, split) in here.iter().zip(split.chunks_exact_mut(digits)) {
                split_digits(element, parameters.plaintext_bits(), split);
            }
            for (digit, row) in rows.chunks_exact_mut(stride).enumerate() {
                let split = split.iter().skip(digit).step_by(digits);
                row[columns.start..][..here.len()]
                    .iter_mut()
                    .zip(split)
                    .for_each(|(entry, digit)| *entry = *digit);
            }
        }
    });
    Ok(matrix)
}

/// See [`crate::Hinted::answer`].
pub(super) fn answer<const N: usize>(
    database: &Database<N>,
    queries: &[&[u8]],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let (parameters, rows) = (&database.parameters, database.matrix.rows());
    let right = |query: &&[u8]| query.len() == parameters.query_bytes();
    let words: Vec<Vec<u32>> =
        queries.iter().filter(|query| right(query)).map(|query| read_words(query)).collect();
    let vectors = Halves::new(parameters.columns(), words.iter().map(Vec::as_slice));
    observe(Stage::Expanded);
    let mut products = vec![0; rows * words.len()];
    multiply(&database.matrix, 0..rows, &vectors, &mut products);
    observe(Stage::FirstDimension);
    let mut products = products.chunks_exact(rows);
    let answer = |query: &&[u8]| {
        let product = if right(query) { products.next() } else { None };
        product
            .map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect())
            .ok_or(Error::Malformed("query"))
    };
    queries.iter().map(answer).collect()
}
