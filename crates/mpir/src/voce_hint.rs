//! Voce with a hint, as an engine: nearly all of a round is computed once for all clients.

use core::fmt;
use std::collections::BTreeSet;
use std::sync::Arc;

use pir_core::bfv::security_bits;
use pir_core::voce::{self, Asked, DEGREE, Ending, MODULUS_BITS, Pools, Preference, Seeds, Shape, Unit};
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

/// The engine `voce-hint`.
///
/// A client draws a secret for every request and sends the keys of it along: no two requests are made under one secret, whatever
/// becomes of a client's state. What it uploads as its keys, once, is a name for itself, which the server has no use for.
#[derive(Default)]
pub struct VoceHint {
    /// What units of retired rounds leave, those of new rounds take.
    pools: Pools,
    preference: Preference,
}

impl VoceHint {
    /// Rounds are arranged by this preference. Clients take any.
    #[must_use]
    pub fn preferring(preference: Preference) -> Self {
        Self { preference, ..Self::default() }
    }
}

impl fmt::Debug for VoceHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

const NAME: &str = "voce-hint";

const KEYS_BYTES: usize = 8;

/// What the public halves of a round, and its whitening, follow from.
pub(crate) fn seeds(spec: &RoundSpec) -> Seeds {
    Seeds { halves: spec.seed, whitening: spec.whitening }
}

fn of_round(spec: &RoundSpec) -> Result<(Shape, Sizes), Error> {
    let Form { buckets, elements, element_bytes } = spec.form;
    let shape = Shape::announced(Ending::Hint, buckets, elements, element_bytes, &spec.profile.0)?;
    let units = Units::new(shape.unit_buckets(), buckets)?;
    let sizes = Sizes {
        units,
        keys: KEYS_BYTES,
        request: Parts::new(shape.request_bytes(buckets).ok_or(Error::Size)?, 1)?,
        answer: Parts::new(shape.answer_bytes(), units.count())?,
        hint: Parts::new(shape.hint_bytes(), units.count())?,
    };
    Ok((shape, sizes))
}

impl Engine for VoceHint {
    fn name(&self) -> &'static str {
        NAME
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        let Form { buckets, elements, element_bytes } = form;
        let shape = Shape::choose(Ending::Hint, buckets, elements, element_bytes, self.preference)?;
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
        KEYS_BYTES
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        Box::new(Client { seed: Zeroizing::new(*seed), asked: BTreeSet::new() })
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        let right = encoded.len() == KEYS_BYTES;
        right.then(|| PublicKeys::new(())).ok_or(pir_core::Error::Malformed("public keys").into())
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        let (shape, sizes) = of_round(spec)?;
        let units = prepare_units(&sizes, contents, |number, contents| {
            Ok(Unit::new(&self.pools, &shape, &seeds(spec), number, contents)?)
        })?;
        let hint = units.iter().flat_map(Unit::hint).copied().collect();
        Ok(Box::new(Prepared { shape, sizes, units, hint }))
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
        self.public_keys(public_keys)?;
        let contents = cut_unit(&sizes, unit, shape.elements() * shape.element_bytes(), contents)?;
        let request = voce::Request::new(&shape, spec.form.buckets, request)?;
        // Who checks an answer now and then keeps no memory for the next time.
        let (answer, hint) =
            Unit::answer_once(&Pools::default(), &shape, &seeds(spec), unit, &contents, &request)?;
        Ok(Recomputed { answer, hint })
    }
}

struct Client {
    seed: Zeroizing<[u8; 32]>,
    /// Rounds asked for. A session's seed serves a few dozen.
    asked: BTreeSet<u64>,
}

impl Client {
    /// The secret of a request is drawn anew. The client's own seed, the round and what is asked for go into it, so that a
    /// generator that repeats itself, as on a machine that was put back to an earlier state, gives one secret to nothing but one
    /// and the same request.
    fn request(
        &self,
        spec: RoundSpec,
        targets: &[Option<usize>],
        rng: &mut dyn CryptoRng,
    ) -> Result<Request, Error> {
        let (shape, sizes) = of_round(&spec)?;
        let expected = sizes.units.buckets();
        if targets.len() != expected {
            return Err(Error::Count { what: "targets", expected, actual: targets.len() });
        }
        let mut drawn = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *drawn);
        let targets = indices(targets, shape.elements(), rng);
        let mut own = Sha256::new()
            .chain_update(b"sotto voce secret v1\0")
            .chain_update(self.seed.as_slice())
            .chain_update(spec.seed)
            .chain_update(spec.round.to_le_bytes())
            .chain_update((spec.form.elements as u64).to_le_bytes())
            .chain_update(spec.profile.0)
            .chain_update(drawn.as_slice());
        targets.iter().for_each(|target| own.update((*target as u64).to_le_bytes()));
        let own = Zeroizing::new(own.finalize().into());
        let (bytes, asked) = voce::request(&shape, &spec.seed, &targets, &own)?;
        Ok(Request { bytes, pending: Box::new(Wanted { spec, sizes, asked: Arc::new(asked) }) })
    }
}

impl EngineClient for Client {
    fn public_keys(&self) -> Vec<u8> {
        let name =
            Sha256::new().chain_update(b"sotto voce name v1\0").chain_update(self.seed.as_slice()).finalize();
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
        read_units(&self.sizes, hint, answer, |unit, hint, answer| {
            Ok(self.asked.read(&self.spec.whitening, unit, hint, answer)?)
        })
    }
}

struct Prepared {
    shape: Shape,
    sizes: Sizes,
    units: Vec<Unit>,
    hint: Vec<u8>,
}

impl PreparedRound for Prepared {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn memory_bytes(&self) -> usize {
        self.units.iter().map(Unit::memory_bytes).sum::<usize>() + self.hint.len()
    }

    fn hint(&self) -> &[u8] {
        &self.hint
    }

    fn answer(&self, unit: usize, tile: &[Query<'_>]) -> Vec<Result<Vec<u8>, Error>> {
        let Some(prepared) = self.units.get(unit) else { return vec![Err(Error::Bucket); tile.len()] };
        let buckets = self.sizes.units.buckets();
        let read = |request| voce::Request::new(&self.shape, buckets, request).map_err(Error::from);
        let requests: Vec<_> = tile.iter().map(|query| read(query.request)).collect();
        answer_readable(&requests, |tile| prepared.answer(self.sizes.units.range(unit).start, tile))
    }
}
