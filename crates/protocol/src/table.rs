//! The table of a round whose boxes are found by slots: what lies where.
//!
//! Every account has a *slot* of its own for as long as it exists, and its contacts know its number, so that nothing needs
//! to be downloaded to find a box. Who meets for the first time knows no number. For that every deposit has a *knock* of 12
//! bytes beside its box: the first bytes of a label, into which somebody who wants to be found writes the number of its slot.
//! To all others it is random, like the knock of somebody who wants nothing.
//!
//! ```text
//! a table of u lots    = 32 u places for slots, then u places for knocks of 36 cells each: n = 33 u places
//! place of slot s      = s
//! cell of a label      = (first 4 bytes of the label, u32 LE) mod 36 u, from the place 32 u on
//! content of a cell    = bytes 4 to 11 of the label, XORed with (slot + 1, u32 LE | 4 zeros) if it is to be found there
//! ```

use sha2::{Digest, Sha256};

use crate::deposit::{BOX_BYTES, SELECTOR_BYTES};
use crate::{Deposit, Label};

const CONTEST_DOMAIN: &[u8] = b"sotto/table/v1/contest\0";

/// Slots for one place with knocks. A server hands slots out by lots, so that what it stores does not tell who has which.
pub const LOT_SLOTS: u32 = 32;
/// Places of the table for one lot.
const LOT_PLACES: u32 = LOT_SLOTS + 1;
/// Bytes of a knock: which cell, and what is to stand there.
pub const KNOCK_BYTES: usize = CELL_AT + CELL_BYTES;
/// Bytes that an account sends with its slot: knock and box.
pub const SENT_BYTES: usize = KNOCK_BYTES + BOX_BYTES;

const CELL_AT: usize = SELECTOR_BYTES;
const CELL_BYTES: usize = 8;
/// Cells of a place.
const CELLS: u32 = (BOX_BYTES / CELL_BYTES) as u32;

/// As what a server stores an account's deposit, in the place of a label: the number of its slot, and its knock.
#[must_use]
pub fn stored(slot: u32, knock: &[u8; KNOCK_BYTES]) -> Label {
    let mut key = Label([0; 16]);
    let (number, rest) = key.0.split_at_mut(4);
    number.copy_from_slice(&slot.to_le_bytes());
    rest.copy_from_slice(knock);
    key
}

/// A label that tells where somebody is found, to whoever expects it.
pub(crate) fn telling(label: &Label, slot: u32) -> Label {
    let mut telling = *label;
    // No server has so many slots that this overflows.
    let number = slot.wrapping_add(1).to_le_bytes();
    telling.0[CELL_AT..].iter_mut().zip(number).for_each(|(byte, of_number)| *byte ^= of_number);
    telling
}

/// The slot that the content of a label's cell tells. Anything else than what was written for this label tells one with a
/// probability of 2^-32.
pub(crate) fn told(label: &Label, cell: &[u8]) -> Option<u32> {
    let pad = &label.0[CELL_AT..KNOCK_BYTES];
    let content: [u8; CELL_BYTES] = cell.try_into().ok()?;
    let content: [u8; CELL_BYTES] = core::array::from_fn(|at| content[at] ^ pad[at]);
    let (number, zeros) = content.split_at(4);
    let number = u32::from_le_bytes(number.try_into().ok()?);
    if zeros == [0; 4] { number.checked_sub(1) } else { None }
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

    /// The table with so many places, if there is one: of a size that [`Table::holding`] gives. Where boxes lie depends on it,
    /// so a server must not have more sizes to choose from than it needs.
    #[must_use]
    pub fn of_places(places: u64) -> Option<Self> {
        let lots = u32::try_from(places / u64::from(LOT_PLACES)).ok()?;
        // Of a size that is none the next one has more places.
        Self::holding(lots).filter(|table| u64::from(table.places()) == places)
    }

    /// The number n of places, with slots and with knocks.
    #[must_use]
    pub const fn places(self) -> u32 {
        self.lots * LOT_PLACES
    }

    /// The number of slots.
    #[must_use]
    pub const fn slots(self) -> u32 {
        self.lots * LOT_SLOTS
    }

    /// The place of a slot, if the table has it.
    #[must_use]
    pub fn place(self, slot: u32) -> Option<u32> {
        (slot < self.slots()).then_some(slot)
    }

    /// The place of the cell of a label, and where in it the cell is.
    #[must_use]
    pub fn cell(self, label: &Label) -> (u32, core::ops::Range<usize>) {
        let selector = u32::from_le_bytes(label.selector());
        let cell = selector % (self.lots * CELLS);
        let at = (cell % CELLS) as usize * CELL_BYTES;
        (self.slots() + cell / CELLS, at..at + CELL_BYTES)
    }

    /// Where a round's deposits, which are [`stored`] under slot and knock, come to lie. Of several boxes for one slot, and of
    /// several knocks for one cell, that one stays of which the hash with the round seed is the least: nobody who deposits
    /// knows the seed. One whose slot the table does not have is left out.
    #[must_use]
    pub fn lay<'a>(self, deposits: &'a [Deposit], round_seed: &[u8; 32]) -> Laid<'a> {
        let mut laid = Laid {
            table: self,
            slots: vec![None; self.slots() as usize],
            cells: vec![None; (self.lots * CELLS) as usize],
        };
        for deposit in deposits {
            let Some(slot) = laid.slots.get_mut(slot_of(deposit) as usize) else { continue };
            contest(slot, deposit, round_seed);
            let (place, at) = self.cell(&knock_of(deposit));
            let cell = (place - self.slots()) as usize * CELLS as usize + at.start / CELL_BYTES;
            if let Some(cell) = laid.cells.get_mut(cell) {
                contest(cell, deposit, round_seed);
            }
        }
        laid
    }
}

