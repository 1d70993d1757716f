//! `sotto-sim psir`: how many queries the blocks of a client serve, and what a database that stays costs it.

use anyhow::{Context, ensure};
use clap::ValueEnum;
use pir_baselines::Xpir;
use pir_baselines::paillier::{Paillier2048, Paillier3072};
use pir_baselines::psir::{Client, Init, Inner, Server, Setting, Shape, simulate};
use pir_core::{PagePool, SealPir};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde::Serialize;
use sotto_measuring::cpu::{alone, median, timed};
use sotto_measuring::table::Table;

use crate::listing::listing;

/// The simulations of the paper's section 7.1: records, blocks, and its average and minimum of a million runs.
pub(crate) const PAPER: [(u64, u32, f64, u32); 3] =
    [(1 << 16, 425, 421.97, 420), (1 << 18, 850, 846.57, 844), (1 << 20, 1725, 1722.52, 1719)];

/// What to simulate, or to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Measure a database that stays, under this engine, in place of the simulation.
    #[arg(long, value_enum)]
    engine: Option<Name>,
    /// Runs of the simulation.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Records of the database that is measured.
    #[arg(long, default_value_t = 65_536, requires = "engine")]
    elements: usize,
    /// Bytes of each record.
    #[arg(long, default_value_t = 288, requires = "engine")]
    bytes: usize,
    /// Blocks that its client keeps.
    #[arg(long, default_value_t = 425, requires = "engine", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
    /// Queries, of which the medians are reported.
    #[arg(long, default_value_t = 7, requires = "engine", value_parser = clap::value_parser!(u32).range(1..))]
    queries: u32,
    /// Seed of all that is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End with one JSON object on the last line.
    #[arg(long)]
    json: bool,
}

/// PSIR over an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    Xpsir,
    Sealpsir,
    Paillierpsir,
    PaillierpsirPaper,
}

/// A database that stays, and a client of it.
#[derive(Clone, Copy)]
pub(crate) struct Stay {
    pub(crate) elements: usize,
    pub(crate) bytes: usize,
    pub(crate) blocks: u32,
    pub(crate) queries: u32,
    pub(crate) seed: u64,
}

#[derive(Serialize)]
struct Simulation {
    runs: u64,
    seed: u64,
    sizes: Vec<Serviced>,
}

/// Queries that c blocks serve.
#[derive(Serialize)]
pub(crate) struct Serviced {
    n: u64,
    k: u64,
    c: u32,
    pub(crate) average: f64,
    minimum: u32,
    pub(crate) paper_average: f64,
    paper_minimum: u32,
}

/// CPU time of one thread, and what is sent.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) engine: &'static str,
    elements: usize,
    element_bytes: usize,
    parts: usize,
    blocks: u32,
    /// Once for all queries: drawing the blocks, and adding up what is streamed.
    pub(crate) init_cpu_ms: f64,
    pub(crate) init_bytes: usize,
    pub(crate) state_bytes: usize,
    pub(crate) query_cpu_ms: f64,
    pub(crate) answer_cpu_ms: f64,
    pub(crate) extract_cpu_ms: f64,
    pub(crate) request_bytes: usize,
    /// Of the request, what divides the records.
    partition_bytes: usize,
    pub(crate) answer_bytes: usize,
    pub(crate) key_bytes: usize,
    /// Online and with its share of Init, where Init is made again after 25 queries less than there are blocks.
    bytes_per_query: f64,
    queries: u32,
    /// Whether every record was the one in the database.
    pub(crate) verified: bool,
}

/// After how many queries the paper makes Init again, with so many blocks.
pub(crate) fn queries_of(blocks: u32) -> f64 {
    f64::from(blocks.saturating_sub(25).max(1))
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Some(name) = arguments.engine else { return simulated(arguments) };
    let Arguments { elements, bytes, blocks, queries, seed, .. } = *arguments;
    let measured = alone(|| measure(name, Stay { elements, bytes, blocks, queries, seed }))?;
    println!("Medians over the queries, CPU time of one thread:\n{}", listing(&measured)?);
    if arguments.json {
        println!("{}", serde_json::to_string(&measured)?);
    }
    ensure!(measured.verified, "a record was not the database's");
    Ok(())
}

