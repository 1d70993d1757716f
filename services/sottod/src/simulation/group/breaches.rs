//! Attacks on real nodes: with openraft, disks and the network between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpir::noop;
use openraft::Raft;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::{AppendEntriesRequest, VoteRequest};
use sotto_log::testing::Simulated;
use sotto_log::{DurableLog, Group, Options, Role, RoundLog, StateMachine, TypeConfig, Vote, log_id};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{CodeKind, Deposit, Label, SealedBox};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::net::{Net, Way};
use super::node::{Cluster, Node};
use crate::cluster::NodeId;
use crate::config::Config;
use crate::peers::{Caller, append_of, put_append, put_ballot, put_vote, snapshot_from, vote_of};
use crate::simulation::ledger::Ledger;
use crate::simulation::server::{data, signing_key};
use crate::simulation::world::{ROOT, World, rng};

pub(super) fn cluster(slots: bool, round_ms: u32) -> Cluster {
    let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
    config.allow_no_privacy = true;
    config.round_ms = round_ms;
    (config.retrieve, config.retained) = (2, 2);
    (config.deposit_ms, config.lookup_ms, config.query_ms) = (0, 0, 0);
    config.data = data();
    (config.limits.threads, config.limits.computing) = (1, 2);
    if slots {
        config.code = CodeKind::Partitioned;
    }
    let key = signing_key().verifying_key().to_bytes();
    let parameters = config.parameters(&*noop(), key).unwrap();
    let world = Arc::new(World::default());
    let ledger = Arc::new(Ledger::new(Arc::clone(&world), parameters.clone()));
    let net = Net::new(rng(1, "network"), 0, 3);
    Cluster {
        seed: 1,
        voters: 3,
        answerers: 0,
        config,
        parameters,
        root: ROOT,
        engine_of: |_| noop(),
        next_key: None,
        without: None,
        net,
        world,
        ledger,
        segment_bytes: 1 << 20,
        disk_ms: Arc::default(),
        compute_ms: Arc::default(),
    }
}

pub(super) fn play(cluster: Cluster, history: impl AsyncFnOnce(Cluster, Vec<Option<Node>>)) {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
        let world = Arc::clone(&cluster.world);
        let _power = world.begin();
        let nodes =
            (1..=3).map(|number| Some(Node::start(&cluster, number, 1, Simulated::default()))).collect();
        sleep(Duration::from_secs(5)).await;
        history(cluster, nodes).await;
        world.end();
    });
}

pub(super) fn leader(cluster: &Cluster) -> (u64, u64) {
    let leads = |number| match cluster.net.role(number) {
        Some(Role::Leads { term }) => Some((number, term)),
        _ => None,
    };
    (1..=3).find_map(leads).unwrap()
}

/// The answers of the others do not reach the one that leads, for a while; they hear it, and elect nobody else.
#[test]
fn no_slot_is_told_twice_when_a_leader_was_not_answered_for_a_while() {
    play(cluster(true, 60_000), async |cluster, mut nodes| {
        let (first, term) = leader(&cluster);
        for other in (1..=3).filter(|other| *other != first) {
            cluster.net.cut(other, first);
        }
        // Its lease is over, and it says as yet that it leads.
        sleep(Duration::from_millis(950)).await;
        let rounds = cluster.net.rounds(first).unwrap();
        let told = timeout(Duration::from_secs(2), rounds.register([1; 32], None, None)).await;
        println!("while it is not answered: {told:?}");
        cluster.net.heal();
        sleep(Duration::from_millis(1000)).await;
        println!("before in term {term}, now {:?}", leader(&cluster));
        let slot = rounds.register([1; 32], None, None).await.unwrap().unwrap();
        let _ = nodes[first as usize - 1].take().unwrap().crash(&cluster.net, first, 0, false);
        sleep(Duration::from_secs(8)).await;
        let (next, _) = leader(&cluster);
        let rounds = cluster.net.rounds(next).unwrap();
        let mut given = BTreeSet::new();
        for number in 0..40 {
            given.insert(rounds.register([100 + number; 32], None, None).await.unwrap().unwrap());
        }
        assert!(!given.contains(&slot), "{slot:?} was told to two accounts");
    });
}

