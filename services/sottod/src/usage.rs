//! What a process uses, as Linux tells it in `/proc`.

use std::fs::read_to_string;
use std::path::Path;

/// What a process uses; nothing where the system does not tell, or the process is gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Memory that is there, bytes.
    pub resident: u64,
    /// The most there was, bytes.
    pub peak: u64,
    /// Processor time of all its threads, in the kernel too, seconds.
    pub processor: f64,
}

impl Usage {
    /// Of this process.
    #[must_use]
    pub fn of_this() -> Self {
        Self::read(Path::new("/proc/self"))
    }

    /// Of another one.
    #[must_use]
    pub fn of(process: u32) -> Self {
        Self::read(Path::new(&format!("/proc/{process}")))
    }

    fn read(process: &Path) -> Self {
        /// Linux counts processor time in hundredths of a second for all programs.
        const TICKS: f64 = 100.0;
        let status = read_to_string(process.join("status")).unwrap_or_default();
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            kib.unwrap_or(0).saturating_mul(1024)
        };
        let stat = read_to_string(process.join("stat")).unwrap_or_default();
        // User and system time are the twelfth and thirteenth field behind the name, which may hold anything.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let ticks = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
        Self { resident: bytes("VmRSS"), peak: bytes("VmHWM"), processor: ticks.sum::<f64>() / TICKS }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::Usage;

    /// Nothing, or another field, would hide a server that grows.
    #[test]
    fn a_process_uses_memory_and_time() {
        let megabytes = vec![1_u8; 64 << 20];
        let usage = Usage::of_this();
        assert!(usage.resident > megabytes.len() as u64 && usage.peak >= usage.resident, "{usage:?}");
        assert!(usage.resident < 1 << 40);
        let until = usage.processor + 0.02;
        while Usage::of(std::process::id()).processor < until {}
        assert_eq!(Usage::of(u32::MAX).resident, 0);
    }
}
