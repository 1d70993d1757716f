//! The arithmetic: from users and constants to cores and bytes.

use anyhow::{Context, ensure};
use serde::Serialize;
use sotto_protocol::audit::{AUDITED, RECEIPT_BYTES};
use sotto_protocol::deposit::{BOX_BYTES, DEPOSIT_BYTES};
use sotto_protocol::manifest::MANIFEST_BYTES;
use sottod::{Addressing, Preference};

use crate::model::{Calibration, RoundSize};

/// A signature under the manifest.
const SIGNATURE_BYTES: usize = 64;
/// Comes with every manifest: the end of a segment of seeds, and the hashes beside its path in the tree over as many
/// segments as a server has by default.
const SEED_PROOF_BYTES: usize = 32 * (1 + sottod::SEGMENTS.ilog2() as usize);
/// Rounds on the disk beside those that are retained: the one that is open, and the one that is being built.
const ROUNDS_UNDER_WAY: usize = 2;
/// What segments of the log that are not removed yet may take (docs/OPERATIONS.md).
const LOG_SLACK: f64 = 128.0 * 1024.0 * 1024.0;
/// Frames and checksums of the log, a share of the deposits.
const LOG_FRAMING: f64 = 0.01;
/// Of a cluster of so many or more, so many vote.
const VOTERS: u32 = 3;
/// Nodes that follow one.
const FOLLOWERS: u32 = 4;
/// An account in a snapshot, and the token that it was made with.
const ACCOUNT_BYTES: f64 = 64.0;

/// What is not measured.
#[derive(Clone, Copy, Debug, clap::Args, Serialize)]
pub(crate) struct Assumptions {
    /// Rounds that stay retrievable (R).
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub(crate) retained: u8,
    /// Share of the cores' time that is planned; the rest is for peaks. An assumption.
    #[arg(long, default_value_t = 0.8)]
    pub(crate) load: f64,
    /// Memory of one user's connection and session, KiB. An assumption.
    #[arg(long, default_value_t = 64.0)]
    pub(crate) connection_kib: f64,
    /// Nodes that share the users. Each builds every round; three of them vote, if there are so many.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) nodes: u32,
    /// With voce, voce-hint and voce-apart, what a round is arranged for.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) prefer: Preference,
}

impl Assumptions {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.load > 0.0 && self.load <= 1.0, "--load is above 0 and at most 1");
        ensure!(
            self.connection_kib.is_finite() && self.connection_kib >= 0.0,
            "--connection-kib is 0 or above"
        );
        Ok(())
    }
}

/// Memory, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Memory {
    /// Prepared buckets of the retained rounds and of the one that is being built.
    pub(crate) databases: f64,
    /// Boxes and codewords of the round that is being built.
    pub(crate) building: f64,
    /// Of the same rounds as the databases.
    pub(crate) mappings: f64,
    /// Of all users.
    pub(crate) keys: f64,
    /// Of all users, where they stand: those of two epochs.
    pub(crate) queries: f64,
    pub(crate) connections: f64,
}

impl Memory {
    pub(crate) fn total(&self) -> f64 {
        self.databases + self.building + self.mappings + self.keys + self.queries + self.connections
    }
}

/// What nodes send each other of a round, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Between {
    /// Every node gets all deposits.
    pub(crate) received: f64,
    /// The node that leads sends them to each other one that votes.
    pub(crate) leader_sends: f64,
    /// One that is followed sends them to so many as may follow it.
    pub(crate) followed_sends: f64,
}

impl Between {
    fn of(nodes: u32, deposits: f64) -> Self {
        let voters = if nodes < VOTERS { 1 } else { VOTERS };
        let answerers = nodes - voters;
        // Whoever leads is followed only if nobody else votes.
        let followed = answerers.min(FOLLOWERS);
        Self {
            received: if nodes > 1 { deposits } else { 0.0 },
            leader_sends: deposits * f64::from(voters - 1 + if voters == 1 { followed } else { 0 }),
            followed_sends: deposits * f64::from(followed),
        }
    }
}

