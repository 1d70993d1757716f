//! Worlds that differ in secrets alone, in simulated time: everything that the wire shows of a participant, from its first
//! connection to its last byte, is exactly the same.
//!
//! ```text
//! server   a server in memory, and what it sees; its calls are in `calls`
//! lies     what it tells whom and when in place of the truth: rounds built anew (`forgery`), other events (`teller`)
//! machine  a participant's host: simulated work, randomness from a seed, a tape of all its bytes
//! wire     connections, which break
//! nodes    a server of several nodes, of which one dies; with sessions held ready, and directories: `stand_ins`
//! world    people, contacts, and one whole stay of the person who is watched
//! traces   worlds at an honest server, and that they look alike
//! stage    two worlds under the same lies, played and compared
//! attacks  everything that a malicious server may try; what it offers to one who joins is in `joining`
//! tables   the same of what lies in a round, at a server with slots
//! keys     the secrets of private retrieval
//! slots    what leaves when
//! reading  that it shows nowhere whether boxes could be read
//! mortal   a process that dies, or whose disk is full
//! drill    people whose processes die, and what must hold of everybody then
//! crashes  deaths at every write and at random instants, and disks that are full
//! copies   one account in two hands
//! screens  who looks at what came, and says that it was shown
//! rotation another manifest key while people talk
//! ```
//!
//! Worlds follow from their seed alone. `SOTTO_SEEDS=N` plays N seeds of every attack and every pair of worlds in place of
//! one; a failure names the seed, and `SOTTO_SEED_FIRST=SEED` begins with it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacks;
mod audits;
mod calls;
mod copies;
mod crashes;
mod drill;
mod forgery;
mod joining;
mod keys;
mod lies;
mod machine;
mod mortal;
mod nodes;
mod profiles;
mod reading;
mod rotation;
mod screens;
mod server;
mod slots;
mod spread;
mod stage;
mod stand_ins;
mod tables;
mod teller;
mod traces;
mod wire;
mod world;

/// Whether somebody asked for other seeds than those of the gate.
fn more_seeds() -> bool {
    std::env::var_os("SOTTO_SEEDS").is_some()
}

/// The seeds to play.
fn seeds() -> core::ops::Range<u64> {
    let number = |name, usual| match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => usual,
    };
    let first: u64 = number("SOTTO_SEED_FIRST", 0);
    first..first + number("SOTTO_SEEDS", 1)
}
