//! Slots of accounts: who gets which, and by what its holder shows that it is its own.
//!
//! Nothing is stored of who has which slot. The log counts *lots* of 32 slots; those of a lot are handed out in an order that
//! this process draws and forgets, so that whoever reads the disk knows of an account at most from which lot its slot may be.
//! An account shows its slot with 16 bytes of HMAC-SHA-256 over a domain, the account and the number, under the slot key.
//! What is left of a lot when the process ends is not handed out any more. Nor is what an account was given that never heard the
//! answer: nobody knows it then, and the account gets another one.
//!
//! A slot is *had* by one account after the other, in *tenures*. When an account is closed, its slot waits in the memory of the
//! process that leads for one whole epoch of rounds at least, so that nothing is left of it in any round that can be retrieved,
//! and until there are 32 such: then the log says that these are vacant, and their next tenures go to newcomers, 32 at a time
//! as a lot does. So no entry of the log names one account and its slot; what an older copy of it tells is in docs/SECURITY.md.

use std::collections::{BTreeMap, BTreeSet};

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use sotto_protocol::server::Account;
use sotto_protocol::table::LOT_SLOTS;
use sotto_protocol::{OwnSlot, Round};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::host::{Host, NoRandomness};

const DOMAIN: &[u8] = b"sotto v1 slot credential";
const LATER_DOMAIN: &[u8] = b"sotto v1 slot credential of a later tenure";

/// When slots that were given back are somebody else's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacancy {
    /// Where an epoch of so many rounds begins.
    pub(crate) epoch_rounds: u64,
    /// So many at a time, at least.
    pub(crate) slots: usize,
}

impl Default for Vacancy {
    /// Almost three days of rounds of a minute, and a lot.
    fn default() -> Self {
        Self { epoch_rounds: 4096, slots: LOT_SLOTS as usize }
    }
}

/// A slot, and how many accounts have given it back before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tenure {
    pub(crate) slot: u32,
    pub(crate) number: u32,
}

impl Tenure {
    /// Of a slot that nobody had before.
    pub(crate) const fn first(slot: u32) -> Self {
        Self { slot, number: 0 }
    }

    pub(crate) const fn next(self) -> Self {
        Self { slot: self.slot, number: self.number.saturating_add(1) }
    }
}

/// The key of the credentials of one server's slots.
pub(crate) struct SlotKey(Zeroizing<[u8; 32]>);

impl SlotKey {
    pub(crate) fn new(seed: Zeroizing<[u8; 32]>) -> Self {
        Self(seed)
    }

    /// What an account is given with its slot: of a later tenure than the first, its number and 12 bytes.
    pub(crate) fn credential(&self, account: &Account, tenure: Tenure) -> OwnSlot {
        let domain = if tenure.number == 0 { DOMAIN } else { LATER_DOMAIN };
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice()).expect("a key of HMAC has any size");
        let mac = mac.chain_update(domain).chain_update(account).chain_update(tenure.slot.to_le_bytes());
        let number = tenure.number.to_le_bytes();
        let mac = if tenure.number == 0 { mac } else { mac.chain_update(number) };
        let tag = mac.finalize().into_bytes();
        let credential = match tenure.number {
            0 => core::array::from_fn(|at| tag[at]),
            _ => core::array::from_fn(|at| if at < 4 { number[at] } else { tag[at - 4] }),
        };
        OwnSlot { number: tenure.slot, credential }
    }

    /// The tenure that this is, if it is one of the account's own.
    pub(crate) fn tenure(&self, account: &Account, shown: &OwnSlot) -> Option<Tenure> {
        let later = u32::from_le_bytes(core::array::from_fn(|at| shown.credential[at]));
        [0, later]
            .into_iter()
            .map(|number| Tenure { slot: shown.number, number })
            .find(|tenure| self.credential(account, *tenure).credential.ct_eq(&shown.credential).into())
    }
}

/// Of the slots that there are, one in so many may be given to accounts that are known: they had one before, and whoever could ask for
/// another one at will would take up the table.
const SLOTS_PER_OTHER: u32 = 16;

