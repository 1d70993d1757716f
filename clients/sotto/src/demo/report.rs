//! What the demonstration measured, for people and for scripts.

use std::time::Duration;

use mpir::Engine;
use serde::Serialize;

use super::script::{NAMES, Tally};
use super::{Options, engine_facts};
use crate::participant::RoundReport;

/// What is noted while the rounds pass.
#[derive(Debug, Default)]
pub(super) struct Summary {
    reports: Vec<RoundReport>,
    introduction_rounds: u32,
    all_rounds: u32,
    setup_ms: Vec<f64>,
    bucket_size: u32,
    pub(super) elapsed: Duration,
}

/// The summary, as printed with `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) sent: u32,
    pub(super) delivered: u32,
    pub(super) lost: u32,
    pub(super) duplicated: u32,
    pub(super) altered: u32,
    pub(super) users: u32,
    pub(super) participants: usize,
    pub(super) retrieve: u16,
    /// Rounds of conversation, as asked for.
    pub(super) rounds: u32,
    /// Rounds before them, in which the two agreed on keys.
    pub(super) introduction_rounds: u32,
    /// All rounds that were opened.
    pub(super) all_rounds: u32,
    pub(super) engine: &'static str,
    pub(super) security_bits: u32,
    pub(super) bucket_size: u32,
    /// Bytes per participant: keys once, the others per round.
    pub(super) bytes: Bytes,
    /// Medians per participant and round, and of the server's set-up per round.
    pub(super) ms: Millis,
    pub(super) seed: u64,
    pub(super) elapsed_ms: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Bytes {
    pub(super) keys: u64,
    pub(super) deposit: u64,
    pub(super) mapping: u64,
    pub(super) query: u64,
    pub(super) answer: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Millis {
    /// Server: batch code, preprocessing, mapping.
    pub(super) setup: f64,
    /// Upload.
    pub(super) keys: f64,
    /// Until it is acknowledged.
    pub(super) deposit: f64,
    /// Download.
    pub(super) mapping: f64,
    /// Client: finding the labels, matching.
    pub(super) lookup: f64,
    /// Client: encrypting all sub-queries.
    pub(super) build: f64,
    /// Upload, and the server's computation until the answer begins.
    pub(super) query: f64,
    /// The answer's way down, with what of it is computed meanwhile.
    pub(super) answer: f64,
    /// Client: decrypting all answers.
    pub(super) extract: f64,
}

impl Summary {
    pub(super) fn opened(&mut self, introduction: bool) {
        self.all_rounds += 1;
        self.introduction_rounds += u32::from(introduction);
    }

    pub(super) fn built(&mut self, bucket_size: u32, setup_ms: u64) {
        self.bucket_size = bucket_size;
        self.setup_ms.push(setup_ms as f64);
    }

    pub(super) fn add_report(&mut self, report: &RoundReport) {
        self.reports.push(*report);
    }

    /// # Errors
    /// If the engine has no parameters for the buckets seen, which a server that served them rules out.
    pub(super) fn finish(
        &self,
        engine: &dyn Engine,
        options: &Options,
        seed: u64,
        tally: Tally,
    ) -> anyhow::Result<Report> {
        let (engine, security_bits) = engine_facts(engine, self.bucket_size)?;
        let bytes = |of: fn(&RoundReport) -> u64| self.reports.iter().map(of).max().unwrap_or(0);
        let time = |of: fn(&RoundReport) -> Duration| {
            median(self.reports.iter().map(of).filter(|time| !time.is_zero()).map(millis).collect())
        };
        Ok(Report {
            sent: tally.sent,
            delivered: tally.delivered,
            lost: tally.lost(),
            duplicated: tally.duplicated,
            altered: tally.altered,
            users: options.users,
            participants: NAMES.len(),
            retrieve: options.retrieve,
            rounds: options.rounds,
            introduction_rounds: self.introduction_rounds,
            all_rounds: self.all_rounds,
            engine,
            security_bits,
            bucket_size: self.bucket_size,
            bytes: Bytes {
                keys: bytes(|report| report.keys.bytes),
                deposit: bytes(|report| report.deposit.bytes),
                mapping: bytes(|report| report.mapping.bytes),
                query: bytes(|report| report.query.bytes),
                answer: bytes(|report| report.answer.bytes),
            },
            ms: Millis {
                setup: median(self.setup_ms.clone()),
                keys: time(|report| report.keys.time),
                deposit: time(|report| report.deposit.time),
                mapping: time(|report| report.mapping.time),
                lookup: time(|report| report.lookup),
                build: time(|report| report.build),
                query: time(|report| report.query.time),
                answer: time(|report| report.answer.time),
                extract: time(|report| report.extract),
            },
            seed,
            elapsed_ms: millis(self.elapsed),
        })
    }
}

fn millis(time: Duration) -> f64 {
    // Microseconds are as fine as anybody reads.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
