//! `stateful`: PSIR's tables 2 and 3 and its figure 3, what a database that stays costs with and without state.

use anyhow::ensure;
use mpir::Form;
use sotto_measuring::cpu::alone;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sotto_measuring::table::{Column, Table, short, short_or_none};

use super::chart::{Bars, bars};
use super::engines::{ELEMENT_BYTES, power_of_two};
use super::section::Figure;
use crate::pir;
use crate::psir::{Measured, Name, PAPER, Serviced, Stay, measure, queries_of, serviced};

/// The links of figure 3, and their bits per second.
const LINKS: [(&str, f64); 3] =
    [("between data centers", 800e6), ("home network", 18.7e6), ("mobile network", 10e6)];

/// With state beside the same engine without it, as far as there is one here.
const SCHEMES: [(Option<EngineName>, Name); 4] = [
    (Some(EngineName::Xpir2), Name::Xpsir),
    (Some(EngineName::Sealpir), Name::Sealpsir),
    (None, Name::Paillierpsir),
    (None, Name::PaillierpsirPaper),
];

/// The one case of table 3 whose traffic we have: KB online, and with a share of Init. It has a seed, so it is XPSIR's; and 92 KB of it are
/// streamed, which is what 262,144 records of 288 bytes are for each of 825 queries.
const TABLE_3: (usize, &str, [f64; 2]) = (262_144, "xpsir", [675.0, 767.0]);

/// Queries of which the medians are taken; `pir` takes no fewer.
const QUERIES: u16 = 5;
/// Runs of the simulation.
const RUNS: u64 = 100_000;

/// One way to read a record of a database that stays.
struct Row {
    n: usize,
    engine: &'static str,
    server_ms: f64,
    client_ms: f64,
    /// Bytes up and down for each query.
    online: f64,
    /// For each query its share of what is made once for many.
    init_ms: f64,
    init: f64,
    state: Option<f64>,
    keys: f64,
    /// Queries that the client's blocks serve, simulated, and as the paper has it.
    serves: Option<[f64; 2]>,
}

impl Row {
    fn without_state(n: usize, engine: EngineName) -> anyhow::Result<Self> {
        let form = Form { buckets: 1, elements: n, element_bytes: ELEMENT_BYTES };
        let bar = progress::bar(usize::from(QUERIES), engine.engine().name());
        let of = pir::measure(engine, &engine.round(form, None)?, 1, QUERIES, 1, &bar)?;
        of.ensure_verified()?;
        Ok(Self {
            n,
            engine: engine.engine().name(),
            server_ms: of.answer_cpu_ms,
            client_ms: of.query_cpu_ms + of.extract_cpu_ms,
            online: (of.query_bytes + of.answer_bytes) as f64,
            init_ms: 0.0,
            init: 0.0,
            state: None,
            keys: of.key_bytes as f64,
            serves: None,
        })
    }

    fn with_state(n: usize, blocks: u32, serviced: Option<&Serviced>, name: Name) -> anyhow::Result<Self> {
        let stay = Stay { elements: n, bytes: ELEMENT_BYTES, blocks, queries: QUERIES.into(), seed: 1 };
        let of: Measured = measure(name, stay)?;
        ensure!(of.verified, "a record was not the database's");
        Ok(Self {
            n,
            engine: of.engine,
            server_ms: of.answer_cpu_ms,
            client_ms: of.query_cpu_ms + of.extract_cpu_ms,
            online: (of.request_bytes + of.answer_bytes) as f64,
            init_ms: of.init_cpu_ms / queries_of(blocks),
            init: of.init_bytes as f64 / queries_of(blocks),
            state: Some(of.state_bytes as f64),
            keys: of.key_bytes as f64,
            serves: serviced.map(|of| [of.average, of.paper_average]),
        })
    }

    fn paper(&self, number: usize) -> Option<f64> {
        let (n, engine, values) = TABLE_3;
        (self.n == n && self.engine == engine).then(|| values[number])
    }

    /// Seconds over a link, Init and what is computed in it shared by all queries.
    fn latency(&self, (_, bits_per_second): (&str, f64)) -> f64 {
        (self.server_ms + self.client_ms + self.init_ms) / 1e3
            + (self.online + self.init) * 8.0 / bits_per_second
    }
}

