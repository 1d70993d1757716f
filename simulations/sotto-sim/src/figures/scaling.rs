//! How costs grow with the collection and with the batch, and the model that explains them.

mod point;
mod text;

use sotto_protocol::BloomMapping;

use super::chart::{self, Panel, Scale, Series};
use super::engines::power_of_two;
use super::section::Figure;
use crate::cpu::alone;
use crate::engine::EngineName;
use crate::model::{Calibration, RoundSize, calibrate, default_code};
use crate::mpir::{self, Report, Setting};
use crate::pbc::CodeName;
use crate::progress;
use crate::table::Table;
use point::{Point, Theory};

/// Batches for which the collection grows; the cost of the first is shown in its parts.
const BATCHES: [usize; 2] = [16, 64];

/// What is drawn: a name, and its value in a measurement and in theory, in the same unit.
type Quantity = (&'static str, fn(&Report) -> f64, fn(&Theory) -> f64);

const CLIENT_ROUND: Quantity =
    ("client-round", |report| report.server_cpu_ms, |theory| theory.answer.total());
const MESSAGE: Quantity = (
    "message",
    |report| report.server_cpu_ms_per_message,
    |theory| theory.answer.total() / theory.size.retrieve as f64,
);
const PARTS: [Quantity; 3] = [
    ("EXPAND", |report| report.expand_cpu_ms.unwrap_or_default(), |theory| theory.answer.expand),
    ("first dimension", |report| report.first_dimension_cpu_ms, |theory| theory.answer.first_dimension),
    ("rest", |report| report.rest_cpu_ms, |theory| theory.answer.rest),
];
const SETUP: Quantity = (
    "Encode and SETUP",
    |report| (report.encode_cpu_ms + report.setup_cpu_ms) / 1e3,
    |theory| theory.setup_ms / 1e3,
);
const BYTES: [Quantity; 3] = [
    ("queries", |report| report.upload_bytes as f64, |theory| theory.size.upload_bytes() as f64),
    ("answers", |report| report.download_bytes as f64, |theory| theory.size.download_bytes() as f64),
    ("mapping", |report| mapping_bytes(report) as f64, |theory| theory.size.mapping_bytes() as f64),
];

/// In the table, with the decimals that are worth reading.
const COLUMNS: [(&str, usize, Quantity); 9] = [
    ("server, each client-round, ms", 3, CLIENT_ROUND),
    ("each message, ms", 4, MESSAGE),
    ("EXPAND, ms", 3, PARTS[0]),
    ("first dimension, ms", 3, PARTS[1]),
    ("rest, ms", 3, PARTS[2]),
    ("Encode and SETUP, each round, s", 4, SETUP),
    ("queries, bytes", 0, BYTES[0]),
    ("answers, bytes", 0, BYTES[1]),
    ("mapping, bytes", 0, BYTES[2]),
];

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (collections, n, batches, runs): (Vec<usize>, usize, Vec<usize>, u16) = if quick {
        (vec![1 << 9, 1 << 10], 1 << 10, vec![1, 4, 16], 1)
    } else {
        ((14..=20).map(|log| 1 << log).collect(), 1 << 18, (0..=8).map(|log| 1 << log).collect(), 3)
    };
    let calibration = calibrate(quick, 1, &progress::bar(0, ""))?;
    let theory = |n, k| theory(&calibration, n, k);
    let measure = |n, k| -> anyhow::Result<Point> {
        let setting = Setting { runs, ..Setting::of(EngineName::Sealpir, CodeName::Cuckoo, k, n) };
        let measured = mpir::measure(&setting, &format!("scaling: n = {n}, k = {k}"))?;
        anyhow::ensure!(measured.verified, "a retrieved element is not the database's");
        Ok(Point { measured, theory: theory(n, k)? })
    };
    let (by_n, by_k) = alone(|| {
        let by_n = BATCHES.iter().map(|k| collections.iter().map(|n| measure(*n, *k)).collect());
        let by_n = by_n.collect::<anyhow::Result<Vec<Vec<Point>>>>()?;
        Ok((by_n, batches.iter().map(|k| measure(n, *k)).collect::<anyhow::Result<Vec<Point>>>()?))
    })?;

    // The lines of theory are drawn between the measured points, too.
    let steps: Vec<usize> = between(&collections);
    let lines_by_n: Vec<Vec<Theory>> = BATCHES
        .iter()
        .map(|k| steps.iter().map(|n| theory(*n, *k)).collect())
        .collect::<anyhow::Result<_>>()?;
    let line_by_k: Vec<Theory> =
        between(&batches).into_iter().map(|k| theory(n, k)).collect::<anyhow::Result<_>>()?;

    let growing = Sweep {
        x_label: "n, messages in the round",
        groups: by_n
            .iter()
            .zip(&lines_by_n)
            .map(|(points, line)| (points.iter().collect(), line.iter().collect()))
            .collect(),
        x_measured: |report| report.setting.elements,
        x_theory: |theory| theory.size.boxes,
        label: |theory| format!("k = {}, ", theory.size.retrieve),
    };
    let batching = Sweep {
        x_label: "k, messages that a client retrieves",
        groups: vec![(by_k.iter().collect(), line_by_k.iter().collect())],
        x_measured: |report| report.setting.k,
        x_theory: |theory| theory.size.retrieve,
        label: |_| String::new(),
    };
    let first = Sweep { groups: growing.groups[..1].to_vec(), ..growing };
    let (k, log) = (BATCHES[0], power_of_two(n));
    let panels = [
        growing.panel("Server, for each client-round, against n", "CPU time, ms", &[CLIENT_ROUND]),
        first.panel(&format!("Its parts, k = {k}, against n"), "CPU time, ms", &PARTS),
        growing.panel("Server, for each message, against n", "CPU time, ms", &[MESSAGE]),
        growing.panel("Once a round for all clients, against n", "CPU time, s", &[SETUP]),
        first.panel(&format!("Traffic of a client-round, k = {k}, against n"), "bytes", &BYTES),
        batching.panel(&format!("Server, n = {log}, against k"), "CPU time, ms", &[CLIENT_ROUND, MESSAGE]),
        batching.panel(&format!("Parts of a client-round, n = {log}, against k"), "CPU time, ms", &PARTS),
        batching.panel(
            &format!("Once a round for all clients, n = {log}, against k"),
            "CPU time, s",
            &[SETUP],
        ),
        batching.panel(&format!("Traffic of a client-round, n = {log}, against k"), "bytes", &BYTES),
    ];
    let svg = chart::lines("Scaling: dots are measured, dashed lines are the model", &panels)?;

    let mut table = Table::new("Scaling: costs against n and k, measured and by the model", HEADER.into());
    for (name, ..) in COLUMNS {
        table.header.extend([name.to_owned(), format!("{name}, model")]);
    }
    for (sweep, points) in by_n.iter().map(|points| ("n", points)).chain([("k", &by_k)]) {
        points.iter().for_each(|point| table.row(row(sweep, point)));
    }
    for note in text::notes(&calibration) {
        table.note(note);
    }
    let all = || by_n.iter().flatten().chain(&by_k);
    Ok(Figure {
        table,
        svg,
        shows: text::shows(&calibration, &by_n, &by_k, text::deviation(all()))?,
        differs: text::DIFFERS.to_owned(),
    })
}

