//! Accounts that are closed, by whom and when it may be, and what becomes of their slots: of a scripted log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sotto_log::{Feed as _, Record, Role, Sequencer as _, Tenure};
use sotto_protocol::deposit::{BOX_BYTES, DEPOSIT_BYTES};
use sotto_protocol::{Deposit, SealedBox};
use sotto_wire::Refused;
use tokio::time::sleep;

use super::attacks::is_not_given_again;
use super::scripted::{A, B, Fate, SLOTS, Scripted, Setting, Stage, TOKEN, TOKENS, has, play, soon, start};

/// So that an epoch of two rounds is a second.
const QUICK_SLOTS: Setting = Setting { round_ms: 500, ..SLOTS };
const C: [u8; 32] = [3; 32];

/// Whether its slot takes what an account deposits in the round that is open.
async fn says(stage: &Stage, account: [u8; 32], tenure: Tenure, what: u8) -> Result<(), Refused> {
    let round = stage.rounds.current().await.unwrap();
    let label = sotto_protocol::table::stored(tenure.slot, &[what; 12]);
    let deposit = Deposit { label, sealed: SealedBox([what; BOX_BYTES]) };
    stage.rounds.deposit(account, round, deposit, Some(tenure)).await
}

/// Accounts with slots of their own.
async fn joined<const N: usize>(stage: &Stage, accounts: [[u8; 32]; N]) -> [Tenure; N] {
    let mut tenures = [Tenure::first(0); N];
    for (tenure, account) in tenures.iter_mut().zip(accounts) {
        *tenure = stage.rounds.register(account, None, None).await.unwrap().unwrap();
    }
    tenures
}

/// Slots that so many newcomers are given.
async fn newcomers(stage: &Stage, many: u8) -> BTreeSet<Tenure> {
    let mut given = BTreeSet::new();
    for number in 0..many {
        let tenure = stage.rounds.register([100 + number; 32], None, None).await.unwrap().unwrap();
        assert!(given.insert(tenure), "{tenure:?} was given to two accounts");
    }
    given
}

const EPOCHS: Duration = Duration::from_millis(4 * 2 * 500);

#[test]
fn a_closed_account_says_nothing_more_and_its_slot_is_somebody_elses_later() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let stage = start(&QUICK_SLOTS, log.clone(), 1);
        soon().await;
        let [a, b, c] = joined(&stage, [A, B, C]).await;
        assert_eq!(says(&stage, A, a, 1).await, Ok(()));
        for (account, tenure) in [(A, a), (B, b), (A, a)] {
            assert_eq!(stage.rounds.close(account, Some(tenure)).await, Ok(()), "also once more");
        }
        assert!(!log.state().knows(&A) && !log.state().knows(&B) && log.state().knows(&C));
        assert_eq!(says(&stage, A, a, 2).await, Err(Refused::UnknownSession));
        // What is left of the lot comes first.
        let rest = newcomers(&stage, 29).await;
        assert!(!rest.iter().any(|tenure| [a, b, c].contains(tenure)));
        sleep(EPOCHS).await;
        let given = joined(&stage, [[140; 32], [141; 32], [142; 32]]).await;
        assert_eq!(BTreeSet::from([given[0], given[1]]), BTreeSet::from([a.next(), b.next()]));
        assert_eq!(given[2].slot / 32, 1, "nothing else is vacant");
        // Whoever was there before is kept out, with the slot that it had and with a session from then.
        assert_eq!(stage.rounds.register(A, None, Some(a)).await, Err(Refused::Slot));
        assert_eq!(says(&stage, A, a, 3).await, Err(Refused::UnknownSession));
        let another = stage.rounds.register(A, None, None).await.unwrap().unwrap();
        assert_eq!(says(&stage, A, a, 3).await, Err(Refused::UnknownSession));
        assert_eq!(says(&stage, A, another, 3).await, Ok(()));
        for (account, tenure) in [([140; 32], given[0]), ([141; 32], given[1]), (C, c)] {
            assert_eq!(says(&stage, account, tenure, 4).await, Ok(()));
        }
    });
}

