//! What people see of the demonstration. With a terminal, a line that moves; without, the same text line by line; with
//! `--json`, one object at the end.

use std::future::Future;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use console::style;
use indicatif::{ProgressBar, ProgressStyle};
use sotto_protocol::{Round, ServerParameters};

use crate::options::Options;
use crate::report::Report;
use crate::script::{Arrival, GROUP, NAMES, in_pair};

const TICK: Duration = Duration::from_millis(80);

/// Where the demonstration is shown.
pub(crate) struct Screen {
    json: bool,
    bar: ProgressBar,
    stage: Stage,
    buckets: u16,
    /// Whether what is printed has come to nobody: a closed pipe, a full disk.
    closed: AtomicBool,
}

/// What the moving line shows.
#[derive(Clone, Copy)]
enum Stage {
    /// Nothing that moves.
    Idle,
    /// Cover arrives; the crowd's counter stood at `from`.
    Deposits { from: u64, users: u64 },
    /// The server builds the database.
    Building,
    /// Participants retrieve.
    Retrieving { done: usize },
}

impl Screen {
    pub(crate) fn new(json: bool) -> Self {
        let bar = if json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        Self { json, bar, stage: Stage::Idle, buckets: 0, closed: AtomicBool::new(false) }
    }

    pub(crate) fn title(&mut self, options: &Options, seed: u64, server: &ServerParameters) {
        self.buckets = server.buckets;
        let [alice, bob, carol, dave, erin, frank] = NAMES;
        self.line(
            &style("Sotto: a chat in which nobody, the server included, learns who talks with whom.")
                .bold()
                .to_string(),
        );
        self.line("");
        self.line(&format!("  people   {alice} and {bob} one to one;"));
        self.line(&format!("           {carol}, {dave}, {erin} and {frank} in the group \"{GROUP}\""));
        self.line(&format!(
            "  crowd    {} simulated users, who deposit cover",
            grouped(options.users.into())
        ));
        self.line(&format!("  server   engine {}, {} bits of security", server.engine, server.security_bits));
        self.line(&format!(
            "  round    everybody asks {} buckets, to read at most {} boxes",
            server.buckets, server.retrieve
        ));
        self.line(&format!("  seed     {seed} (the same seed draws the same keys)"));
        self.line("");
    }

