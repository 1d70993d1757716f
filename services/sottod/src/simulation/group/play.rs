//! A seed's history.

use std::sync::Arc;
use std::time::Duration;

use mpir::noop;
use rand::RngExt;
use rand::rngs::StdRng;
use sotto_log::testing::Simulated;
use sotto_log::{Role, Tenure};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{CodeKind, Deposit, Label, SealedBox, table};
use sotto_wire::Refused;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::net::Net;
use super::node::{Cluster, Node, place};
use crate::config::Config;
use crate::rounds::{RoundNews, Rounds, RunError};
use crate::simulation::ledger::{Figures, Ledger};
use crate::simulation::server::{data, signing_key};
use crate::simulation::world::{ROOT, World, rng};

/// How a seed's cluster is, and what happens to it.
pub(super) struct Play {
    seed: u64,
    round_ms: u32,
    voters: u64,
    answerers: u64,
    people: u8,
    lost: u32,
    way_ms: u64,
    disk_ms: u64,
    compute_ms: u64,
    segment_bytes: u64,
    slots: bool,
    /// How long things fail.
    ms: u64,
}

pub(super) struct History {
    pub(super) trace: Vec<String>,
    pub(super) violations: Vec<String>,
    pub(super) figures: Figures,
    pub(super) crashes: usize,
    /// Nodes that ended because their disks failed.
    pub(super) failures: usize,
}

impl Play {
    pub(super) fn of(seed: u64) -> Self {
        let dice = &mut rng(seed, "cluster");
        Self {
            seed,
            round_ms: dice.random_range(500..2000),
            voters: if dice.random_range(0..4) == 0 { 5 } else { 3 },
            answerers: dice.random_range(0..=2),
            people: dice.random_range(3..8),
            lost: [0, 0, 5, 50][dice.random_range(0..4)],
            way_ms: dice.random_range(1..40),
            disk_ms: [0, 1, 10][dice.random_range(0..3)],
            compute_ms: [0, 50, 500][dice.random_range(0..3)],
            segment_bytes: [4 << 10, 16 << 10, 1 << 20][dice.random_range(0..3)],
            slots: dice.random(),
            ms: dice.random_range(10_000..40_000),
        }
    }

    pub(super) fn run(&self) -> History {
        let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
        config.allow_no_privacy = true;
        config.round_ms = self.round_ms;
        config.retrieve = 2;
        config.retained = 2;
        (config.deposit_ms, config.lookup_ms, config.query_ms) = (0, 0, 0);
        config.data = data();
        (config.limits.threads, config.limits.computing) = (1, 2);
        if self.slots {
            config.code = CodeKind::Partitioned;
        }
        let key = signing_key().verifying_key().to_bytes();
        let parameters = config.parameters(&*noop(), key).unwrap();
        let world = Arc::new(World::default());
        let ledger = Arc::new(Ledger::new(Arc::clone(&world), parameters.clone()));
        let cluster = Cluster {
            seed: self.seed,
            voters: self.voters,
            answerers: self.answerers,
            config,
            parameters,
            root: ROOT,
            engine_of: |_| noop(),
            next_key: None,
            without: None,
            net: Net::new(rng(self.seed, "network"), self.lost, self.way_ms),
            world: Arc::clone(&world),
            ledger: Arc::clone(&ledger),
            segment_bytes: self.segment_bytes,
            disk_ms: Arc::new(self.disk_ms.into()),
            compute_ms: Arc::new(self.compute_ms.into()),
        };
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (crashes, failures) = runtime.block_on(async {
            let _power = world.begin();
            let ends = self.live(&cluster).await;
            world.end();
            ends
        });
        drop(runtime);
        let figures = ledger.judge(&key);
        let (trace, violations) = world.finish();
        History { trace, violations, figures, crashes, failures }
    }

