//! The nodes of a cluster as one of them sees them.

use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver as _;
use serde::{Deserialize, Serialize};
use sotto_log::Role;

use crate::peers::{Joined, Member};

/// A node of the cluster. What is known of others, the node that leads knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its number.
    pub number: u64,
    /// Where it listens for other nodes.
    pub address: String,
    /// Whether it is the one that tells this.
    pub here: bool,
    /// Whether it votes on who leads, and counts when entries are stored.
    pub votes: bool,
    /// Whether it leads.
    pub leads: bool,
    /// Entries of the log that it lacks.
    pub behind: Option<u64>,
    /// When it last answered the node that leads, ms ago.
    pub heard_ms: Option<u64>,
}

/// All nodes, by their numbers; none while the log is being read.
pub(crate) fn members(joined: &Joined) -> Vec<MemberStatus> {
    let Some(member) = joined.borrow().clone() else { return Vec::new() };
    let Some(raft) = &member.raft else { return others(&member) };
    let metrics = raft.metrics().borrow_watched().clone();
    let membership = metrics.membership_config.membership();
    let last = metrics.last_log_index.unwrap_or(0);
    let applied = metrics.last_applied.map_or(0, |applied| applied.index);
    let status = |(number, node): (&u64, &openraft::BasicNode)| {
        let here = *number == metrics.id;
        // A node that stores nothing has no entry at all.
        let stored = metrics.replication.as_ref().and_then(|stored| stored.get(number));
        let stored = stored.map(|stored| stored.map_or(0, |stored| stored.index + 1));
        let behind = stored.map(|stored| (last + 1).saturating_sub(stored));
        let heard = metrics.heartbeat.as_ref().and_then(|heard| heard.get(number)).copied().flatten();
        let heard = heard.map(|heard| heard.elapsed().as_millis().try_into().unwrap_or(u64::MAX));
        MemberStatus {
            number: *number,
            address: node.addr.clone(),
            here,
            votes: membership.voter_ids().any(|voter| voter == *number),
            leads: metrics.current_leader == Some(*number),
            behind: if here { Some(last.saturating_sub(applied)) } else { behind },
            heard_ms: heard.filter(|_| !here),
        }
    };
    membership.nodes().map(status).collect()
}

/// Those that vote, as one knows them that does not.
fn others(member: &Member) -> Vec<MemberStatus> {
    let leader = match *member.role.borrow() {
        Role::Follows { leader } => leader,
        Role::Leads { .. } => None,
    };
    let status = |(number, address)| MemberStatus {
        number,
        address,
        here: false,
        votes: true,
        leads: leader == Some(number),
        behind: None,
        heard_ms: None,
    };
    member.kept.voters().into_iter().map(status).collect()
}