/// What does not depend on the length of rounds. Times are CPU time, milliseconds; sizes are bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Need {
    pub(crate) users: usize,
    #[serde(skip)]
    pub(crate) round: RoundSize,
    pub(crate) assumptions: Assumptions,
    /// Of one user's round: answers, and moving bytes.
    pub(crate) answer_ms: f64,
    pub(crate) transport_ms: f64,
    /// In the mean over many rounds: what is not done in each, taking new keys and giving a bucket out to be checked.
    pub(crate) seldom_ms: f64,
    /// Of building the round, on one node.
    #[serde(skip)]
    pub(crate) build_ms: f64,
    #[serde(rename = "between_nodes_bytes")]
    pub(crate) between: Between,
    /// Relative error of all CPU time of a round.
    pub(crate) error: f64,
    #[serde(rename = "memory_bytes")]
    pub(crate) memory: Memory,
    #[serde(rename = "disk_bytes")]
    pub(crate) disk: f64,
    /// Payload of one user in a round, in the mean over many.
    #[serde(rename = "up_bytes_per_user_round")]
    pub(crate) up: f64,
    #[serde(rename = "down_bytes_per_user_round")]
    pub(crate) down: f64,
    /// Of these uploads what is uploaded in one round of [`sotto_wire::limits::UPLOAD_ROUNDS`]: public keys.
    #[serde(rename = "keys_bytes_per_set")]
    pub(crate) keys: f64,
    /// Of these downloads what is downloaded in one round of [`AUDITED`]: a bucket, to check an answer.
    #[serde(rename = "check_bytes_per_bucket")]
    pub(crate) check: f64,
}

impl Need {
    pub(crate) fn of(
        users: usize,
        (retrieve, addressing): (usize, Addressing),
        assumptions: &Assumptions,
        calibration: &Calibration,
    ) -> anyhow::Result<Self> {
        let round =
            RoundSize::preferring(assumptions.prefer, users, retrieve, addressing, calibration.engine)
                .with_context(|| format!("{users} users"))?;
        let constants = &calibration.constants;
        let mapping = round.mapping_bytes() as f64;
        let announced = MANIFEST_BYTES + SIGNATURE_BYTES + SEED_PROOF_BYTES;
        // In every round, and one round in so many.
        let up = (round.deposit_bytes() + round.upload_bytes()) as f64;
        let down = (announced + round.download_bytes() + RECEIPT_BYTES) as f64 + mapping;
        let engine = calibration.engine.engine();
        let (keys, check) = (engine.public_keys_bytes() as f64, round.check_bytes() as f64);
        // Whoever knows of several nodes is known at two of them.
        let held = f64::from(assumptions.nodes.min(2));
        let (replaced, checked) = (1.0 / sotto_wire::limits::UPLOAD_ROUNDS as f64, 1.0 / AUDITED as f64);

        let answer_ms = constants.client_round(&round).total();
        let transport_ms = constants.transport(up + down);
        let seldom_ms =
            held * replaced * constants.take_keys(keys) + checked * constants.give_bucket(&round, check);
        let build_ms = constants.build_round(&round);
        let (up, down) = (up + held * replaced * keys, down + checked * check);

        let (n, nodes) = (users as f64, f64::from(assumptions.nodes));
        // Transport is measured in two short loops: all of it counts as error. So does what is seldom.
        let parts = [
            n * answer_ms * calibration.answer_error.total(),
            n * (transport_ms + seldom_ms),
            nodes * build_ms * calibration.setup_error.total(),
        ];
        let error = parts.iter().map(|part| part * part).sum::<f64>().sqrt()
            / (n * (answer_ms + transport_ms + seldom_ms) + nodes * build_ms);

        let rounds = f64::from(assumptions.retained) + 1.0;
        // Keys that were replaced stay until the round that was open then is over, and so are all before it.
        let memory = Memory {
            databases: nodes * rounds * round.database_bytes(),
            building: nodes * (round.boxes as f64 + round.codewords()) * BOX_BYTES as f64,
            mappings: nodes * rounds * mapping,
            keys: held * n * (1.0 + (rounds + 1.0) * replaced) * sottod::key_memory_bytes(&*engine) as f64,
            queries: n * round.standing_bytes() as f64,
            connections: held * n * assumptions.connection_kib * 1024.0,
        };
        let logged = usize::from(assumptions.retained) + ROUNDS_UNDER_WAY;
        let logged = (logged * users * DEPOSIT_BYTES) as f64 * (1.0 + LOG_FRAMING);
        let disk = nodes * (logged + LOG_SLACK + n * ACCOUNT_BYTES);
        let between = Between::of(assumptions.nodes, (users * DEPOSIT_BYTES) as f64);
        Ok(Self {
            users,
            round,
            assumptions: *assumptions,
            answer_ms,
            transport_ms,
            seldom_ms,
            build_ms,
            between,
            error,
            memory,
            disk,
            up,
            down,
            keys,
            check,
        })
    }

    /// CPU time of one user's round, milliseconds, without what is seldom.
    pub(crate) fn every_round_ms(&self) -> f64 {
        self.answer_ms + self.transport_ms
    }

    /// The same in the mean over many rounds.
    pub(crate) fn client_round_ms(&self) -> f64 {
        self.every_round_ms() + self.seldom_ms
    }

