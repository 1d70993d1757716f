//! Slots of accounts: who gets which, and by what its holder shows that it is its own.
//!
//! Nothing is stored of who has which slot. The log counts *lots* of 32 slots; those of a lot are handed out in an order that
//! this process draws and forgets, so that whoever reads the disk knows of an account at most from which lot its slot may be.
//! An account shows its slot with 16 bytes of HMAC-SHA-256 over a domain, the account and the number, under the slot key.
//! What is left of a lot when the process ends is not handed out any more. Nor is what an account was given that never heard the
//! answer: nobody knows it then, and the account gets another one.

use std::collections::{BTreeMap, BTreeSet};

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use sotto_protocol::OwnSlot;
use sotto_protocol::server::Account;
use sotto_protocol::table::LOT_SLOTS;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::host::{Host, NoRandomness};

const DOMAIN: &[u8] = b"sotto v1 slot credential";

/// The key of the credentials of one server's slots.
pub(crate) struct SlotKey(Zeroizing<[u8; 32]>);

impl SlotKey {
    pub(crate) fn new(seed: Zeroizing<[u8; 32]>) -> Self {
        Self(seed)
    }

    /// What an account is given with its slot.
    pub(crate) fn credential(&self, account: &Account, number: u32) -> OwnSlot {
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice()).expect("a key of HMAC has any size");
        let mac = mac.chain_update(DOMAIN).chain_update(account).chain_update(number.to_le_bytes());
        let tag = mac.finalize().into_bytes();
        OwnSlot { number, credential: core::array::from_fn(|at| tag[at]) }
    }

    /// Whether this is the account's own slot.
    pub(crate) fn is_own(&self, account: &Account, slot: &OwnSlot) -> bool {
        self.credential(account, slot.number).credential.ct_eq(&slot.credential).into()
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
    /// What is left of the newest, in the order in which it is handed out.
    left: Vec<u32>,
    /// Slots whose accounts have not shown them yet: whoever did not hear the answer gets the same again.
    unheard: BTreeMap<Account, Unheard>,
    /// Known accounts that were given another slot, each once.
    others: BTreeSet<Account>,
}

struct Unheard {
    slot: u32,
    /// With its lot, so that nobody else is given this slot, whoever leads.
    is_stored: bool,
}

impl SlotPool {
    /// Goes on behind so many lots, up to at most so many.
    pub(crate) fn behind(lots: u32, most: u32) -> Self {
        Self { lots, most, ..Self::default() }
    }