/// What lies in a table.
pub struct Laid<'a> {
    table: Table,
    /// Whose box lies in a slot.
    slots: Vec<Option<&'a Deposit>>,
    /// Whose knock stands in a cell, all cells of all places one after the other.
    cells: Vec<Option<&'a Deposit>>,
}

impl Laid<'_> {
    /// Writes what lies in a place; where nothing was deposited, what `cover` writes.
    pub fn fill(&self, place: u32, bytes: &mut [u8; BOX_BYTES], cover: impl FnOnce(&mut [u8; BOX_BYTES])) {
        if let Some(slot) = self.slots.get(place as usize) {
            match slot {
                Some(deposit) => *bytes = deposit.sealed.0,
                None => cover(bytes),
            }
            return;
        }
        cover(bytes);
        let first = place.saturating_sub(self.table.slots()) as usize * CELLS as usize;
        let cells = self.cells.get(first..).unwrap_or_default();
        let (contents, _) = bytes.as_chunks_mut::<CELL_BYTES>();
        for (content, cell) in contents.iter_mut().zip(cells) {
            if let Some(deposit) = cell {
                let knock = knock_of(deposit);
                content.copy_from_slice(&knock.0[CELL_AT..KNOCK_BYTES]);
            }
        }
    }

    /// Writes what was deposited over what stands in all places.
    pub fn fill_all(&self, boxes: &mut [u8]) {
        let (boxes, _) = boxes.as_chunks_mut::<BOX_BYTES>();
        for (place, bytes) in (0..self.table.places()).zip(boxes) {
            self.fill(place, bytes, |_| {});
        }
    }
}

/// The slot of a deposit that is [`stored`].
#[must_use]
pub fn slot_of(deposit: &Deposit) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|at| deposit.label.0[at]))
}

/// The knock, in the place of a label.
fn knock_of(deposit: &Deposit) -> Label {
    Label(core::array::from_fn(|at| deposit.label.0.get(4 + at).copied().unwrap_or_default()))
}

