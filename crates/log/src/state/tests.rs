//! Which entries change what, and which states are none.

use std::collections::BTreeSet;
use std::time::Instant;

use bytes::Bytes;
use openraft::EntryPayload;
use sha2::{Digest, Sha256};
use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES, SignedManifest};
use sotto_protocol::server::Account;
use sotto_protocol::{Directory, Round, SignedDirectory, UnixMillis};

use super::format::Encoding;
use super::{ACCOUNTS_MAX, State, TOKENS_MAX, TOKENS_UNDER_WAY};
use crate::codec::Reader;
use crate::entry::{Entry, log_id};
use crate::record::{Batch, Record};
use crate::snapshot::Snapshot;
use crate::tenure::Tenure;

fn apply(state: &mut State, record: Record) -> Option<&'static str> {
    let log_id = log_id(1, 1, state.next_index());
    state.apply(&Entry { log_id, payload: EntryPayload::Normal(Batch(vec![record])) }).refused
}

fn manifest() -> Box<SignedManifest> {
    Box::new(SignedManifest { bytes: [3; MANIFEST_BYTES], signature: [4; SIGNATURE_BYTES], segment: None })
}

fn state() -> State {
    let mut state = State::default();
    let deposits = |count: usize| Bytes::from(vec![1; 304 * count]);
    for record in [
        Record::Accounts(vec![[1; 32], [2; 32]]),
        Record::Open(Round(5)),
        Record::Deposits(Round(5), deposits(2)),
        Record::Deposits(Round(5), deposits(1)),
        Record::Accounts(vec![[3; 32]]),
        Record::Spent(vec![[1; 16], [9; 16]]),
        Record::Deposits(Round(5), deposits(3)),
        Record::Seal(Round(5), [7; 32], UnixMillis(9)),
        Record::Publish(Round(5), manifest()),
        Record::Open(Round(6)),
    ] {
        assert_eq!(apply(&mut state, record), None);
    }
    state
}

#[test]
fn rounds_go_one_way_and_no_number_is_used_twice() {
    let state = state();
    let deposit = || Bytes::from(vec![1; 304]);
    for record in [
        Record::Open(Round(6)),
        Record::Open(Round(1)),
        Record::Deposits(Round(5), deposit()),
        Record::Deposits(Round(7), deposit()),
        Record::Seal(Round(5), [7; 32], UnixMillis(9)),
        Record::Seal(Round(7), [7; 32], UnixMillis(9)),
        Record::Publish(Round(5), manifest()),
        Record::Publish(Round(6), manifest()),
    ] {
        let mut after = state.clone();
        assert!(apply(&mut after, record.clone()).is_some(), "{record:?}");
        after.applied = state.applied;
        assert_eq!(after, state, "what is refused changes nothing");
    }
}

/// Of two leaders in turn, each may have proposed the next.
#[test]
fn of_directories_with_one_number_the_first_stands() {
    let directory = |number, node: &str| {
        let directory = Directory::new(number, Round(5), [node.to_owned()]).unwrap();
        Record::Directory(Box::new(SignedDirectory { bytes: directory.encode(), signature: [0; 64] }))
    };
    let mut state = state();
    for (number, node) in [(1, "c:1"), (2, "d:1"), (3, "a:1")] {
        assert_eq!(apply(&mut state, directory(number, node)), None);
    }
    // Nor is one far ahead, behind which no other could come.
    for other in [directory(3, "b:1"), directory(2, "b:1"), directory(5, "b:1"), directory(u64::MAX, "b:1")] {
        assert!(apply(&mut state, other).is_some());
    }
    assert_eq!(state.directory().unwrap().claimed_number(), 3);
    let told = Directory::decode(&*state.directory().unwrap().bytes).unwrap();
    assert_eq!(told.nodes(), ["a:1"]);
    assert_eq!(apply(&mut state, directory(4, "b:1")), None);
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    assert_eq!(State::decode(&mut Reader::new(&bytes), Encoding::Current), Ok(state));
}

#[test]
fn the_floor_is_the_first_deposit_of_a_round_that_is_still_needed() {
    let mut state = state();
    assert_eq!(state.rounds[&Round(5)].spans, [(2, 3), (6, 6)]);
    assert_eq!(state.floor(), 2);
    assert_eq!(apply(&mut state, Record::Retire(Round(5))), None);
    assert_eq!(state.floor(), state.next_index());
}

