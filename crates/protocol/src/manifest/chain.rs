//! The client's record of the manifests it has seen: one history, or a warning.

use serde::{Deserialize, Serialize};

use super::{HEAD_PREFIX_BYTES, Manifest, prefix};
use crate::error::{ManifestError, Unknown};
use crate::{Error, Round};

/// Heads that a client remembers.
pub const HEADS_KEPT: usize = 64;

/// The newest verified heads of the server's chain of manifests.
///
/// A server may leave a round unpublished, so manifests follow each other by digest and not by number. What is accepted
/// must have been verified before ([`crate::SignedManifest::verify`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestChain {
    /// Ascending by round.
    heads: Vec<Head>,
    gap: Option<Gap>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    round: Round,
    digest: [u8; 32],
}

/// Manifests not seen, between two that were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Gap {
    /// The last one before it.
    after: Head,
    /// The round of the first one after it, and the digest that one calls its predecessor's.
    before: Head,
}

/// How an accepted manifest stands to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainStep {
    /// The first one this client sees.
    First,
    /// The successor of the newest one.
    Next,
    /// A later one; those between are to be fetched and handed to [`ManifestChain::fill_gap`].
    Gap {
        /// First round of which a manifest may be missing.
        missing_from: Round,
        /// Last such round.
        missing_to: Round,
    },
}

impl ManifestChain {
    /// Takes a manifest as the newest head.
    ///
    /// # Errors
    /// [`Error::Manifest`] if the server has told another history before: another manifest for the same round, or a
    /// manifest that leaves no room for missing ones and does not name the newest head. [`Error::RoundReplayed`] for
    /// one that was accepted already, or is older than all that are remembered. The chain is then as before.
    pub fn accept(&mut self, manifest: &Manifest) -> Result<ChainStep, Error> {
        let head = Head { round: manifest.round, digest: manifest.digest() };
        let Some(newest) = self.heads.last().copied() else {
            self.push(head);
            return Ok(ChainStep::First);
        };
        if head.round <= newest.round {
            return Err(match self.heads.iter().find(|known| known.round == head.round) {
                Some(known) if known.digest != head.digest => Error::Manifest(FORK),
                _ => Error::RoundReplayed(head.round),
            });
        }
        if manifest.previous == newest.digest {
            self.push(head);
            return Ok(ChainStep::Next);
        }
        if head.round == newest.round.next() {
            return Err(Error::Manifest(FORK));
        }
        let after = self.gap.map_or(newest, |gap| gap.after);
        self.gap = Some(Gap { after, before: Head { round: head.round, digest: manifest.previous } });
        self.push(head);
        Ok(ChainStep::Gap { missing_from: newest.round.next(), missing_to: head.round.back(1) })
    }

    /// Rounds whose manifests are missing, first and last, if the newest one came after a gap.
    #[must_use]
    pub fn missing(&self) -> Option<(Round, Round)> {
        self.gap.map(|gap| (gap.after.round.next(), gap.before.round.back(1)))
    }

    /// Closes the gap, or its front part, with the manifests missing, ascending by round. Those of rounds outside the
    /// gap are passed over.
    ///
    /// # Errors
    /// [`Error::Manifest`] if they do not link the manifests on both sides of the gap; [`Error::Unknown`] if the first
    /// that are missing are not among them, since the server keeps manifests for a limited time. The gap is then given
    /// up with all that was remembered from before its end, so that it is reported once.
    pub fn fill_gap(&mut self, manifests: &[Manifest]) -> Result<(), Error> {
        let Some(gap) = self.gap.take() else { return Ok(()) };
        let filled = self.fill(gap, manifests);
        if filled.is_err() {
            self.heads.retain(|head| head.round >= gap.before.round);
        }
        filled
    }

    fn fill(&mut self, mut gap: Gap, manifests: &[Manifest]) -> Result<(), Error> {
        let missing = gap.after.round.next()..gap.before.round;
        let mut supplied = manifests.iter().filter(|manifest| missing.contains(&manifest.round)).peekable();
        let begins = |first: &&Manifest| first.previous == gap.after.digest || first.round == missing.start;
        if !supplied.peek().is_some_and(begins) {
            return Err(Error::Unknown(Unknown::Manifests));
        }
        for manifest in supplied {
            let head = Head { round: manifest.round, digest: manifest.digest() };
            let place = self.heads.binary_search_by_key(&head.round, |known| known.round);
            let known = place.ok().and_then(|place| self.heads.get(place));
            if manifest.previous != gap.after.digest || known.is_some_and(|known| known.digest != head.digest)
            {
                return Err(Error::Manifest(FORK));
            }
            if let Err(place) = place {
                self.heads.insert(place, head);
            }
            gap.after = head;
        }
        self.forget_oldest();
        if gap.after.digest == gap.before.digest {
            return Ok(());
        }
        if gap.after.round.next() == gap.before.round {
            return Err(Error::Manifest(FORK));
        }
        self.gap = Some(gap);
        Ok(())
    }

    /// Whether a head that somebody else has verified belongs to another history than this one: another manifest for a
    /// round, or any manifest for a round that has none in a part of the history remembered without gaps.
    #[must_use]
    pub fn contradicts(&self, round: Round, head_prefix: [u8; HEAD_PREFIX_BYTES]) -> bool {
        let remembered = self.heads.first().zip(self.heads.last());
        let within =
            remembered.is_some_and(|(oldest, newest)| (oldest.round..=newest.round).contains(&round));
        match self.prefix_of(round) {
            Some(known) => known != head_prefix,
            None => within && self.gap.is_none(),
        }
    }

    /// The prefix of a round's head, if that round is among the newest [`HEADS_KEPT`].
    #[must_use]
    pub fn prefix_of(&self, round: Round) -> Option<[u8; HEAD_PREFIX_BYTES]> {
        self.heads.iter().find(|head| head.round == round).map(|head| prefix(&head.digest))
    }

    /// The newest round and the prefix of its head.
    #[must_use]
    pub fn newest(&self) -> Option<(Round, [u8; HEAD_PREFIX_BYTES])> {
        self.heads.last().map(|head| (head.round, prefix(&head.digest)))
    }

    fn push(&mut self, head: Head) {
        self.heads.push(head);
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        self.heads.drain(..self.heads.len().saturating_sub(HEADS_KEPT));
    }
}

const FORK: ManifestError = ManifestError::Fork;
