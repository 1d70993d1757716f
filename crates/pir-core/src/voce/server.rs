//! The server's half: a unit of buckets, prepared for a round, and answers.

use rayon::prelude::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator, ParallelSliceMut};

use super::chain::Packing;
use super::database::Bucket;
use super::format::{Keys, read_query};
use super::ring::{ANSWER_BITS, DEGREE, HINT_BITS, MODULUS_BITS, ORBIT, QUERY_BITS, Ring, Round};
use super::shape::{BLOCK, Shape};
use super::transform::Transformed;
use crate::Error;
use crate::pages::PagePool;
use crate::ring::bits::BitWriter;
use crate::ring::{Evaluation, Polynomial, orbit_products, pair_products};

/// Buckets that are answered together, in a round.
pub struct Unit {
    shape: Shape,
    buckets: Vec<Bucket>,
    packs: Vec<Packing>,
    hint: Vec<u8>,
}

/// Memory that units of retired rounds have left and others may take, by what it is for: each pool has pieces of one size.
#[derive(Clone, Default)]
pub struct Pools {
    databases: PagePool,
    packs: PagePool,
    transforms: PagePool,
}

impl Pools {
    /// How many packs have left their memory.
    #[cfg(test)]
    pub(super) fn packs_left(&self) -> usize {
        self.packs.pieces()
    }
}

/// A client's request, as far as it is the same for all units.
pub struct Request<'a> {
    keys: Keys,
    bytes: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads the keys of a request for so many buckets.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the request is of another size, or holds what is no residue or padding that is not zero.
    pub fn new(shape: &Shape, buckets: usize, bytes: &'a [u8]) -> Result<Self, Error> {
        if shape.request_bytes(buckets) != Some(bytes.len()) {
            return Err(Error::Malformed("size of a request"));
        }
        let used = shape.positions() * QUERY_BITS as usize % 8;
        let mut queries = bytes[Shape::keys_bytes()..].chunks_exact(shape.query_bytes());
        if used != 0 && queries.any(|query| query.last().is_some_and(|last| last >> used != 0)) {
            return Err(Error::Malformed("padding of a query"));
        }
        let keys = Keys::read(bytes)?;
        Ok(Self { keys, bytes })
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
        seed: &[u8; 32],
        number: usize,
        contents: &[&[u8]],
    ) -> Result<Self, Error> {
        let source = Source::new(pools, shape, seed, number, contents)?;
        let prepare = |pack| source.pack(pack);
        let packs = (0..shape.packs()).into_par_iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let hint = Self::encode_hint(shape, &packs);
        Ok(Self { shape: *shape, buckets: source.buckets, packs, hint })
    }

    /// The answer to one request, as a unit that is prepared as by [`Unit::new`] gives it, without more than one pack for each
    /// thread in memory: how many there are is what a server has announced.
    ///
    /// # Errors
    /// As for [`Unit::new`].
    pub fn answer_once(
        pools: &Pools,
        shape: &Shape,
        seed: &[u8; 32],
        number: usize,
        contents: &[&[u8]],
        request: &Request<'_>,
    ) -> Result<Vec<u8>, Error> {
        let source = Source::new(pools, shape, seed, number, contents)?;
        let tile = [request];
        let mut sums =
            first_dimension(shape, &source.buckets, number * shape.unit_buckets(), &tile).swap_remove(0);
        let pack = |(number, sums): (usize, &mut [u64])| {
            add_packed(&source.pack(number)?, &tile, &mut [vec![0; DEGREE]], &mut [sums]);
            Ok(())
        };
        sums.par_chunks_mut(DEGREE).enumerate().try_for_each(pack)?;
        Ring::get().to_answer.apply_all(&mut sums);
        Ok(encode(shape, &sums))
    }

    fn encode_hint(shape: &Shape, packs: &[Packing]) -> Vec<u8> {
        let ring = Ring::get();
        let mut hint = Vec::with_capacity(shape.hint_bytes());
        let mut writer = BitWriter::new(&mut hint);
        for pack in packs {
            let mut rest = pack.rest.clone();
            ring.ntt.inverse(&mut rest);
            ring.to_hint.apply_all(&mut rest);
            rest.iter().for_each(|value| writer.write(*value, HINT_BITS));
        }
        writer.finish();
        hint
    }

    /// What every client needs to read answers of this unit.
    #[must_use]
    pub fn hint(&self) -> &[u8] {
        &self.hint
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let buckets: usize = self.buckets.iter().map(|bucket| size_of_val(&*bucket.pairs)).sum();
        let packs: usize = self.packs.iter().map(|pack| size_of_val(&*pack.digits)).sum();
        buckets + packs + self.hint.len()
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
        let mut sums = first_dimension(&self.shape, &self.buckets, first, tile);
        let mut packed = vec![vec![0; DEGREE]; tile.len()];
        for (number, pack) in self.packs.iter().enumerate() {
            let here = number * DEGREE..(number + 1) * DEGREE;
            let mut sums: Vec<&mut [u64]> = sums.iter_mut().map(|sums| &mut sums[here.clone()]).collect();
            add_packed(pack, tile, &mut packed, &mut sums);
        }
        sums
    }

    /// The public halves, in slots.
    #[cfg(test)]
    pub(super) fn rests(&self) -> impl Iterator<Item = &[u64]> {
        self.packs.iter().map(|pack| &*pack.rest)
    }

    #[cfg(test)]
    pub(super) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }
}

