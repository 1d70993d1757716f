//! Figure 11: how many requests a server answers, and how long each waits, with more and more clients.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::Figure;
use super::canvas::short;
use super::engines::{Compared, ELEMENT_BYTES, ENGINES, Elements, cores, progress_bar, runtime};
use super::lines::{self, Panel, Scale, Series};
use super::table::Table;
use crate::cpu::{process_milliseconds, timed};
use crate::engine::Engine;
use crate::serving::{Connection, Kind, Server, verify};

/// Cores of the paper's server.
const PAPER_CORES: f64 = 16.0;

/// The paper's database.
const PAPER_ELEMENTS: usize = 1 << 20;

/// A number of clients whose requests would take longer is left out, seconds.
const LONGEST: f64 = 300.0;

/// What is asked for, by how many clients.
pub(super) struct Crowd {
    elements: Elements,
    /// In rising order.
    clients: Vec<usize>,
    /// At least so many requests are counted, and at least two of every client.
    requests: usize,
}

/// What a number of clients got.
pub(super) struct Load {
    clients: usize,
    /// Answers that were counted.
    answers: usize,
    per_second: f64,
    /// From sending a query to having its answer, seconds.
    mean_response: f64,
    /// CPU time per answer, milliseconds: of computing it, and of everything else while the clock ran.
    answer_ms: f64,
    rest_ms: f64,
    /// CPU time of QUERY and EXTRACT, milliseconds, outside of the clock.
    query_ms: f64,
    extract_ms: f64,
}

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (n, clients, requests): (usize, &[usize], usize) =
        if quick { (1 << 12, &[1, 2, 4], 8) } else { (PAPER_ELEMENTS, &[4, 8, 16, 32, 64, 128, 256], 32) };
    let crowd = Crowd { elements: Elements::new(n), clients: clients.to_vec(), requests };
    let runtime = runtime()?;
    let progress = progress_bar(ENGINES.len() * clients.len());
    let mut table = Table::new("Figure 11: throughput and mean response time", header());
    let (mut measured, mut papers, mut best) = (Vec::new(), Vec::new(), Vec::new());
    for engine in &ENGINES {
        progress.set_message(format!("figure 11: {}", engine.name));
        let loads = (engine.loads)(&runtime, &crowd, &progress).context(engine.name)?;
        // Those left out.
        progress.inc((clients.len() - loads.len()) as u64);
        for load in &loads {
            table.row(row(engine, load));
        }
        let points = loads.iter().map(|load| (load.per_second, load.mean_response)).collect();
        measured.push(Series { name: engine.name.to_owned(), points, dashed: false });
        let most = loads.iter().map(|load| load.per_second).fold(0.0, f64::max);
        best.push(format!("{} {} per second", engine.name, short(most)));
        // Engines that are different here may be one in the paper.
        if n == PAPER_ELEMENTS && papers.iter().all(|(_, of)| *of != engine.paper_saturation) {
            papers.push((engine.name, engine.paper_saturation));
        }
    }
    progress.finish_and_clear();
    notes(&mut table, n, requests);

    // As high as everything measured.
    let responses = || measured.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let (low, high) = (responses().fold(f64::INFINITY, f64::min), responses().fold(0.0, f64::max));
    let upright = |(name, at): (&str, f64)| Series {
        name: format!("{name}, paper: {at}/s"),
        points: vec![(at, low), (at, high)],
        dashed: true,
    };
    let series = measured.into_iter().chain(papers.into_iter().map(upright)).collect();
    let panel = Panel {
        title: format!("{} to {} clients, n = {n}", clients[0], clients[clients.len() - 1]),
        x_label: format!("throughput, requests per second on {} cores (the paper's: on 16)", cores()),
        y_label: "mean response time, s".to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Logarithmic,
        series,
    };
    let svg =
        lines::svg("Figure 11: throughput and response time; dashed: where the paper saturates", &[panel])?;
    let shows = format!(
        "More and more clients ask one server, each for its next element as soon as it has one. When all cores are busy, \
         more clients only wait longer. Most answers on {} cores: {}.",
        cores(),
        best.join(", ")
    );
    Ok(Figure { table, svg, shows, differs: DIFFERS.to_owned() })
}

