//! What both endings have in common on the server: the databases of a unit, multiplied with the clients' queries, and the packing
//! of the outputs.

use rayon::prelude::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator, ParallelSliceMut};

use super::chain::Packing;
use super::database::Bucket;
use super::format::{Keys, read_query};
use super::ring::{DEGREE, MODULUS_BITS, ORBIT, QUERY_BITS, Ring, Round, Whitening};
use super::shape::{BLOCK, Shape};
use super::transform::{Content, Part, Transformed};
use crate::Error;
use crate::pages::PagePool;
use crate::ring::{OrbitKeys, orbit_products, pair_products};

/// Memory that units of retired rounds have left and others may take, by what it is for: each pool has pieces of one size.
#[derive(Clone, Default)]
pub struct Pools {
    databases: PagePool,
    packs: PagePool,
    transforms: PagePool,
    pub(super) trees: PagePool,
}

/// The buckets of a unit and what packing needs of them.
pub(super) struct Dense {
    shape: Shape,
    pub(super) buckets: Vec<Bucket>,
    pub(super) packs: Vec<Packing>,
    /// Where the outputs of a pack's pieces go among its coefficients, where that is another place.
    places: Option<Vec<u16>>,
}

/// What packing needs of a client.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) keys: &'a Keys,
    /// A query for each bucket of the round.
    pub(super) queries: &'a [u8],
}

impl Pools {
    /// How many packs have left their memory.
    #[cfg(test)]
    pub(super) fn packs_left(&self) -> usize {
        self.packs.pieces()
    }
}

/// What the packs of a unit are made of.
pub(super) struct Source<'a> {
    pools: &'a Pools,
    shape: &'a Shape,
    round: Round,
    /// The unit's first bucket.
    first: usize,
    buckets: Vec<Bucket>,
    /// Of each bucket.
    parts: Vec<Vec<Part>>,
    /// Where the outputs of a pack's pieces go among its coefficients, where that is another place.
    places: Option<Vec<u16>>,
}

impl<'a> Source<'a> {
    /// For unit `number`, of which the buckets are given, up to as many as the shape says.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are more buckets than a unit has, or none, or one is of another size; [`Error::Memory`] if there
    /// is no room.
    pub(super) fn new(
        pools: &'a Pools,
        shape: &'a Shape,
        (round, whitening): (Round, &[u8; 32]),
        number: usize,
        contents: &[&[u8]],
    ) -> Result<Self, Error> {
        if contents.is_empty() || contents.len() > shape.unit_buckets() {
            return Err(Error::Shape("buckets of a unit"));
        }
        let first = number * shape.unit_buckets();
        let whitening = Whitening::new(whitening);
        let bucket = |at: usize| Bucket::new(&pools.databases, shape, &whitening, first + at, contents[at]);
        let buckets = (0..contents.len()).into_par_iter().map(bucket).collect::<Result<Vec<_>, _>>()?;
        let half = |ciphertext| round.query((number * shape.ciphertexts() + ciphertext) as u64);
        let halves: Vec<_> = (0..shape.ciphertexts()).map(half).collect();
        let parts = (0..contents.len()).into_par_iter().map(|bucket| Part::all(shape, &halves, bucket));
        let parts = parts.collect();
        let moved = shape.interleaved_pieces() > 1;
        let output = |x: usize| {
            let (bucket, output) = shape.source(0, x);
            (bucket * shape.bucket_outputs() + output) as u16
        };
        let places = moved.then(|| (0..DEGREE).map(output).collect());
        Ok(Self { pools, shape, round, first, buckets, parts, places })
    }

    fn pack(&self, pack: usize) -> Result<Packing, Error> {
        let content = Content { shape: self.shape, buckets: &self.buckets, parts: &self.parts };
        let transformed = Transformed::new(&self.pools.transforms, content, pack)?;
        Packing::new(&self.pools.packs, &self.round, &transformed)
    }

    /// What [`Dense::packed`] gives for one client, and the public halves in slots, with one pack for each thread in memory.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no room.
    pub(super) fn packed_once(&self, asker: Asker<'_>) -> Result<(Vec<u64>, Vec<Vec<u64>>), Error> {
        let tile = [asker];
        let keys = orbit_keys(&tile);
        let mut sums = first_dimension(self.shape, &self.buckets, self.first, &tile).swap_remove(0);
        let pack = |(number, sums): (usize, &mut [u64])| {
            let pack = self.pack(number)?;
            add_packed(&pack, self.places.as_deref(), &tile, &keys, &mut [vec![0; DEGREE]], &mut [sums]);
            Ok(pack.rest)
        };
        let packs = self.shape.packs_of(self.buckets.len());
        let rests =
            sums.par_chunks_mut(DEGREE).take(packs).enumerate().map(pack).collect::<Result<_, Error>>()?;
        Ok((sums, rests))
    }
}

