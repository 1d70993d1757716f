//! Answering one multi-query.

use core::time::Duration;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ed25519_dalek::SigningKey;
use mpir::Error;
use pir_core::Scheme;
use rayon::prelude::{IntoParallelIterator, ParallelIterator};
use sotto_protocol::audit::{Receipt, Statement, answer_digest, query_digest};
use sotto_wire::limits::CHUNK_BYTES;
use sotto_wire::{Refused, proto};

use crate::compute::Compute;
use crate::outgoing::{Gone, Sender};
use crate::round_database::RoundDatabase;

/// A multi-query that is to be answered.
pub(crate) struct Retrieval<S: Scheme> {
    pub(crate) database: Arc<RoundDatabase<S>>,
    pub(crate) keys: Arc<S::PublicKeys>,
    /// All sub-queries, in the order of the buckets.
    pub(crate) query: Bytes,
    /// Under which the keys are known.
    pub(crate) keys_digest: [u8; 32],
    /// Signs the receipt.
    pub(crate) signing_key: Arc<SigningKey>,
    pub(crate) compute: Compute,
    /// Buckets answered in one job, whose answers are sent before the next job: a slow reader holds no more than that.
    pub(crate) buckets_per_job: usize,
}

impl<S: Scheme> Retrieval<S> {
    /// Answers bucket after bucket within `limit`; whether all answers were handed over.
    pub(crate) async fn answer(self, sender: &mut Sender<proto::AnswerChunk>, limit: Duration) -> bool {
        let result = tokio::time::timeout(limit, self.answer_all(sender)).await;
        match result {
            Ok(Ok(())) => true,
            Ok(Err(Stop::Gone)) => false,
            Ok(Err(Stop::Refused(refused))) => {
                sender.refuse(refused).await;
                false
            }
            Err(_) => {
                sender.refuse(Refused::Busy).await;
                false
            }
        }
    }

    async fn answer_all(self, sender: &mut Sender<proto::AnswerChunk>) -> Result<(), Stop> {
        let buckets = self.database.database.bucket_count();
        let mut pending = BytesMut::new();
        let (mut queries, mut answers) = (Vec::with_capacity(buckets), Vec::with_capacity(buckets));
        for first in (0..buckets).step_by(self.buckets_per_job.max(1)) {
            let range = first..buckets.min(first.saturating_add(self.buckets_per_job.max(1)));
            let (database, keys, query) =
                (Arc::clone(&self.database), Arc::clone(&self.keys), self.query.clone());
            let job = move || answer_buckets(&database, &keys, &query, range);
            let answered = tokio::select! {
                biased;
                // Whoever resets calls as fast as they are made leaves no work behind that has not begun.
                () = sender.gone() => return Err(Stop::Gone),
                answered = self.compute.answer(job) => answered.map_err(|_| Refused::Internal)??,
            };
            for Answered { answer, digests } in answered {
                queries.push(digests[0]);
                answers.push(digests[1]);
                pending.extend_from_slice(&answer);
                // The last chunk waits for the receipt.
                while pending.len() > CHUNK_BYTES {
                    send(sender, pending.split_to(CHUNK_BYTES), None).await?;
                }
            }
        }
        let manifest = &self.database.manifest;
        let statement =
            Statement::new(manifest.round, manifest.digest(), self.keys_digest, &queries, &answers);
        send(sender, pending, Some(statement.sign(&self.signing_key))).await?;
        Ok(())
    }
}

async fn send(
    sender: &mut Sender<proto::AnswerChunk>,
    data: BytesMut,
    receipt: Option<Receipt>,
) -> Result<(), Gone> {
    let receipt = receipt.map_or_else(Bytes::new, |receipt| Bytes::copy_from_slice(&receipt));
    let bytes = data.len() + receipt.len();
    sender.send(proto::AnswerChunk { data: data.freeze(), receipt }, bytes).await
}

/// A bucket's answer, and the digests of query and answer.
struct Answered {
    answer: Vec<u8>,
    digests: [[u8; 32]; 2],
}

fn answer_buckets<S: Scheme>(
    database: &RoundDatabase<S>,
    keys: &S::PublicKeys,
    query: &Bytes,
    buckets: core::ops::Range<usize>,
) -> Result<Vec<Answered>, Refused> {
    let size = database.query_bytes();
    let answer = |bucket: usize| {
        let query = query.get(bucket * size..(bucket + 1) * size).ok_or(Refused::Malformed)?;
        let number = u16::try_from(bucket).map_err(|_| Refused::Internal)?;
        let answer = database.database.answer_one(bucket, keys, query).map_err(|error| match error {
            Error::Engine(_) => Refused::Malformed,
            _ => Refused::Internal,
        })?;
        let digests = [query_digest(number, query), answer_digest(number, &answer)];
        Ok(Answered { answer, digests })
    };
    buckets.into_par_iter().map(answer).collect()
}

enum Stop {
    Gone,
    Refused(Refused),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}
