#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod keys;
mod past;
mod seen;
mod showing;
mod snapshots;