#[test]
fn a_state_is_read_as_it_was_written() {
    let state = state();
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let mut reader = Reader::new(&bytes);
    assert_eq!(State::decode(&mut reader, Encoding::Current).unwrap(), state);
    reader.finish().unwrap();
    for end in 0..bytes.len() {
        assert!(State::decode(&mut Reader::new(&bytes[..end]), Encoding::Current).is_err());
    }
}

/// A checksum holds for whatever was written, by whomever.
#[test]
fn a_state_that_no_entries_lead_to_is_refused() {
    let decoded = |change: &dyn Fn(&mut State)| {
        let (mut changed, mut bytes) = (state(), Vec::new());
        change(&mut changed);
        changed.encode(&mut bytes);
        State::decode(&mut Reader::new(&bytes), Encoding::Current)
    };
    assert!(decoded(&|_| {}).is_ok());
    let id = |term, index| Some(log_id(term, 1, index));
    assert!(decoded(&|state| state.applied = id(1, u64::MAX)).is_err());
    assert!(decoded(&|state| state.applied = id(u64::MAX, 100)).is_err());
    assert!(decoded(&|state| state.applied = id(1, 1)).is_err(), "its rounds come later");
    assert!(decoded(&|state| state.newest = Some(Round(u64::MAX))).is_err());
    assert!(decoded(&|state| state.newest = Some(Round(5))).is_err());
    assert!(decoded(&|state| state.newest = None).is_err());
    for deposits in [u64::MAX, 1 << 40] {
        assert!(decoded(&|state| state.rounds.get_mut(&Round(5)).unwrap().deposits = deposits).is_err());
    }
    for spans in [vec![(3, 2)], vec![(2, u64::MAX)], vec![(2, 3), (3, 4)], vec![(4, 4), (2, 2)]] {
        assert!(
            decoded(&|state| state.rounds.get_mut(&Round(5)).unwrap().spans.clone_from(&spans)).is_err(),
            "{spans:?}"
        );
    }
}

fn token(number: u32) -> [u8; 16] {
    let mut token = [7; 16];
    token[..4].copy_from_slice(&number.to_be_bytes());
    token
}

#[test]
fn a_token_that_cannot_be_written_down_counts_as_spent() {
    let room = (TOKENS_MAX - TOKENS_UNDER_WAY) as u32;
    let mut state = State { tokens: (0..room).map(token).collect(), ..State::default() };
    let (another, last) = (token(u32::MAX), token(room));
    assert!(state.is_spent(&token(3)) && !state.is_spent(&another));
    let under_way: Vec<_> = (room..TOKENS_MAX as u32).map(token).collect();
    assert_eq!(apply(&mut state, Record::Spent(vec![last])), None);
    assert!(state.is_spent(&last) && state.is_spent(&another));
    assert_eq!(apply(&mut state, Record::Spent(under_way.clone())), None, "what is under way has room");
    assert!(apply(&mut state, Record::Spent(vec![another])).is_some(), "it could be spent twice");
    assert_eq!(apply(&mut state, Record::Spent(under_way)), None, "those that are known take up none");
}

#[test]
fn a_state_whose_lists_are_not_ascending_is_refused() {
    let mut bytes = Vec::new();
    state().encode(&mut bytes);
    for list in [[[1; 32], [2; 32]].concat(), [[1; 16], [9; 16]].concat()] {
        let at = bytes.windows(list.len()).position(|found| found == list).unwrap();
        let (first, second) = (at, at + list.len() / 2);
        for (from, to) in [(first, second), (second, first)] {
            let mut changed = bytes.clone();
            changed.copy_within(from..from + list.len() / 2, to);
            assert!(State::decode(&mut Reader::new(&changed), Encoding::Current).is_err(), "two are equal");
        }
        let mut changed = bytes.clone();
        changed[at..at + list.len()].rotate_left(list.len() / 2);
        assert!(
            State::decode(&mut Reader::new(&changed), Encoding::Current).is_err(),
            "two have changed places"
        );
    }
}

