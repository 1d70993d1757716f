//! The client of Sotto: a chat in which the server does not learn who talks with whom, how often, or when.
//!
//! [`Participant`] takes part in a server's rounds for one [`sotto_protocol::Client`]; [`Store`] keeps that on the disk;
//! [`Address`] names a server and its cluster's key; [`Connection`] speaks to it. The command line is [`cli`].
#![forbid(unsafe_code)]

pub mod audit;
pub mod cli;
mod columns;
mod cost;
mod daemon;
mod device;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod host;
mod meeting;
pub mod participant;
mod qr;
#[doc(hidden)]
pub mod screen;
mod store;
#[cfg(test)]
mod testing;

pub use cost::RoundCost;
#[doc(hidden)]
pub use daemon::screens::Screens;
pub use participant::{
    Event, Events, Finding, Handle, HandleError, Participant, Phase, RoundReport, Step, Trouble,
};
pub use sotto_session::{ConnectError, Connection, ConnectionSettings};
pub use sotto_wire::{Address, AddressError};
pub use store::passphrase::Passphrase;
pub use store::{StorageError, Store, StoreError};
