//! Keys for retrieval, as they come from their owners, or from the disk.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use mpir::PublicKeys;
use sha2::{Digest, Sha256};
use sotto_protocol::server::Account;
use sotto_wire::{Refused, proto};
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::places::Kind;
use super::{Service, lock};
use crate::connections::ConnectionHandle;
use crate::incoming;

/// How long a call waits for the disk, where it can do without.
const DISK_PATIENCE: Duration = Duration::from_secs(2);

impl Service {
    pub(super) async fn upload(
        &self,
        handle: &ConnectionHandle,
        mut chunks: Streaming<proto::KeysChunk>,
    ) -> Result<[u8; 32], Status> {
        let stall = self.limits.stall;
        let first = incoming::next(&mut chunks, stall).await?.ok_or(Refused::Malformed)?;
        let account = self.account(handle, &first.session)?;
        let _admission = self.admit(Kind::Upload, account)?;
        let expected = self.means.engine.public_keys_bytes();
        let data = |chunk: proto::KeysChunk| match chunk.session.is_empty() {
            true => Ok(chunk.data),
            false => Err(Refused::Malformed),
        };
        let encoded = incoming::join(&mut chunks, first.data, expected, stall, data).await?;
        let engine = Arc::clone(&self.means.engine);
        let given = encoded.clone();
        let parse = move || (Sha256::digest(&given).into(), engine.public_keys(&given));
        let (digest, keys) = self.means.compute.read_keys(parse).await.map_err(|_| Refused::Internal)?;
        let keys = keys.map_err(|_| Refused::Malformed)?;
        let progress = *self.means.progress.borrow();
        lock(&self.keys).insert(account, digest, keys, progress, Instant::now())?;
        self.keep_on_disk(digest, encoded).await;
        self.means.rounds.has_keys(account).await?;
        Ok(digest)
    }

    /// Whoever waits for the disk keeps its place among the uploads, and waits for one that stands still a while only.
    async fn keep_on_disk(&self, digest: [u8; 32], encoded: Bytes) {
        let kept = self.means.key_files.as_ref().and_then(|files| files.keep(&digest, encoded));
        let Some(kept) = kept else { return };
        match tokio::time::timeout(DISK_PATIENCE, kept).await {
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "keys for retrieval are in memory alone: they cannot be written to the disk");
            }
            Ok(_) => {}
            Err(_) => {
                tracing::warn!("keys for retrieval are in memory alone as yet: the disk takes too long");
            }
        }
    }

    /// The keys that an account names, which this process has not seen. Of a disk that stands still they are as good as gone.
    pub(super) async fn keys_of_disk(
        &self,
        account: Account,
        digest: [u8; 32],
    ) -> Result<PublicKeys, Status> {
        let files =
            self.means.key_files.as_ref().filter(|files| files.has(&digest)).ok_or(Refused::UnknownKeys)?;
        let encoded = tokio::time::timeout(DISK_PATIENCE, files.read(&digest)).await;
        let encoded = encoded.ok().flatten().ok_or(Refused::UnknownKeys)?;
        let engine = Arc::clone(&self.means.engine);
        let read = move || engine.public_keys(&encoded).ok();
        let keys = self.means.compute.read_keys(read).await.map_err(|_| Refused::Internal)?;
        let keys = keys.ok_or(Refused::UnknownKeys)?;
        let progress = *self.means.progress.borrow();
        lock(&self.keys).insert(account, digest, keys.clone(), progress, Instant::now())?;
        self.means.rounds.has_keys(account).await?;
        Ok(keys)
    }
}
