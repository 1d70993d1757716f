//! PSIR where every round is a new database: see [`super`] for what that means.

use core::fmt;
use core::marker::PhantomData;
use std::collections::BTreeSet;
use std::sync::Arc;

use mpir::{
    Assurance, Contents, Engine, EngineClient, Error, Form, Parts, Pending, PreparedRound, Profile,
    PublicKeys, Query, Recomputed, Request, RoundSpec, Sizes, Units, each, indices, parameters,
};
use pir_core::PagePool;
use pir_core::dimensions::Stage;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::client::{Parameters, Server};
use super::partition::add;
use super::state::{Sets, divide};
use super::{Inner, Shape};

/// PSIR over an inner engine, for every bucket: the units are the buckets, and the hint of a bucket is all of it.
pub struct Psir<I> {
    /// What the sums of answered requests leave, those of others take.
    pool: PagePool,
    inner: PhantomData<fn() -> I>,
}

impl<I> Psir<I> {
    /// The engine.
    #[must_use]
    pub fn new() -> Self {
        Self { pool: PagePool::default(), inner: PhantomData }
    }
}

impl<I> Default for Psir<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Inner> fmt::Debug for Psir<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(I::PSIR_NAME)
    }
}

fn of_round<I: Inner>(spec: &RoundSpec) -> Result<(Parameters<I::Parameters>, Sizes), Error> {
    let Form { buckets, elements, element_bytes } = spec.form;
    let shape = Shape::new(elements, element_bytes)?;
    let parameters = Parameters { shape, inner: I::of_parts(&shape, &spec.profile.0)? };
    let sizes = Sizes {
        units: Units::new(1, buckets)?,
        keys: I::public_keys_bytes(),
        request: Parts::new(parameters.request_bytes::<I>(), buckets)?,
        answer: Parts::new(I::answer_bytes(&parameters.inner), buckets)?,
        hint: Parts::new(elements * element_bytes, buckets)?,
    };
    Ok((parameters, sizes))
}

impl<I: Inner> Engine for Psir<I> {
    fn name(&self) -> &'static str {
        I::PSIR_NAME
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        let Form { buckets, elements, element_bytes } = form;
        let shape = Shape::new(elements, element_bytes)?;
        Ok(Profile(I::profile(&parameters::<I>(buckets, shape.parts(), shape.element_bytes())?)))
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        Ok(of_round::<I>(spec)?.1)
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        let (Parameters { inner, .. }, _) = of_round::<I>(spec)?;
        let security_bits = I::security_bits(&inner);
        Ok(Assurance { security_bits, failure_log2: I::failure_log2(&inner) })
    }

    fn public_keys_bytes(&self) -> usize {
        I::public_keys_bytes()
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        Box::new(Client::<I> { key: Arc::new(I::client_key(seed)), asked: BTreeSet::new() })
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        Ok(PublicKeys::new(I::decode_public_keys(encoded)?))
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        let (parameters, sizes) = of_round::<I>(spec)?;
        let Contents { different, copies } = contents;
        if different.len().checked_mul(copies) != Some(spec.form.buckets) {
            return Err(Error::Bucket);
        }
        let size = parameters.shape.elements() * parameters.shape.element_bytes();
        if different.iter().any(|content| content.len() != size) {
            return Err(pir_core::Error::Shape("size of the database").into());
        }
        let each = different.iter().flat_map(|content| core::iter::repeat_n(content.as_slice(), copies));
        let hint = each.collect::<Vec<_>>().concat();
        Ok(Box::new(Prepared::<I> { parameters, sizes, pool: self.pool.clone(), hint }))
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        public_keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error> {
        let (parameters, sizes) = of_round::<I>(spec)?;
        if sizes.units.range(unit).is_empty() {
            return Err(Error::Bucket);
        }
        let keys = I::decode_public_keys(public_keys)?;
        let answer = Server::<I>::with(parameters, &PagePool::default(), contents)?.answer(&keys, request)?;
        Ok(Recomputed { answer, hint: contents.to_vec() })
    }
}

struct Client<I: Inner> {
    key: Arc<I::ClientKey>,
    /// Rounds asked for. A session's seed serves a few dozen.
    asked: BTreeSet<u64>,
}

