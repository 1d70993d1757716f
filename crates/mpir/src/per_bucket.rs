//! Engines that know one database and one query, put to every bucket of a round (paper Figure 8).

use core::fmt;
use core::marker::PhantomData;
use std::collections::BTreeSet;
use std::sync::Arc;

use pir_core::dimensions::Stage;
use pir_core::{PagePool, Scheme};
use rand_core::CryptoRng;

use crate::engine::{
    Contents, Engine, EngineClient, Pending, PreparedRound, PublicKeys, Query, Recomputed, Request,
};
use crate::round::{Assurance, Form, Parts, Profile, RoundSpec, Sizes, Units};
use crate::{Error, MultiClient, MultiDatabase, MultiQuery, each, parameters};

/// A [`Scheme`] for every bucket: the units are the buckets, and nothing is shared between them but the keys.
pub struct PerBucket<S> {
    /// What the databases of retired rounds leave, those of new rounds take.
    pool: PagePool,
    scheme: PhantomData<fn() -> S>,
}

impl<S> PerBucket<S> {
    /// The engine.
    #[must_use]
    pub fn new() -> Self {
        Self { pool: PagePool::default(), scheme: PhantomData }
    }
}

impl<S> Default for PerBucket<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Scheme> fmt::Debug for PerBucket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(S::NAME)
    }
}

fn of_round<S: Scheme>(spec: &RoundSpec) -> Result<S::Parameters, Error> {
    let Form { elements, element_bytes, .. } = spec.form;
    Ok(S::with_profile(elements, element_bytes, &spec.profile.0)?)
}

fn sizes<S: Scheme>(parameters: &S::Parameters, buckets: usize) -> Result<Sizes, Error> {
    Ok(Sizes {
        units: Units::new(1, buckets)?,
        keys: S::public_keys_bytes(),
        request: Parts::new(S::query_bytes(parameters), buckets)?,
        answer: Parts::new(S::answer_bytes(parameters), buckets)?,
        hint: Parts::new(0, buckets)?,
    })
}

impl<S: Scheme> Engine for PerBucket<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        let Form { buckets, elements, element_bytes } = form;
        Ok(Profile(S::profile(&parameters::<S>(buckets, elements, element_bytes)?)))
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        sizes::<S>(&of_round::<S>(spec)?, spec.form.buckets)
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        let parameters = of_round::<S>(spec)?;
        let security_bits = S::security_bits(&parameters);
        Ok(Assurance { security_bits, failure_log2: S::failure_log2(&parameters) })
    }

    fn public_keys_bytes(&self) -> usize {
        S::public_keys_bytes()
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        Box::new(Client::<S> { multi: Arc::new(MultiClient::new(seed)), asked: BTreeSet::new() })
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        Ok(PublicKeys::new(S::decode_public_keys(encoded)?))
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        let parameters = of_round::<S>(spec)?;
        let Contents { different, copies } = contents;
        let sizes = sizes::<S>(&parameters, spec.form.buckets)?;
        if different.len().checked_mul(copies) != Some(sizes.units.count()) {
            return Err(Error::Bucket);
        }
        let database = MultiDatabase::<S>::with_parameters(&self.pool, parameters, different, copies)?;
        Ok(Box::new(Prepared { database, sizes }))
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        public_keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error> {
        let parameters = of_round::<S>(spec)?;
        if unit >= spec.form.buckets {
            return Err(Error::Bucket);
        }
        let keys = S::decode_public_keys(public_keys)?;
        let database = S::setup(&parameters, contents)?;
        Ok(Recomputed::without_hint(S::answer(&database, &keys, request)?))
    }
}

struct Client<S: Scheme> {
    multi: Arc<MultiClient<S>>,
    /// Rounds asked for. A secret serves a few dozen.
    asked: BTreeSet<u64>,
}

