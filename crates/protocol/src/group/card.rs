//! What one person hands all members of a new group outside the system.

use core::fmt;
use core::str::FromStr;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::error::InputError;
use crate::message::MEMBERS_MAX;
use crate::name::is_name_of_others;
use crate::secret::Secret;
use crate::{Error, Round, UnixMillis, armour};

/// Most bytes of a member's or a group's name.
pub(crate) const MEMBER_NAME_MAX: usize = 16;

const PREFIX: &str = "sotto-group-1-";
/// With the slots of members.
const PREFIX_SLOTS: &str = "sotto-group-2-";
const FIXED_BYTES: usize = 8 + 16 + 32 + 8 + 8 + MEMBER_NAME_MAX + 1;
const MEMBER_BYTES: usize = MEMBER_NAME_MAX + 32;
const SLOT_BYTES: usize = 4;

/// A group: its members, the first of them its creator, and the secret from which their first chains are made. Whoever
/// holds it can read what the group says until it has keys that no card gives, so it travels on a way that only members
/// read, and is taken for 2^19 rounds only.
///
/// As a string it is `sotto-group-1-` and, in lower-case base32 without padding, these bytes (integers little-endian,
/// names in UTF-8 padded with zeros) and a checksum as for an [`crate::Invitation`]:
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | first bytes of SHA-256 of the root key of the server, or of one of its manifest keys |
/// | 8 | 16 | group id |
/// | 24 | 32 | secret |
/// | 56 | 8 | round at which the chains start |
/// | 64 | 8 | when that round was open, milliseconds since the Unix epoch |
/// | 72 | 16 | name of the group |
/// | 88 | 1 | number of members, 2 to 8 |
/// | 89 | 48 each | name, 16 bytes, and Ed25519 identity key, 32 bytes, of each member |
///
/// On a server with slots it is `sotto-group-2-`, and behind the last member stands the slot of each, 4 bytes.
#[derive(Clone)]
pub struct GroupCard {
    pub(crate) server: [u8; 8],
    pub(crate) id: [u8; 16],
    pub(crate) secret: Secret,
    pub(crate) start: Round,
    pub(crate) time: UnixMillis,
    pub(crate) name: String,
    pub(crate) members: Vec<(String, [u8; 32])>,
    /// Those of the members, in their order; none on a server without slots.
    pub(crate) slots: Vec<u32>,
}

impl GroupCard {
    /// # Errors
    /// [`Error::Input`] if a name or the number of members breaks a limit, or one is there twice.
    pub(crate) fn new(
        server: [u8; 8],
        name: &str,
        (members, slots): (Vec<(String, [u8; 32])>, Vec<u32>),
        (start, time): (Round, UnixMillis),
        rng: &mut impl CryptoRng,
    ) -> Result<Self, Error> {
        let mut id = [0; 16];
        rng.fill_bytes(&mut id);
        let secret = Secret::random(rng);
        let card = Self { server, id, secret, start, time, name: name.to_owned(), members, slots };
        card.check()?;
        Ok(card)
    }

    /// The group's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names and identity keys of the members.
    #[must_use]
    pub fn members(&self) -> &[(String, [u8; 32])] {
        &self.members
    }

    fn check(&self) -> Result<(), Error> {
        if self.members.len() < 2 || self.members.len() > MEMBERS_MAX {
            return Err(Error::Input(InputError::MemberCount));
        }
        let names = || self.members.iter().map(|(name, _)| name);
        if !names().chain([&self.name]).all(|name| is_name_of_others(name, MEMBER_NAME_MAX)) {
            return Err(Error::Input(InputError::MemberName));
        }
        let mut distinct: Vec<_> = names().collect();
        let mut keys: Vec<_> = self.members.iter().map(|(_, key)| key).collect();
        distinct.sort_unstable();
        distinct.dedup();
        keys.sort_unstable();
        keys.dedup();
        if distinct.len() != self.members.len() || keys.len() != self.members.len() {
            return Err(Error::Input(InputError::MemberTwice));
        }
        Ok(())
    }
}

/// The whole secret string: to be shown to members, and to nobody else.
impl fmt::Display for GroupCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes =
            Zeroizing::new(Vec::with_capacity(FIXED_BYTES + MEMBERS_MAX * (MEMBER_BYTES + SLOT_BYTES)));
        bytes.extend(self.server);
        bytes.extend(self.id);
        bytes.extend(self.secret.bytes());
        bytes.extend(self.start.0.to_le_bytes());
        bytes.extend(self.time.0.to_le_bytes());
        bytes.extend(padded(&self.name));
        // At most 8, by the construction of a card.
        bytes.push(self.members.len() as u8);
        for (name, identity) in &self.members {
            bytes.extend(padded(name));
            bytes.extend(identity);
        }
        bytes.extend(self.slots.iter().flat_map(|slot| slot.to_le_bytes()));
        f.write_str(&armour::encode(if self.slots.is_empty() { PREFIX } else { PREFIX_SLOTS }, &bytes))
    }
}

impl FromStr for GroupCard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let before = text.trim_start().get(..PREFIX_SLOTS.len());
        let has_slots = before.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX_SLOTS));
        let prefix = if has_slots { PREFIX_SLOTS } else { PREFIX };
        let bytes = armour::decode(prefix, text, InputError::NoCard, InputError::CardMistyped)?;
        let mistyped = || Error::Input(InputError::CardMistyped);
        let (fixed, rest) = bytes.split_first_chunk::<FIXED_BYTES>().ok_or_else(mistyped)?;
        let count = usize::from(fixed[88]);
        let (members, slots) = rest.split_at_checked(count * MEMBER_BYTES).ok_or_else(mistyped)?;
        let (members, _) = members.as_chunks::<MEMBER_BYTES>();
        let (slots, excess) = slots.as_chunks::<SLOT_BYTES>();
        if !excess.is_empty() || slots.len() != if has_slots { count } else { 0 } {
            return Err(mistyped());
        }
        let member = |bytes: &[u8; MEMBER_BYTES]| {
            let (name, identity) = bytes.split_at(MEMBER_NAME_MAX);
            Some((unpadded(name)?, identity.try_into().ok()?))
        };
        let card = Self {
            server: core::array::from_fn(|i| fixed[i]),
            id: core::array::from_fn(|i| fixed[8 + i]),
            secret: Secret::new(core::array::from_fn(|i| fixed[24 + i])),
            start: Round(u64::from_le_bytes(core::array::from_fn(|i| fixed[56 + i]))),
            time: UnixMillis(u64::from_le_bytes(core::array::from_fn(|i| fixed[64 + i]))),
            name: unpadded(&fixed[72..88]).ok_or_else(mistyped)?,
            members: members.iter().map(member).collect::<Option<_>>().ok_or_else(mistyped)?,
            slots: slots.iter().map(|slot| u32::from_le_bytes(*slot)).collect(),
        };
        card.check()?;
        Ok(card)
    }
}

fn padded(name: &str) -> [u8; MEMBER_NAME_MAX] {
    let mut bytes = [0; MEMBER_NAME_MAX];
    for (place, byte) in bytes.iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    bytes
}

fn unpadded(bytes: &[u8]) -> Option<String> {
    let length = bytes.iter().rposition(|byte| *byte != 0)? + 1;
    String::from_utf8(bytes[..length].to_vec()).ok()
}

impl fmt::Debug for GroupCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupCard(..)")
    }
}
