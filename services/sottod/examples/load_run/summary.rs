//! What a run showed, for people and for programs.

use core::fmt;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sotto_protocol::Round;

use crate::ledger::Totals;

/// Memory at a moment.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    /// MiB.
    pub(crate) resident: f64,
}

#[derive(Default)]
pub(crate) struct Retrievals {
    /// Times of those that were answered whole, microseconds.
    pub(crate) times: Vec<u32>,
    pub(crate) wrong: u64,
    /// Rounds that a retriever missed because it was not done with the one before.
    pub(crate) skipped: u64,
    pub(crate) refusals: BTreeMap<String, u64>,
}

/// When rounds opened and became ready.
pub(crate) struct Rounds {
    length: Duration,
    newest_open: Option<(Round, Instant)>,
    newest_ready: Option<Round>,
    /// When each round was sealed, which is when the next one opened.
    sealed_at: BTreeMap<Round, Instant>,
    on_time: u64,
    /// Sealed more than a tenth of a round late.
    late: u64,
    /// Never ready.
    abandoned: u64,
    /// From the seal until it was ready, microseconds.
    builds: Vec<u32>,
    /// Rounds in which clients were told to deposit.
    pub(crate) loaded: u64,
    /// No question could be built.
    pub(crate) unasked: u64,
    pub(crate) watches_lost: u64,
}

impl Rounds {
    pub(crate) fn new(round_ms: u32) -> Self {
        Self {
            length: Duration::from_millis(round_ms.into()),
            newest_open: None,
            newest_ready: None,
            sealed_at: BTreeMap::new(),
            on_time: 0,
            late: 0,
            abandoned: 0,
            builds: Vec::new(),
            loaded: 0,
            unasked: 0,
            watches_lost: 0,
        }
    }

    pub(crate) fn opened(&mut self, round: Round, at: Instant) {
        if let Some((before, opened)) = self.newest_open
            && before.next() == round
        {
            let late = at.saturating_duration_since(opened) > self.length + self.length / 10;
            self.late += u64::from(late);
            self.on_time += u64::from(!late);
            self.sealed_at.insert(before, at);
        }
        if self.newest_open.is_none_or(|(newest, _)| newest < round) {
            self.newest_open = Some((round, at));
        }
    }

    pub(crate) fn ready(&mut self, round: Round, at: Instant) {
        if self.newest_ready.is_some_and(|newest| newest >= round) {
            return;
        }
        if let Some(newest) = self.newest_ready {
            self.abandoned += round.0 - newest.0 - 1;
        }
        self.newest_ready = Some(round);
        if let Some(sealed) = self.sealed_at.remove(&round) {
            let build = at.saturating_duration_since(sealed);
            self.builds.push(build.as_micros().try_into().unwrap_or(u32::MAX));
        }
        self.sealed_at.retain(|sealed, _| *sealed > round);
    }

    pub(crate) fn sealed(&self) -> u64 {
        self.on_time + self.late
    }
}

/// What a run showed.
pub(crate) struct Summary {
    pub(crate) clients: usize,
    pub(crate) retrievers: usize,
    pub(crate) retrieve: u16,
    pub(crate) round_ms: u32,
    pub(crate) spread_ms: u64,
    pub(crate) seconds: u64,
    pub(crate) registered: Duration,
    pub(crate) totals: Totals,
    pub(crate) acknowledgements: Vec<u32>,
    pub(crate) refusals: BTreeMap<String, u64>,
    pub(crate) retrievals: Retrievals,
    pub(crate) rounds: Rounds,
    pub(crate) samples: Vec<Sample>,
    pub(crate) server_cores: f64,
    pub(crate) client_cores: f64,
    pub(crate) died: bool,
}

impl Summary {
    /// Nothing that was acknowledged is lost, no answer is wrong, and the server lived.
    pub(crate) fn is_sound(&self) -> bool {
        self.totals.lost == 0 && self.retrievals.wrong == 0 && !self.died
    }

    /// Everybody was served in every round.
    pub(crate) fn holds(&self) -> bool {
        let rounds =
            self.rounds.late + self.rounds.abandoned + self.rounds.unasked + self.rounds.watches_lost;
        self.is_sound()
            && self.refusals.is_empty()
            && self.retrievals.refusals.is_empty()
            && self.retrievals.skipped + rounds == 0
            && self.rounds.sealed() > 0
    }

    /// Acknowledged deposits per second of the rounds in which there were any.
    fn rate(&self) -> f64 {
        let seconds = self.rounds.loaded as f64 * f64::from(self.round_ms) / 1000.0;
        self.totals.acknowledged as f64 / seconds.max(1.0)
    }

    /// Memory when the first fifth of the run was over, at the end, at most, and its growth per minute since then.
    fn memory(&self) -> [f64; 4] {
        let from = self.seconds as f64 / 5.0;
        let end = self.seconds as f64;
        let steady: Vec<Sample> =
            self.samples.iter().copied().filter(|sample| (from..=end).contains(&sample.seconds)).collect();
        let (Some(first), Some(last)) = (steady.first(), steady.last()) else { return [0.0; 4] };
        let most = steady.iter().map(|sample| sample.resident).fold(0.0, f64::max);
        let many = steady.len() as f64;
        let mean = |of: fn(&Sample) -> f64| steady.iter().map(of).sum::<f64>() / many;
        let (seconds, resident) = (mean(|sample| sample.seconds), mean(|sample| sample.resident));
        let (covariance, variance) = steady.iter().fold((0.0, 0.0), |(covariance, variance), sample| {
            let away = sample.seconds - seconds;
            (covariance + away * (sample.resident - resident), variance + away * away)
        });
        let growth = if variance > 0.0 { 60.0 * covariance / variance } else { 0.0 };
        [first.resident, last.resident, most, growth]
    }