#[test]
fn who_is_there_again_before_its_slot_is_vacant_keeps_it() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let stage = start(&QUICK_SLOTS, log.clone(), 1);
        soon().await;
        let [a, b, c] = joined(&stage, [A, B, C]).await;
        for (account, tenure) in [(A, a), (B, b), (C, c)] {
            stage.rounds.close(account, Some(tenure)).await.unwrap();
        }
        newcomers(&stage, 29).await;
        sleep(Duration::from_millis(700)).await;
        assert_eq!(stage.rounds.register(A, None, Some(a)).await, Ok(Some(a)));
        sleep(EPOCHS).await;
        let given = joined(&stage, [[140; 32], [141; 32], [142; 32]]).await;
        assert_eq!(BTreeSet::from([given[0], given[1]]), BTreeSet::from([b.next(), c.next()]));
        assert_ne!(given[2].slot, a.slot);
        assert_eq!(says(&stage, A, a, 1).await, Ok(()));
    });
}

/// The log says so a little later.
#[test]
fn a_slot_that_is_becoming_vacant_is_not_told_to_whom_it_was() {
    play(async {
        let log = Scripted::new(|records| {
            if has(records, |record| matches!(record, Record::Vacant(_))) {
                Fate::Waits
            } else {
                Fate::Stands
            }
        });
        let stage = start(&QUICK_SLOTS, log.clone(), 1);
        soon().await;
        let [a, b] = joined(&stage, [A, B]).await;
        for (account, tenure) in [(A, a), (B, b)] {
            stage.rounds.close(account, Some(tenure)).await.unwrap();
        }
        sleep(EPOCHS).await;
        assert!(log.state().is_had(a));
        assert_eq!(stage.rounds.register(A, None, Some(a)).await, Err(Refused::Busy));
        log.gate.send_replace(true);
        soon().await;
        assert_eq!(stage.rounds.register(A, None, Some(a)).await, Err(Refused::Slot));
    });
}

/// Whoever led meanwhile may have let them in again, and this node hears of that too late.
#[test]
fn what_was_given_back_to_a_node_that_lost_the_lead_is_given_to_nobody() {
    for (waits, late) in [(false, false), (true, false), (false, true)] {
        play(async {
            let log = Scripted::new(move |records| {
                let closes = has(records, |record| matches!(record, Record::Closed(_)));
                match (closes && waits, closes && late) {
                    (true, _) => Fate::Waits,
                    (_, true) => Fate::HeardLate,
                    _ => Fate::Stands,
                }
            });
            let stage = start(&QUICK_SLOTS, log.clone(), 1);
            soon().await;
            let given = joined(&stage, [A, B, C]).await;
            for (account, tenure) in [A, B, C].into_iter().zip(given) {
                let rounds = stage.rounds.clone();
                tokio::spawn(async move { rounds.close(account, Some(tenure)).await });
            }
            soon().await;
            log.role.send_replace(Role::Follows { leader: None });
            soon().await;
            if waits {
                log.gate.send_replace(true);
                soon().await;
            }
            assert!(!log.state().knows(&A));
            // Another node lets them in, with what they show.
            log.log.propose(vec![Record::Accounts(vec![A, B, C])]).await.await.unwrap();
            soon().await;
            log.role.send_replace(Role::Leads { term: 3 });
            soon().await;
            log.gate.send_replace(true);
            sleep(EPOCHS).await;
            let slots = given.map(|tenure| tenure.slot);
            let newcomers = newcomers(&stage, 40).await;
            let twice = newcomers.iter().find(|tenure| slots.contains(&tenure.slot));
            assert_eq!(twice, None, "waits {waits}, late {late}");
        });
    }
}

/// What is vacant is begun as a lot is, and told to nobody before that is stored.
#[test]
fn a_vacant_slot_whose_tenure_was_not_stored_is_told_to_one_account_alone() {
    play(async {
        let mut failed = false;
        let log = Scripted::new(move |records| {
            let first = has(records, |record| matches!(record, Record::Begun(_)))
                && !core::mem::replace(&mut failed, true);
            if first { Fate::Elsewhere } else { Fate::Stands }
        });
        let stage = start(&QUICK_SLOTS, log.clone(), 1);
        soon().await;
        let [a, b] = joined(&stage, [A, B]).await;
        newcomers(&stage, 30).await;
        for (account, tenure) in [(A, a), (B, b)] {
            stage.rounds.close(account, Some(tenure)).await.unwrap();
        }
        sleep(EPOCHS).await;
        assert_eq!(stage.rounds.register(C, None, None).await, Err(Refused::Busy));
        // In the round in which something failed nothing else is begun again.
        sleep(Duration::from_millis(700)).await;
        let c = stage.rounds.register(C, None, None).await.unwrap().unwrap();
        assert!([a.next(), b.next()].contains(&c));
        assert!(log.state().is_had(c), "it is told before it is stored");
        is_not_given_again(stage, &log, c).await;
    });
}

