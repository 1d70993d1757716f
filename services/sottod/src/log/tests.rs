//! The log on a disk that fails: at every write and every sync, in the middle of a write, and by single bits.

mod base;
mod examples;
mod faults;
mod flushed;
mod fuzz;
mod golden;
mod order;
mod simulated;
mod store;
mod verbs;
mod workload;

pub(super) use base::entries;
pub(crate) use simulated::Simulated;
pub(crate) use verbs::{History, Verbs};
pub(crate) use workload::options;
pub(super) use workload::rng;
