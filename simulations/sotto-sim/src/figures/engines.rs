//! What figures 9, 10 and 11 share: the engines that they compare, and the databases.

use std::sync::Arc;

use anyhow::Context;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Runtime;

use crate::engine::EngineName;

/// Of every element, as in the paper.
pub(super) const ELEMENT_BYTES: usize = 288;

/// In the order of the tables.
pub(super) const ENGINES: [(&str, EngineName); 4] = [
    ("SealPIR", EngineName::Sealpir),
    ("XPIR d = 2", EngineName::Xpir2),
    ("XPIR d = 3", EngineName::Xpir3),
    ("paper's SealPIR", EngineName::PaperT23),
];

/// So many random elements, the same every time.
pub(super) fn elements(count: usize) -> Arc<Vec<u8>> {
    let mut bytes = vec![0; count * ELEMENT_BYTES];
    StdRng::seed_from_u64(1).fill_bytes(&mut bytes);
    Arc::new(bytes)
}

/// What carries sockets and timers; everything that computes for long has threads of its own.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().context("cannot start the threads of the network")
}

/// A number of elements as a power of two, if it is one.
pub(super) fn power_of_two(n: usize) -> String {
    if n.is_power_of_two() { format!("2^{}", n.trailing_zeros()) } else { n.to_string() }
}
