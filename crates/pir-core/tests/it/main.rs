//! What the crate promises, through its public interface alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

mod bfv;
mod encodings;
mod expand;
mod noop;
mod round_trip;
mod shapes;
