//! Lattice arithmetic and single-server private information retrieval (skeleton).
#![deny(unsafe_code)]

mod error;
pub mod scheme;

pub use error::Error;
pub use scheme::Scheme;
