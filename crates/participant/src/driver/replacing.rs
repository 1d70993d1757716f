//! New secrets for retrieval, when it is their turn.

use core::time::Duration;
use std::sync::Arc;

use sotto_protocol::Round;
use sotto_wire::Failure;
use tokio::time::{Instant, sleep_until};

use super::{Done, Driver};
use crate::keys::Generation;
use crate::sessions::Patience;
use crate::{Event, Trouble};

/// So often, and for so long, new keys are uploaded in one round's turn.
const ATTEMPTS: u32 = 4;
const LONGEST: Duration = Duration::from_secs(120);

impl Driver {
    /// Uploads new keys at the given time, if it is this round's turn.
    pub(super) fn replace_keys(&mut self, round: Round, at: Instant) {
        let Some(next) = self.keys.is_due(round) else { return };
        let (host, sessions) = (Arc::clone(&self.host), self.sessions.clone());
        let engine = Arc::clone(&self.engine);
        self.calls.spawn(async move {
            let next = if next.is_some() { next } else { Generation::draw(&host, &engine).await };
            sleep_until(at).await;
            let patience = Patience { until: Instant::now() + LONGEST, attempts: ATTEMPTS };
            let taken = match &next {
                Some(next) => sessions.upload(patience, &next.public).await,
                None => Err(Failure::Unreachable),
            };
            Done::Keys(round, next, taken)
        });
    }

    pub(super) fn keys_uploaded(
        &mut self,
        round: Round,
        next: Option<Arc<Generation>>,
        taken: Result<(), Failure>,
    ) {
        if let Err(failure) = taken {
            let trouble = Trouble::Keys(failure);
            self.person.tell(Event::Trouble { round: Some(round), trouble });
        }
        // Taken or not: it is the time for it, and what is not taken now is brought again.
        next.iter().for_each(|next| self.sessions.offer(&next.public));
        self.keys.uploaded(round, next, taken.is_ok());
    }
}
