//! `linear`: SimplePIR's claims C1 to C4, and its throughput in batches of queries.

use std::hint::black_box;

use anyhow::{Context, ensure};
use mpir::{Contents, Form, Query, RoundSpec};
use pir_core::PagePool;
use pulp::Arch;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use sotto_measuring::cpu::{alone, timed};
use sotto_measuring::engine::{Client, EngineName};
use sotto_measuring::table::{Column, Table, short, short_or_none};

use super::chart::{Panel, Scale, Series, lines};
use super::section::Figure;

/// What the paper's evaluation claims, with the database that it is about.
struct Claim {
    name: &'static str,
    engine: EngineName,
    log2_bytes: u32,
    /// GB a second and core.
    speed: f64,
    hint_mb: f64,
    online_kb: f64,
}

/// On databases of bits, 2^33 of them and 2^36.
const CLAIMS: [Claim; 3] = [
    Claim {
        name: "C1",
        engine: EngineName::SimplepirPaper,
        log2_bytes: 30,
        speed: 10.0,
        hint_mb: 121.0,
        online_kb: 242.0,
    },
    Claim {
        name: "C2",
        engine: EngineName::DoublepirPaper,
        log2_bytes: 30,
        speed: 7.4,
        hint_mb: 16.0,
        online_kb: 345.0,
    },
    Claim {
        name: "C4",
        engine: EngineName::DoublepirPaper,
        log2_bytes: 33,
        speed: 7.0,
        hint_mb: 16.0,
        online_kb: 756.0,
    },
];

/// Queries that are answered together; 64 are as many as a server takes.
const BATCHES: [usize; 5] = [1, 4, 16, 32, 64];
/// What is larger is not run: one database of this size, and what is made of it, fit a machine of 16 GiB.
const LARGEST_LOG2: u32 = 30;
const RUNS: usize = 5;

/// A database of bytes.
struct Measured {
    engine: EngineName,
    log2_bytes: u32,
    batch: usize,
    /// Bytes of the database that are searched in a second of a core: for each query once.
    speed: Option<f64>,
    /// Bytes that a plain sum reads in the same time.
    memory: Option<f64>,
    setup_s: Option<f64>,
    hint: usize,
    online: usize,
}

const COLUMNS: [Column<Row>; 12] = [
    ("claim", |(claim, _)| claim.map_or("C3", |claim| claim.name).to_owned()),
    ("engine", |(_, of)| of.engine.engine().name().to_owned()),
    ("database, bytes", |(_, of)| format!("2^{}", of.log2_bytes)),
    ("queries together", |(_, of)| of.batch.to_string()),
    ("GB/s, paper", |(claim, _)| short_or_none(claim.map(|claim| claim.speed))),
    ("GB/s", |(_, of)| short_or_none(of.speed)),
    ("a plain sum, GB/s", |(_, of)| short_or_none(of.memory)),
    ("set-up, s", |(_, of)| short_or_none(of.setup_s)),
    ("hint, MB, paper", |(claim, _)| short_or_none(claim.map(|claim| claim.hint_mb))),
    ("hint, MB", |(_, of)| short(of.hint as f64 / 1e6)),
    ("online, KB, paper", |(claim, _)| short_or_none(claim.map(|claim| claim.online_kb))),
    ("online, KB", |(_, of)| short(of.online as f64 / 1e3)),
];

/// By how many binary digits the databases of a quick run are smaller.
const QUICK_SMALLER: u32 = 14;

type Row = (Option<&'static Claim>, Measured);

/// With what of the claims is about one query, and all batches.
fn rows(smaller: u32) -> anyhow::Result<Vec<Row>> {
    let batches = if smaller > 0 { &BATCHES[..2] } else { &BATCHES[..] };
    let mut rows = Vec::new();
    for claim in &CLAIMS {
        let log2_bytes = claim.log2_bytes - smaller;
        let batches = if claim.name == "C4" { &batches[..1] } else { batches };
        let measured = measure(claim.engine, log2_bytes, (log2_bytes <= LARGEST_LOG2).then_some(batches))?;
        rows.extend(measured.into_iter().map(|of| ((of.batch == 1).then_some(claim), of)));
    }
    Ok(rows)
}

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let smaller = if quick { QUICK_SMALLER } else { 0 };
    let rows = alone(|| rows(smaller))?;
    let mut table = Table::of("Linear: claims C1 to C4 of SimplePIR's paper", &COLUMNS, &rows);
    table.note(format!(
        "CPU time of one thread; of answers and sums the least of {RUNS}, everything else once. GB, MB and KB are 10^9, 10^6 and 10^3 bytes. \
         Online is what a query sends and receives."
    ));
    let series = |engine: EngineName, name: &str| Series {
        name: name.to_owned(),
        points: rows
            .iter()
            .filter(|(claim, of)| of.engine == engine && claim.is_none_or(|claim| claim.name != "C4"))
            .filter_map(|(_, of)| Some((of.batch as f64, of.speed?)))
            .collect(),
        dashed: false,
    };
    let panel = Panel {
        title: format!("a database of 2^{} bytes", 30 - smaller),
        x_label: "queries answered together".to_owned(),
        y_label: "database searched, GB for each second of a core".to_owned(),
        x_scale: Scale::Linear,
        series: vec![
            series(EngineName::SimplepirPaper, "SimplePIR"),
            series(EngineName::DoublepirPaper, "DoublePIR"),
        ],
    };
    let svg = lines("SimplePIR and DoublePIR: throughput in batches", &[panel])?;
    Ok(Figure { table, svg, shows: SHOWS.to_owned(), differs: DIFFERS.to_owned() })
}

