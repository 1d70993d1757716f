//! What must hold whatever people say and whatever the server does: the fixed trace, and one message per key.
#![forbid(unsafe_code)]

mod hostile;
mod malicious;
mod recorder;
mod trace;
mod world;
