//! Figure 13: how many messages a minute a server delivers, with Pung's parts and with those of the paper.

use std::path::Path;

use anyhow::{Context, ensure};
use sotto_protocol::CodeKind;

use super::Figure;
use super::canvas::short;
use super::case_study::{BATCHES, SYSTEMS, System, USERS, code_name, paper};
use super::chart::{self, Bar, Group, Groups};
use super::engines::{ELEMENT_BYTES, cores};
use super::measured::Measurements;
use super::table::Table;
use crate::closed_loop;
use crate::mpir::{Report, Setting, Way};

/// Clients that the paper's server answers in a round; its other users' messages are only stored.
const PAPER_CLIENTS: usize = 32;

/// What one user's round costs a server.
struct Cost {
    /// The multi-query, CPU milliseconds.
    answer_ms: f64,
    buckets: usize,
    bucket_size: usize,
    deferred: u64,
    /// The round's database, once for all who retrieve from it, CPU milliseconds.
    setup_ms: f64,
    source: Source,
}

/// Where a cost comes from.
#[derive(Clone, Copy)]
enum Source {
    /// Encode, SETUP and ANSWER measured on one thread, without a network.
    InProcess,
    /// A real server that real clients retrieve from, with all it does.
    ClosedLoop,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in process",
            Self::ClosedLoop => "closed loop",
        }
    }
}

impl Cost {
    fn in_process(report: &Report) -> Self {
        Self {
            answer_ms: report.server_cpu_ms,
            buckets: report.buckets,
            bucket_size: report.bucket_size,
            deferred: report.deferred as u64,
            setup_ms: report.encode_cpu_ms + report.setup_cpu_ms,
            source: Source::InProcess,
        }
    }

    fn closed_loop(report: &closed_loop::Report) -> Self {
        Self {
            answer_ms: 1e3 * report.core_seconds_per_client_round,
            buckets: report.buckets,
            bucket_size: report.bucket_size,
            deferred: report.deferred,
            setup_ms: report.setup_cpu_ms,
            source: Source::ClosedLoop,
        }
    }

