//! The server's half with a hint: a unit of buckets, prepared for a round, and answers with all columns.

use super::dense::{Asker, Dense, Pools, Source};
use super::format::{Keys, check_padding};
use super::ring::{ANSWER_BITS, HINT_BITS, Ring, Round, Seeds};
use super::shape::{Ending, Shape};
use crate::Error;
use crate::ring::bits::BitWriter;

/// Buckets that are answered together, in a round.
pub struct Unit {
    shape: Shape,
    dense: Dense,
    hint: Vec<u8>,
}

/// A client's request, as far as it is the same for all units.
pub struct Request<'a> {
    keys: Keys,
    queries: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads the keys of a request for so many buckets.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the request is of another size, or holds what is no residue or padding that is not zero.
    pub fn new(shape: &Shape, buckets: usize, bytes: &'a [u8]) -> Result<Self, Error> {
        if shape.ending() != Ending::Hint || shape.request_bytes(buckets) != Some(bytes.len()) {
            return Err(Error::Malformed("size of a request"));
        }
        let queries = &bytes[Shape::keys_bytes()..];
        check_padding(shape, queries)?;
        Ok(Self { keys: Keys::read(bytes)?, queries })
    }
}

impl Unit {
    /// Prepares unit `number`, of which the buckets are given, up to as many as the shape says; memory is taken from, and
    /// returned to, the pools.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are more buckets than a unit has, or none, or one is of another size; [`Error::Memory`] if there
    /// is no room.
    pub fn new(
        pools: &Pools,
        shape: &Shape,
        seeds: &Seeds,
        number: usize,
        contents: &[&[u8]],
    ) -> Result<Self, Error> {
        let dense = Dense::new(source(pools, shape, seeds, number, contents)?)?;
        let hint = encode_hint(shape, dense.packs.iter().map(|pack| pack.rest.clone()));
        Ok(Self { shape: *shape, dense, hint })
    }

    /// The answer to one request, and the hint, as a unit that is prepared as by [`Unit::new`] gives them, without more than one pack for
    /// each thread in memory: how many there are is what a server has announced.
    ///
    /// # Errors
    /// As for [`Unit::new`].
    pub fn answer_once(
        pools: &Pools,
        shape: &Shape,
        seeds: &Seeds,
        number: usize,
        contents: &[&[u8]],
        request: &Request<'_>,
    ) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let source = source(pools, shape, seeds, number, contents)?;
        let asker = Asker { keys: &request.keys, queries: request.queries };
        let (mut sums, rests) = source.packed_once(asker)?;
        Ring::get().to_answer.apply_all(&mut sums);
        Ok((encode(shape, &sums), encode_hint(shape, rests)))
    }

    /// What every client needs to read answers of this unit.
    #[must_use]
    pub fn hint(&self) -> &[u8] {
        &self.hint
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.dense.memory_bytes() + self.hint.len()
    }

    /// Answers the requests of a tile of clients, `first` being the unit's first bucket.
    #[must_use]
    pub fn answer(&self, first: usize, tile: &[&Request<'_>]) -> Vec<Vec<u8>> {
        let mut sums = self.packed(first, tile);
        sums.iter_mut().for_each(|sums| Ring::get().to_answer.apply_all(sums));
        sums.iter().map(|sums| encode(&self.shape, sums)).collect()
    }

    /// The private halves of the packed ciphertexts, coefficients modulo q.
    pub(super) fn packed(&self, first: usize, tile: &[&Request<'_>]) -> Vec<Vec<u64>> {
        let tile: Vec<_> = tile.iter().map(|one| Asker { keys: &one.keys, queries: one.queries }).collect();
        self.dense.packed(first, &tile)
    }

    #[cfg(test)]
    pub(super) fn dense(&self) -> &Dense {
        &self.dense
    }
}

fn source<'a>(
    pools: &'a Pools,
    shape: &'a Shape,
    seeds: &Seeds,
    number: usize,
    contents: &[&[u8]],
) -> Result<Source<'a>, Error> {
    if shape.ending() != Ending::Hint {
        return Err(Error::Shape("an arrangement without a hint"));
    }
    Source::new(pools, shape, (Round::new(&seeds.halves), &seeds.whitening), number, contents)
}

/// Of the public half of each pack, in slots.
fn encode_hint(shape: &Shape, rests: impl IntoIterator<Item = Vec<u64>>) -> Vec<u8> {
    let ring = Ring::get();
    let mut hint = Vec::with_capacity(shape.hint_bytes());
    let mut writer = BitWriter::new(&mut hint);
    for mut rest in rests {
        ring.ntt.inverse(&mut rest);
        ring.to_hint.apply_all(&mut rest);
        rest.iter().for_each(|value| writer.write(*value, HINT_BITS));
    }
    writer.finish();
    hint
}

fn encode(shape: &Shape, values: &[u64]) -> Vec<u8> {
    let mut answer = Vec::with_capacity(shape.answer_bytes());
    let mut writer = BitWriter::new(&mut answer);
    values.iter().take(shape.unit_outputs()).for_each(|value| writer.write(*value, ANSWER_BITS));
    writer.finish();
    answer
}
