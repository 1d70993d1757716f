//! Changing who votes, on the node that leads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use openraft::{BasicNode, ChangeMembers, Instant as _, Raft, RaftMetrics};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::entry::TypeConfig;
use super::replica::StateMachine;
use crate::Doing;

/// A node that is to vote has all of the log within this, or the change is to be asked for once more.
const CATCHING_UP: Duration = Duration::from_secs(10);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// A change is stored by enough nodes within this.
const STORING: Duration = Duration::from_secs(5);
/// Whoever was heard so long ago is there.
const HEARD: Duration = Duration::from_secs(2);

/// What is to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// One more node votes.
    Add {
        /// Its number.
        number: u64,
        /// Where it listens for other nodes.
        address: String,
    },
    /// A node votes no more.
    Remove {
        /// Its number.
        number: u64,
    },
    /// A node votes in the place of another one.
    Replace {
        /// That one's number.
        number: u64,
        /// Its own.
        by: u64,
        /// Where it listens for other nodes.
        address: String,
    },
}

/// Why nothing has changed, or not all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Another node leads.
    #[error("node {0} leads: ask there")]
    Elsewhere(u64),
    /// Nobody leads.
    #[error("no node leads now; wait until one does, and ask there")]
    Leaderless,
    /// The node that is to vote no more is the one that leads.
    #[error("node {0} leads itself: 'sottod transfer' first, and then ask where the lead has gone")]
    Leads(u64),
    /// A node that is to vote no more does not.
    #[error("node {0} does not vote")]
    NoVoter(u64),
    /// A node that is to vote does already.
    #[error("node {0} votes already")]
    Voter(u64),
    /// Nobody would vote.
    #[error("it is the only node that votes")]
    Last,
    /// Those that would vote could not agree now.
    #[error("of those that would vote then, too few answer now: no round would end")]
    TooFew,
    /// A node that is to vote has not all of the log.
    #[error(
        "node {number} takes over the log, and has not all of it yet ({}); once it runs and is reached at {address}, ask once \
         more", had.map_or("nothing".to_owned(), |had| format!("{had} of {all} entries"))
    )]
    Behind {
        /// Its number.
        number: u64,
        /// Where it listens for other nodes.
        address: String,
        /// Entries that it has, if any.
        had: Option<u64>,
        /// Entries that there are.
        all: u64,
    },
    /// A node that is to vote is not there.
    #[error("node {number} does not answer at {address}: start it, and ask once more")]
    Silent {
        /// Its number.
        number: u64,
        /// Where it should listen for other nodes.
        address: String,
    },
    /// Somebody else changes something.
    #[error("another change is under way; ask once more")]
    UnderWay,
    /// It was handed in, and not heard of again.
    #[error("it is not known whether it was stored: too few nodes answer; ask once more")]
    Unknown,
}

