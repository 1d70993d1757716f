//! Having another node lead.

use core::time::Duration;
use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver as _;
use serde::{Deserialize, Serialize};
use sotto_log::Role;
use tokio::time::Instant;

use crate::peers::{Joined, Member};

/// Another node leads within this, or does not: about two elections.
const PATIENCE: Duration = Duration::from_secs(5);
/// Whoever was not heard of for so long is not there. Nodes hear of the one that leads four times a second.
const UNHEARD: Duration = Duration::from_secs(2);
/// A node that lacks more entries than this is busy with them: until it has them all, nobody would lead.
const BEHIND_MAX: u64 = 256;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Transferred {
    /// The node that leads now.
    pub(crate) leader: u64,
    /// After so many ms.
    pub(crate) ms: u64,
}

/// Has another node lead: this one, or whichever has stored most.
pub(super) async fn run(node: Option<&Joined>, to: Option<u64>) -> anyhow::Result<Transferred> {
    let joined = node.context("this server is alone: there is no other node that could lead")?;
    let member = joined.borrow().clone().context("the node is still reading its log; try again")?;
    let Member { raft, mut role, kept: _ } = member;
    let raft = raft.context("this node has no vote, and cannot lead: ask at one that has")?;
    let own = raft.metrics().borrow_watched().id;
    match *role.borrow() {
        Role::Leads { .. } => {}
        Role::Follows { leader: Some(leader) } => {
            bail!("node {leader} leads: run this on its machine, or nothing if that is as it should be")
        }
        Role::Follows { leader: None } => bail!("no node leads just now: see 'sottod status' on the others"),
    }
    let to = successor(&raft.metrics().borrow_watched().clone(), to)?;
    let began = Instant::now();
    raft.trigger().transfer_leader(to).await.context("the log of this node has failed")?;
    let elsewhere = |role: &Role| matches!(role, Role::Follows { leader: Some(leader) } if *leader != own);
    let followed = match tokio::time::timeout(PATIENCE, role.wait_for(elsewhere)).await {
        Ok(followed) => *followed.context("the node ends")?,
        Err(_) => bail!(
            "no other node was seen to lead within {} s: see 'sottod status' on all nodes, and try again",
            PATIENCE.as_secs()
        ),
    };
    let Role::Follows { leader: Some(leader) } = followed else { bail!("this node leads again") };
    Ok(Transferred { leader, ms: began.elapsed().as_millis().try_into().unwrap_or(u64::MAX) })
}

type Metrics = openraft::RaftMetrics<sotto_log::TypeConfig>;

/// Who is to lead: a voter that answers, and has almost everything.
fn successor(metrics: &Metrics, to: Option<u64>) -> anyhow::Result<u64> {
    let own = metrics.id;
    let voters: BTreeSet<u64> = metrics.membership_config.membership().voter_ids().collect();
    ensure!(voters.len() > 1, "this node is the only one of its cluster: there is no other that could lead");
    if let Some(to) = to {
        ensure!(to != own, "node {to} leads already");
        ensure!(voters.contains(&to), "there is no node {to} that could lead: there are {}", listed(&voters));
    }
    let last = metrics.last_log_index.unwrap_or(0);
    let stored = |node: u64| {
        let stored = metrics.replication.as_ref().and_then(|stored| stored.get(&node));
        stored.copied().flatten().map_or(0, |stored| stored.index)
    };
    let hears = |node: &u64| {
        let heard = metrics.heartbeat.as_ref().and_then(|heard| heard.get(node)).copied().flatten();
        heard.is_some_and(|heard| heard.elapsed() < UNHEARD)
    };
    let others = voters.iter().copied().filter(|node| *node != own && to.is_none_or(|to| to == *node));
    let candidate = others.filter(hears).max_by_key(|node| stored(*node));
    let candidate = match (candidate, to) {
        (Some(candidate), _) => candidate,
        (None, Some(to)) => bail!("node {to} does not answer: start it, or name another one"),
        (None, None) => bail!("no other node answers: start them first"),
    };
    let behind = last.saturating_sub(stored(candidate));
    ensure!(
        behind <= BEHIND_MAX,
        "node {candidate} is {behind} entries behind: wait until it has caught up, or name another one"
    );
    Ok(candidate)
}

fn listed(nodes: &BTreeSet<u64>) -> String {
    nodes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
