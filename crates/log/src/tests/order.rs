//! What the log's bytes must not tell: who came first, and who used which token.

use openraft::EntryPayload;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Label, Round, SealedBox, UnixMillis};

use super::workload::start;
use crate::RoundLog;
use crate::record::{Record, split};
use crate::store::read;
use crate::testing::Simulated;
use crate::testing::Verbs;

/// The records of every entry.
fn entries(disk: &Simulated) -> Vec<Vec<Record>> {
    let mut entries = Vec::new();
    read(disk, &mut |_, entry| {
        if let EntryPayload::Normal(batch) = entry.payload {
            entries.push(batch.0);
        }
    })
    .unwrap();
    entries
}

fn deposit(label: u8, content: u8) -> Deposit {
    Deposit { label: Label([label; 16]), sealed: SealedBox([content; BOX_BYTES]) }
}

#[tokio::test]
async fn deposits_of_one_append_stand_in_the_order_of_their_bytes() {
    let disk = Simulated::default();
    let log = start(&disk, 1).await.unwrap();
    log.open(Round(1)).await.unwrap();
    // In no order in which people come: descending, and some under one label.
    let came: Vec<Deposit> = [(9, 3), (9, 1), (7, 8), (200, 0), (9, 2), (1, 9), (7, 7)]
        .map(|(label, content)| deposit(label, content))
        .into();
    let accounts = vec![[9; 32], [1; 32], [200; 32], [1; 32]];
    log.append(Round(1), came.clone(), accounts, None).await.unwrap();
    let (mut reversed, other) = (came.clone(), Simulated::default());
    reversed.reverse();
    log.seal(Round(1), [0; 32], None, UnixMillis(1)).await.unwrap();
    log.close().await;

    let stored: Vec<Record> = entries(&disk).into_iter().flatten().collect();
    let deposits: Vec<Deposit> = stored
        .iter()
        .filter_map(|record| match record {
            Record::Deposits(_, bytes) => Some(split(bytes).collect::<Vec<_>>()),
            _ => None,
        })
        .flatten()
        .collect();
    let mut sorted = came;
    sorted.sort_by_key(Deposit::encode);
    assert!(deposits == sorted, "who came first shows");
    assert!(stored.contains(&Record::Accounts(vec![[1; 32], [9; 32], [200; 32]])));

    // The same set in another order leaves the same records.
    let log = start(&other, 1).await.unwrap();
    log.open(Round(1)).await.unwrap();
    log.append(Round(1), reversed, vec![[200; 32], [1; 32], [9; 32]], None).await.unwrap();
    log.seal(Round(1), [0; 32], None, UnixMillis(1)).await.unwrap();
    log.close().await;
    assert!(entries(&other) == entries(&disk));
}

#[tokio::test]
async fn tokens_and_accounts_never_share_an_entry() {
    let disk = Simulated::default();
    let log = start(&disk, 1).await.unwrap();
    log.open(Round(1)).await.unwrap();
    let account = |number: u8| vec![[number; 32]];
    for number in 1..20 {
        let came = [deposit(number, 1)].into();
        let (appended, spent) = tokio::join!(
            log.append(Round(1), came, account(number), None),
            log.spend(vec![[number; 16], [0; 16]])
        );
        appended.unwrap();
        spent.unwrap();
    }
    log.close().await;
    let entries = entries(&disk);
    let tells = |records: &&Vec<Record>, kind: fn(&Record) -> bool| records.iter().any(kind);
    let accounts = |records: &&Vec<Record>| tells(records, |record| matches!(record, Record::Accounts(_)));
    let tokens = |records: &&Vec<Record>| tells(records, |record| matches!(record, Record::Spent(_)));
    assert!(entries.iter().any(|entry| accounts(&entry)) && entries.iter().any(|entry| tokens(&entry)));
    assert!(!entries.iter().any(|entry| accounts(&entry) && tokens(&entry)));
    assert!(entries.iter().filter(tokens).all(|entry| entry.len() == 1), "nor anything else with them");
}
