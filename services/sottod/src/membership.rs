//! A node's part in its cluster: how it joins the log's group, and how others reach it.

use std::sync::Arc;

use openraft::Raft;
use rustls::ServerConfig;
use sotto_protocol::RoundMode;
use sotto_wire::RootKey;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::config::{Config, ConfigError};
use crate::data::DataLog;
use crate::forward::Forward;
use crate::log::Group;
use crate::peers::{Member, Network, PeerService, Relay, Ways, listen};
use crate::rounds::{self, Rounds, RoundsDependencies, RunError};
use crate::server::{StartError, bind};

/// A node that is not at work yet.
pub(crate) struct Membership {
    cluster: Cluster,
    ways: Ways,
    tls: Arc<ServerConfig>,
    listener: TcpListener,
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
        Ok(Self { cluster, ways, tls, listener: bind(config.peers)? })
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
        let Self { cluster: Cluster { number, members, certificate: _ }, ways, tls, listener } = self;
        let (joining, joined) = watch::channel(None);
        tracing::info!(number, nodes = members.len(), "this is a node of a cluster");
        let group = Group {
            number,
            members,
            network: Network(ways),
            joining: Box::new(move |raft: Raft<_, _>, role| {
                joining.send_replace(Some(Member { raft, role }));
            }),
        };
        let (rounds, task) = rounds::start(surroundings, log.open_in(Some(group)));
        let service = PeerService { joined, rounds: rounds.clone() };
        tracker.spawn(listen(listener, tls, service, end.clone()));
        (rounds, task)
    }
}