fn theory(calibration: &Calibration, n: usize, k: usize) -> anyhow::Result<Theory> {
    let size = RoundSize::new(n, k)?;
    let constants = &calibration.constants;
    Ok(Theory { size, answer: constants.client_round(&size), setup_ms: constants.setup_round(&size) })
}

fn mapping_bytes(report: &Report) -> u64 {
    default_code(report.setting.k)
        .map_or(0, |code| BloomMapping::encoded_bytes(code, report.bucket_size as u32))
}

/// The values, and between each two the one in the middle of their ratio.
fn between(values: &[usize]) -> Vec<usize> {
    let middle = |pair: &[usize]| ((pair[0] * pair[1]) as f64).sqrt().round() as usize;
    let middles = values.windows(2).map(middle);
    let mut all: Vec<usize> = values.iter().copied().chain(middles).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Points and lines over one axis.
#[derive(Clone)]
struct Sweep<'a> {
    x_label: &'static str,
    groups: Vec<(Vec<&'a Point>, Vec<&'a Theory>)>,
    x_measured: fn(&Report) -> usize,
    x_theory: fn(&Theory) -> usize,
    /// What tells a group from the others.
    label: fn(&Theory) -> String,
}

impl Sweep<'_> {
    fn panel(&self, title: &str, unit: &str, quantities: &[Quantity]) -> Panel {
        let mut series = Vec::new();
        for (points, line) in &self.groups {
            for (name, measured, theory) in quantities {
                let group = line.first().map_or(String::new(), |theory| (self.label)(theory));
                let dots = points.iter().map(|point| &point.measured);
                let dots = dots.map(|report| ((self.x_measured)(report) as f64, measured(report)));
                let law = line.iter().map(|of| ((self.x_theory)(of) as f64, theory(of)));
                series.push(Series { name: format!("{group}{name}"), points: dots.collect(), dashed: false });
                series.push(Series { name: format!("{group}model"), points: law.collect(), dashed: true });
            }
        }
        Panel {
            title: title.to_owned(),
            x_label: self.x_label.to_owned(),
            y_label: unit.to_owned(),
            x_scale: Scale::Logarithmic,
            series,
        }
    }
}

/// The first columns of the table; two follow for each quantity.
const HEADER: [&str; 9] =
    ["against", "n", "k", "buckets", "bucket size", "rows", "columns", "transforms", "prepared, MB"];

fn row(sweep: &str, point: &Point) -> Vec<String> {
    let report = &point.measured;
    let mut cells: Vec<String> = [
        sweep.to_owned(),
        report.setting.elements.to_string(),
        report.setting.k.to_string(),
        report.buckets.to_string(),
        report.bucket_size.to_string(),
    ]
    .into();
    let shape = point.theory.size.bucket.parameters;
    cells.extend(
        [shape.rows(), shape.all_columns(), shape.expand_transforms()].map(|count| count.to_string()),
    );
    cells.push(format!("{:.1}", report.database_bytes as f64 / 1e6));
    for (_, decimals, (_, measured, theory)) in COLUMNS {
        cells.extend([measured(report), theory(&point.theory)].map(|value| format!("{value:.decimals$}")));
    }
    cells
}