impl Dense {
    /// Prepares a unit.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no room.
    pub(super) fn new(source: Source<'_>) -> Result<Self, Error> {
        let packs = source.shape.packs_of(source.buckets.len());
        let packs = (0..packs).into_par_iter().map(|pack| source.pack(pack));
        let packs = packs.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { shape: *source.shape, buckets: source.buckets, packs, places: source.places })
    }

    /// Size in memory, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let buckets: usize = self.buckets.iter().map(|bucket| size_of_val(&*bucket.pairs)).sum();
        let packs: usize = self.packs.iter().map(|pack| size_of_val(&*pack.digits)).sum();
        buckets + packs
    }

    /// The private halves of the packed ciphertexts of a tile of clients, coefficients modulo q, `first` being the unit's first
    /// bucket.
    pub(super) fn packed(&self, first: usize, tile: &[Asker<'_>]) -> Vec<Vec<u64>> {
        let mut sums = first_dimension(&self.shape, &self.buckets, first, tile);
        let (mut packed, keys) = (vec![vec![0; DEGREE]; tile.len()], orbit_keys(tile));
        for (number, pack) in self.packs.iter().enumerate() {
            let here = number * DEGREE..(number + 1) * DEGREE;
            let mut sums: Vec<&mut [u64]> = sums.iter_mut().map(|sums| &mut sums[here.clone()]).collect();
            add_packed(pack, self.places.as_deref(), tile, &keys, &mut packed, &mut sums);
        }
        sums
    }
}

/// The first dimension's sums of each client, `first` being the unit's first bucket.
fn first_dimension(shape: &Shape, buckets: &[Bucket], first: usize, tile: &[Asker<'_>]) -> Vec<Vec<u64>> {
    let mut sums = vec![vec![0; shape.packs() * DEGREE]; tile.len()];
    for (at, bucket) in buckets.iter().enumerate() {
        let queries: Vec<_> = tile.iter().map(|asker| read_query(shape, first + at, asker.queries)).collect();
        let queries: Vec<&[[u32; 4]]> = queries.iter().map(Vec::as_slice).collect();
        let here = at * shape.bucket_outputs()..(at + 1) * shape.bucket_outputs();
        let mut out: Vec<&mut [u64]> = sums.iter_mut().map(|sums| &mut sums[here.clone()]).collect();
        pair_products(&bucket.pairs, shape.positions(), &queries, &mut out);
    }
    sums
}

fn orbit_keys(tile: &[Asker<'_>]) -> OrbitKeys {
    let keys: Vec<&[u64]> = tile.iter().map(|asker| &*asker.keys.step).collect();
    OrbitKeys::new(&keys)
}

/// Turns the first dimension's sums of a pack, of each client, into the private half of its packed ciphertext. `packed` is for
/// what packing gives, and as long.
fn add_packed(
    pack: &Packing,
    places: Option<&[u16]>,
    tile: &[Asker<'_>],
    keys: &OrbitKeys,
    packed: &mut [Vec<u64>],
    sums: &mut [&mut [u64]],
) {
    let modulus = Ring::get().modulus();
    for (packed, asker) in packed.iter_mut().zip(tile) {
        for (packed, of_digits) in packed.iter_mut().zip(&pack.crossings) {
            *packed = modulus.add(*of_digits, asker.keys.crossings);
        }
    }
    let mut out: Vec<&mut [u64]> = packed.iter_mut().map(Vec::as_mut_slice).collect();
    orbit_products(modulus, &pack.digits, keys, &mut out);
    for ((packed, sums), asker) in packed.iter_mut().zip(sums).zip(tile) {
        if let Some(places) = places {
            let moved: Vec<u64> = places.iter().map(|output| sums[usize::from(*output)]).collect();
            sums.copy_from_slice(&moved);
        }
        finish(packed, sums, &pack.conjugation, &asker.keys.conjugation);
    }
}

/// Adds what packing gave, woven, to the first dimension's sums, modulo q.
fn finish(packed: &mut [u64], sums: &mut [u64], digits: &[u64], key: &[u64]) {
    let (ring, modulus) = (Ring::get(), Ring::get().modulus());
    let mut slots = vec![0; DEGREE];
    for (packed, (digit, key)) in packed.iter_mut().zip(digits.iter().zip(key)) {
        *packed = modulus.add(*packed, modulus.mul(*digit, *key));
    }
    ring.weave(packed, &mut slots);
    ring.ntt.inverse(&mut slots);
    for (sum, packed) in sums.iter_mut().zip(&slots) {
        *sum = modulus.add(ring.raise(*sum, QUERY_BITS), *packed);
    }
}

const _: () = assert!(MODULUS_BITS <= 51 && ORBIT.is_multiple_of(BLOCK));
