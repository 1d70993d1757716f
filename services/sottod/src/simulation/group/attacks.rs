//! What a node does when proposals fail, or wait, while it leads, and when it leads again: of a scripted log.
//!
//! A leader whose lease has run out has its entries refused by openraft (`LeaseExpired`), and goes on leading in the same term
//! when others answer again; one that leads again in a later term may still learn what became of entries of an earlier one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sotto_log::{Feed as _, Record, Role, Sequencer as _, Tenure};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Label, Round, SealedBox};
use sotto_wire::Refused;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::scripted::{A, B, Fate, SLOTS, Scripted, Setting, Stage, TOKEN, TOKENS, has, play, soon, start};

/// Accounts that may deposit.
async fn members(log: &Scripted) {
    let accounts = (1..=40).map(|number| [number; 32]).collect();
    log.log.propose(vec![Record::Accounts(accounts)]).await.await.unwrap();
}

fn deposit(label: u8) -> Deposit {
    Deposit { label: Label([label; 16]), sealed: SealedBox([label; BOX_BYTES]) }
}

/// Promise 4; also of a node alone.
fn spending_under_way(grouped: bool) {
    play(async {
        let log = Scripted::new(|records| {
            if has(records, |record| matches!(record, Record::Spent(_))) { Fate::Waits } else { Fate::Stands }
        });
        let stage = start(&Setting { grouped, round_ms: 500, ..TOKENS }, log.clone(), 1);
        soon().await;
        assert_eq!(stage.rounds.register(A, Some(TOKEN), None).await, Ok(None));
        // The round is sealed, and the entry with its tokens is on its way to the disk.
        sleep(Duration::from_millis(700)).await;
        let again = stage.rounds.register(B, Some(TOKEN), None).await;
        log.gate.send_replace(true);
        soon().await;
        assert_eq!(again, Err(Refused::Token), "one token has admitted two accounts");
    });
}

#[test]
fn a_token_whose_entry_is_on_its_way_admits_nobody_else_on_a_node_alone() {
    spending_under_way(false);
}

#[test]
fn a_token_whose_entry_is_on_its_way_admits_nobody_else() {
    spending_under_way(true);
}

#[test]
fn a_token_whose_entry_came_to_nothing_admits_nobody_else() {
    play(async {
        let mut failed = false;
        let log = Scripted::new(move |records| {
            let first = has(records, |record| matches!(record, Record::Spent(_)))
                && !core::mem::replace(&mut failed, true);
            if first { Fate::Elsewhere } else { Fate::Stands }
        });
        let stage = start(&Setting { round_ms: 500, ..TOKENS }, log.clone(), 1);
        soon().await;
        assert_eq!(stage.rounds.register(A, Some(TOKEN), None).await, Ok(None));
        sleep(Duration::from_millis(2000)).await;
        let again = stage.rounds.register(B, Some(TOKEN), None).await;
        assert_eq!(again, Err(Refused::Token), "one token has admitted two accounts");
    });
}

#[test]
fn a_token_admits_nobody_else_when_the_same_node_leads_again() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let stage = start(&TOKENS, log.clone(), 1);
        soon().await;
        assert_eq!(stage.rounds.register(A, Some(TOKEN), None).await, Ok(None));
        log.role.send_replace(Role::Follows { leader: None });
        soon().await;
        log.role.send_replace(Role::Leads { term: 2 });
        soon().await;
        let again = stage.rounds.register(B, Some(TOKEN), None).await;
        assert_eq!(again, Err(Refused::Token), "one token has admitted two accounts, and nothing crashed");
    });
}

#[test]
fn who_is_not_stored_keeps_its_token() {
    play(async {
        let mut failed = false;
        let log = Scripted::new(move |records| {
            let first = has(records, |record| matches!(record, Record::Accounts(_)))
                && !core::mem::replace(&mut failed, true);
            if first { Fate::Elsewhere } else { Fate::Stands }
        });
        let stage = start(&TOKENS, log.clone(), 1);
        soon().await;
        assert_eq!(stage.rounds.register(A, Some(TOKEN), None).await, Err(Refused::Busy));
        sleep(Duration::from_millis(100)).await;
        assert_eq!(stage.rounds.register(A, Some(TOKEN), None).await, Ok(None));
    });
}

