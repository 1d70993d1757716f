//! Worlds that differ in secrets alone, in simulated time: everything that the wire shows of a participant, from its first
//! connection to its last byte, is exactly the same.
//!
//! ```text
//! server   an honest server in memory, and what it sees
//! machine  a participant's host: simulated work, randomness from a seed, a tape of all its bytes
//! world    people, contacts, and one whole stay of the person who is watched
//! traces   the worlds, and that they look alike
//! keys     the secrets of private retrieval
//! slots    what leaves when
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod audits;
mod keys;
mod machine;
mod server;
mod slots;
mod traces;
mod world;
