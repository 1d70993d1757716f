//! Voce without a hint: a second query selects the column, and buckets share a reply.
//!
//! The packed ciphertexts `A s + B` of a bucket are rounded to 18 bits and cut into three digits, of which those of A are
//! public. A second query is expanded into encryptions of the digits' weights, at the wanted column alone, and of 0. Sums of
//! products of the two are the wanted column's ciphertext; what they have before `s^2` is public, too.

mod client;
mod common;
mod keys;
mod separation;
mod server;
mod tree;

#[cfg(test)]
pub(super) mod tests;

pub use client::{Asked, Secret};
pub use keys::PublicKeys;
pub use server::{Request, Unit};
pub(super) use tree::TREE_BYTES;

use super::ring::HINT_BITS;
use super::shape::DIGITS;
use crate::bfv::Gadget;

/// Bits of a digit of a packed ciphertext.
pub(super) const DIGIT_BITS: u32 = HINT_BITS / DIGITS as u32;

/// How a substitution in the trees decomposes.
pub(super) const GADGET: Gadget = Gadget { digits: 7, base_bits: 6 };

/// Bits that the switch from the secret's square drops: one digit of 27 bits is left.
pub(super) const SQUARE_DROPPED_BITS: u32 = 23;