/// Fails the first entry that begins a lot.
fn without_first_lots() -> impl FnMut(&[Record]) -> Fate + Send + 'static {
    let mut failed = false;
    move |records| {
        let first = has(records, |record| matches!(record, Record::Lots(_)))
            && !core::mem::replace(&mut failed, true);
        if first { Fate::Elsewhere } else { Fate::Stands }
    }
}

/// Another node leads next, with the same log: nobody else is given this slot.
pub(super) async fn is_not_given_again(stage: Stage, log: &Scripted, slot: Tenure) {
    stage.stop.cancel();
    let _ = stage.task.await;
    log.role.send_replace(Role::Leads { term: 9 });
    let next = start(&SLOTS, log.clone(), 2);
    soon().await;
    let mut given = BTreeSet::new();
    for number in 0..40 {
        let told = next.rounds.register([100 + number; 32], None, None).await;
        given.insert(told.unwrap().unwrap());
    }
    assert!(!given.contains(&slot), "{slot:?} was given to two accounts");
}

#[test]
fn a_slot_of_a_lot_that_was_not_stored_is_told_to_nobody_who_asks_again() {
    play(async {
        let log = Scripted::new(without_first_lots());
        let stage = start(&SLOTS, log.clone(), 1);
        soon().await;
        assert_eq!(stage.rounds.register(A, None, None).await, Err(Refused::Busy));
        sleep(Duration::from_millis(100)).await;
        let slot = stage.rounds.register(A, None, None).await.unwrap().unwrap();
        is_not_given_again(stage, &log, slot).await;
    });
}

#[test]
fn a_slot_of_a_lot_that_was_not_stored_is_told_to_nobody_else() {
    play(async {
        let log = Scripted::new(without_first_lots());
        let stage = start(&SLOTS, log.clone(), 1);
        soon().await;
        assert_eq!(stage.rounds.register(A, None, None).await, Err(Refused::Busy));
        sleep(Duration::from_millis(100)).await;
        let slot = stage.rounds.register(B, None, None).await.unwrap().unwrap();
        is_not_given_again(stage, &log, slot).await;
    });
}

/// Let in while proposals are held back after one that failed, and proposed in the next term, behind another lot.
#[test]
fn a_slot_that_was_drawn_before_the_lead_was_lost_is_not_told_after() {
    play(async {
        let log = Scripted::new(without_first_lots());
        let stage = start(&SLOTS, log.clone(), 1);
        soon().await;
        assert_eq!(stage.rounds.register(A, None, None).await, Err(Refused::Busy));
        let rounds = stage.rounds.clone();
        let second = tokio::spawn(async move { rounds.register(B, None, None).await });
        soon().await;
        log.role.send_replace(Role::Follows { leader: None });
        soon().await;
        // Whoever led meanwhile has begun the same lot, and told its slots.
        let lots = log.log.state().lots() + 1;
        log.log.propose(vec![Record::Lots(lots)]).await.await.unwrap();
        soon().await;
        log.role.send_replace(Role::Leads { term: 3 });
        let slot = second.await.unwrap().unwrap().unwrap();
        assert_ne!(slot.slot / 32, lots - 1, "{slot:?} is of a lot that another node gave out");
    });
}

/// Whoever did not hear the answer would have an account that is of no use.
#[test]
fn who_comes_back_to_a_node_that_leads_again_is_told_the_same_slot() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let stage = start(&SLOTS, log.clone(), 1);
        soon().await;
        let slot = stage.rounds.register(A, None, None).await;
        assert!(matches!(slot, Ok(Some(_))));
        log.role.send_replace(Role::Follows { leader: None });
        soon().await;
        log.role.send_replace(Role::Leads { term: 3 });
        soon().await;
        assert_eq!(stage.rounds.register(A, None, None).await, slot);
    });
}

