//! What engines do alike that answer a few buckets at a time, as [`Sizes`] cuts a round into units.

use rayon::prelude::{IntoParallelIterator, ParallelIterator};

use crate::Error;
use crate::engine::Contents;
use crate::round::Sizes;

/// Prepares each unit by its number and the contents of its buckets.
pub(crate) fn prepare_units<U: Send>(
    sizes: &Sizes,
    contents: Contents<'_>,
    prepare: impl Fn(usize, &[&[u8]]) -> Result<U, Error> + Sync,
) -> Result<Vec<U>, Error> {
    let Contents { different, copies } = contents;
    if different.len().checked_mul(copies) != Some(sizes.units.buckets()) {
        return Err(Error::Bucket);
    }
    let unit = |number| {
        let content = |bucket: usize| different[bucket / copies].as_slice();
        let contents: Vec<&[u8]> = sizes.units.range(number).map(content).collect();
        prepare(number, &contents)
    };
    (0..sizes.units.count()).into_par_iter().map(unit).collect()
}

/// The contents of a unit's buckets, which stand one behind the other.
pub(crate) fn cut_unit<'a>(
    sizes: &Sizes,
    unit: usize,
    bucket_bytes: usize,
    contents: &'a [u8],
) -> Result<Vec<&'a [u8]>, Error> {
    let buckets = sizes.units.range(unit);
    if buckets.is_empty() {
        return Err(Error::Bucket);
    }
    if contents.len() != buckets.len() * bucket_bytes {
        return Err(pir_core::Error::Shape("bytes of a unit").into());
    }
    Ok(contents.chunks_exact(bucket_bytes).collect())
}

/// The elements of all buckets, read unit by unit from the unit's part of the hint and of the answer; or for each bucket why its unit
/// cannot be read.
pub(crate) fn read_units(
    sizes: &Sizes,
    hint: &[u8],
    answer: &[u8],
    read: impl Fn(usize, &[u8], &[u8]) -> Result<Vec<Vec<u8>>, Error> + Sync,
) -> Vec<Result<Vec<u8>, Error>> {
    let unit = |unit: usize| {
        let hint = sizes.hint.part("bytes of the hint", hint, unit)?;
        let answer = sizes.answer.part("bytes of the answer", answer, unit)?;
        read(unit, hint, answer)
    };
    let all = (0..sizes.units.count()).into_par_iter().flat_map_iter(|number| match unit(number) {
        Ok(elements) => elements.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error); sizes.units.range(number).len()],
    });
    all.collect()
}

/// Answers those requests of a tile that can be read, together; the others are answered by what is wrong with them.
pub(crate) fn answer_readable<R>(
    requests: &[Result<R, Error>],
    answer: impl FnOnce(&[&R]) -> Vec<Vec<u8>>,
) -> Vec<Result<Vec<u8>, Error>> {
    let readable: Vec<&R> = requests.iter().flatten().collect();
    let mut answers = answer(&readable).into_iter();
    let of_request = |request: &Result<R, Error>| match request {
        Ok(_) => answers.next().ok_or(Error::Bucket),
        Err(error) => Err(*error),
    };
    requests.iter().map(of_request).collect()
}
