//! CPU time: what the operator pays, whatever else the machine does.

use rustix::time::{ClockId, clock_gettime};

/// CPU time the calling thread has used, milliseconds.
pub(crate) fn milliseconds() -> f64 {
    read(ClockId::ThreadCPUTime)
}

/// CPU time all threads of this process have used, milliseconds.
pub(crate) fn process_milliseconds() -> f64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// What `work` returns and the CPU time it took, milliseconds.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = milliseconds();
    let result = work();
    (result, milliseconds() - start)
}

/// The middle one of some measurements, or the upper one of the two middle ones.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
