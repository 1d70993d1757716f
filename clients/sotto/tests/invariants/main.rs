//! What must hold whatever people say and whatever the server does: the fixed trace, and one message per key.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod hostile;
mod malicious;
mod recorder;
mod trace;
mod world;