impl<S: Scheme> Client<S> {
    fn request(
        &self,
        spec: &RoundSpec,
        targets: &[Option<usize>],
        mut rng: &mut dyn CryptoRng,
    ) -> Result<Request, Error> {
        let parameters = of_round::<S>(spec)?;
        let sizes = sizes::<S>(&parameters, spec.form.buckets)?;
        let expected = sizes.units.buckets();
        if targets.len() != expected {
            return Err(Error::Count { what: "targets", expected, actual: targets.len() });
        }
        let mut query = self.multi.multi_query(&parameters, targets, &mut rng)?;
        let bytes = query.take_encoded();
        let multi = Arc::clone(&self.multi);
        Ok(Request { bytes, pending: Box::new(Asked { multi, parameters, sizes, query: Arc::new(query) }) })
    }
}

impl<S: Scheme> EngineClient for Client<S> {
    fn public_keys(&self) -> Vec<u8> {
        self.multi.public_keys()
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
        self.request(&spec, targets, rng)
    }

    fn cover(&self, spec: RoundSpec, rng: &mut dyn CryptoRng) -> Result<Request, Error> {
        self.request(&spec, &vec![None; spec.form.buckets], rng)
    }
}

/// What was asked, of which databases.
struct Asked<S: Scheme> {
    multi: Arc<MultiClient<S>>,
    parameters: S::Parameters,
    sizes: Sizes,
    query: Arc<MultiQuery>,
}

impl<S: Scheme> Pending for Asked<S> {
    fn serves(&self, spec: &RoundSpec) -> bool {
        self.sizes.units.buckets() == spec.form.buckets
            && of_round::<S>(spec).is_ok_and(|asked| S::query_fits(&self.parameters, &asked))
    }

    fn again(&self, spec: &RoundSpec) -> Option<Box<dyn Pending>> {
        let Self { multi, parameters, sizes, query } = self;
        let same = sizes.units.buckets() == spec.form.buckets && of_round::<S>(spec).ok()? == *parameters;
        let (multi, query) = (Arc::clone(multi), Arc::clone(query));
        same.then(|| Box::new(Self { multi, parameters: parameters.clone(), sizes: *sizes, query }) as _)
    }

    fn read(self: Box<Self>, _: &[u8], answer: &[u8]) -> Vec<Result<Vec<u8>, Error>> {
        let extract = |bucket: usize| {
            let answer = self.sizes.answer.part("bytes of the answer", answer, bucket)?;
            self.multi.extract(&self.parameters, &self.query, bucket, answer)
        };
        each(self.sizes.units.count(), &extract)
    }
}

struct Prepared<S: Scheme> {
    database: MultiDatabase<S>,
    sizes: Sizes,
}

impl<S: Scheme> Prepared<S> {
    fn query<'a>(&self, unit: usize, query: &Query<'a>) -> Result<(&'a S::PublicKeys, &'a [u8]), Error> {
        let part = self.sizes.request.part("bytes of the request", query.request, unit)?;
        Ok((query.keys.get()?, part))
    }
}

impl<S: Scheme> PreparedRound for Prepared<S> {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn memory_bytes(&self) -> usize {
        self.database.memory_bytes()
    }

    fn answer(&self, unit: usize, tile: &[Query<'_>]) -> Vec<Result<Vec<u8>, Error>> {
        self.answer_observed(unit, tile, &mut |_| ())
    }

    fn answer_observed(
        &self,
        unit: usize,
        tile: &[Query<'_>],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        let queries: Vec<_> = tile.iter().map(|query| self.query(unit, query)).collect();
        let good: Vec<_> = queries.iter().flatten().copied().collect();
        let mut answers = match self.database.answer_observed(unit, &good, observe) {
            Ok(answers) => answers.into_iter(),
            Err(error) => vec![Err(error); good.len()].into_iter(),
        };
        let answer =
            |query: Result<_, Error>| query.and_then(|_| answers.next().unwrap_or(Err(Error::Bucket)));
        queries.into_iter().map(answer).collect()
    }
}
