//! The client of Sotto: a chat in which the server does not learn who talks with whom, how often, or when.
//!
//! What takes part in a server's rounds is [`sotto_participant::Participant`]; here is what stands around it on a person's machine:
//! [`Store`] keeps it on the disk, the daemon lets programs come to it, and [`cli`] and [`screen`] are what the person sees.
#![forbid(unsafe_code)]

pub mod cli;
mod columns;
mod daemon;
mod device;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod meeting;
mod qr;
#[doc(hidden)]
pub mod screen;
mod store;
#[cfg(test)]
mod testing;

#[doc(hidden)]
pub use daemon::screens::Screens;
pub use sotto_wire::{Address, AddressError};
pub use store::passphrase::Passphrase;
pub use store::{Store, StoreError};