const DIFFERS: &str = "The paper's server has 16 cores and its clients stand in other data centers; here clients and server \
    share one machine, over loopback, without delay. So response times begin at the time that one answer takes. To keep \
    clients out of the server's way, every client makes its query before the clock starts, sends it again and again, and \
    reads an answer after the clock has stopped; what that costs stands in the table. What the process spends beside \
    computing answers is for sockets and copies at both ends. Throughput per core, not as such, compares with the paper's.";

fn header() -> Vec<&'static str> {
    vec![
        "engine",
        "clients",
        "answers",
        "requests per second",
        "per core and second",
        "saturation, paper, per second",
        "per core and second, paper",
        "mean response, s",
        "answer, CPU, ms",
        "sockets, CPU, ms",
        "QUERY, CPU, ms",
        "EXTRACT, CPU, ms",
    ]
}

fn row(engine: &Compared, load: &Load) -> Vec<String> {
    vec![
        engine.name.to_owned(),
        load.clients.to_string(),
        load.answers.to_string(),
        short(load.per_second),
        short(load.per_second / cores() as f64),
        engine.paper_saturation.to_string(),
        short(engine.paper_saturation / PAPER_CORES),
        short(load.mean_response),
        short(load.answer_ms),
        short(load.rest_ms),
        short(load.query_ms),
        short(load.extract_ms),
    ]
}

fn notes(table: &mut Table, n: usize, requests: usize) {
    table.note(format!(
        "n = {n} elements of {ELEMENT_BYTES} bytes; as many answers are computed at a time as there are cores, {} here, each \
         by one thread, in the order of coming. Every client has its own key and connection. Each begins with one request \
         that is not counted; then follow at least {requests} in all and two of each client. Every answer is compared with the \
         client's first one, and that one's element with the database.",
        cores()
    ));
    table.note(format!(
        "CPU times are per answer. The paper's saturation is that of 2^20 elements. Numbers of clients that would take more than {LONGEST} s are left out."
    ));
}

/// A client before and after the clock.
struct Client<S: Engine> {
    key: S::ClientKey,
    public_keys: Vec<u8>,
    index: usize,
    query: Arc<Vec<u8>>,
    connection: Option<Connection>,
    /// The answer to the query.
    answer: Option<Vec<u8>>,
}

/// When a client's answers came, and how long each took, seconds.
struct Run {
    connection: Connection,
    answer: Vec<u8>,
    ends: Vec<(Instant, f64)>,
}

