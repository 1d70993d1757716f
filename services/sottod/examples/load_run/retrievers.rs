//! Clients that send a whole multi-query in every round.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use mpir::MultiClient;
use pir_core::{Scheme, SealPir};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Lookup, Manifest};
use sotto_wire::{proto, split};
use tokio::sync::{mpsc, watch};
use tonic::Status;

use crate::child::Client;
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
    client: &mut Client,
    session: &Bytes,
    pir: &MultiClient<SealPir>,
    manifest: Manifest,
    wanted: &Deposit,
    ready: Instant,
) -> anyhow::Result<Arc<Question>> {
    let mapping = fetch_mapping(client, session, &manifest).await?;
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
    let (expected, pir) = (wanted.sealed.0, self::client());
    let check = move |answers: &[u8]| {
        let answers: Vec<Vec<u8>> = answers.chunks(size).map(<[u8]>::to_vec).collect();
        let elements = pir.multi_extract(&parameters, &query, &answers);
        elements.get(bucket).is_some_and(|element| element.as_ref().is_ok_and(|bytes| *bytes == expected))
    };
    let due = ready + Duration::from_millis(OFFSET_MS);
    let (check, reference) = (Box::new(check), OnceLock::new());
    Ok(Arc::new(Question { manifest, query: encoded, answers, due, check, reference }))
}

async fn fetch_mapping(client: &mut Client, session: &Bytes, manifest: &Manifest) -> Result<Vec<u8>, Status> {
    let request = proto::MappingRequest { session: session.clone(), round: manifest.round.0 };
    let mut stream = client.mapping(request).await?.into_inner();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.message().await? {
        bytes.extend_from_slice(&chunk.data);
    }
    Ok(bytes)
}

pub(crate) struct Retriever {
    pub(crate) client: Client,
    pub(crate) session: Bytes,
    pub(crate) keys: Bytes,
    pub(crate) questions: watch::Receiver<Option<Arc<Question>>>,
    pub(crate) retrieved: mpsc::Sender<Retrieved>,
}

impl Retriever {
    /// Uploads the keys, once.
    pub(crate) async fn upload(&mut self, keys: Bytes) -> anyhow::Result<()> {
        let session = self.session.clone();
        let chunk = move |data| proto::KeysChunk { session: session.clone(), data };
        let chunks: Vec<_> = split(keys).map(chunk).collect();
        self.keys = self.client.upload_keys(tokio_stream::iter(chunks)).await?.into_inner().digest;
        ensure!(self.keys.len() == 32, "a digest of another length");
        Ok(())
    }

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
                Err(status) => Retrieved::Refused(word(&status)),
            };
            if self.retrieved.send(result).await.is_err() {
                return;
            }
        }
    }

    async fn ask(&mut self, question: &Question) -> Result<(Bytes, Duration), Status> {
        fetch_mapping(&mut self.client, &self.session, &question.manifest).await?;
        tokio::time::sleep_until(question.due.into()).await;
        let (session, keys) = (self.session.clone(), self.keys.clone());
        let round = question.manifest.round.0;
        let chunks = split(question.query.clone()).enumerate().map(move |(number, data)| match number {
            0 => proto::QueryChunk { session: session.clone(), round, keys: keys.clone(), data },
            _ => proto::QueryChunk { data, ..Default::default() },
        });
        let sent = Instant::now();
        let mut stream =
            self.client.retrieve(tokio_stream::iter(chunks.collect::<Vec<_>>())).await?.into_inner();
        let mut answers = Vec::with_capacity(question.answers);
        while let Some(chunk) = stream.message().await? {
            answers.extend_from_slice(&chunk.data);
        }
        Ok((answers.into(), sent.elapsed()))
    }
}
