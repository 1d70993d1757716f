//! The chat protocol of Sotto as state machines: events in, actions out. No sockets, no clock, no randomness of its
//! own; time and random generators are parameters.
//!
//! Two people meet by an invitation, and one reads what the other wrote. In every round each of them deposits one box and
//! reads one, whether anything is said or not:
//!
//! ```
//! use sotto_protocol::{Client, Notice, Round, Settings, UnixMillis};
//! # use ed25519_dalek::SigningKey;
//! # use rand_core::SeedableRng as _;
//! # use sotto_protocol::{BloomMapping, CodeKind, Deposit, Label, MANIFEST_VERSION, Manifest, PROTOCOL_VERSION, RoundMode};
//! # use sotto_protocol::{SeedCommitment, ServerParameters, SignedManifest, deposit, manifest};
//! # let rng = &mut rand_chacha::ChaCha20Rng::seed_from_u64(1);
//! # let key = SigningKey::from_bytes(&[1; 32]);
//! # let parameters = ServerParameters {
//! #     protocol_version: PROTOCOL_VERSION,
//! #     serial: 1,
//! #     manifest_key: key.verifying_key().to_bytes(),
//! #     seeds: SeedCommitment::default(),
//! #     engine: "none".into(),
//! #     security_bits: 128,
//! #     code: CodeKind::Single,
//! #     retrieve: 1,
//! #     buckets: 1,
//! #     choices: 1,
//! #     retained: 2,
//! #     mode: RoundMode::Deadline,
//! #     round_ms: 1000,
//! #     deposit_ms: 100,
//! #     lookup_ms: 200,
//! #     query_ms: 300,
//! #     deposit_spread_ms: 0,
//! #     query_spread_ms: 0,
//! #     key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
//! # };
//! # // What a server makes of a round: signed manifest, mapping, and the boxes in their order.
//! # let mut previous = [0; 32];
//! # let mut seal = |round: Round, mut deposits: Vec<Deposit>| {
//! #     let seed = [round.0 as u8; 32];
//! #     deposit::arrange(&mut deposits, &seed);
//! #     let mut manifest = Manifest {
//! #         version: MANIFEST_VERSION,
//! #         round,
//! #         entries: deposits.len() as u64,
//! #         engine: "none".into(),
//! #         code: CodeKind::Single,
//! #         retrieve: 1,
//! #         buckets: 1,
//! #         choices: 1,
//! #         mapping_kind: manifest::MAPPING_BLOOM,
//! #         bucket_size: deposits.len() as u32,
//! #         profile: [0; 16],
//! #         hint_digest: [0; 32],
//! #         round_seed: seed,
//! #         mapping_digest: [0; 32],
//! #         deposits_digest: manifest::deposits_digest(&deposits),
//! #         buckets_digest: [0; 32],
//! #         previous,
//! #     };
//! #     let labels: Vec<Label> = deposits.iter().map(|deposit| deposit.label).collect();
//! #     let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
//! #     let code = manifest.code().unwrap();
//! #     let mapping =
//! #         BloomMapping::build(&seed, &*code, &code.encode(&keys), &labels, manifest.bucket_size).unwrap();
//! #     manifest.mapping_digest = BloomMapping::digest(&mapping);
//! #     previous = manifest.digest();
//! #     let boxes: Vec<Vec<u8>> = deposits.iter().map(|deposit| deposit.sealed.0.to_vec()).collect();
//! #     (SignedManifest::sign(&manifest, &key), mapping, boxes)
//! # };
//! let (joined, settings) = ((Round(1), UnixMillis(1000)), Settings { conversations: 1 });
//! let mut alice = Client::new("alice", parameters.clone(), settings, joined, rng)?;
//! let mut bob = Client::new("bob", parameters, settings, joined, rng)?;
//! let invitation = alice.invite("bob", UnixMillis(1000), rng)?;
//! bob.accept("alice", &invitation, UnixMillis(1000), rng)?;
//! alice.queue_text(alice.find("bob").unwrap(), "hello")?;
//!
//! let mut heard = Vec::new();
//! for number in 2..200 {
//!     let (round, now) = (Round(number), UnixMillis(1000 * number));
//!     let mut deposits = Vec::new();
//!     for client in [&mut alice, &mut bob] {
//!         client.open_round(round, now, rng)?;
//!         // Here `client.snapshot()` is stored: a box that is sent must never be composed anew.
//!         deposits.push(client.deposit().unwrap().1.clone());
//!     }
//!     // What the server publishes; `boxes` is what one retrieves from, here without hiding which.
//!     let (manifest, mapping, boxes) = seal(round, deposits);
//!     for client in [&mut alice, &mut bob] {
//!         heard.extend(client.ready(&manifest));
//!         let retrieval = client.lookup(round, &mapping, rng);
//!         let place = retrieval.targets[0].unwrap_or(0);
//!         heard.extend(client.received(retrieval, vec![Some(boxes[place].clone())]));
//!     }
//! }
//! assert!(heard.iter().any(|notice| matches!(notice, Notice::Text { text, .. } if text == "hello")));
//! # Ok::<_, sotto_protocol::Error>(())
//! ```
#![forbid(unsafe_code)]

// What the tests have in common stands beside those that see the public side alone.
#[cfg(test)]
extern crate self as sotto_protocol;

mod armour;
pub mod audit;
pub mod base32;
pub mod client;
mod clock;
pub mod code;
mod conversation;
mod cover;
mod cycle;
pub mod deposit;
pub mod directory;
mod domain;
pub mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod invitation;
mod key_epoch;
pub mod manifest;
pub mod mapping;
mod message;
mod name;
pub mod negotiation;
mod pair;
mod ratchet;
mod reaction;
pub mod round;
mod seal;
mod secret;
pub mod server;
mod slot;
mod stream;
pub mod table;
mod turn;
#[cfg(test)]
mod vectors;
mod verification;

pub use client::{
    Client, Holder, Lookups, MessageId, Notice, OpenInvitation, Outgoing, OwnSlot, Retrieval, Settings,
    Unshown, Waiting, Warning,
};
pub use code::{CodeKind, CodeShape, STANDING_ROUNDS};
pub use conversation::{ConversationId, ConversationKind, ConversationSummary};
pub use cover::cover;
pub use deposit::{Deposit, Label, SealedBox};
pub use directory::{Directory, SignedDirectory};
pub use error::Error;
pub use group::{GroupCard, Member};
pub use invitation::Invitation;
pub use key_epoch::KeyEpoch;
pub use manifest::seed::{SeedCommitment, SegmentEnd};
pub use manifest::{ChainStep, MANIFEST_VERSION, Manifest, ManifestChain, SignedManifest};
pub use mapping::{BloomMapping, Lookup};
pub use negotiation::{RoundMode, ServerParameters, Succession};
pub use pair::KeyAgreement;
pub use round::{Round, UnixMillis};
pub use slot::slot;
pub use stream::{TEXT_MAX, TEXTS_MAX};
pub use table::Table;
pub use verification::verification;

/// The version both ends must speak.
pub const PROTOCOL_VERSION: u16 = 5;
