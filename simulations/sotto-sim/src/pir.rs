//! `sotto-sim pir`: one database, one client and a tile of clients.

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use pir_baselines::{PaperSealPir, Xpir};
use pir_core::ring::Backend;
use pir_core::sealpir::Parameters;
use pir_core::{Scheme, SealPir};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde::Serialize;

use crate::cpu::{median, timed};
use crate::engine::{Arrangement, Engine, EngineName, StageTimes};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The engine.
    #[arg(long, value_enum, default_value_t)]
    engine: EngineName,
    /// Elements in the database.
    #[arg(long, default_value_t = 32_768)]
    elements: usize,
    /// Bytes of each element.
    #[arg(long, default_value_t = 288)]
    bytes: usize,
    /// Bytes that an answer of SealPIR may have: more of them cost the server less time [default: 110592, as for a
    /// database that is asked one query a round; 34820 is what a bucket of a batch sends].
    #[arg(long)]
    answer_bytes: Option<usize>,
    /// Columns of SealPIR's second dimension, 1 for none [default: the cheapest shape].
    #[arg(long, conflicts_with = "answer_bytes")]
    columns: Option<usize>,
    /// Levels of EXPAND, with longer queries for fewer of them [default: all].
    #[arg(long, requires = "columns")]
    levels: Option<u32>,
    /// Runs, of which the medians are reported.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(5..))]
    runs: u16,
    /// Seed of the database, the keys and the indices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End with one JSON object on the last line.
    #[arg(long)]
    json: bool,
}

/// Medians over the runs, CPU time of one thread.
#[derive(Serialize)]
struct Report {
    engine: &'static str,
    elements: usize,
    element_bytes: usize,
    #[serde(flatten)]
    arrangement: Arrangement,
    answer_cpu_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expand_cpu_ms: Option<f64>,
    /// Of engines that do not expand.
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_cpu_ms: Option<f64>,
    first_dimension_cpu_ms: f64,
    setup_cpu_ms: f64,
    query_cpu_ms: f64,
    extract_cpu_ms: f64,
    /// Per client, of engines that answer tiles in one pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_tile_cpu_ms: Option<f64>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_dimension_tile_cpu_ms: Option<f64>,
    query_bytes: usize,
    answer_bytes: usize,
    key_bytes: usize,
    database_bytes: usize,
    security_bits: u32,
    failure_log2: f64,
    /// Whether every element extracted was the one in the database.
    verified: bool,
    kernel: &'static str,
    runs: u16,
}

/// A client and its keys as the server holds them.
struct Client<E: Engine> {
    key: E::ClientKey,
    keys: E::PublicKeys,
}

/// What was measured run by run.
#[derive(Default)]
struct Measured {
    setup: Vec<f64>,
    query: Vec<f64>,
    extract: Vec<f64>,
    /// Of one client.
    alone: Vec<StageTimes>,
    /// Of a whole tile.
    tiled: Vec<StageTimes>,
    wrong: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Everything happens on the calling thread, so that its clock sees all of it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
    ensure!(
        arguments.engine == EngineName::Sealpir
            || arguments.columns.is_none() && arguments.answer_bytes.is_none(),
        "--columns, --levels and --answer-bytes are for --engine sealpir: leave them out"
    );
    let report = pool.install(|| match arguments.engine {
        EngineName::Sealpir => measure::<SealPir>(arguments, &shape(arguments)?),
        EngineName::Xpir2 => measure_cheapest::<Xpir<2>>(arguments),
        EngineName::Xpir3 => measure_cheapest::<Xpir<3>>(arguments),
        EngineName::PaperT20 => measure_cheapest::<PaperSealPir<20>>(arguments),
        EngineName::PaperT23 => measure_cheapest::<PaperSealPir<23>>(arguments),
    })?;
    print(&report);
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    }
    ensure!(report.verified, "an extracted element is not the database's");
    Ok(())
}

fn measure_cheapest<E: Engine>(arguments: &Arguments) -> anyhow::Result<Report> {
    measure::<E>(arguments, &E::parameters_to_measure(arguments.elements, arguments.bytes)?)
}

fn measure<E: Engine>(arguments: &Arguments, parameters: &E::Parameters) -> anyhow::Result<Report> {
    let mut rng = StdRng::seed_from_u64(arguments.seed);
    let mut elements = vec![0; arguments.elements * arguments.bytes];
    rng.fill_bytes(&mut elements);
    let progress = progress_bar(u64::from(arguments.runs) + E::TILE as u64);

    progress.set_message("keys");
    let clients = (0..E::TILE)
        .map(|_| {
            let key = E::client_key(&rng.random());
            let keys = E::decode_public_keys(&E::encode_public_keys(&key))?;
            progress.inc(1);
            Ok(Client { key, keys })
        })
        .collect::<anyhow::Result<Vec<Client<E>>>>()?;

    progress.set_message("runs");
    let mut measured = Measured::default();
    for run in 0..arguments.runs {
        let (database, time) = timed(|| E::setup(parameters, &elements));
        let database = database?;
        measured.setup.push(time);
        let indices: Vec<usize> = clients.iter().map(|_| rng.random_range(0..arguments.elements)).collect();
        let mut queries = Vec::new();
        for (client, index) in clients.iter().zip(&indices) {
            let (built, time) = timed(|| E::queries(&client.key, &[(parameters, *index)], &mut rng));
            queries.push(built?.pop().context("one query")?);
            measured.query.push(time);
        }
        let (answers, times) = answer(&database, &clients, &queries)?;
        measured.tiled.push(times);
        // The stages of one client, several times: they are short. The first time warms the caches.
        let repetitions = if run == 0 { 2 } else { 1 };
        for _ in 0..repetitions {
            let (single, times) = answer(&database, &clients[..1], &queries[..1])?;
            measured.wrong |= single[0] != answers[0];
            measured.alone.push(times);
        }
        for ((client, index), answer) in clients.iter().zip(&indices).zip(&answers) {
            let (element, time) = timed(|| E::extract(parameters, &client.key, *index, answer));
            measured.extract.push(time);
            measured.wrong |= element? != elements[index * arguments.bytes..(index + 1) * arguments.bytes];
        }
        progress.inc(1);
        if run + 1 == arguments.runs {
            progress.finish_and_clear();
            return Ok(report::<E>(arguments, parameters, &database, measured));
        }
    }
    anyhow::bail!("no run")
}

