//! What is asked in an epoch in which queries stand: one request, the same bytes in all of its rounds.
//!
//! Whatever a round brings, and whatever is wished for meanwhile, nothing else is asked before the next epoch.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use mpir::{Pending, Request, RoundSpec};
use sha2::{Digest, Sha256};
use sotto_protocol::STANDING_ROUNDS;
use sotto_protocol::client::Plan;

/// When so many rounds have come since the first for which something was asked, none of its epoch can be retrieved: four stay at most. In each of them
/// one thing is asked at most, so that there are no more than that.
const OVER: u64 = STANDING_ROUNDS + 4;

/// A request that stands, and what reads its answers.
pub(crate) struct Asked {
    pub(crate) request: Bytes,
    /// SHA-256 of it, by which the server knows it.
    pub(crate) digest: [u8; 32],
    /// Reads no answer itself: [`Pending::again`] does, for each round.
    pub(crate) pending: Box<dyn Pending>,
    /// What is read, and for whom; nothing if the request stands in for one that was late, or nothing was to be wanted.
    pub(crate) plan: Option<Plan>,
    /// Whether a server has answered it, and so had it.
    answered: AtomicBool,
}

impl Asked {
    pub(crate) fn is_known(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    pub(crate) fn becomes_known(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }
}

/// The requests of a secret.
#[derive(Default)]
pub(crate) struct Standing {
    asked: Mutex<Vec<(RoundSpec, Arc<Asked>)>>,
}

impl Standing {
    /// What was asked already and is to be asked again.
    pub(crate) fn find(&self, spec: &RoundSpec) -> Option<Arc<Asked>> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|(of, _)| spec.round.saturating_sub(of.round) < OVER);
        asked.iter().find(|(of, _)| of.asks_as(spec)).map(|(_, asked)| Arc::clone(asked))
    }

    /// Decides on what is asked, unless that is decided already; and whether it is this.
    pub(crate) fn decide(
        &self,
        spec: &RoundSpec,
        request: Request,
        plan: Option<Plan>,
    ) -> (Arc<Asked>, bool) {
        let mut all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, asked)) = all.iter().find(|(of, _)| of.asks_as(spec)) {
            return (Arc::clone(asked), false);
        }
        let Request { bytes, pending } = request;
        let (request, answered) = (Bytes::from(bytes), AtomicBool::new(false));
        let digest = Sha256::digest(&request).into();
        let asked = Arc::new(Asked { request, digest, pending, plan, answered });
        all.push((spec.clone(), Arc::clone(&asked)));
        (asked, true)
    }
}
