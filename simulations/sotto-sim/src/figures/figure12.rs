//! Figure 12: what one element costs, alone and in batches, by every code.

use std::path::Path;

use anyhow::ensure;
use sotto_measuring::code::CodeName;
use sotto_measuring::cpu::alone;
use sotto_measuring::engine::EngineName;
use sotto_measuring::table::{Column, Table, short, short_or_none};

use super::chart::{Bars, Quantity, draw_beside_paper};
use super::measured::Measurements;
use super::section::Figure;
use crate::mpir::{Report, Setting};
use crate::pbc::{Code, Dimensions};

const ELEMENT_BYTES: usize = 288;

/// Single queries whose mean is taken.
const SINGLE_QUERIES: usize = 8;

/// The paper's collection.
const PAPER_ELEMENTS: usize = 1 << 20;

/// Bytes of all buckets that one multi-query may read, those of equal content counted each. What reads more is left
/// out: it would take hours, and shows nothing that smaller batches do not.
const MOST_READ: usize = 6_000_000_000;

const NAMES: [(CodeName, &str); 7] = [
    (CodeName::Single, "single queries"),
    (CodeName::Replication, "replication"),
    (CodeName::Sharding, "sharding"),
    (CodeName::TwoChoice, "2-choice"),
    (CodeName::Hybrid, "Pung hybrid"),
    (CodeName::Cuckoo, "cuckoo"),
    (CodeName::Partitioned, "partitioned"),
];

/// The paper's costs of one of 2^20 elements of 288 bytes: milliseconds of client (MultiQuery, MultiExtract) and server
/// (MultiSetup, MultiAnswer), kilobytes of queries and answers.
const PAPER: [(CodeName, usize, [f64; 6]); 7] = [
    (CodeName::Single, SINGLE_QUERIES, [3.07, 2.51, 6100.0, PAPER_SINGLE_ANSWER_MS, 64.0, 384.0]),
    (CodeName::Hybrid, 16, [29.03, 20.0, 2020.0, 1370.0, 577.0, 2885.0]),
    (CodeName::Hybrid, 64, [28.5, 16.27, 640.0, 490.0, 577.0, 2308.0]),
    (CodeName::Hybrid, 256, [28.58, 16.36, 300.0, 210.0, 577.0, 2308.0]),
    (CodeName::Cuckoo, 16, [6.45, 3.26, 1500.0, 690.0, 96.0, 480.0]),
    (CodeName::Cuckoo, 64, [5.26, 3.25, 380.0, 230.0, 96.0, 480.0]),
    (CodeName::Cuckoo, 256, [4.92, 2.7, 120.0, 80.0, 96.0, 384.0]),
];

/// Server milliseconds of a single query.
const PAPER_SINGLE_ANSWER_MS: f64 = 3240.0;

/// One code with one batch, everything for one element.
struct Row {
    name: &'static str,
    report: Report,
    paper: Option<[f64; 6]>,
    /// What single queries take for an answer, milliseconds.
    alone: f64,
}

impl Row {
    /// A k-th of what a batch takes.
    fn part(&self, whole: f64) -> f64 {
        whole / self.report.setting.k as f64
    }

    fn is_single(&self) -> bool {
        self.report.setting.way == CodeName::Single
    }

    /// Without a code the whole database is set up for a single element.
    fn setup(&self) -> f64 {
        let whole = self.report.encode_cpu_ms + self.report.setup_cpu_ms;
        if self.is_single() { whole } else { self.part(whole) }
    }

    fn paper(&self, quantity: usize) -> String {
        short_or_none(self.paper.map(|paper| paper[quantity]))
    }
}

const COLUMNS: [Column<Row>; 22] = [
    ("n", |row| row.report.setting.elements.to_string()),
    ("code", |row| row.name.to_owned()),
    ("k", |row| if row.is_single() { 1 } else { row.report.setting.k }.to_string()),
    ("buckets", |row| if row.is_single() { 1 } else { row.report.buckets }.to_string()),
    ("bucket size", |row| row.report.bucket_size.to_string()),
    ("MultiQuery, paper, ms", |row| row.paper(0)),
    ("MultiQuery, ms", |row| short(row.part(row.report.client_query_cpu_ms))),
    ("MultiExtract, paper, ms", |row| row.paper(1)),
    ("MultiExtract, ms", |row| short(row.part(row.report.client_extract_cpu_ms))),
    ("MultiSetup, paper, ms", |row| row.paper(2)),
    ("MultiSetup, ms", |row| short(row.setup())),
    ("MultiAnswer, paper, ms", |row| row.paper(3)),
    ("MultiAnswer, ms", |row| short(row.report.server_cpu_ms_per_message)),
    ("of it EXPAND, ms", |row| short(row.part(row.report.expand_cpu_ms.unwrap_or_default()))),
    ("first dimension, ms", |row| short(row.part(row.report.first_dimension_cpu_ms))),
    ("times cheaper than single queries, paper", |row| {
        short_or_none(row.paper.map(|paper| PAPER_SINGLE_ANSWER_MS / paper[3]))
    }),
    ("times cheaper than single queries", |row| short(row.alone / row.report.server_cpu_ms_per_message)),
    ("query, paper, KB", |row| row.paper(4)),
    ("query, KB", |row| short(row.part(row.report.upload_bytes as f64) / 1024.0)),
    ("answer, paper, KB", |row| row.paper(5)),
    ("answer, KB", |row| short(row.part(row.report.download_bytes as f64) / 1024.0)),
    ("deferred keys", |row| row.report.deferred.to_string()),
];

