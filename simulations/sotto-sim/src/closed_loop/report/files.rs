//! The report as tables and files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use super::{OVERHEAD_MAX, Report};
use crate::figures::Table;

impl Report {
    /// One table with everything that matters.
    pub(super) fn markdown(&self) -> String {
        let mut table = Table::new(&self.title(), vec!["", "per client and round", "per message"]);
        let k = f64::from(self.retrieve);
        let mut row = |name: &str, value: f64, unit: &str| {
            table.row(vec![name.into(), format!("{value:.2} {unit}"), format!("{:.3} {unit}", value / k)]);
        };
        for (name, time) in self.stages() {
            row(&format!("server, {name}"), time, "ms");
        }
        row("server, all of these", self.core_seconds_per_client_round * 1e3, "ms");
        row("client", self.client_cpu_ms, "ms");
        for (name, bytes) in self.parts() {
            row(name, bytes / 1e3, "kB");
        }
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        table.note(format!(
            "{:.0} messages per minute, clients on the same machine; {:.0} by the server's CPU time alone. A round lasts \
             {:.0} ms, of them set-up {:.0} ms ({:.0} ms of CPU time, shared by all {} users). Retrieval: p50 {:.0} ms, \
             p90 {:.0} ms, p99 {:.0} ms, max {:.0} ms.",
            self.messages_per_minute,
            self.messages_per_minute_by_server_cpu,
            self.round_wall_ms,
            self.setup_wall_ms,
            self.setup_cpu_ms,
            self.users,
            self.latency_ms.p50,
            self.latency_ms.p90,
            self.latency_ms.p99,
            self.latency_ms.max,
        ));
        table.note(format!(
            "Server memory: peak {:.0} MiB; prepared round {:.0} MiB, keys {:.0} MiB.",
            mebibytes(self.memory.peak),
            mebibytes(self.memory.databases),
            mebibytes(self.memory.keys),
        ));
        table.note(format!(
            "Checking an answer: {:.1} kB for the bucket ({:.1} kB in the sockets), {:.0} ms of the client's CPU time.",
            self.check.bytes as f64 / 1e3,
            self.check.socket as f64 / 1e3,
            self.check.cpu_ms
        ));
        let verdict = match (self.overhead_meaningful, self.overhead <= OVERHEAD_MAX) {
            (false, _) => "too little work to judge by",
            (true, true) => "within the bound",
            (true, false) => "ABOVE THE BOUND",
        };
        table.note(format!(
            "Overhead over the bare stages: {:.3} (retrieval {:.3}, set-up {:.3}), {verdict} of {OVERHEAD_MAX}.",
            self.overhead, self.overhead_retrieval, self.overhead_setup
        ));
        table.note(format!(
            "Retrieved {} ({} per client and round), wrong {}, missing {}, ambiguous {} ({} of them unread), deferred {}.",
            self.retrieved,
            self.retrieved_per_client_round,
            self.wrong,
            self.missing,
            self.ambiguous,
            self.ambiguous_unread,
            self.deferred
        ));
        table.markdown()
    }

    fn title(&self) -> String {
        format!(
            "{} users, {} real clients, k = {}, {}, {}: {} buckets of {}; {} threads, {}",
            self.users,
            self.clients,
            self.retrieve,
            self.engine,
            self.code.name(),
            self.buckets,
            self.bucket_size,
            self.threads,
            self.machine.describe()
        )
    }