/// The slots that a process hands out.
#[derive(Default)]
pub(crate) struct SlotPool {
    /// Lots that have been begun, by this process or before.
    lots: u32,
    /// No more are begun.
    most: u32,
    vacancy: Vacancy,
    /// What is left of the newest, in the order in which it is handed out.
    left: Vec<Tenure>,
    /// Vacant ones that were begun as a lot is, and may not be stored as such: of each slot one.
    begun: BTreeMap<u32, u32>,
    /// What was shown to a server that was brought back from a backup, and is not stored yet.
    shown: BTreeMap<u32, u32>,
    /// Slots whose accounts have not shown them yet: whoever did not hear the answer gets the same again.
    unheard: BTreeMap<Account, Unheard>,
    /// Known accounts that were given another slot, each once.
    others: BTreeSet<Account>,
    /// Slots of accounts that were closed, each with the number of the tenure and the epoch in which that was.
    closed: BTreeMap<u32, (u32, u64)>,
    /// Those of them that are being written down as vacant, and nobody's meanwhile.
    vacating: BTreeMap<u32, u32>,
    /// The round in which the log came to say so: who had a slot before may have laid a box there.
    vacated_in: Option<Round>,
    /// That of the newest round.
    epoch: u64,
}

struct Unheard {
    tenure: Tenure,
    /// With its lot, so that nobody else is given this slot, whoever leads.
    is_stored: bool,
}

impl SlotPool {
    /// Goes on behind so many lots, up to at most so many.
    pub(crate) fn behind(lots: u32, most: u32, vacancy: Vacancy) -> Self {
        Self { lots, most, vacancy, ..Self::default() }
    }

    /// Goes on behind so many lots, as others may have begun them, or that which is not stored: what was given of it is nobody's. What
    /// was closed before may be somebody's again, and stays empty if it is not. Other processes may have made slots vacant in the round
    /// that is open.
    pub(crate) fn go_on_behind(&mut self, lots: u32, open: Round) {
        self.lots = lots.max(self.lots);
        self.left.clear();
        self.begun.clear();
        self.closed.clear();
        self.vacating.clear();
        self.shown.clear();
        self.vacated_in = Some(open);
        let others = &mut self.others;
        self.unheard.retain(|account, unheard| {
            if !unheard.is_stored {
                others.remove(account);
            }
            unheard.is_stored
        });
    }

    /// Lots that have been begun: those of the table.
    pub(crate) fn lots(&self) -> u32 {
        self.lots
    }

    /// Those that were vacant and were begun, and that are so still as far as the log says.
    pub(crate) fn begun(&mut self, is_free: impl Fn(Tenure) -> bool) -> Vec<Tenure> {
        unstored(&mut self.begun, is_free)
    }

    /// The same of what was shown: whose it is stands in no entry with it.
    pub(crate) fn shown(&mut self, is_free: impl Fn(Tenure) -> bool) -> Vec<Tenure> {
        unstored(&mut self.shown, is_free)
    }

    /// The slot that an account was given by this process and has not shown since.
    pub(crate) fn unheard(&self, account: &Account) -> Option<Tenure> {
        self.unheard.get(account).map(|unheard| unheard.tenure)
    }

    /// Whether an account is to hear of a slot whose lot may be somebody else's as long as nothing is stored.
    pub(crate) fn is_unstored(&self, account: &Account) -> bool {
        self.unheard.get(account).is_some_and(|unheard| !unheard.is_stored)
    }

    /// What this process proposed when it gave the account its slot is in the log.
    pub(crate) fn stored(&mut self, account: &Account) {
        if let Some(unheard) = self.unheard.get_mut(account) {
            unheard.is_stored = true;
        }
    }

    /// The account has shown its slot, which is nobody else's then: also if it was closed and is there again.
    pub(crate) fn heard(&mut self, account: &Account, shown: Tenure) {
        self.unheard.remove(account);
        self.closed.remove(&shown.slot);
    }

    /// Whether nobody can be told any more that this is its own, though the log does not say so yet.
    pub(crate) fn is_vacating(&self, slot: u32) -> bool {
        self.vacating.contains_key(&slot)
    }

    /// Whether nothing is laid there any more: the account was closed, and has not shown the slot since.
    pub(crate) fn is_given_back(&self, slot: u32) -> bool {
        self.closed.contains_key(&slot) || self.is_vacating(slot)
    }

