//! What another engine takes: this file, and one line where engines are looked up. What it answers is masked by the round's
//! public seed, so that people understand each other only if both ends have the same one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

mod support;

use std::sync::Arc;

use mpir::{
    Assurance, Contents, Engine, EngineClient, Engines, Error, Form, Parts, Pending, PreparedRound, Profile,
    PublicKeys, Query, Request, RoundSpec, Sizes,
};
use pir_core::dimensions::Stage;
use rand_core::CryptoRng;
use support::{Person, config, loopback, pair, settings};

/// The trivial engine: everybody downloads everything, and nobody learns what was wanted.
#[derive(Debug)]
struct Download;

fn content_bytes(form: &Form) -> usize {
    form.elements * form.element_bytes
}

fn masked(spec: &RoundSpec, content: &[u8]) -> Vec<u8> {
    content.iter().zip(spec.seed.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
}

impl Engine for Download {
    fn name(&self) -> &'static str {
        "download"
    }

    fn profile(&self, _: Form) -> Result<Profile, Error> {
        Ok(Profile::default())
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        let units = spec.form.buckets;
        let (request, answer) = (Parts::new(1, units)?, Parts::new(content_bytes(&spec.form), units)?);
        Ok(Sizes { units, keys: 1, request, answer, hint: 0 })
    }

    fn assurance(&self, _: &RoundSpec) -> Result<Assurance, Error> {
        Ok(Assurance { security_bits: 256, failure_log2: f64::NEG_INFINITY })
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
        let content = |bucket| &contents.different[bucket / contents.copies];
        let buckets = (0..spec.form.buckets).map(|bucket| masked(spec, content(bucket)));
        Ok(Box::new(Everything { sizes: self.sizes(spec)?, buckets: buckets.collect() }))
    }

    fn recompute(&self, spec: &RoundSpec, content: &[u8], _: &[u8], _: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(masked(spec, content))
    }
}

struct Everything {
    sizes: Sizes,
    buckets: Vec<Vec<u8>>,
}

impl PreparedRound for Everything {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn memory_bytes(&self) -> usize {
        self.buckets.iter().map(Vec::len).sum()
    }

    fn answer_observed(
        &self,
        unit: usize,
        tile: &[Query<'_>],
        _: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        tile.iter().map(|_| Ok(self.buckets[unit].clone())).collect()
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
        targets: &[Option<usize>],
        _: &mut dyn CryptoRng,
    ) -> Result<Request, Error> {
        let bytes = vec![0; spec.form.buckets];
        Ok(Request { bytes, pending: Box::new(Wanted { targets: targets.to_vec(), spec }) })
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

    fn read(self: Box<Self>, _: &[u8], answer: &[u8]) -> Vec<Result<Vec<u8>, Error>> {
        let element = |(target, bucket): (&Option<usize>, &[u8])| {
            let bucket = masked(&self.spec, bucket);
            let element = bucket.chunks(self.spec.form.element_bytes).nth(target.unwrap_or(0));
            element.map(<[u8]>::to_vec).ok_or(Error::Bucket)
        };
        self.targets.iter().zip(answer.chunks(content_bytes(&self.spec.form))).map(element).collect()
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
    alice.say("Everything comes, and nothing is told.").await;
    bob.hears("Everything comes, and nothing is told.").await;
    alice.is_heard().await;
    alice.handle.stop().await.unwrap();
    bob.handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
}
