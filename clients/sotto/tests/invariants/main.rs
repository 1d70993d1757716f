//! What must hold whatever people say and whatever the server does: the fixed trace, and one message per key.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod equivocation;
mod forgery;
mod hostile;
mod lies;
mod malicious;
mod placement;
mod recorder;
mod refusal;
mod rollback;
mod scene;
mod seals;
mod teller;
mod trace;
mod world;
