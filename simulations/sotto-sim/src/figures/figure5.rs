//! Figure 5: codewords, buckets and failure probability of the codes.

use pbc::BatchCode;

use super::Figure;
use super::chart::{self, Bars, Panel, short};
use super::table::Table;
use crate::pbc::{Code, CodeName, Dimensions, Source, clopper_pearson, count_failures};

const ELEMENTS: usize = 262_144;

/// One code at one batch size.
struct Row {
    name: String,
    dimensions: Dimensions,
    paper: Option<Paper>,
}

/// The paper's figures: codewords for each element, buckets, failure probability.
#[derive(Clone, Copy)]
struct Paper {
    codewords: f64,
    buckets: f64,
    failure: f64,
}

fn rows(k: usize) -> Vec<Row> {
    let of = |code| Dimensions { n: ELEMENTS, ..Dimensions::of(code, k) };
    let row = |name: &str, dimensions, paper| Row { name: format!("{name}, k = {k}"), dimensions, paper };
    let keys = k as f64;
    // Three ways of saying how often: the paper has 2^-40 for k > 200 and "closer to 2^-20" below.
    let cuckoo = Paper {
        codewords: 3.0,
        buckets: 1.5 * keys,
        failure: if k > 200 { 2_f64.powi(-40) } else { 2_f64.powi(-20) },
    };
    let hybrid = Paper { codewords: 4.5, buckets: 9.0 * keys, failure: 2_f64.powi(-20) };
    let recommended = of(CodeName::Cuckoo);
    let mut rows = vec![
        row("replication", of(CodeName::Replication), None),
        row("sharding", of(CodeName::Sharding), None),
        row("2-choice", of(CodeName::TwoChoice), None),
        row("Pung hybrid", of(CodeName::Hybrid), Some(hybrid)),
        row("cuckoo w = 3", Dimensions { b: Some(k + k / 2), ..recommended }, Some(cuckoo)),
    ];
    if pbc::recommended_buckets(k, 3).is_some_and(|b| b != k + k / 2) {
        rows.push(row("cuckoo w = 3, ours", recommended, None));
    }
    rows.push(row("cuckoo w = 4, ours", Dimensions { w: 4, ..recommended }, None));
    rows.push(row("partitioned w = 4, ours", Dimensions { w: 4, ..of(CodeName::Partitioned) }, None));
    rows
}

/// The paper's subcube code with l = 2, for comparison: not built, since its number of buckets rules it out.
fn subcube(k: usize) -> Paper {
    let levels = (k as f64).log2();
    Paper { codewords: 1.5_f64.powf(levels), buckets: 3_f64.powf(levels), failure: 0.0 }
}

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let mut table = Table::new(
        "Figure 5: cost of the batch codes",
        vec![
            "code",
            "k",
            "codewords / n, paper",
            "codewords / n",
            "buckets, paper",
            "buckets",
            "failure, paper",
            "failure",
            "95 % interval",
            "trials, method",
        ],
    );
    let mut panels: Vec<Panel> = ["Codewords for each element", "Buckets", "Failure probability, upper end"]
        .map(|title| Panel { title: title.to_owned(), bars: Vec::new() })
        .into();
    for k in [16, 64, 256] {
        let paper = subcube(k);
        table.row(
            [
                format!("subcube, l = 2, k = {k}, not built"),
                k.to_string(),
                short(paper.codewords),
                "-".to_owned(),
                short(paper.buckets),
                "-".to_owned(),
                "0".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
            ]
            .into(),
        );
        for row in rows(k) {
            // As many batches as take about the same time; the hybrid's search takes four times that of a matching.
            let keys = if row.dimensions.code == CodeName::Hybrid { 16_000_000 } else { 64_000_000 };
            let trials = if quick { 2_000 } else { keys / k as u64 };
            let (cells, [codewords, buckets, failure]) = measured(&row, k, trials)?;
            table.row(cells);
            let paper = |of: fn(Paper) -> f64| row.paper.map(of);
            let of_paper = [paper(|p| p.codewords), paper(|p| p.buckets), paper(|p| p.failure)];
            for ((panel, paper), ours) in panels.iter_mut().zip(of_paper).zip([codewords, buckets, failure]) {
                panel.bars.push(Bars { name: row.name.clone(), paper, ours: Some(ours) });
            }
        }
    }
    table.note(format!(
        "n = {ELEMENTS}; buckets that share a content count each. Failures are counted, seeds from 0 on, with an interval \
         by Clopper and Pearson; they are exact for replication and sharding, and a rigorous upper bound where it lies \
         below the interval's upper end. The chart shows the upper end: of the interval, or the bound."
    ));
    let svg = chart::svg(&format!("Figure 5: n = {ELEMENTS}"), &panels)?;
    let shows = "What each batch code costs and risks: how many codewords it makes of one element (the server's work), how \
        many buckets a client has to query, and how often a batch of k cannot be served whole.";
    let differs = "The paper takes 2^-40 as the failure probability of its cuckoo code for k above 200, and values closer to \
        2^-20 below. With b = 1.5 k buckets that does not hold for small k, whatever the search: at k = 16 it is 2^-12. The \
        rows named ours have as many buckets as they need. The subcube code is computed, not built: its number of buckets \
        rules it out.";
    Ok(Figure { table, svg, shows: shows.to_owned(), differs: differs.to_owned() })
}

/// The row of the table, and what the chart shows.
fn measured(row: &Row, k: usize, trials: u64) -> anyhow::Result<(Vec<String>, [f64; 3])> {
    let code = Code::new(row.dimensions, [1; 32])?;
    let batch: &dyn BatchCode = code.batch();
    let keys: Vec<[u8; 8]> = (0..ELEMENTS as u64).map(u64::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let codewords = batch.encode(&keys).codewords() as f64 / ELEMENTS as f64;
    let buckets = batch.bucket_count() as f64;

    let bound = code.bound_log2().map(f64::exp2);
    // However few batches fail, the interval's upper end is not below that of none: no use in trying.
    let [_, least] = clopper_pearson(0, trials);
    let (failure, interval, method) = if let Some(exact) = code.exact_failure() {
        (exact, [exact, exact], "exact".to_owned())
    } else if let Some(bound) = bound.filter(|bound| *bound < least) {
        (bound, [0.0, bound], "bound".to_owned())
    } else {
        let count = count_failures(row.dimensions, Source::Drawn, 0, trials)?;
        let [low, high] = clopper_pearson(count.failures, count.trials);
        match bound.filter(|bound| *bound < high) {
            Some(bound) => (bound, [0.0, bound], "bound".to_owned()),
            None => {
                let share = count.failures as f64 / count.trials as f64;
                (share, [low, high], format!("{} of {}", count.failures, count.trials))
            }
        }
    };
    let paper = |of: fn(Paper) -> f64| row.paper.map_or("-".to_owned(), |paper| short(of(paper)));
    let cells = vec![
        row.name.clone(),
        k.to_string(),
        paper(|p| p.codewords),
        short(codewords),
        paper(|p| p.buckets),
        short(buckets),
        paper(|p| p.failure),
        short(failure),
        format!("{} to {}", short(interval[0]), short(interval[1])),
        method,
    ];
    Ok((cells, [codewords, buckets, interval[1]]))
}
