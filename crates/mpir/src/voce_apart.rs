//! Voce with a hint for every bucket by itself, as an engine: nothing that concerns two buckets comes together anywhere.
//!
//! With [`VoceHint`] a request has one secret, and the keys in it serve for all buckets, as does one pack of the server for several.
//! A server that mixes what it was asked of one bucket into what it answers for another computes under the same secret. Here
//! every bucket of a round is a round of its own, of one bucket, under a seed that follows from the round's: other public halves,
//! another secret, other keys, another pack, another hint. That is paid for in keys of 25.6 KB and a pack for every bucket.

use core::fmt;
use std::collections::BTreeSet;

use pir_core::voce::Preference;
use rand_core::CryptoRng;
use rayon::prelude::{IntoParallelIterator, ParallelIterator};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::engine::{
    Contents, Engine, EngineClient, Pending, PreparedRound, PublicKeys, Query, Recomputed, Request,
};
use crate::round::{Assurance, Form, Parts, Profile, RoundSpec, Sizes, Units};
use crate::{Error, VoceHint};

/// The engine `voce-apart`.
#[derive(Default)]
pub struct VoceApart {
    each: VoceHint,
}

impl VoceApart {
    /// Rounds are arranged by this preference. Clients take any.
    #[must_use]
    pub fn preferring(preference: Preference) -> Self {
        Self { each: VoceHint::preferring(preference) }
    }
}

impl fmt::Debug for VoceApart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

const NAME: &str = "voce-apart";

/// A bucket as a round of its own.
fn alone(spec: &RoundSpec, bucket: usize) -> RoundSpec {
    let of_bucket = |seed| derived(b"sotto voce apart round v1\0", seed, bucket);
    let (seed, whitening) = (of_bucket(&spec.seed), of_bucket(&spec.whitening));
    RoundSpec { seed, whitening, form: Form { buckets: 1, ..spec.form }, ..spec.clone() }
}

fn derived(domain: &[u8], from: &[u8; 32], bucket: usize) -> [u8; 32] {
    let hash = Sha256::new().chain_update(domain).chain_update(from);
    hash.chain_update((bucket as u64).to_le_bytes()).finalize().into()
}

impl VoceApart {
    fn of_round(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        let buckets = spec.form.buckets;
        let each = self.each.sizes(&alone(spec, 0))?;
        Ok(Sizes {
            units: Units::new(1, buckets)?,
            keys: each.keys,
            request: Parts::new(each.request.bytes(), buckets)?,
            answer: Parts::new(each.answer.bytes(), buckets)?,
            hint: Parts::new(each.hint.bytes(), buckets)?,
        })
    }
}

impl Engine for VoceApart {
    fn name(&self) -> &'static str {
        NAME
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        self.each.profile(Form { buckets: 1, ..form })
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        self.of_round(spec)
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        self.each.assurance(&alone(spec, 0))
    }

    fn public_keys_bytes(&self) -> usize {
        self.each.public_keys_bytes()
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        Box::new(Client { each: VoceHint::default(), seed: Zeroizing::new(*seed), asked: BTreeSet::new() })
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        self.each.public_keys(encoded)
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        let sizes = self.of_round(spec)?;
        let Contents { different, copies } = contents;
        if different.len().checked_mul(copies) != Some(spec.form.buckets) {
            return Err(Error::Bucket);
        }
        let prepare = |bucket: usize| {
            let different = core::slice::from_ref(&different[bucket / copies]);
            self.each.prepare(&alone(spec, bucket), Contents { different, copies: 1 })
        };
        let buckets: Vec<Box<dyn PreparedRound>> =
            (0..spec.form.buckets).into_par_iter().map(prepare).collect::<Result<_, _>>()?;
        let hint = buckets.iter().flat_map(|bucket| bucket.hint()).copied().collect();
        Ok(Box::new(Prepared { sizes, buckets, hint }))
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        public_keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error> {
        if unit >= spec.form.buckets {
            return Err(Error::Bucket);
        }
        self.each.recompute(&alone(spec, unit), 0, contents, public_keys, request)
    }
}

struct Client {
    each: VoceHint,
    seed: Zeroizing<[u8; 32]>,
    /// Rounds asked for. A session's seed serves a few dozen.
    asked: BTreeSet<u64>,
}

