//! What the task tells of its rounds: to whoever measures, to the calls, and to the operator.

use std::time::Duration;

use sotto_protocol::manifest::seed::SEGMENT_ROUNDS;
use sotto_protocol::{Round, ServerParameters};
use tokio::time::Instant;

use super::Task;
use crate::certificate::NOTICE_DAYS;
use crate::keys::Progress;
use crate::metrics::{Outcome, RoundPart, gauge};
use crate::round_database::RoundDatabase;

const DAY_MS: u64 = 86_400_000;

impl Task {
    pub(super) fn tell_progress(&self) {
        let progress = Progress { oldest: self.machine.oldest(), open: self.machine.current() };
        self.surroundings.progress.send_if_modified(|known| core::mem::replace(known, progress) != progress);
    }

    /// Tells in time that there will be no more seeds.
    pub(super) fn warn_of_the_end(&mut self, round: Round) {
        let ServerParameters { seeds, round_ms, .. } = &self.surroundings.parameters;
        let left = seeds.end().0.saturating_sub(round.0);
        self.surroundings.metrics.seeds_left.set(gauge(left));
        let ms = |rounds: u64| rounds.saturating_mul(u64::from(*round_ms));
        // A tenth of all of them, for servers that have few.
        let notice = (NOTICE_DAYS * DAY_MS).min(ms(u64::from(seeds.segments) * SEGMENT_ROUNDS) / 10);
        let (days, segment) = (ms(left) / DAY_MS, left / SEGMENT_ROUNDS);
        if ms(left) < notice && self.warned.replace(segment) != Some(segment) {
            tracing::warn!(
                days,
                rounds = left,
                "the seeds end soon; make more with 'sottod certify --seeds'"
            );
        }
    }

    pub(super) fn measure_sealed(&mut self, round: Round, entries: usize) {
        let now = Instant::now();
        self.sealed.insert(round, now);
        let size = self.log.size();
        let metrics = &self.surroundings.metrics;
        metrics.round(Outcome::Sealed);
        if let Some(opened) = self.opened.take() {
            metrics.phase(RoundPart::Open, now - opened);
        }
        metrics.round_deposits.set(gauge(entries));
        metrics.log_bytes.set(gauge(size.bytes));
        metrics.log_segments.set(gauge(size.segments));
        metrics.log_entries.set(gauge(size.entries));
    }

    pub(super) fn measure_ready(&mut self, round: Round, database: &RoundDatabase) {
        let metrics = &self.surroundings.metrics;
        metrics.round(Outcome::Ready);
        if let Some(sealed) = self.sealed.remove(&round) {
            metrics.phase(RoundPart::Building, sealed.elapsed());
        }
        metrics.setup.observe(Duration::from_millis(database.setup_ms).as_secs_f64());
        metrics.bucket_size.set(database.manifest.bucket_size.into());
        metrics.mapping_bytes.set(gauge(database.mapping.len()));
    }
}
