//! Clients that send a whole multi-query in every round.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use mpir::MultiClient;
use pir_core::{Scheme, SealPir};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Lookup, Manifest};
use sotto_session::Session;
use sotto_wire::Failure;
use tokio::sync::{mpsc, watch};

use crate::session::word;

/// Offset of a multi-query after its round is ready, as the server announces it.
const OFFSET_MS: u64 = 600;

/// The keys of all retrievers: the server keeps a set for each account and does not know that they are the same. With
/// the same keys, the same query has the same answers, so one client can check those of all.
pub(crate) fn client() -> MultiClient<SealPir> {
    MultiClient::new(&[0x51; 32])
}

type Check = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What everybody asks in a round.
pub(crate) struct Question {
    manifest: Manifest,
    query: Bytes,
    answers: usize,
    due: Instant,
    /// Whether answers hold the box that was asked for.
    check: Check,
    /// The first answers that do: with the same keys, all others are the same.
    reference: OnceLock<Bytes>,
}

impl Question {
    pub(crate) fn is_answered_by(&self, answers: &Bytes) -> bool {
        if let Some(reference) = self.reference.get() {
            return reference == answers;
        }
        let right = (self.check)(answers);
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
    pir: &MultiClient<SealPir>,
    manifest: Manifest,
    wanted: &Deposit,
    ready: Instant,
) -> anyhow::Result<Arc<Question>> {
    let mapping = fetch_mapping(session, &manifest).await?;
    let mapping = BloomMapping::decode(&mapping, &manifest)?;
    let code = manifest.code()?;
    let mut rng = StdRng::seed_from_u64(manifest.round.0);
    let lookup = Lookup::new(&*code, &mapping, &[wanted.label], &mut rng);
    let bucket = lookup.readings()[0].buckets.first();
    let bucket = bucket.context("a deposit is not in its round's mapping")?.to_usize();
    let parameters =
        mpir::parameters::<SealPir>(manifest.buckets.into(), manifest.bucket_size as usize, BOX_BYTES)?;
    let query = pir.multi_query(&parameters, lookup.targets(), &mut rng)?;
    let size = SealPir::answer_bytes(&parameters);
    let encoded = query.encoded().concat().into();
    let answers = size * usize::from(manifest.buckets);
    let (expected, pir) = (wanted.sealed.0, client());
    let check = move |answers: &[u8]| {
        let answers: Vec<Vec<u8>> = answers.chunks(size).map(<[u8]>::to_vec).collect();
        let elements = pir.multi_extract(&parameters, &query, &answers);
        elements.get(bucket).is_some_and(|element| element.as_ref().is_ok_and(|bytes| *bytes == expected))
    };
    let due = ready + Duration::from_millis(OFFSET_MS);
    let (check, reference) = (Box::new(check), OnceLock::new());
    Ok(Arc::new(Question { manifest, query: encoded, answers, due, check, reference }))
}

async fn fetch_mapping(session: &Session, manifest: &Manifest) -> Result<Bytes, Failure> {
    let bytes = BloomMapping::encoded_bytes(manifest.shape(), manifest.bucket_size);
    session.mapping(manifest.round, usize::try_from(bytes).unwrap_or(usize::MAX)).await
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
        fetch_mapping(&self.session, &question.manifest).await?;
        tokio::time::sleep_until(question.due.into()).await;
        let (round, query) = (question.manifest.round, question.query.clone());
        let sent = Instant::now();
        let answered = self.session.retrieve(round, &self.keys, query, question.answers).await?;
        Ok((answered.answers, sent.elapsed()))
    }
}
