//! Engines that measurements compare SealPIR with. None of them is for use: [`paper`] is below 128 bits of security, [`xpir`] sends
//! a thousand times as much, queries of [`fastpir`] grow with the database, keys of [`spiral`] have megabytes, [`simplepir`] and
//! [`doublepir`] have a hint of megabytes in every round, and clients of [`psir`] stream the whole database. [`onionpir`] is what could be
//! used. No crate that people run depends on this one.
#![forbid(unsafe_code)]

pub mod doublepir;
pub mod fastpir;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod lwe;
pub mod onionpir;
pub mod paillier;
pub mod paper;
pub mod psir;
#[cfg(not(test))] // What compiles all engines, and none of the crate's own tests needs.
pub mod registry;
pub mod simplepir;
pub mod spiral;
pub mod xpir;

pub use doublepir::DoublePir;
pub use fastpir::FastPir;
pub use lwe::{Hinted, Hinting, PAPER, SECURE, WithHint};
pub use onionpir::OnionPir;
pub use paper::PaperSealPir;
pub use psir::Psir;
pub use simplepir::SimplePir;
pub use spiral::Spiral;
pub use xpir::Xpir;