    pub(crate) fn json(&self) -> String {
        let [steady, end, most, growth] = self.memory();
        let Totals { sent, acknowledged, stored, counted, abandoned, lost } = self.totals;
        let acknowledgement = percentiles(&self.acknowledgements);
        let retrieval = percentiles(&self.retrievals.times);
        let build = percentiles(&self.rounds.builds);
        let Rounds { on_time, late, abandoned: given_up, unasked, watches_lost, .. } = self.rounds;
        format!(
            "{{\"clients\":{},\"retrievers\":{},\"retrieve\":{},\"round_ms\":{},\"spread_ms\":{},\"seconds\":{},\
             \"registering_s\":{:.1},\"holds\":{},\"sound\":{},\"died\":{},\
             \"deposits\":{{\"sent\":{sent},\"acknowledged\":{acknowledged},\"stored\":{stored},\
             \"counted\":{counted},\"in_abandoned_rounds\":{abandoned},\"lost\":{lost},\
             \"per_second\":{:.1},\"ms\":{},\"refused\":{}}},\
             \"retrievals\":{{\"complete\":{},\"wrong\":{},\"skipped\":{},\"ms\":{},\"refused\":{}}},\
             \"rounds\":{{\"on_time\":{on_time},\"late\":{late},\"abandoned\":{given_up},\"unasked\":{unasked},\
             \"watches_lost\":{watches_lost},\"build_ms\":{}}},\
             \"server\":{{\"steady_mib\":{steady:.1},\"end_mib\":{end:.1},\"most_mib\":{most:.1},\
             \"growth_mib_per_minute\":{growth:.2},\"cores\":{:.2}}},\"client_cores\":{:.2}}}",
            self.clients,
            self.retrievers,
            self.retrieve,
            self.round_ms,
            self.spread_ms,
            self.seconds,
            self.registered.as_secs_f64(),
            self.holds(),
            self.is_sound(),
            self.died,
            self.rate(),
            json_times(acknowledgement),
            json_words(&self.refusals),
            self.retrievals.times.len(),
            self.retrievals.wrong,
            self.retrievals.skipped,
            json_times(retrieval),
            json_words(&self.retrievals.refusals),
            json_times(build),
            self.server_cores,
            self.client_cores,
        )
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [steady, end, most, growth] = self.memory();
        let Totals { sent, acknowledged, stored, counted, abandoned, lost } = self.totals;
        let Rounds { on_time, late, abandoned: given_up, unasked, watches_lost, .. } = self.rounds;
        let verdict = match (self.died, self.holds()) {
            (true, _) => "the server died",
            (false, true) => "held",
            (false, false) => "not held",
        };
        writeln!(
            f,
            "{} clients and {} retrievers of {} messages for {} s, rounds of {} ms, registered in {:.1} s: {verdict}",
            self.clients,
            self.retrievers,
            self.retrieve,
            self.seconds,
            self.round_ms,
            self.registered.as_secs_f64()
        )?;
        writeln!(
            f,
            "  deposits: {sent} sent, {acknowledged} acknowledged ({:.0} per second), {lost} lost",
            self.rate()
        )?;
        writeln!(
            f,
            "    in the log exactly once {stored}, in rounds whose digest does not tell {counted}, in rounds given up {abandoned}"
        )?;
        writeln!(
            f,
            "    acknowledged after {}; refused {}",
            Times(&self.acknowledgements),
            Words(&self.refusals)
        )?;
        writeln!(
            f,
            "  retrievals: {} complete, {} wrong, {} skipped; after {}; refused {}",
            self.retrievals.times.len(),
            self.retrievals.wrong,
            self.retrievals.skipped,
            Times(&self.retrievals.times),
            Words(&self.retrievals.refusals)
        )?;
        writeln!(
            f,
            "  rounds: {on_time} sealed on time, {late} late, {given_up} given up, {unasked} not asked; ready after {}; watches lost {watches_lost}",
            Times(&self.rounds.builds)
        )?;
        writeln!(
            f,
            "  server: {steady:.0} MiB after a fifth, {end:.0} MiB at the end, {most:.0} MiB at most, {growth:+.2} MiB per minute"
        )?;
        write!(f, "  cores: server {:.2}, clients {:.2}", self.server_cores, self.client_cores)
    }
}

/// The median, the 99th percentile and the largest, ms.
fn percentiles(micros: &[u32]) -> Option<[f64; 3]> {
    let mut sorted = micros.to_vec();
    sorted.sort_unstable();
    let at =
        |part: usize| sorted.get((sorted.len() * part / 100).min(sorted.len().saturating_sub(1))).copied();
    let times = [at(50)?, at(99)?, at(100)?];
    Some(times.map(|micros| f64::from(micros) / 1000.0))
}

struct Times<'a>(&'a [u32]);

impl fmt::Display for Times<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match percentiles(self.0) {
            Some([half, most, all]) => write!(f, "{half:.1} / {most:.1} / {all:.1} ms (50 / 99 / 100 %)"),
            None => f.write_str("-"),
        }
    }
}

struct Words<'a>(&'a BTreeMap<String, u64>);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let words: Vec<String> = self.0.iter().map(|(word, count)| format!("{word} {count}")).collect();
        f.write_str(&words.join(", "))
    }
}

fn json_times(times: Option<[f64; 3]>) -> String {
    times.map_or_else(|| "null".to_owned(), |[half, most, all]| format!("[{half:.1},{most:.1},{all:.1}]"))
}

fn json_words(words: &BTreeMap<String, u64>) -> String {
    let words: Vec<String> = words.iter().map(|(word, count)| format!("\"{word}\":{count}")).collect();
    format!("{{{}}}", words.join(","))
}