#[test]
fn who_comes_back_to_another_node_is_given_a_slot_that_nobody_has_and_no_third() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let stage = start(&SLOTS, log.clone(), 1);
        soon().await;
        let first = stage.rounds.register(A, None, None).await.unwrap().unwrap();
        stage.stop.cancel();
        let _ = stage.task.await;
        let next = start(&SLOTS, log.clone(), 2);
        soon().await;
        let other = next.rounds.register(A, None, None).await.unwrap();
        assert!(other.is_some_and(|slot| slot.slot / 32 > first.slot / 32), "{first:?}, {other:?}");
        assert_eq!(
            next.rounds.register(A, None, None).await,
            Ok(other),
            "who does not hear of this one either"
        );
        assert_eq!(log.log.state().lots(), 2, "or whoever leads then would give it to somebody else");
        assert_eq!(next.rounds.register(A, None, other).await, Ok(other));
        assert_eq!(next.rounds.register(A, None, None).await, Err(Refused::Slot));
    });
}

/// Nothing is written for an account that is known but the lot of its slot: another node may have given that out meanwhile.
#[test]
fn another_slot_is_told_to_nobody_before_it_is_certain_that_this_node_leads() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let stage = start(&SLOTS, log.clone(), 1);
        soon().await;
        stage.rounds.register(A, None, None).await.unwrap();
        stage.stop.cancel();
        let _ = stage.task.await;
        // Another node leads in truth.
        *log.judge.lock().unwrap() = Box::new(|records| {
            if has(records, |record| matches!(record, Record::Deposits(..))) {
                Fate::Waits
            } else {
                Fate::Elsewhere
            }
        });
        log.log.propose(vec![Record::Accounts(vec![B])]).await.await.unwrap();
        let next = start(&SLOTS, log.clone(), 2);
        soon().await;
        let round = next.rounds.current().await.unwrap();
        let (depositing, registering) = (next.rounds.clone(), next.rounds.clone());
        tokio::spawn(async move { depositing.deposit(B, round, deposit(1), None).await });
        soon().await;
        // Drawn now, and proposed when the deposit is stored.
        let told = tokio::spawn(async move { registering.register(A, None, None).await });
        soon().await;
        let lots = log.log.state().lots() + 1;
        log.log.propose(vec![Record::Lots(lots)]).await.await.unwrap();
        soon().await;
        log.gate.send_replace(true);
        assert_eq!(told.await.unwrap(), Err(Refused::Busy));
    });
}

/// Promise 1: what is acknowledged is in the log.
#[test]
fn a_deposit_is_not_acknowledged_by_what_became_of_another() {
    play(async {
        let mut batches = 0;
        let log = Scripted::new(move |records| {
            if has(records, |record| matches!(record, Record::Deposits(..))) {
                batches += 1;
                // The first waits for a majority; the second never stands.
                return if batches == 1 { Fate::Waits } else { Fate::Never };
            }
            Fate::Stands
        });
        members(&log).await;
        let stage = start(&TOKENS, log.clone(), 1);
        soon().await;
        let round = stage.rounds.current().await.unwrap();
        let bring = |label| {
            let rounds = stage.rounds.clone();
            tokio::spawn(async move { rounds.deposit(A, round, deposit(label), None).await })
        };
        let first = bring(1);
        soon().await;
        log.role.send_replace(Role::Follows { leader: None });
        soon().await;
        let second = bring(2);
        soon().await;
        log.role.send_replace(Role::Leads { term: 2 });
        soon().await;
        // What was written in the first term is committed in the second.
        log.gate.send_replace(true);
        soon().await;
        assert_eq!(log.state().deposits(round), 1);
        let second = timeout(Duration::from_secs(1), second).await;
        assert!(!matches!(second, Ok(Ok(Ok(())))), "a deposit is acknowledged that is not in the log");
        let first = timeout(Duration::from_secs(1), first).await;
        assert!(matches!(first, Ok(Ok(Ok(())))), "what stands in the log is not acknowledged: {first:?}");
    });
}

