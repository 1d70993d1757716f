//! Clients against an honest, a lossy and a lying server, all in memory.

#![allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]

mod crashes;
mod crowding;
mod groups;
mod malice;
mod pairs;
mod world;
