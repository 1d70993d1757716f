//! New chains for a group from which somebody has gone.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::Group;
use crate::secret::Secret;
use crate::{Error, Round, domain};

const BYTES: usize = 16 + 4 + 8 + 1 + 32;
/// Rekeys kept that came before the one they follow.
const EARLY_MAX: usize = 8;
/// Rounds by which the author of a rekey may be ahead.
const AHEAD_MAX: u64 = 16;

/// A fresh secret for the members that remain.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Rekey {
    pub(crate) group: [u8; 16],
    pub(crate) epoch: u32,
    pub(crate) start: Round,
    pub(crate) removed: u8,
    pub(crate) fresh: Secret,
}

impl Rekey {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(BYTES));
        bytes.extend(self.group);
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.start.0.to_le_bytes());
        bytes.push(self.removed);
        bytes.extend(self.fresh.bytes());
        bytes
    }

    /// # Errors
    /// [`Error::Malformed`] for another size.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| Error::Malformed("rekey"))?;
        Ok(Self {
            group: core::array::from_fn(|i| bytes[i]),
            epoch: u32::from_le_bytes(core::array::from_fn(|i| bytes[16 + i])),
            start: Round(u64::from_le_bytes(core::array::from_fn(|i| bytes[20 + i]))),
            removed: bytes[28],
            fresh: Secret::new(core::array::from_fn(|i| bytes[29 + i])),
        })
    }
}

/// What the next rekey replaced.
#[derive(Serialize, Deserialize)]
pub(super) struct Replaced {
    base: Secret,
    author: u8,
    removed: u8,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Early {
    author: u8,
    rekey: Rekey,
}

/// What became of a rekey; nothing, if it says nothing new or comes before the one it follows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rekeyed {
    /// The members removed by it and by those that waited for it, unless they had gone before.
    pub(crate) removed: Vec<u8>,
    /// It replaced one of this client's, who must remove this member anew.
    pub(crate) again: Option<u8>,
}

impl Group {
    /// The rekey by which this client would remove a member.
    pub(crate) fn propose(&self, removed: u8, fresh: Secret, next: Round) -> Result<Rekey, Error> {
        let epoch = self.epoch.checked_add(1).ok_or(Error::Input("this group has used up its epochs"))?;
        Ok(Rekey { group: self.id, epoch, start: next, removed, fresh })
    }

    /// Takes a rekey whose author was authenticated.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no honest member writes it.
    pub(crate) fn apply(&mut self, author: u8, rekey: Rekey, next: Round) -> Result<Rekeyed, Error> {
        let known = |number: u8| self.members.get(usize::from(number));
        let plausible = known(author).is_some_and(|peer| peer.present)
            && known(rekey.removed).is_some()
            && rekey.removed != author
            && rekey.removed != self.me
            && rekey.start.0 <= next.0.saturating_add(AHEAD_MAX);
        if !plausible || rekey.group != self.id {
            return Err(Error::Malformed("rekey"));
        }
        if rekey.epoch > self.epoch.saturating_add(1) {
            if self.early.len() < EARLY_MAX {
                self.early.push(Early { author, rekey });
            }
            return Ok(Rekeyed::default());
        }

        let outranked = match &self.previous {
            Some(replaced) if rekey.epoch == self.epoch && author < replaced.author => {
                Some((replaced.base.clone(), replaced.author, replaced.removed))
            }
            _ if rekey.epoch == self.epoch.saturating_add(1) => None,
            _ => return Ok(Rekeyed::default()),
        };
        let base = outranked.as_ref().map_or_else(|| self.base.clone(), |(base, _, _)| base.clone());
        let mut removed = self.switch(author, &rekey, base, next)?;
        let again = outranked.filter(|(_, other, again)| *other == self.me && *again != rekey.removed);

        let follower =
            self.early.iter().position(|early| Some(early.rekey.epoch) == self.epoch.checked_add(1));
        if let Some(Early { author, rekey }) = follower.map(|place| self.early.remove(place))
            && let Ok(more) = self.apply(author, rekey, next)
        {
            removed.extend(more.removed);
        }
        Ok(Rekeyed { removed, again: again.map(|(_, _, again)| again) })
    }

    fn switch(&mut self, author: u8, rekey: &Rekey, base: Secret, next: Round) -> Result<Vec<u8>, Error> {
        let secret = Secret::extract(domain::GROUP_REKEY, [&base, &rekey.fresh]);
        let was_present = self.members.get(usize::from(rekey.removed)).is_some_and(|peer| peer.present);
        self.start_epoch(rekey.epoch, &secret, rekey.start, next)?;
        self.mark_gone(rekey.removed);
        self.previous = Some(Replaced { base, author, removed: rekey.removed });
        Ok(was_present.then_some(rekey.removed).into_iter().collect())
    }
}
