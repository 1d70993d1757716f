//! Figure 15: the time of Encode, GenSchedule and Decode for every code.

use anyhow::{Context, ensure};
use pbc::{BatchCode, EncodingOracle, Oracle, PartitionedCode, Plan};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sotto_measuring::code::CodeName;
use sotto_measuring::cpu::{alone, median, timed};
use sotto_measuring::table::{Column, Table, short};

use super::chart::{Quantity, beside_paper};
use super::section::Figure;
use crate::pbc::{Code, Dimensions};

const BATCH: usize = 64;
const ELEMENT_BYTES: usize = 288;

/// Of one code, in the paper's units.
struct Times {
    encode_ms: f64,
    /// Without the bytes of the buckets.
    layout_ms: f64,
    schedule_us: f64,
    decode_us: f64,
}

/// Names, and the paper's times: Encode in milliseconds, GenSchedule and Decode in microseconds.
const CODES: [(&str, CodeName, Option<[f64; 3]>); 6] = [
    ("k-way replication", CodeName::Replication, Some([22.5, 5.8, 0.1])),
    ("sharding", CodeName::Sharding, Some([52.1, 112.8, 0.3])),
    ("2-choice hashing", CodeName::TwoChoice, Some([103.6, 212.9, 0.2])),
    ("Pung hybrid", CodeName::Hybrid, Some([101.8, 42.3, 1.2])),
    ("cuckoo hashing", CodeName::Cuckoo, Some([154.1, 319.2, 0.15])),
    ("partitioned cuckoo", CodeName::Partitioned, None),
];

/// One code.
struct Row {
    name: &'static str,
    paper: Option<[f64; 3]>,
    times: Times,
}

impl Row {
    fn paper(&self, quantity: usize) -> String {
        self.paper.map_or("-".to_owned(), |paper| paper[quantity].to_string())
    }
}

const COLUMNS: [Column<Row>; 8] = [
    ("code", |row| row.name.to_owned()),
    ("Encode, paper, ms", |row| row.paper(0)),
    ("Encode, ms", |row| short(row.times.encode_ms)),
    ("of it without bytes, ms", |row| short(row.times.layout_ms)),
    ("GenSchedule, paper, us", |row| row.paper(1)),
    ("GenSchedule, us", |row| short(row.times.schedule_us)),
    ("Decode, paper, us", |row| row.paper(2)),
    ("Decode, us", |row| short(row.times.decode_us)),
];

const CHARTED: [Quantity<Row>; 3] = [
    ("Encode, ms", |row| [row.paper.map(|paper| paper[0]), Some(row.times.encode_ms)]),
    ("GenSchedule, microseconds", |row| [row.paper.map(|paper| paper[1]), Some(row.times.schedule_us)]),
    ("Decode, microseconds", |row| [row.paper.map(|paper| paper[2]), Some(row.times.decode_us)]),
];

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (n, runs) = if quick { (1 << 14, 3) } else { (1 << 19, 7) };
    let row = |(name, code, paper)| Ok(Row { name, paper, times: measure(code, n, runs).context(name)? });
    let rows: Vec<Row> = alone(|| CODES.into_iter().map(row).collect())?;
    let mut table = Table::of("Figure 15: cost of the operations of the batch codes", &COLUMNS, &rows);
    table.note(format!(
        "{n} elements of {ELEMENT_BYTES} bytes, k = {BATCH}; medians of {runs} runs, CPU time of one thread. Encode \
         writes the bytes of every different content once, into memory that was used before; the paper's machine and \
         hash differ."
    ));
    let title = format!("Figure 15: n = {n}, k = {BATCH}, {ELEMENT_BYTES}-byte elements");
    let svg = beside_paper(&title, &rows, |row| row.name.to_owned(), &CHARTED)?;
    let shows = "How long the server takes to encode a database (Encode), and a client to choose a bucket for each of its keys \
        (GenSchedule) and to get an element back from what it retrieved (Decode).";
    let differs = "GenSchedule searches augmenting paths here, where the paper walks at random. Encode writes the bytes of \
        buckets into memory that was used before, those of equal content once; replication therefore copies everything \
        only once. The paper's processors have no \
        instructions for SHA-256, which newer ones have.";
    Ok(Figure { table, svg, shows: shows.to_owned(), differs: differs.to_owned() })
}

fn measure(name: CodeName, n: usize, runs: usize) -> anyhow::Result<Times> {
    let b = (name == CodeName::Partitioned).then_some(96);
    let dimensions = Dimensions { n, b, ..Dimensions::of(name, BATCH) };
    let code = Code::new(dimensions, [1; 32])?;
    let batch: &dyn BatchCode = &*code.batch;

    let keys: Vec<[u8; 8]> = (0..n as u64).map(PartitionedCode::key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let mut elements = vec![0; n * ELEMENT_BYTES];
    StdRng::seed_from_u64(1).fill_bytes(&mut elements);

    let (mut layout, mut encode, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
    let mut encoding = batch.encode(&keys);
    // Once more than is counted: the first time takes fresh memory.
    for run in 0..=runs {
        let (encoded, without) = timed(|| batch.encode(&keys));
        encoding = encoded;
        let padded = encoding.largest();
        let (bytes, with) =
            timed(|| encoding.materialise_contents(ELEMENT_BYTES, &elements, padded, &mut buffers));
        bytes?;
        if run > 0 {
            layout.push(without);
            encode.push(without + with);
        }
    }

    let wanted: Vec<&[u8]> = keys.iter().step_by(n / BATCH).copied().take(BATCH).collect();
    let oracle = EncodingOracle::new(&encoding, &keys);
    let plan = Plan::new(batch, &wanted, &oracle);
    ensure!(plan.deferred().next().is_none(), "this batch cannot be served");
    // One of the keys, with as many codewords as any of them: what it decodes to must be its element.
    let key_number = (0..BATCH).max_by_key(|key| plan.assignment(*key).len()).context("no key")?;
    let codewords: Vec<&[u8]> = plan
        .assignment(key_number)
        .iter()
        .map(|bucket| {
            let holder = batch.holder(wanted[key_number], *bucket);
            let position = oracle.position(key_number, wanted[key_number], holder).context("no position")?;
            let content = &buffers[bucket.to_usize() / encoding.copies()];
            Ok(&content[position * ELEMENT_BYTES..][..ELEMENT_BYTES])
        })
        .collect::<anyhow::Result<_>>()?;
    let element = &elements[key_number * (n / BATCH) * ELEMENT_BYTES..][..ELEMENT_BYTES];
    ensure!(batch.decode(&codewords)? == element, "a wrong element");

    Ok(Times {
        encode_ms: median(encode),
        layout_ms: median(layout),
        schedule_us: repeated(runs, || batch.schedule(&wanted, &|_, _| true)),
        decode_us: repeated(runs, || batch.decode(&codewords)),
    })
}

/// The median, over some runs, of the mean over a thousand repetitions, in microseconds.
fn repeated<T>(runs: usize, work: impl Fn() -> T) -> f64 {
    let run = |_| timed(|| (0..1_000).for_each(|_| drop(core::hint::black_box(work())))).1;
    // Milliseconds for a thousand are microseconds for one.
    median((0..runs).map(run))
}
