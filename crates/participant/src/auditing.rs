//! Checking the answer of a unit that the account's coins have drawn.
//!
//! The unit's buckets are asked for when all answers of the round are there, which is before anything is done with them: neither
//! when that is, nor which rounds and units are drawn, follows from anything that the account says or reads.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use mpir::{Engines, Parts, Sizes};
use sotto_protocol::audit::{Receipt, Statement, answer_digest, query_digest};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::unit_hint_digests;
use sotto_protocol::{Manifest, Round, SignedManifest};
use sotto_session::Session;
use sotto_wire::{Failure, RootKey, limits};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::keys::PublicKeys;
use super::sessions::{Patience, Sessions};
use crate::audit::{Announced, Digests, Proof, Verdict, judge};
use crate::host::{Host, Work, run};

/// How often the server lets the call be repeated.
const ATTEMPTS: u32 = 4;
/// Longer than that after the answers, no server has the round any more.
const LONGEST: Duration = Duration::from_secs(600);

/// What a receipt is checked with, and which answer is to be checked, if one is.
pub(crate) struct Auditing {
    /// What the server is, as the client keeps it. What a session was told may be of before, and the receipt with it worth nothing.
    pub(crate) server: Announced,
    pub(crate) announced: Manifest,
    pub(crate) signed: SignedManifest,
    /// None if no key signs the round.
    pub(crate) manifest_key: Option<[u8; 32]>,
    pub(crate) unit: Option<u16>,
    /// The hint, as soon as it has come and is the announced one: maybe after the answer.
    pub(crate) published: Option<oneshot::Receiver<Bytes>>,
}

/// What came for a multi-query.
pub(crate) struct Answered {
    pub(crate) answer: Bytes,
    /// As it came.
    pub(crate) receipt: Bytes,
}

impl Auditing {
    /// The digests of queries and answers, and the receipt if it is one for them.
    pub(crate) fn check(
        &self,
        keys: &PublicKeys,
        sizes: &Sizes,
        request: &Bytes,
        answered: &Answered,
    ) -> (Digests, Option<Receipt>) {
        let digests = |parts: &Parts, bytes: &Bytes, digest: fn(u16, &[u8]) -> [u8; 32]| -> Vec<_> {
            let mut all = Vec::with_capacity(sizes.units.count());
            for unit in (0..).take(sizes.units.count()) {
                // A part that concerns all units has one digest.
                let number = u16::try_from(parts.number(unit.into())).unwrap_or(u16::MAX);
                let known = all.get(usize::from(number)).copied();
                all.push(known.unwrap_or_else(|| digest(number, &part(parts, bytes, unit))));
            }
            all
        };
        let queries = digests(&sizes.request, request, query_digest);
        let answers = digests(&sizes.answer, &answered.answer, answer_digest);
        let manifest = self.announced.digest();
        let statement = Statement::new(self.announced.round, manifest, keys.digest, &queries, &answers);
        let receipt = answered.receipt[..].try_into().ok();
        let receipt: Option<Receipt> = receipt
            .filter(|receipt| self.manifest_key.is_some_and(|key| statement.verify(&key, receipt).is_ok()));
        (Digests { buckets: Vec::new(), queries, answers }, receipt)
    }
}

/// Everything but the buckets; without a receipt nothing can be shown to others.
pub(crate) struct Evidence {
    pub(crate) auditing: Auditing,
    pub(crate) sizes: Sizes,
    pub(crate) digests: Digests,
    pub(crate) receipt: Option<Receipt>,
    pub(crate) keys: PublicKeys,
    pub(crate) unit: u16,
    pub(crate) query: Bytes,
    pub(crate) answer: Bytes,
}

/// What became of a check.
#[derive(Debug)]
pub(crate) enum Audit {
    /// A proof, and what it shows.
    Judged(Box<Proof>, Verdict),
    /// The buckets did not come.
    Unavailable(Failure),
    /// There is no receipt to hold the server to.
    NoReceipt,
    /// There was no answer.
    NoAnswer,
    /// This program failed.
    Failed,
}

/// The part of what was sent, or came, that concerns a unit; nothing if it is too short for that.
pub(crate) fn part(parts: &Parts, bytes: &Bytes, unit: u16) -> Bytes {
    let part = bytes.get(parts.range(unit.into()));
    part.map_or_else(Bytes::new, |part| bytes.slice_ref(part))
}

/// The size of a unit's buckets as they are sent, if anybody may send them.
pub(crate) fn unit_bytes(announced: &Manifest, sizes: &Sizes, unit: u16) -> Option<usize> {
    let bucket = usize::try_from(announced.bucket_size).ok()?.checked_mul(BOX_BYTES)?;
    let boxes = bucket.checked_mul(sizes.units.range(unit.into()).len())?;
    (boxes <= limits::UNIT_MAX).then_some(32 * usize::from(announced.buckets) + boxes)
}

/// Downloads the buckets of a round's unit.
pub(crate) async fn download(
    sessions: &Sessions,
    keys: &PublicKeys,
    round: Round,
    unit: u16,
    bytes: usize,
) -> Result<Bytes, Failure> {
    let patience = Patience { until: Instant::now() + LONGEST, attempts: ATTEMPTS };
    let call = |session: Session| async move { session.unit(round, unit, bytes).await };
    sessions.call(patience, keys, call).await
}

/// Answers the query again. A wrong answer is found whether the hint comes or not.
pub(crate) async fn judge_evidence(
    host: &Arc<dyn Host>,
    engines: Engines,
    evidence: Evidence,
    downloaded: Result<Bytes, Failure>,
    root: RootKey,
) -> Audit {
    let mut boxes = match downloaded {
        Ok(bytes) => bytes,
        Err(failure) => return Audit::Unavailable(failure),
    };
    let Evidence { auditing, sizes, mut digests, receipt, keys, unit, query, answer } = evidence;
    let Some(receipt) = receipt else { return Audit::NoReceipt };
    let Auditing { server: announced, announced: manifest, signed, published, .. } = auditing;
    let all = engines.clone();
    let work = move || {
        let list = boxes.split_to(boxes.len().min(32 * usize::from(manifest.buckets)));
        digests.buckets = list.as_chunks::<32>().0.to_vec();
        let (manifest, keys) = (signed.with_segment(None), keys.encoded);
        let proof =
            Proof { announced, manifest, receipt, unit, digests, keys, query, answer, boxes, hints: None };
        let verdict = judge(&all, &proof, &root);
        (Box::new(proof), verdict)
    };
    let Some((mut proof, verdict)) = run(host, Work::Audit, work).await else { return Audit::Failed };
    let (Verdict::HonestAnswer, Some(published)) = (verdict, published) else {
        return Audit::Judged(proof, verdict);
    };
    // One that did not come shows nothing.
    let Ok(hint) = published.await else { return Audit::Judged(proof, verdict) };
    let work = move || {
        proof.hints = sizes.hints(&hint).ok().map(unit_hint_digests);
        let verdict = judge(&engines, &proof, &root);
        Audit::Judged(proof, verdict)
    };
    run(host, Work::Audit, work).await.unwrap_or(Audit::Failed)
}
