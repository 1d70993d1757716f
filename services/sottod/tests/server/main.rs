//! The server as its callers and its operator see it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

mod calls;
mod changes;
mod durable;
mod lifecycle;
mod operations;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod tokens;
