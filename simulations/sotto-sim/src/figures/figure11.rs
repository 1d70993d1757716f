//! Figure 11: how many requests a server answers, and how long each waits, with more and more clients.

use core::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use sotto_closed_loop::{Point, System, Took, Turns};
use sotto_measuring::cpu::cores;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sotto_measuring::table::{Column, Table, short};
use sotto_protocol::server::ATTEMPTS_MAX;
use tokio::time::Instant;

use super::chart::{self, Panel, Scale, Series};
use super::engines::{ELEMENT_BYTES, ENGINES, ensure_right, orders, runtime};
use super::section::Figure;

/// Cores of the paper's server.
const PAPER_CORES: f64 = 16.0;

/// The paper's database.
const PAPER_ELEMENTS: usize = 1 << 20;

/// A number of clients whose requests would take longer is left out, seconds.
const LONGEST: f64 = 300.0;

/// Requests per second at which an engine saturates in the paper's figure.
const fn paper_saturation(engine: EngineName) -> Option<f64> {
    match engine {
        EngineName::Xpir2 => Some(9.0),
        EngineName::Xpir3 => Some(4.7),
        EngineName::Sealpir | EngineName::PaperT20 | EngineName::PaperT23 => Some(7.0),
        _ => None,
    }
}

/// The paper's rate, where it has the engine.
fn of_paper(load: &Load, text: impl Fn(f64) -> String) -> String {
    paper_saturation(load.engine.1).map_or_else(|| "-".to_owned(), text)
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
    /// CPU time of the server per answer, milliseconds: of computing it, and of everything else.
    answer_ms: f64,
    rest_ms: f64,
    /// CPU time of QUERY and EXTRACT, milliseconds, which no response contains.
    query_ms: f64,
    extract_ms: f64,
}

const COLUMNS: [Column<Load>; 12] = [
    ("engine", |load| load.engine.0.to_owned()),
    ("clients", |load| load.clients.to_string()),
    ("answers", |load| load.answers.to_string()),
    ("requests per second", |load| short(load.per_second)),
    ("per core and second", |load| short(load.per_second / cores() as f64)),
    ("saturation, paper, per second", |load| of_paper(load, |rate| rate.to_string())),
    ("per core and second, paper", |load| of_paper(load, |rate| short(rate / PAPER_CORES))),
    ("mean response, s", |load| short(load.mean_response)),
    ("answer, CPU, ms", |load| short(load.answer_ms)),
    ("sockets, CPU, ms", |load| short(load.rest_ms)),
    ("QUERY, CPU, ms", |load| short(load.query_ms)),
    ("EXTRACT, CPU, ms", |load| short(load.extract_ms)),
];

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (n, clients): (usize, &[u32]) =
        if quick { (1 << 12, &[1, 2, 4]) } else { (PAPER_ELEMENTS, &[4, 8, 16, 32, 64, 128, 256]) };
    let runtime = runtime()?;
    let progress = progress::bar(0, "");
    let mut rows: Vec<Load> = Vec::new();
    let (mut series, mut papers, mut best) = (Vec::new(), Vec::new(), Vec::new());
    for (name, engine) in ENGINES {
        progress.set_message(format!("figure 11: {name}"));
        let mut loads: Vec<Load> = Vec::new();
        for &count in clients {
            // Twice as many take twice as long.
            let longer = |load: &Load| f64::from(count * u32::from(ATTEMPTS_MAX)) / load.per_second;
            if loads.last().is_some_and(|load| longer(load) > LONGEST) {
                break;
            }
            loads.push(runtime.block_on(load((name, engine), n, count, &progress)).context(name)?);
        }
        let points = loads.iter().map(|load| (load.per_second, load.mean_response)).collect();
        series.push(Series { name: name.to_owned(), points, dashed: false });
        let most = loads.iter().map(|load| load.per_second).fold(0.0, f64::max);
        best.push(format!("{name} {} per second", short(most)));
        // Engines that are different here may be one in the paper.
        let saturation = paper_saturation(engine).filter(|_| n == PAPER_ELEMENTS);
        papers.extend(saturation.filter(|new| papers.iter().all(|(_, of)| of != new)).map(|new| (name, new)));
        rows.extend(loads);
    }
    progress.finish_and_clear();
    let mut table = Table::of("Figure 11: throughput and mean response time", &COLUMNS, &rows);
    notes(&mut table, n);

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
    clients out of the server's way, every client makes its query before it asks, sends it again and again, and reads an answer \
    after the last one; what that costs stands in the table. Server and clients are those of the chat, with all they do; \
    requests that come together are answered together, up to 16 in one pass over the database, which the paper's server does \
    not do, nor its engine here. Throughput per core, not as such, compares with the paper's.";

fn notes(table: &mut Table, n: usize) {
    table.note(format!(
        "n = {n} elements of {ELEMENT_BYTES} bytes, the clients' among them; {} threads compute. Every client has its own key and \
         connection. All begin together with one request that is not counted, and then each asks as often again as a server \
         allows in one round, {} times. Every answer is compared with the client's first one, and that one's element with the \
         database.",
        cores(),
        ATTEMPTS_MAX - 1
    ));
    table.note(format!(
        "CPU times are per answer, of the server's process: sockets are everything that is no answer, the mapping of the round \
         included, which every client downloads before. The paper's saturation is that of 2^20 elements. Numbers of clients \
         that would take more than {LONGEST} s are left out."
    ));
}

/// One engine with so many clients, in a round of their own.
async fn load(
    engine: (&'static str, EngineName),
    n: usize,
    count: u32,
    progress: &ProgressBar,
) -> anyhow::Result<Load> {
    let mut system = System::start(orders(engine.1, n, count)?).await?;
    progress.set_length(progress.length().unwrap_or(0) + 2 * u64::from(count));
    let proxy = system.proxy(None).await?;
    system.enter(count, &proxy, progress).await?;
    let clients = count as usize;
    let (round, took) = system.play(Turns::together(clients, ATTEMPTS_MAX), progress).await?;
    let served = system.server.now().await?.spent - system.server.point(round.0, Point::Built)?;
    ensure_right(&took)?;
    let ends = took.iter().flat_map(|took| took.answers.iter().copied()).collect();
    let (answers, per_second, mean_response) = evaluate(clients, ends)?;
    let (all, answer_ms) = (served.answers as f64, served.stages.total());
    let mean = |of: fn(&Took) -> f64| took.iter().map(of).sum::<f64>() / f64::from(count);
    Ok(Load {
        engine,
        clients,
        answers,
        per_second,
        mean_response,
        answer_ms: answer_ms / all,
        rest_ms: (served.cpu_ms - answer_ms) / all,
        query_ms: mean(|took| took.query_cpu_ms),
        extract_ms: mean(|took| took.extract_cpu_ms),
    })
}

/// Answers, throughput and mean response after as many answers as there are clients, when all of them wait in turn.
fn evaluate(clients: usize, mut ends: Vec<(Instant, Duration)>) -> anyhow::Result<(usize, f64, f64)> {
    ends.sort_by_key(|(end, _)| *end);
    let (first, counted) = ends.split_at(clients);
    let (begin, end) = (first.last().context("no answer")?.0, counted.last().context("no further answer")?.0);
    let (answers, seconds) = (counted.len(), counted.iter().map(|(_, time)| time).sum::<Duration>());
    Ok((answers, answers as f64 / (end - begin).as_secs_f64(), seconds.as_secs_f64() / answers as f64))
}
