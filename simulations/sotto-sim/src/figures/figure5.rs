//! Figure 5: codewords, buckets and failure probability of the codes.

use sotto_measuring::code::CodeName;
use sotto_measuring::table::{Column, Table, short, short_or_none};

use super::chart::{Quantity, beside_paper};
use super::section::Figure;
use crate::pbc::{Code, Dimensions, Source, clopper_pearson, count_failures};

const ELEMENTS: usize = 262_144;

/// One code at one batch size.
struct Row {
    name: String,
    k: usize,
    /// Codewords for each element, buckets, failure probability.
    paper: Option<[f64; 3]>,
    measured: Option<Measured>,
}

struct Measured {
    codewords: f64,
    buckets: f64,
    failure: f64,
    interval: [f64; 2],
    /// How the failure probability is known.
    method: String,
}

impl Row {
    fn paper(&self, quantity: usize) -> Option<f64> {
        self.paper.map(|paper| paper[quantity])
    }

    fn ours(&self, quantity: fn(&Measured) -> f64) -> Option<f64> {
        self.measured.as_ref().map(quantity)
    }

    fn told(&self, told: fn(&Measured) -> String) -> String {
        self.measured.as_ref().map_or("-".to_owned(), told)
    }
}

const COLUMNS: [Column<Row>; 10] = [
    ("code", |row| row.name.clone()),
    ("k", |row| row.k.to_string()),
    ("codewords / n, paper", |row| short_or_none(row.paper(0))),
    ("codewords / n", |row| short_or_none(row.ours(|ours| ours.codewords))),
    ("buckets, paper", |row| short_or_none(row.paper(1))),
    ("buckets", |row| short_or_none(row.ours(|ours| ours.buckets))),
    ("failure, paper", |row| short_or_none(row.paper(2))),
    ("failure", |row| short_or_none(row.ours(|ours| ours.failure))),
    ("95 % interval", |row| {
        row.told(|ours| format!("{} to {}", short(ours.interval[0]), short(ours.interval[1])))
    }),
    ("trials, method", |row| row.told(|ours| ours.method.clone())),
];

/// What is not measured is not drawn.
const CHARTED: [Quantity<Row>; 3] = [
    ("Codewords for each element", |row| {
        row.measured.as_ref().map_or([None; 2], |ours| [row.paper(0), Some(ours.codewords)])
    }),
    ("Buckets", |row| row.measured.as_ref().map_or([None; 2], |ours| [row.paper(1), Some(ours.buckets)])),
    ("Failure probability, upper end", |row| {
        row.measured.as_ref().map_or([None; 2], |ours| [row.paper(2), Some(ours.interval[1])])
    }),
];

/// The codes that are measured: names, dimensions, and the paper's values.
fn codes(k: usize) -> Vec<(&'static str, Dimensions, Option<[f64; 3]>)> {
    let of = |code| Dimensions { n: ELEMENTS, ..Dimensions::of(code, k) };
    let keys = k as f64;
    // Three ways of saying how often: the paper has 2^-40 for k > 200 and "closer to 2^-20" below.
    let failure = if k > 200 { 2_f64.powi(-40) } else { 2_f64.powi(-20) };
    let recommended = of(CodeName::Cuckoo);
    let mut codes = vec![
        ("replication", of(CodeName::Replication), None),
        ("sharding", of(CodeName::Sharding), None),
        ("2-choice", of(CodeName::TwoChoice), None),
        ("Pung hybrid", of(CodeName::Hybrid), Some([4.5, 9.0 * keys, 2_f64.powi(-20)])),
        ("cuckoo w = 3", Dimensions { b: Some(k + k / 2), ..recommended }, Some([3.0, 1.5 * keys, failure])),
    ];
    if pbc::recommended_buckets(k, 3).is_some_and(|b| b != k + k / 2) {
        codes.push(("cuckoo w = 3, ours", recommended, None));
    }
    codes.push(("cuckoo w = 4, ours", Dimensions { w: 4, ..recommended }, None));
    codes.push(("partitioned w = 4, ours", Dimensions { w: 4, ..of(CodeName::Partitioned) }, None));
    codes
}

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let mut rows = Vec::new();
    for k in [16, 64, 256] {
        // The paper's subcube code with l = 2, for comparison: not built, since its number of buckets rules it out.
        let levels = (k as f64).log2();
        let paper = Some([1.5_f64.powf(levels), 3_f64.powf(levels), 0.0]);
        let name = format!("subcube, l = 2, k = {k}, not built");
        rows.push(Row { name, k, paper, measured: None });
        for (name, dimensions, paper) in codes(k) {
            // As many batches as take about the same time; the hybrid's search takes four times that of a matching.
            let keys = if dimensions.code == CodeName::Hybrid { 16_000_000 } else { 64_000_000 };
            let trials = if quick { 2_000 } else { keys / k as u64 };
            let measured = Some(measured(dimensions, trials)?);
            rows.push(Row { name: format!("{name}, k = {k}"), k, paper, measured });
        }
    }
    let mut table = Table::of("Figure 5: cost of the batch codes", &COLUMNS, &rows);
    table.note(format!(
        "n = {ELEMENTS}; buckets that share a content count each. Failures are counted, seeds from 0 on, with an interval \
         by Clopper and Pearson; they are exact for replication and sharding, and a rigorous upper bound where it lies \
         below the interval's upper end. The chart shows the upper end: of the interval, or the bound."
    ));
    let svg = beside_paper(&format!("Figure 5: n = {ELEMENTS}"), &rows, |row| row.name.clone(), &CHARTED)?;
    let shows = "What each batch code costs and risks: how many codewords it makes of one element (the server's work), how \
        many buckets a client has to query, and how often a batch of k cannot be served whole.";
    let differs = "The paper takes 2^-40 as the failure probability of its cuckoo code for k above 200, and values closer to \
        2^-20 below. With b = 1.5 k buckets that does not hold for small k, whatever the search: at k = 16 it is 2^-12. The \
        rows named ours have as many buckets as they need. The subcube code is computed, not built: its number of buckets \
        rules it out.";
    Ok(Figure { table, svg, shows: shows.to_owned(), differs: differs.to_owned() })
}

fn measured(dimensions: Dimensions, trials: u64) -> anyhow::Result<Measured> {
    let code = Code::new(dimensions, [1; 32])?;
    let keys: Vec<[u8; 8]> = (0..ELEMENTS as u64).map(u64::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let codewords = code.batch.encode(&keys).codewords() as f64 / ELEMENTS as f64;
    let buckets = code.batch.bucket_count() as f64;

    let bound = code.bound_log2().map(f64::exp2);
    // However few batches fail, the interval's upper end is not below that of none: no use in trying.
    let [_, least] = clopper_pearson(0, trials);
    let (failure, interval, method) = if let Some(exact) = code.exact_failure() {
        (exact, [exact, exact], "exact".to_owned())
    } else if let Some(bound) = bound.filter(|bound| *bound < least) {
        (bound, [0.0, bound], "bound".to_owned())
    } else {
        let count = count_failures(dimensions, Source::Drawn, 0, trials)?;
        let [low, high] = clopper_pearson(count.failures, count.trials);
        match bound.filter(|bound| *bound < high) {
            Some(bound) => (bound, [0.0, bound], "bound".to_owned()),
            None => {
                let share = count.failures as f64 / count.trials as f64;
                (share, [low, high], format!("{} of {}", count.failures, count.trials))
            }
        }
    };
    Ok(Measured { codewords, buckets, failure, interval, method })
}
