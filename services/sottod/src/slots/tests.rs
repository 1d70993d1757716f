//! Who gets which slot, and when one is vacant again.

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
    let given: Vec<_> =
        (1..=99).filter_map(|n| pool.take_other([n; 32], empty(), (Round(9), &System)).unwrap()).collect();
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
    for tenure in [Tenure::first(9), Tenure { slot: 9, number: 1 }, Tenure { slot: 9, number: u32::MAX }] {
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
    let vacant: Vec<Tenure> = (0..70).map(|slot| Tenure { slot: 3 * slot, number: 1 + slot % 2 }).collect();
    let mut pool = SlotPool::behind(10, MOST, Vacancy::default());
    let mut take =
        |number| pool.take(account(number), vacant.iter().copied(), (Round(9), &System)).unwrap().unwrap();
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
