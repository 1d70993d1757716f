//! `spiral`: tables II and III of Spiral's paper, what one query costs, and what it costs where it serves for many databases.

use anyhow::Context;
use indicatif::ProgressBar;
use mpir::{Form, RoundSpec};
use sotto_measuring::cpu::alone;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sotto_measuring::table::{Table, short_or_none};

use super::chart::{Quantity, beside_paper};
use super::engines::power_of_two;
use super::section::Figure;
use crate::pir::{Report, measure};

/// That the paper gives of a database.
const VALUES: usize = 5;

/// One database of the paper, with its values.
struct Case {
    /// Of the paper.
    table: &'static str,
    log2_n: u32,
    engine: EngineName,
    /// Of a record, as far as the table fixes it.
    bytes: Option<usize>,
    /// In the order of [`QUANTITIES`].
    paper: [Option<f64>; VALUES],
}

/// What of the table is among the documents that this project is made from.
const TABLE_2: [Case; 6] = [
    of_table_2(
        20,
        256,
        EngineName::SpiralPackPaper,
        [None, Some(14.0), Some(20.0), Some(0.0125), Some(196.0)],
    ),
    of_table_2(18, 30_000, EngineName::SpiralPackPaper, known([18.0, 14.0, 86.0, 0.3488, 444.0])),
    of_table_2(14, 100_000, EngineName::SpiralPackPaper, known([47.0, 14.0, 188.0, 0.5307, 358.0])),
    of_table_2(20, 256, EngineName::SpiralStreamPackPaper, known([16.0, 15e3, 71.0, 0.0036, 635.0])),
    of_table_2(18, 30_000, EngineName::SpiralStreamPackPaper, known([16.0, 30e3, 96.0, 0.3117, 1480.0])),
    of_table_2(14, 100_000, EngineName::SpiralStreamPackPaper, known([24.0, 30e3, 150.0, 0.6677, 1350.0])),
];

/// Keys in MB, query in KB, rate, MB a second.
const TABLE_3: [(EngineName, [[f64; 4]; 3]); 6] = [
    (
        EngineName::FastpirPaper,
        [[1.0, 131.0, 0.1392, 23.0], [1.0, 2e3, 0.1392, 142.0], [1.0, 34e3, 0.1392, 201.0]],
    ),
    (
        EngineName::OnionpirPaper,
        [[5.0, 63.0, 0.2419, 159.0], [5.0, 63.0, 0.2419, 157.0], [5.0, 63.0, 0.2419, 158.0]],
    ),
    (
        EngineName::SpiralPaper,
        [[31.0, 14.0, 0.4348, 544.0], [30.0, 14.0, 0.4, 433.0], [30.0, 14.0, 0.3902, 355.0]],
    ),
    (
        EngineName::SpiralPackPaper,
        [[156.0, 14.0, 0.7143, 640.0], [31.0, 14.0, 0.7013, 614.0], [91.0, 14.0, 0.6857, 521.0]],
    ),
    (
        EngineName::SpiralStreamPaper,
        [[3.0, 15e3, 0.4918, 1200.0], [5.0, 30e3, 0.4918, 1520.0], [5.0, 30e3, 0.4918, 1460.0]],
    ),
    (
        EngineName::SpiralStreamPackPaper,
        [[125.0, 15e3, 0.8057, 1570.0], [125.0, 30e3, 0.8057, 1930.0], [125.0, 30e3, 0.8057, 1940.0]],
    ),
];
const LOG2_N: [u32; 3] = [12, 16, 20];

const fn known(values: [f64; VALUES]) -> [Option<f64>; VALUES] {
    let [keys, query, answer, rate, speed] = values;
    [Some(keys), Some(query), Some(answer), Some(rate), Some(speed)]
}

const fn of_table_2(log2_n: u32, bytes: usize, engine: EngineName, paper: [Option<f64>; VALUES]) -> Case {
    Case { table: "II", log2_n, engine, bytes: Some(bytes), paper }
}

fn of_table_3(sizes: usize) -> impl Iterator<Item = Case> {
    let of_size = |(log2_n, place): (u32, usize)| {
        TABLE_3.iter().map(move |(engine, values)| {
            let [keys, query, rate, speed] = values[place];
            let paper = [Some(keys), Some(query), None, Some(rate), Some(speed)];
            Case { table: "III", log2_n, engine: *engine, bytes: None, paper }
        })
    };
    LOG2_N.into_iter().zip(0..).take(sizes).flat_map(of_size)
}

/// Polynomials of 2,048 coefficients that the engines' plaintexts have: of one, of a matrix, and of what is packed.
const POLYNOMIALS: [usize; 5] = [1, 2, 4, 16, 64];
/// Bits of a coefficient of a plaintext.
const BITS: core::ops::RangeInclusive<usize> = 4..=20;

/// Longer records may have a little more, where a few bytes of an answer are the same for all.
const ABOUT: f64 = 0.97;

/// What is larger is not run: a database of this size, and what is made of it, fit a machine of 16 GiB.
const LARGEST_BYTES: usize = 1 << 30;
/// By how many binary digits the databases of a quick run are smaller.
const QUICK_SMALLER: u32 = 10;

/// One database that was asked.
struct Row {
    case: Case,
    n: usize,
    bytes: usize,
    sizes: mpir::Sizes,
    /// Medians of CPU time of one thread, unless it is too large.
    costs: Option<Report>,
}