    /// Goes on behind so many lots, as others may have begun them, or that which is not stored: what was given of it is nobody's.
    pub(crate) fn go_on_behind(&mut self, lots: u32) {
        self.lots = lots.max(self.lots);
        self.left.clear();
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

    /// The slot that an account was given by this process and has not shown since.
    pub(crate) fn unheard(&self, account: &Account) -> Option<u32> {
        self.unheard.get(account).map(|unheard| unheard.slot)
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

    /// The account has shown its slot.
    pub(crate) fn heard(&mut self, account: &Account) {
        self.unheard.remove(account);
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

    /// A slot for a new account, which must not hear of it before the lots are stored; none if the table is full.
    pub(crate) fn take(&mut self, account: Account, host: &dyn Host) -> Result<Option<u32>, NoRandomness> {
        if self.left.is_empty() {
            if self.lots >= self.most {
                return Ok(None);
            }
            self.left = shuffled(self.lots * LOT_SLOTS, host)?;
            self.lots += 1;
        }
        let slot = self.left.pop();
        if let Some(slot) = slot {
            self.unheard.insert(account, Unheard { slot, is_stored: false });
        }
        Ok(slot)
    }

    /// Another slot for an account that is known, shows none, and is not known here to have been given one: the answer was lost,
    /// and so was who remembered it. The same conditions hold as for a new account's. None if it was given one before, or too many
    /// were.
    pub(crate) fn take_other(
        &mut self,
        account: Account,
        host: &dyn Host,
    ) -> Result<Option<u32>, NoRandomness> {
        let most = (self.lots * LOT_SLOTS / SLOTS_PER_OTHER).max(LOT_SLOTS) as usize;
        if self.others.len() >= most || self.others.contains(&account) {
            return Ok(None);
        }
        let slot = self.take(account, host)?;
        if slot.is_some() {
            self.others.insert(account);
        }
        Ok(slot)
    }
}

/// The slots of a lot, in an order that nobody knows.
fn shuffled(first: u32, host: &dyn Host) -> Result<Vec<u32>, NoRandomness> {
    let mut keyed = Vec::with_capacity(LOT_SLOTS as usize);
    for slot in first..first + LOT_SLOTS {
        let mut key = [0; 16];
        host.fill(&mut key)?;
        keyed.push((key, slot));
    }
    keyed.sort_unstable();
    Ok(keyed.into_iter().map(|(_, slot)| slot).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sotto_protocol::OwnSlot;
    use zeroize::Zeroizing;

    use super::{SlotKey, SlotPool};
    use crate::host::System;

    /// More lots than any test begins.
    const MOST: u32 = 1 << 18;

    #[test]
    fn no_more_lots_are_begun_than_may_be() {
        let mut pool = SlotPool::behind(3, 4);
        let given = (0..40_u8).filter_map(|number| pool.take([number; 32], &System).unwrap());
        assert_eq!(given.count(), 32);
        assert_eq!(pool.lots(), 4);
    }

    /// Two accounts in one slot would keep each other from being heard.
    #[test]
    fn every_account_gets_a_slot_of_its_own_and_the_same_until_it_shows_it() {
        let mut pool = SlotPool::behind(3, MOST);
        let mut slots = BTreeSet::new();
        for number in 0..100_u8 {
            let account = [number; 32];
            let slot = pool.take(account, &System).unwrap().unwrap();
            assert_eq!(pool.unheard(&account), Some(slot));
            assert!(slots.insert(slot));
        }
        assert_eq!(pool.lots(), 7);
        assert!(slots.iter().all(|slot| (3 * 32..7 * 32).contains(slot)));
        pool.heard(&[5; 32]);
        assert_eq!(pool.unheard(&[5; 32]), None);
    }

    /// An account that is stored, and whose slot nobody remembers, would be of no use to anybody.
    #[test]
    fn a_known_account_gets_another_slot_once_and_takes_up_no_table() {
        let mut pool = SlotPool::behind(3, MOST);
        let first = pool.take_other([0; 32], &System).unwrap().unwrap();
        assert_eq!(pool.unheard(&[0; 32]), Some(first), "and the same until it shows it");
        pool.stored(&[0; 32]);
        pool.heard(&[0; 32]);
        assert_eq!(pool.take_other([0; 32], &System), Ok(None), "a third");
        let given: Vec<_> = (1..=99).filter_map(|n| pool.take_other([n; 32], &System).unwrap()).collect();
        assert_eq!(given.len(), 31, "with one lot in all");
        let mut large = SlotPool::behind(1024, MOST);
        let given = (0..3000_u32).filter_map(|n| {
            let mut account = [0; 32];
            account[..4].copy_from_slice(&n.to_le_bytes());
            large.take_other(account, &System).unwrap()
        });
        assert!((2048..2300).contains(&given.count()));
    }

    /// Whoever leads again after another one did must not tell slots that the other one has given, nor forget its own.
    #[test]
    fn what_was_given_is_remembered_over_a_lost_lead_if_it_is_stored_and_only_then() {
        let mut pool = SlotPool::behind(0, MOST);
        let stored = pool.take([1; 32], &System).unwrap();
        pool.stored(&[1; 32]);
        pool.take([2; 32], &System).unwrap();
        pool.take_other([3; 32], &System).unwrap();
        assert!(!pool.is_unstored(&[1; 32]) && pool.is_unstored(&[2; 32]) && pool.is_unstored(&[3; 32]));
        pool.go_on_behind(5);
        assert_eq!(
            (pool.unheard(&[1; 32]), pool.unheard(&[2; 32]), pool.unheard(&[3; 32])),
            (stored, None, None)
        );
        let other = pool.take_other([3; 32], &System).unwrap().unwrap();
        assert!((5 * 32..6 * 32).contains(&other), "the first one was nobody's, and does not count");
    }

    /// After a restored backup, who comes back with a slot that the log does not know must be heard, and nobody else get it.
    #[test]
    fn slots_that_are_shown_are_not_given_out_again() {
        let mut pool = SlotPool::behind(1, MOST);
        pool.take([1; 32], &System).unwrap();
        pool.begin_up_to(3 * 32 + 5);
        assert_eq!(pool.lots(), 4);
        pool.begin_up_to(7);
        assert_eq!(pool.lots(), 4);
        let next = pool.take([2; 32], &System).unwrap().unwrap();
        assert!((4 * 32..5 * 32).contains(&next), "{next}");
    }

    /// In the order of registrations they would tell, with the log, who has which.
    #[test]
    fn the_order_within_a_lot_is_drawn() {
        let order = || {
            let mut pool = SlotPool::behind(0, MOST);
            (0..32_u8).map(|number| pool.take([number; 32], &System).unwrap().unwrap()).collect::<Vec<u32>>()
        };
        let (one, other) = (order(), order());
        assert_ne!(one, other);
        assert_eq!(one.iter().copied().collect::<BTreeSet<u32>>(), (0..32).collect());
    }

    #[test]
    fn a_slot_is_shown_by_its_own_account_alone() {
        let key = SlotKey::new(Zeroizing::new([1; 32]));
        let own = key.credential(&[7; 32], 9);
        assert!(key.is_own(&[7; 32], &own));
        assert!(!key.is_own(&[8; 32], &own));
        assert!(!key.is_own(&[7; 32], &OwnSlot { number: 10, ..own.clone() }));
        assert!(!SlotKey::new(Zeroizing::new([2; 32])).is_own(&[7; 32], &own));
        for byte in 0..16 {
            let mut forged = own.clone();
            forged.credential[byte] ^= 1;
            assert!(!key.is_own(&[7; 32], &forged), "byte {byte}");
        }
    }
}
