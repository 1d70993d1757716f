//! Engines that measurements compare SealPIR with. None of them is for use: [`paper`] is below 128 bits of security, [`xpir`] sends
//! a thousand times as much, queries of [`fastpir`] grow with the database, keys of [`spiral`] have megabytes, and [`simplepir`] and
//! [`doublepir`] have a hint of megabytes in every round. No crate that people run depends on this one.
#![forbid(unsafe_code)]

pub mod doublepir;
pub mod fastpir;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod lwe;
pub mod paper;
pub mod simplepir;
pub mod spiral;
pub mod xpir;

pub use doublepir::DoublePir;
pub use fastpir::FastPir;
pub use lwe::{Hinted, Hinting, PAPER, SECURE, WithHint};
pub use paper::PaperSealPir;
pub use simplepir::SimplePir;
pub use spiral::Spiral;
pub use xpir::Xpir;
