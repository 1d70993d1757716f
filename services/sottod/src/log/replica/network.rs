//! The network of a group of one.

use openraft::BasicNode;
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};

use crate::log::entry::TypeConfig;

type Unreached<E = openraft::error::Infallible> = RPCError<u64, BasicNode, RaftError<u64, E>>;

/// There is nobody else to reach.
pub(in crate::log) struct NoPeers;

impl RaftNetworkFactory<TypeConfig> for NoPeers {
    type Network = Self;

    async fn new_client(&mut self, _: u64, _: &BasicNode) -> Self {
        Self
    }
}

impl RaftNetwork<TypeConfig> for NoPeers {
    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Unreached> {
        Err(unreached())
    }

    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Unreached<InstallSnapshotError>> {
        Err(unreached())
    }

    async fn vote(&mut self, _: VoteRequest<u64>, _: RPCOption) -> Result<VoteResponse<u64>, Unreached> {
        Err(unreached())
    }
}

fn unreached<E: std::error::Error>() -> Unreached<E> {
    let error = std::io::Error::other("this group has one member");
    RPCError::Network(NetworkError::new(&error))
}
