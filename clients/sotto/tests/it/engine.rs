//! What another engine takes: this file, and one line where engines are looked up. What it answers is masked by the round's
//! public seed and by a hint, so that people understand each other only if both ends have the same of both; and its units of
//! work have three buckets.

use std::sync::Arc;

use mpir::{
    Assurance, Contents, Engine, EngineClient, Engines, Error, Form, Parts, Pending, PreparedRound, Profile,
    PublicKeys, Query, Recomputed, Request, RoundSpec, Sizes, Units,
};
use rand_core::CryptoRng;
use sotto_participant::{Event, Finding};

use crate::support::{Person, config, loopback, pair, settings};

/// The trivial engine: everybody downloads everything, and nobody learns what was wanted.
#[derive(Debug)]
struct Download;

fn content_bytes(form: &Form) -> usize {
    form.elements * form.element_bytes
}

/// As many bytes as the profile says, other ones for every unit.
fn hint(spec: &RoundSpec, unit: usize) -> Vec<u8> {
    (0..spec.profile.0[0]).map(|at| at.wrapping_mul(unit as u8 + 1) ^ spec.seed[0]).collect()
}

fn masked<'a>(spec: &RoundSpec, hint: &[u8], content: impl IntoIterator<Item = &'a u8>) -> Vec<u8> {
    let masks = spec.seed.iter().cycle().zip(hint.iter().cycle());
    content.into_iter().zip(masks).map(|(byte, (seed, hint))| byte ^ seed ^ hint).collect()
}

impl Engine for Download {
    fn name(&self) -> &'static str {
        "download"
    }

    fn profile(&self, _: Form) -> Result<Profile, Error> {
        Ok(Profile([7; 16]))
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        let units = Units::new(3, spec.form.buckets)?;
        let answer = Parts::new(3 * content_bytes(&spec.form), units.count())?;
        let hint = Parts::new(spec.profile.0[0].into(), units.count())?;
        Ok(Sizes { units, keys: 1, request: Parts::new(1, 1)?, answer, hint })
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        let known = spec.profile == Profile([7; 16]);
        Ok(Assurance { security_bits: 256, failure_log2: if known { f64::NEG_INFINITY } else { 0.0 } })
    }

    fn public_keys_bytes(&self) -> usize {
        1
    }

    fn client(&self, _: &[u8; 32]) -> Box<dyn EngineClient> {
        Box::new(Reader)
    }

    fn public_keys(&self, _: &[u8]) -> Result<PublicKeys, Error> {
        Ok(PublicKeys::new(()))
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        let sizes = self.sizes(spec)?;
        let content = |bucket: usize| contents.different[bucket / contents.copies].as_slice();
        let unit = |unit| sizes.units.range(unit).map(content).collect::<Vec<_>>().concat();
        let answer = |at| Ok(self.recompute(spec, at, &unit(at), &[], &[])?.answer);
        let answers = (0..sizes.units.count()).map(answer).collect::<Result<_, Error>>()?;
        let hint = (0..sizes.units.count()).flat_map(|unit| hint(spec, unit)).collect();
        Ok(Box::new(Everything { sizes, answers, hint }))
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<Recomputed, Error> {
        let hint = hint(spec, unit);
        let mut answer = masked(spec, &hint, contents);
        answer.resize(3 * content_bytes(&spec.form), 0);
        Ok(Recomputed { answer, hint })
    }
}

struct Everything {
    sizes: Sizes,
    answers: Vec<Vec<u8>>,
    hint: Vec<u8>,
}

impl PreparedRound for Everything {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn memory_bytes(&self) -> usize {
        self.answers.iter().map(Vec::len).sum()
    }

    fn hint(&self) -> &[u8] {
        &self.hint
    }

    fn answer(&self, unit: usize, tile: &[Query<'_>]) -> Vec<Result<Vec<u8>, Error>> {
        tile.iter().map(|_| Ok(self.answers[unit].clone())).collect()
    }
}

struct Reader;

impl EngineClient for Reader {
    fn public_keys(&self) -> Vec<u8> {
        vec![0]
    }

    fn ask(
        &mut self,
        spec: RoundSpec,
        of: &[Option<usize>],
        _: &mut dyn CryptoRng,
    ) -> Result<Request, Error> {
        Ok(Request { bytes: vec![0], pending: Box::new(Wanted { targets: of.to_vec(), spec }) })
    }

    fn cover(&self, spec: RoundSpec, rng: &mut dyn CryptoRng) -> Result<Request, Error> {
        let targets = vec![None; spec.form.buckets];
        Self.ask(spec, &targets, rng)
    }
}

struct Wanted {
    targets: Vec<Option<usize>>,
    spec: RoundSpec,
}

impl Pending for Wanted {
    fn serves(&self, spec: &RoundSpec) -> bool {
        self.spec == *spec
    }

    fn read(self: Box<Self>, hint: &[u8], answer: &[u8]) -> Vec<Result<Vec<u8>, Error>> {
        let (bytes, content) = (self.spec.form.element_bytes, content_bytes(&self.spec.form));
        let sizes = Download.sizes(&self.spec).unwrap();
        let units = sizes.hints(hint).unwrap().into_iter().zip(answer.chunks(3 * content));
        let all: Vec<u8> = units.flat_map(|(hint, unit)| masked(&self.spec, hint, unit)).collect();
        let element = |(target, bucket): (&Option<usize>, &[u8])| {
            bucket.chunks(bytes).nth(target.unwrap_or(0)).map(<[u8]>::to_vec).ok_or(Error::Bucket)
        };
        self.targets.iter().zip(all.chunks(content)).map(element).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_talk_by_an_engine_that_only_this_file_knows() {
    let server = sottod::start(Arc::new(Download), config(loopback())).unwrap();
    let mut settings = settings(&server);
    settings.engines = Engines::only(Arc::new(Download));
    let (alice, bob) = pair(&settings).await;
    let mut alice = Person::start(alice, None, &settings).await;
    let mut bob = Person::start(bob, None, &settings).await;
    // One that comes too late for its short round is followed by another.
    alice.handle.audit(1_000).unwrap();
    alice.say("Everything comes, and nothing is told.").await;
    bob.hears("Everything comes, and nothing is told.").await;
    alice.is_heard().await;
    // One answer of three buckets was computed again.
    alice.until("a check", |event| matches!(event, Event::Audited { finding: Finding::Honest, .. })).await;
    alice.handle.stop().await.unwrap();
    bob.handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
}
