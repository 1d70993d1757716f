//! What a measurement was made on, for the reader of a report.

use std::process::Command;

use pir_core::ring::Backend;
use serde::{Deserialize, Serialize};

use crate::cpu::cores;

/// The machine, as far as it matters to times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    processor: String,
    cores: usize,
    /// Bytes; 0 where the system does not tell.
    memory: u64,
    /// The arithmetic kernel in use.
    kernel: String,
}

impl Machine {
    /// The one this runs on.
    pub fn here() -> Self {
        let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| field(&processors, name).map(str::to_owned);
        let model = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        // Virtual machines often hide the name, but not the numbers.
        let processor = match (field("cpu family"), field("model")) {
            (Some(family), Some(number)) => format!("{model} (family {family}, model {number})"),
            _ => model,
        };
        Self {
            processor,
            cores: cores(),
            memory: memory("MemTotal").unwrap_or(0),
            kernel: Backend::active().name().to_owned(),
        }
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let Self { processor, cores, memory, kernel } = self;
        let gibibytes = *memory as f64 / (1_u64 << 30) as f64;
        let memory = if *memory == 0 { String::new() } else { format!(", {gibibytes:.0} GiB of memory") };
        let plural = if *cores == 1 { "core" } else { "cores" };
        format!("{processor}, {cores} {plural}{memory}, kernel `{kernel}`")
    }
}

/// Memory that a new process could have, bytes, if the system tells.
pub fn available_memory() -> Option<u64> {
    memory("MemAvailable")
}

/// A quantity of memory, bytes.
fn memory(name: &str) -> Option<u64> {
    Some(field_number(&std::fs::read_to_string("/proc/meminfo").ok()?, name)? * 1024)
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// The leading number of that value.
fn field_number(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split(' ').next()?.parse().ok()
}

/// The commit of the tree this was compiled from, marked where files have changed since; nothing without git.
pub fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    // Figures that are made anew change files, too, but not what they are made by.
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/docs"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit} and changes") })
}

#[cfg(test)]
mod tests {
    use super::{Machine, field, field_number};

    /// A report that names no machine, or the wrong line's value, makes its numbers worthless.
    #[test]
    fn the_machine_is_named() {
        let text = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2 GHz\nMemTotal:       2048 kB\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(text, "model"), Some("85"));
        assert_eq!((field_number(text, "MemTotal"), field_number(text, "absent")), (Some(2048), None));
        let here = Machine::here();
        assert!(here.cores > 0 && !here.processor.is_empty() && here.describe().contains(&here.kernel));
    }
}
