//! Checking answers of a server, and showing to anybody that one was wrong.
//!
//! The answer of a unit is a function of its buckets, the public keys and the query. The server signs all of these: the
//! buckets with the manifest, the rest with the receipt under its answers. So whoever downloads the buckets can answer the
//! query again ([`judge`]), and a [`Proof`] lets a stranger do so who knows nothing but the server's address.
//!
//! A proof holds public keys and one encrypted query of whoever made it. They say no more to its readers than they said to
//! the server.

mod proof;

use core::fmt;
use core::ops::Range;

use mpir::{Engines, Recomputed};
use sha2::{Digest, Sha256};
use sotto_protocol::Manifest;
use sotto_protocol::audit::{Statement, answer_digest, query_digest};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::{bucket_digest, buckets_digest, hint_digest, unit_hint_digest};
use sotto_session::round_spec;
use sotto_wire::RootKey;

pub use proof::{Digests, PROOF_MAX, Proof};
pub use sotto_session::Announced;

/// What a proof shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server has signed an answer that is not the one to the query, or a hint that is not the one of the buckets.
    Cheated,
    /// The server has signed the right answer and, if the engine has one, the right hint.
    Honest,
    /// The server has signed the right answer. Of the hint of its round nothing is shown.
    HonestAnswer,
    /// Nothing, and why.
    Invalid(Invalid),
}

/// Why a proof shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The root key of the address has not signed the server's key.
    #[error("the server of this address has not announced the key that signed it")]
    Announcement,
    /// The manifest is not the server's, or of an engine that this program does not know.
    #[error("the server has not signed this round, or it is of a PIR engine that this program does not know")]
    Manifest,
    /// The buckets are not the round's.
    #[error("the buckets are not what the server has published of this round")]
    Buckets,
    /// The server has not signed these keys, queries and answers.
    #[error("the server has not given a receipt for these keys, queries and answers")]
    Receipt,
    /// The digests are not those of the round's hint.
    #[error("the hint is not what the server has published of this round")]
    Hint,
    /// The query or the answer is not that of the receipt.
    #[error("the query or the answer is not that of the receipt")]
    Answer,
    /// The keys or the query are malformed, so that there is no answer to compare with.
    #[error("the keys or the query are none of this engine")]
    Engine,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cheated => f.write_str("the server has signed a wrong answer, or a wrong hint"),
            Self::Honest => f.write_str("the answer is right"),
            Self::HonestAnswer => {
                f.write_str("the answer is right, and of the hint of its round nothing is shown")
            }
            Self::Invalid(reason) => write!(f, "this proves nothing: {reason}"),
        }
    }
}

/// What a proof shows of the server whose cluster has this root key. It computes the answer again, which takes as long as
/// to set up and answer one unit.
#[must_use]
pub fn judge(engines: &Engines, proof: &Proof, root: &RootKey) -> Verdict {
    match recomputed(engines, proof, root) {
        Ok(right) if right.answer != proof.answer || right.hint == Some(false) => Verdict::Cheated,
        Ok(Right { hint: None, .. }) => Verdict::HonestAnswer,
        Ok(_) => Verdict::Honest,
        Err(reason) => Verdict::Invalid(reason),
    }
}

/// What the server should have signed.
struct Right {
    answer: Vec<u8>,
    /// Whether the published hint is right, if that is shown.
    hint: Option<bool>,
}

/// The right answer and hint, if everything is signed by the server as it should be.
fn recomputed(engines: &Engines, proof: &Proof, root: &RootKey) -> Result<Right, Invalid> {
    let Announced { announcement, endorsement } = &proof.announced;
    root.check_encoded(announcement, endorsement).map_err(|_| Invalid::Announcement)?;
    let manifest_key = proof.announced.manifest_key_of(proof.manifest.claimed_round());
    let manifest_key = manifest_key.ok_or(Invalid::Manifest)?;
    let manifest = proof.manifest.verify(&manifest_key).map_err(|_| Invalid::Manifest)?;
    let engine = engines.get(&manifest.engine).ok_or(Invalid::Manifest)?;
    let (spec, sizes) = round_spec(&**engine, root, &manifest).map_err(|_| Invalid::Manifest)?;
    let unit = usize::from(proof.unit);
    let Digests { queries, answers, .. } = &proof.digests;
    let count = sizes.units.count();
    if unit >= count || queries.len() != count || answers.len() != count {
        return Err(Invalid::Manifest);
    }
    if !proof.has_buckets_of(&manifest, sizes.units.range(unit)) {
        return Err(Invalid::Buckets);
    }
    let is_of_round = |hints: &Vec<_>| hints.len() == count && hint_digest(hints) == manifest.hint_digest;
    if !proof.hints.as_ref().is_none_or(is_of_round) {
        return Err(Invalid::Hint);
    }
    let keys = Sha256::digest(&proof.keys).into();
    let statement = Statement::new(manifest.round, manifest.digest(), keys, queries, answers);
    statement.verify(&manifest_key, &proof.receipt).map_err(|_| Invalid::Receipt)?;
    let asked = u16::try_from(sizes.request.number(unit)).unwrap_or(u16::MAX);
    if queries[unit] != query_digest(asked, &proof.query)
        || answers[unit] != answer_digest(proof.unit, &proof.answer)
    {
        return Err(Invalid::Answer);
    }
    let recomputed = engine.recompute(&spec, unit, &proof.boxes, &proof.keys, &proof.query);
    let Recomputed { answer, hint } = recomputed.map_err(|_| Invalid::Engine)?;
    let own = unit_hint_digest(proof.unit, &hint);
    let hint = match &proof.hints {
        Some(hints) => Some(hints[unit] == own),
        None if sizes.hint.bytes() == 0 => Some(true),
        None if count == 1 => Some(hint_digest(&[own]) == manifest.hint_digest),
        None => None,
    };
    Ok(Right { answer, hint })
}

impl Proof {
    /// Whether its boxes are those of these buckets of the round.
    fn has_buckets_of(&self, manifest: &Manifest, range: Range<usize>) -> bool {
        let Digests { buckets, .. } = &self.digests;
        let size = usize::try_from(manifest.bucket_size).ok().and_then(|size| size.checked_mul(BOX_BYTES));
        let Some(size) = size.filter(|size| size.checked_mul(range.len()) == Some(self.boxes.len())) else {
            return false;
        };
        let mut contents = range.zip(self.boxes.chunks_exact(size));
        let digest = |bucket: usize, boxes| Some(bucket_digest(u16::try_from(bucket).ok()?, boxes));
        buckets_digest(buckets) == manifest.buckets_digest
            && contents.all(|(bucket, boxes)| {
                digest(bucket, boxes).is_some_and(|digest| buckets.get(bucket) == Some(&digest))
            })
    }
}