    /// How often nodes crashed, and how often they ended because their disks failed.
    async fn live(&self, cluster: &Cluster) -> (usize, usize) {
        let mut nodes: Vec<Option<Node>> = Vec::new();
        let mut lives = vec![1; cluster.nodes() as usize];
        for number in 1..=cluster.nodes() {
            nodes.push(Some(Node::start(cluster, number, 1, Simulated::default())));
        }
        let mut disks: Vec<Option<Simulated>> = nodes.iter().map(|_| None).collect();
        let mut people = JoinSet::new();
        for person in 1..=self.people {
            let dice = rng(self.seed, format_args!("person {person}"));
            let person = Person {
                account: [person; 32],
                is_known: false,
                slots: self.slots,
                slot: None,
                nodes: cluster.nodes(),
                dice,
                net: cluster.net.clone(),
                world: Arc::clone(&cluster.world),
                ledger: Arc::clone(&cluster.ledger),
            };
            people.spawn(person.live());
        }
        let mut dice = rng(self.seed, "faults");
        let (mut crashes, mut failures) = (0, 0);
        let mut left = self.ms;
        while left > 0 {
            let pause = dice.random_range(100..4000).min(left);
            left -= pause;
            sleep(Duration::from_millis(pause)).await;
            let number = dice.random_range(1..=cluster.nodes());
            let at = number as usize - 1;
            match dice.random_range(0..10) {
                0..=2 => {
                    // Whoever leads is hit more often than by chance.
                    let leads = |number: &u64| matches!(cluster.net.role(*number), Some(Role::Leads { .. }));
                    let leader = (1..=cluster.nodes()).find(leads).filter(|_| dice.random());
                    let number = leader.unwrap_or(number);
                    let at = number as usize - 1;
                    if let Some(node) = nodes[at].take() {
                        let kill = dice.random();
                        cluster.world.note(format_args!("node {number} crashes, process alone: {kill}"));
                        disks[at] = Some(node.crash(&cluster.net, number, dice.random(), kill));
                        crashes += 1;
                    }
                }
                3 | 4 => {
                    if let Some(disk) = disks[at].take() {
                        lives[at] += 1;
                        cluster.world.note(format_args!("node {number} starts again"));
                        nodes[at] = Some(Node::start(cluster, number, lives[at], disk));
                    }
                }
                8 => {
                    if let Some(mut node) = nodes[at].take() {
                        cluster.world.note(format_args!("node {number} is told to end"));
                        if !node.end().await {
                            cluster.world.violated(format_args!("node {number} does not end"));
                        }
                        disks[at] = Some(node.crash(&cluster.net, number, 0, true));
                    }
                }
                5 => {
                    cluster.world.note(format_args!("node {number} is cut off"));
                    for other in (1..=cluster.nodes()).filter(|other| *other != number) {
                        cluster.net.cut(number, other);
                        cluster.net.cut(other, number);
                    }
                }
                9 => {
                    if let Some(node) = &nodes[at] {
                        cluster.world.note(format_args!("the disk of node {number} fails soon"));
                        node.disk.crash_at(Some(node.disk.trace().len() + dice.random_range(0..30)));
                    }
                }
                6 => {
                    let other = dice.random_range(1..=cluster.nodes());
                    cluster.world.note(format_args!("the way from {number} to {other} is cut"));
                    cluster.net.cut(number, other);
                }
                _ => {
                    cluster.world.note("all ways are open");
                    cluster.net.heal();
                }
            }
            for (at, number) in (0..nodes.len()).zip(1..) {
                let Some(node) = nodes[at].take_if(|node| node.disk.crashed()) else { continue };
                let (seed, kill) = (dice.random(), dice.random());
                disks[at] = Some(without_disk(cluster, node, number, seed, kill).await);
                failures += 1;
            }
            check_alive(cluster, &mut nodes).await;
        }
        // Nothing fails any more: within a few rounds all is well.
        cluster.world.note("all is repaired");
        cluster.net.calm();
        for (at, number) in (0..nodes.len()).zip(1..) {
            if let Some(node) = nodes[at].take_if(|node| node.disk.crashed()) {
                disks[at] = Some(without_disk(cluster, node, number, 0, true).await);
                failures += 1;
            }
            if let Some(node) = &nodes[at] {
                node.disk.crash_at(None);
            }
            if let Some(disk) = disks[at].take() {
                lives[at] += 1;
                nodes[at] = Some(Node::start(cluster, number, lives[at], disk));
            }
        }
        let round = u64::from(self.round_ms);
        sleep(Duration::from_millis(10_000 + 4 * round)).await;
        // What was promised last is sealed and read.
        people.shutdown().await;
        // Who was let in last is known to a majority. The others, and who follows them, hear of it over a few ways.
        sleep(Duration::from_secs(1)).await;
        cluster.ledger.all_must_know();
        sleep(Duration::from_millis(1000 + 4 * round)).await;
        check_alive(cluster, &mut nodes).await;
        self.check_agreement(cluster).await;
        (crashes, failures)
    }

