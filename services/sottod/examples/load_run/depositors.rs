//! Clients that deposit once in every round.

use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;
use sotto_protocol::Round;
use sotto_session::Session;
use tokio::sync::{mpsc, watch};

use crate::asking;
use crate::ledger::{Fate, News};

/// Offset of the first deposits in a round, as the server announces it.
const OFFSET_MS: u64 = 200;

pub(crate) struct Depositor {
    pub(crate) session: Session,
    pub(crate) rng: StdRng,
    pub(crate) spread_ms: u64,
    pub(crate) opened: watch::Receiver<Option<(Round, Instant)>>,
    pub(crate) news: mpsc::UnboundedSender<News>,
}

impl Depositor {
    /// Deposits until there are no more rounds.
    pub(crate) async fn deposit(mut self) {
        while self.opened.changed().await.is_ok() {
            let Some((round, at)) = *self.opened.borrow_and_update() else { continue };
            let offset = OFFSET_MS + self.rng.random_range(0..self.spread_ms.max(1));
            tokio::time::sleep_until((at + Duration::from_millis(offset)).into()).await;
            let (deposit, bytes) = asking::deposit(&mut self.rng, self.session.given_slot());
            // If nobody listens any more, the run is over.
            let _ = self.news.send(News::Sent { round });
            let sent = Instant::now();
            let fate = Fate::of(self.session.deposit(round, &bytes).await, sent);
            let _ = self.news.send(News::Ended { round, deposit: Box::new(deposit), fate });
        }
    }
}