    /// Whether somebody has shown a later tenure of its slot, and the log does not say so yet.
    pub(crate) fn is_over(&self, tenure: Tenure) -> bool {
        self.shown.get(&tenure.slot).is_some_and(|shown| *shown > tenure.number)
    }

    /// Whether this is in use and not stored as such.
    pub(crate) fn is_shown(&self, tenure: Tenure) -> bool {
        self.shown.get(&tenure.slot) == Some(&tenure.number)
    }

    /// The log says that nobody has them, or it was not to be: they are somebody's from the next round on.
    pub(crate) fn vacated_is_settled(&mut self, open: Round) {
        self.vacating.clear();
        self.vacated_in = Some(open);
    }

    /// The lots up to that of a slot have been begun, whatever the log says: one that was brought back from a backup knows
    /// nothing of those that were begun since.
    pub(crate) fn begin_up_to(&mut self, slot: u32) {
        let lots = slot / LOT_SLOTS + 1;
        if lots > self.lots {
            self.lots = lots;
            self.left.clear();
        }
    }

    /// What an account has shown is in use, whatever the log says: as for [`SlotPool::begin_up_to`].
    pub(crate) fn begin(&mut self, shown: Tenure) {
        self.left.retain(|tenure| tenure.slot != shown.slot);
        let number = self.shown.entry(shown.slot).or_default();
        *number = shown.number.max(*number);
    }

    /// The account is no more, since this round was open; it had its slot, as far as the log says.
    pub(crate) fn close(&mut self, account: &Account, tenure: Tenure, open: Round) {
        self.unheard.remove(account);
        self.closed.insert(tenure.slot, (tenure.number, self.epoch_of(open)));
    }

    /// A round is opened: where an epoch begins, the next tenures of slots that nobody has had for a whole one, if there are enough
    /// of them that none tells whose it was.
    pub(crate) fn vacated(&mut self, opened: Round) -> Vec<Tenure> {
        let epoch = self.epoch_of(opened);
        if core::mem::replace(&mut self.epoch, epoch) == epoch {
            return Vec::new();
        }
        let is_ripe = |(_, closed): &(u32, u64)| closed + 1 < epoch;
        if self.closed.values().filter(|closed| is_ripe(closed)).count() < self.vacancy.slots {
            return Vec::new();
        }
        let ripe = self.closed.iter().filter(|(_, closed)| is_ripe(closed));
        self.vacating = ripe.map(|(slot, (number, _))| (*slot, *number)).collect();
        self.closed.retain(|_, closed| !is_ripe(closed));
        let tenures = self.vacating.iter();
        tenures.map(|(slot, number)| Tenure { slot: *slot, number: *number }.next()).collect()
    }

    fn epoch_of(&self, round: Round) -> u64 {
        round.0 / self.vacancy.epoch_rounds
    }

    /// A slot for a new account, which must not hear of it before the lots are stored; none if the table is full. Those that are
    /// vacant, ascending, come before new lots.
    pub(crate) fn take(
        &mut self,
        account: Account,
        vacant: impl Iterator<Item = Tenure>,
        (open, host): (Round, &dyn Host),
    ) -> Result<Option<Tenure>, NoRandomness> {
        if self.left.is_empty() {
            let are_empty = self.vacating.is_empty() && Some(open) > self.vacated_in;
            let again = vacant.filter(|tenure| {
                are_empty && !self.begun.contains_key(&tenure.slot) && !self.shown.contains_key(&tenure.slot)
            });
            let again: Vec<Tenure> = again.take(self.vacancy.slots).collect();
            if again.len() == self.vacancy.slots {
                self.begun.extend(again.iter().map(|tenure| (tenure.slot, tenure.number)));
                self.left = shuffled(again, host)?;
            } else if self.lots < self.most {
                let first = self.lots * LOT_SLOTS;
                self.left = shuffled((first..first + LOT_SLOTS).map(Tenure::first), host)?;
                self.lots += 1;
            } else {
                return Ok(None);
            }
        }
        let tenure = self.left.pop();
        if let Some(tenure) = tenure {
            self.unheard.insert(account, Unheard { tenure, is_stored: false });
        }
        Ok(tenure)
    }

