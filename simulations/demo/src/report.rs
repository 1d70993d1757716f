//! What the demonstration measured, for people and for scripts.

use std::time::Duration;

use mpir::{Engine, Form, RoundSpec};
use serde::Serialize;
use sotto_participant::RoundReport;
use sotto_protocol::deposit::BOX_BYTES;

use crate::options::Options;
use crate::script::{NAMES, Tally};

/// What is noted while the rounds pass.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    reports: Vec<RoundReport>,
    introduction_rounds: u32,
    all_rounds: u32,
    setup_ms: Vec<f64>,
    bucket_size: u32,
    pub(crate) elapsed: Duration,
}

/// The summary, as printed with `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) sent: u32,
    pub(crate) delivered: u32,
    pub(crate) lost: u32,
    pub(crate) duplicated: u32,
    pub(crate) altered: u32,
    pub(crate) users: u32,
    pub(crate) participants: usize,
    pub(crate) retrieve: u16,
    /// Rounds of conversation, as asked for.
    pub(crate) rounds: u32,
    /// Rounds before them, in which the two agreed on keys.
    pub(crate) introduction_rounds: u32,
    /// All rounds that were opened.
    pub(crate) all_rounds: u32,
    pub(crate) engine: &'static str,
    pub(crate) security_bits: u32,
    pub(crate) bucket_size: u32,
    /// Bytes per participant: keys once, the others per round.
    pub(crate) bytes: Bytes,
    /// Medians per participant and round, and of the server's set-up per round.
    pub(crate) ms: Millis,
    pub(crate) seed: u64,
    pub(crate) elapsed_ms: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Bytes {
    pub(crate) keys: u64,
    pub(crate) deposit: u64,
    pub(crate) mapping: u64,
    pub(crate) query: u64,
    pub(crate) answer: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Millis {
    /// Server: batch code, preprocessing, mapping.
    pub(crate) setup: f64,
    /// Upload.
    pub(crate) keys: f64,
    /// Until it is acknowledged.
    pub(crate) deposit: f64,
    /// Download.
    pub(crate) mapping: f64,
    /// Client: finding the labels, matching.
    pub(crate) lookup: f64,
    /// Client: encrypting all sub-queries.
    pub(crate) build: f64,
    /// Upload, and the server's computation until the answer begins.
    pub(crate) query: f64,
    /// The answer's way down, with what of it is computed meanwhile.
    pub(crate) answer: f64,
    /// Client: decrypting all answers.
    pub(crate) extract: f64,
}

impl Summary {
    pub(crate) fn opened(&mut self, introduction: bool) {
        self.all_rounds += 1;
        self.introduction_rounds += u32::from(introduction);
    }

    pub(crate) fn built(&mut self, bucket_size: u32, setup_ms: u64) {
        self.bucket_size = bucket_size;
        self.setup_ms.push(setup_ms as f64);
    }

    pub(crate) fn add_report(&mut self, report: &RoundReport) {
        self.reports.push(*report);
    }

    /// # Errors
    /// If the engine has no parameters for the buckets seen, which a server that served them rules out.
    pub(crate) fn finish(
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

/// The engine's name and its security at the bucket size last seen.
fn engine_facts(engine: &dyn Engine, bucket_size: u32) -> anyhow::Result<(&'static str, u32)> {
    let elements = usize::try_from(bucket_size.max(1))?;
    let form = Form { buckets: 1, elements, element_bytes: BOX_BYTES };
    // It does not depend on seed and round.
    let spec =
        RoundSpec { seed: [0; 32], whitening: [0; 32], round: 0, form, profile: engine.profile(form)? };
    Ok((engine.name(), engine.assurance(&spec)?.security_bits))
}
