//! The engines that figures 9, 10 and 11 compare.

use core::num::NonZero;
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use pir_baselines::{PaperSealPir, Xpir};
use pir_core::SealPir;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Runtime;

use super::figure9::{self, Costs, Paper};
use super::figure10::{self, Response, Shaped};
use super::figure11::{self, Crowd, Load};
use crate::engine::Engine;

/// Of every element, as in the paper.
pub(super) const ELEMENT_BYTES: usize = 288;

/// An engine with its measurements.
pub(super) struct Compared {
    pub(super) name: &'static str,
    /// What the paper measured of it.
    pub(super) paper: Paper,
    /// Requests per second at which it saturates in the paper's figure 11, on 16 cores.
    pub(super) paper_saturation: f64,
    pub(super) costs: fn(&Elements, u16, &ProgressBar) -> anyhow::Result<Costs>,
    pub(super) responses: fn(&Runtime, &Shaped, &ProgressBar) -> anyhow::Result<Vec<Response>>,
    pub(super) loads: fn(&Runtime, &Crowd, &ProgressBar) -> anyhow::Result<Vec<Load>>,
}

impl Compared {
    const fn of<S: Engine>(name: &'static str, paper: Paper, paper_saturation: f64) -> Self {
        Self {
            name,
            paper,
            paper_saturation,
            costs: figure9::measure::<S>,
            responses: figure10::measure::<S>,
            loads: figure11::measure::<S>,
        }
    }
}

/// In the order of the tables.
pub(super) const ENGINES: [Compared; 4] = [
    Compared::of::<SealPir>("SealPIR", Paper::SEALPIR, 7.0),
    Compared::of::<Xpir<2>>("XPIR d = 2", Paper::XPIR_2, 9.0),
    Compared::of::<Xpir<3>>("XPIR d = 3", Paper::XPIR_3, 4.7),
    Compared::of::<PaperSealPir<23>>("paper's SealPIR", Paper::SEALPIR, 7.0),
];

/// A database's elements.
#[derive(Clone)]
pub(super) struct Elements {
    pub(super) count: usize,
    pub(super) bytes: Arc<Vec<u8>>,
}

impl Elements {
    /// Random ones, the same every time.
    pub(super) fn new(count: usize) -> Self {
        let mut bytes = vec![0; count * ELEMENT_BYTES];
        StdRng::seed_from_u64(1).fill_bytes(&mut bytes);
        Self { count, bytes: Arc::new(bytes) }
    }
}

/// Cores of this machine.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// What carries sockets and timers; everything that computes for long has threads of its own.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().context("cannot start the threads of the network")
}

/// On the terminal only; hidden where the error output is not one.
pub(super) fn progress_bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:48} {bar:24} {pos}/{len} {elapsed}");
    let bar =
        ProgressBar::new(steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(core::time::Duration::from_millis(500));
    bar
}

/// A number of elements as a power of two, if it is one.
pub(super) fn power_of_two(n: usize) -> String {
    if n.is_power_of_two() { format!("2^{}", n.trailing_zeros()) } else { n.to_string() }
}
