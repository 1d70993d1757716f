//! QUERY and EXTRACT (paper section 4.1). No branch and no memory access depends on the index.

use core::fmt;

use pir_core::Error;
use pir_core::constant_time::{divide, public};
use pulp::Arch;
use zeroize::Zeroizing;

use super::server::PUBLIC;
use super::shape::Parameters;
use crate::lwe::{
    Ask, MODULUS_BITS, WORD_BYTES, encrypt, errors, join_digits, mask, public_seed, read_words, rounded,
    select, uniform,
};

/// The secret of one query, and the place of what was asked for in its column.
pub struct Asked {
    secret: Zeroizing<Vec<u32>>,
    slot: Zeroizing<usize>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

impl Asked {
    #[cfg(test)]
    pub(super) fn secret(&self) -> &[u32] {
        &self.secret
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
    let places: Vec<Zeroizing<(usize, usize)>> =
        indices.iter().map(|index| Zeroizing::new(divide(*index, parameters.column_elements()))).collect();
    let mut stream = 0..;
    let mut streams = || stream.next().unwrap_or_default();
    let drawn: Vec<_> = places
        .iter()
        .map(|_| (uniform(N, own, streams()), errors(parameters.columns(), own, streams())))
        .collect();
    let asks: Vec<Ask<'_>> = places
        .iter()
        .zip(&drawn)
        .map(|(place, (secret, errors))| Ask { secret, errors, chosen: place.0 })
        .collect();
    let delta = 1 << (MODULUS_BITS - parameters.plaintext_bits());
    let queries = encrypt(&public_seed(PUBLIC, seed), delta, &asks);
    let bytes = queries.iter().flat_map(|words| words.iter()).flat_map(|word| word.to_le_bytes()).collect();
    let asked = drawn
        .into_iter()
        .zip(&places)
        .map(|((secret, _), place)| Asked { secret, slot: Zeroizing::new(place.1) })
        .collect();
    Ok((bytes, asked))
}

/// See [`crate::Hinted::extract`]. The whole column is read, since a part of it would show which.
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
    let (mut column, bits) = (Zeroizing::new(read_words(answer)), parameters.plaintext_bits());
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (word, hint) in column.iter_mut().zip(hint.chunks_exact(WORD_BYTES * N)) {
                *word = rounded(word.wrapping_sub(mask(hint, &asked.secret)), bits);
            }
        },
    );
    let digits = select(&column, parameters.digits(), *asked.slot);
    Ok(join_digits(&digits, bits, parameters.element_bytes()))
}