/// What the log's bytes must not tell: who came first among those who came while the disk was at work.
#[test]
fn deposits_that_come_while_others_are_stored_share_an_entry_in_the_order_of_their_bytes() {
    play(async {
        let entries = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&entries);
        let log = Scripted::new(move |records| {
            let deposits = records.iter().filter_map(|record| match record {
                Record::Deposits(_, bytes) => Some(bytes.clone()),
                _ => None,
            });
            let before = written.lock().unwrap().len();
            written.lock().unwrap().extend(deposits);
            let first = before == 0 && !written.lock().unwrap().is_empty();
            if first { Fate::Waits } else { Fate::Stands }
        });
        members(&log).await;
        let stage = start(&TOKENS, log.clone(), 1);
        soon().await;
        let round = stage.rounds.current().await.unwrap();
        let bring = |number: u8| {
            let rounds = stage.rounds.clone();
            tokio::spawn(async move { rounds.deposit([number; 32], round, deposit(number), None).await })
        };
        let mut brought = vec![bring(9)];
        for number in [5, 7, 3, 8, 4] {
            soon().await;
            brought.push(bring(number));
        }
        soon().await;
        assert_eq!(entries.lock().unwrap().len(), 1, "they did not wait for the one before");
        log.gate.send_replace(true);
        for brought in brought {
            assert_eq!(brought.await.unwrap(), Ok(()));
        }
        let sorted: Vec<u8> = [3, 4, 5, 7, 8].iter().flat_map(|number| deposit(*number).encode()).collect();
        let entries = entries.lock().unwrap();
        assert_eq!(entries.len(), 2);
        assert!(entries[1] == sorted, "who came first shows");
    });
}

/// Whoever tells a node to end has an end, whatever the others do.
#[test]
fn a_node_ends_that_is_told_to_while_too_few_others_answer() {
    play(async {
        let log = Scripted::new(|records| {
            if has(records, |record| matches!(record, Record::Deposits(..))) {
                Fate::Waits
            } else {
                Fate::Stands
            }
        });
        members(&log).await;
        let stage = start(&TOKENS, log.clone(), 1);
        soon().await;
        let round = stage.rounds.current().await.unwrap();
        let rounds = stage.rounds.clone();
        tokio::spawn(async move { rounds.deposit(A, round, deposit(1), None).await });
        soon().await;
        stage.stop.cancel();
        let ended = timeout(Duration::from_secs(60), stage.task).await;
        assert!(ended.is_ok(), "it waits for what nobody will store");
    });
}

#[test]
fn the_same_deposit_again_is_acknowledged_only_if_the_first_is_stored() {
    play(async {
        let log = Scripted::new(|records| {
            if has(records, |record| matches!(record, Record::Deposits(..))) {
                Fate::Fails
            } else {
                Fate::Stands
            }
        });
        members(&log).await;
        let stage = start(&TOKENS, log.clone(), 1);
        soon().await;
        let round = stage.rounds.current().await.unwrap();
        let bring = || {
            let rounds = stage.rounds.clone();
            tokio::spawn(async move { rounds.deposit(A, round, deposit(1), None).await })
        };
        let (first, second) = (bring(), bring());
        soon().await;
        assert!(!first.is_finished() && !second.is_finished());
        log.gate.send_replace(true);
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Err(Refused::Busy), Err(Refused::Busy)));
        sleep(Duration::from_millis(100)).await;
        *log.judge.lock().unwrap() = Box::new(|_| Fate::Stands);
        assert_eq!(bring().await.unwrap(), Ok(()));
        assert_eq!(log.state().deposits(round), 1);
    });
}