/// A node that begins with a snapshot applies entries to what already follows from them.
#[test]
fn accounts_and_tenures_that_are_applied_again_come_to_the_same() {
    let tenure = |slot, number| Tenure { slot, number };
    let records = [
        Record::Accounts(vec![[1; 32], [2; 32]]),
        Record::Closed(vec![[1; 32]]),
        Record::Vacant(vec![tenure(3, 1), tenure(4, 1)]),
        Record::Begun(vec![tenure(3, 1)]),
        Record::Accounts(vec![[1; 32], [3; 32]]),
        Record::Closed(vec![[2; 32], [9; 32]]),
        Record::Vacant(vec![tenure(3, 2)]),
        Record::Begun(vec![tenure(3, 2)]),
    ];
    let mut state = State::default();
    let mut seen = Vec::new();
    for record in &records {
        assert_eq!(apply(&mut state, record.clone()), None);
        seen.push(state.vacant().collect::<Vec<_>>());
    }
    assert_eq!(seen[2], [tenure(3, 1), tenure(4, 1)]);
    assert_eq!(seen[3], [tenure(4, 1)]);
    assert_eq!(seen[6], [tenure(3, 2), tenure(4, 1)]);
    assert_eq!(seen[7], [tenure(4, 1)]);
    assert_eq!(state.accounts, BTreeSet::from([[1; 32], [3; 32]]));
    for first in 0..records.len() {
        let mut again = State { applied: None, ..state.clone() };
        for record in &records[first..] {
            assert_eq!(apply(&mut again, record.clone()), None);
        }
        again.applied = state.applied;
        assert_eq!(again, state, "from entry {first} on");
    }
}

/// Whoever shows a slot has it, in the tenure that is known here and in no other.
#[test]
fn of_the_tenures_of_a_slot_one_is_had_at_a_time() {
    let tenure = |number| Tenure { slot: 3, number };
    let mut state = State::default();
    let of = |state: &State| {
        [0, 1, 2].map(|number| (state.is_had(tenure(number)), state.is_to_come(tenure(number))))
    };
    let (had, to_come, over) = ((true, false), (false, true), (false, false));
    assert_eq!(of(&state), [had, to_come, to_come]);
    apply(&mut state, Record::Vacant(vec![tenure(1)]));
    assert_eq!(of(&state), [over, to_come, to_come]);
    apply(&mut state, Record::Begun(vec![tenure(1)]));
    assert_eq!(of(&state), [over, had, to_come]);
    // As one proposed that led before, and takes it for given back once more.
    apply(&mut state, Record::Vacant(vec![tenure(1)]));
    assert_eq!(of(&state), [over, had, to_come]);
    // One that was brought back from a backup is shown what it has given since.
    apply(&mut state, Record::Begun(vec![tenure(2)]));
    assert_eq!(of(&state), [over, over, had]);
    for record in [Record::Vacant(vec![tenure(0)]), Record::Begun(vec![Tenure { slot: 1 << 24, number: 1 }])]
    {
        assert!(apply(&mut state, record).is_some());
    }
}

#[test]
fn accounts_that_wait_take_up_room() {
    const ROOM: u64 = ACCOUNTS_MAX as u64;
    let account = |number: u64| {
        let mut account = [0; 32];
        account[..8].copy_from_slice(&number.to_be_bytes());
        account
    };
    let accounts = (0..ROOM - 2).map(account).collect();
    let state = State { accounts, ..State::default() };
    let mut waiting = BTreeSet::from([account(0), account(1)]);
    assert!(state.admits_beside(&account(ROOM), &waiting), "those that are known take up none");
    waiting.insert(account(ROOM));
    assert!(state.admits_beside(&account(ROOM + 1), &waiting));
    waiting.insert(account(ROOM + 1));
    assert!(!state.admits_beside(&account(ROOM + 2), &waiting));
    for admitted in [0, 1, 7, ROOM, ROOM + 1] {
        assert!(state.admits_beside(&account(admitted), &waiting), "{admitted}");
    }
}

/// What a snapshot of the largest state costs: the copy is made while nothing else can be applied, and the rest on the log's thread.
#[test]
#[ignore = "measures, and checks nothing"]
fn time_of_a_snapshot() {
    let mut state = State::default();
    for number in 0..1_u64 << 20 {
        let account: Account = Sha256::digest(number.to_le_bytes()).into();
        state.tokens.insert(core::array::from_fn(|at| account[at]));
        state.accounts.insert(account);
    }
    for _ in 0..3 {
        let began = Instant::now();
        let state = state.clone();
        let copied = began.elapsed();
        let bytes = Snapshot { state }.encode();
        let encoded = began.elapsed() - copied;
        println!("{} bytes: copied in {copied:.2?}, encoded in {encoded:.2?}", bytes.len());
    }
}
