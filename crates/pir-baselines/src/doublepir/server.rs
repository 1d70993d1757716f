//! The database as a matrix of digits, both hints, and ANSWER (paper section 5.1).

use std::sync::Arc;

use pir_core::dimensions::Stage;
use pir_core::{Error, PagePool};
use rayon::prelude::{
    IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator, ParallelIterator,
};

use super::shape::Parameters;
use crate::lwe::{
    ByteMatrix, Halves, Hinting, WORD_BYTES, multiply, public_matrix, public_seed, read_words, split_digits,
    split_word, times_public,
};

/// Domains of the seeds of A1 and A2.
pub(super) const PUBLIC: [&str; 2] =
    ["sotto doublepir public matrix 1 v1", "sotto doublepir public matrix 2 v1"];

/// Words of the first level whose digits are put in their places together: a cache line of them.
const LINE: usize = 16;

/// A database ready to answer.
pub struct Database<const N: usize> {
    parameters: Parameters<N>,
    /// D, block by block.
    matrix: ByteMatrix,
    /// H1, block by block.
    digits: ByteMatrix,
    /// The columns of A2, the same for all databases of a round.
    public: Arc<Halves>,
    pool: PagePool,
}

impl<const N: usize> Database<N> {
    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters<N> {
        &self.parameters
    }

    /// D.
    #[cfg(test)]
    pub(super) fn matrix(&self) -> &ByteMatrix {
        &self.matrix
    }

    /// Size in memory, bytes, A2 included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.matrix.bytes() + self.digits.bytes() + self.public.bytes()
    }
}

/// See [`crate::Hinted::setup`].
pub(super) fn setup<const N: usize>(
    pool: &PagePool,
    parameters: &Parameters<N>,
    seed: &[u8; 32],
    contents: &[&[u8]],
) -> Result<Hinting<Database<N>>, Error> {
    let [first, second] = PUBLIC.map(|domain| public_seed(domain, seed));
    let matrices: Vec<ByteMatrix> =
        contents.par_iter().map(|content| matrix(pool, parameters, content)).collect::<Result<_, _>>()?;
    let hints = times_public(&first, N, &matrices.iter().collect::<Vec<_>>());
    let digits: Vec<ByteMatrix> =
        hints.into_par_iter().map(|hint| hint_digits(pool, parameters, &hint)).collect::<Result<_, _>>()?;
    let hints = times_public(&second, N, &digits.iter().collect::<Vec<_>>());
    let public = Arc::new(public_matrix(&second, N, parameters.rows()));
    let database = |(matrix, digits)| Database {
        parameters: *parameters,
        matrix,
        digits,
        public: Arc::clone(&public),
        pool: pool.clone(),
    };
    Ok(matrices.into_iter().zip(digits).map(database).zip(hints).collect())
}

/// Element `i G + g`, G of them being in a row, has digit `t c + u` in row `t l + i` and column `g c + u`. Places without a
/// digit are 0, centred.
fn matrix<const N: usize>(
    pool: &PagePool,
    parameters: &Parameters<N>,
    elements: &[u8],
) -> Result<ByteMatrix, Error> {
    let (size, each, rows) = (parameters.element_bytes(), parameters.element_columns(), parameters.rows());
    if Some(elements.len()) != parameters.elements().checked_mul(size) {
        return Err(Error::Shape("size of the database"));
    }
    let [bits, _] = parameters.plaintext_bits();
    let mut matrix = ByteMatrix::zeros(pool, parameters.blocks() * rows, parameters.columns())?;
    matrix.runs_mut(1).enumerate().for_each(|(row, entries)| {
        let (block, row) = (row / rows, row % rows);
        let here = elements.chunks_exact(size).skip(row * parameters.row_elements());
        let mut split = vec![0; parameters.digits()];
        for (entries, element) in entries.chunks_exact_mut(each).zip(here.take(parameters.row_elements())) {
            split_digits(element, bits, &mut split);
            entries.iter_mut().zip(&split[block * each..]).for_each(|(entry, digit)| *entry = *digit);
        }
    });
    Ok(matrix)
}

