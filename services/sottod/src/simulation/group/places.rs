//! Where people are told that the nodes are: of a scripted log.

use sotto_log::{Feed, Record, Role};
use tokio::time::sleep;

use super::scripted::{Fate, Scripted, TOKENS, play, soon, start};
use crate::cluster::NodeId;
use crate::rounds::{EVERY, LEASE, Place, RoundNews, Rounds};
use crate::simulation::server::signing_key;
use crate::simulation::world::ROOT;

/// Number and nodes of the newest directory.
fn told(log: &Scripted) -> Option<(u64, Vec<String>)> {
    let state = log.state();
    let key = signing_key().verifying_key().to_bytes();
    let directory = state.directory()?.verify(&ROOT.0, &key).unwrap();
    Some((directory.number(), directory.nodes().to_vec()))
}

fn nodes(number: u64, nodes: &[&str]) -> Option<(u64, Vec<String>)> {
    Some((number, nodes.iter().map(|node| (*node).to_owned()).collect()))
}

async fn says(rounds: &Rounds, this: NodeId, authority: &str) {
    rounds.place(Place { this, authority: authority.to_owned() }).await;
}

/// Time for whoever leads to look at what was said.
async fn a_while() {
    sleep(EVERY).await;
    soon().await;
}

#[test]
fn people_are_told_of_a_node_when_it_comes_and_not_of_one_that_is_long_gone() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let rounds = start(&TOKENS, log.clone(), 1).rounds;
        soon().await;
        let mut watch = rounds.watch([1; 32], false).await.unwrap();
        assert_eq!(told(&log), nodes(1, &["node1:7370"]));
        says(&rounds, NodeId::Answerer(1), "b:2").await;
        says(&rounds, NodeId::Voter(2), "a:1").await;
        a_while().await;
        assert_eq!(told(&log), nodes(2, &["a:1", "b:2", "node1:7370"]));
        // It has moved: nobody is left out early.
        says(&rounds, NodeId::Voter(2), "c:3").await;
        a_while().await;
        assert_eq!(told(&log), nodes(3, &["a:1", "b:2", "c:3", "node1:7370"]));
        let end = tokio::time::Instant::now() + LEASE;
        while tokio::time::Instant::now() < end {
            says(&rounds, NodeId::Voter(2), "c:3").await;
            sleep(EVERY).await;
        }
        a_while().await;
        // Nothing is said twice: there were two more, when each of the others was left out.
        let (number, left) = told(&log).unwrap();
        assert!((4..=5).contains(&number) && left == ["c:3", "node1:7370"], "{number} {left:?}");
        // Who watches hears all of them in order, who comes now the newest, behind what is announced and before the rounds.
        let mut heard = Vec::new();
        while heard.last() != Some(&number) {
            if let RoundNews::Directory(directory) = watch.next().await.unwrap() {
                heard.push(directory.claimed_number());
            }
        }
        assert_eq!(heard, (1..=number).collect::<Vec<_>>());
        let mut watch = rounds.watch([2; 32], false).await.unwrap();
        assert!(matches!(watch.next().await.unwrap(), RoundNews::Announced(_)));
        let next = watch.next().await.unwrap();
        assert!(matches!(next, RoundNews::Directory(newest) if newest.claimed_number() == number));
    });
}

/// It has not heard of the others yet.
#[test]
fn who_leads_anew_leaves_nobody_out_at_first() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let rounds = start(&TOKENS, log.clone(), 1).rounds;
        soon().await;
        says(&rounds, NodeId::Voter(2), "a:1").await;
        a_while().await;
        let all = nodes(2, &["a:1", "node1:7370"]);
        assert_eq!(told(&log), all);
        sleep(LEASE / 2).await;
        log.role.send_replace(Role::Follows { leader: None });
        soon().await;
        log.role.send_replace(Role::Leads { term: 2 });
        sleep(LEASE - 2 * EVERY).await;
        assert_eq!(told(&log), all);
        sleep(3 * EVERY).await;
        assert_eq!(told(&log), nodes(3, &["node1:7370"]));
    });
}

#[test]
fn a_node_whose_place_nobody_can_be_told_keeps_no_other_out() {
    play(async {
        let log = Scripted::new(|_| Fate::Stands);
        let rounds = start(&TOKENS, log.clone(), 1).rounds;
        soon().await;
        says(&rounds, NodeId::Voter(2), &format!("{}:1", "a".repeat(200))).await;
        says(&rounds, NodeId::Voter(3), "a b:1").await;
        for number in 1..=100 {
            says(&rounds, NodeId::Answerer(number), &format!("answerer{number:03}:1")).await;
        }
        a_while().await;
        let (number, all) = told(&log).unwrap();
        assert_eq!((number, all.len()), (2, 64));
        assert!(all.contains(&"node1:7370".to_owned()), "who was told stays");
        a_while().await;
        assert_eq!(told(&log).unwrap(), (number, all));
    });
}

#[test]
fn a_directory_of_which_nothing_was_heard_is_proposed_by_the_next_lead() {
    play(async {
        let mut lost = false;
        let log = Scripted::new(move |records| {
            let first = records.iter().any(|record| matches!(record, Record::Directory(_)))
                && !core::mem::replace(&mut lost, true);
            if first { Fate::Never } else { Fate::Stands }
        });
        let _stage = start(&TOKENS, log.clone(), 1);
        a_while().await;
        assert_eq!(told(&log), None);
        log.role.send_replace(Role::Follows { leader: None });
        soon().await;
        log.role.send_replace(Role::Leads { term: 2 });
        soon().await;
        assert_eq!(told(&log), nodes(1, &["node1:7370"]));
    });
}

#[test]
fn a_directory_that_came_to_nothing_is_proposed_again() {
    play(async {
        let mut failed = false;
        let log = Scripted::new(move |records| {
            let first = records.iter().any(|record| matches!(record, Record::Directory(_)))
                && !core::mem::replace(&mut failed, true);
            if first { Fate::Elsewhere } else { Fate::Stands }
        });
        let _stage = start(&TOKENS, log.clone(), 1);
        soon().await;
        assert_eq!(told(&log), None);
        a_while().await;
        assert_eq!(told(&log), nodes(1, &["node1:7370"]));
    });
}
