//! Figure 12: what one element costs, alone and in batches, by every code.

mod paper;

use std::path::Path;

use anyhow::ensure;

use super::Figure;
use super::chart::{self, Bars, Panel, short};
use super::measured::Measurements;
use super::table::Table;
use crate::engine::EngineName;
use crate::mpir::{Report, Setting, Way};
use crate::pbc::{Code, Dimensions};
use paper::Paper;

const ELEMENT_BYTES: usize = 288;

/// Single queries whose mean is taken.
const SINGLE_QUERIES: usize = 8;

/// The paper's collection.
const PAPER_ELEMENTS: usize = 1 << 20;

/// Bytes of all buckets that one multi-query may read, those of equal content counted each. What reads more is left
/// out: it would take hours, and shows nothing that smaller batches do not.
const MOST_READ: usize = 6_000_000_000;

const NAMES: [(Way, &str); 7] = [
    (Way::Single, "single queries"),
    (Way::Replication, "replication"),
    (Way::Sharding, "sharding"),
    (Way::TwoChoice, "2-choice"),
    (Way::Hybrid, "Pung hybrid"),
    (Way::Cuckoo, "cuckoo"),
    (Way::Partitioned, "partitioned"),
];

/// Quantities per element: title, the paper's value, ours, in the same unit.
type Quantity = (&'static str, fn(&Paper) -> f64, fn(&Report) -> f64);

const QUANTITIES: [Quantity; 6] = [
    ("MultiQuery, ms", |paper| paper.query_ms, |report| per_element(report, report.client_query_cpu_ms)),
    (
        "MultiExtract, ms",
        |paper| paper.extract_ms,
        |report| per_element(report, report.client_extract_cpu_ms),
    ),
    ("MultiSetup, ms", |paper| paper.setup_ms, setup_per_element),
    ("MultiAnswer, ms", |paper| paper.answer_ms, |report| report.server_cpu_ms_per_message),
    ("query, KB", |paper| paper.upload_kb, |report| per_element(report, report.upload_bytes as f64) / 1024.0),
    (
        "answer, KB",
        |paper| paper.download_kb,
        |report| per_element(report, report.download_bytes as f64) / 1024.0,
    ),
];

/// MultiAnswer among them.
const ANSWER: usize = 3;

/// The last one: answers are nearly all of the traffic.
const DOWNLOAD: usize = 5;

/// A k-th of what a batch takes.
fn per_element(report: &Report, whole: f64) -> f64 {
    whole / report.setting.k as f64
}

/// Without a code the whole database is set up for a single element.
fn setup_per_element(report: &Report) -> f64 {
    let whole = report.encode_cpu_ms + report.setup_cpu_ms;
    if report.setting.way == Way::Single { whole } else { per_element(report, whole) }
}

pub(super) fn make(quick: bool, out: &Path) -> anyhow::Result<Figure> {
    let (sizes, batches): (&[usize], &[usize]) =
        if quick { (&[1 << 10], &[16]) } else { (&[1 << 18, 1 << 20], &[16, 64, 256]) };
    // Everything happens on the calling thread, so that its clock sees all of it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
    let mut measurements = Measurements::open(&out.join("figure-12.measured.jsonl"))?;
    let mut table = Table::new("Figure 12: cost of one element in a batch of k", header());
    let mut panels = Vec::new();
    for &n in sizes {
        // Beside the values of the quick run, too, the paper's may be compared in form.
        let with_paper = quick || n == PAPER_ELEMENTS;
        let charted = if n == sizes[sizes.len() - 1] { &[ANSWER, DOWNLOAD][..] } else { &[ANSWER] };
        let title = |quantity: &usize| format!("{}, for each element, n = {n}", QUANTITIES[*quantity].0);
        let panel = |quantity| Panel { title: title(quantity), bars: Vec::new() };
        let mut of_size: Vec<Panel> = charted.iter().map(panel).collect();
        let mut alone = None;
        for (way, name) in NAMES {
            // One query is short, and its mean over several steadier.
            for &k in if way == Way::Single { &[SINGLE_QUERIES][..] } else { batches } {
                let paper = Paper::of(way, k).filter(|_| with_paper);
                let setting = Setting {
                    engine: EngineName::Sealpir,
                    way,
                    k,
                    elements: n,
                    bytes: ELEMENT_BYTES,
                    b: None,
                    w: 3,
                    runs: 1,
                    seed: 1,
                };
                let label = if way == Way::Single { name.to_owned() } else { format!("{name}, k = {k}") };
                let read = bytes_read(&setting)?;
                if read > MOST_READ {
                    table.row(skipped(n, name, k, read));
                    continue;
                }
                let report = pool.install(|| measurements.get(&setting, &label))?;
                ensure!(report.verified, "{label}: a retrieved element is not the database's");
                let answer = *alone.get_or_insert(report.server_cpu_ms_per_message);
                table.row(row(&report, name, paper.as_ref(), answer));
                for (panel, quantity) in of_size.iter_mut().zip(charted) {
                    let (_, of_paper, ours) = QUANTITIES[*quantity];
                    panel.bars.push(Bars {
                        name: label.clone(),
                        paper: paper.as_ref().map(of_paper),
                        ours: Some(ours(&report)),
                    });
                }
            }
        }
        panels.extend(of_size);
    }
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
    let svg = chart::svg(
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

fn header() -> Vec<&'static str> {
    vec![
        "n",
        "code",
        "k",
        "buckets",
        "bucket size",
        "MultiQuery, paper, ms",
        "MultiQuery, ms",
        "MultiExtract, paper, ms",
        "MultiExtract, ms",
        "MultiSetup, paper, ms",
        "MultiSetup, ms",
        "MultiAnswer, paper, ms",
        "MultiAnswer, ms",
        "of it EXPAND, ms",
        "first dimension, ms",
        "times cheaper than single queries, paper",
        "times cheaper than single queries",
        "query, paper, KB",
        "query, KB",
        "answer, paper, KB",
        "answer, KB",
        "deferred keys",
    ]
}

/// `alone` is what single queries take for an answer, milliseconds.
fn row(report: &Report, name: &str, paper: Option<&Paper>, alone: f64) -> Vec<String> {
    let of_paper = |value: fn(&Paper) -> f64| paper.map_or("-".to_owned(), |paper| short(value(paper)));
    let k = if report.setting.way == Way::Single { 1 } else { report.setting.k };
    let mut cells: Vec<String> = [report.setting.elements.to_string(), name.to_owned(), k.to_string()].into();
    cells.push(if report.setting.way == Way::Single { 1 } else { report.buckets }.to_string());
    cells.push(report.bucket_size.to_string());
    for (i, (_, paper, ours)) in QUANTITIES.into_iter().enumerate() {
        cells.extend([of_paper(paper), short(ours(report))]);
        if i == ANSWER {
            let part = |whole: f64| short(per_element(report, whole));
            cells.extend([
                part(report.expand_cpu_ms.unwrap_or_default()),
                part(report.first_dimension_cpu_ms),
            ]);
            cells.push(of_paper(|paper| paper::SINGLE_ANSWER_MS / paper.answer_ms));
            cells.push(short(alone / report.server_cpu_ms_per_message));
        }
    }
    cells.push(report.deferred.to_string());
    cells
}

/// The row of a batch that is not measured.
fn skipped(n: usize, name: &str, k: usize, read: usize) -> Vec<String> {
    let mut cells = vec!["-".to_owned(); header().len()];
    cells[0] = n.to_string();
    cells[1] = format!("{name}, left out: reads {}", gigabytes(read));
    cells[2] = k.to_string();
    cells
}

/// Bytes of all buckets, those of equal content counted each, without padding.
fn bytes_read(setting: &Setting) -> anyhow::Result<usize> {
    let Setting { way, k, elements: n, bytes, b, w, .. } = *setting;
    let Some(code) = way.code() else { return Ok(n * bytes) };
    if way == Way::Hybrid {
        // Two quarters of nine buckets each.
        return Ok(n * bytes * 9 / 2);
    }
    let code = Code::new(Dimensions { n, b, w, ..Dimensions::of(code, k) }, [0; 32])?;
    Ok(n * bytes * code.copies() * code.choices())
}

fn gigabytes(bytes: usize) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}
