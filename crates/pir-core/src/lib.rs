//! Lattice arithmetic and single-server private information retrieval.
#![deny(unsafe_code)]

pub mod bfv;
pub mod constant_time;
pub mod dimensions;
mod error;
pub mod expand;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod noise;
pub mod noop;
pub mod packing;
mod pages;
pub mod ring;
pub mod scheme;
pub mod sealpir;

pub use error::Error;
pub use noop::NoOp;
pub use scheme::Scheme;
pub use sealpir::SealPir;
