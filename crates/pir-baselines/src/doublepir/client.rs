//! QUERY and EXTRACT (paper section 5.1). No branch and no memory access depends on the index.

use core::fmt;

use pir_core::Error;
use pir_core::constant_time::{divide, public};
use pulp::Arch;
use zeroize::Zeroizing;

use super::server::PUBLIC;
use super::shape::Parameters;
use crate::lwe::{
    Ask, MODULUS_BITS, WORD_BYTES, encrypt, errors, join_digits, join_word, mask, public_seed, read_word,
    rounded, uniform,
};

/// The secrets of a query. What was asked for does not matter for reading the answer.
pub struct Asked {
    /// For each column of an element.
    first: Vec<Zeroizing<Vec<u32>>>,
    second: Zeroizing<Vec<u32>>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

impl Asked {
    #[cfg(test)]
    pub(super) fn secrets(&self) -> [&[u32]; 2] {
        [&self.first[0], &self.second]
    }
}

/// What one query of either level is made of.
struct Drawn {
    /// The place of its 1.
    chosen: Zeroizing<usize>,
    secret: Zeroizing<Vec<u32>>,
    errors: Zeroizing<Vec<u32>>,
}

impl Drawn {
    fn ask(&self) -> Ask<'_> {
        Ask { secret: &self.secret, errors: &self.errors, chosen: *self.chosen }
    }
}

/// See [`crate::Hinted::queries`].
pub(super) fn queries<const N: usize>(
    parameters: &Parameters<N>,
    seed: &[u8; 32],
    indices: &[usize],
    own: &[u8; 32],
) -> Result<(Vec<u8>, Vec<Asked>), Error> {
    // A client that asks for what does not exist says so: it gets no query.
    if indices.iter().any(|index| public(*index >= parameters.elements())) {
        return Err(Error::Index);
    }
    let each = parameters.element_columns();
    let mut stream = 0..;
    let mut streams = || stream.next().unwrap_or_default();
    let mut draw = |chosen: usize, words: usize| Drawn {
        chosen: Zeroizing::new(chosen),
        secret: uniform(N, own, streams()),
        errors: errors(words, own, streams()),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for index in indices {
        let place = Zeroizing::new(divide(*index, parameters.row_elements()));
        first.extend((0..each).map(|column| draw(place.1 * each + column, parameters.columns())));
        second.push(draw(place.0, parameters.rows()));
    }
    let encrypted = |level: usize, drawn: &[Drawn]| {
        let delta = 1 << (MODULUS_BITS - parameters.plaintext_bits()[level]);
        let asks: Vec<Ask<'_>> = drawn.iter().map(Drawn::ask).collect();
        encrypt(&public_seed(PUBLIC[level], seed), delta, &asks)
    };
    let (first_words, second_words) = (encrypted(0, &first), encrypted(1, &second));
    let mut bytes = Vec::with_capacity(indices.len() * parameters.query_bytes());
    for (first, second) in first_words.chunks_exact(each).zip(&second_words) {
        let words = first.iter().chain([second]).flat_map(|words| words.iter());
        words.for_each(|word| bytes.extend(word.to_le_bytes()));
    }
    let mut first = first.into_iter().map(|drawn| drawn.secret);
    let asked = second
        .into_iter()
        .map(|drawn| Asked { first: first.by_ref().take(each).collect(), second: drawn.secret })
        .collect();
    Ok((bytes, asked))
}

/// See [`crate::Hinted::extract`].
pub(super) fn extract<const N: usize>(
    parameters: &Parameters<N>,
    asked: &Asked,
    hint: &[u8],
    answer: &[u8],
) -> Result<Vec<u8>, Error> {
    if hint.len() != parameters.hint_bytes() {
        return Err(Error::Malformed("hint"));
    }
    if answer.len() != parameters.answer_bytes() {
        return Err(Error::Malformed("answer"));
    }
    let (bits, digits) = (parameters.plaintext_bits(), parameters.word_digits());
    let mut element = Zeroizing::new(Vec::with_capacity(parameters.blocks() * asked.first.len()));
    Arch::new().dispatch(
        #[inline(always)]
        || {
            // A word of the first level, of its digits, masked, and the rows that unmask them.
            let word = |masked: &[u8], rows: &[u8]| {
                let digit = |(masked, row): (&[u8], &[u8])| {
                    rounded(read_word(masked).wrapping_sub(mask(row, &asked.second)), bits[1])
                };
                let rows = rows.chunks_exact(WORD_BYTES * N);
                join_word(masked.chunks_exact(WORD_BYTES).zip(rows).map(digit), bits[1])
            };
            let blocks = hint.chunks_exact(WORD_BYTES * digits * N * N);
            for (hint, answer) in
                blocks.zip(answer.chunks_exact(WORD_BYTES * parameters.block_answer_words()))
            {
                let (of_hint, of_columns) = answer.split_at(WORD_BYTES * digits * N);
                let rows = hint.chunks_exact(WORD_BYTES * digits * N);
                let mut row = Zeroizing::new(Vec::with_capacity(WORD_BYTES * N));
                for (masked, hint) in of_hint.chunks_exact(WORD_BYTES * digits).zip(rows) {
                    row.extend(word(masked, hint).to_le_bytes());
                }
                let of_columns = of_columns.chunks_exact(WORD_BYTES * digits * (N + 1));
                for (answer, secret) in of_columns.zip(&asked.first) {
                    let (rows, masked) = answer.split_at(WORD_BYTES * digits * N);
                    element.push(rounded(word(masked, rows).wrapping_sub(mask(&row, secret)), bits[0]));
                }
            }
        },
    );
    Ok(join_digits(&element[..parameters.digits()], bits[0], parameters.element_bytes()))
}
