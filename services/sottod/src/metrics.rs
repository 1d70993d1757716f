//! What an operator can measure. Nothing in it is about any one account: all of it is sums, counts and times of rounds.
//!
//! Every server has its own registry, so that several in one process do not mix.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use crate::usage::Usage;

type Labels<const N: usize> = [(&'static str, &'static str); N];
type Histograms = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// The measurements of one server.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) open_round: Gauge,
    pub(crate) leads: Gauge,
    rounds: Family<Labels<1>, Counter>,
    phases: Histograms,
    pub(crate) round_deposits: Gauge,
    pub(crate) bucket_size: Gauge,
    pub(crate) mapping_bytes: Gauge,
    pub(crate) deposits: Counter,
    pub(crate) append: Histogram,
    pub(crate) setup: Histogram,
    pub(crate) answer: Histogram,
    calls: Family<Labels<2>, Counter>,
    call_seconds: Histograms,
    bytes: Family<Labels<1>, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) connections_refused: Counter,
    queues: Family<Labels<1>, Gauge>,
    pub(crate) participants: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) key_sets: Gauge,
    pub(crate) standing: Gauge,
    pub(crate) log_bytes: Gauge,
    pub(crate) log_segments: Gauge,
    pub(crate) log_entries: Gauge,
    pub(crate) certificate_days: Optional,
    pub(crate) peer_certificate_days: Optional,
    pub(crate) silent: Gauge,
    pub(crate) held_up_by_builds: Gauge,
    pub(crate) held_up_by_commits: Gauge,
    pub(crate) seeds_left: Gauge,
    pub(crate) manifest_key_left: Optional,
    pub(crate) manifest_key_missing: Gauge,
    resident_bytes: Gauge,
    cpu_seconds: Gauge<f64, AtomicU64>,
}

/// What became of a round.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    Sealed,
    Ready,
    Abandoned,
}

/// A part of a round's life.
#[derive(Clone, Copy)]
pub(crate) enum RoundPart {
    /// It took deposits.
    Open,
    /// From seal to manifest: waiting, setting up, and publishing.
    Building,
}

/// Something that waits, or holds a place.
#[derive(Clone, Copy)]
pub(crate) enum Queue {
    Uploads,
    Queries,
    Retrievals,
    Mappings,
    /// Retrievals that compute.
    Computing,
    /// Sealed rounds that wait for their database.
    Builds,
    /// Calls that wait for the task that owns the rounds.
    Commands,
}

impl Queue {
    const ALL: [Self; 7] = [
        Self::Uploads,
        Self::Queries,
        Self::Retrievals,
        Self::Mappings,
        Self::Computing,
        Self::Builds,
        Self::Commands,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Uploads => "uploads",
            Self::Queries => "queries",
            Self::Retrievals => "retrievals",
            Self::Mappings => "mappings",
            Self::Computing => "computing",
            Self::Builds => "builds",
            Self::Commands => "commands",
        }
    }
}

/// A number that not every server has. Where it is not set, there is no sample.
#[derive(Clone)]
pub(crate) struct Optional(Family<Labels<0>, Gauge>);

impl Optional {
    pub(crate) fn set(&self, number: i64) {
        self.0.get_or_create(&[]).set(number);
    }

    pub(crate) fn get(&self) -> Option<i64> {
        self.0.get(&[]).map(|gauge| gauge.get())
    }
}