#[test]
fn the_last_node_of_a_cluster_ends_when_it_is_told_to() {
    play(cluster(false, 500), async |cluster, mut nodes| {
        let (first, _) = leader(&cluster);
        for other in (1..=3).filter(|other| *other != first) {
            let _ = nodes[other as usize - 1].take().unwrap().crash(&cluster.net, other, 0, true);
        }
        sleep(Duration::from_secs(5)).await;
        let node = nodes[first as usize - 1].as_mut().unwrap();
        for _ in 0..10 {
            node.end().await;
            if node.rounds.is_finished() {
                return;
            }
        }
        panic!("told to end, it has not ended for 30 s");
    });
}

/// Every machine loses its power in the moment in which somebody hears that a deposit is stored.
#[test]
fn what_is_acknowledged_outlasts_a_cut_of_the_power_of_all_nodes() {
    let mut stored = 0;
    for seed in 0..30 {
        let mut cluster = cluster(false, 2000);
        (cluster.disk_ms, cluster.seed) = (Arc::new(10.into()), seed);
        let (world, ledger) = (Arc::clone(&cluster.world), Arc::clone(&cluster.ledger));
        let mut acknowledged = false;
        let heard = &mut acknowledged;
        play(cluster, async |cluster, mut nodes| {
            sleep(Duration::from_millis(seed * 37)).await;
            let rounds = cluster.net.rounds(seed % 3 + 1).unwrap();
            let known = rounds.register([9; 32], None, None).await;
            let round = rounds.current().await.unwrap();
            let deposit = Deposit { label: Label([seed as u8; 16]), sealed: SealedBox([7; BOX_BYTES]) };
            cluster.ledger.sent(round, &deposit);
            if known.is_ok() && rounds.deposit([9; 32], round, deposit.clone(), None).await.is_ok() {
                *heard = true;
                cluster.ledger.acknowledged(round, &deposit);
            }
            for number in 1..=3 {
                let node = nodes[number as usize - 1].take().unwrap();
                let disk = node.crash(&cluster.net, number, seed * 3 + number, false);
                nodes[number as usize - 1] = Some(Node::start(&cluster, number, 2, disk));
            }
            sleep(Duration::from_secs(15)).await;
        });
        stored += usize::from(acknowledged);
        ledger.judge(&signing_key().verifying_key().to_bytes());
        let (_, violations) = world.finish();
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
    }
    assert!(stored > 20, "{stored}");
}

/// Who breaks in: node 2.
const CALLER: Caller = Caller(NodeId::Voter(2));

type Node1 = Raft<TypeConfig, StateMachine>;

/// Node 1 of a cluster whose others never answer, and what one of them may call.
async fn besieged() -> (DurableLog, Node1, Simulated) {
    let net = Net::new(rng(1, "network"), 0, 3);
    let way = Way { net, from: 1, power: CancellationToken::new() };
    let members: BTreeMap<u64, String> = (1..=3).map(|number| (number, format!("node{number}:1"))).collect();
    let raft = Arc::new(Mutex::new(None));
    let joining = {
        let raft = Arc::clone(&raft);
        Box::new(move |joined, _, _| *raft.lock().unwrap() = Some(joined))
    };
    let group = Group { number: 1, members, joins: false, network: Box::new(way), joining };
    let options = Options { segment_bytes: 1 << 20, grouped: true, root: None, salts: Box::new(|| Ok(7)) };
    let disk = Simulated::default();
    let log =
        DurableLog::start_in_inline(group, Arc::new(disk.clone()), options, || Duration::ZERO).await.unwrap();
    let raft = raft.lock().unwrap().take().unwrap();
    (log, raft, disk)
}

async fn lives(raft: &Node1, after: &str) {
    sleep(Duration::from_secs(3)).await;
    let vote = raft.vote(VoteRequest::new(Vote::new(1, 2), None)).await;
    assert!(vote.is_ok(), "the node has ended after {after}: {vote:?}");
}

fn calls(name: &'static str, call: impl AsyncFn(&Node1)) {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
        let (log, raft, disk) = besieged().await;
        call(&raft).await;
        lives(&raft, name).await;
        log.close().await;
        let net = Net::new(rng(1, "network"), 0, 3);
        let network = Box::new(Way { net, from: 1, power: CancellationToken::new() });
        let members: BTreeMap<u64, String> = (1..=3).map(|number| (number, String::new())).collect();
        let group = Group { number: 1, members, joins: false, network, joining: Box::new(|_, _, _| {}) };
        let options =
            Options { segment_bytes: 1 << 20, grouped: true, root: None, salts: Box::new(|| Ok(7)) };
        let again = DurableLog::start_in_inline(group, Arc::new(disk), options, || Duration::ZERO).await;
        let again = again.map(|_| ());
        assert!(again.is_ok(), "after {name} the node does not start any more: {again:?}");
    });
}