    /// Another slot for an account that is known, shows none, and is not known here to have been given one: the answer was lost,
    /// and so was who remembered it. The same conditions hold as for a new account's. None if it was given one before, or too many
    /// were.
    pub(crate) fn take_other(
        &mut self,
        account: Account,
        vacant: impl Iterator<Item = Tenure>,
        (open, host): (Round, &dyn Host),
    ) -> Result<Option<Tenure>, NoRandomness> {
        let most = (self.lots * LOT_SLOTS / SLOTS_PER_OTHER).max(LOT_SLOTS) as usize;
        if self.others.len() >= most || self.others.contains(&account) {
            return Ok(None);
        }
        let tenure = self.take(account, vacant, (open, host))?;
        if tenure.is_some() {
            self.others.insert(account);
        }
        Ok(tenure)
    }
}

/// Those of which the log does not say so yet, ascending.
fn unstored(slots: &mut BTreeMap<u32, u32>, is_free: impl Fn(Tenure) -> bool) -> Vec<Tenure> {
    slots.retain(|slot, number| is_free(Tenure { slot: *slot, number: *number }));
    slots.iter().map(|(slot, number)| Tenure { slot: *slot, number: *number }).collect()
}

/// Slots, in an order that nobody knows.
fn shuffled(slots: impl IntoIterator<Item = Tenure>, host: &dyn Host) -> Result<Vec<Tenure>, NoRandomness> {
    let mut keyed = Vec::with_capacity(LOT_SLOTS as usize);
    for slot in slots {
        let mut key = [0; 16];
        host.fill(&mut key)?;
        keyed.push((key, slot));
    }
    keyed.sort_unstable();
    Ok(keyed.into_iter().map(|(_, slot)| slot).collect())
}

#[cfg(test)]
mod tests {
    use core::iter::empty;
    use std::collections::BTreeSet;

    use sotto_protocol::{OwnSlot, Round};
    use zeroize::Zeroizing;

    use super::{SlotKey, SlotPool, Tenure, Vacancy};
    use crate::host::System;

    const EPOCH_ROUNDS: u64 = 4096;
    /// More lots than any test begins.
    const MOST: u32 = 1 << 18;

    #[test]
    fn no_more_lots_are_begun_than_may_be() {
        let mut pool = SlotPool::behind(3, 4, Vacancy::default());
        let given =
            (0..40_u8).filter_map(|number| pool.take([number; 32], empty(), (Round(9), &System)).unwrap());
        assert_eq!(given.count(), 32);
        assert_eq!(pool.lots(), 4);
    }

    /// Two accounts in one slot would keep each other from being heard.
    #[test]
    fn every_account_gets_a_slot_of_its_own_and_the_same_until_it_shows_it() {
        let mut pool = SlotPool::behind(3, MOST, Vacancy::default());
        let mut slots = BTreeSet::new();
        for number in 0..100_u8 {
            let account = [number; 32];
            let slot = pool.take(account, empty(), (Round(9), &System)).unwrap().unwrap().slot;
            assert_eq!(pool.unheard(&account), Some(Tenure::first(slot)));
            assert!(slots.insert(slot));
        }
        assert_eq!(pool.lots(), 7);
        assert!(slots.iter().all(|slot| (3 * 32..7 * 32).contains(slot)));
        let shown = pool.unheard(&[5; 32]).unwrap();
        pool.heard(&[5; 32], shown);
        assert_eq!(pool.unheard(&[5; 32]), None);
    }

