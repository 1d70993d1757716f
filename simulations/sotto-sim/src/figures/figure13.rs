//! Figure 13: how many messages a minute a server delivers, with Pung's parts and with those of the paper.

use std::path::Path;

use anyhow::{Context, ensure};
use sotto_measuring::code::CodeName;
use sotto_measuring::cpu::{alone, cores};
use sotto_measuring::progress;
use sotto_measuring::table::{Column, Table, short, short_or_none};

use super::case_study::{BATCHES, SYSTEMS, System, USERS, code_title};
use super::chart::{Bars, bars};
use super::engines::ELEMENT_BYTES;
use super::measured::Measurements;
use super::section::Figure;
use crate::mpir::{Report, Setting};

/// Clients that the paper's server answers in a round; its other users' messages are only stored.
const PAPER_CLIENTS: usize = 32;

/// What one user's round costs a server.
struct Cost {
    system: &'static System,
    k: usize,
    /// Messages in the round.
    n: usize,
    /// The multi-query, CPU milliseconds.
    answer_ms: f64,
    buckets: usize,
    bucket_size: usize,
    deferred: u64,
    /// The round's database, once for all who retrieve from it, CPU milliseconds.
    setup_ms: f64,
    /// Whether it is that of a real server that real clients retrieve from, with all it does; otherwise, Encode, SETUP and
    /// ANSWER were measured on one thread, without a network.
    closed_loop: bool,
    /// Throughput over that of Pung.
    times_pung: Option<f64>,
}

impl Cost {
    /// Messages a minute of all cores, if so many clients retrieve k messages each from every round.
    fn per_minute(&self, clients: usize) -> f64 {
        cores() as f64 * self.k as f64 * 60_000.0 / (self.answer_ms + self.setup_ms / clients as f64)
    }
}

const COLUMNS: [Column<Cost>; 16] = [
    ("system", |of| of.system.name.to_owned()),
    ("engine", |of| of.system.engine_title.to_owned()),
    ("code", |of| code_title(of.system.code(of.k)).to_owned()),
    ("k", |of| of.k.to_string()),
    ("buckets", |of| of.buckets.to_string()),
    ("bucket size", |of| of.bucket_size.to_string()),
    ("multi-query, server CPU, ms", |of| short(of.answer_ms)),
    ("per message, ms", |of| short(of.answer_ms / of.k as f64)),
    ("set-up of a round, CPU, s", |of| short(of.setup_ms / 1e3)),
    ("messages a minute, all users retrieve", |of| short(of.per_minute(of.n))),
    ("messages a minute, 32 clients", |of| short(of.per_minute(PAPER_CLIENTS))),
    ("per core and minute", |of| short(of.per_minute(of.n) / cores() as f64)),
    ("times Pung, paper", |of| {
        short_or_none(match (of.system.name, of.k) {
            ("Pung", _) => Some(1.0),
            ("Pung+MS", 64) => Some(3.1),
            _ => None,
        })
    }),
    ("times Pung", |of| short_or_none(of.times_pung)),
    ("deferred keys", |of| of.deferred.to_string()),
    ("source", |of| if of.closed_loop { "closed loop" } else { "in process" }.to_owned()),
];

/// What is run.
struct Plan {
    users: usize,
    batches: &'static [usize],
    /// Of them, those that are run in a closed loop, too.
    looped: &'static [usize],
    clients: u32,
    runs: u16,
}

const FULL: Plan =
    Plan { users: USERS, batches: &BATCHES, looped: &[1, 16], clients: PAPER_CLIENTS as u32, runs: 3 };
const QUICK: Plan = Plan { users: 1 << 10, batches: &[1, 16], looped: &[16], clients: 3, runs: 1 };

pub(super) fn make(quick: bool, out: &Path) -> anyhow::Result<Figure> {
    let plan = if quick { QUICK } else { FULL };
    let n = plan.users;
    let mut measurements = Measurements::open(&out.join("figure-13.measured.jsonl"))?;
    let mut rows = Vec::new();
    let mut panels = [
        Bars::new(plan.title(&format!("all {n} users retrieve")), []),
        Bars::new(plan.title(&format!("{PAPER_CLIENTS} of {n} users retrieve")), []),
    ];
    for (k, looped) in plan.batches.iter().flat_map(|k| [(*k, false), (*k, true)]) {
        let mut costs = Vec::new();
        for system in &SYSTEMS {
            costs.push(match looped {
                false => Some(plan.in_process(system, k, &mut measurements)?),
                true if plan.looped.contains(&k) => plan.closed_loop(system, k)?,
                true => continue,
            });
        }
        // Where a system has no cost, there is no bar.
        let pung = costs.first().and_then(Option::as_ref).map(|cost| cost.per_minute(n));
        let name = format!("k = {k}{}", if looped { ", closed loop" } else { "" });
        for (panel, clients) in panels.iter_mut().zip([n, PAPER_CLIENTS]) {
            let values = costs.iter().map(|cost| Some(cost.as_ref()?.per_minute(clients)));
            if !costs.is_empty() {
                panel.groups.extend(Bars::new("", [(name.clone(), values.collect())]).groups);
            }
        }
        rows.extend(costs.into_iter().flatten().map(|cost| {
            let times_pung = pung.map(|pung| cost.per_minute(n) / pung);
            Cost { times_pung, ..cost }
        }));
    }
    let mut table = Table::of("Figure 13: throughput of the case study", &COLUMNS, &rows);
    notes(&mut table, &plan);

    let names = SYSTEMS.each_ref().map(|system| system.name);
    let svg = bars("Figure 13: throughput by CPU time of the server", &names, &panels)?;
    let at_64 = rows.iter().find(|of| (of.system.name, of.k, of.closed_loop) == ("Pung+MS", 64, false));
    let at_64 = at_64.and_then(|of| of.times_pung).map(|times| {
        format!(
            " With k = 64, Pung+MS delivers {} times as many messages as Pung; in the paper, 3.1 times.",
            short(times)
        )
    });
    let shows = format!(
        "How many messages a minute one server can deliver when every user retrieves k in each round: with Pung's engine and \
         batch code, with SealPIR, with mPIR, and with both.{}",
        at_64.unwrap_or_default()
    );
    Ok(Figure { table, svg, shows, differs: DIFFERS.to_owned() })
}

