//! A manifest key that follows on another, in a cluster whose nodes die meanwhile, or lack its secret.

use std::sync::Arc;
use std::time::Duration;

use ed25519_dalek::SigningKey;
use mpir::noop;
use sotto_log::testing::Simulated;
use sotto_log::{Batch, Record, Role};
use sotto_protocol::{Round, SeedCommitment, ServerParameters};
use sotto_wire::root::endorse;
use sotto_wire::{Announced, RootKey};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use super::net::Net;
use super::node::{Cluster, Node};
use crate::config::Config;
use crate::simulation::ledger::Ledger;
use crate::simulation::server::{data, signing_key};
use crate::simulation::world::{World, rng};

const NODES: u64 = 3;
const ROUND_MS: u32 = 1000;
/// A play takes less than two minutes.
const LONGEST: Duration = Duration::from_secs(300);
/// From so many rounds after the announcement on the next key signs.
const AHEAD: u64 = 8;

fn next_key() -> SigningKey {
    SigningKey::from_bytes(&[0x6e; 32])
}

/// What happens in a cluster around the first round of its next key.
#[derive(Clone, Copy, Debug)]
struct Play {
    seed: u64,
    /// How many rounds before that the node that leads dies; none if it lives.
    dies: Option<u64>,
    /// Whether one that follows lacks the secret.
    lacks: bool,
    /// Whether the one that leads has announced another key before, of its own.
    lies: bool,
}

fn cluster(play: Play) -> Cluster {
    let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
    config.allow_no_privacy = true;
    (config.round_ms, config.retrieve, config.retained) = (ROUND_MS, 2, 2);
    (config.deposit_ms, config.lookup_ms, config.query_ms) = (0, 0, 0);
    config.data = data();
    (config.limits.threads, config.limits.computing) = (1, 2);
    let key = signing_key().verifying_key().to_bytes();
    let mut parameters = config.parameters(&*noop(), key).unwrap();
    parameters.serial = 1;
    parameters.seeds = SeedCommitment { first: Round(1), segments: 1 << 20, root: [1; 32] };
    let world = Arc::new(World::default());
    let ledger = Arc::new(Ledger::new(Arc::clone(&world), parameters.clone()));
    Cluster {
        seed: play.seed,
        voters: NODES,
        answerers: 0,
        config,
        parameters,
        root: RootKey(root().verifying_key().to_bytes()),
        engine_of: |_| noop(),
        next_key: Some(next_key()),
        // The first node to lead is another one in every seed: the one that lacks the secret is looked for then.
        without: play.lacks.then_some(1 + play.seed % NODES),
        net: Net::new(rng(play.seed, "network"), 0, 5),
        world,
        ledger,
        segment_bytes: 16 << 10,
        disk_ms: Arc::new(1.into()),
        compute_ms: Arc::new(50.into()),
    }
}

fn root() -> SigningKey {
    SigningKey::from_bytes(&[0x7e; 32])
}

fn leader(cluster: &Cluster) -> Option<u64> {
    (1..=NODES).find(|number| matches!(cluster.net.role(*number), Some(Role::Leads { .. })))
}

async fn open(cluster: &Cluster) -> Round {
    let mut open = Round(0);
    for number in 1..=NODES {
        if let Some(rounds) = cluster.net.rounds(number) {
            open = open.max(rounds.current().await.unwrap_or_default());
        }
    }
    open
}

/// Has the node that leads announce the next key; the announcement. One that lacks the secret refuses, and another one leads.
async fn announce(cluster: &Cluster) -> ServerParameters {
    loop {
        sleep(Duration::from_millis(200)).await;
        let Some(leader) = leader(cluster) else { continue };
        let Some(rounds) = cluster.net.rounds(leader) else { continue };
        let mut next = cluster.parameters.clone();
        let first = Round(open(cluster).await.0 + AHEAD);
        next.serial += 1;
        next.manifest_key = next_key().verifying_key().to_bytes();
        next.key_epoch = next.key_epoch.next(cluster.parameters.manifest_key, first, Round(u64::MAX));
        let announced = Announced::new(&next, endorse(&root(), &next));
        let forged = Announced::new(&next, endorse(&next_key(), &next));
        assert!(rounds.announce(forged).await.unwrap_err().contains("root key"));
        match rounds.announce(announced.clone()).await {
            Ok(first) => {
                assert_eq!(first, next.key_epoch.first);
                assert!(rounds.announce(announced).await.is_err(), "twice");
                return next;
            }
            Err(refused) => {
                assert!(Some(leader) == cluster.without && refused.contains("manifest-2.key"), "{refused}");
                let raft = cluster.net.raft(leader).unwrap();
                let _ = raft.trigger().transfer_leader(1 + leader % NODES).await;
                sleep(Duration::from_secs(2)).await;
            }
        }
    }
}