/// One engine, with every number of clients that does not take too long.
pub(super) fn measure<S: Engine>(
    runtime: &Runtime,
    crowd: &Crowd,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Load>> {
    let parameters = S::parameters_to_measure(crowd.elements.count, ELEMENT_BYTES)?;
    let elements = crowd.elements.bytes.clone();
    let server = runtime.block_on(Server::<S>::start(&parameters, elements, cores()))?;
    let (mut clients, mut loads): (Vec<Client<S>>, Vec<Load>) = (Vec::new(), Vec::new());
    let mut query_ms = 0.0;
    for &count in &crowd.clients {
        let rounds = 2.max(crowd.requests.div_ceil(count));
        let seconds = loads.last().map_or(0.0, |load| (count * (1 + rounds)) as f64 / load.per_second);
        if seconds > LONGEST {
            break;
        }
        let fresh = (clients.len()..count).into_par_iter();
        let fresh: Vec<_> =
            fresh.map(|number| prepare::<S>(&parameters, number)).collect::<Result<_, _>>()?;
        query_ms += fresh.iter().map(|(_, time)| time).sum::<f64>();
        clients.extend(fresh.into_iter().map(|(client, _)| client));
        runtime.block_on(connect(&server, &mut clients))?;
        let answering = server.answering_ms();
        let (runs, cpu_ms) = runtime.block_on(run(&mut clients, 1 + rounds))?;
        let answering = server.answering_ms() - answering;
        let mut load = evaluate(count, &runs)?;
        load.query_ms = query_ms / count as f64;
        let all = (count * (1 + rounds)) as f64;
        load.answer_ms = answering / all;
        load.rest_ms = (cpu_ms - answering) / all;
        load.extract_ms = extract(&mut clients, runs, &parameters, &crowd.elements)?;
        loads.push(load);
        progress.inc(1);
    }
    Ok(loads)
}

/// A client with its query, and the CPU time of making that, milliseconds.
fn prepare<S: Engine>(parameters: &S::Parameters, number: usize) -> anyhow::Result<(Client<S>, f64)> {
    let mut rng = StdRng::seed_from_u64(number as u64);
    let key = S::client_key(&rng.random());
    let index = rng.random_range(0..S::elements(parameters));
    let (query, time) = timed(|| S::queries(&key, &[(parameters, index)], &mut rng));
    let query = Arc::new(query?.pop().context("one query")?);
    let public_keys = S::encode_public_keys(&key);
    Ok((Client { key, public_keys, index, query, connection: None, answer: None }, time))
}

/// Opens the connections of new clients, and uploads their keys.
async fn connect<S: Engine>(server: &Server<S>, clients: &mut [Client<S>]) -> anyhow::Result<()> {
    for client in clients.iter_mut().filter(|client| client.connection.is_none()) {
        let mut connection = Connection::open(server.address).await?;
        connection.call(Kind::Keys, &core::mem::take(&mut client.public_keys)).await?;
        client.connection = Some(connection);
    }
    Ok(())
}

/// So many requests of every client, all clients at once, and the CPU time of the process, milliseconds.
async fn run<S: Engine>(clients: &mut [Client<S>], requests: usize) -> anyhow::Result<(Vec<Run>, f64)> {
    let mut tasks = JoinSet::new();
    let start = process_milliseconds();
    for (number, client) in clients.iter_mut().enumerate() {
        let mut connection = client.connection.take().context("a client without a connection")?;
        let query = client.query.clone();
        let mut answer = client.answer.take().unwrap_or_default();
        tasks.spawn(async move {
            let mut ends = Vec::new();
            for _ in 0..requests {
                let start = Instant::now();
                let received = connection.call(Kind::Query, &query).await?;
                ends.push((Instant::now(), start.elapsed().as_secs_f64()));
                ensure!(answer.is_empty() || answer == received, "the same query, another answer");
                answer = received;
            }
            anyhow::Ok((number, Run { connection, answer, ends }))
        });
    }
    let mut runs = Vec::new();
    while let Some(done) = tasks.join_next().await {
        runs.push(done??);
    }
    let cpu_ms = process_milliseconds() - start;
    runs.sort_by_key(|(number, _)| *number);
    Ok((runs.into_iter().map(|(_, run)| run).collect(), cpu_ms))
}

/// Throughput and mean response after as many answers as there are clients, when all of them wait in turn.
fn evaluate(clients: usize, runs: &[Run]) -> anyhow::Result<Load> {
    let mut ends: Vec<(Instant, f64)> = runs.iter().flat_map(|run| run.ends.iter().copied()).collect();
    ends.sort_by_key(|(end, _)| *end);
    let (first, counted) = ends.split_at(clients);
    let (begin, end) = (first.last().context("no answer")?.0, counted.last().context("no further answer")?.0);
    let answers = counted.len();
    Ok(Load {
        clients,
        answers,
        per_second: answers as f64 / (end - begin).as_secs_f64(),
        mean_response: counted.iter().map(|(_, time)| time).sum::<f64>() / answers as f64,
        answer_ms: 0.0,
        rest_ms: 0.0,
        query_ms: 0.0,
        extract_ms: 0.0,
    })
}

/// Takes connections and answers back, extracts every client's element, and returns the mean CPU time, milliseconds.
fn extract<S: Engine>(
    clients: &mut [Client<S>],
    runs: Vec<Run>,
    parameters: &S::Parameters,
    elements: &Elements,
) -> anyhow::Result<f64> {
    let mut total = 0.0;
    let count = runs.len();
    for (client, run) in clients.iter_mut().zip(runs) {
        let (element, time) = timed(|| S::extract(parameters, &client.key, client.index, &run.answer));
        verify(&elements.bytes, client.index, &element?)?;
        total += time;
        client.connection = Some(run.connection);
        client.answer = Some(run.answer);
    }
    Ok(total / count as f64)
}
