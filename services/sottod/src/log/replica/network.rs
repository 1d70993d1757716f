//! The network of a group of one.

use std::future::Future;

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, OptionalSend};

use super::RaftSnapshot;
use crate::log::entry::{TypeConfig, Vote};

/// There is nobody else to reach.
pub(in crate::log) struct NoPeers;

impl RaftNetworkFactory<TypeConfig> for NoPeers {
    type Network = Self;

    async fn new_client(&mut self, _: u64, _: &BasicNode) -> Self {
        Self
    }
}

impl RaftNetworkV2<TypeConfig> for NoPeers {
    type SnapshotData = Vec<u8>;

    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(unreached().into())
    }

    async fn vote(
        &mut self,
        _: VoteRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(unreached().into())
    }

    async fn full_snapshot(
        &mut self,
        _: Vote,
        _: RaftSnapshot,
        _: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        Err(unreached().into())
    }
}

fn unreached() -> Unreachable<TypeConfig> {
    Unreachable::new(&std::io::Error::other("this group has one member"))
}