fn simulated(arguments: &Arguments) -> anyhow::Result<()> {
    let sizes = serviced(arguments.runs, arguments.seed);
    let report = Simulation { runs: arguments.runs, seed: arguments.seed, sizes };
    let mut table = Table::of(
        "Queries that c blocks of k - 1 random records serve, of n records",
        &[
            ("n", |row: &Serviced| row.n.to_string()),
            ("k", |row| row.k.to_string()),
            ("c", |row| row.c.to_string()),
            ("average", |row| format!("{:.2}", row.average)),
            ("minimum", |row| row.minimum.to_string()),
            ("paper: average", |row| format!("{:.2}", row.paper_average)),
            ("minimum", |row| row.paper_minimum.to_string()),
        ],
        &report.sizes,
    );
    table.note(format!("{} runs, seed {}.", report.runs, report.seed));
    println!("{}", table.markdown());
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}

/// The sizes of the paper, simulated.
pub(crate) fn serviced(runs: u64, seed: u64) -> Vec<Serviced> {
    let sizes = PAPER.iter().map(|(n, c, paper_average, paper_minimum)| {
        let k = 2 * n.isqrt();
        let serviced = simulate(Setting { records: *n, members: k - 1, blocks: *c }, runs, seed);
        Serviced {
            n: *n,
            k,
            c: *c,
            average: serviced.average,
            minimum: serviced.minimum,
            paper_average: *paper_average,
            paper_minimum: *paper_minimum,
        }
    });
    sizes.collect()
}

/// What a database that stays costs a client and its server.
pub(crate) fn measure(name: Name, stay: Stay) -> anyhow::Result<Measured> {
    match name {
        Name::Xpsir => measure_over::<Xpir<2>>(stay),
        Name::Sealpsir => measure_over::<SealPir>(stay),
        Name::Paillierpsir => measure_over::<Paillier3072>(stay),
        Name::PaillierpsirPaper => measure_over::<Paillier2048>(stay),
    }
}

fn measure_over<I: Inner>(stay: Stay) -> anyhow::Result<Measured> {
    let Stay { elements, bytes, blocks, queries, seed } = stay;
    let shape = Shape::new(elements, bytes)?;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut records = vec![0; elements * bytes];
    rng.fill_bytes(&mut records);
    let (state, init) = timed(|| {
        let mut init = Init::new(&shape, blocks as usize, &mut rng);
        init.stream(&records)?;
        init.finish()
    });
    let (mut state, pool) = (state?, PagePool::default());
    let state_bytes = state.bytes();
    let client = Client::<I>::new(&shape, &rng.random())?;
    let public_keys = client.public_keys();
    let keys = I::decode_public_keys(&public_keys)?;
    let server = Server::<I>::new(&shape, &pool, &records)?;
    let [mut query, mut answer, mut extract] = [const { Vec::new() }; 3];
    let (mut verified, mut request_bytes, mut answer_bytes) = (true, 0, 0);
    for _ in 0..queries {
        let index = rng.random_range(0..elements);
        let (asked, time) = timed(|| client.query(&mut state, index, &mut rng));
        let (request, asked) = asked?.context("no block is left: give more --blocks, or fewer --queries")?;
        query.push(time);
        let (answered, time) = timed(|| server.answer(&keys, &request));
        let answered = answered?;
        answer.push(time);
        let (record, time) = timed(|| client.read(asked, &answered));
        extract.push(time);
        verified &= record? == records[index * bytes..][..bytes];
        (request_bytes, answer_bytes) = (request.len(), answered.len());
    }
    Ok(Measured {
        engine: I::PSIR_NAME,
        elements,
        element_bytes: bytes,
        parts: shape.parts(),
        blocks,
        init_cpu_ms: init,
        init_bytes: records.len(),
        state_bytes,
        query_cpu_ms: median(query),
        answer_cpu_ms: median(answer),
        extract_cpu_ms: median(extract),
        request_bytes,
        partition_bytes: shape.partition_bytes(),
        answer_bytes,
        key_bytes: public_keys.len(),
        bytes_per_query: (request_bytes + answer_bytes) as f64 + records.len() as f64 / queries_of(blocks),
        queries,
        verified,
    })
}