#[test]
fn what_was_lost_with_the_lead_is_stored_when_it_comes_again() {
    play(async {
        let log = Scripted::new(|records| {
            if has(records, |record| matches!(record, Record::Deposits(..))) {
                Fate::Never
            } else {
                Fate::Stands
            }
        });
        members(&log).await;
        let stage = start(&TOKENS, log.clone(), 1);
        soon().await;
        let round = stage.rounds.current().await.unwrap();
        let rounds = stage.rounds.clone();
        let first = tokio::spawn(async move { rounds.deposit(A, round, deposit(1), None).await });
        soon().await;
        log.role.send_replace(Role::Follows { leader: None });
        soon().await;
        *log.judge.lock().unwrap() = Box::new(|_| Fate::Stands);
        log.role.send_replace(Role::Leads { term: 2 });
        soon().await;
        // At the latest with the end of the round.
        let again =
            timeout(Duration::from_secs(3600), stage.rounds.deposit(A, round, deposit(1), None)).await;
        assert_eq!(again, Ok(Ok(())), "it waits for what was lost");
        assert_eq!(log.state().deposits(round), 1, "it is acknowledged and not in the log");
        first.abort();
    });
}

/// A deposit in each of so many accounts, brought at once.
fn bring_many(stage: &Stage, round: Round, many: u8) -> Vec<JoinHandle<Result<(), Refused>>> {
    let bring = |number: u8| {
        let rounds = stage.rounds.clone();
        tokio::spawn(async move { rounds.deposit([number; 32], round, deposit(number), None).await })
    };
    (1..=many).map(bring).collect()
}

/// A round that is open when another node begins to lead takes deposits for a second more.
#[test]
fn deposits_that_are_lost_together_come_again_together() {
    for silent in [false, true] {
        play(async {
            let log = Scripted::new(|_| Fate::Stands);
            members(&log).await;
            let stage = start(&Setting { silent, ..TOKENS }, log.clone(), 1);
            soon().await;
            let round = stage.rounds.current().await.unwrap();
            log.role.send_replace(Role::Follows { leader: None });
            soon().await;
            let brought = bring_many(&stage, round, 24);
            soon().await;
            // What has waited is sent on at once, to a node that does not lead yet (its call fails) or is gone (nothing is heard).
            log.role.send_replace(Role::Follows { leader: Some(2) });
            soon().await;
            log.role.send_replace(Role::Leads { term: 2 });
            let began = tokio::time::Instant::now();
            for brought in brought {
                let stored = timeout(Duration::from_secs(60), brought).await;
                assert!(matches!(stored, Ok(Ok(Ok(())))), "not stored, silent: {silent}: {stored:?}");
            }
            let took = began.elapsed();
            assert!(
                took < Duration::from_millis(500),
                "the last of 24 came again after {took:?}, silent: {silent}"
            );
        });
    }
}

/// The wiring of what is sent on, of deposits and of accounts; the unit test has the function alone.
#[test]
fn what_nobody_answers_is_taken_in_here_once_this_node_leads() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        members(&log).await;
        let stage = start(&Setting { silent: true, ..TOKENS }, log.clone(), 1);
        soon().await;
        let round = stage.rounds.current().await.unwrap();
        log.role.send_replace(Role::Follows { leader: Some(2) });
        soon().await;
        let (rounds, depositing) = (stage.rounds.clone(), bring_many(&stage, round, 1));
        let registering = tokio::spawn(async move { rounds.register(A, Some(TOKEN), None).await });
        soon().await;
        log.role.send_replace(Role::Leads { term: 2 });
        for depositing in depositing {
            let stored = timeout(Duration::from_secs(1), depositing).await;
            assert!(matches!(stored, Ok(Ok(Ok(())))), "a deposit waits for a node that is gone: {stored:?}");
        }
        let admitted = timeout(Duration::from_secs(1), registering).await;
        assert!(
            matches!(admitted, Ok(Ok(Ok(None)))),
            "an account waits for a node that is gone: {admitted:?}"
        );
    });
}
