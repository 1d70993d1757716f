//! The way to the other members of a group, whatever it leads over: openraft is compiled for this kind alone.

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, OptionalSend};

use super::RaftSnapshot;
use crate::Doing;
use crate::entry::{TypeConfig, Vote};

/// What comes of a call to another member.
pub type Called<'a, T> = Doing<'a, Result<T, RPCError<TypeConfig>>>;
/// What comes of a snapshot that is sent to one.
pub type Sent<'a> = Doing<'a, Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>>>;

/// The way to all members.
pub trait GroupNetwork: Send + Sync + 'static {
    /// The way to one.
    fn reach(&mut self, number: u64, node: &BasicNode) -> Box<dyn GroupLink>;
}

/// The way to a member; see [`RaftNetworkV2`].
pub trait GroupLink: Send + Sync + 'static {
    /// Hands over entries, or a sign of life.
    fn append(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Called<'_, AppendEntriesResponse<TypeConfig>>;

    /// `before` an election, or in it.
    fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        before: bool,
        option: RPCOption,
    ) -> Called<'_, VoteResponse<TypeConfig>>;

    /// Hands over a snapshot, as long as nobody says that it is of no use any more.
    fn snapshot(
        &mut self,
        vote: Vote,
        snapshot: RaftSnapshot,
        cancel: Doing<'static, ReplicationClosed>,
    ) -> Sent<'_>;

    /// Asks it to lead.
    fn transfer(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Called<'_, TransferLeaderResponse<TypeConfig>>;
}

/// The network of a group, which a group of one has none of.
pub(crate) struct Network(pub(crate) Option<Box<dyn GroupNetwork>>);

/// The way to a member, of which there is none in a group of one.
pub(crate) struct Link(Option<Box<dyn GroupLink>>);

impl Link {
    fn link(&mut self) -> Result<&mut dyn GroupLink, Unreachable<TypeConfig>> {
        let alone = || Unreachable::new(&std::io::Error::other("this group has one member"));
        self.0.as_deref_mut().ok_or_else(alone)
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Link;

    async fn new_client(&mut self, number: u64, node: &BasicNode) -> Link {
        Link(self.0.as_mut().map(|network| network.reach(number, node)))
    }
}

impl RaftNetworkV2<TypeConfig> for Link {
    type SnapshotData = Vec<u8>;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.link()?.append(request, option).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.link()?.vote(request, false, option).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.link()?.vote(request, true, option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: RaftSnapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        self.link()?.snapshot(vote, snapshot, Box::pin(cancel)).await
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.link()?.transfer(request, option).await
    }
}

#[cfg(test)]
mod tests;
