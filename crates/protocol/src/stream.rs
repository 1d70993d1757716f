//! Reliable delivery over rounds that lose, repeat and reorder: sequence numbers, a window, repeats until acknowledged.
//!
//! One [`Outbox`] per conversation and one [`Inbox`] per peer in it. Sequence numbers count from 1 and go on when keys
//! change.
//!
//! A message carries a check of all before it, and is taken behind exactly these: parts of two texts are never put
//! together, and what a reader has after a message follows from that message alone.
//!
//! Two signs tell that one end has gone back to an older state of its own, from a backup or a copy. An acknowledgement
//! carries a check of all messages up to the one it names: if they are not those that were sent under these numbers, the
//! sender numbers what it has to say anew, behind what the other has. And the oldest message that a sender keeps is marked
//! ([`FIRST`](crate::message::FIRST)): whoever misses one before that has gone back, and passes over what will never come. In the first case a
//! message can come twice, and in neither is one taken for arrived that was not. That is so between two; [`shared`] says
//! how groups differ.
//!
//! What is said follows from what was read before the present block of rounds ([`crate::reaction`]): acknowledgements that
//! are sent, and the choice of what is sent or repeated, change with the blocks only.

#[cfg(test)]
mod attack;
mod inbox;
mod item;
mod outbox;
mod shared;
#[cfg(test)]
mod tests;
mod version2;

pub(crate) use inbox::{Delivered, Inbox};
pub(crate) use item::{Item, check};
pub(crate) use outbox::Outbox;
pub(crate) use version2::{Inbox2, Outbox2};

/// Most messages that are sent and not acknowledged.
pub(crate) const WINDOW: u32 = 16;
/// Most bytes of one text.
pub const TEXT_MAX: usize = 16 * 1024;
/// Most texts that wait in one conversation.
pub const TEXTS_MAX: usize = 64;

/// How far the other end's numbers may be ahead of a sender that has gone back.
const AHEAD_MAX: u32 = 1 << 24;

/// The two ends do not have the same messages under the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WentBack;