    fn stages(&self) -> [(&'static str, f64); 5] {
        let stages = &self.stages_ms;
        [
            ("EXPAND or parsing", stages.expand),
            ("first dimension", stages.first_dimension),
            ("further dimensions", stages.rest),
            ("rest of the retrieval", stages.other),
            ("deposits", stages.deposits),
        ]
    }

    fn parts(&self) -> [(&'static str, f64); 6] {
        let bytes = &self.bytes;
        [
            ("deposit", bytes.deposit),
            ("mapping", bytes.mapping),
            ("multi-query", bytes.query),
            ("answers", bytes.answer),
            ("what carries them", bytes.overhead),
            ("keys, once", bytes.keys_once),
        ]
    }
}

/// Runs side by side.
pub(crate) fn comparison(reports: &[Report]) -> Table {
    let header = vec![
        "code",
        "messages per minute",
        "core ms per message",
        "set-up ms",
        "buckets",
        "query kB",
        "answer kB",
        "mapping kB",
        "peak MiB",
        "overhead",
    ];
    let mut table = Table::new("Codes compared", header);
    for report in reports {
        table.row(vec![
            report.code.name().to_owned(),
            format!("{:.0}", report.messages_per_minute),
            format!("{:.3}", report.core_ms_per_message),
            format!("{:.0}", report.setup_cpu_ms),
            report.buckets.to_string(),
            format!("{:.1}", report.bytes.query / 1e3),
            format!("{:.1}", report.bytes.answer / 1e3),
            format!("{:.1}", report.bytes.mapping / 1e3),
            format!("{:.0}", report.memory.peak as f64 / f64::from(1 << 20)),
            format!("{:.3}", report.overhead),
        ]);
    }
    table
}

/// One object: the report itself, or all of them under their codes.
pub(crate) fn json(reports: &[Report]) -> anyhow::Result<String> {
    if let [report] = reports {
        return Ok(serde_json::to_string(report)?);
    }
    let mut all = serde_json::Map::new();
    for report in reports {
        all.insert(report.code.name().to_owned(), serde_json::to_value(report)?);
    }
    Ok(Value::Object(all).to_string())
}

/// Writes the report's files and tells their names.
pub(crate) fn write(out: &Path, reports: &[Report]) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let markdown: Vec<String> = reports.iter().map(Report::markdown).collect();
    let mut markdown = markdown.join("\n\n");
    if reports.len() > 1 {
        markdown += &format!("\n\n{}", comparison(reports).markdown());
    }
    let files = [
        ("report.json", json(reports)? + "\n"),
        ("rounds.csv", rounds(reports).csv()),
        ("stages.csv", stages(reports).csv()),
        ("report.md", markdown + "\n"),
    ];
    files
        .into_iter()
        .map(|(name, content)| {
            let path = out.join(name);
            std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        })
        .collect()
}

fn rounds(reports: &[Report]) -> Table {
    let header = vec![
        "code",
        "round",
        "wall_ms",
        "deposits_cpu_ms",
        "setup_wall_ms",
        "setup_cpu_ms",
        "retrieval_wall_ms",
        "retrieval_cpu_ms",
        "bare_setup_cpu_ms",
        "bare_retrieval_cpu_ms",
        "clients_cpu_ms",
        "bytes_up",
        "bytes_down",
        "retrieved",
    ];
    let mut table = Table::new("Rounds", header);
    for report in reports {
        for round in &report.by_round {
            let times = [
                round.wall_ms,
                round.deposits_cpu_ms,
                round.setup_wall_ms,
                round.setup_cpu_ms,
                round.retrieval_wall_ms,
                round.retrieval_cpu_ms,
                round.bare_setup_cpu_ms,
                round.bare_retrieval_cpu_ms,
                round.clients_cpu_ms,
            ];
            let mut cells = vec![report.code.name().to_owned(), round.round.to_string()];
            cells.extend(times.map(|time| format!("{time:.3}")));
            cells.extend([round.bytes_up, round.bytes_down, round.retrieved].map(|count| count.to_string()));
            table.row(cells);
        }
    }
    table
}

/// The server's stages in the loop and by themselves, of one whole round.
fn stages(reports: &[Report]) -> Table {
    let mut table = Table::new("Stages", vec!["code", "stage", "loop_cpu_ms", "bare_cpu_ms"]);
    for report in reports {
        let (stages, bench, clients) = (&report.stages_ms, &report.bench_ms, f64::from(report.clients));
        let setup = bench.arrange + bench.encode + bench.prepare + bench.mapping;
        for (stage, measured, bare) in [
            ("setup", Some(report.setup_cpu_ms), Some(setup)),
            ("setup: arrange", None, Some(bench.arrange)),
            ("setup: encode", None, Some(bench.encode)),
            ("setup: prepare", None, Some(bench.prepare)),
            ("setup: mapping", None, Some(bench.mapping)),
            ("expand", Some(stages.expand * clients), Some(bench.expand)),
            ("first dimension", Some(stages.first_dimension * clients), Some(bench.first_dimension)),
            ("further dimensions", Some(stages.rest * clients), Some(bench.rest)),
            ("rest of the retrieval", Some(stages.other * clients), None),
            ("deposits", Some(stages.deposits * clients), None),
        ] {
            let cell = |time: Option<f64>| time.map_or_else(String::new, |time| format!("{time:.3}"));
            let code = report.code.name().to_owned();
            table.row(vec![code, stage.to_owned(), cell(measured), cell(bare)]);
        }
    }
    table
}
