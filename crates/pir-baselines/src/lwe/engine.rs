//! Engines with a public matrix from the round's seed and a hint for everybody, put to every bucket of a round.

use core::fmt;
use core::marker::PhantomData;
use std::collections::BTreeSet;

use mpir::{
    Assurance, Contents, Engine, EngineClient, Error, Form, Parts, Pending, PreparedRound, Profile,
    PublicKeys, Query, Recomputed, Request, RoundSpec, Sizes, Units, each, indices,
};
use pir_core::PagePool;
use pir_core::dimensions::Stage;
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Databases, each with its hint.
pub type Hinting<D> = Vec<(D, Vec<u8>)>;

/// A single-server engine whose clients send nothing ahead, draw a secret for each query, and read answers with a hint that
/// is made anew for each database.
///
/// Queries, answers and hints have sizes fixed by the parameters alone.
pub trait Hinted: Send + Sync + 'static {
    /// The engine's name in manifests and reports.
    const NAME: &'static str;

    /// Everything both ends must agree on besides the round's seed.
    type Parameters: Clone + fmt::Debug + PartialEq + Send + Sync + 'static;
    /// The server's form of one database.
    type Database: Send + Sync + 'static;
    /// A client's secrets of one query, and what it asked for.
    type Asked: Send + Sync + 'static;

    /// The cheapest arrangement of each of so many databases of one round.
    ///
    /// # Errors
    /// [`pir_core::Error::Shape`] if there is none with a failure bound of 2^-40; [`pir_core::Error::Security`] if the
    /// engine has less than 128 bits.
    fn choose(
        databases: usize,
        elements: usize,
        element_bytes: usize,
    ) -> Result<Self::Parameters, pir_core::Error>;

    /// What a server announces of an arrangement.
    fn profile(parameters: &Self::Parameters) -> [u8; Profile::BYTES];

    /// The arrangement that was announced.
    ///
    /// # Errors
    /// [`pir_core::Error::Shape`] if the profile is none for such a database.
    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; Profile::BYTES],
    ) -> Result<Self::Parameters, pir_core::Error>;

    /// Estimated security, bits.
    fn security_bits() -> u32;

    /// Upper bound on the probability that one element is read wrongly, as a logarithm to base 2.
    fn failure_log2(parameters: &Self::Parameters) -> f64;

    /// Number of elements of a database.
    fn elements(parameters: &Self::Parameters) -> usize;

    /// Size of a query, bytes.
    fn query_bytes(parameters: &Self::Parameters) -> usize;

    /// Size of an answer, bytes.
    fn answer_bytes(parameters: &Self::Parameters) -> usize;

    /// Size of the hint of one database, bytes.
    fn hint_bytes(parameters: &Self::Parameters) -> usize;

    /// Arranges databases and makes the hint of each, on the threads of the pool that it is called on (SETUP). What is the same
    /// for all databases of a round is made once.
    ///
    /// # Errors
    /// [`pir_core::Error::Shape`] if one is of another size; [`pir_core::Error::Memory`] if there is no room.
    fn setup(
        pool: &PagePool,
        parameters: &Self::Parameters,
        seed: &[u8; 32],
        contents: &[&[u8]],
    ) -> Result<Hinting<Self::Database>, pir_core::Error>;

    /// Size in memory, bytes.
    fn database_bytes(database: &Self::Database) -> usize;

    /// One query per index, one behind the other (QUERY). `own` is a secret seed that serves for nothing else.
    ///
    /// # Errors
    /// [`pir_core::Error::Index`] if an index is not below the number of elements.
    fn queries(
        parameters: &Self::Parameters,
        seed: &[u8; 32],
        indices: &[usize],
        own: &[u8; 32],
    ) -> Result<(Vec<u8>, Vec<Self::Asked>), pir_core::Error>;

    /// Answers several clients' queries in one pass (ANSWER), telling `observe` whenever a stage has ended for all of them:
    /// [`Stage::Expanded`] when they are parsed, [`Stage::FirstDimension`] after the product with the database.
    fn answer(
        database: &Self::Database,
        queries: &[&[u8]],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, pir_core::Error>>;

    /// The element that was asked for (EXTRACT). No branch and no memory access depends on which it is.
    ///
    /// # Errors
    /// [`pir_core::Error::Malformed`] if hint or answer are of another size.
    fn extract(
        parameters: &Self::Parameters,
        asked: &Self::Asked,
        hint: &[u8],
        answer: &[u8],
    ) -> Result<Vec<u8>, pir_core::Error>;
}

