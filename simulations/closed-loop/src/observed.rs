//! An engine that counts what the server does with it.

use std::sync::{Arc, Mutex, PoisonError};

use mpir::{
    Assurance, Contents, Engine, EngineClient, Error, Form, PreparedRound, Profile, PublicKeys, Query,
    Recomputed, RoundSpec, Sizes,
};
use pir_core::dimensions::Stage;
use sotto_measuring::cpu::Stages;
use sotto_measuring::engine::EngineName;
use sottod::Preference;

/// What the engine has done in this process.
static METER: Mutex<Meter> = Mutex::new(Meter {
    stages: Stages { expand: 0.0, first_dimension: 0.0, rest: 0.0 },
    answers: 0,
    bytes: 0,
});

#[derive(Clone, Copy)]
pub(crate) struct Meter {
    /// Of the threads that answered.
    pub(crate) stages: Stages,
    /// Answers of one bucket to one client.
    pub(crate) answers: u64,
    /// Of all prepared buckets there are now.
    pub(crate) bytes: u64,
}

impl Meter {
    pub(crate) fn read() -> Self {
        Self::note(|meter| *meter)
    }

    fn note<T>(note: impl FnOnce(&mut Self) -> T) -> T {
        note(&mut METER.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An engine under its own name and with its own bytes, while the meter runs.
#[derive(Debug)]
pub(crate) struct Observed {
    name: EngineName,
    preference: Preference,
    engine: Arc<dyn Engine>,
}

impl Observed {
    pub(crate) fn new(name: EngineName, preference: Preference) -> Self {
        Self { name, preference, engine: name.preferring(preference) }
    }
}

impl Engine for Observed {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        // One that is too weak for people has none of its own.
        self.name.profile(form, self.preference)
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        self.engine.sizes(spec)
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        self.engine.assurance(spec)
    }

    fn public_keys_bytes(&self) -> usize {
        self.engine.public_keys_bytes()
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        self.engine.client(seed)
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        self.engine.public_keys(encoded)
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        let round = self.engine.prepare(spec, contents)?;
        Meter::note(|meter| meter.bytes += round.memory_bytes() as u64);
        Ok(Box::new(Held(round)))
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        public_keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error> {
        self.engine.recompute(spec, unit, contents, public_keys, request)
    }
}

/// A prepared round whose bytes are counted for as long as it is there.
struct Held(Box<dyn PreparedRound>);

impl Drop for Held {
    fn drop(&mut self) {
        Meter::note(|meter| meter.bytes -= self.0.memory_bytes() as u64);
    }
}

impl PreparedRound for Held {
    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    fn hint(&self) -> &[u8] {
        self.0.hint()
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
        let (answers, stages) = Stages::timed(|timing| {
            let mut both = |stage| {
                timing(stage);
                observe(stage);
            };
            self.0.answer_observed(unit, tile, &mut both)
        });
        Meter::note(|meter| {
            meter.stages = meter.stages + stages;
            meter.answers += tile.len() as u64;
        });
        answers
    }
}