/// Has something changed; those that vote then.
pub fn change(
    raft: &Raft<TypeConfig, StateMachine>,
    change: Change,
) -> Doing<'_, Result<BTreeSet<u64>, ChangeError>> {
    Box::pin(async move {
        let metrics = raft.metrics().borrow_watched().clone();
        let own = metrics.id;
        match metrics.current_leader {
            Some(leader) if leader == own => {}
            Some(leader) => return Err(ChangeError::Elsewhere(leader)),
            None => return Err(ChangeError::Leaderless),
        }
        if let Change::Remove { number } | Change::Replace { number, .. } = change
            && number == own
        {
            return Err(ChangeError::Leads(own));
        }
        // Of a change that was broken off in the middle, the last is what it was to lead to.
        let configs = metrics.membership_config.membership().get_joint_config();
        let before = configs.last().cloned().unwrap_or_default();
        if configs.len() > 1 && change.is_in(&before) {
            store(raft, ChangeMembers::ReplaceAllVoters(before.clone())).await?;
            return Ok(before);
        }
        let address_of = |number: u64| {
            let mut nodes = metrics.membership_config.nodes();
            nodes.find(|(known, _)| **known == number).map(|(_, node)| node.addr.clone())
        };
        let mut after = before.clone();
        let comes = match &change {
            Change::Add { number, address } | Change::Replace { by: number, address, .. } => {
                if !after.insert(*number) {
                    return Err(ChangeError::Voter(*number));
                }
                Some((*number, address.clone()))
            }
            Change::Remove { .. } => None,
        };
        match change {
            // It was to vote once, and never did.
            Change::Remove { number }
                if configs.len() == 1 && !after.contains(&number) && address_of(number).is_some() =>
            {
                store(raft, ChangeMembers::RemoveNodes(BTreeSet::from([number]))).await?;
                return Ok(after);
            }
            Change::Remove { number } | Change::Replace { number, .. } => {
                if !after.remove(&number) {
                    return Err(ChangeError::NoVoter(number));
                }
            }
            Change::Add { .. } => {}
        }
        if after.is_empty() {
            return Err(ChangeError::Last);
        }
        check_answers(raft, &after, comes.as_ref().map(|(number, _)| *number))?;
        if let Some((number, address)) = comes {
            let known = address_of(number);
            // It was asked for before, at an address where it is not.
            if known.as_ref().is_some_and(|known| *known != address) {
                store(raft, ChangeMembers::RemoveNodes(BTreeSet::from([number]))).await?;
            }
            if known.as_ref() != Some(&address) {
                let node = BTreeMap::from([(number, BasicNode::new(address.clone()))]);
                store(raft, ChangeMembers::AddNodes(node)).await?;
            }
            catch_up(raft, number, address).await?;
            check_answers(raft, &after, None)?;
        }
        store(raft, ChangeMembers::ReplaceAllVoters(after.clone())).await?;
        Ok(after)
    })
}

impl Change {
    /// Whether those vote who vote after it.
    fn is_in(&self, voters: &BTreeSet<u64>) -> bool {
        match self {
            Self::Add { number, .. } => voters.contains(number),
            Self::Remove { number } => !voters.contains(number),
            Self::Replace { number, by, .. } => voters.contains(by) && !voters.contains(number),
        }
    }
}

/// Whether a node answers the one that leads, which is this one.
fn answers(metrics: &RaftMetrics<TypeConfig>, number: u64) -> bool {
    let heard = metrics.heartbeat.as_ref().and_then(|heard| heard.get(&number).copied().flatten());
    number == metrics.id || heard.is_some_and(|heard| heard.elapsed() < HEARD)
}

/// Whether enough of those answer that would vote; of one of them it is not known yet.
fn check_answers(
    raft: &Raft<TypeConfig, StateMachine>,
    after: &BTreeSet<u64>,
    unknown: Option<u64>,
) -> Result<(), ChangeError> {
    let metrics = raft.metrics().borrow_watched().clone();
    let there = after.iter().filter(|number| unknown == Some(**number) || answers(&metrics, **number));
    if there.count() * 2 > after.len() { Ok(()) } else { Err(ChangeError::TooFew) }
}

async fn store(
    raft: &Raft<TypeConfig, StateMachine>,
    change: ChangeMembers<u64, BasicNode>,
) -> Result<(), ChangeError> {
    match tokio::time::timeout(STORING, raft.change_membership(change, false)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => match error.forward_to_leader() {
            Some(forward) => Err(forward.leader_id.map_or(ChangeError::Leaderless, ChangeError::Elsewhere)),
            None => Err(ChangeError::UnderWay),
        },
        Err(_) => Err(ChangeError::Unknown),
    }
}

/// Waits until a node answers and has what was in the log when this was called. One that had it before may be gone.
async fn catch_up(
    raft: &Raft<TypeConfig, StateMachine>,
    number: u64,
    address: String,
) -> Result<(), ChangeError> {
    let until = Instant::now() + CATCHING_UP;
    let all = raft.metrics().borrow_watched().last_log_index.unwrap_or(0);
    loop {
        let metrics = raft.metrics().borrow_watched().clone();
        let Some(replication) = &metrics.replication else { return Err(ChangeError::Leaderless) };
        let had = replication.get(&number).copied().flatten().map(|last| last.index);
        let is_there = answers(&metrics, number);
        if is_there && had >= Some(all) {
            return Ok(());
        }
        if Instant::now() > until && !is_there {
            return Err(ChangeError::Silent { number, address });
        }
        if Instant::now() > until {
            return Err(ChangeError::Behind { number, address, had, all });
        }
        tokio::time::sleep(LOOK).await;
    }
}
