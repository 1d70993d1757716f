//! A node's part in its cluster: how it joins the log's group, and how others reach it.

use std::sync::Arc;

use openraft::Raft;
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use sotto_protocol::RoundMode;
use sotto_wire::RootKey;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::certificate::Expiry;
use crate::cluster::Cluster;
use crate::config::{Config, ConfigError};
use crate::data::DataLog;
use crate::forward::Forward;
use crate::log::{Group, Role};
use crate::peers::{Joined, Member, Network, Node, PeerService, Relay, Ways, listen};
use crate::rounds::{self, Rounds, RoundsDependencies, RunError};
use crate::server::{StartError, bind};

/// A node of a cluster, as its operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its own number.
    pub number: u64,
    /// How many nodes the cluster has.
    pub nodes: usize,
    /// Whether it leads: decides when rounds end, and takes deposits.
    pub leads: bool,
    /// Which node leads, if one is known to do so.
    pub leader: Option<u64>,
}

/// Tells how a node is.
pub(crate) struct NodeView {
    number: u64,
    nodes: usize,
    joined: Joined,
}

impl NodeView {
    /// The log's group, once the log is open.
    pub(crate) fn joined(&self) -> Joined {
        self.joined.clone()
    }

    pub(crate) fn status(&self) -> NodeStatus {
        let Self { number, nodes, .. } = *self;
        let role = self.joined.borrow().as_ref().map(|member| *member.role.borrow());
        let leads = matches!(role, Some(Role::Leads { .. }));
        let leader = match role {
            Some(Role::Leads { .. }) => Some(number),
            Some(Role::Follows { leader }) => leader,
            None => None,
        };
        NodeStatus { number, nodes, leads, leader }
    }
}

/// A node that is not at work yet.
pub(crate) struct Membership {
    cluster: Cluster,
    ways: Ways,
    tls: Arc<ServerConfig>,
    listener: TcpListener,
    joining: watch::Sender<Option<Member>>,
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
        let ways = Ways::new(&cluster, root).map_err(StartError::Certificate)?;
        let tls = cluster.certificate.server_config(root).map_err(StartError::Certificate)?;
        let joining = watch::Sender::new(None);
        Ok(Self { cluster, ways, tls, listener: bind(config.peers)?, joining })
    }

    /// What an operator asks.
    pub(crate) fn view(&self) -> NodeView {
        let Cluster { number, members, .. } = &self.cluster;
        NodeView { number: *number, nodes: members.len(), joined: self.joining.subscribe() }
    }

    /// When the certificate ends that this node shows to the others.
    pub(crate) fn expiry(&self, root: &RootKey) -> Expiry {
        self.cluster.certificate.expiry(root)
    }

    /// The way of what people bring to the node that leads.
    pub(crate) fn forward(&self) -> Arc<dyn Forward> {
        Arc::new(Relay(self.ways.clone()))
    }

    /// Joins the group of the log, and follows the rounds in it.
    pub(crate) fn start(
        self,
        surroundings: RoundsDependencies,
        log: DataLog,
        tracker: &TaskTracker,
        end: &CancellationToken,
    ) -> (Rounds, JoinHandle<Result<(), RunError>>) {
        let Self { cluster: Cluster { number, members, certificate }, ways, tls, listener, joining } = self;
        let joined = joining.subscribe();
        tracing::info!(number, nodes = members.len(), "this is a node of a cluster");
        let joining = move |raft: Raft<_, _>, role| drop(joining.send_replace(Some(Member { raft, role })));
        let group = Group { number, members, network: Network(ways), joining: Box::new(joining) };
        let (rounds, task) = rounds::start(surroundings, log.open_in(Some(group)));
        let service = PeerService { joined, snapshots: Semaphore::new(1), rounds: rounds.clone() };
        let node = Node { number, certificate: Arc::new(certificate) };
        tracker.spawn(listen(listener, tls, node, service, end.clone()));
        (rounds, task)
    }
}