const COLUMNS: [Column<Row>; 14] = [
    ("n", |of| of.n.to_string()),
    ("engine", |of| of.engine.to_owned()),
    ("server, ms", |of| short(of.server_ms)),
    ("client, ms", |of| short(of.client_ms)),
    ("client with its share of Init, ms", |of| short(of.client_ms + of.init_ms)),
    ("online, KB", |of| short(of.online / 1e3)),
    ("online, KB, paper", |of| short_or_none(of.paper(0))),
    ("with its share of Init, KB", |of| short((of.online + of.init) / 1e3)),
    ("with its share of Init, KB, paper", |of| short_or_none(of.paper(1))),
    ("state, KB", |of| short_or_none(of.state.map(|bytes| bytes / 1e3))),
    ("keys, once, KB", |of| short(of.keys / 1e3)),
    ("queries served", |of| of.serves.map_or("-".to_owned(), |of| format!("{:.2}", of[0]))),
    ("queries served, paper", |of| of.serves.map_or("-".to_owned(), |of| format!("{:.2}", of[1]))),
    ("over the mobile network, s", |of| short(of.latency(LINKS[2]))),
];

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let rows = alone(|| rows(quick))?;
    let mut table = Table::of("Stateful: tables 2 and 3 and figure 3 of PSIR's paper", &COLUMNS, &rows);
    table.note(format!(
        "Records of {ELEMENT_BYTES} bytes in a database that stays, made ready before. CPU times of one thread, medians of {QUERIES} queries; KB are \
         1,000 bytes. As many blocks as in the paper, and Init made again after 25 queries less. Queries served: means of {RUNS} simulated runs."
    ));
    let names = names(&rows);
    let per_size = names.len();
    let panel = |link: (&str, f64)| {
        let group = |of: &[Row]| {
            let times = of.iter().map(|row| Some(row.latency(link))).collect();
            (format!("n = {}", power_of_two(of[0].n)), times)
        };
        let title = format!("{}, {} Mbit/s; latency with its share of Init, s", link.0, link.1 / 1e6);
        Bars::new(title, rows.chunks(per_size).map(group))
    };
    let svg = bars("PSIR beside what knows nothing ahead: latency", &names, &LINKS.map(panel))?;
    Ok(Figure { table, svg, shows: shows(&rows), differs: DIFFERS.to_owned() })
}

/// By size, and then in the order of the schemes.
fn rows(quick: bool) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let simulated = if quick { Vec::new() } else { serviced(RUNS, 1) };
    let sizes = if quick { vec![(1 << 10, 50)] } else { PAPER.map(|(n, c, ..)| (n as usize, c)).to_vec() };
    for (number, (n, blocks)) in sizes.into_iter().enumerate() {
        for (stateless, stateful) in SCHEMES {
            if let Some(engine) = stateless {
                rows.push(Row::without_state(n, engine)?);
            }
            rows.push(Row::with_state(n, blocks, simulated.get(number), stateful)?);
        }
    }
    Ok(rows)
}

/// Of the engines, each once.
fn names(rows: &[Row]) -> Vec<&'static str> {
    rows.iter().take_while(|row| row.n == rows[0].n).map(|row| row.engine).collect()
}

/// How much less state costs, beside what the paper says of it.
fn shows(rows: &[Row]) -> String {
    let saves = |stateless: usize, cost: fn(&Row) -> f64| {
        let of_sizes = rows.chunks(names(rows).len());
        of_sizes.map(|of| cost(&of[stateless]) / cost(&of[stateless + 1])).fold(f64::NEG_INFINITY, f64::max)
    };
    format!(
        "What a client that keeps sums of random records saves as long as the database stays. Beside the engine itself, XPSIR takes up to {} times \
         less of the server's CPU time (the paper: up to 12), {} times less online traffic (up to 7) and {} times less with its share of Init (up \
         to 6); SealPSIR takes up to {} times less of the server (up to 10). Where every round is a new database, Init is made in every round, and \
         state saves nothing.",
        short(saves(0, |row| row.server_ms)),
        short(saves(0, |row| row.online)),
        short(saves(0, |row| row.online + row.init)),
        short(saves(2, |row| row.server_ms)),
    )
}

const DIFFERS: &str = "Of the paper's tables we have ratios, and one case of XPSIR's traffic, by what it streams that of 262,144 records: those stand beside ours. \
    The paper sends a seed of 20 KB there to divide the records; ours are polynomials (see the documentation of \
    pir-baselines), of 16 to 81 KB. Its costs of SealPSIR are estimates, ours are measured. Latencies are computed: CPU times of one thread, and bytes at \
    the link's rate, without round trips; keys are not in them. XPIR and SealPIR are those of this project, whose answers are shorter and faster than those of the \
    paper's, so that there is less to save.";
