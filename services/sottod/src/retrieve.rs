//! Answering one multi-query.

use core::time::Duration;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use mpir::Error;
use pir_core::Scheme;
use rayon::prelude::{IntoParallelIterator, ParallelIterator};
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
        for first in (0..buckets).step_by(self.buckets_per_job.max(1)) {
            let range = first..buckets.min(first.saturating_add(self.buckets_per_job.max(1)));
            let (database, keys, query) =
                (Arc::clone(&self.database), Arc::clone(&self.keys), self.query.clone());
            let job = move || answer_buckets(&database, &keys, &query, range);
            let answers = tokio::select! {
                biased;
                // Whoever resets calls as fast as they are made leaves no work behind that has not begun.
                () = sender.gone() => return Err(Stop::Gone),
                answers = self.compute.answer(job) => answers.map_err(|_| Refused::Internal)??,
            };
            for answer in answers {
                pending.extend_from_slice(&answer);
                while pending.len() >= CHUNK_BYTES {
                    send(sender, pending.split_to(CHUNK_BYTES)).await?;
                }
            }
        }
        if !pending.is_empty() {
            send(sender, pending).await?;
        }
        Ok(())
    }
}

async fn send(sender: &mut Sender<proto::AnswerChunk>, data: BytesMut) -> Result<(), Gone> {
    let bytes = data.len();
    sender.send(proto::AnswerChunk { data: data.freeze() }, bytes).await
}

fn answer_buckets<S: Scheme>(
    database: &RoundDatabase<S>,
    keys: &S::PublicKeys,
    query: &Bytes,
    buckets: core::ops::Range<usize>,
) -> Result<Vec<Vec<u8>>, Refused> {
    let size = database.query_bytes();
    let answer = |bucket: usize| {
        let query = query.get(bucket * size..(bucket + 1) * size).ok_or(Refused::Malformed)?;
        database.database.answer_one(bucket, keys, query).map_err(|error| match error {
            Error::Engine(_) => Refused::Malformed,
            _ => Refused::Internal,
        })
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
