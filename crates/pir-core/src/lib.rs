//! Lattice arithmetic and single-server private information retrieval.
#![deny(unsafe_code)]

pub mod bfv;
#[doc(hidden)]
pub mod constant_time;
mod error;
pub mod expand;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod noise;
pub mod noop;
mod pages;
pub mod paper;
pub mod ring;
pub mod scheme;
pub mod sealpir;
pub mod xpir;

pub use error::Error;
pub use noop::NoOp;
pub use paper::PaperSealPir;
pub use scheme::Scheme;
pub use sealpir::SealPir;
pub use xpir::Xpir;