/// Seconds from 1 ms to 65 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("sottod");
        let histograms = || Histograms::new_with_constructor(seconds as fn() -> Histogram);
        Self {
            open_round: add(&mut registry, "open_round", "Number of the newest round that took deposits"),
            leads: add(
                &mut registry,
                "leads",
                "1 if this node decides when rounds end, 0 if another one does",
            ),
            rounds: add(&mut registry, "rounds", "Rounds by what became of them"),
            phases: add_made(
                &mut registry,
                "round_phase_seconds",
                "How long rounds were in a phase",
                histograms(),
            ),
            round_deposits: add(&mut registry, "round_deposits", "Deposits in the newest sealed round"),
            bucket_size: add(
                &mut registry,
                "bucket_elements",
                "Elements of a bucket in the newest ready round",
            ),
            mapping_bytes: add(&mut registry, "mapping_bytes", "Bytes of the newest ready round's mapping"),
            deposits: add(&mut registry, "deposits", "Deposits acknowledged"),
            append: add_made(
                &mut registry,
                "append_seconds",
                "Until an append to the log is durable",
                seconds(),
            ),
            setup: add_made(
                &mut registry,
                "setup_seconds",
                "Setting up a round's databases and mapping",
                seconds(),
            ),
            answer: add_made(
                &mut registry,
                "answer_seconds",
                "From a whole multi-query to its last answer",
                seconds(),
            ),
            calls: add(&mut registry, "calls", "Calls by name and how they began to be answered"),
            call_seconds: add_made(
                &mut registry,
                "call_seconds",
                "Until a call begins to be answered",
                histograms(),
            ),
            bytes: add(&mut registry, "bytes", "Bytes at the connections, without what TLS adds"),
            connections: add(&mut registry, "connections", "Open connections"),
            connections_refused: add(
                &mut registry,
                "connections_refused",
                "Connections closed because there were too many",
            ),
            queues: add(&mut registry, "queue", "Who waits for what, or holds a place in it"),
            participants: add(&mut registry, "participants", "Accounts that follow the rounds now"),
            sessions: add(&mut registry, "sessions", "Accounts with a session"),
            key_sets: add(&mut registry, "key_sets", "Sets of PIR keys in memory"),
            standing: add(&mut registry, "standing", "Multi-queries that stand, in memory"),
            log_bytes: add(&mut registry, "log_bytes", "Bytes of the round log"),
            log_segments: add(&mut registry, "log_segments", "Files of the round log"),
            log_entries: add(&mut registry, "log_entries", "Entries of the round log"),
            seeds_left: add(&mut registry, "seeds_left", "Rounds that there are seeds for"),
            manifest_key_left: optional(
                &mut registry,
                "manifest_key_left",
                "Rounds until the manifest key ends",
            ),
            manifest_key_missing: add(
                &mut registry,
                "manifest_key_missing",
                "1 if the secret of the announced manifest key is not on this node",
            ),
            certificate_days: optional(
                &mut registry,
                "certificate_days",
                "Days until the node's certificate ends",
            ),
            peer_certificate_days: optional(
                &mut registry,
                "peer_certificate_days",
                "Days until the certificate ends that the node shows to other nodes",
            ),
            silent: add(
                &mut registry,
                "silent",
                "1 if this node of a cluster is cut off: it hears nothing of rounds that should have ended",
            ),
            held_up_by_builds: add(
                &mut registry,
                "held_up_by_builds",
                "1 if the open round lasts longer than it should, because earlier ones are still being built",
            ),
            held_up_by_commits: add(
                &mut registry,
                "held_up_by_commits",
                "1 on the node that leads while the log takes long to store the end of a round",
            ),
            resident_bytes: add(&mut registry, "resident_memory_bytes", "Memory of the process"),
            cpu_seconds: add(&mut registry, "cpu_seconds", "Processor time of the process"),
            registry,
        }
    }

    pub(crate) fn round(&self, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Sealed => "sealed",
            Outcome::Ready => "ready",
            Outcome::Abandoned => "abandoned",
        };
        self.rounds.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(crate) fn phase(&self, phase: RoundPart, lasted: Duration) {
        let phase = match phase {
            RoundPart::Open => "open",
            RoundPart::Building => "building",
        };
        self.phases.get_or_create(&[("phase", phase)]).observe(lasted.as_secs_f64());
    }

    /// A call of a known name that began to be answered.
    pub(crate) fn call(&self, name: &'static str, outcome: &'static str, took: Duration) {
        self.calls.get_or_create(&[("call", name), ("outcome", outcome)]).inc();
        self.call_seconds.get_or_create(&[("call", name)]).observe(took.as_secs_f64());
    }

    pub(crate) fn queue(&self, queue: Queue, depth: usize) {
        self.queues.get_or_create(&[("queue", queue.name())]).set(gauge(depth));
    }

    /// How many are in each queue that was ever looked at.
    pub(crate) fn depths(&self) -> Vec<(&'static str, i64)> {
        let depth = |queue: Queue| Some((queue.name(), self.queues.get(&[("queue", queue.name())])?.get()));
        Queue::ALL.into_iter().filter_map(depth).collect()
    }

    /// Where bytes received and sent are counted.
    pub(crate) fn traffic(&self) -> (Counter, Counter) {
        let counter = |direction| self.bytes.get_or_create(&[("direction", direction)]).clone();
        (counter("received"), counter("sent"))
    }

    /// All of it, as Prometheus reads it (OpenMetrics).
    pub(crate) fn encode(&self) -> String {
        let Usage { resident, processor, .. } = Usage::of_this();
        self.resident_bytes.set(gauge(resident));
        self.cpu_seconds.set(processor);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// A number as gauges hold it.
pub(crate) fn gauge(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    add_made(registry, name, help, M::default())
}

fn add_made<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn optional(registry: &mut Registry, name: &str, help: &str) -> Optional {
    Optional(add(registry, name, help))
}

/// Counts a thing for as long as this exists.
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What the parts of a server share.
pub(crate) type SharedMetrics = Arc<Metrics>;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{Counted, Metrics, Outcome, Queue, RoundPart};

    #[test]
    fn everything_has_its_help_and_no_label_names_a_person() {
        let metrics = Metrics::new();
        metrics.round(Outcome::Ready);
        metrics.phase(RoundPart::Open, Duration::from_secs(2));
        metrics.call("deposit", "ok", Duration::from_millis(3));
        metrics.queue(Queue::Builds, 1);
        metrics.traffic().0.inc_by(5);
        let _counted = Counted::new(&metrics.connections);
        let text = metrics.encode();
        for line in [
            "sottod_rounds_total{outcome=\"ready\"} 1",
            "sottod_round_phase_seconds_count{phase=\"open\"} 1",
            "sottod_calls_total{call=\"deposit\",outcome=\"ok\"} 1",
            "sottod_queue{queue=\"builds\"} 1",
            "sottod_bytes_total{direction=\"received\"} 5",
            "sottod_connections 1",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
        let allowed = ["outcome", "phase", "call", "queue", "direction", "le"];
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((_, labels)) = line.split_once('{') else { continue };
            for label in labels.split('}').next().unwrap_or_default().split(',') {
                let name = label.split('=').next().unwrap_or_default();
                assert!(allowed.contains(&name), "{line}");
            }
        }
        assert!(text.contains("sottod_resident_memory_bytes "), "{text}");
    }

    /// All that is measured, with something in everything.
    fn measured() -> String {
        let metrics = Metrics::new();
        metrics.round(Outcome::Abandoned);
        metrics.round(Outcome::Ready);
        metrics.queue(Queue::Builds, 0);
        metrics.phase(RoundPart::Building, Duration::from_secs(1));
        metrics.call("info", "ok", Duration::from_secs(1));
        metrics.queue(Queue::Commands, 0);
        metrics.traffic();
        metrics.certificate_days.set(1);
        metrics.peer_certificate_days.set(1);
        metrics.manifest_key_left.set(1);
        metrics.encode()
    }

    /// How many measurements a text names, all of which there must be.
    fn named(by: &str) -> usize {
        let text = measured();
        let mut shown = 0;
        for found in by.split("sottod_").skip(1) {
            let name = found.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            let name = ["_total", "_bucket"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(text.contains(&format!("# TYPE sottod_{name} ")), "{name}");
            shown += 1;
        }
        shown
    }

    /// A picture of nothing says that all is well.
    #[test]
    fn the_dashboard_shows_only_what_is_measured() {
        assert!(named(include_str!("../../../deploy/grafana-dashboard.json")) > 20);
    }

    /// An alert on nothing never comes.
    #[test]
    fn alerts_are_on_what_is_measured_and_say_what_to_do() {
        let alerts = include_str!("../../../deploy/alerts.yml");
        assert!(named(alerts) > 12);
        let count = |what| alerts.matches(what).count();
        let rules = count("- alert: ");
        assert!(rules > 12 && [count(" expr: "), count(" summary: "), count(" description: ")] == [rules; 3]);
        // A label that no measurement has is on nothing, too.
        let text = measured();
        for label in ["outcome=\"ready\"", "queue=\"builds\"", "outcome=\"abandoned\""] {
            assert!(alerts.contains(label) && text.contains(label), "{label}");
        }
    }

    #[test]
    fn a_server_without_a_certificate_says_nothing_of_its_end() {
        let metrics = Metrics::new();
        assert!(
            metrics.peer_certificate_days.get().is_none()
                && !metrics.encode().contains("_certificate_days{}")
        );
        metrics.peer_certificate_days.set(7);
        assert!(metrics.encode().contains("\nsottod_peer_certificate_days"), "{}", metrics.encode());
        assert_eq!(metrics.peer_certificate_days.get(), Some(7));
    }
}
