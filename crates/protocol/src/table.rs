//! The table of a round whose boxes are found by slots: what lies where, and whose turn it is to lay something where.
//!
//! Every account has a *slot* of its own for as long as it exists, and its contacts know its number, so that nothing needs
//! to be downloaded to find a box. Who meets for the first time knows no number. For that the table has a few *drops*, which
//! belong to nobody: in one round of [`DROP_TURN_ROUNDS`], which its slot decides, an account lays its box not into the slot
//! but into a drop that follows from the box's label.
//!
//! ```text
//! a table of u lots     = 32 u slots, then u drops: n = 33 u places
//! index of slot s       = s
//! index of a label      = 32 u + (first 4 bytes of the label, u32 LE) mod u
//! ```

use sha2::{Digest, Sha256};

use crate::deposit::BOX_BYTES;
use crate::{Deposit, Label, Round};

const CONTEST_DOMAIN: &[u8] = b"sotto/table/v1/contest\0";

/// Slots for one drop. A server hands slots out by lots, so that what it stores does not tell who has which.
pub const LOT_SLOTS: u32 = 32;
/// Places of the table for one lot.
const LOT_PLACES: u32 = LOT_SLOTS + 1;
/// In one of so many rounds an account lays its box into a drop.
pub const DROP_TURN_ROUNDS: u64 = 32;
/// Bytes of a label that tell its drop.
pub const DROP_BYTES: usize = 4;

/// Where a box lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// In an account's slot of this number.
    Slot(u32),
    /// In the drop of labels that begin with these bytes.
    Drop([u8; DROP_BYTES]),
}

// Beside an account or a contact it is metadata.
impl core::fmt::Debug for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Address(..)")
    }
}

impl Address {
    /// The drop of a label.
    #[must_use]
    pub fn drop_of(label: &Label) -> Self {
        Self::Drop(core::array::from_fn(|at| label.0[at]))
    }

    /// As what a server stores a box, in the place of a label: number or bytes of the label, kind (0 slot, 1 drop), zeros.
    #[must_use]
    pub fn key(self) -> Label {
        let mut key = Label([0; 16]);
        let (bytes, kind) = match self {
            Self::Slot(number) => (number.to_le_bytes(), 0),
            Self::Drop(bytes) => (bytes, 1),
        };
        key.0[..4].copy_from_slice(&bytes);
        key.0[4] = kind;
        key
    }

    /// What [`Address::key`] was made of; none for other labels.
    #[must_use]
    pub fn of_key(key: &Label) -> Option<Self> {
        let bytes = core::array::from_fn(|at| key.0[at]);
        let address = if key.0[4] == 0 { Self::Slot(u32::from_le_bytes(bytes)) } else { Self::Drop(bytes) };
        (address.key() == *key).then_some(address)
    }
}

/// Whether the account with this slot lays its box into a drop in this round. It follows from the slot, which contacts know,
/// and not from the account, which they do not.
#[must_use]
pub const fn is_drop_turn(slot: u32, round: Round) -> bool {
    (round.0 ^ slot as u64).is_multiple_of(DROP_TURN_ROUNDS)
}

/// The table of a round: how many lots it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    lots: u32,
}

impl Table {
    /// Most lots of a table: 2^24 places at most.
    pub const LOTS_MAX: u32 = (crate::manifest::ENTRIES_MAX / LOT_PLACES as u64) as u32;

    /// The table of a server that has given out so many lots. It has up to an eighth more, so that its size is the same for
    /// long and tells little of how many people there are; none for more than [`Table::LOTS_MAX`].
    #[must_use]
    pub fn holding(lots: u32) -> Option<Self> {
        let lots = lots.max(1);
        let step = 1 << lots.ilog2().saturating_sub(3);
        let lots = lots.checked_next_multiple_of(step)?;
        (lots <= Self::LOTS_MAX).then_some(Self { lots })
    }

    /// The table with so many places, if there is one.
    #[must_use]
    pub fn of_places(places: u64) -> Option<Self> {
        let lots = u32::try_from(places / u64::from(LOT_PLACES)).ok()?;
        let table = Self { lots };
        (lots > 0 && lots <= Self::LOTS_MAX && u64::from(table.places()) == places).then_some(table)
    }

    /// The number n of places, slots and drops.
    #[must_use]
    pub const fn places(self) -> u32 {
        self.lots * LOT_PLACES
    }

    /// The number of slots.
    #[must_use]
    pub const fn slots(self) -> u32 {
        self.lots * LOT_SLOTS
    }