    /// CPU time of a whole round, seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let built = f64::from(self.assumptions.nodes) * self.build_ms;
        (self.users as f64 * self.client_round_ms() + built) / 1e3
    }

    /// Cores for rounds of so many seconds.
    pub(crate) fn cores(&self, round: f64) -> f64 {
        self.cpu_seconds() / (round * self.assumptions.load)
    }

    /// The shortest round on so many cores, seconds.
    pub(crate) fn round_seconds(&self, cores: f64) -> f64 {
        self.cpu_seconds() / (cores * self.assumptions.load)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
pub(crate) mod tests {
    use sotto_measuring::engine::EngineName;
    use sotto_measuring::machine::Machine;
    use sottod::{Addressing, Preference};

    use super::{Assumptions, Between, Need};
    use crate::model::RoundSize;
    use crate::model::tests::BY_HAND;
    use crate::model::{Calibration, Uncertainty};

    pub(crate) const ASSUMED: Assumptions =
        Assumptions { retained: 2, load: 0.8, connection_kib: 64.0, nodes: 1, prefer: Preference::Balanced };

    pub(crate) fn calibration() -> Calibration {
        let error = |spread, residual| Uncertainty { spread, residual };
        Calibration {
            machine: Machine::here(),
            commit: None,
            model: 0,
            engine: EngineName::Sealpir,
            threads: 1,
            constants: BY_HAND,
            answer_error: error(0.03, 0.04),
            setup_error: error(0.0, 0.1),
        }
    }

    pub(crate) fn need(users: usize, retrieve: usize) -> Need {
        Need::of(users, (retrieve, Addressing::Labels), &ASSUMED, &calibration()).unwrap()
    }

    fn close(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
    }

    /// Where queries stand, nothing differs from slots but that one of eight is uploaded, and that they are kept.
    #[test]
    fn queries_that_stand_cost_an_eighth_of_their_upload_and_memory() {
        let round = |way| RoundSize::new(1 << 18, 16, way, EngineName::VoceHint).unwrap();
        let (slots, standing) = (round(Addressing::Slots), round(Addressing::Standing));
        assert_eq!((standing.buckets, standing.bucket.elements), (slots.buckets, slots.bucket.elements));
        assert_eq!(standing.download_bytes(), slots.download_bytes());
        assert_eq!(standing.upload_bytes(), (slots.upload_bytes() + 7 * 32).div_ceil(8));
        assert_eq!((slots.standing_bytes(), standing.standing_bytes()), (0, 2 * slots.upload_bytes()));
    }

    /// What differs with slots: a table in place of the deposits, equal buckets, nothing to download but answers.
    #[test]
    fn a_deployment_with_slots_agrees_with_a_calculation_by_hand() {
        let need = Need::of(1 << 18, (16, Addressing::Slots), &ASSUMED, &calibration()).unwrap();
        let round = &need.round;
        // 2^13 lots of 33 places, 36 buckets in 3 groups of 12.
        assert_eq!((round.boxes, round.buckets, round.bucket.elements), (33 << 13, 36, 22_528));
        let (query, answer) = (36.0 * round.bucket.parameters.query_bytes() as f64, 36.0 * 34_820.0);
        let (keys, check) = (755_236.0, 36.0 * 32.0 + 22_528.0 * 288.0);
        close(need.up, 300.0 + query + keys / 64.0);
        close(need.down, 268.0 + 64.0 + 14.0 * 32.0 + answer + 64.0 + check / 128.0);
        let setup = 36.0 * (100.0 + 16.0 * round.bucket.plaintexts()) / 1e3;
        close(need.build_ms, setup + 36.0 * 22_528.0 * 0.0005 + f64::from(33 << 13) * 0.001);
        assert_eq!(need.memory.mappings, 0.0);
        // A user more, and there is a lot more, and an eighth of the lots with it.
        let more = Need::of((1 << 18) + 1, (16, Addressing::Slots), &ASSUMED, &calibration()).unwrap();
        assert_eq!(more.round.boxes, 33 * 9216);
    }

    /// Users are shared, rounds are not.
    #[test]
    fn every_node_builds_every_round_and_answers_its_share() {
        let of = |nodes| {
            let assumed = Assumptions { nodes, ..ASSUMED };
            Need::of(1 << 16, (16, Addressing::Labels), &assumed, &calibration()).unwrap()
        };
        let (one, seven) = (of(1), of(7));
        // Keys are brought to two nodes.
        let taken = 65_536.0 * calibration().constants.take_keys(one.keys) / 64.0;
        close(seven.cpu_seconds() - one.cpu_seconds(), (6.0 * one.build_ms + taken) / 1e3);
        close(seven.up - one.up, one.keys / 64.0);
        close(seven.disk, 7.0 * one.disk);
        close(seven.memory.databases, 7.0 * one.memory.databases);
        close(seven.memory.building, 7.0 * one.memory.building);
        close(seven.memory.mappings, 7.0 * one.memory.mappings);
        close(seven.memory.keys, 2.0 * one.memory.keys);
        close(seven.memory.connections, 2.0 * one.memory.connections);
        let deposits = f64::from(304 << 16);
        let between = |received, leader_sends, followed_sends| Between {
            received: received * deposits,
            leader_sends: leader_sends * deposits,
            followed_sends: followed_sends * deposits,
        };
        assert_eq!(one.between, Between::default());
        // One that votes, and one that follows it; then three that vote, of which the two that do not lead are followed.
        assert_eq!(of(2).between, between(1.0, 1.0, 1.0));
        assert_eq!(of(3).between, between(1.0, 2.0, 0.0));
        assert_eq!(seven.between, between(1.0, 2.0, 4.0));
        assert_eq!(of(100).between, between(1.0, 2.0, 4.0));
    }

    /// One bucket of 8192 boxes, k = 1: every number can be calculated by hand from docs/PARAMETERS.md and the constants.
    #[test]
    fn a_small_deployment_agrees_with_a_calculation_by_hand() {
        let need = need(8192, 1);
        let bucket = need.round.bucket.parameters;
        // In three parts: docs/PARAMETERS.md.
        assert_eq!((bucket.rows(), bucket.columns(), bucket.parts()), (29, 12, 3));
        assert_eq!((bucket.expand_transforms(), bucket.answer_bytes()), (335, 104_452));
        let (rows, columns) = (29.0, 36.0);
        let scanned = rows * columns * 9.0;
        close(
            need.answer_ms,
            0.5 + 3.35 + (rows + columns) * 0.01 + scanned * 0.0002 + 12.0 * 0.05 + columns * 0.04,
        );
        let mapping = need.round.mapping_bytes() as f64;
        // A deposit and the query; manifest, signature and the seed's proof; the answer and its receipt.
        let up = 304.0 + bucket.query_bytes() as f64;
        let down = 268.0 + 64.0 + 14.0 * 32.0 + 104_452.0 + 64.0 + mapping;
        close(need.transport_ms, 1.0 + (up + down) / 1024.0 * 0.002);
        // Keys, of which a set comes in 64 rounds, and the only bucket with its digest, one round in 128.
        let (keys, check) = (755_236.0, 32.0 + 8192.0 * 288.0);
        close(need.up, up + keys / 64.0);
        close(need.down, down + check / 128.0);
        let take_keys = 5.0 + keys / 1024.0 * 0.002;
        let give_bucket = 8192.0 * 0.0005 + check / 1024.0 * 0.002;
        close(need.seldom_ms, take_keys / 64.0 + give_bucket / 128.0);
        close(need.client_round_ms(), need.answer_ms + need.transport_ms + need.seldom_ms);
        close(need.build_ms, 0.1 + rows * columns * 0.016 + 8192.0 * (0.0005 + 0.001 + 0.00025));
        close(need.cpu_seconds(), (8192.0 * need.client_round_ms() + need.build_ms) / 1e3);
        close(need.cores(10.0), need.cpu_seconds() / 8.0);
        close(need.round_seconds(need.cores(10.0)), 10.0);

        close(need.memory.databases, 3.0 * scanned * 1024.0);
        close(need.memory.building, 2.0 * 8192.0 * 288.0);
        // In 4 rounds of 64 two sets: until the round that was open, the one before it and the 2 retained are over.
        close(need.memory.keys, 8192.0 * 68.0 / 64.0 * 3.0 * 755_236.0);
        close(need.memory.connections, 8192.0 * 65_536.0);
        close(need.disk, 4.0 * 8192.0 * 304.0 * 1.01 + f64::from(128 << 20) + 8192.0 * 64.0);
        let unsure = need.transport_ms + need.seldom_ms;
        let errors: [f64; 3] = [8192.0 * need.answer_ms * 0.05, 8192.0 * unsure, need.build_ms * 0.1];
        close(need.error, errors.iter().map(|e| e * e).sum::<f64>().sqrt() / (need.cpu_seconds() * 1e3));
    }

    /// A plan in which growth makes something cheaper would mislead whoever buys by it.
    #[test]
    fn more_users_or_more_messages_never_need_less() {
        let quantities = |need: &Need| {
            [
                need.cpu_seconds(),
                need.memory.total(),
                need.disk,
                need.down * need.users as f64,
                need.up * need.users as f64,
            ]
        };
        let grows = |needs: Vec<Need>| {
            for pair in needs.windows(2) {
                let [less, more] = [&pair[0], &pair[1]].map(quantities);
                assert!(less.iter().zip(&more).all(|(less, more)| less <= more), "{less:?} {more:?}");
            }
        };
        for retrieve in [1, 16, 64] {
            grows(
                (8..=20)
                    .flat_map(|log| [1 << log, 3 << (log - 1)])
                    .map(|users| need(users, retrieve))
                    .collect(),
            );
        }
        grows([2, 4, 8, 16, 32, 64, 128, 256].into_iter().map(|retrieve| need(1 << 16, retrieve)).collect());
    }
}
