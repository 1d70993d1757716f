//! How costs grow with the collection and with the batch, and the model that explains them.

mod point;
mod text;

use sotto_measuring::code::CodeName;
use sotto_measuring::cpu::alone;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sotto_measuring::table::Table;
use sotto_plan::model::{Calibration, RoundSize, calibrate, default_code};
use sotto_protocol::BloomMapping;
use sottod::Addressing;

use super::chart::{self, Panel, Scale, Series};
use super::engines::power_of_two;
use super::section::Figure;
use crate::mpir::{self, Report, Setting};
use point::{Group, Point, Theory};

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
    let calibration = calibrate(EngineName::Sealpir, quick, 1, &progress::bar(0, ""))?;
    let theory = |(n, k)| theory(&calibration, n, k);
    let measure = |(n, k)| -> anyhow::Result<Point> {
        let setting = Setting { runs, ..Setting::of(EngineName::Sealpir, CodeName::Cuckoo, k, n) };
        let measured = mpir::measure(&setting, &format!("scaling: n = {n}, k = {k}"))?;
        anyhow::ensure!(measured.verified, "a retrieved element is not the database's");
        Ok(Point { measured, theory: theory((n, k))? })
    };
    // The lines of theory are drawn between the measured points, too.
    let group = |label: String, values: &[usize], at: &dyn Fn(usize) -> (usize, usize)| {
        let points = values.iter().map(|value| measure(at(*value))).collect::<anyhow::Result<_>>()?;
        let line =
            between(values).into_iter().map(|value| theory(at(value))).collect::<anyhow::Result<_>>()?;
        anyhow::Ok(Group { label, points, line })
    };
    let (by_n, by_k) = alone(|| {
        let of = |k: &usize| group(format!("k = {k}, "), &collections, &|n| (n, *k));
        let by_n: Vec<Group> = BATCHES.iter().map(of).collect::<anyhow::Result<_>>()?;
        Ok((by_n, group(String::new(), &batches, &|k| (n, k))?))
    })?;

    let (first, batching) = (&by_n[..1], core::slice::from_ref(&by_k));
    let (k, log) = (BATCHES[0], power_of_two(n));
    let against_n = |title: &str, unit, groups: &[Group], quantities: &[Quantity]| {
        panel(&format!("{title}, against n"), unit, MESSAGES, groups, quantities)
    };
    let against_k = |title: &str, unit, quantities: &[Quantity]| {
        panel(&format!("{title}, n = {log}, against k"), unit, RETRIEVED, batching, quantities)
    };
    let panels = [
        against_n("Server, for each client-round", "CPU time, ms", &by_n, &[CLIENT_ROUND]),
        against_n(&format!("Its parts, k = {k}"), "CPU time, ms", first, &PARTS),
        against_n("Server, for each message", "CPU time, ms", &by_n, &[MESSAGE]),
        against_n("Once a round for all clients", "CPU time, s", &by_n, &[SETUP]),
        against_n(&format!("Traffic of a client-round, k = {k}"), "bytes", first, &BYTES),
        against_k("Server", "CPU time, ms", &[CLIENT_ROUND, MESSAGE]),
        against_k("Parts of a client-round", "CPU time, ms", &PARTS),
        against_k("Once a round for all clients", "CPU time, s", &[SETUP]),
        against_k("Traffic of a client-round", "bytes", &BYTES),
    ];
    let svg = chart::lines("Scaling: dots are measured, dashed lines are the model", &panels)?;

    let mut table = Table::new("Scaling: costs against n and k, measured and by the model", HEADER.into());
    for (name, ..) in COLUMNS {
        table.header.extend([name.to_owned(), format!("{name}, model")]);
    }
    for (axis, group) in by_n.iter().map(|group| ("n", group)).chain([("k", &by_k)]) {
        group.points.iter().for_each(|point| table.row(row(axis, point)));
    }
    text::notes(&calibration).into_iter().for_each(|note| table.note(note));
    let (shows, differs) = (text::shows(&calibration, &by_n, &by_k)?, text::DIFFERS.to_owned());
    Ok(Figure { table, svg, shows, differs })
}

fn theory(calibration: &Calibration, n: usize, k: usize) -> anyhow::Result<Theory> {
    let size = RoundSize::new(n, k, Addressing::Labels, EngineName::Sealpir)?;
    let constants = &calibration.constants;
    Ok(Theory { size, answer: constants.client_round(&size), setup_ms: constants.setup_round(&size) })
}

fn mapping_bytes(report: &Report) -> u64 {
    default_code(report.setting.k, Addressing::Labels)
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

/// What grows along the lower axis of a panel.
type Axis = (&'static str, fn(&RoundSize) -> usize);

const MESSAGES: Axis = ("n, messages in the round", |size| size.boxes);
const RETRIEVED: Axis = ("k, messages that a client retrieves", |size| size.retrieve);

/// Measurements, and the law beside and between them, of each quantity in some groups.
fn panel(title: &str, unit: &str, (x_label, x): Axis, groups: &[Group], quantities: &[Quantity]) -> Panel {
    let mut series = Vec::new();
    for Group { label, points, line } in groups {
        for (name, measured, theory) in quantities {
            let dots = points.iter().map(|of| (x(&of.theory.size) as f64, measured(&of.measured)));
            let law = line.iter().map(|of| (x(&of.size) as f64, theory(of)));
            series.push(Series { name: format!("{label}{name}"), points: dots.collect(), dashed: false });
            series.push(Series { name: format!("{label}model"), points: law.collect(), dashed: true });
        }
    }
    let (title, x_label, y_label) = (title.to_owned(), x_label.to_owned(), unit.to_owned());
    Panel { title, x_label, y_label, x_scale: Scale::Logarithmic, series }
}

/// The first columns of the table; two follow for each quantity.
const HEADER: [&str; 9] =
    ["against", "n", "k", "buckets", "bucket size", "rows", "columns", "transforms", "prepared, MB"];

fn row(axis: &str, point: &Point) -> Vec<String> {
    let report = &point.measured;
    let mut cells: Vec<String> = [
        axis.to_owned(),
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
