//! What the crate promises, through its public interface alone. `wiping` stands apart: its allocator watches a process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

mod end_to_end;
mod reaction;
mod voce;
