//! CPU time: what the operator pays, whatever else the machine does.

use derive_more::{Add, Mul, Sub, Sum};
use pir_core::dimensions::Stage;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// CPU time the calling thread has used, milliseconds.
fn milliseconds() -> f64 {
    read(ClockId::ThreadCPUTime)
}

/// CPU time all threads of this process have used, milliseconds.
pub fn process_milliseconds() -> f64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// What `work` returns and the CPU time the calling thread took for it, milliseconds.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = milliseconds();
    let result = work();
    (result, milliseconds() - start)
}

/// What `work` returns and the CPU time all threads took for it, milliseconds.
pub fn process_timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = process_milliseconds();
    let result = work();
    (result, process_milliseconds() - start)
}

/// What `work` returns when nothing runs in parallel, so that the clock of the calling thread sees all of it. A thread can
/// do so once.
///
/// # Errors
/// Those of `work`; and if the thread has done so before.
pub fn alone<T: Send>(work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?.install(work)
}

/// Cores of this machine.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The middle one of some measurements, or the upper one of the two middle ones.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// CPU time of the stages of answers, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Add, Sub, Sum, Mul)]
pub struct Stages {
    /// EXPAND; of engines that do not expand, parsing.
    pub expand: f64,
    /// Products with the database.
    pub first_dimension: f64,
    /// What follows the first dimension.
    pub rest: f64,
}

impl Stages {
    /// What `answer` returns, and the time of the calling thread in the stages that it tells of.
    pub fn timed<T>(answer: impl FnOnce(&mut dyn FnMut(Stage)) -> T) -> (T, Self) {
        let mut stages = Self::default();
        let start = milliseconds();
        let mut last = start;
        let result = answer(&mut |stage| {
            let now = milliseconds();
            match stage {
                Stage::Expanded => stages.expand += now - last,
                Stage::FirstDimension => stages.first_dimension += now - last,
                _ => {}
            }
            last = now;
        });
        stages.rest = milliseconds() - start - stages.expand - stages.first_dimension;
        (result, stages)
    }

    /// All of them together.
    pub fn total(self) -> f64 {
        self.expand + self.first_dimension + self.rest
    }
}
