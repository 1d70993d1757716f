//! What both endings have in common on the server: the databases of a unit, multiplied with the clients' queries, and the packing
//! of the outputs.

use rayon::prelude::{IntoParallelIterator, ParallelIterator};

use super::chain::Packing;
use super::database::Bucket;
use super::format::{Keys, read_query};
use super::ring::{DEGREE, MODULUS_BITS, ORBIT, QUERY_BITS, Ring, Round};
use super::shape::{BLOCK, Ending, Shape};
use super::transform::Transformed;
use crate::Error;
use crate::pages::PagePool;
use crate::ring::{orbit_products, pair_products};

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
    /// Where the outputs of a pack's buckets go among its coefficients, where that is another place.
    places: Option<Vec<u16>>,
}

/// What packing needs of a client.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) keys: &'a Keys,
    /// A query for each bucket of the round.
    pub(super) queries: &'a [u8],
}

impl Dense {
    /// Prepares unit `number`, of which the buckets are given, up to as many as the shape says.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are more buckets than a unit has, or none, or one is of another size; [`Error::Memory`] if there
    /// is no room.
    pub(super) fn new(
        pools: &Pools,
        shape: &Shape,
        round: &Round,
        number: usize,
        contents: &[&[u8]],
    ) -> Result<Self, Error> {
        if contents.is_empty() || contents.len() > shape.unit_buckets() {
            return Err(Error::Shape("buckets of a unit"));
        }
        let ring = Ring::get();
        let first = number * shape.unit_buckets();
        let bucket = |at: usize| Bucket::new(&pools.databases, shape, round, first + at, contents[at]);
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
            Packing::new(&pools.packs, round, &transformed)
        };
        let packs = (0..shape.packs()).into_par_iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let moved = shape.ending() == Ending::Selected && shape.columns() < shape.group();
        let output = |x: usize| {
            let (bucket, output) = shape.source(0, x);
            (bucket * shape.bucket_outputs() + output) as u16
        };
        let places = moved.then(|| (0..DEGREE).map(output).collect());
        Ok(Self { shape: *shape, buckets, packs, places })
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
        let outputs = self.shape.packs() * DEGREE;
        let mut sums = vec![vec![0; outputs]; tile.len()];
        for (at, bucket) in self.buckets.iter().enumerate() {
            let queries: Vec<_> =
                tile.iter().map(|asker| read_query(&self.shape, first + at, asker.queries)).collect();
            let queries: Vec<&[[u32; 4]]> = queries.iter().map(Vec::as_slice).collect();
            let here = at * self.shape.bucket_outputs()..(at + 1) * self.shape.bucket_outputs();
            let mut out: Vec<&mut [u64]> = sums.iter_mut().map(|sums| &mut sums[here.clone()]).collect();
            pair_products(&bucket.pairs, self.shape.positions(), &queries, &mut out);
        }
        let keys: Vec<&[u64]> = tile.iter().map(|asker| &*asker.keys.step).collect();
        let mut packed = vec![vec![0; DEGREE]; tile.len()];
        for (number, pack) in self.packs.iter().enumerate() {
            let mut out: Vec<&mut [u64]> = packed.iter_mut().map(Vec::as_mut_slice).collect();
            orbit_products(Ring::get().modulus(), &pack.digits, &keys, &mut out);
            for ((packed, sums), asker) in packed.iter_mut().zip(&mut sums).zip(tile) {
                let sums = &mut sums[number * DEGREE..(number + 1) * DEGREE];
                if let Some(places) = &self.places {
                    let moved: Vec<u64> = places.iter().map(|output| sums[usize::from(*output)]).collect();
                    sums.copy_from_slice(&moved);
                }
                finish(packed, sums, &pack.conjugation, &asker.keys.conjugation);
            }
        }
        sums
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
        *sum = modulus.add(ring.raise(*sum, QUERY_BITS), *packed);
    }
}

const _: () = assert!(MODULUS_BITS <= 52 && ORBIT.is_multiple_of(BLOCK));
