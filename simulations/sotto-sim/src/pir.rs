//! `sotto-sim pir`: one database, one client and a tile of clients.

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use pir_core::ring::Backend;
use pir_core::sealpir::{ClientKey, Database, Parameters, PublicKeys, Stage, answer_tile_observed};
use pir_core::{Scheme, SealPir};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde::Serialize;

use crate::cpu::{median, milliseconds, timed};

/// Clients whose queries are answered in one pass.
const TILE: usize = 16;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Elements in the database.
    #[arg(long, default_value_t = 32_768)]
    elements: usize,
    /// Bytes of each element.
    #[arg(long, default_value_t = 288)]
    bytes: usize,
    /// Columns of the second dimension, 1 for none [default: the cheapest shape].
    #[arg(long)]
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
    elements: usize,
    element_bytes: usize,
    dimensions: usize,
    rows: usize,
    columns: usize,
    levels: u32,
    answer_cpu_ms: f64,
    expand_cpu_ms: f64,
    first_dimension_cpu_ms: f64,
    setup_cpu_ms: f64,
    query_cpu_ms: f64,
    extract_cpu_ms: f64,
    /// Per client.
    answer_tile_cpu_ms: f64,
    /// Per client.
    first_dimension_tile_cpu_ms: f64,
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
struct Client {
    key: ClientKey,
    keys: PublicKeys,
}

/// CPU time of one tile's stages, milliseconds per client.
struct Times {
    expand: f64,
    first_dimension: f64,
    total: f64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Everything happens on the calling thread, so that its clock sees all of it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
    let report = pool.install(|| measure(arguments))?;
    print(&report);
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    }
    ensure!(report.verified, "an extracted element is not the database's");
    Ok(())
}

