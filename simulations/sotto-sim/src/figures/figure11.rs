//! Figure 11: how many requests a server answers, and how long each waits, with more and more clients.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use mpir::Pending;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::chart::{self, Panel, Scale, Series};
use super::engines::{ELEMENT_BYTES, ENGINES, elements, runtime};
use super::section::Figure;
use crate::cpu::{cores, process_milliseconds, timed};
use crate::engine::EngineName;
use crate::progress;
use crate::serving::{Connection, Kind, Server, verify};
use crate::table::{Column, Table, short};

/// Cores of the paper's server.
const PAPER_CORES: f64 = 16.0;

/// The paper's database.
const PAPER_ELEMENTS: usize = 1 << 20;

/// A number of clients whose requests would take longer is left out, seconds.
const LONGEST: f64 = 300.0;

/// Requests per second at which an engine saturates in the paper's figure.
const fn paper_saturation(engine: EngineName) -> f64 {
    match engine {
        EngineName::Xpir2 => 9.0,
        EngineName::Xpir3 => 4.7,
        EngineName::Sealpir | EngineName::PaperT20 | EngineName::PaperT23 => 7.0,
    }
}

/// What is asked for, by how many clients.
struct Crowd {
    n: usize,
    elements: Arc<Vec<u8>>,
    /// In rising order.
    clients: &'static [usize],
    /// At least so many requests are counted, and at least two of every client.
    requests: usize,
}