/// Bytes of what a client uploads once: a name for itself, which the server has no use for.
const KEYS_BYTES: usize = 8;

/// A [`Hinted`] engine for every bucket: the units are the buckets.
pub struct WithHint<S> {
    /// What the databases of retired rounds leave, those of new rounds take.
    pool: PagePool,
    scheme: PhantomData<fn() -> S>,
}

impl<S> WithHint<S> {
    /// The engine.
    #[must_use]
    pub fn new() -> Self {
        Self { pool: PagePool::default(), scheme: PhantomData }
    }
}

impl<S> Default for WithHint<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Hinted> fmt::Debug for WithHint<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(S::NAME)
    }
}

fn of_round<S: Hinted>(spec: &RoundSpec) -> Result<(S::Parameters, Sizes), Error> {
    let Form { buckets, elements, element_bytes } = spec.form;
    let parameters = S::with_profile(elements, element_bytes, &spec.profile.0)?;
    let sizes = Sizes {
        units: Units::new(1, buckets)?,
        keys: KEYS_BYTES,
        request: Parts::new(S::query_bytes(&parameters), buckets)?,
        answer: Parts::new(S::answer_bytes(&parameters), buckets)?,
        hint: Parts::new(S::hint_bytes(&parameters), buckets)?,
    };
    Ok((parameters, sizes))
}

impl<S: Hinted> Engine for WithHint<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        let Form { buckets, elements, element_bytes } = form;
        Ok(Profile(S::profile(&S::choose(buckets, elements, element_bytes)?)))
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        Ok(of_round::<S>(spec)?.1)
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        let (parameters, _) = of_round::<S>(spec)?;
        Ok(Assurance { security_bits: S::security_bits(), failure_log2: S::failure_log2(&parameters) })
    }

    fn public_keys_bytes(&self) -> usize {
        KEYS_BYTES
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        Box::new(Client::<S> { seed: Zeroizing::new(*seed), asked: BTreeSet::new(), scheme: PhantomData })
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        let right = encoded.len() == KEYS_BYTES;
        right.then(|| PublicKeys::new(())).ok_or(pir_core::Error::Malformed("public keys").into())
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        let (parameters, sizes) = of_round::<S>(spec)?;
        let Contents { different, copies } = contents;
        if different.len().checked_mul(copies) != Some(spec.form.buckets) {
            return Err(Error::Bucket);
        }
        let contents: Vec<&[u8]> = different.iter().map(Vec::as_slice).collect();
        let databases = S::setup(&self.pool, &parameters, &spec.seed, &contents)?;
        let (databases, hints): (Vec<_>, Vec<_>) = databases.into_iter().unzip();
        let each = hints.iter().flat_map(|hint| core::iter::repeat_n(hint.as_slice(), copies));
        let hint = each.collect::<Vec<_>>().concat();
        Ok(Box::new(Prepared::<S> { sizes, databases, copies, hint }))
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        public_keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error> {
        let (parameters, sizes) = of_round::<S>(spec)?;
        if sizes.units.range(unit).is_empty() {
            return Err(Error::Bucket);
        }
        self.public_keys(public_keys)?;
        let databases = S::setup(&PagePool::default(), &parameters, &spec.seed, &[contents])?;
        let (database, hint) = databases.into_iter().next().ok_or(Error::Bucket)?;
        let answer = S::answer(&database, &[request], &mut |_| ()).pop().ok_or(Error::Bucket)?;
        Ok(Recomputed { answer: answer?, hint })
    }
}

