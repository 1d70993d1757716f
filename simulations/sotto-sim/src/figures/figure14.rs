//! Figure 14: what a round of messages costs a user's network.

use super::Figure;
use super::canvas::short;
use super::case_study::{BATCHES, SYSTEMS, Traffic, USERS, code_name, paper};
use super::chart::{self, Bar, Group, Groups};
use super::table::Table;

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (n, batches): (usize, &[usize]) = if quick { (1 << 12, &[1, 16]) } else { (USERS, &BATCHES) };
    let mut table = Table::new("Figure 14: network cost of one user's round", header());
    let mut groups = Vec::new();
    let mut saved = None;
    for &k in batches {
        let mut bars = Vec::new();
        let mut pung = None;
        for system in &SYSTEMS {
            let traffic = system.traffic(k, n)?;
            let round = megabytes(traffic.round());
            let times = *pung.get_or_insert(round) / round;
            let of_paper = paper::megabytes(system.name, k);
            table.row(row(system.name, code_name(system.code(k)), k, &traffic, of_paper, times));
            bars.push(Some(Bar { value: round, extrapolated: false }));
            if (system.name, k) == ("Pung+MS", 16) {
                saved = Some(times);
            }
        }
        let of_paper = ["Pung", "Pung+MS"].map(|name| paper::megabytes(name, k));
        bars.extend(of_paper.map(|value| value.map(|value| Bar { value, extrapolated: false })));
        groups.push(Group { name: format!("k = {k}"), bars });
    }
    notes(&mut table, n);
    let title = format!("queries, answers, mapping and deposit of one round, MB, {n} users");
    let series = [SYSTEMS[0].name, SYSTEMS[1].name, SYSTEMS[2].name, SYSTEMS[3].name];
    let series = [&series[..], &["Pung, paper", "Pung+MS, paper"]].concat();
    let svg = chart::grouped_svg(
        "Figure 14: network cost of one user's round",
        &series,
        &[Groups { title, groups }],
    )?;
    let saved = saved.map(|times| {
        format!(
            " With k = 16, both changes together save a factor of {}; in the paper, of over 36.",
            short(times)
        )
    });
    let shows = format!(
        "What a user of the chat sends and receives in one round, with Pung's own engine and batch code and with those of \
         the paper in their place.{}",
        saved.unwrap_or_default()
    );
    Ok(Figure { table, svg, shows, differs: DIFFERS.to_owned() })
}

const DIFFERS: &str = "Engines and sizes are this project's (figure 9), and the code of Pung is as in figure 12. The \
    paper's number for Pung+MS is that of 24 queries and answers alone; ours counts the mapping and the deposit, too, and \
    has 32 buckets for k = 16, as a failure probability of 2^-20 needs. Besides these two numbers the paper's values are in its chart \
    only.";

fn header() -> Vec<&'static str> {
    vec![
        "system",
        "code",
        "k",
        "buckets",
        "bucket size",
        "keys, once, KB",
        "deposit, bytes",
        "mapping, KB",
        "queries, KB",
        "answers, KB",
        "round, MB",
        "round, paper, MB",
        "first round with keys, MB",
        "times less than Pung",
    ]
}

fn row(
    system: &str,
    code: &str,
    k: usize,
    traffic: &Traffic,
    of_paper: Option<f64>,
    times: f64,
) -> Vec<String> {
    let size = |bytes: usize| short(megabytes(bytes));
    let part = |bytes: usize| short(bytes as f64 / 1e3);
    vec![
        system.to_owned(),
        code.to_owned(),
        k.to_string(),
        traffic.buckets.to_string(),
        traffic.bucket_size.to_string(),
        part(traffic.keys),
        traffic.deposit.to_string(),
        part(traffic.mapping),
        part(traffic.queries),
        part(traffic.answers),
        size(traffic.round()),
        of_paper.map_or("-".to_owned(), short),
        size(traffic.round() + traffic.keys),
        short(times),
    ]
}

fn notes(table: &mut Table, n: usize) {
    table.note(format!(
        "{n} users, each of whom deposits one message of 288 bytes under a label of 16, and retrieves k. KB and MB are 10^3 and 10^6 bytes, \
         exact sizes of the protocol's formats without those of gRPC and TLS. The mapping is downloaded by everybody \
         in every round; public keys are uploaded once. One message is retrieved from the whole database, without a code."
    ));
    if n == USERS {
        table.note(
            "A round of the protocol has at most 1,024 buckets, fewer than Pung's code has for k = 256: those rows are the \
             same formats with as many buckets as the code needs."
                .to_owned(),
        );
    }
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}
