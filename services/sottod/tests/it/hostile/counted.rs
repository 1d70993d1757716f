//! How many rounds a server holds: their databases are the largest thing there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mpir::{
    Assurance, Contents, Engine, EngineClient, Error, Form, PreparedRound, Profile, PublicKeys, Query,
    Recomputed, RoundSpec, Sizes,
};

/// An engine that counts the rounds it holds.
#[derive(Debug)]
pub(super) struct Counted(Arc<dyn Engine>, Arc<AtomicUsize>);

impl Counted {
    pub(super) fn new(engine: Arc<dyn Engine>) -> Self {
        Self(engine, Arc::default())
    }

    /// The rounds that are held now.
    pub(super) fn held(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

struct CountedRound(Box<dyn PreparedRound>, Arc<AtomicUsize>);

impl Drop for CountedRound {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PreparedRound for CountedRound {
    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    fn answer(&self, unit: usize, tile: &[Query<'_>]) -> Vec<Result<Vec<u8>, Error>> {
        self.0.answer(unit, tile)
    }
}

impl Engine for Counted {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        self.0.profile(form)
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        self.0.sizes(spec)
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        self.0.assurance(spec)
    }

    fn public_keys_bytes(&self) -> usize {
        self.0.public_keys_bytes()
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        self.0.client(seed)
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        self.0.public_keys(encoded)
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        let prepared = self.0.prepare(spec, contents)?;
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(CountedRound(prepared, Arc::clone(&self.1))))
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        public_keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error> {
        self.0.recompute(spec, unit, contents, public_keys, request)
    }
}
