//! The chat protocol of Sotto as state machines: events in, actions out. No sockets, no clock, no randomness of its
//! own; time and random generators are parameters.
#![forbid(unsafe_code)]

// What the tests have in common stands beside those that see the public side alone.
#[cfg(test)]
extern crate self as sotto_protocol;

mod armour;
pub mod audit;
pub mod base32;
pub mod client;
mod clock;
pub mod code;
mod conversation;
mod cover;
mod cycle;
pub mod deposit;
mod domain;
pub mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod invitation;
pub mod manifest;
pub mod mapping;
mod message;
mod name;
pub mod negotiation;
mod pair;
mod ratchet;
mod reaction;
pub mod round;
mod seal;
mod secret;
pub mod server;
mod slot;
mod stream;
mod turn;
#[cfg(test)]
mod vectors;

pub use client::{
    Client, Holder, Lookups, MessageId, Notice, OpenInvitation, Retrieval, Settings, Unshown, Warning,
};
pub use code::{CodeKind, CodeShape};
pub use conversation::{ConversationId, ConversationKind, ConversationSummary};
pub use cover::cover;
pub use deposit::{Deposit, Label, SealedBox};
pub use error::Error;
pub use group::{GroupCard, Member};
pub use invitation::Invitation;
pub use manifest::seed::{SeedCommitment, SegmentEnd};
pub use manifest::{ChainStep, Manifest, ManifestChain, SignedManifest};
pub use mapping::{BloomMapping, Lookup, Mapping};
pub use negotiation::{RoundMode, ServerParameters, Succession};
pub use round::{Round, UnixMillis};
pub use slot::slot;
pub use stream::{TEXT_MAX, TEXTS_MAX};

/// The version both ends must speak.
pub const PROTOCOL_VERSION: u16 = 3;
