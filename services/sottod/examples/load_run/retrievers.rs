//! Clients that send a whole multi-query in every round.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use mpir::{EngineClient, Pending};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sotto_protocol::{Deposit, Manifest};
use sotto_session::Session;
use sotto_wire::Failure;
use tokio::sync::{mpsc, watch};

use crate::asking::{Asked, ask, mapping};
use crate::ledger::word;

/// Offset of a multi-query after its round is ready, as the server announces it.
const OFFSET_MS: u64 = 600;

/// The keys of all retrievers: the server keeps a set for each account and does not know that they are the same. With
/// the same keys, the same query has the same answers, so one client can check those of all.
pub(crate) fn client() -> Box<dyn EngineClient> {
    mpir::sealpir().client(&[0x51; 32])
}

/// What everybody asks in a round.
pub(crate) struct Question {
    manifest: Manifest,
    query: Bytes,
    answers: usize,
    due: Instant,
    /// What reads the first answers.
    pending: Mutex<Option<Box<dyn Pending>>>,
    /// The bucket of the box that was asked for, and the box.
    expected: (usize, Vec<u8>),
    /// The first answers, if they hold that box: with the same keys, all others are the same.
    reference: OnceLock<Bytes>,
}

impl Question {
    pub(crate) fn is_answered_by(&self, answers: &Bytes) -> bool {
        let Some(pending) = self.pending.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return self.reference.get() == Some(answers);
        };
        let (bucket, expected) = &self.expected;
        let elements = pending.read(&[], answers);
        let right = elements.get(*bucket).is_some_and(|element| element.as_ref() == Ok(expected));
        if right {
            // Only one task reads answers.
            let _ = self.reference.set(answers.clone());
        }
        right
    }
}

/// What became of one retrieval.
pub(crate) enum Retrieved {
    Answers {
        answers: Bytes,
        after: Duration,
        question: Arc<Question>,
    },
    Refused(String),
    /// The one before was not done when the next round was ready.
    Skipped(u64),
}

/// Builds the question of a round: for a box that is known to be in it.
pub(crate) async fn question(
    session: &Session,
    manifest: Manifest,
    wanted: &Deposit,
    ready: Instant,
) -> anyhow::Result<Arc<Question>> {
    let mapping = mapping(session, &manifest).await?;
    let mut rng = StdRng::seed_from_u64(manifest.round.0);
    let asked = ask(session, &mut *client(), &manifest, &mapping, wanted, &mut rng)?;
    let Asked { request, answers, bucket } = asked.context("a deposit is not where it is said to be")?;
    Ok(Arc::new(Question {
        manifest,
        query: request.bytes.into(),
        answers,
        due: ready + Duration::from_millis(OFFSET_MS),
        pending: Mutex::new(Some(request.pending)),
        expected: (bucket, wanted.sealed.0.to_vec()),
        reference: OnceLock::new(),
    }))
}

pub(crate) struct Retriever {
    pub(crate) session: Session,
    pub(crate) keys: [u8; 32],
    pub(crate) questions: watch::Receiver<Option<Arc<Question>>>,
    pub(crate) retrieved: mpsc::Sender<Retrieved>,
}

impl Retriever {
    /// Retrieves until there are no more rounds.
    pub(crate) async fn retrieve(mut self) {
        let mut last = None;
        while self.questions.changed().await.is_ok() {
            let Some(question) = self.questions.borrow_and_update().clone() else { continue };
            let round = question.manifest.round.0;
            let skipped = last.map_or(0, |last: u64| round.saturating_sub(last + 1));
            last = Some(round);
            if skipped > 0 {
                let _ = self.retrieved.send(Retrieved::Skipped(skipped)).await;
            }
            let result = match self.ask(&question).await {
                Ok((answers, after)) => Retrieved::Answers { answers, after, question },
                Err(failure) => Retrieved::Refused(word(failure)),
            };
            if self.retrieved.send(result).await.is_err() {
                return;
            }
        }
    }

    async fn ask(&self, question: &Question) -> Result<(Bytes, Duration), Failure> {
        mapping(&self.session, &question.manifest).await?;
        tokio::time::sleep_until(question.due.into()).await;
        let (round, query) = (question.manifest.round, question.query.clone());
        let sent = Instant::now();
        let answered = self.session.retrieve(round, &self.keys, query, question.answers).await?;
        Ok((answered.answers, sent.elapsed()))
    }
}
