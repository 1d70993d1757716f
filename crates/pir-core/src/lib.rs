//! Lattice arithmetic and single-server private information retrieval.
//!
//! A client reads one of 64 elements, and the server does not learn which:
//!
//! ```
//! use pir_core::{Scheme, SealPir};
//! # use rand_core::SeedableRng;
//! # let mut rng = rand_chacha::ChaCha20Rng::from_seed([3; 32]);
//!
//! // Both ends derive the same parameters from the size of the database.
//! let parameters = SealPir::parameters(64, 288)?;
//! let elements: Vec<u8> = (0..64).flat_map(|number| [number; 288]).collect();
//! let database = SealPir::setup(&parameters, &elements)?;
//!
//! // The client's secret stays; its public keys are uploaded once.
//! let key = SealPir::client_key(&[1; 32]);
//! let public_keys = SealPir::decode_public_keys(&SealPir::encode_public_keys(&key))?;
//!
//! let query = SealPir::queries(&key, &[(&parameters, 41)], &mut rng)?.remove(0);
//! let answer = SealPir::answer(&database, &public_keys, &query)?;
//! assert_eq!(SealPir::extract(&parameters, &key, 41, &answer)?, [41; 288]);
//! assert_eq!((query.len(), answer.len()), (SealPir::query_bytes(&parameters), SealPir::answer_bytes(&parameters)));
//! # Ok::<(), pir_core::Error>(())
//! ```
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
pub mod voce;

pub use error::Error;
pub use noop::NoOp;
pub use pages::{PagePool, PageVec};
pub use scheme::Scheme;
pub use sealpir::SealPir;