fn blank(term: u64, node: u64, index: u64) -> <TypeConfig as openraft::RaftTypeConfig>::Entry {
    openraft::Entry { log_id: log_id(term, node, index), payload: openraft::EntryPayload::Blank }
}

async fn append(raft: &Node1, vote: Vote, previous: Option<sotto_log::LogId>, entries: Vec<(u64, u64, u64)>) {
    let entries: Vec<_> = entries.into_iter().map(|(term, node, index)| blank(term, node, index)).collect();
    let last = entries.last().map(|entry| entry.log_id);
    let request = AppendEntriesRequest { vote, prev_log_id: previous, leader_commit: last, entries };
    // As a node takes it that is called by another.
    if let Ok(request) = append_of(put_append(&request), CALLER) {
        let _ = raft.append_entries(request).await;
    }
    sleep(Duration::from_millis(100)).await;
}

#[test]
fn a_ballot_of_no_member_ends_nobody() {
    calls("a ballot of no member", async |raft| {
        append(raft, Vote::new_committed(7, 99), None, vec![(7, 99, 0)]).await;
    });
}

#[test]
fn a_ballot_in_ones_own_name_ends_nobody() {
    calls("a ballot in its own name", async |raft| {
        append(raft, Vote::new_committed(7, 1), Some(log_id(0, 0, 0)), vec![]).await;
        append(raft, Vote::new_committed(7, 1), Some(log_id(0, 0, 0)), vec![(7, 1, 1)]).await;
    });
}

#[test]
fn a_ballot_that_is_not_committed_ends_nobody() {
    calls("an append under a ballot that is not committed", async |raft| {
        append(raft, Vote::new(7, 2), Some(log_id(0, 0, 0)), vec![(7, 2, 1)]).await;
    });
}

#[test]
fn entries_of_a_later_term_than_their_leaders_end_nobody() {
    calls("entries of a later term", async |raft| {
        append(raft, Vote::new_committed(7, 2), Some(log_id(0, 0, 0)), vec![(9, 2, 1)]).await;
    });
}

#[test]
fn entries_whose_terms_descend_end_nobody() {
    calls("entries whose terms descend", async |raft| {
        append(raft, Vote::new_committed(7, 2), Some(log_id(0, 0, 0)), vec![(7, 2, 1), (6, 3, 2)]).await;
    });
}

#[test]
fn entries_that_contradict_what_is_committed_end_nobody() {
    calls("entries in place of committed ones", async |raft| {
        append(raft, Vote::new_committed(7, 2), Some(log_id(0, 0, 0)), vec![(7, 2, 1), (7, 2, 2)]).await;
        append(raft, Vote::new_committed(8, 3), Some(log_id(0, 0, 0)), vec![(8, 3, 1)]).await;
    });
}

#[test]
fn a_snapshot_beyond_its_leaders_term_ends_nobody() {
    calls("a snapshot beyond its leader's term", async |raft| {
        let bytes = sotto_log::testing::empty_snapshot_at(log_id(9, 2, 100));
        let ballot = put_ballot(&Vote::new_committed(7, 2));
        if let Ok((vote, snapshot)) = snapshot_from(Some(ballot), bytes, CALLER) {
            let raft = raft.clone();
            let _ = tokio::spawn(async move {
                let _ = raft.install_full_snapshot(vote, snapshot).await;
            })
            .await;
        }
    });
}

#[test]
fn the_highest_term_there_can_be_ends_nobody() {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
        let (log, raft, _) = besieged().await;
        let request = VoteRequest::new(Vote::new((1 << 48) - 1, 2), Some(log_id(9, 2, 9)));
        if let Ok(request) = vote_of(put_vote(&request, false), CALLER) {
            let _ = raft.vote(request).await;
        }
        sleep(Duration::from_secs(10)).await;
        let _ = raft.trigger().elect(false).await;
        sleep(Duration::from_secs(5)).await;
        let term = raft.server_metrics().borrow_watched().vote.leader_id.term;
        log.close().await;
        assert!(term < 1 << 48, "its vote is of term {term}, which no start will read");
    });
}