    /// An account that is stored, and whose slot nobody remembers, would be of no use to anybody.
    #[test]
    fn a_known_account_gets_another_slot_once_and_takes_up_no_table() {
        let mut pool = SlotPool::behind(3, MOST, Vacancy::default());
        let first = pool.take_other([0; 32], empty(), (Round(9), &System)).unwrap().unwrap();
        assert_eq!(pool.unheard(&[0; 32]), Some(first), "and the same until it shows it");
        pool.stored(&[0; 32]);
        pool.heard(&[0; 32], first);
        assert_eq!(pool.take_other([0; 32], empty(), (Round(9), &System)), Ok(None), "a third");
        let given: Vec<_> = (1..=99)
            .filter_map(|n| pool.take_other([n; 32], empty(), (Round(9), &System)).unwrap())
            .collect();
        assert_eq!(given.len(), 31, "with one lot in all");
        let mut large = SlotPool::behind(1024, MOST, Vacancy::default());
        let given = (0..3000_u32).filter_map(|n| {
            let mut account = [0; 32];
            account[..4].copy_from_slice(&n.to_le_bytes());
            large.take_other(account, empty(), (Round(9), &System)).unwrap()
        });
        assert!((2048..2300).contains(&given.count()));
    }

    /// Whoever leads again after another one did must not tell slots that the other one has given, nor forget its own.
    #[test]
    fn what_was_given_is_remembered_over_a_lost_lead_if_it_is_stored_and_only_then() {
        let mut pool = SlotPool::behind(0, MOST, Vacancy::default());
        let stored = pool.take([1; 32], empty(), (Round(9), &System)).unwrap();
        pool.stored(&[1; 32]);
        pool.take([2; 32], empty(), (Round(9), &System)).unwrap();
        pool.take_other([3; 32], empty(), (Round(9), &System)).unwrap();
        assert!(!pool.is_unstored(&[1; 32]) && pool.is_unstored(&[2; 32]) && pool.is_unstored(&[3; 32]));
        pool.go_on_behind(5, Round(8));
        assert_eq!(
            (pool.unheard(&[1; 32]), pool.unheard(&[2; 32]), pool.unheard(&[3; 32])),
            (stored, None, None)
        );
        let other = pool.take_other([3; 32], empty(), (Round(9), &System)).unwrap().unwrap();
        assert!((5 * 32..6 * 32).contains(&other.slot), "the first one was nobody's, and does not count");
    }

    /// After a restored backup, who comes back with a slot that the log does not know must be heard, and nobody else get it.
    #[test]
    fn slots_that_are_shown_are_not_given_out_again() {
        let mut pool = SlotPool::behind(1, MOST, Vacancy::default());
        pool.take([1; 32], empty(), (Round(9), &System)).unwrap();
        pool.begin_up_to(3 * 32 + 5);
        assert_eq!(pool.lots(), 4);
        pool.begin_up_to(7);
        assert_eq!(pool.lots(), 4);
        let next = pool.take([2; 32], empty(), (Round(9), &System)).unwrap().unwrap();
        assert!((4 * 32..5 * 32).contains(&next.slot), "{next:?}");
    }

    /// In the order of registrations they would tell, with the log, who has which.
    #[test]
    fn the_order_within_a_lot_is_drawn() {
        let order = || {
            let mut pool = SlotPool::behind(0, MOST, Vacancy::default());
            (0..32_u8)
                .map(|number| pool.take([number; 32], empty(), (Round(9), &System)).unwrap().unwrap().slot)
                .collect::<Vec<u32>>()
        };
        let (one, other) = (order(), order());
        assert_ne!(one, other);
        assert_eq!(one.iter().copied().collect::<BTreeSet<u32>>(), (0..32).collect());
    }

    #[test]
    fn a_slot_is_shown_by_its_own_account_alone() {
        let key = SlotKey::new(Zeroizing::new([1; 32]));
        for tenure in [Tenure::first(9), Tenure { slot: 9, number: 1 }, Tenure { slot: 9, number: u32::MAX }]
        {
            let own = key.credential(&[7; 32], tenure);
            assert_eq!(key.tenure(&[7; 32], &own), Some(tenure));
            assert_eq!(key.tenure(&[8; 32], &own), None);
            assert_eq!(key.tenure(&[7; 32], &OwnSlot { number: 10, ..own.clone() }), None);
            assert_eq!(SlotKey::new(Zeroizing::new([2; 32])).tenure(&[7; 32], &own), None);
            for byte in 0..16 {
                let mut forged = own.clone();
                forged.credential[byte] ^= 1;
                assert_eq!(key.tenure(&[7; 32], &forged), None, "byte {byte}");
            }
        }
    }

