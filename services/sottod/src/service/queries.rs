//! Multi-queries: what is checked before they are answered, and their answers.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use mpir::{PublicKeys, Sizes};
use sha2::{Digest, Sha256};
use sotto_protocol::Round;
use sotto_protocol::server::Account;
use sotto_wire::{Refused, fixed, proto};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::places::{Admission, Kind};
use super::{Service, lock};
use crate::answering::Retrieval;
use crate::connections::ConnectionHandle;
use crate::incoming;
use crate::outgoing::{Outgoing, stream};
use crate::round_database::RoundDatabase;

impl Service {
    /// Takes a multi-query in and checks all there is to check before the work begins.
    pub(super) async fn accept_query(
        &self,
        handle: &ConnectionHandle,
        mut chunks: Streaming<proto::QueryChunk>,
    ) -> Result<Accepted, Status> {
        let stall = self.limits.stall;
        let first = incoming::next(&mut chunks, stall).await?.ok_or(Refused::Malformed)?;
        let mut asking = self.asking(handle, &first.session, &first.keys, first.round).await?;
        let expected = asking.sizes.request.bytes();
        asking.admission.memory = Some(self.query_memory.take(expected)?);
        let data = |chunk: proto::QueryChunk| {
            let bare = chunk.session.is_empty() && chunk.round == 0 && chunk.keys.is_empty();
            if bare { Ok(chunk.data) } else { Err(Refused::Malformed) }
        };
        let query = incoming::join(&mut chunks, first.data, expected, stall, data).await?;
        let digest_of_query = {
            let query = query.clone();
            self.means.compute.run_own(move || Sha256::digest(&query).into()).await
        };
        let digest_of_query = digest_of_query.map_err(|_| Refused::Internal)?;
        let (account, stands) = (asking.account, asking.stands);
        let accepted = self.accept(asking, query, digest_of_query).await?;
        if let Some(last) = stands {
            let oldest = self.means.progress.borrow().oldest;
            let request = &accepted.retrieval.request;
            lock(&self.standing).keep(account, digest_of_query, request, last, oldest);
        }
        Ok(accepted)
    }

    /// Takes a multi-query that the account has sent before in this epoch.
    pub(super) async fn accept_again(
        &self,
        handle: &ConnectionHandle,
        request: proto::RetrieveAgainRequest,
    ) -> Result<Accepted, Status> {
        let proto::RetrieveAgainRequest { session, round, keys, query } = request;
        let mut asking = self.asking(handle, &session, &keys, round).await?;
        let digest = fixed::<32>(&query, "digest of the multi-query")?;
        if asking.stands.is_none() {
            return Err(Refused::Malformed.into());
        }
        let expected = asking.sizes.request.bytes();
        let found = lock(&self.standing).find(&asking.account, &digest);
        let query = found.filter(|query| query.len() == expected).ok_or(Refused::UnknownQuery)?;
        // As much as for one that comes whole: it stays in memory for this call, whatever becomes of the one that is kept.
        asking.admission.memory = Some(self.query_memory.take(expected)?);
        self.accept(asking, query, digest).await
    }

    /// Who asks for which round, under which keys.
    async fn asking(
        &self,
        handle: &ConnectionHandle,
        session: &[u8],
        keys: &[u8],
        round: u64,
    ) -> Result<Asking, Status> {
        let account = self.account(handle, session)?;
        let admission = self.admit(Kind::Query, account)?;
        let keys_digest = fixed::<32>(keys, "digest of the keys")?;
        let progress = *self.means.progress.borrow();
        let known = {
            let mut keys = lock(&self.keys);
            keys.drop_former(progress.oldest);
            keys.find(&account, &keys_digest)
        };
        let keys = match known {
            Some(keys) => keys,
            None => self.keys_of_disk(account, keys_digest).await?,
        };
        let round = Round(round);
        let served = self.means.rounds.served(round).await?;
        let (sizes, code) = (served.database.sizes(), served.manifest.code);
        let rounds = code.epoch_rounds();
        let stands = (rounds > 1).then(|| Round(code.epoch(round).0.saturating_add(rounds - 1)));
        // Whoever sends slowly keeps no round in memory.
        let database = Arc::downgrade(&served);
        Ok(Asking { account, admission, keys, keys_digest, round, sizes, stands, database })
    }

    async fn accept(&self, asking: Asking, request: Bytes, digest: [u8; 32]) -> Result<Accepted, Status> {
        let Asking { account, mut admission, keys, keys_digest, round, sizes, database, .. } = asking;
        self.means.rounds.retrieve(account, round, digest).await?;
        lock(&self.keys).used(&account, Instant::now());
        // Only now, so that nobody holds a place for answers with a query that does not come. Those who wait here hold
        // their place among the queries.
        let place = Arc::clone(&self.retrievals).acquire_owned().await.map_err(|_| Refused::Internal)?;
        admission.permit = place;
        let memory = self.answer_memory.wait(sizes.answer.bytes()).await?;
        let retrieval = Retrieval { database, keys, keys_digest, request };
        Ok(Accepted { account, round, retrieval, admission, memory })
    }

    /// Answers as it goes.
    pub(super) fn answer(
        &self,
        handle: ConnectionHandle,
        accepted: Accepted,
    ) -> Outgoing<proto::AnswerChunk> {
        let (rounds, room, limit) = (self.means.rounds.clone(), self.means.room.clone(), self.limits.call);
        let (metrics, began) = (Arc::clone(&self.means.metrics), Instant::now());
        stream(&self.means.tracker, self.limits.stall, handle, |mut sender| async move {
            let Accepted { account, round, retrieval, admission, memory } = accepted;
            sender.hold(memory);
            let reply = room.submit(round, retrieval);
            // Before the reader sees the end, so that its next call finds room.
            let complete = reply.send(&mut sender, limit).await;
            drop(admission);
            if complete {
                metrics.answer.observe(began.elapsed().as_secs_f64());
            }
            rounds.answered(account, round, complete).await;
        })
    }
}

/// Who asks for a round, before what is asked is there.
struct Asking {
    account: Account,
    admission: Admission,
    keys: PublicKeys,
    keys_digest: [u8; 32],
    round: Round,
    sizes: Sizes,
    /// The last round for which the same may be asked, if queries stand.
    stands: Option<Round>,
    database: Weak<RoundDatabase>,
}

/// A multi-query that is answered as soon as its turn comes.
pub(super) struct Accepted {
    account: Account,
    round: Round,
    retrieval: Retrieval,
    admission: Admission,
    /// Of the answer.
    memory: OwnedSemaphorePermit,
}
