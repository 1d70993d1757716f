//! Every command as its users run it: the program, from its arguments to its files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

mod closed_loop;
mod engines;
mod figures;
mod manual;
mod mpir;
mod pbc;
mod pir;
mod plan;
mod psir;
