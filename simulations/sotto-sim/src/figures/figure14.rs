//! Figure 14: what a round of messages costs a user's network.

use sotto_measuring::table::{Column, Table, short, short_or_none};

use super::case_study::{BATCHES, SYSTEMS, System, Traffic, USERS, code_title};
use super::chart::{Bars, bars};
use super::section::Figure;

/// One system's round.
struct Row {
    system: &'static System,
    k: usize,
    traffic: Traffic,
    times: f64,
}

const COLUMNS: [Column<Row>; 14] = [
    ("system", |row| row.system.name.to_owned()),
    ("code", |row| code_title(row.system.code(row.k)).to_owned()),
    ("k", |row| row.k.to_string()),
    ("buckets", |row| row.traffic.buckets.to_string()),
    ("bucket size", |row| row.traffic.bucket_size.to_string()),
    ("keys, once, KB", |row| short(row.traffic.keys as f64 / 1e3)),
    ("deposit, bytes", |row| row.traffic.deposit.to_string()),
    ("mapping, KB", |row| short(row.traffic.mapping as f64 / 1e3)),
    ("queries, KB", |row| short(row.traffic.queries as f64 / 1e3)),
    ("answers, KB", |row| short(row.traffic.answers as f64 / 1e3)),
    ("round, MB", |row| short(megabytes(row.traffic.round()))),
    ("round, paper, MB", |row| short_or_none(paper_megabytes(row.system.name, row.k))),
    ("first round with keys, MB", |row| short(megabytes(row.traffic.round() + row.traffic.keys))),
    ("times less than Pung", |row| short(row.times)),
];

/// What the paper's text says of a user's round; its other values are in its chart only.
fn paper_megabytes(system: &str, k: usize) -> Option<f64> {
    match (system, k) {
        ("Pung", 16) => Some(279.0),
        ("Pung+MS", 16) => Some(7.7),
        _ => None,
    }
}

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (n, batches): (usize, &[usize]) = if quick { (1 << 12, &[1, 16]) } else { (USERS, &BATCHES) };
    let mut rows: Vec<Row> = Vec::new();
    for &k in batches {
        for system in &SYSTEMS {
            let traffic = system.traffic(k, n)?;
            let pung = rows.iter().find(|row| row.k == k).map_or(traffic.round(), |row| row.traffic.round());
            let times = pung as f64 / traffic.round() as f64;
            rows.push(Row { system, k, traffic, times });
        }
    }
    let mut table = Table::of("Figure 14: network cost of one user's round", &COLUMNS, &rows);
    notes(&mut table, n);
    let group = |k: &usize| {
        let ours = rows.iter().filter(|row| row.k == *k).map(|row| Some(megabytes(row.traffic.round())));
        let papers = ["Pung", "Pung+MS"].map(|name| paper_megabytes(name, *k));
        (format!("k = {k}"), ours.chain(papers).collect())
    };
    let title = format!("queries, answers, mapping and deposit of one round, MB, {n} users");
    let mut series = SYSTEMS.each_ref().map(|system| system.name).to_vec();
    series.extend(["Pung, paper", "Pung+MS, paper"]);
    let panel = Bars::new(title, batches.iter().map(group));
    let svg = bars("Figure 14: network cost of one user's round", &series, &[panel])?;
    let saved = rows.iter().find(|row| (row.system.name, row.k) == ("Pung+MS", 16)).map(|row| {
        format!(
            " With k = 16, both changes together save a factor of {}; in the paper, of over 36.",
            short(row.times)
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
