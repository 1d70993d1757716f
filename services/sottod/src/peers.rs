//! The other nodes of the cluster: the way to them, and what they ask of this one.
//!
//! ```text
//! way        connections to the others, opened when they are needed and again when they break
//! convert    the messages of the log's group, to and from the wire
//! network    the log's group as it calls others
//! relay      what people bring, on its way to the node that leads
//! feed       what nodes without a vote are told here
//! upstream   what this node, if it has none, is told by others
//! service    what others call here
//! listen     who may call
//! ```

mod convert;
mod feed;
mod listen;
mod network;
mod relay;
mod service;
mod upstream;
mod way;

use openraft::Raft;
use sotto_log::{Kept, Role, StateMachine, TypeConfig};
use tokio::sync::watch;

pub(crate) use feed::FOLLOWERS;

#[cfg(test)]
pub(crate) use convert::{put_append, put_ballot, put_vote};
pub(crate) use listen::listen;
pub(crate) use network::Network;
pub(crate) use relay::Relay;
pub(crate) use service::PeerService;
pub(crate) use upstream::Upstreams;
pub(crate) use way::Ways;
#[cfg(test)]
pub(crate) use {
    listen::Caller,
    service::{append_of, snapshot_from, vote_of},
};

/// Code generated from `proto/peer.proto`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::pedantic,
    clippy::wildcard_imports,
    reason = "generated code; the schema is documented in its own file"
)]
pub(crate) mod proto {
    tonic::include_proto!("sotto.peer.v1");
}

/// Most bytes of one message: an append of 2 MiB, or a single entry, and what is around it.
const MESSAGE_MAX: usize = 8 << 20;

/// The log here, its group, and who leads that.
#[derive(Clone)]
pub(crate) struct Member {
    /// None of a node that has no vote.
    pub(crate) raft: Option<Raft<TypeConfig, StateMachine>>,
    pub(crate) kept: Kept,
    pub(crate) role: watch::Receiver<Role>,
}

/// Tells when the log is open.
pub(crate) type Joined = watch::Receiver<Option<Member>>;