impl Client {
    /// Who asks one bucket: somebody else for each.
    fn of_bucket(&self, bucket: usize) -> Box<dyn EngineClient> {
        let seed = Zeroizing::new(derived(b"sotto voce apart client v1\0", &self.seed, bucket));
        self.each.client(&seed)
    }

    fn request(
        &self,
        spec: &RoundSpec,
        targets: &[Option<usize>],
        rng: &mut dyn CryptoRng,
    ) -> Result<Request, Error> {
        let expected = spec.form.buckets;
        if targets.len() != expected {
            return Err(Error::Count { what: "targets", expected, actual: targets.len() });
        }
        let sizes = VoceApart::default().of_round(spec)?;
        let mut bytes = Vec::with_capacity(sizes.request.bytes());
        let mut buckets = Vec::with_capacity(expected);
        for (bucket, target) in targets.iter().enumerate() {
            let asked = self.of_bucket(bucket).ask(alone(spec, bucket), &[*target], rng)?;
            bytes.extend_from_slice(&asked.bytes);
            buckets.push(asked.pending);
        }
        Ok(Request { bytes, pending: Box::new(Wanted { spec: spec.clone(), sizes, buckets }) })
    }
}

impl EngineClient for Client {
    fn public_keys(&self) -> Vec<u8> {
        self.each.client(&self.seed).public_keys()
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

struct Wanted {
    spec: RoundSpec,
    sizes: Sizes,
    buckets: Vec<Box<dyn Pending>>,
}

impl Pending for Wanted {
    fn serves(&self, spec: &RoundSpec) -> bool {
        self.spec == *spec
    }

    fn again(&self, spec: &RoundSpec) -> Option<Box<dyn Pending>> {
        let of_bucket = |(bucket, pending): (usize, &dyn Pending)| pending.again(&alone(spec, bucket));
        let pending = self.buckets.iter().map(|pending| &**pending);
        let buckets = pending.enumerate().map(of_bucket).collect::<Option<_>>()?;
        let wanted = Self { spec: spec.clone(), sizes: self.sizes, buckets };
        self.spec.asks_as(spec).then(|| Box::new(wanted) as _)
    }

    fn read(self: Box<Self>, hint: &[u8], answer: &[u8]) -> Vec<Result<Vec<u8>, Error>> {
        let sizes = self.sizes;
        let read = |(bucket, pending): (usize, Box<dyn Pending>)| {
            let hint = sizes.hint.part("bytes of the hint", hint, bucket)?;
            let answer = sizes.answer.part("bytes of the answer", answer, bucket)?;
            pending.read(hint, answer).pop().unwrap_or(Err(Error::Bucket))
        };
        self.buckets.into_iter().enumerate().map(read).collect()
    }
}

struct Prepared {
    sizes: Sizes,
    buckets: Vec<Box<dyn PreparedRound>>,
    hint: Vec<u8>,
}

impl PreparedRound for Prepared {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn memory_bytes(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.memory_bytes()).sum::<usize>() + self.hint.len()
    }

    fn hint(&self) -> &[u8] {
        &self.hint
    }

    fn answer(&self, unit: usize, tile: &[Query<'_>]) -> Vec<Result<Vec<u8>, Error>> {
        let Some(bucket) = self.buckets.get(unit) else { return vec![Err(Error::Bucket); tile.len()] };
        let mut parts = Vec::with_capacity(tile.len());
        let mut good = Vec::with_capacity(tile.len());
        for query in tile {
            let part = self.sizes.request.part("bytes of the request", query.request, unit);
            good.extend(part.ok().map(|request| Query { keys: query.keys, request }));
            parts.push(part);
        }
        let mut answers = bucket.answer(0, &good).into_iter();
        let answer =
            |part: Result<&[u8], Error>| part.and_then(|_| answers.next().unwrap_or(Err(Error::Bucket)));
        parts.into_iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::alone;
    use crate::{Form, Profile, RoundSpec};

    /// From the text of the protocol, for other implementations.
    #[test]
    fn the_seed_of_a_bucket_is_the_published_one() {
        let form = Form { buckets: 4, elements: 5, element_bytes: 288 };
        let spec =
            RoundSpec { seed: [7; 32], whitening: [7; 32], round: 9, form, profile: Profile::default() };
        let alone = alone(&spec, 3);
        let seed: String = alone.seed.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(seed, "f14b4bb85ca1df222c4f5e1a58733d0d8d733049c828538f514b58e1b059c9cf");
        assert_eq!((alone.round, alone.form), (9, Form { buckets: 1, ..form }));
    }
}
