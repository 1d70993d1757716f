//! The state with which a node begins that has nothing: entries behind it lead to what everybody has.

use std::sync::Arc;

use bytes::Bytes;
use openraft::EntryPayload;
use rand::RngExt;
use rand::rngs::StdRng;
use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES, SignedManifest};
use sotto_protocol::server::Account;
use sotto_protocol::{Round, UnixMillis};

use super::workload::rng;
use crate::TableSeal;
use crate::entry::{Entry, log_id};
use crate::record::{Batch, Record};
use crate::replica::StateMachine;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::tenure::Tenure;
use crate::testing::History;
use crate::testing::{Simulated, options};
use crate::writer::Writer;

/// What a group writes: rounds that overlap, are published and given up; people who come and go, and come again; slots that are
/// had by one after the other; and entries that are refused.
pub(crate) fn entries(seed: u64, count: u64) -> Vec<Entry> {
    let mut rng = rng(seed);
    let (mut open, mut lots) = (1, 0);
    let mut waiting: Vec<u64> = Vec::new();
    let mut published: Vec<u64> = Vec::new();
    let mut accounts: Vec<Account> = Vec::new();
    let tenure = |rng: &mut StdRng| Tenure { slot: rng.random_range(0..9), number: rng.random_range(1..4) };
    let mut all = vec![vec![Record::Open(Round(1))]];
    while (all.len() as u64) < count {
        let records = match rng.random_range(0..10) {
            0..=2 => {
                let bytes = Bytes::from(vec![rng.random(); 304 * rng.random_range(1..4)]);
                vec![Record::Deposits(Round(open), bytes)]
            }
            3 => {
                lots += 1;
                // As one wrote that led before, and did not know that it leads no longer.
                let late = rng.random_range(0..4) == 0;
                let lots = if late { lots - 1 } else { lots };
                let again = accounts.get(rng.random_range(0..2 * accounts.len() + 1)).copied();
                let account = again.unwrap_or_else(|| rng.random());
                accounts.push(account);
                vec![Record::Lots(lots), Record::Accounts(vec![account])]
            }
            4 => vec![Record::Spent(vec![rng.random()])],
            5 => vec![Record::Deposits(Round(open.saturating_sub(1)), Bytes::from(vec![1; 304]))],
            6 => {
                let sealed = open;
                open += 1;
                waiting.push(sealed);
                let mut records = vec![
                    Record::Table(Round(sealed), TableSeal { lots, cover: rng.random() }),
                    Record::Seal(Round(sealed), rng.random(), UnixMillis(rng.random())),
                ];
                if waiting.len() > 2 {
                    records.push(Record::Retire(Round(waiting.remove(0))));
                }
                records.push(Record::Open(Round(open)));
                records
            }
            8 if !accounts.is_empty() => {
                vec![Record::Closed(vec![accounts[rng.random_range(0..accounts.len())]])]
            }
            9 => match rng.random() {
                true => vec![Record::Vacant(vec![tenure(&mut rng)])],
                false => vec![Record::Begun(vec![tenure(&mut rng)])],
            },
            _ if waiting.is_empty() => vec![],
            _ => {
                let round = waiting.remove(0);
                published.push(round);
                let mut manifest = SignedManifest {
                    bytes: [0; MANIFEST_BYTES],
                    signature: [0; SIGNATURE_BYTES],
                    segment: None,
                };
                manifest.bytes[0] = rng.random();
                let mut records = vec![Record::Publish(Round(round), Box::new(manifest))];
                if published.len() > 2 {
                    records.push(Record::Retire(Round(published.remove(0))));
                }
                records
            }
        };
        all.push(records);
    }
    let entry = |(index, records)| Entry {
        log_id: log_id(1, 1, index),
        payload: EntryPayload::Normal(Batch(records)),
    };
    (0..).zip(all).map(entry).collect()
}

async fn machine(state: State) -> StateMachine {
    let disk = Arc::new(Simulated::default());
    let (writer, _) = Writer::start(disk, options(1), ()).await.unwrap();
    StateMachine::new(writer, state, None)
}

#[tokio::test]
async fn who_begins_with_the_base_of_another_node_comes_to_the_same_state() {
    const ENTRIES: u64 = 300;
    let mut later = 0;
    for seed in 0..8 {
        let entries = entries(seed, ENTRIES);
        let whole = machine(State::default()).await;
        let mut bases = Vec::new();
        for entry in &entries {
            whole.change(entry);
            // As it is sent to another node.
            let base = Snapshot::decode(&Snapshot { state: whole.base() }.encode()).unwrap().state;
            assert_eq!(base.next_index(), whole.floor(), "all that is needed beside it is behind it");
            assert_eq!(base.rounds().count(), 0, "a round is needed of which something is missing");
            later += u64::from(base.applied.is_some());
            bases.push((base, entry.log_id.index));
        }
        let expected = whole.lock().clone();
        for (base, _) in bases.into_iter().step_by(7) {
            let next = base.next_index();
            let other = machine(base).await;
            for entry in &entries[next as usize..] {
                other.change(entry);
            }
            let found = other.lock().clone();
            assert_eq!(History::from(&found), History::from(&expected), "seed {seed}, from {next}");
            assert_eq!((&found.accounts, &found.tokens), (&expected.accounts, &expected.tokens));
            assert_eq!(found.tenures, expected.tenures);
            for (round, _) in expected.rounds() {
                assert_eq!(found.rounds[&round], expected.rounds[&round]);
            }
        }
    }
    assert!(later > 8 * ENTRIES / 2, "hardly any base is later than the beginning");
}

/// Whoever knows the cover of a round tells its messages from what fills the table. It is gone with the round.
#[tokio::test]
async fn the_base_says_nothing_of_the_cover_of_rounds_that_are_forgotten() {
    let machine = machine(State::default()).await;
    let seal = |round, cover| {
        let table = Record::Table(Round(round), TableSeal { lots: 1, cover: [cover; 32] });
        vec![table, Record::Seal(Round(round), [9; 32], UnixMillis(1)), Record::Open(Round(round + 1))]
    };
    let all = [
        vec![Record::Open(Round(1))],
        seal(1, 0xc1),
        seal(2, 0xc2),
        seal(3, 0xc3),
        vec![Record::Retire(Round(1)), Record::Retire(Round(2)), Record::Retire(Round(3))],
    ];
    for (index, records) in (0..).zip(all) {
        let payload = EntryPayload::Normal(Batch(records));
        machine.change(&Entry { log_id: log_id(1, 1, index), payload });
    }
    let bytes = Snapshot { state: machine.base() }.encode();
    for cover in [0xc1, 0xc2, 0xc3] {
        let secret = [cover; 32];
        assert!(!bytes.windows(32).any(|window| window == secret), "the cover of a round {cover:x} is kept");
    }
}
