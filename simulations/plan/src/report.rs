//! The plan, for people and for programs.

use serde::Serialize;
use sotto_protocol::audit::AUDITED;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_wire::limits::UPLOAD_ROUNDS;

use crate::estimate::{Assumptions, Between, Need};
use crate::largest::Bound;
use crate::model::{Calibration, Constants, Uncertainty};
use crate::prices::{MONTH_HOURS, Prices};

/// Accounts that one server keeps (docs/OPERATIONS.md).
const ACCOUNTS_MAX: usize = 1 << 20;

/// A value, and between what it lies if the errors are as large as they were when the constants were measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Estimate {
    fn new(value: f64, error: f64) -> Self {
        Self { value, low: value * (1.0 - error).max(0.0), high: value * (1.0 + error) }
    }
}

/// A month, in the currency of the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct MonthlyCost {
    pub(crate) cores: f64,
    pub(crate) memory: f64,
    pub(crate) disk: f64,
    pub(crate) egress: f64,
    pub(crate) total: f64,
    pub(crate) per_user: f64,
    /// If the cores are at the upper end of their estimate.
    pub(crate) per_user_high: f64,
}

/// Everything that is told.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Plan {
    #[serde(flatten)]
    need: Need,
    retrieve: usize,
    buckets: usize,
    bucket_size: usize,
    box_bytes: usize,
    /// Length of a round: the one asked for, or the shortest one for the cores.
    round_seconds: f64,
    /// Needed for rounds of this length.
    cores: Estimate,
    /// Whole cores that are paid: those there are, or those needed.
    cores_paid: f64,
    /// The shortest round on the cores paid.
    shortest_round_seconds: Estimate,
    client_round_ms: f64,
    build_seconds: f64,
    memory_total_bytes: f64,
    /// Of all users, 10^6 bits per second over a round.
    server_receives_mbit: f64,
    server_sends_mbit: f64,
    monthly_cost: MonthlyCost,
    prices: Prices,
    /// What does not allow more users, if the most were asked for.
    bound: Option<Bound>,
    /// Settings of the server that must be at least so large.
    key_mib: f64,
    warnings: Vec<String>,
    constants: Constants,
    answer_error: Uncertainty,
    setup_error: Uncertainty,
    threads_measured: usize,
    machine: String,
}

impl Plan {
    /// At least one of the length of a round and the cores is given.
    pub(crate) fn new(
        need: Need,
        round: Option<f64>,
        cores: Option<f64>,
        bound: Option<Bound>,
        prices: &Prices,
        calibration: &Calibration,
    ) -> Self {
        let round_seconds = round.unwrap_or_else(|| need.round_seconds(cores.unwrap_or(1.0)));
        let needed = need.cores(round_seconds);
        let whole = |needed: f64| cores.unwrap_or_else(|| needed.ceil().max(1.0));
        let paid = whole(needed);
        let (users, memory) = (need.users as f64, need.memory.total());
        let rounds = MONTH_HOURS * 3600.0 / round_seconds;
        let mut monthly_cost = MonthlyCost {
            cores: paid * prices.core_hour * MONTH_HOURS,
            memory: memory / 1e9 * prices.gb_memory_hour * MONTH_HOURS,
            disk: need.disk / 1e9 * prices.gb_disk_month,
            egress: users * need.down * rounds / 1e9 * prices.gb_egress,
            ..MonthlyCost::default()
        };
        let MonthlyCost { cores: of_cores, memory: of_memory, disk, egress, .. } = monthly_cost;
        let high = whole(needed * (1.0 + need.error)) * prices.core_hour * MONTH_HOURS;
        monthly_cost.total = of_cores + of_memory + disk + egress;
        monthly_cost.per_user = monthly_cost.total / users;
        monthly_cost.per_user_high = (high + of_memory + disk + egress) / users;
        let mut warnings = Vec::new();
        if need.users > ACCOUNTS_MAX {
            warnings.push(format!(
                "a server keeps {ACCOUNTS_MAX} accounts at most: these users need several servers"
            ));
        }
        if needed > paid {
            warnings.push(format!("{needed:.1} cores are needed for such rounds, and there are {paid}"));
        }
        Self {
            retrieve: need.round.retrieve,
            buckets: need.round.buckets,
            bucket_size: need.round.bucket.elements,
            box_bytes: BOX_BYTES,
            round_seconds,
            cores: Estimate::new(needed, need.error),
            cores_paid: paid,
            shortest_round_seconds: Estimate::new(need.round_seconds(paid), need.error),
            client_round_ms: need.client_round_ms(),
            build_seconds: need.build_ms / 1e3,
            memory_total_bytes: memory,
            server_receives_mbit: users * need.up * 8.0 / 1e6 / round_seconds,
            server_sends_mbit: users * need.down * 8.0 / 1e6 / round_seconds,
            monthly_cost,
            prices: *prices,
            bound,
            key_mib: (need.memory.keys / f64::from(1 << 20)).ceil(),
            warnings,
            constants: calibration.constants,
            answer_error: calibration.answer_error,
            setup_error: calibration.setup_error,
            threads_measured: calibration.threads,
            machine: calibration.machine.describe(),
            need,
        }
    }