    /// Messages a minute of all cores, if so many clients retrieve k messages each from every round.
    fn per_minute(&self, k: usize, clients: usize) -> f64 {
        cores() as f64 * k as f64 * 60_000.0 / (self.answer_ms + self.setup_ms / clients as f64)
    }
}

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
    // Everything happens on the calling thread, so that its clock sees all of it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
    let mut measurements = Measurements::open(&out.join("figure-13.measured.jsonl"))?;
    let mut table = Table::new("Figure 13: throughput of the case study", header());
    let mut panels = [Vec::new(), Vec::new()];
    let mut at_64 = None;
    for &k in plan.batches {
        let mut in_process = Vec::new();
        for system in &SYSTEMS {
            let label = format!("{}, k = {k}", system.name);
            let report = pool.install(|| measurements.get(&setting(system, k, &plan), &label))?;
            ensure!(report.verified, "{label}: a retrieved element is not the database's");
            in_process.push(Some(Cost::in_process(&report)));
        }
        add(&mut table, &mut panels, k, n, &in_process);
        if k == 64 {
            at_64 = times_pung(&in_process, k, n)[3];
        }
        if plan.looped.contains(&k) {
            let looped: Result<Vec<_>, _> = SYSTEMS.iter().map(|system| loop_of(system, k, &plan)).collect();
            add(&mut table, &mut panels, k, n, &looped?);
        }
    }
    notes(&mut table, &plan);

    let [all, few] = panels;
    let title = |clients: &str| format!("messages a minute on {} cores, {clients}", cores());
    let panels = [
        Groups { title: title(&format!("all {n} users retrieve")), groups: all },
        Groups { title: title(&format!("{PAPER_CLIENTS} of {n} users retrieve")), groups: few },
    ];
    let svg = chart::grouped_svg(
        "Figure 13: throughput by CPU time of the server",
        &SYSTEMS.each_ref().map(|system| system.name),
        &panels,
    )?;
    let at_64 = at_64.map(|times| {
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

/// Rows and bars of all systems with one k, from one source; there are none where a system has no cost.
fn add(table: &mut Table, panels: &mut [Vec<Group>; 2], k: usize, n: usize, costs: &[Option<Cost>]) {
    let times = times_pung(costs, k, n);
    let mut bars = [Vec::new(), Vec::new()];
    let mut name = format!("k = {k}");
    for ((system, cost), times) in SYSTEMS.iter().zip(costs).zip(times) {
        let per_minute =
            cost.as_ref().map(|cost| [n, PAPER_CLIENTS].map(|clients| cost.per_minute(k, clients)));
        for (number, bars) in bars.iter_mut().enumerate() {
            bars.push(per_minute.map(|values| Bar { value: values[number], extrapolated: false }));
        }
        if let (Some(cost), Some(per_minute)) = (cost, per_minute) {
            table.row(row(system, k, cost, per_minute, times));
            if matches!(cost.source, Source::ClosedLoop) {
                name = format!("k = {k}, closed loop");
            }
        }
    }
    for (panel, bars) in panels.iter_mut().zip(bars) {
        panel.push(Group { name: name.clone(), bars });
    }
}

/// Throughput over that of the first system, where both are known from this source.
fn times_pung(costs: &[Option<Cost>], k: usize, n: usize) -> Vec<Option<f64>> {
    let rate = |cost: &Option<Cost>| cost.as_ref().map(|cost| cost.per_minute(k, n));
    let pung = costs.first().and_then(rate);
    costs.iter().map(|cost| Some(rate(cost)? / pung?)).collect()
}

/// A real server with real clients; nothing where the protocol's limits do not allow such a round.
fn loop_of(system: &System, k: usize, plan: &Plan) -> anyhow::Result<Option<Cost>> {
    if !system.traffic(k, plan.users)?.fits() {
        return Ok(None);
    }
    let config = closed_loop::Config {
        users: u32::try_from(plan.users)?,
        clients: plan.clients,
        retrieve: u16::try_from(k)?,
        rounds: 1,
        engine: system.engine,
        code: match system.code(k) {
            CodeKind::Hybrid => closed_loop::Code::Hybrid,
            CodeKind::Cuckoo | CodeKind::Single => closed_loop::Code::Cuckoo,
        },
        mapping: closed_loop::MappingName::Bloom,
        threads: None,
        seed: 1,
    };
    let progress = closed_loop::progress_bar();
    let report = closed_loop::run_once(&config, &progress);
    progress.finish_and_clear();
    let report = report.with_context(|| format!("{} in a closed loop", system.name))?;
    let unsound = report.wrong + report.missing;
    ensure!(unsound == 0, "{}: {unsound} messages were lost or changed in a closed loop", system.name);
    Ok(Some(Cost::closed_loop(&report)))
}

const DIFFERS: &str = "The paper runs a server of 16 cores in a closed loop of 32 clients. Here the server's work is measured \
    in process, one query at a time on one thread, and where it says so as the CPU time of a real server in such a \
    loop; the throughput is what that leaves room for if all cores do nothing else. All four systems use this project's engines \
    (figure 9), Bloom mapping and Pung's batch code as in figure 12. The paper's absolute values are in its chart only; \
    its text has one ratio.";

/// One message is retrieved without a code, by all systems: cuckoo with its one bucket has the shape of such a round.
fn setting(system: &System, k: usize, plan: &Plan) -> Setting {
    let way = match system.code(k) {
        CodeKind::Hybrid => Way::Hybrid,
        CodeKind::Cuckoo | CodeKind::Single => Way::Cuckoo,
    };
    let Plan { users: elements, runs, .. } = *plan;
    Setting { engine: system.engine, way, k, elements, bytes: ELEMENT_BYTES, b: None, w: 3, runs, seed: 1 }
}

fn header() -> Vec<&'static str> {
    vec![
        "system",
        "engine",
        "code",
        "k",
        "buckets",
        "bucket size",
        "multi-query, server CPU, ms",
        "per message, ms",
        "set-up of a round, CPU, s",
        "messages a minute, all users retrieve",
        "messages a minute, 32 clients",
        "per core and minute",
        "times Pung, paper",
        "times Pung",
        "deferred keys",
        "source",
    ]
}

fn row(system: &System, k: usize, cost: &Cost, [all, few]: [f64; 2], times: Option<f64>) -> Vec<String> {
    let or_none = |value: Option<f64>| value.map_or("-".to_owned(), short);
    vec![
        system.name.to_owned(),
        system.engine_name.to_owned(),
        code_name(system.code(k)).to_owned(),
        k.to_string(),
        cost.buckets.to_string(),
        cost.bucket_size.to_string(),
        short(cost.answer_ms),
        short(cost.answer_ms / k as f64),
        short(cost.setup_ms / 1e3),
        short(all),
        short(few),
        short(all / cores() as f64),
        or_none(paper::times_pung(system.name, k)),
        or_none(times),
        cost.deferred.to_string(),
        cost.source.name().to_owned(),
    ]
}

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