    /// Numbers of accounts for a pool.
    fn account(number: u32) -> [u8; 32] {
        let mut account = [0; 32];
        account[..4].copy_from_slice(&number.to_le_bytes());
        account
    }

    /// A pool whose 64 accounts of two lots were closed in one round.
    fn closed(open: Round) -> (SlotPool, BTreeSet<Tenure>) {
        let mut pool = SlotPool::behind(0, MOST, Vacancy::default());
        let given = (0..64).map(|number| {
            let tenure = pool.take(account(number), empty(), (Round(9), &System)).unwrap().unwrap();
            pool.heard(&account(number), tenure);
            tenure
        });
        let given: Vec<Tenure> = given.collect();
        for (number, tenure) in (0..).zip(&given) {
            pool.close(&account(number), *tenure, open);
        }
        (pool, given.into_iter().collect())
    }

    #[test]
    fn what_was_given_back_is_vacant_after_a_whole_epoch_and_not_before() {
        let begins = |epoch: u64| Round(epoch * EPOCH_ROUNDS);
        for open in [begins(5), Round(5 * EPOCH_ROUNDS + 3), begins(6).back(1)] {
            let (mut pool, given) = closed(open);
            assert_eq!(pool.vacated(open), []);
            assert_eq!(pool.vacated(begins(6)), []);
            assert_eq!(pool.vacated(begins(7).back(1)), []);
            let vacated = pool.vacated(begins(7).next());
            assert_eq!(
                vacated.iter().copied().collect::<BTreeSet<_>>(),
                given.iter().map(|tenure| tenure.next()).collect()
            );
            assert_eq!(pool.vacated(begins(8)), [], "once");
        }
    }

    /// One that is vacant alone would be that of the one account that was closed.
    #[test]
    fn fewer_than_a_lot_wait_for_others() {
        let (mut pool, given) = closed(Round(0));
        let mut given = given.into_iter();
        // Some are there again.
        for (number, tenure) in (0..).zip(given.by_ref().take(33)) {
            pool.heard(&account(number), tenure);
        }
        assert_eq!(pool.vacated(Round(3 * EPOCH_ROUNDS)), []);
        pool.close(&account(99), Tenure { slot: 7000, number: 4 }, Round(3 * EPOCH_ROUNDS));
        assert_eq!(pool.vacated(Round(4 * EPOCH_ROUNDS)), []);
        let vacated = pool.vacated(Round(5 * EPOCH_ROUNDS));
        assert_eq!(vacated.len(), 32);
        assert!(vacated.contains(&Tenure { slot: 7000, number: 5 }));
    }

    /// Whoever led meanwhile may have let them in again.
    #[test]
    fn what_was_given_back_before_the_lead_was_lost_stays_empty() {
        let (mut pool, _) = closed(Round(0));
        pool.go_on_behind(2, Round(8));
        assert_eq!(pool.vacated(Round(5 * EPOCH_ROUNDS)), []);
    }

    #[test]
    fn vacant_slots_are_had_again_as_lots_of_32() {
        let vacant: Vec<Tenure> =
            (0..70).map(|slot| Tenure { slot: 3 * slot, number: 1 + slot % 2 }).collect();
        let mut pool = SlotPool::behind(10, MOST, Vacancy::default());
        let mut take = |number| {
            pool.take(account(number), vacant.iter().copied(), (Round(9), &System)).unwrap().unwrap()
        };
        let taken: BTreeSet<Tenure> = (0..64).map(&mut take).collect();
        assert_eq!(taken, vacant[..64].iter().copied().collect(), "each once, the lowest first");
        let new = take(64);
        assert!((320..352).contains(&new.slot) && new.number == 0, "six tell too much: {new:?}");
        assert_eq!(pool.begun(|_| true).len(), 64);
        assert_eq!(pool.begun(|tenure| tenure.slot > 100).len(), 30, "the others are stored");
        // Whoever leads next gives them anew, unless they are stored.
        pool.go_on_behind(11, Round(8));
        assert_eq!(pool.begun(|_| true), []);
        let again = pool.take(account(99), vacant.iter().copied(), (Round(9), &System)).unwrap().unwrap();
        assert!(again.slot < 96 && again.number > 0);
    }
}
