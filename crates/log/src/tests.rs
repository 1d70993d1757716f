//! The log on a disk that fails: at every write and every sync, in the middle of a write, and by single bits.

mod base;
mod examples;
mod faults;
mod flushed;
mod fuzz;
mod golden;
mod order;
mod store;
mod workload;

pub(super) use base::entries;
pub(super) use workload::rng;
