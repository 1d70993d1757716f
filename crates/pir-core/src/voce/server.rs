//! The server's half: a unit of buckets, prepared for a round, and answers.

use rayon::prelude::{IntoParallelIterator, ParallelIterator};

use super::chain::Packing;
use super::database::Bucket;
use super::format::{Keys, read_query};
use super::ring::{ANSWER_BITS, DEGREE, HINT_BITS, MODULUS_BITS, ORBIT, QUERY_BITS, Ring, Round};
use super::shape::{BLOCK, Shape};
use super::transform::Transformed;
use crate::Error;
use crate::pages::PagePool;
use crate::ring::bits::BitWriter;
use crate::ring::{orbit_products, pair_products};

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

/// A client's request, as far as it is the same for all units.
pub struct Request<'a> {
    keys: Keys,
    bytes: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads the keys of a request for so many buckets.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the request is of another size, or holds what is no residue.
    pub fn new(shape: &Shape, buckets: usize, bytes: &'a [u8]) -> Result<Self, Error> {
        if shape.request_bytes(buckets) != Some(bytes.len()) {
            return Err(Error::Malformed("size of a request"));
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
        if contents.is_empty() || contents.len() > shape.unit_buckets() {
            return Err(Error::Shape("buckets of a unit"));
        }
        let (ring, round) = (Ring::get(), Round::new(seed));
        let first = number * shape.unit_buckets();
        let bucket = |at: usize| Bucket::new(&pools.databases, shape, &round, first + at, contents[at]);
        let buckets = (0..contents.len()).into_par_iter().map(bucket).collect::<Result<Vec<_>, _>>()?;
        let scale = ring.modulus().shoup(ring.modulus().inverse(DEGREE as u64));
        let a: Vec<_> = (0..shape.ciphertexts())
            .map(|ciphertext| {
                let mut a = round.query((number * shape.ciphertexts() + ciphertext) as u64);
                a.scale(ring.modulus(), scale);
                a
            })
            .collect();
        let prepare = |pack| {
            let transformed = Transformed::new(&pools.transforms, shape, &buckets, &a, pack)?;
            Packing::new(&pools.packs, &round, &transformed)
        };
        let packs = (0..shape.packs()).into_par_iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let hint = Self::encode_hint(shape, &packs);
        Ok(Self { shape: *shape, buckets, packs, hint })
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
        sums.iter().map(|sums| self.encode(sums)).collect()
    }

    /// The private halves of the packed ciphertexts, coefficients modulo q.
    pub(super) fn packed(&self, first: usize, tile: &[&Request<'_>]) -> Vec<Vec<u64>> {
        let outputs = self.shape.packs() * DEGREE;
        let mut sums = vec![vec![0; outputs]; tile.len()];
        for (at, bucket) in self.buckets.iter().enumerate() {
            let queries: Vec<_> =
                tile.iter().map(|request| read_query(&self.shape, first + at, request.bytes)).collect();
            let queries: Vec<&[[u32; 4]]> = queries.iter().map(Vec::as_slice).collect();
            let here = at * self.shape.bucket_outputs()..(at + 1) * self.shape.bucket_outputs();
            let mut out: Vec<&mut [u64]> = sums.iter_mut().map(|sums| &mut sums[here.clone()]).collect();
            pair_products(&bucket.pairs, self.shape.positions(), &queries, &mut out);
        }
        let keys: Vec<&[u64]> = tile.iter().map(|request| &*request.keys.step).collect();
        let mut packed = vec![vec![0; DEGREE]; tile.len()];
        for (number, pack) in self.packs.iter().enumerate() {
            let mut out: Vec<&mut [u64]> = packed.iter_mut().map(Vec::as_mut_slice).collect();
            orbit_products(Ring::get().modulus(), &pack.digits, &keys, &mut out);
            for ((packed, sums), request) in packed.iter_mut().zip(&mut sums).zip(tile) {
                let sums = &mut sums[number * DEGREE..(number + 1) * DEGREE];
                finish(packed, sums, &pack.conjugation, &request.keys.conjugation);
            }
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

    fn encode(&self, values: &[u64]) -> Vec<u8> {
        let mut answer = Vec::with_capacity(self.shape.answer_bytes());
        let mut writer = BitWriter::new(&mut answer);
        values.iter().take(self.shape.unit_outputs()).for_each(|value| writer.write(*value, ANSWER_BITS));
        writer.finish();
        answer
    }
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