/// H1 of `D A1`, given row by row.
fn hint_digits<const N: usize>(
    pool: &PagePool,
    parameters: &Parameters<N>,
    hint: &[u8],
) -> Result<ByteMatrix, Error> {
    let (rows, digits) = (parameters.rows(), parameters.word_digits());
    let [_, bits] = parameters.plaintext_bits();
    let mut matrix = ByteMatrix::zeros(pool, parameters.blocks() * digits * N, rows)?;
    let stride = matrix.stride();
    matrix.runs_mut(LINE * digits).enumerate().for_each(|(run, out)| {
        let (block, first) = (run * LINE / N, run * LINE % N);
        let words = hint.chunks_exact(WORD_BYTES * N).skip(block * rows).take(rows);
        for (row, words) in words.enumerate() {
            let words = &words[WORD_BYTES * first..][..WORD_BYTES * LINE];
            for (word, out) in read_words(words).into_iter().zip(out.chunks_exact_mut(digits * stride)) {
                split_word(word, bits, out.iter_mut().skip(row).step_by(stride));
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
    let parameters = &database.parameters;
    let right = |query: &&[u8]| query.len() == parameters.query_bytes();
    let words: Vec<Vec<u32>> =
        queries.iter().filter(|query| right(query)).map(|query| read_words(query)).collect();
    let answers = answer_words(database, &words, observe);
    let mut answers = answers.map(Vec::into_iter);
    let answer = |query: &&[u8]| {
        if !right(query) {
            return Err(Error::Malformed("query"));
        }
        let answers = answers.as_mut().map_err(|error| *error)?;
        answers.next().ok_or(Error::Malformed("query"))
    };
    queries.iter().map(answer).collect()
}

fn answer_words<const N: usize>(
    database: &Database<N>,
    queries: &[Vec<u32>],
    observe: &mut dyn FnMut(Stage),
) -> Result<Vec<Vec<u8>>, Error> {
    let parameters = &database.parameters;
    let (each, columns, rows) = (parameters.element_columns(), parameters.columns(), parameters.rows());
    let (blocks, digits) = (parameters.blocks(), parameters.word_digits());
    let split = || queries.iter().map(|words| words.split_at(each * columns));
    let first = Halves::new(columns, split().flat_map(|(first, _)| first.chunks_exact(columns)));
    let second = Halves::new(rows, split().map(|(_, second)| second));
    observe(Stage::Expanded);

    // For each client and column of an element, D c1, of which each block is cut into its digits: a1.
    let mut products = vec![0; blocks * rows * first.count()];
    multiply(&database.matrix, 0..blocks * rows, &first, &mut products);
    observe(Stage::FirstDimension);
    let [_, bits] = parameters.plaintext_bits();
    let mut kept = ByteMatrix::zeros(&database.pool, blocks * digits * first.count(), rows)?;
    let stride = kept.stride();
    for (words, out) in products.chunks_exact(rows).zip(kept.entries_mut().chunks_exact_mut(digits * stride))
    {
        for (row, word) in words.iter().enumerate() {
            split_word(*word, bits, out.iter_mut().skip(row).step_by(stride));
        }
    }

    // a1 A2, H1 c2 and a1 c2.
    let mut masks = vec![0; kept.rows() * N];
    multiply(&kept, 0..kept.rows(), &database.public, &mut masks);
    let hint_rows = blocks * digits * N;
    let mut of_hint = vec![0; hint_rows * second.count()];
    multiply(&database.digits, 0..hint_rows, &second, &mut of_hint);
    let mut of_kept = vec![0; kept.rows() * second.count()];
    multiply(&kept, 0..kept.rows(), &second, &mut of_kept);

    let answer = |client: usize| {
        let mut answer = Vec::with_capacity(parameters.answer_bytes());
        let mut put = |word: u32| answer.extend(word.to_le_bytes());
        for block in 0..blocks {
            let words = &of_hint[client * hint_rows + block * digits * N..][..digits * N];
            words.iter().for_each(|word| put(*word));
            for column in 0..each {
                let row = ((client * each + column) * blocks + block) * digits;
                for row in row..row + digits {
                    (0..N).for_each(|number| put(masks[number * kept.rows() + row]));
                }
                of_kept[client * kept.rows() + row..][..digits].iter().for_each(|word| put(*word));
            }
        }
        answer
    };
    let answers = (0..queries.len()).map(answer).collect();
    observe(Stage::FurtherDimensions);
    Ok(answers)
}