    /// All nodes serve the newest rounds, and one of them leads.
    async fn check_agreement(&self, cluster: &Cluster) {
        let world = &cluster.world;
        let leaders: Vec<u64> = (1..=cluster.nodes())
            .filter(|number| matches!(cluster.net.role(*number), Some(Role::Leads { .. })))
            .collect();
        if leaders.len() != 1 {
            world.violated(format_args!("nodes {leaders:?} lead"));
        }
        let mut newest = None;
        for number in 1..=cluster.nodes() {
            let asked = async { cluster.net.rounds(number)?.current().await.ok() };
            let Ok(Some(open)) = timeout(Duration::from_secs(5), asked).await else {
                world.violated(format_args!("node {number} does not answer"));
                continue;
            };
            // One round of difference is the time that the news travels.
            let before = *newest.get_or_insert(open);
            if open.0.abs_diff(before.0) > 1 {
                world.violated(format_args!("node {number} is in round {open}, another in {before}"));
            }
            if let Err(what) = knows_places(cluster, number).await {
                world.violated(format_args!("node {number} tells people {what}"));
            }
            let served = [open.back(2), open.back(3)];
            let mut any = false;
            for round in served {
                let Some(rounds) = cluster.net.rounds(number) else { continue };
                any |= rounds.served(round).await.is_ok();
            }
            if !any {
                world.violated(format_args!("node {number} serves neither of {served:?}"));
            }
        }
    }
}

/// Whether who comes to a node is told where all are.
async fn knows_places(cluster: &Cluster, number: u64) -> Result<(), String> {
    let rounds = cluster.net.rounds(number).ok_or("nothing")?;
    let mut watch = rounds.watch([255; 32], false).await.map_err(|refused| format!("{refused:?}"))?;
    // Behind what is announced.
    let Ok(RoundNews::Announced(_)) = watch.next().await else { return Err("no announcement".into()) };
    let Ok(RoundNews::Directory(directory)) = watch.next().await else { return Err("no directory".into()) };
    let key = signing_key().verifying_key().to_bytes();
    let directory = directory.verify(&ROOT.0, &key).map_err(|error| error.to_string())?;
    let expected: Vec<String> = (1..=cluster.nodes()).map(place).collect();
    if directory.nodes() == expected { Ok(()) } else { Err(format!("{:?}", directory.nodes())) }
}

/// A node whose disk fails ends soon, and says why. What is left is what was synced, or all that was written.
async fn without_disk(cluster: &Cluster, mut node: Node, number: u64, seed: u64, kill: bool) -> Simulated {
    let ended = timeout(Duration::from_secs(3), &mut node.rounds).await;
    cluster.world.note(format_args!("node {number} has lost its disk: {ended:?}"));
    if !matches!(ended, Ok(Ok(Err(RunError::Log(_))))) {
        cluster.world.violated(format_args!("node {number} goes on without its disk: {ended:?}"));
    }
    node.crash(&cluster.net, number, seed, kill)
}

/// A node that has power, and a disk, does not end.
async fn check_alive(cluster: &Cluster, nodes: &mut [Option<Node>]) {
    for (node, number) in nodes.iter_mut().zip(1..) {
        let Some(alive) = node else { continue };
        if alive.rounds.is_finished() {
            let ended = (&mut alive.rounds).await;
            cluster.world.violated(format_args!("node {number} ended by itself: {ended:?}"));
            *node = None;
        }
    }
}