    /// Shows a bar that follows `counter` to `total` while `work` goes on.
    pub(crate) async fn follow<T>(
        &self,
        what: &'static str,
        total: u64,
        counter: &AtomicU64,
        work: impl Future<Output = T>,
    ) -> T {
        self.bar.set_style(bar_style());
        self.bar.set_length(total);
        self.bar.set_message(what);
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => {
                    self.bar.set_style(ProgressStyle::default_spinner());
                    self.bar.set_message("");
                    return done;
                }
                () = tokio::time::sleep(TICK) => self.bar.set_position(counter.load(Ordering::Relaxed)),
            }
        }
    }

    /// Shows that something goes on while `work` does.
    pub(crate) async fn wait<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        self.bar.set_message(what.to_owned());
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => {
                    self.bar.set_message("");
                    return done;
                }
                () = tokio::time::sleep(TICK) => self.bar.tick(),
            }
        }
    }

    /// A round takes deposits; `first_of_script` is the first in which there is something to say.
    pub(crate) fn opened(&mut self, round: Round, first_of_script: Option<Round>, users: u64, deposits: u64) {
        let title = match first_of_script {
            Some(first) if round >= first => format!("Round {round}"),
            _ => format!("Round {round}, introductions: {} and {} exchange keys", NAMES[0], NAMES[1]),
        };
        self.line(&style(title).bold().to_string());
        self.stage = Stage::Deposits { from: deposits, users };
    }

    pub(crate) fn sealed(&mut self, entries: usize) {
        self.line(&dim(format!(
            "  sealed   {} deposits, of which nobody can tell which are cover",
            grouped(entries as u64)
        )));
        self.stage = Stage::Building;
    }

    pub(crate) fn built(&mut self, bucket_size: u32, mapping_bytes: usize, setup_ms: u64) {
        self.line(&dim(format!(
            "  ready    {} buckets of {} boxes, mapping {}, built in {} ms",
            self.buckets,
            grouped(bucket_size.into()),
            bytes(mapping_bytes as u64),
            grouped(setup_ms)
        )));
        self.stage = Stage::Retrieving { done: 0 };
    }

    pub(crate) fn arrival(&self, listener: usize, speaker: &str, text: &str, arrival: Arrival) {
        let (to, verdict) = match arrival {
            // Shown once everybody has it.
            Arrival::Expected => return,
            Arrival::Complete if in_pair(listener) => (NAMES[listener], style("✓").green()),
            Arrival::Complete => (GROUP, style("✓ all three").green()),
            Arrival::Duplicate => (NAMES[listener], style("again!").red()),
            Arrival::Altered => (NAMES[listener], style("not what was said!").red()),
        };
        self.line(&format!("  {:>6} → {:<6} {text} {verdict}", style(speaker).cyan(), style(to).cyan()));
    }

    pub(crate) fn introduced(&self) {
        self.line(&dim(format!(
            "           {} and {} have each other's keys; the conversations begin",
            NAMES[0], NAMES[1]
        )));
    }

    pub(crate) fn participant_done(&mut self) {
        if let Stage::Retrieving { done } = &mut self.stage {
            *done += 1;
        }
    }

    pub(crate) fn remark(&self, remark: &str) {
        if !remark.is_empty() {
            self.line(&format!("  {}", style(remark).yellow()));
        }
    }

    /// Moves the moving line.
    pub(crate) async fn tick(&self, deposits: &AtomicU64) {
        tokio::time::sleep(TICK).await;
        let message = match self.stage {
            Stage::Idle => String::new(),
            Stage::Deposits { from, users } => {
                let count = deposits.load(Ordering::Relaxed).saturating_sub(from);
                format!("deposits: {} of {}", grouped(count.min(users)), grouped(users))
            }
            Stage::Building => "the server builds the round's database".to_owned(),
            Stage::Retrieving { done } => format!("retrieving: {done} of {} people are done", NAMES.len()),
        };
        self.bar.set_message(message);
        self.bar.tick();
    }

    pub(crate) fn summary(&self, report: &Report) {
        self.bar.finish_and_clear();
        if self.json {
            // The report holds numbers and two fixed names, which always have a JSON form.
            self.print(&serde_json::to_string(report).unwrap_or_default());
            return;
        }
        let clean = report.lost == 0 && report.duplicated == 0 && report.altered == 0;
        let verdict = format!(
            "{} sent, {} delivered, {} lost, {} duplicated, {} altered",
            report.sent, report.delivered, report.lost, report.duplicated, report.altered
        );
        self.line("");
        self.line(
            &if clean { style(verdict).green().bold() } else { style(verdict).red().bold() }.to_string(),
        );
        self.line("");
        self.line(&format!("  {:<28}{:>12}{:>14}", "per person and round", "bytes", "median ms"));
        for (phase, size, time) in [
            ("deposit, up", report.bytes.deposit, Some(report.ms.deposit)),
            ("mapping, down", report.bytes.mapping, Some(report.ms.mapping)),
            ("query, up", report.bytes.query, None),
            ("answer, computed and down", report.bytes.answer, Some(report.ms.query + report.ms.answer)),
            ("keys, up, once", report.bytes.keys, Some(report.ms.keys)),
        ] {
            let time = time.map_or_else(String::new, |time| format!("{time:.1}"));
            self.line(&format!("  {phase:<28}{:>12}{time:>14}", grouped(size)));
        }
        self.line("");
        self.line(&format!(
            "  own work: look-up {:.1} ms, queries {:.1} ms, decryption {:.1} ms",
            report.ms.lookup, report.ms.build, report.ms.extract
        ));
        self.line(&format!("  server's set-up: {:.0} ms per round", report.ms.setup));
        self.line(&format!(
            "  {} rounds, {} of them introductions; {:.1} s in all",
            report.all_rounds,
            report.introduction_rounds,
            report.elapsed_ms / 1e3
        ));
        self.line(&format!("  engine {}, {} bits of security", report.engine, report.security_bits));
    }

    fn line(&self, text: &str) {
        if !self.json {
            self.bar.suspend(|| self.print(text));
        }
    }

    fn print(&self, text: &str) {
        if writeln!(std::io::stdout(), "{text}").is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether nobody takes what is printed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Names what was lost.
    pub(crate) fn missing(&self, missing: &[String]) {
        for text in missing {
            self.line(&style(text).red().to_string());
        }
    }
}

fn bar_style() -> ProgressStyle {
    // A template that does not parse would leave the plain bar.
    ProgressStyle::with_template("  {bar:30} {pos}/{len} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn dim(text: String) -> String {
    style(text).dim().to_string()
}

/// 12345 as 12,345.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{} KB", grouped(count / 1000)),
        _ => format!("{} MB", grouped(count / 1_000_000)),
    }
}