/// What a number of clients got.
struct Load {
    engine: (&'static str, EngineName),
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

const COLUMNS: [Column<Load>; 12] = [
    ("engine", |load| load.engine.0.to_owned()),
    ("clients", |load| load.clients.to_string()),
    ("answers", |load| load.answers.to_string()),
    ("requests per second", |load| short(load.per_second)),
    ("per core and second", |load| short(load.per_second / cores() as f64)),
    ("saturation, paper, per second", |load| paper_saturation(load.engine.1).to_string()),
    ("per core and second, paper", |load| short(paper_saturation(load.engine.1) / PAPER_CORES)),
    ("mean response, s", |load| short(load.mean_response)),
    ("answer, CPU, ms", |load| short(load.answer_ms)),
    ("sockets, CPU, ms", |load| short(load.rest_ms)),
    ("QUERY, CPU, ms", |load| short(load.query_ms)),
    ("EXTRACT, CPU, ms", |load| short(load.extract_ms)),
];

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (n, clients, requests): (usize, &'static [usize], usize) =
        if quick { (1 << 12, &[1, 2, 4], 8) } else { (PAPER_ELEMENTS, &[4, 8, 16, 32, 64, 128, 256], 32) };
    let crowd = Crowd { n, elements: elements(n), clients, requests };
    let runtime = runtime()?;
    let progress = progress::bar(ENGINES.len() * clients.len(), "");
    let mut rows: Vec<Load> = Vec::new();
    let (mut series, mut papers, mut best) = (Vec::new(), Vec::new(), Vec::new());
    for (name, engine) in ENGINES {
        progress.set_message(format!("figure 11: {name}"));
        let loads = crowd.measure((name, engine), &runtime, &progress).context(name)?;
        // Those left out.
        progress.inc((clients.len() - loads.len()) as u64);
        let points = loads.iter().map(|load| (load.per_second, load.mean_response)).collect();
        series.push(Series { name: name.to_owned(), points, dashed: false });
        let most = loads.iter().map(|load| load.per_second).fold(0.0, f64::max);
        best.push(format!("{name} {} per second", short(most)));
        // Engines that are different here may be one in the paper.
        let saturation = paper_saturation(engine);
        if n == PAPER_ELEMENTS && papers.iter().all(|(_, of)| *of != saturation) {
            papers.push((name, saturation));
        }
        rows.extend(loads);
    }
    progress.finish_and_clear();
    let mut table = Table::of("Figure 11: throughput and mean response time", &COLUMNS, &rows);
    notes(&mut table, n, requests);

    // As high as everything measured.
    let responses = || rows.iter().map(|load| load.mean_response);
    let (low, high) = (responses().fold(f64::INFINITY, f64::min), responses().fold(0.0, f64::max));
    series.extend(papers.into_iter().map(|(name, at)| Series {
        name: format!("{name}, paper: {at}/s"),
        points: vec![(at, low), (at, high)],
        dashed: true,
    }));
    let panel = Panel {
        title: format!("{} to {} clients, n = {n}", clients[0], clients[clients.len() - 1]),
        x_label: format!("throughput, requests per second on {} cores (the paper's: on 16)", cores()),
        y_label: "mean response time, s".to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Logarithmic,
        series,
    };
    let svg =
        chart::lines("Figure 11: throughput and response time; dashed: where the paper saturates", &[panel])?;
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
struct Client {
    index: usize,
    query: Arc<Vec<u8>>,
    /// What reads the first answer.
    pending: Option<Box<dyn Pending>>,
    connection: Option<Connection>,
    /// The answer to the query.
    answer: Vec<u8>,
}

/// When answers came, and how long each took, seconds.
type Ends = Vec<(Instant, f64)>;

impl Crowd {
    /// One engine, with every number of clients that does not take too long.
    fn measure(
        &self,
        engine: (&'static str, EngineName),
        runtime: &Runtime,
        progress: &ProgressBar,
    ) -> anyhow::Result<Vec<Load>> {
        let round = engine.1.bucket(self.n, ELEMENT_BYTES)?;
        let server = Server::start(engine.1.engine(), &round, self.elements.clone(), cores());
        let server = runtime.block_on(server)?;
        // A client with its keys and its query, and the CPU time of making that, milliseconds.
        let prepare = |number: usize| {
            let mut rng = StdRng::seed_from_u64(number as u64);
            let mut half = engine.1.engine().client(&rng.random());
            let index = rng.random_range(0..self.n);
            let (request, time) = timed(|| half.ask(round.clone(), &[Some(index)], &mut rng));
            let request = request?;
            let (query, pending) = (Arc::new(request.bytes), Some(request.pending));
            let client = Client { index, query, pending, connection: None, answer: Vec::new() };
            Ok::<_, mpir::Error>((client, half.public_keys(), time))
        };
        let (mut clients, mut loads): (Vec<Client>, Vec<Load>) = (Vec::new(), Vec::new());
        let (mut query_ms, mut extract_ms) = (0.0, 0.0);
        for &count in self.clients {
            let rounds = 2.max(self.requests.div_ceil(count));
            let seconds = loads.last().map_or(0.0, |load| (count * (1 + rounds)) as f64 / load.per_second);
            if seconds > LONGEST {
                break;
            }
            let fresh = (clients.len()..count).into_par_iter().map(prepare);
            for (mut client, keys, time) in fresh.collect::<Result<Vec<_>, _>>()? {
                query_ms += time;
                client.connection = Some(runtime.block_on(connect(&server, &keys))?);
                clients.push(client);
            }
            let answering = server.answering_ms();
            let (ends, cpu_ms);
            (clients, ends, cpu_ms) = runtime.block_on(run(clients, 1 + rounds))?;
            let answering = server.answering_ms() - answering;
            for client in &mut clients {
                let Some(pending) = client.pending.take() else { continue };
                let (mut element, time) = timed(|| pending.read(&[], &client.answer));
                verify(&self.elements, client.index, &element.pop().context("one element")??)?;
                extract_ms += time;
            }
            let (answers, per_second, mean_response) = evaluate(count, ends)?;
            let all = (count * (1 + rounds)) as f64;
            loads.push(Load {
                engine,
                clients: count,
                answers,
                per_second,
                mean_response,
                answer_ms: answering / all,
                rest_ms: (cpu_ms - answering) / all,
                query_ms: query_ms / count as f64,
                extract_ms: extract_ms / count as f64,
            });
            progress.inc(1);
        }
        Ok(loads)
    }
}

async fn connect(server: &Server, keys: &[u8]) -> anyhow::Result<Connection> {
    let mut connection = Connection::open(server.address).await?;
    connection.call(Kind::Keys, keys).await?;
    Ok(connection)
}

/// So many requests of every client, all clients at once, and the CPU time of the process, milliseconds.
async fn run(clients: Vec<Client>, requests: usize) -> anyhow::Result<(Vec<Client>, Ends, f64)> {
    let mut tasks = JoinSet::new();
    let start = process_milliseconds();
    for mut client in clients {
        tasks.spawn(async move {
            let connection = client.connection.as_mut().context("a client without a connection")?;
            let mut ends = Ends::new();
            for _ in 0..requests {
                let start = Instant::now();
                let received = connection.call(Kind::Query, &client.query).await?;
                ends.push((Instant::now(), start.elapsed().as_secs_f64()));
                let same = client.answer.is_empty() || client.answer == received;
                ensure!(same, "the same query, another answer");
                client.answer = received;
            }
            anyhow::Ok((client, ends))
        });
    }
    let (mut clients, mut all) = (Vec::new(), Ends::new());
    while let Some(done) = tasks.join_next().await {
        let (client, ends) = done??;
        clients.push(client);
        all.extend(ends);
    }
    Ok((clients, all, process_milliseconds() - start))
}

/// Answers, throughput and mean response after as many answers as there are clients, when all of them wait in turn.
fn evaluate(clients: usize, mut ends: Ends) -> anyhow::Result<(usize, f64, f64)> {
    ends.sort_by_key(|(end, _)| *end);
    let (first, counted) = ends.split_at(clients);
    let (begin, end) = (first.last().context("no answer")?.0, counted.last().context("no further answer")?.0);
    let (answers, seconds) = (counted.len(), counted.iter().map(|(_, time)| time).sum::<f64>());
    Ok((answers, answers as f64 / (end - begin).as_secs_f64(), seconds / answers as f64))
}
