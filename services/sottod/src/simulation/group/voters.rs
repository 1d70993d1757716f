//! Changes of who votes that are broken off, or meet nodes that have gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use openraft::{BasicNode, ChangeMembers, Raft};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::net::{Net, Way};
use crate::log::{
    Change, DurableLog, Group, Options, Role, RoundLog as _, Sequencer as _, Simulated, StateMachine,
    TypeConfig, change,
};
use crate::peers::Member;
use crate::simulation::world::rng;

type Node = Raft<TypeConfig, StateMachine>;

/// The logs of nodes 1 to 3, which found a cluster, and of node 4, which waits to be taken in.
struct Logs {
    net: Net,
    logs: BTreeMap<u64, DurableLog>,
}

fn address(number: u64) -> String {
    format!("node{number}:1")
}

impl Logs {
    async fn start() -> Self {
        let net = Net::new(rng(1, "network"), 0, 3);
        let mut logs = Self { net, logs: BTreeMap::new() };
        for number in 1..=4 {
            logs.join(number).await;
        }
        sleep(Duration::from_secs(5)).await;
        logs
    }

    async fn join(&mut self, number: u64) {
        let way = Way { net: self.net.clone(), from: number, power: CancellationToken::new() };
        let members = (1..=number.max(3)).map(|number| (number, address(number))).collect();
        let net = self.net.clone();
        let joining = Box::new(move |raft, kept, role| {
            net.joined(number, Member { raft: Some(raft), kept, role });
        });
        let group = Group { number, members, joins: number > 3, network: way, joining };
        let options = Options {
            segment_bytes: 1 << 20,
            grouped: true,
            root: None,
            salts: Box::new(move || Ok(number)),
        };
        let disk = Arc::new(Simulated::default());
        let log = DurableLog::start_in_inline(group, disk, options, || Duration::ZERO).await.unwrap();
        self.logs.insert(number, log);
    }

    /// The one that leads, and the two others that vote.
    fn leader(&self) -> (u64, Node, [u64; 2]) {
        let leads = |number: &u64| matches!(self.net.role(*number), Some(Role::Leads { .. }));
        let leader = (1..=3).find(leads).unwrap();
        let others: Vec<u64> = (1..=3).filter(|number| *number != leader).collect();
        (leader, self.net.raft(leader).unwrap(), others.try_into().unwrap())
    }

    /// It ends, and answers nobody any more.
    async fn lose(&mut self, number: u64) {
        self.net.gone(number);
        self.logs.remove(&number).unwrap().close().await;
    }

    /// Whether entries are committed.
    async fn goes_on(&self, leader: u64) -> bool {
        let proposed = self.logs[&leader].propose(Vec::new()).await;
        timeout(Duration::from_secs(5), proposed).await.is_ok_and(|proposed| proposed.is_ok())
    }
}

/// Node 4 gets the log, and has no vote yet.
async fn learns(raft: &Node) {
    let node = BTreeMap::from([(4, BasicNode::new(address(4)))]);
    raft.change_membership(ChangeMembers::AddNodes(node), false).await.unwrap();
    sleep(Duration::from_secs(2)).await;
}

fn configs(raft: &Node) -> Vec<BTreeSet<u64>> {
    raft.metrics().borrow_watched().membership_config.membership().get_joint_config().clone()
}

fn play(history: impl AsyncFnOnce(Logs)) {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
        history(Logs::start().await).await;
    });
}

#[test]
fn a_change_that_was_broken_off_between_its_steps_is_completed_by_the_same_command() {
    for replaces in [false, true] {
        play(async |logs| {
            let (leader, raft, [other, lost]) = logs.leader();
            learns(&raft).await;
            let (wanted, after) = if replaces {
                let change = Change::Replace { number: lost, by: 4, address: address(4) };
                (change, BTreeSet::from([leader, other, 4]))
            } else {
                (Change::Add { number: 4, address: address(4) }, BTreeSet::from([1, 2, 3, 4]))
            };
            let mut metrics = raft.metrics();
            let begun = async {
                while configs(&raft).len() < 2 {
                    metrics.changed().await.unwrap();
                }
            };
            tokio::select! {
                biased;
                () = begun => {}
                _ = raft.change_membership(ChangeMembers::ReplaceAllVoters(after.clone()), false) => panic!("too late"),
            }
            sleep(Duration::from_secs(1)).await;
            assert_eq!(configs(&raft).len(), 2, "it was not broken off");
            assert_eq!(change(&raft, wanted).await, Ok(after.clone()));
            assert_eq!(configs(&raft), [after]);
        });
    }
}

#[test]
fn a_node_that_had_all_of_the_log_and_is_gone_gets_no_vote() {
    play(async |mut logs| {
        let (leader, raft, [_, lost]) = logs.leader();
        learns(&raft).await;
        logs.lose(4).await;
        logs.lose(lost).await;
        sleep(Duration::from_secs(5)).await;
        let added = change(&raft, Change::Add { number: 4, address: address(4) }).await;
        assert!(logs.goes_on(leader).await, "with two of three there, after: {added:?}");
        assert!(added.is_err(), "{added:?}");
        assert_eq!(configs(&raft), [BTreeSet::from([1, 2, 3])]);
    });
}

#[test]
fn the_lead_is_handed_to_one_that_votes() {
    play(async |logs| {
        let (leader, raft, _) = logs.leader();
        learns(&raft).await;
        logs.logs[&leader].hand_over().await;
        sleep(Duration::from_millis(100)).await;
        let next: Vec<u64> =
            (1..=4).filter(|number| matches!(logs.net.role(*number), Some(Role::Leads { .. }))).collect();
        assert!(next.len() == 1 && next[0] != leader && next[0] != 4, "from {leader} to {next:?}");
    });
}

#[test]
fn a_node_that_was_to_vote_and_never_did_is_forgotten_when_it_is_removed() {
    play(async |mut logs| {
        let (leader, raft, _) = logs.leader();
        learns(&raft).await;
        logs.lose(4).await;
        let voters = BTreeSet::from([1, 2, 3]);
        assert_eq!(change(&raft, Change::Remove { number: 4 }).await, Ok(voters.clone()));
        let metrics = raft.metrics().borrow_watched().clone();
        let known: BTreeSet<u64> = metrics.membership_config.nodes().map(|(number, _)| *number).collect();
        assert_eq!(known, voters);
        assert!(logs.goes_on(leader).await);
        let unknown = change(&raft, Change::Remove { number: 4 }).await;
        assert!(unknown.is_err(), "{unknown:?}");
    });
}

/// The directory of node 4 was lost, and one was made anew under its number.
#[test]
fn a_node_whose_log_is_lost_ends_nobody_else() {
    play(async |mut logs| {
        let (leader, raft, _) = logs.leader();
        learns(&raft).await;
        logs.lose(4).await;
        sleep(Duration::from_secs(2)).await;
        logs.join(4).await;
        sleep(Duration::from_secs(5)).await;
        assert!(logs.goes_on(leader).await, "the node that leads has ended");
    });
}
