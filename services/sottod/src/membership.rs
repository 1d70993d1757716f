//! A node's part in its cluster: how it joins the log's group, and how others reach it.

use std::sync::Arc;

use openraft::Raft;
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use sotto_log::{Group, Role};
use sotto_protocol::RoundMode;
use sotto_wire::RootKey;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::certificate::Shown;
use crate::cluster::{Cluster, NodeId};
use crate::config::{Config, ConfigError};
use crate::data::DataLog;
use crate::forward::Forward;
use crate::peers::{FOLLOWERS, Joined, Member, Network, PeerService, Relay, Upstreams, Ways, listen};
use crate::rounds::{self, Place, Rounds, RoundsDependencies, RunError};
use crate::server::{StartError, bind};

/// A node of a cluster, as its operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its own number, among those that vote, or among those that do not.
    pub number: u64,
    /// Whether it only follows and answers, and has no vote.
    #[serde(default)]
    pub answers: bool,
    /// The node that it follows, if it only follows.
    #[serde(default)]
    pub follows: Option<Followed>,
    /// How many nodes vote.
    pub nodes: usize,
    /// Whether it leads: decides when rounds end, and takes deposits.
    pub leads: bool,
    /// Which node leads, if one is known to do so.
    pub leader: Option<u64>,
}

/// A node that another one follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// Its number.
    pub number: u64,
    /// Whether it has no vote itself.
    pub answers: bool,
}

impl From<NodeId> for Followed {
    fn from(node: NodeId) -> Self {
        match node {
            NodeId::Voter(number) => Self { number, answers: false },
            NodeId::Answerer(number) => Self { number, answers: true },
        }
    }
}

/// Tells how a node is.
pub(crate) struct NodeView {
    this: NodeId,
    /// How many voted when its directory was made.
    nodes: usize,
    joined: Joined,
    followed: watch::Receiver<Option<NodeId>>,
}

impl NodeView {
    /// The log's group, once the log is open.
    pub(crate) fn joined(&self) -> Joined {
        self.joined.clone()
    }

    pub(crate) fn status(&self) -> NodeStatus {
        let Self { this, nodes, .. } = *self;
        let Followed { number, answers } = this.into();
        let follows = self.followed.borrow().map(Followed::from);
        let member = self.joined.borrow().clone();
        let voters = member.as_ref().map(|member| member.kept.voters().len());
        let nodes = voters.filter(|voters| *voters > 0).unwrap_or(nodes);
        let role = member.map(|member| *member.role.borrow());
        let leads = matches!(role, Some(Role::Leads { .. }));
        let leader = match role {
            Some(Role::Leads { .. }) => Some(number),
            Some(Role::Follows { leader }) => leader,
            None => None,
        };
        NodeStatus { number, answers, follows, nodes, leads, leader }
    }
}

/// A node that is not at work yet.
pub(crate) struct Membership {
    cluster: Cluster,
    ways: Ways,
    tls: Arc<ServerConfig>,
    listener: TcpListener,
    joining: watch::Sender<Option<Member>>,
    followed: watch::Sender<Option<NodeId>>,
}

impl Membership {
    /// Takes the address where other nodes call.
    ///
    /// # Errors
    /// [`StartError`] if that is taken, or the configuration is not for a cluster.
    pub(crate) fn of(cluster: Cluster, config: &Config, root: &RootKey) -> Result<Self, StartError> {
        if config.mode == RoundMode::ClosedLoop || config.population.is_some() {
            return Err(ConfigError::ClosedLoopInCluster.into());
        }
        let (joining, followed) = (watch::Sender::new(None), watch::Sender::new(None));
        let ways = Ways::new(&cluster, root, joining.subscribe()).map_err(StartError::Certificate)?;
        let tls = cluster.certificate.server_config(root).map_err(StartError::Certificate)?;
        Ok(Self { cluster, ways, tls, listener: bind(config.peers)?, joining, followed })
    }

    /// What an operator asks.
    pub(crate) fn view(&self) -> NodeView {
        NodeView {
            this: self.cluster.this,
            nodes: self.cluster.voters.len(),
            joined: self.joining.subscribe(),
            followed: self.followed.subscribe(),
        }
    }

    /// The certificate that this node shows to the others.
    pub(crate) fn certificate(&self) -> Arc<Shown> {
        self.cluster.certificate.shown()
    }

    /// The way of what people bring to the node that leads.
    pub(crate) fn forward(&self) -> Arc<dyn Forward> {
        Arc::new(Relay(self.ways.clone()))
    }

    /// Where people find this node.
    pub(crate) fn place(&self, authority: String) -> Place {
        Place { this: self.cluster.this, authority }
    }

    /// Joins the group of the log, or follows it, and follows the rounds in it.
    pub(crate) fn start(
        self,
        surroundings: RoundsDependencies,
        log: DataLog,
        tracker: &TaskTracker,
        end: &CancellationToken,
    ) -> (Rounds, JoinHandle<Result<(), RunError>>) {
        let Self { cluster, ways, tls, listener, joining, followed } = self;
        let Cluster { this, voters, joins, answerers: _, certificate: _ } = cluster;
        let joined = joining.subscribe();
        tracing::info!(?this, voters = voters.len(), "this is a node of a cluster");
        let (rounds, task) = match this {
            NodeId::Voter(number) => {
                let joining = move |raft: Raft<_, _>, kept, role| {
                    drop(joining.send_replace(Some(Member { raft: Some(raft), kept, role })));
                };
                let network = Box::new(Network(ways));
                let group = Group { number, members: voters, joins, network, joining: Box::new(joining) };
                rounds::start(surroundings, log.open_in(Some(group)))
            }
            NodeId::Answerer(_) => {
                let upstreams = Upstreams::new(this, ways, followed);
                let joining =
                    move |kept, role| drop(joining.send_replace(Some(Member { raft: None, kept, role })));
                rounds::start(surroundings, log.follow(upstreams, joining))
            }
        };
        let service = PeerService {
            this,
            joins,
            joined,
            followers: Arc::new(Semaphore::new(FOLLOWERS)),
            snapshots: Semaphore::new(1),
            rounds: rounds.clone(),
        };
        tracker.spawn(listen(listener, tls, this, service, end.clone()));
        (rounds, task)
    }
}
