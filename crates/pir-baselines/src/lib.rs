//! Engines that measurements compare SealPIR with. None of them is for use: [`paper`] is below 128 bits of security, and
//! [`xpir`] sends a thousand times as much; queries of [`fastpir`] grow with the database. No crate that people run depends on this one.
#![forbid(unsafe_code)]

pub mod fastpir;
pub mod paper;
pub mod xpir;

pub use fastpir::FastPir;
pub use paper::PaperSealPir;
pub use xpir::Xpir;
