//! Voce with a hint: all clients of a round share the public halves of their queries, so that nearly everything is computed once
//! for all of them.
//!
//! `docs/VOCE.md` has the construction from nothing.

mod chain;
mod client;
mod database;
mod dense;
mod format;
pub mod noise;
#[cfg(test)]
mod retrievals;
mod ring;
pub mod select;
mod server;
mod shape;
#[cfg(test)]
mod tails;
#[cfg(test)]
mod tests;
mod transform;

pub use client::{Asked, request};
pub use dense::Pools;
pub use ring::{ANSWER_BITS, DEGREE, HINT_BITS, MODULUS_BITS, PLAINTEXT_BITS, QUERY_BITS, Seeds};
pub use server::{Request, Unit};
pub use shape::{Ending, Preference, Shape};
