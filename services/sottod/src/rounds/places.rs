//! Where people find the nodes of a cluster: every node says it to the one that leads, which tells everybody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sotto_log::{Record, Role};
use sotto_protocol::directory::NODES_MAX;
use sotto_protocol::{Directory, Round, SignedDirectory};
use tokio::time::Instant;

use super::Task;
use super::lead::Settled;
use crate::cluster::NodeId;

/// How often a node says where it is, and whoever leads looks at what was said.
pub(crate) const EVERY: Duration = Duration::from_secs(5);
/// Who has said nothing for so long is left out. A node that is gone costs people an attempt to reach it; one that was only
/// away should be found where it was.
pub(crate) const LEASE: Duration = Duration::from_secs(600);
/// Nodes whose places are kept.
const HEARD_MAX: usize = 1024;

/// Where people find a node.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) this: NodeId,
    /// `HOST:PORT`.
    pub(crate) authority: String,
}

/// What nodes have said while this one leads.
pub(super) struct Places {
    heard: BTreeMap<NodeId, (String, Instant)>,
    /// Since when it does.
    since: Instant,
    /// When this node says where it is.
    next: Instant,
    is_proposed: bool,
}

impl Default for Places {
    fn default() -> Self {
        let now = Instant::now();
        Self { heard: BTreeMap::new(), since: now, next: now, is_proposed: false }
    }
}

impl Places {
    /// What was said to whoever led before is not known here, nor what became of what this node proposed when it did: the log
    /// takes one directory of a number.
    pub(super) fn begin_to_lead(&mut self) {
        let now = Instant::now();
        (self.since, self.next, self.is_proposed) = (now, now, false);
        self.heard.clear();
    }

    pub(super) fn heard(&mut self, Place { this, authority }: Place) {
        // What nobody can be told is not kept.
        if Directory::new(0, Round(0), [authority.clone()]).is_err() {
            return;
        }
        self.heard.retain(|_, (_, at)| at.elapsed() < LEASE);
        if self.heard.len() < HEARD_MAX || self.heard.contains_key(&this) {
            self.heard.insert(this, (authority, Instant::now()));
        }
    }

    /// The nodes that people are to be told of. Until everybody has had the time to say where it is, nobody is left out.
    fn wanted(&self, told: &[String]) -> BTreeSet<String> {
        let heard = self.heard.values().filter(|(_, at)| at.elapsed() < LEASE);
        let heard: BTreeSet<&String> = heard.map(|(authority, _)| authority).collect();
        let is_early = self.since.elapsed() < LEASE;
        // Who is told stays, if there are more than can be.
        let stays = told.iter().filter(|node| is_early || heard.contains(node));
        let new = heard.iter().copied().filter(|node| !told.contains(node));
        stays.chain(new).take(NODES_MAX).cloned().collect()
    }
}

impl Task {
    /// When this node says next where it is, if it is of a cluster.
    pub(super) fn next_place(&self) -> Option<Instant> {
        self.surroundings.place.as_ref().map(|_| self.places.next)
    }

    /// Says where this node is, and, if it leads, what follows from what all have said.
    pub(super) async fn say_place(&mut self) {
        let Some(place) = self.surroundings.place.clone().filter(|_| self.places.next <= Instant::now())
        else {
            return;
        };
        self.places.next = Instant::now() + EVERY;
        let role = *self.role.borrow();
        match role {
            Role::Leads { .. } => {
                self.places.heard(place);
                self.propose_directory().await;
            }
            Role::Follows { leader: Some(leader) } => {
                let Some(forward) = self.surroundings.forward.clone() else { return };
                // If it is lost, the next one comes soon.
                self.surroundings.tracker.spawn(async move { forward.place(leader, place).await });
            }
            Role::Follows { leader: None } => {}
        }
    }

    async fn propose_directory(&mut self) {
        if self.leads.is_none() || self.places.is_proposed || self.holds_back() {
            return;
        }
        let Some(directory) = self.due_directory() else { return };
        let said = self.surroundings.announcing.said();
        // Without it this node leads no longer than it must.
        let Some(key) = said.signing_key(directory.round()) else { return };
        let signed = SignedDirectory::sign(&directory, &self.surroundings.root.0, key);
        self.places.is_proposed = true;
        let proposal = self.log.propose(vec![Record::Directory(Box::new(signed))]).await;
        self.proposed.spawn(async { Settled::Directory(proposal.await.map(|_| ())) });
    }

    pub(super) fn directory_is_settled(&mut self) {
        self.places.is_proposed = false;
    }

    /// The next directory, if the newest is not what it should be, or not signed by the key of now.
    fn due_directory(&self) -> Option<Directory> {
        let (newest, round) = {
            let state = self.log.state();
            (state.directory().cloned(), state.newest().unwrap_or(Round(0)))
        };
        let told = newest.as_ref().and_then(|newest| Directory::decode(&*newest.bytes).ok());
        let told = told.as_ref().map(Directory::nodes).unwrap_or_default();
        let nodes = self.places.wanted(told);
        let key = self.manifest_key(round)?;
        let root = &self.surroundings.root.0;
        let holds = newest.as_ref().is_some_and(|newest| newest.verify(root, &key).is_ok());
        if holds && nodes.iter().eq(told) {
            return None;
        }
        let number = newest.map_or(Some(1), |newest| newest.claimed_number().checked_add(1))?;
        let directory = Directory::new(number, round, nodes);
        directory.inspect_err(|error| tracing::warn!(%error, "people are not told where the nodes are")).ok()
    }
}
