//! Voce without a hint, as an engine: keys that last some rounds, and about a kilobyte of answer for each bucket.

use core::fmt;
use std::collections::BTreeSet;
use std::sync::Arc;

use pir_core::bfv::security_bits;
use pir_core::voce::select::{self, Asked, Secret, Unit};
use pir_core::voce::{self, DEGREE, Ending, MODULUS_BITS, Pools, Preference, Shape};
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::Error;
use crate::engine::{
    Contents, Engine, EngineClient, Pending, PreparedRound, PublicKeys, Query, Recomputed, Request,
};
use crate::round::{Assurance, Form, Parts, Profile, RoundSpec, Sizes, Units};
use crate::uniform::indices;
use crate::units::{answer_readable, cut_unit, prepare_units, read_units};
use crate::voce_hint::seeds;

/// The engine `voce`.
///
/// A client's secret serves as long as its keys do. Under it, a round's seed is asked once: a request that stands in for one that
/// was late is made under a secret of its own, with which nobody can read the answer, nor needs to.
#[derive(Default)]
pub struct Voce {
    /// What units of retired rounds leave, those of new rounds take.
    pools: Pools,
    preference: Preference,
}

impl Voce {
    /// Rounds are arranged by this preference. Clients take any.
    #[must_use]
    pub fn preferring(preference: Preference) -> Self {
        Self { preference, ..Self::default() }
    }
}

impl fmt::Debug for Voce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

const NAME: &str = "voce";

fn of_round(spec: &RoundSpec) -> Result<(Shape, Sizes), Error> {
    let Form { buckets, elements, element_bytes } = spec.form;
    let shape = Shape::announced(Ending::Selected, buckets, elements, element_bytes, &spec.profile.0)?;
    let units = Units::new(shape.unit_buckets(), buckets)?;
    let sizes = Sizes {
        units,
        keys: select::PublicKeys::BYTES,
        request: Parts::new(shape.request_bytes(buckets).ok_or(Error::Size)?, 1)?,
        answer: Parts::new(shape.answer_bytes(), units.count())?,
        hint: Parts::new(0, units.count())?,
    };
    Ok((shape, sizes))
}

impl Engine for Voce {
    fn name(&self) -> &'static str {
        NAME
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        let Form { buckets, elements, element_bytes } = form;
        let shape = Shape::choose(Ending::Selected, buckets, elements, element_bytes, self.preference)?;
        Ok(Profile(shape.profile()))
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        Ok(of_round(spec)?.1)
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        let (shape, _) = of_round(spec)?;
        Ok(Assurance {
            security_bits: security_bits(DEGREE, MODULUS_BITS),
            failure_log2: voce::noise::failure_log2(&shape),
        })
    }

    fn public_keys_bytes(&self) -> usize {
        select::PublicKeys::BYTES
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        let own = Sha256::new().chain_update(b"sotto voce lasting secret v1\0").chain_update(seed).finalize();
        let own = Zeroizing::new(own.into());
        Box::new(Client { secret: Secret::new(&own), asked: BTreeSet::new() })
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        Ok(PublicKeys::new(select::PublicKeys::read(encoded)?))
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        let (shape, sizes) = of_round(spec)?;
        let units = prepare_units(&sizes, contents, |number, contents| {
            Ok(Unit::new(&self.pools, &shape, &seeds(spec), number, contents)?)
        })?;
        Ok(Box::new(Prepared { shape, sizes, units }))
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        public_keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error> {
        let (shape, sizes) = of_round(spec)?;
        let contents = cut_unit(&sizes, unit, shape.elements() * shape.element_bytes(), contents)?;
        let keys = select::PublicKeys::read(public_keys)?;
        let request = select::Request::new(&shape, spec.form.buckets, &keys, request)?;
        // Who checks an answer now and then keeps no memory for the next time.
        let answer = Unit::answer_once(&Pools::default(), &shape, &seeds(spec), unit, &contents, &request)?;
        Ok(Recomputed::without_hint(answer))
    }
}

struct Client {
    secret: Secret,
    /// Rounds asked for. A session's seed serves a few dozen.
    asked: BTreeSet<u64>,
}

fn request(
    secret: &mut Secret,
    spec: RoundSpec,
    targets: &[Option<usize>],
    rng: &mut dyn CryptoRng,
) -> Result<Request, Error> {
    let (shape, sizes) = of_round(&spec)?;
    let expected = sizes.units.buckets();
    if targets.len() != expected {
        return Err(Error::Count { what: "targets", expected, actual: targets.len() });
    }
    let mut own = Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut *own);
    let targets = Zeroizing::new(indices(targets, shape.elements(), rng));
    let (bytes, asked) = secret.request(&shape, &spec.seed, &targets, &own)?;
    Ok(Request { bytes, pending: Box::new(Wanted { spec, sizes, asked: Arc::new(asked) }) })
}

impl EngineClient for Client {
    fn public_keys(&self) -> Vec<u8> {
        self.secret.public_keys()
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
        request(&mut self.secret, spec, targets, rng)
    }

    /// Under a secret that is used for nothing else.
    fn cover(&self, spec: RoundSpec, rng: &mut dyn CryptoRng) -> Result<Request, Error> {
        let mut own = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *own);
        let targets = vec![None; spec.form.buckets];
        request(&mut Secret::new(&own), spec, &targets, rng)
    }
}

struct Wanted {
    spec: RoundSpec,
    sizes: Sizes,
    asked: Arc<Asked>,
}

impl Pending for Wanted {
    fn serves(&self, spec: &RoundSpec) -> bool {
        self.spec == *spec
    }

    fn again(&self, spec: &RoundSpec) -> Option<Box<dyn Pending>> {
        let wanted = Self { spec: spec.clone(), sizes: self.sizes, asked: Arc::clone(&self.asked) };
        self.spec.asks_as(spec).then(|| Box::new(wanted) as _)
    }

    fn read(self: Box<Self>, hint: &[u8], answer: &[u8]) -> Vec<Result<Vec<u8>, Error>> {
        read_units(&self.sizes, hint, answer, |unit, _, answer| {
            Ok(self.asked.read(&self.spec.whitening, unit, answer)?)
        })
    }
}

struct Prepared {
    shape: Shape,
    sizes: Sizes,
    units: Vec<Unit>,
}

impl Prepared {
    fn read<'a>(&self, query: &Query<'a>) -> Result<select::Request<'a>, Error> {
        let keys = query.keys.get::<select::PublicKeys>()?;
        Ok(select::Request::new(&self.shape, self.sizes.units.buckets(), keys, query.request)?)
    }
}

impl PreparedRound for Prepared {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn memory_bytes(&self) -> usize {
        self.units.iter().map(Unit::memory_bytes).sum()
    }

    fn answer(&self, unit: usize, tile: &[Query<'_>]) -> Vec<Result<Vec<u8>, Error>> {
        let Some(prepared) = self.units.get(unit) else { return vec![Err(Error::Bucket); tile.len()] };
        let requests: Vec<_> = tile.iter().map(|query| self.read(query)).collect();
        answer_readable(&requests, |tile| prepared.answer(self.sizes.units.range(unit).start, tile))
    }
}
