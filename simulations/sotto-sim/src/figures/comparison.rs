//! The comparison of all engines in rounds of the chat: what each costs server, client and network where the database is new in every
//! round.

use std::iter;
use std::time::Instant;

use anyhow::Context;
use indicatif::ProgressBar;
use pir_core::ring::Backend;
use serde::{Deserialize, Serialize};
use sotto_closed_loop::{Config, Refused, Report, gather_ms, run_once};
use sotto_measuring::code::CodeName;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sotto_measuring::table::{Column, Table, short};

use super::Arguments;
use super::chart::{Bar, Bars, bars};
use super::engines::{ELEMENT_BYTES, power_of_two};
use super::measured::Kept;
use super::section::Figure;

/// In the order of the table: ours, then those of the papers; but PSIR over Paillier, of which a row takes a quarter of an hour.
pub(super) const ENGINES: [EngineName; 14] = [
    EngineName::Sealpir,
    EngineName::Voce,
    EngineName::VoceHint,
    EngineName::Xpir2,
    EngineName::Fastpir,
    EngineName::Onionpir,
    EngineName::Spiral,
    EngineName::SpiralPack,
    EngineName::SpiralStream,
    EngineName::SpiralStreamPack,
    EngineName::Simplepir,
    EngineName::Doublepir,
    EngineName::Xpsir,
    EngineName::Sealpsir,
];

/// Messages in a round, and messages that a client retrieves.
pub(super) const SIZES: [u32; 3] = [1 << 16, 1 << 18, 1 << 20];
pub(super) const RETRIEVED: [u16; 4] = [1, 16, 64, 256];

/// As many as are answered together.
const CLIENTS: u32 = 16;

/// What would take longer is left out, seconds: by what fewer messages took, or at the smallest size what fewer retrieved ones took.
const LONGEST: f64 = 200.0;

/// One engine in rounds of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    engine: EngineName,
    kernel: String,
    users: u32,
    retrieve: u16,
    clients: u32,
    /// How long requests waited for others, ms.
    #[serde(default)]
    gather_ms: u64,
    server_ms: f64,
    setup_ms: f64,
    client_ms: f64,
    up_kb: f64,
    down_kb: f64,
    hint_kb: f64,
    keys_kb: f64,
    memory_mib: f64,
    security_bits: u32,
    /// Of the whole run, on the wall.
    seconds: f64,
}

const COLUMNS: [Column<Row>; 13] = [
    ("k", |row| row.retrieve.to_string()),
    ("n", |row| row.users.to_string()),
    ("engine", |row| row.engine.engine().name().to_owned()),
    ("server, ms", |row| short(row.server_ms)),
    ("set-up of a round, s", |row| short(row.setup_ms / 1e3)),
    ("with set-up, ms", |row| short(row.with_setup())),
    ("client, ms", |row| short(row.client_ms)),
    ("sent, kB", |row| short(row.up_kb)),
    ("received, kB", |row| short(row.down_kb)),
    ("of it hint, kB", |row| short(row.hint_kb)),
    ("keys, once, kB", |row| short(row.keys_kb)),
    ("server's memory, MiB", |row| short(row.memory_mib)),
    ("security, bits", |row| row.security_bits.to_string()),
];

impl Row {
    fn new(engine: EngineName, report: &Report, seconds: f64) -> anyhow::Result<Self> {
        let (bytes, setup_ms) = (report.bytes, report.setup_cpu_ms);
        let bucket = engine.bucket(report.bucket_size, ELEMENT_BYTES)?;
        Ok(Self {
            engine,
            kernel: report.kernel.to_owned(),
            users: report.config.users,
            retrieve: report.config.retrieve,
            clients: report.config.clients,
            gather_ms: report.config.gather_ms,
            server_ms: 1e3 * report.core_seconds_per_client_round,
            setup_ms,
            client_ms: report.client_cpu_ms,
            up_kb: bytes.socket_up / 1e3,
            down_kb: bytes.socket_down / 1e3,
            hint_kb: bytes.hint / 1e3,
            keys_kb: bytes.keys_once / 1e3,
            memory_mib: report.memory.peak as f64 / f64::from(1 << 20),
            security_bits: engine.engine().assurance(&bucket)?.security_bits,
            seconds,
        })
    }

    /// A client's share of the set-up, where everybody takes part, and the rest.
    fn with_setup(&self) -> f64 {
        self.server_ms + self.setup_ms / f64::from(self.users)
    }

    fn is_of(&self, engine: EngineName, retrieve: u16, users: u32) -> bool {
        self.engine == engine && self.retrieve == retrieve && self.users == users
    }
}