/// What the packs of a unit are made of.
struct Source<'a> {
    pools: &'a Pools,
    shape: &'a Shape,
    round: Round,
    buckets: Vec<Bucket>,
    /// The public halves of the unit's ciphertexts, over N.
    a: Vec<Polynomial<Evaluation>>,
}

impl<'a> Source<'a> {
    fn new(
        pools: &'a Pools,
        shape: &'a Shape,
        seed: &[u8; 32],
        number: usize,
        contents: &[&[u8]],
    ) -> Result<Self, Error> {
        if contents.is_empty() || contents.len() > shape.unit_buckets() {
            return Err(Error::Shape("buckets of a unit"));
        }
        let (ring, round) = (Ring::get(), Round::new(seed));
        let first = number * shape.unit_buckets();
        let bucket = |at: usize| Bucket::new(&pools.databases, shape, &round, first + at, contents[at]);
        let buckets = (0..contents.len()).into_par_iter().map(bucket).collect::<Result<Vec<_>, _>>()?;
        let scale = ring.modulus().shoup(ring.modulus().inverse(DEGREE as u64));
        let a = (0..shape.ciphertexts())
            .map(|ciphertext| {
                let mut a = round.query((number * shape.ciphertexts() + ciphertext) as u64);
                a.scale(ring.modulus(), scale);
                a
            })
            .collect();
        Ok(Self { pools, shape, round, buckets, a })
    }

    fn pack(&self, pack: usize) -> Result<Packing, Error> {
        let transformed = Transformed::new(&self.pools.transforms, self.shape, &self.buckets, &self.a, pack)?;
        Packing::new(&self.pools.packs, &self.round, &transformed)
    }
}

/// The first dimension's sums of each request, `first` being the unit's first bucket.
fn first_dimension(shape: &Shape, buckets: &[Bucket], first: usize, tile: &[&Request<'_>]) -> Vec<Vec<u64>> {
    let mut sums = vec![vec![0; shape.packs() * DEGREE]; tile.len()];
    for (at, bucket) in buckets.iter().enumerate() {
        let queries: Vec<_> =
            tile.iter().map(|request| read_query(shape, first + at, request.bytes)).collect();
        let queries: Vec<&[[u32; 4]]> = queries.iter().map(Vec::as_slice).collect();
        let here = at * shape.bucket_outputs()..(at + 1) * shape.bucket_outputs();
        let mut out: Vec<&mut [u64]> = sums.iter_mut().map(|sums| &mut sums[here.clone()]).collect();
        pair_products(&bucket.pairs, shape.positions(), &queries, &mut out);
    }
    sums
}

/// Turns the first dimension's sums of a pack, of each request, into the private half of its packed ciphertext. `packed` is for
/// what packing gives, and as long.
fn add_packed(pack: &Packing, tile: &[&Request<'_>], packed: &mut [Vec<u64>], sums: &mut [&mut [u64]]) {
    let keys: Vec<&[u64]> = tile.iter().map(|request| &*request.keys.step).collect();
    let mut out: Vec<&mut [u64]> = packed.iter_mut().map(Vec::as_mut_slice).collect();
    orbit_products(Ring::get().modulus(), &pack.digits, &keys, &mut out);
    for ((packed, sums), request) in packed.iter_mut().zip(sums).zip(tile) {
        finish(packed, sums, &pack.conjugation, &request.keys.conjugation);
    }
}

fn encode(shape: &Shape, values: &[u64]) -> Vec<u8> {
    let mut answer = Vec::with_capacity(shape.answer_bytes());
    let mut writer = BitWriter::new(&mut answer);
    values.iter().take(shape.unit_outputs()).for_each(|value| writer.write(*value, ANSWER_BITS));
    writer.finish();
    answer
}

/// Adds what packing gave, by place, to the first dimension's sums, modulo q.
fn finish(packed: &mut [u64], sums: &mut [u64], digits: &[u64], key: &[u64]) {
    let (ring, modulus) = (Ring::get(), Ring::get().modulus());
    let mut slots = vec![0; DEGREE];
    for (packed, (digit, key)) in packed.iter_mut().zip(digits.iter().zip(key)) {
        *packed = modulus.add(*packed, modulus.mul(*digit, *key));
    }
    ring.reorder(packed, &mut slots);
    ring.ntt.inverse(&mut slots);
    for (sum, packed) in sums.iter_mut().zip(&slots) {
        // `round(sum q / 2^39)`, below q but for sums next to 2^39.
        let scaled = (u128::from(*sum) * u128::from(modulus.value()) + (1 << (QUERY_BITS - 1))) >> QUERY_BITS;
        *sum = modulus.add(modulus.reduce_once(scaled as u64), *packed);
    }
}

const _: () = assert!(MODULUS_BITS <= 52 && ORBIT.is_multiple_of(BLOCK));
