//! Measurements kept in a file, so that a run that was interrupted goes on where it was.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anyhow::Context;
use pir_core::ring::Backend;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::mpir::{Report, Setting, measure};

/// What was measured before and now, one JSON object a line.
pub(super) struct Kept<R> {
    file: File,
    known: Vec<R>,
}

impl<R: Clone + Serialize + DeserializeOwned> Kept<R> {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let context = || format!("cannot use {}", path.display());
        let file =
            OpenOptions::new().read(true).append(true).create(true).open(path).with_context(context)?;
        let mut known = Vec::new();
        for line in BufReader::new(&file).lines() {
            // A line that an interruption cut short is measured again, and so is one of another version.
            if let Ok(measured) = serde_json::from_str(&line.with_context(context)?) {
                known.push(measured);
            }
        }
        Ok(Self { file, known })
    }

    /// The first that is as wished.
    pub(super) fn find(&self, wished: impl Fn(&R) -> bool) -> Option<R> {
        self.known.iter().find(|known| wished(known)).cloned()
    }

    /// Keeps what was measured now.
    pub(super) fn keep(&mut self, measured: R) -> anyhow::Result<R> {
        // On a line of its own, even after one that was cut short.
        writeln!(self.file, "\n{}", serde_json::to_string(&measured)?)?;
        self.known.push(measured.clone());
        Ok(measured)
    }
}

/// Multi-queries.
pub(super) type Measurements = Kept<Report>;

impl Measurements {
    /// What is known of this setting with this kernel, or what is measured now.
    pub(super) fn get(&mut self, setting: &Setting, label: &str) -> anyhow::Result<Report> {
        let kernel = Backend::active().name();
        match self.find(|report| report.setting == *setting && report.kernel == kernel) {
            Some(report) => Ok(report),
            None => self.keep(measure(setting, &format!("{label}, n = {}", setting.elements))?),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use std::io::Write;

    use sotto_measuring::code::CodeName;
    use sotto_measuring::engine::EngineName;

    use super::Measurements;
    use crate::mpir::Setting;

    /// Hours of measurements must not be lost to an interruption, and none of another setting be taken for it.
    #[test]
    fn an_interrupted_run_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("measured.jsonl");
        let setting = Setting { bytes: 8, ..Setting::of(EngineName::Sealpir, CodeName::Cuckoo, 2, 64) };
        let first = Measurements::open(&path).unwrap().get(&setting, "").unwrap();
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"way\":\"cu").unwrap();

        let mut again = Measurements::open(&path).unwrap();
        assert_eq!(again.known.len(), 1);
        // A second measurement would take another time.
        assert_eq!(again.get(&setting, "").unwrap().answer_cpu_ms.to_bits(), first.answer_cpu_ms.to_bits());
        let other = again.get(&Setting { k: 3, ..setting }, "").unwrap();
        assert!(other.verified && other.buckets == 9);
        assert_eq!(Measurements::open(&path).unwrap().known.len(), 2);
    }
}