    /// The place of what has this address; none for a slot that the table does not have.
    #[must_use]
    pub fn index(self, address: Address) -> Option<u32> {
        match address {
            Address::Slot(number) => (number < self.slots()).then_some(number),
            Address::Drop(bytes) => Some(self.slots() + u32::from_le_bytes(bytes) % self.lots),
        }
    }

    /// Lays a round's deposits, which stand under [keys of addresses](Address::key), into the boxes of all places. Of several
    /// for one place that with the least hash of round seed and box stays: nobody who deposits knows the seed. One whose
    /// place the table does not have is left out.
    pub fn lay(self, deposits: &[Deposit], round_seed: &[u8; 32], boxes: &mut [u8]) {
        let (boxes, _) = boxes.as_chunks_mut::<BOX_BYTES>();
        let rank = |deposit: &Deposit| -> [u8; 32] {
            let digest = Sha256::new_with_prefix(CONTEST_DOMAIN).chain_update(round_seed);
            digest.chain_update(deposit.sealed.0).finalize().into()
        };
        let place = |deposit: &Deposit| Address::of_key(&deposit.label).and_then(|key| self.index(key));
        let mut placed: Vec<(u32, &Deposit)> =
            deposits.iter().filter_map(|deposit| Some((place(deposit)?, deposit))).collect();
        placed.sort_unstable_by_key(|(place, _)| *place);
        for contest in placed.chunk_by(|(one, _), (other, _)| one == other) {
            let won = match contest {
                [only] => Some(only),
                several => several.iter().min_by_key(|(_, deposit)| rank(deposit)),
            };
            if let Some((place, deposit)) = won
                && let Some(sealed) = boxes.get_mut(*place as usize)
            {
                *sealed = deposit.sealed.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Address, DROP_TURN_ROUNDS, Table, is_drop_turn};
    use crate::{Label, Round};

    /// Two boxes in one place would lose one of them.
    #[test]
    fn every_slot_has_a_place_of_its_own_and_no_drop_shares_it() {
        let table = Table::holding(3).unwrap();
        assert_eq!((table.slots(), table.places()), (96, 99));
        let places: BTreeSet<u32> = (0..96).filter_map(|slot| table.index(Address::Slot(slot))).collect();
        assert_eq!(places.len(), 96);
        assert_eq!(table.index(Address::Slot(96)), None);
        let drops: BTreeSet<u32> =
            (0..100).filter_map(|first| table.index(Address::drop_of(&Label([first; 16])))).collect();
        assert_eq!(drops, BTreeSet::from([96, 97, 98]));
    }

    #[test]
    fn a_table_has_room_for_all_and_at_most_an_eighth_more() {
        for lots in (0..5_000).chain([8_192, 8_193, 262_145, Table::LOTS_MAX / 2]) {
            let table = Table::holding(lots).unwrap();
            assert!(table.slots() >= 32 * lots && table.slots() <= 36 * lots.max(1), "{lots}");
            assert_eq!(Table::of_places(table.places().into()), Some(table));
        }
        assert_eq!(Table::holding(8_192).unwrap().slots(), 1 << 18);
        assert_eq!(Table::holding(Table::LOTS_MAX + 1), None);
        assert_eq!(Table::holding(u32::MAX), None);
        for places in [0, 1, 32, 34, 1 << 24, (1 << 24) / 33 * 33 + 33, u64::MAX] {
            assert_eq!(Table::of_places(places), None);
        }
    }

    /// A server that stores one for the other would put somebody's box where another's is.
    #[test]
    fn what_is_stored_of_an_address_tells_it_and_nothing_else_does() {
        for address in
            [Address::Slot(0), Address::Slot(u32::MAX), Address::Drop([0; 4]), Address::Drop([9; 4])]
        {
            assert_eq!(Address::of_key(&address.key()), Some(address));
            for at in 4..16 {
                let mut other = address.key();
                other.0[at] ^= 2;
                assert_eq!(Address::of_key(&other), None);
            }
        }
    }

    /// In most rounds an account is heard in its slot, and accounts take turns.
    #[test]
    fn one_round_of_thirty_two_is_for_drops() {
        for slot in [0, 1, 31, 32, u32::MAX] {
            let turns = (0..10 * DROP_TURN_ROUNDS).filter(|round| is_drop_turn(slot, Round(*round)));
            assert_eq!(turns.count(), 10);
        }
        let slots = (0..32).filter(|slot| is_drop_turn(*slot, Round(1000)));
        assert_eq!(slots.count(), 1);
    }
}