/// Puts an announcement of its own into the log, as a node that leads can.
async fn lie(cluster: &Cluster) {
    let thief = SigningKey::from_bytes(&[0x66; 32]);
    let mut forged = cluster.parameters.clone();
    let first = Round(open(cluster).await.0 + AHEAD);
    (forged.serial, forged.manifest_key) = (forged.serial + 7, thief.verifying_key().to_bytes());
    forged.key_epoch = forged.key_epoch.next(cluster.parameters.manifest_key, first, Round(u64::MAX));
    let announced = Announced::new(&forged, endorse(&thief, &forged));
    let raft = cluster.net.raft(leader(cluster).unwrap()).unwrap();
    let written = raft.client_write(Batch(vec![Record::Announced(Box::new(announced))])).await.unwrap();
    assert!(written.data.refused.is_some());
    sleep(Duration::from_secs(3)).await;
}

async fn live(cluster: &Cluster, play: Play) {
    let start = |number, life, disk| Some(Node::start(cluster, number, life, disk));
    let mut nodes: Vec<Option<Node>> =
        (1..=NODES).map(|number| start(number, 1, Simulated::default())).collect();
    sleep(Duration::from_secs(8)).await;
    if play.lies {
        lie(cluster).await;
    }
    let next = announce(cluster).await;
    let first = next.key_epoch.first;
    if let Some(before) = play.dies {
        while open(cluster).await.0 + before < first.0 {
            sleep(Duration::from_millis(20)).await;
        }
        let number = leader(cluster).unwrap();
        let at = number as usize - 1;
        let disk = nodes[at].take().unwrap().crash(&cluster.net, number, play.seed, false);
        sleep(Duration::from_secs(12)).await;
        nodes[at] = start(number, 2, disk);
    }
    while open(cluster).await.0 < first.0 + 8 {
        sleep(Duration::from_millis(100)).await;
    }
    sleep(Duration::from_secs(8)).await;
    assert!(
        cluster.without.is_none() || leader(cluster) != cluster.without,
        "{play:?}: who cannot sign leads"
    );
    let newest = open(cluster).await;
    assert!(newest.0 > first.0 + 8, "{play:?}: rounds stand still");
    for number in 1..=NODES {
        let node = nodes[number as usize - 1].as_ref().unwrap();
        assert!(!node.rounds.is_finished(), "{play:?}: node {number} has ended");
        let manifests = cluster.net.rounds(number).unwrap().manifests(Round(0), newest).await.unwrap();
        let mut rounds = Vec::new();
        for manifest in manifests {
            let round = manifest.claimed_round();
            let held = manifest.verify(&next.manifest_key_of(round).unwrap());
            assert!(held.is_ok(), "{play:?}: round {round} of node {number}, the key begins with {first}");
            rounds.push(round.0);
        }
        let around = first.0 - 4..first.0 + 6;
        let published: Vec<u64> = rounds.into_iter().filter(|round| around.contains(round)).collect();
        assert_eq!(published, around.collect::<Vec<_>>(), "{play:?}: rounds are missing");
    }
}

fn play(play: Play) {
    let cluster = cluster(play);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let _power = cluster.world.begin();
        // Whatever is waited for may never come.
        let lived = timeout(LONGEST, live(&cluster, play)).await;
        assert!(lived.is_ok(), "{play:?}: the key is not announced, or rounds stand still");
        cluster.world.end();
    });
    drop(runtime);
    let (_, violations) = cluster.world.finish();
    assert!(violations.is_empty(), "{play:?}: {violations:?}");
}

#[test]
fn a_cluster_signs_with_the_next_key_from_one_round_on_whoever_dies_around_it() {
    for seed in 1..=2 {
        for dies in [None, Some(2), Some(1), Some(0)] {
            play(Play { seed, dies, lacks: false, lies: false });
        }
    }
}

/// Whoever has broken into a node has it lead. It stops nobody, and stands in the way of nothing.
#[test]
fn a_leader_that_announces_what_the_root_has_not_signed_ends_nobody_and_the_real_key_is_taken_afterwards() {
    let play = Play { seed: 5, dies: None, lacks: false, lies: true };
    self::play(play);
}

#[test]
fn a_node_without_the_secret_of_the_next_key_does_not_lead_and_stops_nobody() {
    for seed in 1..=3 {
        for dies in [None, Some(1)] {
            play(Play { seed, dies, lacks: true, lies: false });
        }
    }
}
