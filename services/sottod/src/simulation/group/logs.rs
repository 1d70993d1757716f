//! The logs of a cluster, and nothing on top of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::Raft;
use sotto_log::testing::Simulated;
use sotto_log::{DurableLog, Group, Options, Role, RoundLog as _, Sequencer as _, StateMachine, TypeConfig};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::net::{Net, Way};
use crate::peers::Member;
use crate::simulation::world::rng;

/// The logs of nodes 1 to 3, which found a cluster, and of node 4, which waits to be taken in.
pub(super) struct Logs {
    pub(super) net: Net,
    pub(super) logs: BTreeMap<u64, DurableLog>,
    disks: BTreeMap<u64, Simulated>,
    power: CancellationToken,
}

pub(super) fn address(number: u64) -> String {
    format!("node{number}:1")
}

impl Logs {
    async fn start() -> Self {
        let net = Net::new(rng(1, "network"), 0, 3);
        let mut logs =
            Self { net, logs: BTreeMap::new(), disks: BTreeMap::new(), power: CancellationToken::new() };
        for number in 1..=4 {
            logs.join(number, Simulated::default()).await;
        }
        sleep(Duration::from_secs(5)).await;
        logs
    }

    pub(super) async fn join(&mut self, number: u64, disk: Simulated) {
        let way = Way { net: self.net.clone(), from: number, power: self.power.clone() };
        let members = (1..=number.max(3)).map(|number| (number, address(number))).collect();
        let net = self.net.clone();
        let joining = Box::new(move |raft, kept, role| {
            net.joined(number, Member { raft: Some(raft), kept, role });
        });
        let group = Group { number, members, joins: number > 3, network: Box::new(way), joining };
        let options = Options {
            segment_bytes: 1 << 20,
            grouped: true,
            root: None,
            salts: Box::new(move || Ok(number)),
        };
        self.disks.insert(number, disk.clone());
        let log =
            DurableLog::start_in_inline(group, Arc::new(disk), options, || Duration::ZERO).await.unwrap();
        self.logs.insert(number, log);
    }

    /// The one that leads, and the two others that vote.
    pub(super) fn leader(&self) -> (u64, Raft<TypeConfig, StateMachine>, [u64; 2]) {
        let leads = |number: &u64| matches!(self.net.role(*number), Some(Role::Leads { .. }));
        let leader = (1..=3).find(leads).unwrap();
        let others: Vec<u64> = (1..=3).filter(|number| *number != leader).collect();
        (leader, self.net.raft(leader).unwrap(), others.try_into().unwrap())
    }

    /// It ends, and answers nobody any more.
    pub(super) async fn lose(&mut self, number: u64) {
        self.net.gone(number);
        self.logs.remove(&number).unwrap().close().await;
    }

    /// All end at once, and those that found the cluster start again with what they had written. They reach each other once
    /// the ways are healed.
    pub(super) async fn end_and_start_all(&mut self) {
        core::mem::take(&mut self.power).cancel();
        let left = self.disks.values().map(Simulated::after_kill).collect::<Vec<_>>();
        for (number, log) in core::mem::take(&mut self.logs) {
            self.net.gone(number);
            self.disks[&number].crash_at(Some(0));
            log.close().await;
        }
        for from in 1..=3 {
            (1..=3).for_each(|to| self.net.cut(from, to));
        }
        for (number, disk) in (1..=3).zip(left) {
            self.join(number, disk).await;
        }
    }

    /// Whether entries are committed.
    pub(super) async fn goes_on(&self, leader: u64) -> bool {
        let proposed = self.logs[&leader].propose(Vec::new()).await;
        timeout(Duration::from_secs(5), proposed).await.is_ok_and(|proposed| proposed.is_ok())
    }
}

pub(super) fn play(history: impl AsyncFnOnce(Logs)) {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
        history(Logs::start().await).await;
    });
}
