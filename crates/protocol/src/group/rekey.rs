//! What members hand each other outside the group's own boxes: new keys, and farewells of others.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

use super::keys::bit;
use crate::error::Malformed;
use crate::message::{ECHO_BYTES, FAREWELL_BYTES, FORWARDED_FAREWELL_BYTES};
use crate::secret::Secret;
use crate::{Error, Round, domain};

const BYTES: usize = 16 + 4 + 8 + 1 + 32;
/// Bits of an epoch below the number of the member whose keys it has: of the round in which they were made.
const AUTHOR_SHIFT: u32 = 29;
const ROUNDS: u32 = (1 << AUTHOR_SHIFT) - 1;
/// The epoch of the card's keys, and of what asks for newer ones.
const CARD: u32 = 0;

/// A fresh secret for all members but those excluded; of zeros for one who is.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rekey {
    pub(crate) group: [u8; 16],
    pub(crate) epoch: u32,
    pub(crate) start: Round,
    /// Members without the new keys, as bits by number.
    pub(crate) excluded: u8,
    pub(crate) fresh: Secret,
}

impl Rekey {
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(BYTES));
        bytes.extend(self.group);
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.start.0.to_le_bytes());
        bytes.push(self.excluded);
        bytes.extend(self.fresh.bytes());
        bytes
    }

    /// # Errors
    /// [`Error::Malformed`] for another size.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| Error::Malformed(Malformed::Rekey))?;
        Ok(Self {
            group: core::array::from_fn(|i| bytes[i]),
            epoch: u32::from_le_bytes(core::array::from_fn(|i| bytes[16 + i])),
            start: Round(u64::from_le_bytes(core::array::from_fn(|i| bytes[20 + i]))),
            excluded: bytes[28],
            fresh: Secret::new(core::array::from_fn(|i| bytes[29 + i])),
        })
    }

    /// The same as a member is told it who is excluded.
    pub(crate) fn without_secret(&self) -> Self {
        Self { fresh: Secret::new([0; 32]), ..self.clone() }
    }

    /// What a member says who may have missed keys.
    pub(super) fn request(group: [u8; 16]) -> Self {
        Self { group, epoch: CARD, start: Round(0), excluded: 0, fresh: Secret::new([0; 32]) }
    }

    /// Whether a member does not get these keys.
    pub(crate) fn excludes(&self, member: u8) -> bool {
        self.excluded & bit(member) != 0
    }

    pub(super) fn is_request(&self) -> bool {
        self.epoch == CARD
    }
}

/// The epoch after the `newest`, whose chains start at a round, with keys that this author makes in another. Keys of a later
/// author come after all of an earlier one, and keys of a later round after those that an author has forgotten who has gone
/// back to an older state: only those of higher numbers take over. So the lower bits count rounds, since the card or since
/// the last keys of the author before, by each epoch from the one before: the numbers of a server's rounds may begin anywhere,
/// and no author uses up the numbers of another. There are none 2^29 rounds later, 34 years of two seconds.
pub(super) fn epoch_after((newest, start): (u32, Round), author: u8, round: Round) -> Option<u32> {
    let below_author = |number: &u32| number >> AUTHOR_SHIFT == 0;
    let passed = u32::try_from(round.0.saturating_sub(start.0)).ok().filter(below_author)?;
    let before = if author_of(newest) == author { newest & ROUNDS } else { 0 };
    // Both are below 2^29.
    let counted = Some(before + passed).filter(below_author)?;
    let next = newest.checked_add(1)?.max((u32::from(author) << AUTHOR_SHIFT) | counted);
    (author_of(next) == author).then_some(next)
}

/// By whom an epoch's keys are; those of epoch 0 are by the creator, on the card.
pub(super) fn author_of(epoch: u32) -> u8 {
    // The three highest bits.
    epoch.to_be_bytes()[0] >> (AUTHOR_SHIFT - 24)
}

/// A member's word that it leaves, which others can hand on.
#[derive(Clone)]
pub(crate) struct Farewell {
    pub(crate) group: [u8; 16],
    pub(crate) member: u8,
    pub(crate) signature: [u8; FAREWELL_BYTES],
}

impl Farewell {
    pub(crate) fn new(group: [u8; 16], member: u8, identity: &SigningKey) -> Self {
        let signature = identity.sign(&signed(&group, member)).to_bytes();
        Self { group, member, signature }
    }

    pub(super) fn is_by(&self, identity: &[u8; 32]) -> bool {
        let signed = signed(&self.group, self.member);
        VerifyingKey::from_bytes(identity)
            .is_ok_and(|key| key.verify_strict(&signed, &Signature::from_bytes(&self.signature)).is_ok())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        [self.group.as_slice(), &[self.member], &self.signature].concat()
    }

    /// # Errors
    /// [`Error::Malformed`] for another size.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let bytes: &[u8; FORWARDED_FAREWELL_BYTES] =
            bytes.try_into().map_err(|_| Error::Malformed(Malformed::Farewell))?;
        Ok(Self {
            group: core::array::from_fn(|i| bytes[i]),
            member: bytes[16],
            signature: core::array::from_fn(|i| bytes[17 + i]),
        })
    }
}

fn signed(group: &[u8; 16], member: u8) -> Vec<u8> {
    [domain::GROUP_FAREWELL.as_bytes(), &[0], group, &[member]].concat()
}

/// Which new keys a member was given, as it tells all others under the present ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Echo {
    pub(super) epoch: u32,
    pub(super) mark: [u8; 32],
}

impl Echo {
    pub(super) fn encode(&self) -> Vec<u8> {
        [self.epoch.to_le_bytes().as_slice(), &self.mark].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ECHO_BYTES] = bytes.try_into().ok()?;
        Some(Self {
            epoch: u32::from_le_bytes(core::array::from_fn(|i| bytes[i])),
            mark: core::array::from_fn(|i| bytes[4 + i]),
        })
    }
}