/// One more deposit for a place, of which one stays: that with the least hash or, where slot and knock are the same, and so the
/// hash, that with the least box.
fn contest<'a>(place: &mut Option<&'a Deposit>, deposit: &'a Deposit, round_seed: &[u8; 32]) {
    let rank = |deposit: &Deposit| -> [u8; 32] {
        let digest = Sha256::new_with_prefix(CONTEST_DOMAIN).chain_update(round_seed);
        digest.chain_update(deposit.label.0).finalize().into()
    };
    let wins = place.is_none_or(|other| {
        rank(deposit).cmp(&rank(other)).then_with(|| deposit.sealed.0.cmp(&other.sealed.0)).is_lt()
    });
    if wins {
        *place = Some(deposit);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{KNOCK_BYTES, Table, stored, telling, told};
    use crate::deposit::BOX_BYTES;
    use crate::{Deposit, Label, SealedBox};

    /// Two boxes in one place would lose one of them.
    #[test]
    fn every_slot_has_a_place_of_its_own_and_no_cell_shares_it() {
        let table = Table::holding(3).unwrap();
        assert_eq!((table.slots(), table.places()), (96, 99));
        let places: BTreeSet<u32> = (0..96).filter_map(|slot| table.place(slot)).collect();
        assert_eq!(places.len(), 96);
        assert_eq!(table.place(96), None);
        let mut cells = BTreeSet::new();
        for selector in 0..108_u32 {
            let mut label = Label([7; 16]);
            label.0[..4].copy_from_slice(&selector.to_le_bytes());
            let (place, at) = table.cell(&label);
            assert!((96..99).contains(&place) && at.end <= BOX_BYTES && at.len() == 8);
            cells.insert((place, at.start));
        }
        assert_eq!(cells.len(), 108);
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
        // A server has no more sizes to choose from than it needs: eight in an octave.
        let sizes =
            (1..=Table::LOTS_MAX).filter(|lots| Table::of_places((lots * 33).into()).is_some()).count();
        assert_eq!(sizes, 135);
        for places in [0, 1, 32, 34, 17 * 33, 1 << 24, (1 << 24) / 33 * 33 + 33, 33 << 31, u64::MAX] {
            assert_eq!(Table::of_places(places), None);
        }
    }

    /// What somebody reads from a cell that was written for another would lead it to a wrong slot.
    #[test]
    fn a_knock_tells_a_slot_to_whom_it_is_for_and_to_nobody_else() {
        let label = Label(core::array::from_fn(|at| at as u8 ^ 0x5a));
        for slot in [0, 1, 77, u32::MAX - 1] {
            let telling = telling(&label, slot);
            assert_eq!(telling.0[..4], label.0[..4], "it stands in the label's own cell");
            assert_eq!(told(&label, &telling.0[4..KNOCK_BYTES]), Some(slot));
            let mut other = label;
            other.0[9] ^= 1;
            assert_eq!(told(&other, &telling.0[4..KNOCK_BYTES]), None);
        }
        // The label itself, which others use as their knock, tells nothing.
        assert_eq!(told(&label, &label.0[4..KNOCK_BYTES]), None);
        for length in [0, 7, 9] {
            assert_eq!(told(&label, &vec![0; length]), None);
        }
    }

    fn deposit(slot: u32, knock: u8, content: u8) -> Deposit {
        Deposit { label: stored(slot, &[knock; KNOCK_BYTES]), sealed: SealedBox([content; BOX_BYTES]) }
    }

    #[test]
    fn boxes_and_knocks_come_to_lie_where_they_are_looked_for() {
        let table = Table::holding(2).unwrap();
        let empty: Vec<u8> = (0..table.places() as usize * BOX_BYTES).map(|at| (at % 251) as u8).collect();
        let mut boxes = empty.clone();
        let deposits = [deposit(5, 1, 10), deposit(63, 2, 20), deposit(64, 3, 30)];
        table.lay(&deposits, &[9; 32]).fill_all(&mut boxes);
        let mut expected = empty;
        expected[5 * BOX_BYTES..6 * BOX_BYTES].fill(10);
        expected[63 * BOX_BYTES..64 * BOX_BYTES].fill(20);
        for knock in [1, 2] {
            let (place, at) = table.cell(&Label([knock; 16]));
            let place = place as usize * BOX_BYTES;
            expected[place + at.start..place + at.end].fill(knock);
        }
        assert!(boxes == expected, "nothing else changes, and a slot beyond the table is none");
    }

    /// Whoever could choose which of several stays would keep somebody from ever being heard.
    #[test]
    fn of_several_for_one_place_the_seed_decides() {
        let table = Table::holding(1).unwrap();
        let (mut slots, mut cells) = ([0; 4], [0; 4]);
        for seed in 0..200 {
            // The knocks are for one cell: 36 is that of all multiples of 36.
            let several: Vec<Deposit> = (0..4_u8)
                .map(|number| {
                    let mut knock = [number; KNOCK_BYTES];
                    knock[..4].copy_from_slice(&(36 * u32::from(number)).to_le_bytes());
                    Deposit { label: stored(3, &knock), sealed: SealedBox([number; BOX_BYTES]) }
                })
                .collect();
            let mut boxes = vec![0xff; table.places() as usize * BOX_BYTES];
            table.lay(&several, &[seed; 32]).fill_all(&mut boxes);
            let mut backwards = vec![0xff; boxes.len()];
            let reversed: Vec<Deposit> = several.iter().rev().cloned().collect();
            table.lay(&reversed, &[seed; 32]).fill_all(&mut backwards);
            assert!(boxes == backwards);
            slots[usize::from(boxes[3 * BOX_BYTES])] += 1;
            cells[usize::from(boxes[32 * BOX_BYTES])] += 1;
        }
        assert!(slots.iter().chain(&cells).all(|won| (25..80).contains(won)), "{slots:?} {cells:?}");
    }
}