struct Client<S> {
    seed: Zeroizing<[u8; 32]>,
    /// Rounds asked for. A session's seed serves a few dozen.
    asked: BTreeSet<u64>,
    scheme: PhantomData<fn() -> S>,
}

impl<S: Hinted> Client<S> {
    /// The secrets of a request are drawn anew. The client's own seed, the round and what is asked for go into them, so that a
    /// generator that repeats itself gives one secret to nothing but one and the same request.
    fn request(
        &self,
        spec: RoundSpec,
        targets: &[Option<usize>],
        rng: &mut dyn CryptoRng,
    ) -> Result<Request, Error> {
        let (parameters, sizes) = of_round::<S>(&spec)?;
        let expected = sizes.units.buckets();
        if targets.len() != expected {
            return Err(Error::Count { what: "targets", expected, actual: targets.len() });
        }
        let mut drawn = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *drawn);
        let targets = indices(targets, S::elements(&parameters), rng);
        let mut own = Sha256::new()
            .chain_update(b"sotto lwe secret v1\0")
            .chain_update(S::NAME)
            .chain_update([0])
            .chain_update(self.seed.as_slice())
            .chain_update(spec.seed)
            .chain_update(spec.round.to_le_bytes())
            .chain_update((spec.form.elements as u64).to_le_bytes())
            .chain_update(spec.profile.0)
            .chain_update(drawn.as_slice());
        targets.iter().for_each(|target| own.update((*target as u64).to_le_bytes()));
        let own = Zeroizing::new(own.finalize().into());
        let (bytes, asked) = S::queries(&parameters, &spec.seed, &targets, &own)?;
        Ok(Request { bytes, pending: Box::new(Wanted::<S> { spec, parameters, sizes, asked }) })
    }
}

impl<S: Hinted> EngineClient for Client<S> {
    fn public_keys(&self) -> Vec<u8> {
        let name =
            Sha256::new().chain_update(b"sotto lwe name v1\0").chain_update(self.seed.as_slice()).finalize();
        name[..KEYS_BYTES].to_vec()
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

struct Wanted<S: Hinted> {
    spec: RoundSpec,
    parameters: S::Parameters,
    sizes: Sizes,
    asked: Vec<S::Asked>,
}

impl<S: Hinted> Pending for Wanted<S> {
    /// Every round has another public matrix.
    fn serves(&self, spec: &RoundSpec) -> bool {
        self.spec == *spec
    }

    fn read(self: Box<Self>, hint: &[u8], answer: &[u8]) -> Vec<Result<Vec<u8>, Error>> {
        let read = |unit: usize| {
            let hint = self.sizes.hint.part("bytes of the hint", hint, unit)?;
            let answer = self.sizes.answer.part("bytes of the answer", answer, unit)?;
            Ok(S::extract(&self.parameters, &self.asked[unit], hint, answer)?)
        };
        each(self.asked.len(), &read)
    }
}

struct Prepared<S: Hinted> {
    sizes: Sizes,
    databases: Vec<S::Database>,
    copies: usize,
    hint: Vec<u8>,
}

impl<S: Hinted> PreparedRound for Prepared<S> {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn memory_bytes(&self) -> usize {
        self.databases.iter().map(S::database_bytes).sum::<usize>() + self.hint.len()
    }

    fn hint(&self) -> &[u8] {
        &self.hint
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
        let Some(database) = self.databases.get(unit / self.copies) else {
            return vec![Err(Error::Bucket); tile.len()];
        };
        let request = self.sizes.request;
        let parts: Vec<Result<&[u8], Error>> =
            tile.iter().map(|query| request.part("bytes of the request", query.request, unit)).collect();
        let good: Vec<&[u8]> = parts.iter().flatten().copied().collect();
        let mut answers = S::answer(database, &good, observe).into_iter();
        let answer = |part: Result<&[u8], Error>| {
            part?;
            Ok(answers.next().ok_or(Error::Bucket)??)
        };
        parts.into_iter().map(answer).collect()
    }
}
