//! Engines by name.

use std::sync::Arc;

use pir_core::{NoOp, SealPir};

use crate::{Engine, PerBucket, Voce, VoceApart, VoceHint};

/// The engines that a program knows. A server announces one of them by name; its clients need the same one.
#[derive(Clone, Debug)]
pub struct Engines(Vec<Arc<dyn Engine>>);

impl Default for Engines {
    /// SealPIR, the three kinds of Voce, and the engine without privacy, which clients refuse but in tests.
    fn default() -> Self {
        Self(vec![sealpir(), voce(), voce_hint(), voce_apart(), noop()])
    }
}

impl Engines {
    /// This one alone.
    #[must_use]
    pub fn only(engine: Arc<dyn Engine>) -> Self {
        Self(vec![engine])
    }

    /// These and another one.
    #[must_use]
    pub fn with(mut self, engine: Arc<dyn Engine>) -> Self {
        self.0.push(engine);
        self
    }

    /// The engine of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Engine>> {
        self.0.iter().find(|engine| engine.name() == name)
    }

    /// All names, the preferred one first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|engine| engine.name())
    }
}

/// SealPIR, the engine that is used.
#[must_use]
pub fn sealpir() -> Arc<dyn Engine> {
    Arc::new(PerBucket::<SealPir>::new())
}

/// Voce, whose clients share the public halves of their queries.
#[must_use]
pub fn voce() -> Arc<dyn Engine> {
    Arc::new(Voce::default())
}

/// Voce with a hint, which answers many clients at a fraction of the cost.
#[must_use]
pub fn voce_hint() -> Arc<dyn Engine> {
    Arc::new(VoceHint::default())
}

/// Voce with a hint and a secret for every bucket by itself.
#[must_use]
pub fn voce_apart() -> Arc<dyn Engine> {
    Arc::new(VoceApart::default())
}

/// The engine without privacy, for tests.
#[must_use]
pub fn noop() -> Arc<dyn Engine> {
    Arc::new(PerBucket::<NoOp>::new())
}