/// In the chart; answers are nearly all of the traffic.
const CHARTED: [Quantity<Row>; 2] = [
    ("MultiAnswer, ms", |row| [row.paper.map(|paper| paper[3]), Some(row.report.server_cpu_ms_per_message)]),
    ("answer, KB", |row| {
        [row.paper.map(|paper| paper[5]), Some(row.part(row.report.download_bytes as f64) / 1024.0)]
    }),
];

pub(super) fn make(quick: bool, out: &Path) -> anyhow::Result<Figure> {
    let (sizes, batches): (&[usize], &[usize]) =
        if quick { (&[1 << 10], &[16]) } else { (&[1 << 18, 1 << 20], &[16, 64, 256]) };
    let mut measurements = Measurements::open(&out.join("figure-12.measured.jsonl"))?;
    let mut table = Table::of("Figure 12: cost of one element in a batch of k", &COLUMNS, &[]);
    let mut panels = Vec::new();
    alone(|| {
        for &n in sizes {
            // Beside the values of the quick run, too, the paper's may be compared in form.
            let with_paper = quick || n == PAPER_ELEMENTS;
            let mut rows: Vec<Row> = Vec::new();
            for (way, name) in NAMES {
                // One query is short, and its mean over several steadier.
                for &k in if way == CodeName::Single { &[SINGLE_QUERIES][..] } else { batches } {
                    let setting = Setting::of(EngineName::Sealpir, way, k, n);
                    let read = bytes_read(&setting)?;
                    if read > MOST_READ {
                        table.row(skipped(n, name, k, read));
                        continue;
                    }
                    let report = measurements.get(&setting, &label(name, &setting))?;
                    ensure!(report.verified, "{name}, k = {k}: a retrieved element is not the database's");
                    let paper = PAPER.iter().find(|(of, batch, _)| with_paper && (*of, *batch) == (way, k));
                    let paper = paper.map(|(_, _, values)| *values);
                    let alone = rows.first().map_or(report.server_cpu_ms_per_message, |row| row.alone);
                    let row = Row { name, report, paper, alone };
                    table.row(COLUMNS.iter().map(|(_, cell)| cell(&row)).collect());
                    rows.push(row);
                }
            }
            let charted = if n == sizes[sizes.len() - 1] { &CHARTED[..] } else { &CHARTED[..1] };
            for (title, values) in charted {
                let bars = rows.iter().map(|row| (label(row.name, &row.report.setting), values(row).into()));
                panels.push(Bars::new(format!("{title}, for each element, n = {n}"), bars));
            }
        }
        Ok(())
    })?;
    table.note(format!(
        "Elements of {ELEMENT_BYTES} bytes; CPU time of one thread; everything for one element, that is a k-th of the \
         batch. MultiSetup, once for all clients, is Encode with the bytes of the buckets and SETUP of all of them, \
         those of equal content once. MultiAnswer answers one client's queries one at a time. KB are 1,024 bytes; \
         public keys are uploaded once and not counted. The paper's values are those of 2^20 elements."
    ));
    table.note(format!(
        "Left out is what would read more than {} of buckets for one multi-query.",
        gigabytes(MOST_READ)
    ));
    let svg = draw_beside_paper(
        &format!("Figure 12: elements of {ELEMENT_BYTES} bytes, CPU time of one thread"),
        &panels,
    )?;
    let shows = "What one element costs when k are retrieved at once: by k queries of the whole database, and by batch codes, \
        where each query is of a bucket only. The larger the batch, the cheaper the element.";
    let differs = "The engine is this project's SealPIR with its smaller queries and answers (figure 9); the paper takes its \
        own with a plaintext modulus of 20 bits. The cuckoo code has as many buckets as a failure probability of 2^-20 \
        needs, which is more than 1.5 k for small k, so that a small batch has more queries than the paper's. The paper's \
        times are those of its own machine.";
    Ok(Figure { table, svg, shows: shows.to_owned(), differs: differs.to_owned() })
}

fn label(name: &str, setting: &Setting) -> String {
    if setting.way == CodeName::Single { name.to_owned() } else { format!("{name}, k = {}", setting.k) }
}

/// The row of a batch that is not measured.
fn skipped(n: usize, name: &str, k: usize, read: usize) -> Vec<String> {
    let mut cells = vec!["-".to_owned(); COLUMNS.len()];
    cells[0] = n.to_string();
    cells[1] = format!("{name}, left out: reads {}", gigabytes(read));
    cells[2] = k.to_string();
    cells
}

/// Bytes of all buckets, those of equal content counted each, without padding.
fn bytes_read(setting: &Setting) -> anyhow::Result<usize> {
    let Setting { way, k, elements: n, bytes, b, w, .. } = *setting;
    if way == CodeName::Single {
        return Ok(n * bytes);
    }
    if way == CodeName::Hybrid {
        // Two quarters of nine buckets each.
        return Ok(n * bytes * 9 / 2);
    }
    let code = Code::new(Dimensions { n, b, w, ..Dimensions::of(way, k) }, [0; 32])?;
    Ok(n * bytes * code.copies * code.choices)
}

fn gigabytes(bytes: usize) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}