const QUANTITIES: [Quantity<Row>; VALUES] = [
    ("keys, once, MB", |row| [row.case.paper[0], Some(row.sizes.keys as f64 / 1e6)]),
    ("query, KB", |row| [row.case.paper[1], Some(row.sizes.request.bytes() as f64 / 1e3)]),
    ("answer, KB", |row| [row.case.paper[2], Some(row.sizes.answer.bytes() as f64 / 1e3)]),
    ("rate", |row| [row.case.paper[3], Some(row.rate())]),
    ("MB searched, each second of a core", |row| [row.case.paper[4], row.speed()]),
];

impl Row {
    fn new(case: Case, n: usize, runs: u16, progress: &ProgressBar) -> anyhow::Result<Self> {
        let engine = case.engine;
        progress.set_message(format!("table {}, {}, n = {n}", case.table, engine.engine().name()));
        let bytes = match case.bytes {
            Some(bytes) => bytes,
            None => best_bytes(engine, n)?,
        };
        let round = round(engine, n, bytes)?;
        let sizes = engine.engine().sizes(&round)?;
        let costs = if n * bytes <= LARGEST_BYTES {
            let costs = measure(engine, &round, 1, runs, 1, progress)?;
            costs.ensure_verified()?;
            Some(costs)
        } else {
            progress.inc(runs.into());
            None
        };
        Ok(Self { case, n, bytes, sizes, costs })
    }

    /// Of the bytes of an answer, those that are the record's.
    fn rate(&self) -> f64 {
        self.bytes as f64 / self.sizes.answer.bytes() as f64
    }

    /// In table III without what is done once for a query that serves for many databases.
    fn speed(&self) -> Option<f64> {
        let costs = self.costs.as_ref()?;
        let once = if self.case.table == "III" { costs.before_products_cpu_ms() } else { 0.0 };
        Some((self.n * self.bytes) as f64 / 1e3 / (costs.answer_cpu_ms - once))
    }
}

fn round(engine: EngineName, n: usize, bytes: usize) -> Result<RoundSpec, mpir::Error> {
    engine.round(Form { buckets: 1, elements: n, element_bytes: bytes }, None)
}

/// The shortest record of which an answer has about the most, as far as records fill plaintexts.
fn best_bytes(engine: EngineName, n: usize) -> anyhow::Result<usize> {
    let candidates =
        POLYNOMIALS.iter().flat_map(|polynomials| BITS.map(move |bits| polynomials * bits * 256));
    let rate = |bytes: usize| {
        let sizes = round(engine, n, bytes).ok().and_then(|round| engine.engine().sizes(&round).ok());
        sizes.map(|sizes| (bytes as f64 / sizes.answer.bytes() as f64, bytes))
    };
    let rates: Vec<(f64, usize)> = candidates.filter_map(rate).collect();
    let best = rates.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
    let about = rates.into_iter().filter(|(rate, _)| *rate >= ABOUT * best).map(|(_, bytes)| bytes);
    about.min().context("no record fits this engine")
}

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (smaller, runs, sizes) = if quick { (QUICK_SMALLER, 1, 1) } else { (0, 5, LOG2_N.len()) };
    let cases: Vec<Case> = TABLE_2.into_iter().chain(of_table_3(sizes)).collect();
    let rows = alone(|| {
        let progress = progress::bar(cases.len() * usize::from(runs), "");
        let row = |case: Case| {
            let n = 1 << (case.log2_n - smaller);
            let label = format!("{}, n = {n}", case.engine.engine().name());
            Row::new(case, n, runs, &progress).context(label)
        };
        let rows = cases.into_iter().map(row).collect::<anyhow::Result<Vec<Row>>>();
        progress.finish_and_clear();
        rows
    })?;
    let header = vec!["table", "engine", "n", "record, KB"];
    let mut table = Table::new("Spiral: tables II and III of its paper", header);
    for (title, _) in QUANTITIES {
        table.header.extend([format!("{title}, paper"), title.to_owned()]);
    }
    for row in &rows {
        let name = row.case.engine.engine().name().to_owned();
        let bytes = format!("{:.3}", row.bytes as f64 / 1e3);
        let mut cells = vec![row.case.table.to_owned(), name, row.n.to_string(), bytes];
        cells.extend(QUANTITIES.iter().flat_map(|(_, values)| values(row)).map(short_or_none));
        table.row(cells);
    }
    table.note(format!(
        "CPU time of one thread, medians of {runs} queries; MB and KB are 10^6 and 10^3 bytes. The rate is that of a record to an answer. In table III \
         the records are the shortest of which an answer has about the most, and what is done once for a query that serves for many databases is left out, \
         here as in the paper. What is larger than 2^30 bytes is not run."
    ));
    let name = |row: &Row| {
        let (table, engine) = (row.case.table, row.case.engine.engine().name());
        format!("{table}: {engine}, {}", power_of_two(row.n))
    };
    let svg = beside_paper("Spiral: tables II and III", &rows, name, &QUANTITIES)?;
    Ok(Figure { table, svg, shows: SHOWS.to_owned(), differs: DIFFERS.to_owned() })
}

const SHOWS: &str = "How much of a database a core searches in a second, and how much of an answer is what was asked for: in table II for one query, in \
    table III for one that stays, while databases come and go, and with the length of records that each engine does best with.";

const DIFFERS: &str = "The engines are those of this project with the parameters that its own search finds for the paper's moduli (113 bits of security; \
    FastPIR's 125); those of OnionPIR are of its second version, which is quicker than the first, whose values are beside it. Of table II only two engines' values are \
    at hand, and of one of them not the keys. The paper measures with AVX-512. Databases that stand without a speed do not fit the \
    memory of this class of machine.";