impl Plan {
    fn title(&self, clients: &str) -> String {
        format!("messages a minute on {} cores, {clients}", cores())
    }

    /// On one thread.
    fn in_process(
        &self,
        system: &'static System,
        k: usize,
        measurements: &mut Measurements,
    ) -> anyhow::Result<Cost> {
        // One message is retrieved without a code, by all systems: cuckoo with its one bucket has the shape of such a round.
        let way = if k == 1 { CodeName::Cuckoo } else { system.code(k) };
        let setting = Setting { runs: self.runs, ..Setting::of(system.engine, way, k, self.users) };
        let label = format!("{}, k = {k}", system.name);
        let measured =
            std::thread::scope(|scope| scope.spawn(|| alone(|| measurements.get(&setting, &label))).join());
        let report: Report = measured.map_err(|_| anyhow::anyhow!("{label} panicked"))??;
        ensure!(report.verified, "{label}: a retrieved element is not the database's");
        Ok(Cost {
            system,
            k,
            n: self.users,
            answer_ms: report.server_cpu_ms,
            buckets: report.buckets,
            bucket_size: report.bucket_size,
            deferred: report.deferred as u64,
            setup_ms: report.encode_cpu_ms + report.setup_cpu_ms,
            closed_loop: false,
            times_pung: None,
        })
    }

    /// A real server with real clients; nothing where the protocol's limits do not allow such a round.
    fn closed_loop(&self, system: &'static System, k: usize) -> anyhow::Result<Option<Cost>> {
        if !system.traffic(k, self.users)?.fits() {
            return Ok(None);
        }
        let config = sotto_closed_loop::Config {
            users: u32::try_from(self.users)?,
            clients: self.clients,
            retrieve: u16::try_from(k)?,
            rounds: 1,
            engine: system.engine,
            prefer: sottod::Preference::Balanced,
            code: if k == 1 { CodeName::Cuckoo } else { system.code(k) },
            threads: None,
            gather_ms: sotto_closed_loop::GATHER_MS,
            without_bare: true,
            seed: 1,
        };
        let progress = progress::bar(0, "");
        let report = sotto_closed_loop::run_once(&config, &progress);
        progress.finish_and_clear();
        let report = report.with_context(|| format!("{} in a closed loop", system.name))?;
        report.ensure_sound().context(system.name)?;
        Ok(Some(Cost {
            system,
            k,
            n: self.users,
            answer_ms: 1e3 * report.core_seconds_per_client_round,
            buckets: report.buckets,
            bucket_size: report.bucket_size,
            deferred: report.counts.deferred,
            setup_ms: report.setup_cpu_ms,
            closed_loop: true,
            times_pung: None,
        }))
    }
}

const DIFFERS: &str = "The paper runs a server of 16 cores in a closed loop of 32 clients. Here the server's work is measured \
    in process, one query at a time on one thread, and where it says so as the CPU time of a real server in such a \
    loop; the throughput is what that leaves room for if all cores do nothing else. All four systems use this project's engines \
    (figure 9), Bloom mapping and Pung's batch code as in figure 12. The paper's absolute values are in its chart only; \
    its text has one ratio.";

fn notes(table: &mut Table, plan: &Plan) {
    let Plan { users: n, looped, clients, .. } = *plan;
    table.note(format!(
        "{n} messages of {ELEMENT_BYTES} bytes; CPU time, medians. Messages a minute: k over the time of one multi-query and a \
         client's share of the round's set-up, by {} cores. If only {PAPER_CLIENTS} users retrieve, as in the paper's \
         experiment, that share is a {PAPER_CLIENTS}th: all other messages are there to be searched. One message is \
         retrieved from the whole database, without a code; Pung's code has 9 k buckets, more than the 1,024 of a round \
         for k = 256.",
        cores()
    ));
    table.note(format!(
        "In process: set-up is Encode, the buckets' bytes and SETUP; mapping, network and the server's other work are no \
         part of it. Closed loop, k = {}: a server of its own process, {clients} clients over TLS, one round after one that is not \
         counted; its time is that of the whole process from the deposits to the last answer, set-up apart. Systems \
         are left out whose multi-query exceeds the protocol's 64 MiB.",
        looped.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    ));
}