impl<I: Inner> Client<I> {
    fn request(
        &self,
        spec: RoundSpec,
        targets: &[Option<usize>],
        mut rng: &mut dyn CryptoRng,
    ) -> Result<Request, Error> {
        let (parameters, sizes) = of_round::<I>(&spec)?;
        let expected = sizes.units.buckets();
        if targets.len() != expected {
            return Err(Error::Count { what: "targets", expected, actual: targets.len() });
        }
        let targets = Zeroizing::new(indices(targets, parameters.shape.elements(), rng));
        if targets.iter().any(|target| *target >= parameters.shape.elements()) {
            return Err(pir_core::Error::Index.into());
        }
        let sets = Sets::of(&parameters.shape);
        let mut blocks = Vec::with_capacity(expected);
        let mut partitions = Vec::with_capacity(expected);
        for target in targets.iter() {
            // One of p blocks holds it, and another is drawn.
            let (partition, block) = loop {
                let mut seed = Zeroizing::new([0; 32]);
                rng.fill_bytes(&mut seed[..]);
                if let Some((partition, part)) = divide(&parameters.shape, &sets, &seed, *target, &mut rng) {
                    break (partition, Block { seed, part });
                }
            };
            partitions.push(partition);
            blocks.push(block);
        }
        let items: Vec<_> = blocks.iter().map(|block| (&parameters.inner, block.part)).collect();
        let queries = I::queries(&self.key, &items, &mut rng)?;
        let mut bytes = Vec::with_capacity(sizes.request.bytes());
        for (partition, query) in partitions.iter().zip(queries) {
            partition.encode(&mut bytes);
            bytes.extend(query);
        }
        let pending = Asked::<I> { key: Arc::clone(&self.key), spec, parameters, sizes, blocks };
        Ok(Request { bytes, pending: Box::new(pending) })
    }
}

impl<I: Inner> EngineClient for Client<I> {
    fn public_keys(&self) -> Vec<u8> {
        I::encode_public_keys(&self.key)
    }

    fn ask(
        &mut self,
        spec: RoundSpec,
        targets: &[Option<usize>],
        rng: &mut dyn CryptoRng,
    ) -> Result<Request, Error> {
        if !self.asked.insert(spec.round) {
            return Err(Error::Asked);
        }
        self.request(spec, targets, rng)
    }

    fn cover(&self, spec: RoundSpec, rng: &mut dyn CryptoRng) -> Result<Request, Error> {
        let targets = vec![None; spec.form.buckets];
        self.request(spec, &targets, rng)
    }
}

/// A block of which the sum is not yet known, and the part that it is with the record.
struct Block {
    seed: Zeroizing<[u8; 32]>,
    part: usize,
}

struct Asked<I: Inner> {
    key: Arc<I::ClientKey>,
    spec: RoundSpec,
    parameters: Parameters<I::Parameters>,
    sizes: Sizes,
    blocks: Vec<Block>,
}

impl<I: Inner> Pending for Asked<I> {
    fn serves(&self, spec: &RoundSpec) -> bool {
        self.spec.form == spec.form && self.spec.profile == spec.profile
    }

    fn read(self: Box<Self>, hint: &[u8], answer: &[u8]) -> Vec<Result<Vec<u8>, Error>> {
        let Parameters { shape, inner } = &self.parameters;
        let (size, sets) = (shape.element_bytes(), Sets::of(shape));
        let read = |unit: usize| {
            let block = &self.blocks[unit];
            let records = self.sizes.hint.part("bytes of the hint", hint, unit)?;
            let answer = self.sizes.answer.part("bytes of the answer", answer, unit)?;
            let mut record = I::extract(inner, &self.key, block.part, answer)?;
            for member in sets.members(&block.seed) {
                add(&mut record, &records[member * size..][..size]);
            }
            Ok(record)
        };
        each(self.blocks.len(), &read)
    }
}

struct Prepared<I: Inner> {
    parameters: Parameters<I::Parameters>,
    sizes: Sizes,
    pool: PagePool,
    /// All buckets, one behind the other.
    hint: Vec<u8>,
}

impl<I: Inner> PreparedRound for Prepared<I> {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn memory_bytes(&self) -> usize {
        self.hint.len()
    }

    fn hint(&self) -> &[u8] {
        &self.hint
    }

    fn answer(&self, unit: usize, tile: &[Query<'_>]) -> Vec<Result<Vec<u8>, Error>> {
        self.answer_observed(unit, tile, &mut |_| ())
    }

    /// [`Stage::Expanded`] is told when parts are summed up, [`Stage::FirstDimension`] when the inner engine has answered.
    fn answer_observed(
        &self,
        unit: usize,
        tile: &[Query<'_>],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        let records = self.sizes.hint.part("bytes of the hint", &self.hint, unit);
        let server =
            records.and_then(|records| Ok(Server::<I>::with(self.parameters.clone(), &self.pool, records)?));
        let Ok(server) = server else { return vec![Err(Error::Bucket); tile.len()] };
        let sums = tile.iter().map(|query| {
            let part = self.sizes.request.part("bytes of the request", query.request, unit)?;
            Ok(server.sums(part)?)
        });
        let sums: Vec<Result<_, Error>> = sums.collect();
        observe(Stage::Expanded);
        let answers = sums.into_iter().zip(tile).map(|(sums, query)| {
            let (sums, inner) = sums?;
            Ok(server.answer_sums(&sums, inner, query.keys.get::<I::PublicKeys>()?)?)
        });
        let answers = answers.collect();
        observe(Stage::FirstDimension);
        answers
    }
}
