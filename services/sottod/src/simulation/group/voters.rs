//! Changes of who votes that are broken off, or meet nodes that have gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use openraft::{BasicNode, ChangeMembers, Raft};
use sotto_log::testing::Simulated;
use sotto_log::voters::change;
use sotto_log::{Change, Role, Sequencer as _, StateMachine, TypeConfig};
use tokio::time::sleep;

use super::logs::{address, play};

type Node = Raft<TypeConfig, StateMachine>;

/// Node 4 gets the log, and has no vote yet.
async fn learns(raft: &Node) {
    let node = BTreeMap::from([(4, BasicNode::new(address(4)))]);
    raft.change_membership(ChangeMembers::AddNodes(node), false).await.unwrap();
    sleep(Duration::from_secs(2)).await;
}

fn configs(raft: &Node) -> Vec<BTreeSet<u64>> {
    raft.metrics().borrow_watched().membership_config.membership().get_joint_config().clone()
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
        logs.join(4, Simulated::default()).await;
        sleep(Duration::from_secs(5)).await;
        assert!(logs.goes_on(leader).await, "the node that leads has ended");
    });
}

#[test]
fn a_node_that_was_cut_off_and_comes_back_unseats_nobody() {
    play(async |logs| {
        let term = |number| match logs.net.role(number) {
            Some(Role::Leads { term }) => Some(term),
            _ => None,
        };
        let (leader, _, [apart, _]) = logs.leader();
        let before = term(leader);
        for other in (1..=4).filter(|other| *other != apart) {
            logs.net.cut(other, apart);
            logs.net.cut(apart, other);
        }
        sleep(Duration::from_secs(10)).await;
        logs.net.heal();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(term(leader), before);
    });
}
