//! The chat protocol of Sotto as state machines: events in, actions out. No sockets, no clock, no randomness of its
//! own; time and random generators are parameters.
#![forbid(unsafe_code)]

pub mod deposit;
mod error;
pub mod negotiation;
pub mod round;

pub use deposit::{Deposit, Label, SealedBox};
pub use error::Error;
pub use negotiation::{RoundMode, ServerParameters};
pub use round::{Round, UnixMillis};

/// The version both ends must speak.
pub const PROTOCOL_VERSION: u16 = 1;
