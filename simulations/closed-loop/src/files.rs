//! The report as tables and files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;
use sotto_measuring::code::CodeName;
use sotto_measuring::table::{Column, Table};
use sottod::Preference;

use crate::client::Counts;
use crate::lines::Bench;
use crate::report::{Bytes, Latency, OVERHEAD_MAX, Report, RoundReport, ServerStages};

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Report {
    /// One table with everything that matters.
    pub(crate) fn markdown(&self) -> String {
        let preferred = match self.config.prefer {
            Preference::Balanced => String::new(),
            preference => format!(" for {}", preference.name()),
        };
        let title = format!(
            "{} users, {} real clients, k = {}, {}{}, {}: {} buckets of {}; {} threads, {}",
            self.config.users,
            self.config.clients,
            self.config.retrieve,
            self.engine,
            preferred,
            self.config.code,
            self.buckets,
            self.bucket_size,
            self.threads,
            self.machine.describe()
        );
        let mut table = Table::new(&title, vec!["", "per client and round", "per message"]);
        let ServerStages { answer: stages, other, deposits } = self.stages_ms;
        let Bytes { deposit, mapping, hint, query, answer, overhead, keys_once, .. } = self.bytes;
        for (name, value, unit) in [
            ("server, EXPAND or parsing", stages.expand, "ms"),
            ("server, first dimension", stages.first_dimension, "ms"),
            ("server, further dimensions", stages.rest, "ms"),
            ("server, rest of the retrieval", other, "ms"),
            ("server, deposits", deposits, "ms"),
            ("server, all of these", self.core_seconds_per_client_round * 1e3, "ms"),
            ("client", self.client_cpu_ms, "ms"),
            ("deposit", deposit / 1e3, "kB"),
            ("mapping", mapping / 1e3, "kB"),
            ("hint", hint / 1e3, "kB"),
            ("multi-query", query / 1e3, "kB"),
            ("answers", answer / 1e3, "kB"),
            ("what carries them", overhead / 1e3, "kB"),
            ("keys, once", keys_once / 1e3, "kB"),
        ] {
            let each = value / f64::from(self.config.retrieve);
            table.row(vec![name.into(), format!("{value:.2} {unit}"), format!("{each:.3} {unit}")]);
        }
        let Latency { p50, p90, p99, max } = self.latency_ms;
        table.note(format!(
            "{:.0} messages per minute, clients on the same machine; {:.0} by the server's CPU time alone. A round lasts \
             {:.0} ms, of them set-up {:.0} ms ({:.0} ms of CPU time, shared by all {} users). Retrieval: p50 {p50:.0} ms, \
             p90 {p90:.0} ms, p99 {p99:.0} ms, max {max:.0} ms.",
            self.messages_per_minute,
            self.messages_per_minute_by_server_cpu,
            self.round_wall_ms,
            self.setup_wall_ms,
            self.setup_cpu_ms,
            self.config.users,
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
        if let (Some(overhead), Some(retrieval), Some(setup)) =
            (self.overhead, self.overhead_retrieval, self.overhead_setup)
        {
            let verdict = match (self.overhead_meaningful, overhead <= OVERHEAD_MAX) {
                (false, _) => "too little work to judge by",
                (true, true) => "within the bound",
                (true, false) => "ABOVE THE BOUND",
            };
            table.note(format!(
                "Overhead over the bare stages: {overhead:.3} (retrieval {retrieval:.3}, set-up {setup:.3}), {verdict} of \
                 {OVERHEAD_MAX}."
            ));
        }
        let Counts { retrieved, wrong, missing, ambiguous, ambiguous_unread, deferred } = self.counts;
        table.note(format!(
            "Retrieved {retrieved} ({} per client and round), wrong {wrong}, missing {missing}, ambiguous {ambiguous} \
             ({ambiguous_unread} of them unread), deferred {deferred}.",
            self.retrieved_per_client_round
        ));
        table.markdown()
    }
}

/// Runs side by side.
pub(crate) fn comparison(reports: &[Report]) -> Table {
    let columns: [Column<Report>; 10] = [
        ("code", |report| report.config.code.to_string()),
        ("messages per minute", |report| format!("{:.0}", report.messages_per_minute)),
        ("core ms per message", |report| format!("{:.3}", report.core_ms_per_message)),
        ("set-up ms", |report| format!("{:.0}", report.setup_cpu_ms)),
        ("buckets", |report| report.buckets.to_string()),
        ("query kB", |report| format!("{:.1}", report.bytes.query / 1e3)),
        ("answer kB", |report| format!("{:.1}", report.bytes.answer / 1e3)),
        ("mapping kB", |report| format!("{:.1}", report.bytes.mapping / 1e3)),
        ("peak MiB", |report| format!("{:.0}", mebibytes(report.memory.peak))),
        ("overhead", |report| {
            report.overhead.map_or_else(|| "not measured".to_owned(), |overhead| format!("{overhead:.3}"))
        }),
    ];
    Table::of("Codes compared", &columns, reports)
}

/// One object: the report itself, or all of them under their codes.
pub(crate) fn json(reports: &[Report]) -> anyhow::Result<String> {
    if let [report] = reports {
        return Ok(serde_json::to_string(report)?);
    }
    let named =
        reports.iter().map(|report| Ok((report.config.code.to_string(), serde_json::to_value(report)?)));
    Ok(Value::Object(named.collect::<anyhow::Result<_>>()?).to_string())
}

/// Writes the report's files and tells their names.
pub(crate) fn write(out: &Path, reports: &[Report]) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut markdown: Vec<String> = reports.iter().map(Report::markdown).collect();
    if reports.len() > 1 {
        markdown.push(comparison(reports).markdown());
    }
    let files = [
        ("report.json", json(reports)? + "\n"),
        ("rounds.csv", rounds(reports).csv()),
        ("stages.csv", stages(reports).csv()),
        ("report.md", markdown.join("\n\n") + "\n"),
    ];
    let write = |(name, content)| {
        let path = out.join(name);
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    files.into_iter().map(write).collect()
}

fn rounds(reports: &[Report]) -> Table {
    let columns: [Column<(CodeName, RoundReport)>; 14] = [
        ("code", |(code, _)| code.to_string()),
        ("round", |(_, of)| of.round.to_string()),
        ("wall_ms", |(_, of)| time(of.wall_ms)),
        ("deposits_cpu_ms", |(_, of)| time(of.deposits_cpu_ms)),
        ("setup_wall_ms", |(_, of)| time(of.setup_wall_ms)),
        ("setup_cpu_ms", |(_, of)| time(of.setup_cpu_ms)),
        ("retrieval_wall_ms", |(_, of)| time(of.retrieval_wall_ms)),
        ("retrieval_cpu_ms", |(_, of)| time(of.retrieval_cpu_ms)),
        ("bare_setup_cpu_ms", |(_, of)| cell(of.bare_setup_cpu_ms)),
        ("bare_retrieval_cpu_ms", |(_, of)| cell(of.bare_retrieval_cpu_ms)),
        ("clients_cpu_ms", |(_, of)| time(of.clients_cpu_ms)),
        ("bytes_up", |(_, of)| of.bytes_up.to_string()),
        ("bytes_down", |(_, of)| of.bytes_down.to_string()),
        ("retrieved", |(_, of)| of.retrieved.to_string()),
    ];
    let mut rows = Vec::new();
    for report in reports {
        rows.extend(report.by_round.iter().map(|round| (report.config.code, *round)));
    }
    Table::of("Rounds", &columns, &rows)
}

fn time(milliseconds: f64) -> String {
    format!("{milliseconds:.3}")
}

/// Empty where nothing was measured.
fn cell(milliseconds: Option<f64>) -> String {
    milliseconds.map_or_else(String::new, time)
}

/// The server's stages in the loop and by themselves, of one whole round.
fn stages(reports: &[Report]) -> Table {
    let mut table = Table::new("Stages", vec!["code", "stage", "loop_cpu_ms", "bare_cpu_ms"]);
    for report in reports {
        let (bench, clients) = (report.bench_ms, f64::from(report.config.clients));
        let bare = |of: fn(&Bench) -> f64| bench.as_ref().map(of);
        let ServerStages { answer, other, deposits } = report.stages_ms;
        for (stage, measured, bare) in [
            ("setup", Some(report.setup_cpu_ms), bare(|bench| bench.setup())),
            ("setup: arrange", None, bare(|bench| bench.arrange)),
            ("setup: encode", None, bare(|bench| bench.encode)),
            ("setup: prepare", None, bare(|bench| bench.prepare)),
            ("setup: mapping", None, bare(|bench| bench.mapping)),
            ("expand", Some(answer.expand * clients), bare(|bench| bench.stages.expand)),
            (
                "first dimension",
                Some(answer.first_dimension * clients),
                bare(|bench| bench.stages.first_dimension),
            ),
            ("further dimensions", Some(answer.rest * clients), bare(|bench| bench.stages.rest)),
            ("rest of the retrieval", Some(other * clients), None),
            ("deposits", Some(deposits * clients), None),
        ] {
            table.row(vec![report.config.code.to_string(), stage.to_owned(), cell(measured), cell(bare)]);
        }
    }
    table
}
