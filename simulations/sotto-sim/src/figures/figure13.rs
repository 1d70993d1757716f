//! Figure 13: how many messages a minute a server delivers, with Pung's parts and with those of the paper.

use std::path::Path;

use anyhow::ensure;

use super::Figure;
use super::canvas::short;
use super::case_study::{BATCHES, SYSTEMS, System, USERS, code_name, paper};
use super::chart::{self, Bar, Group, Groups};
use super::engines::{ELEMENT_BYTES, cores};
use super::measured::Measurements;
use super::table::Table;
use crate::mpir::{Report, Setting, Way};

/// Clients that the paper's server answers in a round; its other users' messages are only stored.
const PAPER_CLIENTS: usize = 32;

/// What one user's round costs a server.
struct Cost {
    /// The multi-query, CPU milliseconds.
    answer_ms: f64,
    /// The round's database, once for all who retrieve from it, CPU milliseconds.
    setup_ms: f64,
    source: Source,
}

/// Where a cost comes from.
#[derive(Clone, Copy)]
enum Source {
    /// Encode, SETUP and ANSWER measured on one thread, without a network.
    InProcess,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in process",
        }
    }
}

impl Cost {
    fn in_process(report: &Report) -> Self {
        Self {
            answer_ms: report.server_cpu_ms,
            setup_ms: report.encode_cpu_ms + report.setup_cpu_ms,
            source: Source::InProcess,
        }
    }

    /// Messages a minute of one core, if so many clients retrieve k messages each from every round.
    fn per_minute(&self, k: usize, clients: usize) -> f64 {
        k as f64 * 60_000.0 / (self.answer_ms + self.setup_ms / clients as f64)
    }
}

pub(super) fn make(quick: bool, out: &Path) -> anyhow::Result<Figure> {
    let (n, batches): (usize, &[usize]) = if quick { (1 << 10, &[1, 16]) } else { (USERS, &BATCHES) };
    // Everything happens on the calling thread, so that its clock sees all of it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
    let mut measurements = Measurements::open(&out.join("figure-13.measured.jsonl"))?;
    let mut table = Table::new("Figure 13: throughput of the case study", header());
    let (mut everybody, mut few): (Vec<Group>, Vec<Group>) = (Vec::new(), Vec::new());
    let mut at_64 = None;
    for &k in batches {
        let (mut all_bars, mut few_bars) = (Vec::new(), Vec::new());
        let mut pung = None;
        for system in &SYSTEMS {
            let setting = setting(system, k, n, if quick { 1 } else { 3 });
            let label = format!("{}, k = {k}", system.name);
            let report = pool.install(|| measurements.get(&setting, &label))?;
            ensure!(report.verified, "{label}: a retrieved element is not the database's");
            let cost = Cost::in_process(&report);
            let per_minute = [n, PAPER_CLIENTS].map(|clients| cores() as f64 * cost.per_minute(k, clients));
            let times = per_minute[0] / *pung.get_or_insert(per_minute[0]);
            if (system.name, k) == ("Pung+MS", 64) {
                at_64 = Some(times);
            }
            table.row(row(system, k, &report, &cost, per_minute, times));
            let [all, of_few] = per_minute.map(|value| Some(Bar { value, extrapolated: false }));
            all_bars.push(all);
            few_bars.push(of_few);
        }
        let name = format!("k = {k}");
        everybody.push(Group { name: name.clone(), bars: all_bars });
        few.push(Group { name, bars: few_bars });
    }
    notes(&mut table, n);

    let title = |clients: &str| format!("messages a minute on {} cores, {clients}", cores());
    let panels = [
        Groups { title: title(&format!("all {n} users retrieve")), groups: everybody },
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

const DIFFERS: &str = "The paper runs a server of 16 cores in a closed loop of 32 clients; here the server's work is measured \
    without network, clients and waiting, one query at a time on one thread, and the throughput is what that leaves room for if all \
    cores do nothing else. All four systems use this project's engines (figure 9), Bloom mapping and Pung's batch code as in figure 12. \
    The paper's absolute values are in its chart only; its text has one ratio.";

/// One message is retrieved without a code, by all systems.
fn setting(system: &System, k: usize, n: usize, runs: u16) -> Setting {
    let way = match system.code(k) {
        sotto_protocol::CodeKind::Single => Way::Single,
        sotto_protocol::CodeKind::Hybrid => Way::Hybrid,
        sotto_protocol::CodeKind::Cuckoo => Way::Cuckoo,
    };
    Setting { engine: system.engine, way, k, elements: n, bytes: ELEMENT_BYTES, b: None, w: 3, runs, seed: 1 }
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

fn row(
    system: &System,
    k: usize,
    report: &Report,
    cost: &Cost,
    [all, few]: [f64; 2],
    times: f64,
) -> Vec<String> {
    vec![
        system.name.to_owned(),
        system.engine_name.to_owned(),
        code_name(system.code(k)).to_owned(),
        k.to_string(),
        report.buckets.to_string(),
        report.bucket_size.to_string(),
        short(cost.answer_ms),
        short(cost.answer_ms / k as f64),
        short(cost.setup_ms / 1e3),
        short(all),
        short(few),
        short(all / cores() as f64),
        paper::times_pung(system.name, k).map_or("-".to_owned(), short),
        short(times),
        report.deferred.to_string(),
        cost.source.name().to_owned(),
    ]
}

fn notes(table: &mut Table, n: usize) {
    table.note(format!(
        "{n} messages of {ELEMENT_BYTES} bytes; CPU time of one thread, medians. Messages a minute: k over the time of one \
         multi-query and a client's share of the round's set-up, which is Encode, the buckets' bytes and SETUP, by {} \
         cores. With {PAPER_CLIENTS} clients, as in the paper's experiment, the share is a {PAPER_CLIENTS}th: all other messages are only there to be \
         searched. Mapping, network and the server's other work are not part of it. One message is retrieved from the whole database, without a code; Pung's code \
         has 9 k buckets, more than the 1,024 of a round for k = 256.",
        cores()
    ));
}
