//! The server as its clients and its operator meet it: over sockets, or as a program.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

mod crash;
mod hostile;
mod server;
mod sockets;
mod stage;
mod support;
