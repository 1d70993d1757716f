//! What the crate promises, through its public interface alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

mod doublepir;
mod fastpir;
mod onionpir;
mod paper;
mod psir;
mod seam;
mod simplepir;
mod spiral;
mod xpir;