const SHOWS: &str = "How much of a database a core searches in a second for one query, and in all for several that are answered together \
    (claim C3), with the paper's own parameters; and what is sent.";

const DIFFERS: &str = "The paper's databases consist of bits, these of bytes, as many of them in all. Its machine is a c5n.metal (Intel Xeon, \
    3.0 GHz). C4's database is not run, only its sizes: it and what is made of it do not fit the memory of this class of machine. \
    The paper's batches are of up to 1,024 queries, ours of as many as the server answers together. The paper's values \
    of C3 are in its chart only.";

/// Runs the database with all of the batches, or tells its sizes alone.
fn measure(name: EngineName, log2_bytes: u32, batches: Option<&[usize]>) -> anyhow::Result<Vec<Measured>> {
    let (engine, elements) = (name.engine(), 1 << log2_bytes);
    let round = name.round(Form { buckets: 1, elements, element_bytes: 1 }, None)?;
    let sizes = engine.sizes(&round)?;
    let (hint, online) = (sizes.hint.bytes(), sizes.request.bytes() + sizes.answer.bytes());
    let Some(batches) = batches else {
        let of = Measured {
            engine: name,
            log2_bytes,
            batch: 1,
            speed: None,
            memory: None,
            setup_s: None,
            hint,
            online,
        };
        return Ok(vec![of]);
    };
    let mut rng = StdRng::seed_from_u64(1);
    let mut content = vec![vec![0; elements]];
    rng.fill_bytes(&mut content[0]);
    let (prepared, setup_ms) = timed(|| engine.prepare(&round, Contents { different: &content, copies: 1 }));
    let prepared = prepared?;
    let mut memory = PagePool::default().vector::<u64>(elements / 8)?;
    memory.fill(1);
    let mut measured = Vec::new();
    for &batch in batches {
        let clients = (0..batch).map(|_| Client::new(&*engine, &rng.random()));
        let mut clients = clients.collect::<Result<Vec<Client>, _>>()?;
        let wanted: Vec<usize> = (0..batch).map(|number| elements - 1 - number).collect();
        let asked = clients.iter_mut().zip(&wanted);
        let requests = asked
            .map(|(client, wanted)| client.half.ask(RoundSpec::clone(&round), &[Some(*wanted)], &mut rng))
            .collect::<Result<Vec<_>, _>>()?;
        let tile: Vec<_> = clients
            .iter()
            .zip(&requests)
            .map(|(client, request)| Query { keys: &client.keys, request: &request.bytes })
            .collect();
        let (mut least, mut sum, mut answers) = (f64::INFINITY, f64::INFINITY, Vec::new());
        for _ in 0..RUNS {
            let (result, time) = timed(|| prepared.answer(0, &tile));
            answers = result.into_iter().collect::<Result<Vec<_>, _>>()?;
            least = least.min(time);
            sum = sum.min(timed(|| black_box(plain_sum(black_box(&memory)))).1);
        }
        for ((request, wanted), answer) in requests.into_iter().zip(wanted).zip(&answers) {
            let element = request.pending.read(prepared.hint(), answer).pop().context("one element")??;
            ensure!(element == content[0][wanted..=wanted], "an element is not the database's");
        }
        let gigabytes = elements as f64 / 1e9;
        measured.push(Measured {
            engine: name,
            log2_bytes,
            batch,
            speed: Some(batch as f64 * gigabytes / (least / 1e3)),
            memory: Some(gigabytes / (sum / 1e3)),
            setup_s: Some(setup_ms / 1e3),
            hint,
            online,
        });
    }
    Ok(measured)
}

/// As fast as memory gives what is read once.
fn plain_sum(memory: &[u64]) -> u64 {
    Arch::new().dispatch(|| memory.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use super::{CLAIMS, measure};

    /// A full run, which takes minutes, is not the first to find out.
    #[test]
    fn the_papers_databases_have_a_shape() {
        for claim in &CLAIMS {
            let of = measure(claim.engine, claim.log2_bytes, None).unwrap().remove(0);
            println!("{}: hint {} bytes, online {} bytes", claim.name, of.hint, of.online);
            for (here, paper) in [(of.hint, claim.hint_mb * 1e6), (of.online, claim.online_kb * 1e3)] {
                assert!((0.8..1.25).contains(&(here as f64 / paper)), "{}: {here} bytes", claim.name);
            }
        }
    }
}
