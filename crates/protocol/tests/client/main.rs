//! Clients against an honest, a lossy and a lying server, all in memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

mod attack;
mod blocks;
mod crashes;
mod crowding;
mod disturbances;
mod finder;
mod groups;
mod handshake;
mod invitations;
mod malice;
mod pairs;
mod restored;
mod versions;
mod world;