fn measure(arguments: &Arguments) -> anyhow::Result<Report> {
    let parameters = shape(arguments)?;
    let mut rng = StdRng::seed_from_u64(arguments.seed);
    let mut elements = vec![0; arguments.elements * arguments.bytes];
    rng.fill_bytes(&mut elements);
    let progress = progress_bar(u64::from(arguments.runs) + TILE as u64);

    progress.set_message("keys");
    let clients = (0..TILE)
        .map(|_| {
            let key = SealPir::client_key(&rng.random());
            let keys = SealPir::decode_public_keys(&SealPir::encode_public_keys(&key))?;
            progress.inc(1);
            Ok(Client { key, keys })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;

    progress.set_message("runs");
    let (mut setup, mut query, mut extract, mut verified) = (Vec::new(), Vec::new(), Vec::new(), true);
    let (mut alone, mut tiled): (Vec<Times>, Vec<Times>) = (Vec::new(), Vec::new());
    for run in 0..arguments.runs {
        let (database, time) = timed(|| SealPir::setup(&parameters, &elements));
        let database = database?;
        setup.push(time);
        let indices: Vec<usize> = (0..TILE).map(|_| rng.random_range(0..arguments.elements)).collect();
        let mut queries = Vec::new();
        for (client, index) in clients.iter().zip(&indices) {
            let (built, time) = timed(|| SealPir::queries(&client.key, &[(&parameters, *index)], &mut rng));
            queries.push(built?.pop().context("one query")?);
            query.push(time);
        }
        let (answers, times) = answer(&database, &clients, &queries)?;
        tiled.push(times);
        // The stages of one client, several times: they are short. The first time warms the caches.
        let repetitions = if run == 0 { 2 } else { 1 };
        for _ in 0..repetitions {
            let (single, times) = answer(&database, &clients[..1], &queries[..1])?;
            verified &= single[0] == answers[0];
            alone.push(times);
        }
        for ((client, index), answer) in clients.iter().zip(&indices).zip(&answers) {
            let (element, time) = timed(|| SealPir::extract(&parameters, &client.key, *index, answer));
            extract.push(time);
            verified &= element? == elements[index * arguments.bytes..(index + 1) * arguments.bytes];
        }
        progress.inc(1);
        if run + 1 == arguments.runs {
            progress.finish_and_clear();
            return Ok(report(
                arguments,
                &parameters,
                &database,
                &alone,
                &tiled,
                [setup, query, extract],
                verified,
            ));
        }
    }
    anyhow::bail!("no run")
}

/// The shape that is asked for, or the one that everybody uses.
fn shape(arguments: &Arguments) -> Result<Parameters, pir_core::Error> {
    let Arguments { elements, bytes, columns, levels, .. } = *arguments;
    match (columns, levels) {
        (Some(columns), Some(levels)) => {
            Parameters::with_columns_and_levels(elements, bytes, columns, levels)
        }
        (Some(columns), None) => Parameters::with_columns(elements, bytes, columns),
        _ => SealPir::parameters(elements, bytes),
    }
}

/// Answers the queries in one pass over the database, and times the stages.
fn answer(
    database: &Database,
    clients: &[Client],
    queries: &[Vec<u8>],
) -> anyhow::Result<(Vec<Vec<u8>>, Times)> {
    let pairs: Vec<(&PublicKeys, &[u8])> =
        clients.iter().zip(queries).map(|(client, query)| (&client.keys, &query[..])).collect();
    let start = milliseconds();
    let (mut expanded, mut first) = (start, start);
    let answers = answer_tile_observed(database, &pairs, |stage| match stage {
        Stage::Expanded => expanded = milliseconds(),
        Stage::FirstDimension => first = milliseconds(),
        _ => {}
    });
    let end = milliseconds();
    let per_client = |time: f64| time / clients.len() as f64;
    let times = Times {
        expand: per_client(expanded - start),
        first_dimension: per_client(first - expanded),
        total: per_client(end - start),
    };
    Ok((answers.into_iter().collect::<Result<_, _>>()?, times))
}

fn report(
    arguments: &Arguments,
    parameters: &Parameters,
    database: &Database,
    alone: &[Times],
    tiled: &[Times],
    [setup, query, extract]: [Vec<f64>; 3],
    verified: bool,
) -> Report {
    let over = |times: &[Times], part: fn(&Times) -> f64| median(times.iter().map(part).collect());
    Report {
        elements: arguments.elements,
        element_bytes: arguments.bytes,
        dimensions: parameters.dimensions(),
        rows: parameters.rows(),
        columns: parameters.columns(),
        levels: parameters.levels(),
        answer_cpu_ms: over(alone, |times| times.total),
        expand_cpu_ms: over(alone, |times| times.expand),
        first_dimension_cpu_ms: over(alone, |times| times.first_dimension),
        setup_cpu_ms: median(setup),
        query_cpu_ms: median(query),
        extract_cpu_ms: median(extract),
        answer_tile_cpu_ms: over(tiled, |times| times.total),
        first_dimension_tile_cpu_ms: over(tiled, |times| times.first_dimension),
        query_bytes: SealPir::query_bytes(parameters),
        answer_bytes: SealPir::answer_bytes(parameters),
        key_bytes: SealPir::public_keys_bytes(),
        database_bytes: database.bytes(),
        security_bits: SealPir::security_bits(parameters),
        failure_log2: SealPir::failure_log2(parameters),
        verified,
        kernel: Backend::active().name(),
        runs: arguments.runs,
    }
}

fn print(report: &Report) {
    println!("{} elements of {} bytes, {} kernel", report.elements, report.element_bytes, report.kernel);
    println!(
        "shape       d = {}, {} x {} plaintexts, {} levels of EXPAND",
        report.dimensions, report.rows, report.columns, report.levels
    );
    println!("medians of {} runs, CPU time of one thread:", report.runs);
    println!("  set-up    {:9.2} ms", report.setup_cpu_ms);
    println!("  query     {:9.3} ms", report.query_cpu_ms);
    println!("  answer    {:9.3} ms", report.answer_cpu_ms);
    println!("    EXPAND            {:9.3} ms", report.expand_cpu_ms);
    println!("    first dimension   {:9.3} ms", report.first_dimension_cpu_ms);
    println!("  answer    {:9.3} ms per client in a tile of {TILE}", report.answer_tile_cpu_ms);
    println!("    first dimension   {:9.3} ms", report.first_dimension_tile_cpu_ms);
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