pub(super) fn make(Arguments { quick, out, users, retrieve, .. }: &Arguments) -> anyhow::Result<Figure> {
    let (sizes, retrieved, clients): (&[u32], &[u16], u32) =
        if *quick { (&[1 << 9], &[1, 4], 2) } else { (users, retrieve, CLIENTS) };
    let mut kept: Kept<Row> = Kept::open(&out.join("engines.measured.jsonl"))?;
    let kernel = Backend::active().name();
    let (progress, mut rows, mut refused) = (progress::bar(0, ""), Vec::new(), Vec::new());
    let mut left_out = Vec::new();
    for (fewer, &retrieve) in iter::once(None).chain(retrieved.iter().map(Some)).zip(retrieved) {
        for (less, &users) in iter::once(None).chain(sizes.iter().map(Some)).zip(sizes) {
            // What tells whether it will take too long.
            let smaller = match less {
                Some(less) => Some((retrieve, *less)),
                None => fewer.map(|fewer| (*fewer, users)),
            };
            for engine in ENGINES {
                let known = |row: &Row| {
                    row.is_of(engine, retrieve, users)
                        && (row.clients, row.gather_ms) == (clients, gather_ms(clients))
                        && row.kernel == kernel
                };
                let too_long = smaller.is_some_and(|(fewer, less)| {
                    let row = rows.iter().find(|row: &&Row| row.is_of(engine, fewer, less));
                    // A quarter more than in proportion to the messages; more retrieved ones are mostly four times as many.
                    let times = if users > less { 1.25 * f64::from(users) / f64::from(less) } else { 5.0 };
                    row.is_none_or(|row| times * row.seconds > LONGEST)
                });
                let label = format!("{}, k = {retrieve}, n = {users}", engine.engine().name());
                let row = match kept.find(known) {
                    Some(row) => row,
                    None if too_long => {
                        left_out.push(label);
                        continue;
                    }
                    None => {
                        progress.reset();
                        progress.set_prefix(format!("{label} "));
                        match measure(engine, retrieve, users, clients, &progress) {
                            Ok(row) => kept.keep(row)?,
                            Err(error) if error.is::<Refused>() => {
                                refused.push(format!("{label}: {error}"));
                                continue;
                            }
                            Err(error) => return Err(error).context(label),
                        }
                    }
                };
                rows.push(row);
            }
        }
    }
    progress.finish_and_clear();
    let mut table = Table::of("Engines: all of them, in rounds of the chat", &COLUMNS, &rows);
    notes(&mut table, clients);
    if !refused.is_empty() {
        table.note(format!("Not possible: {}.", refused.join("; ")));
    }
    if !left_out.is_empty() {
        table.note(format!("Left out: {}.", left_out.join("; ")));
    }
    let group = |retrieve: u16, users: u32| {
        let row = |engine| rows.iter().find(|row| row.is_of(engine, retrieve, users));
        let bar = |engine| row(engine).map(|row| Bar { value: row.with_setup(), extrapolated: false });
        (format!("n = {}", power_of_two(users as usize)), ENGINES.map(bar).to_vec())
    };
    let panel = |retrieve: &u16| Bars {
        title: format!("k = {retrieve}: server, CPU ms for each client and round, set-up shared"),
        groups: sizes.iter().map(|users| group(*retrieve, *users)).collect(),
    };
    let names = ENGINES.map(|engine| engine.engine().name());
    let panels: Vec<Bars> = retrieved.iter().map(panel).collect();
    let svg = bars("Engines: all of them, in rounds of the chat", &names, &panels)?;
    Ok(Figure { table, svg, shows: SHOWS.to_owned(), differs: DIFFERS.to_owned() })
}

fn measure(
    engine: EngineName,
    retrieve: u16,
    users: u32,
    clients: u32,
    progress: &ProgressBar,
) -> anyhow::Result<Row> {
    let start = Instant::now();
    let code = CodeName::Partitioned;
    let config = Config {
        users,
        clients,
        retrieve,
        rounds: 1,
        engine,
        prefer: sottod::Preference::Balanced,
        code,
        threads: None,
        gather_ms: gather_ms(clients),
        without_bare: true,
        seed: 1,
    };
    let report = run_once(&config, progress)?;
    report.ensure_sound()?;
    Row::new(engine, &report, start.elapsed().as_secs_f64())
}

const SHOWS: &str = "What a round of the chat costs with each engine that offers 128 bits of security, in a closed loop with TLS and all: \
    the messages are new in every round, so that whatever depends on them is made anew, and hints are downloaded anew.";

const DIFFERS: &str = "The papers measure databases that stay. Engines with hints that take long to make, or with a client's state that \
    has seen the whole database, pay for it once there and in every round here.";

fn notes(table: &mut Table, clients: u32) {
    table.note(format!(
        "Messages of {ELEMENT_BYTES} bytes, one of each user in every round; boxes are found by slots, with the partitioned code. \
         CPU time of the server for each client and round, {clients} clients, up to 16 of which are answered together; set-up is \
         that of a round for everybody, and \"with set-up\" adds each user's share of it. Bytes are those of the TCP streams in a \
         round; keys come once. Memory is the highest there was: two rounds at a time. The third round counts. Every message is \
         compared."
    ));
    table.note(format!(
        "What would take more than {LONGEST} s, by what fewer messages or fewer retrieved ones took, or was not possible with those, is left out. A run that was interrupted goes on from \
         engines.measured.jsonl; delete it to measure anew."
    ));
}