/// Somebody who joins, brings a deposit in every round, to any node, and the same to others until one says that it has it; and joins
/// under another account now and then, with or without closing the one before.
struct Person {
    account: [u8; 32],
    /// Whether a node has said so.
    is_known: bool,
    slots: bool,
    slot: Option<Tenure>,
    nodes: u64,
    dice: StdRng,
    net: Net,
    world: Arc<World>,
    ledger: Arc<Ledger>,
}

impl Person {
    fn begin_anew(&mut self) {
        self.account[1] = self.account[1].wrapping_add(1);
        (self.is_known, self.slot) = (false, None);
    }

    /// Whether this node, or who leads, lets it in.
    async fn join(&mut self, rounds: &Rounds) -> bool {
        let joining = rounds.register(self.account, None, self.slot);
        let Ok(joined) = timeout(Duration::from_secs(2), joining).await else { return false };
        match joined {
            Ok(slot) => {
                self.ledger.admitted(self.account, slot.map(|tenure| tenure.slot));
                if slot.is_some() != self.slots || self.slot.is_some_and(|own| Some(own) != slot) {
                    self.world.violated(format_args!("who has slot {:?} is given {slot:?}", self.slot));
                }
                (self.is_known, self.slot) = (true, slot);
            }
            // The answer with its slot was lost, and so was who remembered it.
            Err(Refused::Slot) if self.slot.is_none() => self.begin_anew(),
            Err(Refused::Slot) => self.world.violated("a slot that was given is not taken"),
            Err(_) => {}
        }
        joined.is_ok()
    }

    /// At one node after the other, until one says that it is done. Nobody is this account any more in any case.
    async fn close(&mut self) {
        self.ledger.closing(self.account, self.slot.map(|tenure| tenure.slot));
        for _ in 0..4 {
            let number = self.dice.random_range(1..=self.nodes);
            let Some(rounds) = self.net.rounds(number) else { continue };
            let closing = rounds.close(self.account, self.slot);
            if timeout(Duration::from_secs(2), closing).await == Ok(Ok(())) {
                self.world.note(format_args!("person {} closed an account at {number}", self.account[0]));
                self.ledger.closed();
                return;
            }
        }
    }

    async fn live(mut self) {
        let mut done = None;
        loop {
            sleep(Duration::from_millis(self.dice.random_range(20..200))).await;
            if self.dice.random_range(0..20) == 0 {
                if self.is_known && self.dice.random() {
                    self.close().await;
                }
                self.begin_anew();
            }
            let number = self.dice.random_range(1..=self.nodes);
            let Some(rounds) = self.net.rounds(number) else { continue };
            // Also who is known comes again.
            if (!self.is_known || self.dice.random_range(0..10) == 0) && !self.join(&rounds).await {
                continue;
            }
            let Ok(Ok(round)) = timeout(Duration::from_secs(1), rounds.current()).await else { continue };
            if done >= Some(round) {
                continue;
            }
            done = Some(round);
            let mut sealed = [0; BOX_BYTES];
            sealed[..32].copy_from_slice(&self.account);
            sealed[32..40].copy_from_slice(&round.0.to_le_bytes());
            let label = match self.slot {
                Some(tenure) => table::stored(tenure.slot, &self.dice.random()),
                None => Label(self.dice.random()),
            };
            let deposit = Deposit { label, sealed: SealedBox(sealed) };
            self.ledger.sent(round, &deposit);
            for _ in 0..12 {
                let number = self.dice.random_range(1..=self.nodes);
                let Some(rounds) = self.net.rounds(number) else {
                    sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let brought = rounds.deposit(self.account, round, deposit.clone(), self.slot);
                match timeout(Duration::from_secs(2), brought).await {
                    Ok(Ok(())) => {
                        self.world
                            .note(format_args!("person {} stored {round} at {number}", self.account[0]));
                        self.ledger.acknowledged(round, &deposit);
                        break;
                    }
                    Ok(Err(Refused::RoundClosed)) => break,
                    Ok(Err(_)) | Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        }
    }
}
