//! Labels that are chosen to hurt.

use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Label, SealedBox};

use super::honest::{Honest, deposit_of};
use super::support::{Member, Server};
use super::target;

/// Accounts that one person holds.
const ACCOUNTS: u8 = 60;

async fn accounts(server: &Server) -> Vec<Member> {
    let mut members = Vec::new();
    for number in 1..=ACCOUNTS {
        members.push(Member::register(server, number).await);
    }
    members
}

/// Who knows a label, as a contact does, can put another box under it; the reader tries both.
pub(crate) async fn a_squatter_under_a_known_label_suppresses_nothing() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let mut squatter = Member::register(&server, 1).await;
    let mut events = squatter.watch().await;
    while !honest.had_enough() {
        let round = events.fresh().await;
        let deposit = Deposit { label: deposit_of(201, round).label, sealed: SealedBox([0xff; BOX_BYTES]) };
        squatter.deposit(round, &deposit).await.unwrap();
    }
    honest.were_served("a squatter").await;
    server.shutdown().await.unwrap();
}

/// Sixty accounts with one label: four boxes of it stay, and the round is as small as without the others.
pub(crate) async fn many_accounts_with_one_label_leave_four_boxes() {
    let server = target(|_| {});
    let mut members = accounts(&server).await;
    let honest = Honest::start(&server).await;
    let mut events = members[0].watch().await;
    while !honest.had_enough() {
        let round = events.fresh().await;
        for (number, member) in (0..).zip(&mut members) {
            let sealed = SealedBox([number; BOX_BYTES]);
            member.deposit(round, &Deposit { label: Label([0xee; 16]), sealed }).await.unwrap();
        }
        let manifest = events.ready_of(round).await;
        // Those of the honest members, as many as have deposited.
        assert!((4..=6).contains(&manifest.entries), "{} entries", manifest.entries);
    }
    honest.were_served("one label from 60 accounts").await;
    server.shutdown().await.unwrap();
}

/// Labels that all fell into one bucket in the round before: by the next seed they are spread like any others.
pub(crate) async fn labels_chosen_for_one_bucket_are_spread_by_the_next_seed() {
    let server = target(|_| {});
    let mut members = accounts(&server).await;
    let honest = Honest::start(&server).await;
    let mut events = members[0].watch().await;
    let mut largest = 0;
    while !honest.had_enough() {
        let known = events.ready().await;
        let code = known.code().unwrap();
        let mut labels = (0_u64..).filter_map(|number| {
            let mut label = [0x77; 16];
            label[..8].copy_from_slice(&number.to_le_bytes());
            let hit = code.holders(&label).contains(&0);
            hit.then_some(Label(label))
        });
        let round = events.fresh().await;
        for member in &mut members {
            let deposit = Deposit { label: labels.next().unwrap(), sealed: SealedBox([9; BOX_BYTES]) };
            member.deposit(round, &deposit).await.unwrap();
        }
        largest = largest.max(events.ready_of(round).await.bucket_size);
    }
    println!("measured: {ACCOUNTS} labels for one bucket: the largest bucket has {largest}");
    // Three copies of each in ten or more buckets; all in one would be 60.
    assert!(largest < 45, "{largest}");
    honest.were_served("labels for one bucket").await;
    server.shutdown().await.unwrap();
}