/// A server that was brought back from a backup knows nothing of what it has given since.
#[test]
fn who_shows_a_later_tenure_than_the_log_knows_is_heard_and_who_had_it_before_is_not() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let stage = start(&QUICK_SLOTS, log.clone(), 1);
        soon().await;
        let [a] = joined(&stage, [A]).await;
        let later = a.next().next();
        assert_eq!(stage.rounds.register(B, None, Some(later)).await, Ok(Some(later)));
        assert!(log.state().knows(&B) && !log.state().is_had(later), "they share an entry");
        for round in 1..4 {
            assert_eq!(says(&stage, B, later, round).await, Ok(()));
            assert_eq!(says(&stage, A, a, round).await, Err(Refused::UnknownSession));
            for over in [a, a.next()] {
                let account = if over == a { A } else { C };
                assert_eq!(stage.rounds.register(account, None, Some(over)).await, Err(Refused::Slot));
            }
            sleep(Duration::from_millis(500)).await;
        }
        assert!(log.state().is_had(later));
    });
}

/// Two who come back in one round, and had one slot one after the other.
#[test]
fn of_two_tenures_that_are_shown_at_once_the_later_counts() {
    for later_first in [false, true] {
        play(async {
            let log = Scripted::new(|_| Fate::Stands);
            let stage = start(&QUICK_SLOTS, log.clone(), 1);
            soon().await;
            joined(&stage, [A]).await;
            let tenure = |number| Tenure { slot: 7, number };
            let mut show = [(B, tenure(1)), (C, tenure(2))];
            if later_first {
                show.reverse();
            }
            for (account, tenure) in show {
                let _ = stage.rounds.register(account, None, Some(tenure)).await;
            }
            assert_eq!(says(&stage, B, tenure(1), 1).await, Err(Refused::UnknownSession));
            assert_eq!(says(&stage, C, tenure(2), 1).await, Ok(()));
            sleep(EPOCHS).await;
            assert!(log.state().is_had(tenure(2)));
        });
    }
}

/// Of an account that was closed, made anew with another slot, and has a session from before at another node.
async fn stale(stage: &Stage) -> Tenure {
    let [a, b] = joined(stage, [A, B]).await;
    newcomers(stage, 30).await;
    for (account, tenure) in [(A, a), (B, b)] {
        stage.rounds.close(account, Some(tenure)).await.unwrap();
    }
    stage.rounds.register(A, None, None).await.unwrap().unwrap();
    // What is left of its lot.
    for number in 0..31 {
        stage.rounds.register([200 + number; 32], None, None).await.unwrap().unwrap();
    }
    a
}

/// Who has a slot now, of two newcomers.
async fn holder(stage: &Stage, tenure: Tenure) -> [u8; 32] {
    let given = joined(stage, [[140; 32], [141; 32]]).await;
    let of = given.iter().position(|given| *given == tenure).expect("it is not given to newcomers");
    [140 + of as u8; 32]
}

#[test]
fn a_session_from_before_gives_back_nothing_that_somebody_else_has() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let stage = start(&QUICK_SLOTS, log.clone(), 1);
        soon().await;
        let a = stale(&stage).await;
        sleep(EPOCHS).await;
        let holder = holder(&stage, a.next()).await;
        assert_eq!(stage.rounds.close(A, Some(a)).await, Ok(()));
        let [b] = joined(&stage, [B]).await;
        stage.rounds.close(B, Some(b)).await.unwrap();
        sleep(EPOCHS).await;
        assert!(log.state().is_had(a.next()));
        assert_eq!(says(&stage, holder, a.next(), 1).await, Ok(()));
        // Nor do both, one after the other.
        stage.rounds.register(A, None, None).await.unwrap();
        stage.rounds.close(A, Some(a)).await.unwrap();
        stage.rounds.close(holder, Some(a.next())).await.unwrap();
        let [b] = joined(&stage, [B]).await;
        stage.rounds.close(B, Some(b)).await.unwrap();
        sleep(EPOCHS).await;
        assert!(log.state().is_to_come(a.next().next()));
    });
}