    /// For people.
    pub(crate) fn print(&self) {
        let Need { users, answer_ms, transport_ms, seldom_ms, up, down, memory, assumptions, .. } =
            &self.need;
        let Self { retrieve, buckets, bucket_size, .. } = self;
        let line = |name: &str, text: String| println!("{name:12} {text}");
        println!(
            "{users} users, each retrieves {retrieve} messages a round: {buckets} buckets of {bucket_size} boxes"
        );
        println!("constants measured on {}, {} threads at work", self.machine, self.threads_measured);
        if let Some(bound) = self.bound {
            line("bound by", format!("{bound:?}: more users do not fit"));
        }
        line("round", seconds(self.round_seconds));
        let Estimate { value, low, high } = self.cores;
        line("cores", format!("{value:.2} ({low:.2} to {high:.2}), paid {:.0}", self.cores_paid));
        let Estimate { value, low, high } = self.shortest_round_seconds;
        let [value, low, high] = [value, low, high].map(seconds);
        line("", format!("with those the shortest round is {value} ({low} to {high})"));
        line(
            "",
            format!(
                "{:.2} ms for each user and round ({answer_ms:.2} answers, {transport_ms:.2} transport, {seldom_ms:.2} keys and checks), {} to build a round",
                self.client_round_ms,
                seconds(self.build_seconds)
            ),
        );
        line("memory", bytes(self.memory_total_bytes));
        for (part, size) in [
            ("prepared rounds", memory.databases),
            ("round being built", memory.building),
            ("mappings", memory.mappings),
            ("keys of all users", memory.keys),
            ("queries that stand", memory.queries),
            ("connections", memory.connections),
        ] {
            println!("  {part:19} {}", bytes(size));
        }
        line("disk", bytes(self.need.disk));
        let ([up, down], [keys, check]) =
            ([*up, *down].map(bytes), [self.need.keys, self.need.check].map(bytes));
        line("traffic", format!("a user sends {up} and receives {down} a round in the mean,"));
        line(
            "",
            format!(
                "with {keys} of keys in one round of {UPLOAD_ROUNDS} and {check} of a bucket in one of {AUDITED}"
            ),
        );
        let (receives, sends) = (self.server_receives_mbit, self.server_sends_mbit);
        line("", format!("the server receives {receives:.1} and sends {sends:.1} Mbit/s"));
        if assumptions.nodes > 1 {
            self.print_nodes();
        }
        let MonthlyCost { cores, memory, disk, egress, total, per_user, per_user_high } = self.monthly_cost;
        line(
            "cost",
            format!("{per_user:.4} per user and month (at most {per_user_high:.4}), {total:.2} for all:"),
        );
        line("", format!("cores {cores:.2}, memory {memory:.2}, disk {disk:.2}, egress {egress:.2}"));
        let Prices { core_hour, gb_egress, gb_memory_hour, gb_disk_month } = self.prices;
        line(
            "assumptions",
            format!(
                "core-hour {core_hour}, GB sent {gb_egress}, GB-hour of memory {gb_memory_hour}, GB-month of disk {gb_disk_month};"
            ),
        );
        let Assumptions { retained, load, connection_kib, .. } = assumptions;
        let percent = 100.0 * load;
        line(
            "",
            format!(
                "{retained} rounds retained, cores loaded to {percent:.0} %, {connection_kib} KiB for each connection"
            ),
        );
        line(
            "settings",
            format!(
                "key_mib = {:.0} at least; deposits at least {users}, connections and sessions {}{}",
                self.key_mib,
                users * if assumptions.nodes > 1 { 2 } else { 1 },
                if assumptions.nodes > 1 { "; but for deposits, of all nodes together" } else { "" }
            ),
        );
        self.warnings.iter().for_each(|warning| line("CAUTION", warning.clone()));
    }