/// The shape that is asked for, or the one that everybody uses.
fn shape(arguments: &Arguments) -> Result<Parameters, pir_core::Error> {
    let Arguments { elements, bytes, columns, levels, answer_bytes, .. } = *arguments;
    if let Some(answer_bytes) = answer_bytes {
        return Parameters::choose_within(elements, bytes, answer_bytes);
    }
    match (columns, levels) {
        (Some(columns), Some(levels)) => {
            Parameters::with_columns_and_levels(elements, bytes, columns, levels)
        }
        (Some(columns), None) => Parameters::with_columns(elements, bytes, columns),
        _ => SealPir::parameters_for_one_query(elements, bytes),
    }
}

/// Answers the queries in one pass over the database, and times the stages.
fn answer<E: Engine>(
    database: &E::Database,
    clients: &[Client<E>],
    queries: &[Vec<u8>],
) -> anyhow::Result<(Vec<Vec<u8>>, StageTimes)> {
    let pairs: Vec<(&E::PublicKeys, &[u8])> =
        clients.iter().zip(queries).map(|(client, query)| (&client.keys, &query[..])).collect();
    let mut times = StageTimes::default();
    let answers = times.answer::<E>(database, &pairs)?;
    Ok((answers, times))
}

fn report<E: Engine>(
    arguments: &Arguments,
    parameters: &E::Parameters,
    database: &E::Database,
    measured: Measured,
) -> Report {
    let over = |times: &[StageTimes], part: fn(&StageTimes) -> f64| median(times.iter().map(part).collect());
    let alone = |part| over(&measured.alone, part);
    let tiled = |part| (E::TILE > 1).then(|| over(&measured.tiled, part) / E::TILE as f64);
    let before_products = alone(|times| times.expand);
    Report {
        engine: E::NAME,
        elements: arguments.elements,
        element_bytes: arguments.bytes,
        arrangement: E::arrangement(parameters),
        answer_cpu_ms: alone(|times| times.total),
        expand_cpu_ms: E::EXPANDS.then_some(before_products),
        parse_cpu_ms: (!E::EXPANDS).then_some(before_products),
        first_dimension_cpu_ms: alone(|times| times.first_dimension),
        answer_tile_cpu_ms: tiled(|times| times.total),
        first_dimension_tile_cpu_ms: tiled(|times| times.first_dimension),
        setup_cpu_ms: median(measured.setup),
        query_cpu_ms: median(measured.query),
        extract_cpu_ms: median(measured.extract),
        query_bytes: E::query_bytes(parameters),
        answer_bytes: E::answer_bytes(parameters),
        key_bytes: E::public_keys_bytes(),
        database_bytes: E::database_bytes(database),
        security_bits: E::security_bits(parameters),
        failure_log2: E::failure_log2(parameters),
        verified: !measured.wrong,
        kernel: Backend::active().name(),
        runs: arguments.runs,
    }
}

fn print(report: &Report) {
    println!(
        "{}, {} elements of {} bytes, {} kernel",
        report.engine, report.elements, report.element_bytes, report.kernel
    );
    let Arrangement { dimensions, rows, columns, parts, planes, levels, plaintext_bits } = report.arrangement;
    let parts = parts.map_or(String::new(), |parts| format!(" in {parts} parts"));
    let planes = planes.map_or(String::new(), |planes| format!(" x {planes}"));
    let levels = levels.map_or(String::new(), |levels| format!(", {levels} levels of EXPAND"));
    let modulus = plaintext_bits.map_or(String::new(), |bits| format!(", modulus 2^{bits}"));
    println!("shape       d = {dimensions}, {rows} x {columns}{planes} plaintexts{parts}{levels}{modulus}");
    println!("medians of {} runs, CPU time of one thread:", report.runs);
    println!("  set-up    {:9.2} ms", report.setup_cpu_ms);
    println!("  query     {:9.3} ms", report.query_cpu_ms);
    println!("  answer    {:9.3} ms", report.answer_cpu_ms);
    let line = |name: &str, time: Option<f64>| {
        if let Some(time) = time {
            println!("    {name:16}  {time:9.3} ms");
        }
    };
    line("EXPAND", report.expand_cpu_ms);
    line("parsing", report.parse_cpu_ms);
    line("first dimension", Some(report.first_dimension_cpu_ms));
    if let Some(time) = report.answer_tile_cpu_ms {
        println!("  answer    {time:9.3} ms per client in a tile");
    }
    line("first dimension", report.first_dimension_tile_cpu_ms);
    println!("  extract   {:9.3} ms", report.extract_cpu_ms);
    println!(
        "bytes       query {}, answer {}, keys {}, database {}",
        report.query_bytes, report.answer_bytes, report.key_bytes, report.database_bytes
    );
    println!(
        "bounds      {} bits of security, failure below 2^{:.1}",
        report.security_bits, report.failure_log2
    );
    println!("elements    {}", if report.verified { "all as in the database" } else { "WRONG" });
}

/// On the terminal only; hidden where the error output is not one.
fn progress_bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:5} {bar:40} {pos}/{len} {elapsed}");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