/// Whose box came first there would be lost, or that of the newcomer, though both were acknowledged.
#[test]
fn no_two_boxes_lie_in_a_slot_in_the_round_in_which_it_becomes_vacant() {
    for heard_late in [false, true] {
        play(async {
            let deposits = Arc::new(Mutex::new(Vec::new()));
            let written = Arc::clone(&deposits);
            let log = Scripted::new(move |records| {
                for record in records {
                    if let Record::Deposits(round, bytes) = record {
                        let boxes =
                            bytes.chunks(DEPOSIT_BYTES).map(|deposit| (*round, deposit[..4].to_vec()));
                        written.lock().unwrap().extend(boxes);
                    }
                }
                match has(records, |record| matches!(record, Record::Vacant(_))) {
                    true if heard_late => Fate::HeardLate,
                    true => Fate::Waits,
                    false => Fate::Stands,
                }
            });
            let stage = start(&Setting { round_ms: 2000, ..SLOTS }, log.clone(), 1);
            soon().await;
            let a = stale(&stage).await;
            let mut given = false;
            for step in 0..60_u8 {
                let _ = says(&stage, A, a, 1).await;
                if step == 30 {
                    log.gate.send_replace(true);
                }
                // Slots that are vacant are given out first.
                if !given {
                    let newcomers = [150 + step % 100, 30 + step].map(|number| [number; 32]);
                    for account in newcomers {
                        let tenure = stage.rounds.register(account, None, None).await.unwrap().unwrap();
                        if tenure.slot == a.slot {
                            given = true;
                            assert_eq!(says(&stage, account, tenure, 2).await, Ok(()));
                        }
                    }
                }
                sleep(Duration::from_millis(500)).await;
            }
            assert!(given, "nobody was given the slot");
            let mut deposits = deposits.lock().unwrap().clone();
            deposits.sort();
            let twice = deposits.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "heard late {heard_late}");
        });
    }
}

/// Either it is there or it is not, and without another token it is not there again.
#[test]
fn an_account_is_not_let_in_while_it_is_closed() {
    for setting in [&TOKENS, &QUICK_SLOTS] {
        play(async {
            let log = Scripted::new(|records| {
                if has(records, |record| matches!(record, Record::Closed(_))) {
                    Fate::Waits
                } else {
                    Fate::Stands
                }
            });
            let stage = start(setting, log.clone(), 1);
            soon().await;
            let tenure = stage.rounds.register(A, Some(TOKEN), None).await.unwrap();
            let rounds = stage.rounds.clone();
            let closing = tokio::spawn(async move { rounds.close(A, tenure).await });
            soon().await;
            assert_eq!(stage.rounds.register(A, None, tenure).await, Err(Refused::Busy));
            assert_eq!(stage.rounds.close(A, tenure).await, Err(Refused::Busy));
            log.gate.send_replace(true);
            assert_eq!(closing.await.unwrap(), Ok(()));
            assert!(!log.state().knows(&A));
            assert_eq!(stage.rounds.close(A, tenure).await, Ok(()));
        });
    }
}

/// While somebody else leads, both wait; whoever leads then takes one after the other.
#[test]
fn who_is_closed_and_comes_while_nobody_leads_is_told_what_holds() {
    for comes_first in [false, true] {
        play(async {
            let log = Scripted::new(|_| Fate::Stands);
            let stage = start(&SLOTS, log.clone(), 1);
            soon().await;
            let [a] = joined(&stage, [A]).await;
            log.role.send_replace(Role::Follows { leader: None });
            soon().await;
            let close = || {
                let rounds = stage.rounds.clone();
                tokio::spawn(async move { rounds.close(A, Some(a)).await })
            };
            // Of a slot that is not had it waits for who leads.
            let come = || {
                let rounds = stage.rounds.clone();
                tokio::spawn(async move { rounds.register(A, None, Some(a.next())).await.map(drop) })
            };
            let (first, second) = if comes_first { (come(), close()) } else { (close(), come()) };
            soon().await;
            log.role.send_replace(Role::Leads { term: 2 });
            let (first, second) = (first.await.unwrap(), second.await.unwrap());
            soon().await;
            let [closed, came] = if comes_first { [second, first] } else { [first, second] };
            let known = log.state().knows(&A);
            assert!(closed.is_err() || !known, "closed, and known: came {came:?}");
            assert!(came.is_err() || known, "let in, and unknown: closed {closed:?}");
        });
    }
}