    /// What one node of several needs, and what they send each other.
    fn print_nodes(&self) {
        let nodes = f64::from(self.need.assumptions.nodes);
        let Between { received, leader_sends, followed_sends } = self.need.between;
        let mbit = |bytes: f64| bytes * 8.0 / 1e6 / self.round_seconds;
        println!(
            "{:12} {nodes} of {:.2} cores, {} of memory and {} of disk each, and more of each when one is lost;",
            "nodes",
            self.cores.value / nodes,
            bytes(self.memory_total_bytes / nodes),
            bytes(self.need.disk / nodes)
        );
        println!(
            "{:12} each receives {:.1} Mbit/s from another one; the one that leads sends {:.1}, one that is followed {:.1}",
            "",
            mbit(received),
            mbit(leader_sends),
            mbit(followed_sends)
        );
    }
}

fn seconds(value: f64) -> String {
    match value {
        _ if value < 1.0 => format!("{:.0} ms", 1e3 * value),
        _ if value < 600.0 => format!("{value:.1} s"),
        _ => format!("{:.1} min", value / 60.0),
    }
}

/// Decimal units.
pub(crate) fn bytes(value: f64) -> String {
    match value {
        _ if value < 1e6 => format!("{:.1} KB", value / 1e3),
        _ if value < 1e9 => format!("{:.1} MB", value / 1e6),
        _ if value < 1e12 => format!("{:.2} GB", value / 1e9),
        _ => format!("{:.2} TB", value / 1e12),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use super::{Plan, Prices};
    use crate::estimate::tests::{calibration, need};

    const PRICES: Prices =
        Prices { core_hour: 0.1, gb_egress: 0.02, gb_memory_hour: 0.01, gb_disk_month: 0.5 };

    fn plan(users: usize, round: Option<f64>, cores: Option<f64>) -> Plan {
        Plan::new(need(users, 16), round, cores, None, &PRICES, &calibration())
    }

    /// Each of the four prices, by hand.
    #[test]
    fn a_month_costs_what_the_prices_say() {
        let (of, plan) = (need(10_000, 16), plan(10_000, Some(60.0), None));
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        let cost = plan.monthly_cost;
        close(plan.cores_paid, of.cores(60.0).ceil());
        close(cost.cores, plan.cores_paid * 0.1 * 730.0);
        close(cost.memory, of.memory.total() / 1e9 * 0.01 * 730.0);
        close(cost.disk, of.disk / 1e9 * 0.5);
        // 43,800 rounds of a minute are a month.
        close(cost.egress, 10_000.0 * of.down * 43_800.0 / 1e9 * 0.02);
        close(cost.total, cost.cores + cost.memory + cost.disk + cost.egress);
        close(cost.per_user, cost.total / 10_000.0);
        assert!(cost.per_user_high >= cost.per_user);
        close(plan.cores.high - plan.cores.low, 2.0 * plan.cores.value * of.error);
    }

    /// Given cores, the round is as short as they allow; more users must not be told of shorter ones.
    #[test]
    fn rounds_follow_from_cores_and_grow_with_users() {
        let given = plan(1 << 14, None, Some(4.0));
        assert!((given.round_seconds / need(1 << 14, 16).round_seconds(4.0) - 1.0).abs() < 1e-9);
        assert!((given.cores.value - 4.0).abs() < 1e-9);
        assert!(plan(1 << 15, None, Some(4.0)).round_seconds > given.round_seconds);
        assert!(plan(1 << 15, Some(1.0), Some(4.0)).warnings.iter().any(|warning| warning.contains("cores")));
        assert!(given.warnings.is_empty());
        for pair in [1 << 12, 1 << 14, 1 << 16, 1 << 18].map(|users| plan(users, Some(60.0), None)).windows(2)
        {
            assert!(pair[0].monthly_cost.total <= pair[1].monthly_cost.total);
        }
    }
}
