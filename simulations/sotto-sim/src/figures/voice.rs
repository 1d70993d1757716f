//! `voice`: the voice calls of Spiral's paper, as Addra has them: 625 rounds of 96 bytes in five minutes, for 2^20 users.

use anyhow::Context;
use indicatif::ProgressBar;
use mpir::{Form, RoundSpec};
use sotto_measuring::cpu::alone;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sotto_measuring::table::{Column, Table, short, short_or_none};

use super::chart::{Bars, bars};
use super::comparison::ENGINES;
use super::engines::power_of_two;
use super::section::Figure;
use crate::pir::{Report, measure};

const USERS: usize = 1 << 20;
const ELEMENT_BYTES: usize = 96;
const ROUNDS: f64 = 625.0;

/// What follows from the paper's costs of films and calls: dollars for an hour of a core, and for a GB that a server sends.
const PRICES: [f64; 2] = [0.019, 0.09];

/// What the paper gives: MB up, MB down, seconds of a core, and dollars; of FastPIR only that its call is 3.9 times as dear.
const PAPER: [(EngineName, [Option<f64>; 4]); 2] = [
    (EngineName::SpiralStream, [Some(29.0), Some(11.0), Some(112.0), Some(0.0016)]),
    (EngineName::Fastpir, [None, None, None, Some(3.9 * 0.0016)]),
];

/// A call with one engine.
struct Row {
    engine: EngineName,
    users: usize,
    of: Report,
}

impl Row {
    fn new(engine: EngineName, round: &RoundSpec, runs: u16, progress: &ProgressBar) -> anyhow::Result<Self> {
        let of = measure(engine, round, engine.tile(), runs, 1, progress)?;
        of.ensure_verified()?;
        Ok(Self { engine, users: round.form.elements, of })
    }

    /// Whom one listens to is the same in every round, and so is the query, where a round has nothing in it that queries are made for.
    fn asks_once(&self) -> bool {
        !self.engine.packs() && self.of.hint_bytes == 0
    }

    fn paper(&self, value: usize) -> Option<f64> {
        PAPER.iter().find(|(engine, _)| *engine == self.engine).and_then(|(_, values)| values[value])
    }

    /// In all rounds, keys apart.
    fn up_mb(&self) -> f64 {
        self.of.query_bytes as f64 * if self.asks_once() { 1.0 } else { ROUNDS } / 1e6
    }

    fn down_mb(&self) -> f64 {
        (self.of.answer_bytes + self.of.hint_bytes) as f64 * ROUNDS / 1e6
    }

    /// Of the server, for one of so many that are answered together, with its share of the set-ups.
    fn server_s(&self) -> f64 {
        let answer = self.of.answer_tile_cpu_ms.unwrap_or(self.of.answer_cpu_ms);
        let once = if self.asks_once() { self.of.before_products_cpu_ms() } else { 0.0 };
        (once + ROUNDS * (answer - once + self.of.setup_cpu_ms / self.users as f64)) / 1e3
    }

    /// To ask and to read.
    fn client_s(&self) -> f64 {
        let asked = if self.asks_once() { 1.0 } else { ROUNDS };
        (asked * self.of.query_cpu_ms + ROUNDS * self.of.extract_cpu_ms) / 1e3
    }

    fn dollars(&self) -> f64 {
        PRICES[0] * self.server_s() / 3600.0 + PRICES[1] * self.down_mb() / 1e3
    }
}

const COLUMNS: [Column<Row>; 14] = [
    ("engine", |row| row.engine.engine().name().to_owned()),
    ("n", |row| row.users.to_string()),
    ("queries", |row| if row.asks_once() { "1".to_owned() } else { ROUNDS.to_string() }),
    ("sent, MB, paper", |row| short_or_none(row.paper(0))),
    ("sent, MB", |row| short(row.up_mb())),
    ("received, MB, paper", |row| short_or_none(row.paper(1))),
    ("received, MB", |row| short(row.down_mb())),
    ("server, s, paper", |row| short_or_none(row.paper(2))),
    ("server, s", |row| short(row.server_s())),
    ("client, s", |row| short(row.client_s())),
    ("$, paper", |row| short_or_none(row.paper(3))),
    ("$", |row| short(row.dollars())),
    ("set-up of a round, s", |row| short(row.of.setup_cpu_ms / 1e3)),
    ("keys, once, KB", |row| short(row.of.key_bytes as f64 / 1e3)),
];

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (users, runs) = if quick { (USERS >> 10, 1) } else { (USERS, 5) };
    let progress = progress::bar(ENGINES.len() * usize::from(runs), "");
    let form = Form { buckets: 1, elements: users, element_bytes: ELEMENT_BYTES };
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    alone(|| {
        for engine in ENGINES {
            let name = engine.engine().name();
            progress.set_message(format!("voice: {name}"));
            match engine.round(form, None) {
                Ok(round) => rows.push(Row::new(engine, &round, runs, &progress).context(name)?),
                Err(error) => refused.push(format!("{name}: {error}")),
            }
        }
        Ok(())
    })?;
    progress.finish_and_clear();
    let mut table = Table::of("Voice: calls of five minutes, as in Spiral's paper", &COLUMNS, &rows);
    table.note(format!(
        "{ROUNDS} rounds, in each of which a client retrieves {ELEMENT_BYTES} bytes of the one whom it listens to. CPU time of one thread, medians of {runs} \
         rounds; of the server for each of 16 clients that are answered together, with a client's share of the rounds' set-up. What is done once for a \
         query that stays is counted once. MB and KB are 10^6 and 10^3 bytes, at the application's layer. Dollars at ${} for an hour of a core \
         and ${} for a GB that the server sends, as follows from the paper's costs.",
        PRICES[0], PRICES[1]
    ));
    if !refused.is_empty() {
        table.note(format!("Not possible in one database: {}.", refused.join("; ")));
    }
    let bar = |engine| rows.iter().find(|row: &&Row| row.engine == engine).map(Row::server_s);
    let group = ENGINES.map(bar).to_vec();
    let panel = Bars::new("server, CPU s for each call", [(format!("n = {}", power_of_two(users)), group)]);
    let names = ENGINES.map(|engine| engine.engine().name());
    let svg = bars("Voice: calls of five minutes", &names, &[panel])?;
    Ok(Figure { table, svg, shows: SHOWS.to_owned(), differs: DIFFERS.to_owned() })
}

const SHOWS: &str = "What a private call costs where everybody hears one other for five minutes, with each engine that offers 128 bits of security. A query that \
    stays tells the server that it stays, and no more than one query does; where every round has a public part that queries are made for (Voce, and \
    engines with hints), it is asked anew.";

const DIFFERS: &str = "The paper's values are of Spiral with 113 bits of security. It answers every client alone. Here no engine is told that its \
    query stays: what follows is computed from the parts of an answer that were measured, and from bytes.";
