//! `sotto-sim pir`: one database, one client and a tile of clients.

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use mpir::{Contents, Form, Profile, Query, RoundSpec};
use pir_core::ring::Backend;
use pir_core::sealpir::Parameters;
use pir_core::{Scheme, SealPir};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde::Serialize;
use sotto_measuring::cpu::{Stages, alone, median, timed};
use sotto_measuring::engine::{Arrangement, Client, EngineName};
use sotto_measuring::progress;

use crate::listing::listing;

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
pub(crate) struct Report {
    engine: &'static str,
    elements: usize,
    element_bytes: usize,
    #[serde(flatten)]
    arrangement: Arrangement,
    pub(crate) answer_cpu_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expand_cpu_ms: Option<f64>,
    /// Of engines that do not expand.
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_cpu_ms: Option<f64>,
    first_dimension_cpu_ms: f64,
    pub(crate) setup_cpu_ms: f64,
    pub(crate) query_cpu_ms: f64,
    pub(crate) extract_cpu_ms: f64,
    /// Per client, of engines that answer tiles in one pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer_tile_cpu_ms: Option<f64>,
    /// Per client, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_dimension_tile_cpu_ms: Option<f64>,
    pub(crate) query_bytes: usize,
    pub(crate) answer_bytes: usize,
    /// What everybody downloads to read answers.
    pub(crate) hint_bytes: usize,
    pub(crate) key_bytes: usize,
    database_bytes: usize,
    security_bits: u32,
    failure_log2: f64,
    /// Whether every element extracted was the one in the database.
    verified: bool,
    kernel: &'static str,
    runs: u16,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { engine, elements, bytes, runs, seed, .. } = *arguments;
    let report = alone(|| {
        let form = Form { buckets: 1, elements, element_bytes: bytes };
        let round = engine.round(form, profile(arguments)?)?;
        let progress = progress::bar(usize::from(runs), engine.engine().name());
        measure(engine, &round, engine.tile(), runs, seed, &progress)
    })?;
    println!("Medians over the runs, CPU time of one thread:\n{}", listing(&report)?);
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    }
    report.ensure_verified()
}

/// The shape that is asked for, if one is.
fn profile(arguments: &Arguments) -> anyhow::Result<Option<Profile>> {
    let Arguments { engine, elements, bytes, columns, levels, answer_bytes, .. } = *arguments;
    let parameters = match (answer_bytes, columns, levels) {
        (None, None, _) => return Ok(None),
        _ if engine != EngineName::Sealpir => {
            anyhow::bail!("--columns, --levels and --answer-bytes are for --engine sealpir: leave them out")
        }
        (Some(answer_bytes), ..) => Parameters::choose_within(elements, bytes, answer_bytes)?,
        (None, Some(columns), None) => Parameters::with_columns(elements, bytes, columns)?,
        (None, Some(columns), Some(levels)) => {
            Parameters::with_columns_and_levels(elements, bytes, columns, levels)?
        }
    };
    Ok(Some(Profile(SealPir::profile(&parameters))))
}

/// One database, of which a tile of clients and one client alone retrieve, on the calling thread.
pub(crate) fn measure(
    name: EngineName,
    round: &RoundSpec,
    tile: usize,
    runs: u16,
    seed: u64,
    progress: &ProgressBar,
) -> anyhow::Result<Report> {
    let (engine, Form { elements, element_bytes, .. }) = (name.engine(), round.form);
    let (sizes, assurance) = (engine.sizes(round)?, engine.assurance(round)?);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut bytes = vec![0; elements * element_bytes];
    rng.fill_bytes(&mut bytes);
    let contents = Contents { different: &[bytes], copies: 1 };
    let clients = (0..tile).map(|_| Client::new(&*engine, &rng.random()));
    let mut clients = clients.collect::<Result<Vec<Client>, _>>()?;

    let [mut setup, mut query, mut extract] = [const { Vec::new() }; 3];
    let [mut alone, mut tiled] = [const { Vec::new() }; 2];
    let (mut verified, mut database_bytes) = (true, 0);
    for run in 0..runs {
        // A client asks for a round, and some under its seed, once.
        let mut round = RoundSpec { round: run.into(), ..round.clone() };
        round.seed[..2].copy_from_slice(&run.to_le_bytes());
        let (prepared, time) = timed(|| engine.prepare(&round, contents));
        let prepared = prepared?;
        setup.push(time);
        database_bytes = prepared.memory_bytes();
        let (mut indices, mut requests) = (Vec::new(), Vec::new());
        for client in &mut clients {
            let index = rng.random_range(0..elements);
            let (request, time) = timed(|| client.half.ask(round.clone(), &[Some(index)], &mut rng));
            query.push(time);
            requests.push(request?);
            indices.push(index);
        }
        let asked = clients.iter().zip(&requests);
        let queries: Vec<_> =
            asked.map(|(client, request)| Query { keys: &client.keys, request: &request.bytes }).collect();
        let answer = |queries: &[Query<'_>]| {
            let (answers, stages) = Stages::timed(|observe| prepared.answer_observed(0, queries, observe));
            anyhow::Ok((answers.into_iter().collect::<Result<Vec<_>, _>>()?, stages))
        };
        let (answers, stages) = answer(&queries)?;
        tiled.push(stages);
        // The stages of one client, several times: they are short. The first time warms the caches.
        for _ in 0..if run == 0 { 2 } else { 1 } {
            let (single, stages) = answer(&queries[..1])?;
            verified &= single[0] == answers[0];
            alone.push(stages);
        }
        for ((request, index), answer) in requests.into_iter().zip(indices).zip(&answers) {
            let (mut element, time) = timed(|| request.pending.read(prepared.hint(), answer));
            extract.push(time);
            let element = element.pop().context("one element")??;
            verified &= element == contents.different[0][index * element_bytes..][..element_bytes];
        }
        progress.inc(1);
    }
    let over = |stages: &[Stages], part: fn(&Stages) -> f64| median(stages.iter().map(part));
    let tile = |part| (tile > 1).then(|| over(&tiled, part) / tile as f64);
    let before_products = over(&alone, |stages| stages.expand);
    Ok(Report {
        engine: engine.name(),
        elements,
        element_bytes,
        arrangement: name.arrangement(round)?,
        answer_cpu_ms: over(&alone, |stages| stages.total()),
        expand_cpu_ms: name.expands().then_some(before_products),
        parse_cpu_ms: (!name.expands()).then_some(before_products),
        first_dimension_cpu_ms: over(&alone, |stages| stages.first_dimension),
        answer_tile_cpu_ms: tile(|stages| stages.total()),
        first_dimension_tile_cpu_ms: tile(|stages| stages.first_dimension),
        setup_cpu_ms: median(setup),
        query_cpu_ms: median(query),
        extract_cpu_ms: median(extract),
        query_bytes: sizes.request.bytes(),
        answer_bytes: sizes.answer.bytes(),
        hint_bytes: sizes.hint.bytes(),
        key_bytes: sizes.keys,
        database_bytes,
        security_bits: assurance.security_bits,
        failure_log2: assurance.failure_log2,
        verified,
        kernel: Backend::active().name(),
        runs,
    })
}

impl Report {
    /// What depends on the query alone.
    pub(crate) fn before_products_cpu_ms(&self) -> f64 {
        self.expand_cpu_ms.or(self.parse_cpu_ms).unwrap_or(0.0)
    }

    pub(crate) fn ensure_verified(&self) -> anyhow::Result<()> {
        ensure!(self.verified, "an extracted element is not the database's");
        Ok(())
    }
}
