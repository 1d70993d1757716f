//! Multi-query private information retrieval (SealPIR paper, section 5, Figure 8): any batch code over any engine.
//!
//! The server encodes its database with a [`pbc::BatchCode`] and holds every bucket as a database of its own
//! ([`MultiDatabase`]). The client asks one query of *every* bucket ([`MultiClient`]): where the [`pbc::Plan`] has
//! nothing to read, it asks for a random element. What the server sees is therefore the same for any set of keys, down
//! to none at all.
//!
//! All buckets are padded to one size and share one set of parameters, and one set of client keys serves them all.
//!
//! Servers and clients know none of this: to them an engine is an [`Engine`], found by name among [`Engines`], and
//! [`PerBucket`] makes one of any [`pir_core::Scheme`].
//!
//! ```
//! use mpir::{MultiClient, MultiDatabase, reconstruct};
//! use pbc::{BatchCode, CuckooCode, EncodingOracle, Plan};
//! use pir_core::{NoOp, Scheme}; // An engine without privacy, for tests.
//! # use rand_core::SeedableRng;
//! # let mut rng = rand_chacha::ChaCha20Rng::from_seed([3; 32]);
//!
//! // Both ends know the code: batches of 4 keys, 3 candidates each, and the seed of this database.
//! let code = CuckooCode::recommended(4, 3, [1; 32])?;
//!
//! // The server encodes five elements of 2 bytes under their keys.
//! let keys: [&[u8]; 5] = [b"amber", b"birch", b"cedar", b"delta", b"ebony"];
//! let encoding = code.encode(&keys);
//! let buckets = encoding.materialise(2, b"aabbccddee", encoding.largest())?;
//! let database = MultiDatabase::<NoOp>::setup(2, encoding.largest(), &buckets)?;
//!
//! // The client plans its batch, asks every bucket once and reads all answers.
//! let wanted: [&[u8]; 2] = [b"delta", b"birch"];
//! let plan = Plan::new(&code, &wanted, &EncodingOracle::new(&encoding, &keys));
//! let client = MultiClient::<NoOp>::new(&[2; 32]);
//! let query = client.multi_query(database.parameters(), &plan.targets, &mut rng)?;
//!
//! let public_keys = NoOp::decode_public_keys(&client.public_keys())?;
//! let queries: Vec<&[u8]> = query.encoded().iter().map(Vec::as_slice).collect();
//! let answers = database.answer(&public_keys, &queries)?;
//!
//! let codewords = client.multi_extract(database.parameters(), &query, &answers);
//! assert_eq!(reconstruct(&code, &plan, &codewords), [Some(Ok(b"dd".to_vec())), Some(Ok(b"bb".to_vec()))]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod client;
mod database;
mod engine;
mod error;
mod parallel;
mod per_bucket;
mod reconstruct;
mod registry;
mod round;
mod uniform;
mod units;
mod voce;
mod voce_apart;
mod voce_hint;

pub use client::{MultiClient, MultiQuery};
pub use database::MultiDatabase;
pub use engine::{
    Contents, Engine, EngineClient, Pending, PreparedRound, PublicKeys, Query, Recomputed, Request,
};
pub use error::Error;
pub use parallel::each;
pub use per_bucket::PerBucket;
pub use pir_core::voce::Preference;
pub use reconstruct::reconstruct;
pub use registry::{Engines, noop, sealpir, voce, voce_apart, voce_hint};
pub use round::{Assurance, Form, Parts, Profile, RoundSpec, Sizes, Units};
pub use uniform::indices;
pub use voce::Voce;
pub use voce_apart::VoceApart;
pub use voce_hint::VoceHint;

use pir_core::Scheme;

/// The engine's parameters that all `buckets` buckets of `padded` elements share.
///
/// A client asks each of them one query a round. With many, answers are what it downloads most, and shall be short; with
/// one, they may be longer if that spares the server work.
///
/// # Errors
/// [`Error::Engine`] if the engine has none for this shape.
pub fn parameters<S: Scheme>(
    buckets: usize,
    padded: usize,
    element_bytes: usize,
) -> Result<S::Parameters, Error> {
    let parameters = if buckets == 1 { S::parameters_for_one_query } else { S::parameters };
    Ok(parameters(padded, element_bytes)?)
}
