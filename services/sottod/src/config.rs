//! What an operator decides, and whether it can work.

use core::fmt;
use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use mpir::{Engine, Form, RoundSpec};
use serde::{Deserialize, Serialize};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::seed::SEGMENTS_MAX;
use sotto_protocol::{
    CodeKind, KeyEpoch, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters,
};
use sotto_wire::{Host, Transport};
use zeroize::Zeroizing;

use crate::identity::CertificateFiles;
use crate::largest::{holds, sizes_fit};
use crate::machine;
use crate::population::Population;

/// Everything a server is started with.
#[derive(Clone)]
pub struct Config {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Whether connections are encrypted; without, loopback only.
    pub transport: Transport,
    /// Host and port under which clients reach the server, if not those of `listen`.
    pub public: Option<(Host, u16)>,
    /// Where to tell the operator's programs how the server is, over plain HTTP; `None` for nowhere.
    pub operations: Option<SocketAddr>,
    /// Where to listen for the cluster's other nodes; only if the data directory is of a cluster.
    pub peers: SocketAddr,
    /// Who may make an account.
    pub registration: Registration,
    /// The node's certificate and key, if not those that go with the data directory.
    pub certificate: Option<CertificateFiles>,
    /// When a round ends; [`RoundMode::ClosedLoop`] is for simulations and demonstrations.
    pub mode: RoundMode,
    /// Length of a round, ms; in closed loop the least length.
    pub round_ms: u32,
    /// Messages a client retrieves per round (k).
    pub retrieve: u16,
    /// The batch code; cuckoo hashing is taken as [`CodeKind::Single`] if k = 1. [`CodeKind::Partitioned`] goes with slots in
    /// place of labels, and [`CodeKind::Standing`] with queries that stand, too; the others are there to compare with.
    pub code: CodeKind,
    /// Buckets (b); `None` for as many as k and w need.
    pub buckets: Option<u16>,
    /// Candidate buckets of a label or slot (w); only cuckoo hashing and slots leave a choice.
    pub choices: u8,
    /// Rounds that stay retrievable (R), 1 to 4.
    pub retained: u8,
    /// Offset of the deposit after a round opens, ms.
    pub deposit_ms: u32,
    /// Offset after a round is ready at which an unfinished look-up is given up, ms.
    pub lookup_ms: u32,
    /// Offset of the multi-query after a round is ready, ms.
    pub query_ms: u32,
    /// Over how much time clients spread their deposits, ms; `None` for what fits best.
    pub deposit_spread_ms: Option<u32>,
    /// Over how much time clients spread their retrievals, ms; `None` for what fits best.
    pub query_spread_ms: Option<u32>,
    /// Segments of 4,096 rounds for which seeds are made, when they are; `None` for two years of rounds of 2 s with a data
    /// directory, and for six days without.
    pub seed_segments: Option<u32>,
    /// The first round. Under a key that was used before, it must be later than all rounds served then.
    pub first_round: Round,
    /// Seed of the key that signs manifests, from which the root key follows; `None` for a fresh one.
    pub manifest_seed: Option<Zeroizing<[u8; 32]>>,
    /// Directory that keeps key, rounds and accounts over restarts; `None` to keep everything in memory. With it, the
    /// key is the one there. The first round of a new log is not below the number of round lengths since 1970; later
    /// ones follow the newest in the log, whatever the clock says.
    pub data: Option<PathBuf>,
    /// The directory was restored from a backup, and may not know of the newest rounds: the first round is then not
    /// below the number of round lengths since 1970 either. That is above all numbers used since the backup, unless the
    /// clock is wrong, or rounds were shorter at any time since the log began (shorter rounds have higher numbers), or
    /// restarts outran the time that the server stood still.
    pub restored: bool,
    /// Bounds on what clients can make the server hold or do.
    pub limits: Limits,
    /// Simulated users, whose deposits every round holds beside those of the clients; for measurements in closed loop
    /// alone. No command line has this.
    pub population: Option<Population>,
    /// Permits an engine without privacy, for tests of everything else.
    #[doc(hidden)]
    pub allow_no_privacy: bool,
}

/// Where nodes listen for each other, if nothing else is said.
const PEERS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 7372);
/// Most of anything that is counted.
const COUNT_MAX: usize = 1 << 24;
/// Most threads that compute.
const THREADS_MAX: usize = 1024;
/// Larger tiles gain nothing more.
const TILE_MAX: usize = 64;
/// Least time between the last deposit and the end of its round, ms: it is stored before.
const DEPOSIT_MARGIN_MS: u32 = 500;

/// Who may make an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registration {
    /// Whoever reaches the server.
    Open,
    /// Who has a token that the operator has made and nobody has used. Needs a data directory.
    Token,
}

/// How clients find boxes in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// Under labels, by a mapping that everybody downloads.
    Labels,
    /// In slots, one for each account, whose places are computed.
    Slots,
    /// The same, with places that stay and queries that stand for eight rounds: a client uploads one of eight, and meets people, and
    /// finds what its query has no place for, later. The server keeps the queries in memory.
    Standing,
}

impl Addressing {
    /// As it is written on command lines and in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Slots => "slots",
            Self::Standing => "standing",
        }
    }

    /// The batch code that goes with it.
    #[must_use]
    pub const fn code(self) -> CodeKind {
        match self {
            Self::Labels => CodeKind::Cuckoo,
            Self::Slots => CodeKind::Partitioned,
            Self::Standing => CodeKind::Standing,
        }
    }
}

/// Bounds on what clients can make the server hold or do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections; for one more, one that has not shown an account is closed, or it is closed itself.
    pub connections: usize,
    /// How long a connection may last before a call on it shows an account.
    pub unknown: Duration,
    /// Concurrent calls on one connection.
    pub streams_per_connection: u32,
    /// Registered accounts with a session; idle ones make room for new ones.
    pub sessions: usize,
    /// How long a session that is not used stays safe from making room.
    pub session_idle: Duration,
    /// How long a challenge is valid.
    pub challenge_age: Duration,
    /// Memory for PIR keys, bytes; beyond, those longest unused are dropped and asked for again.
    pub key_bytes: usize,
    /// The same on the disk, where they outlast the process; 0 for none.
    pub key_file_bytes: usize,
    /// Key uploads under way.
    pub uploads: usize,
    /// Multi-queries coming in, or waiting for one of the `retrievals`.
    pub queries: usize,
    /// Retrievals being answered, from the whole query to the last byte of the answers; the next ones wait.
    pub retrievals: usize,
    /// Memory for multi-queries, from their first byte to the last of the answers, bytes; for one more there is none left.
    pub query_bytes: usize,
    /// Memory for multi-queries that stand, bytes; those for which there is no room are sent again in every round.
    pub standing_bytes: usize,
    /// Memory for answers, and, a quarter of it, for buckets that are sent to those who check answers, bytes; the next ones
    /// wait.
    pub answer_bytes: usize,
    /// Mappings being sent.
    pub mappings: usize,
    /// Tiles of retrievals computing at the same time; the others wait.
    pub computing: usize,
    /// Retrievals of one round that are answered together, at most.
    pub tile: usize,
    /// How long retrievals wait for others that would be answered together with them.
    pub gather: Duration,
    /// Threads that compute.
    pub threads: usize,
    /// Most deposits in a round.
    pub deposits: usize,
    /// How long a peer may neither send what it owes nor take what it asked for.
    pub stall: Duration,
    /// How long one call may take, [`Watch`](sotto_wire::proto::WatchRequest) excepted.
    pub call: Duration,
    /// How long a shutdown waits for calls under way and for the round log.
    pub drain: Duration,
}

/// Memory that a server counts with if the machine does not say how much it has.
const MEMORY_BYTES: u64 = 32 << 30;
/// What a server counts for each connection: a set of keys of the default engine, and a little for those that are replaced. It is
/// by far the most that is kept of a person.
const PERSON_BYTES: usize = 9 << 18;
/// The same on the disk.
const PERSON_FILE_BYTES: usize = 768 << 10;
/// Sessions for each connection. Who leaves keeps its session for ten minutes: so many may come and go by one place, each for ten
/// seconds, before somebody who has a connection is refused a session.
const SESSIONS_PER_CONNECTION: usize = 64;
/// Open files that are not connections of clients: segments of the log, other nodes, libraries.
const OTHER_FILES: u64 = 256;
/// Fewer connections serve nobody, and more are beyond the limits that can be set.
const CONNECTIONS: core::ops::RangeInclusive<u64> = 64..=1 << 18;

impl Limits {
    /// Those that a machine has room for: a quarter of the memory is for keys, as many connections as there is room for keys of, a
    /// sixteenth of it for answers, half as much for multi-queries, and an eighth for those that stand. The rest is for rounds.
    pub(crate) fn of_machine(memory: Option<u64>, open_files: Option<u64>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let memory = usize::try_from(memory.unwrap_or(MEMORY_BYTES)).unwrap_or(usize::MAX);
        let key_bytes = whole_mebibytes(memory / 4);
        let places = (key_bytes / PERSON_BYTES) as u64;
        let files = open_files.map_or(u64::MAX, |files| files.saturating_sub(OTHER_FILES));
        let connections = places.min(files).clamp(*CONNECTIONS.start(), *CONNECTIONS.end()) as usize;
        Self {
            connections,
            unknown: Duration::from_secs(60),
            streams_per_connection: 16,
            sessions: Self::sessions_for(connections),
            session_idle: Duration::from_secs(600),
            challenge_age: Duration::from_secs(30),
            key_bytes,
            key_file_bytes: Self::key_files_for(connections),
            uploads: 256,
            queries: 1024,
            retrievals: 256,
            query_bytes: whole_mebibytes(memory / 32),
            standing_bytes: whole_mebibytes(memory / 8),
            answer_bytes: whole_mebibytes(memory / 16),
            mappings: 1024,
            computing: threads.max(2),
            tile: 16,
            gather: Duration::from_millis(100),
            threads,
            deposits: 1 << 22,
            stall: Duration::from_secs(10),
            call: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }

    /// How many sessions go with so many connections.
    pub(crate) fn sessions_for(connections: usize) -> usize {
        connections.saturating_mul(SESSIONS_PER_CONNECTION).min(COUNT_MAX)
    }

    /// How much of the disk the keys of so many people take, bytes.
    pub(crate) fn key_files_for(connections: usize) -> usize {
        connections.saturating_mul(PERSON_FILE_BYTES)
    }
}

fn whole_mebibytes(bytes: usize) -> usize {
    (bytes >> 20).clamp(16, COUNT_MAX) << 20
}

impl Default for Limits {
    fn default() -> Self {
        Self::of_machine(machine::memory_bytes(), machine::open_files())
    }
}

impl Config {
    /// Rounds with a deadline: 16 messages every 2 seconds.
    #[must_use]
    pub fn deadline(listen: SocketAddr) -> Self {
        Self {
            listen,
            transport: Transport::Tls,
            public: None,
            operations: None,
            peers: PEERS,
            registration: Registration::Open,
            certificate: None,
            mode: RoundMode::Deadline,
            round_ms: 2000,
            retrieve: 16,
            code: CodeKind::Cuckoo,
            buckets: None,
            choices: pbc::DEFAULT_CHOICES as u8,
            retained: 2,
            deposit_ms: 200,
            lookup_ms: 300,
            query_ms: 600,
            deposit_spread_ms: None,
            query_spread_ms: None,
            seed_segments: None,
            first_round: Round(1),
            manifest_seed: None,
            data: None,
            restored: false,
            limits: Limits::default(),
            population: None,
            allow_no_privacy: false,
        }
    }

    /// Rounds that go on as soon as everybody is done.
    #[must_use]
    pub fn closed_loop(listen: SocketAddr) -> Self {
        Self {
            mode: RoundMode::ClosedLoop,
            round_ms: 100,
            deposit_ms: 50,
            lookup_ms: 200,
            query_ms: 450,
            ..Self::deadline(listen)
        }
    }

    /// What the server announces, but for number, seeds and the time of its manifest key, once all of it is possible together.
    pub(crate) fn parameters(
        &self,
        engine: &dyn Engine,
        manifest_key: [u8; 32],
    ) -> Result<ServerParameters, ConfigError> {
        if !self.listen.ip().is_loopback() {
            if self.mode == RoundMode::ClosedLoop {
                return Err(ConfigError::ClosedLoopOffLoopback);
            }
            if self.transport == Transport::Plaintext {
                return Err(ConfigError::PlaintextOffLoopback);
            }
        }
        if let Some(population) = self.population {
            // What is simulated must never pass for what people have handed in.
            if self.mode != RoundMode::ClosedLoop || self.data.is_some() {
                return Err(ConfigError::PopulationElsewhere);
            }
            if population.users as usize > self.limits.deposits {
                return Err(ConfigError::PopulationTooLarge(self.limits.deposits));
            }
        }
        if self.listen.ip().is_unspecified() && self.public.is_none() {
            return Err(ConfigError::Public);
        }
        if self.registration == Registration::Token && self.data.is_none() {
            return Err(ConfigError::TokensNeedData);
        }
        let code = if self.retrieve == 1 && !self.code.has_slots() { CodeKind::Single } else { self.code };
        let (choices, recommended) = match code {
            CodeKind::Cuckoo => {
                (self.choices, pbc::recommended_buckets(self.retrieve.into(), self.choices.into()))
            }
            // The paper's: a cube for each message.
            CodeKind::Hybrid => (2, Some(9 * usize::from(self.retrieve))),
            CodeKind::Single => (1, Some(self.retrieve.into())),
            // One bucket that holds all.
            CodeKind::Partitioned | CodeKind::Standing if self.retrieve == 1 => (1, Some(1)),
            CodeKind::Partitioned | CodeKind::Standing => {
                let (k, w) = (self.retrieve.into(), self.choices.into());
                let target = if w > 3 { -40.0 } else { -20.0 };
                let chosen = pbc::choose_buckets(pbc::Family::Partitioned, k, w, target);
                (self.choices, chosen.map(|choice| choice.buckets))
            }
        };
        let buckets = match self.buckets {
            Some(buckets) => buckets,
            None => recommended.and_then(|b| u16::try_from(b).ok()).ok_or(ConfigError::Buckets)?,
        };
        if code == CodeKind::Single && buckets != self.retrieve {
            return Err(ConfigError::Unencoded);
        }
        let form = Form { buckets: buckets.into(), elements: 1, element_bytes: BOX_BYTES };
        // Of a round in which nobody deposits; those of others are checked when they are built.
        let smallest =
            RoundSpec { seed: [0; 32], whitening: [0; 32], round: 0, form, profile: engine.profile(form)? };
        let parameters = ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            // These three when it is signed.
            key_epoch: KeyEpoch::ENDLESS,
            serial: 0,
            seeds: SeedCommitment::default(),
            manifest_key,
            engine: engine.name().to_owned(),
            security_bits: engine.assurance(&smallest)?.security_bits,
            code,
            retrieve: self.retrieve,
            buckets,
            choices,
            retained: self.retained,
            mode: self.mode,
            round_ms: self.round_ms,
            deposit_ms: self.deposit_ms,
            lookup_ms: self.lookup_ms,
            query_ms: self.query_ms,
            deposit_spread_ms: self.deposit_spread_ms(),
            query_spread_ms: self.query_spread_ms(),
        };
        if !self.allow_no_privacy {
            parameters.check_security()?;
            parameters.check_timing()?;
        }
        parameters.check_numbers()?;
        if self.seed_segments.is_some_and(|segments| !(1..=SEGMENTS_MAX).contains(&segments)) {
            return Err(ConfigError::SeedSegments);
        }
        if !sizes_fit(&engine.sizes(&smallest)?) {
            return Err(ConfigError::Sizes);
        }
        if let Some(population) = self.population
            && !holds(engine, parameters.shape(), population)
        {
            return Err(ConfigError::Population(population.users));
        }
        if self.mode == RoundMode::Deadline
            && self.query_ms.saturating_add(parameters.query_spread_ms) >= self.retrievable_ms()
        {
            return Err(ConfigError::QueryTooLate);
        }
        self.limits.check()?;
        Ok(parameters)
    }
}

impl Config {
    /// For how long a round can be retrieved at least, ms.
    fn retrievable_ms(&self) -> u32 {
        self.round_ms.saturating_mul(self.retained.into())
    }

    /// All the time there is, but for what the last deposit needs to be stored before the round closes.
    fn deposit_spread_ms(&self) -> u32 {
        let margin = DEPOSIT_MARGIN_MS.max(self.round_ms / 4);
        let room = self.round_ms.saturating_sub(self.deposit_ms).saturating_sub(margin);
        match (self.deposit_spread_ms, self.mode) {
            (Some(spread), _) => spread,
            (None, RoundMode::Deadline) => room,
            // The round waits for everybody, and everybody for it.
            (None, RoundMode::ClosedLoop) => 0,
        }
    }

    /// Half a round, or half of what is left until the round is retired: what is asked last has as long to be answered.
    fn query_spread_ms(&self) -> u32 {
        let before_retirement = self.retrievable_ms().saturating_sub(self.query_ms) / 2;
        match (self.query_spread_ms, self.mode) {
            (Some(spread), _) => spread,
            (None, RoundMode::Deadline) => (self.round_ms / 2).min(before_retirement),
            (None, RoundMode::ClosedLoop) => 0,
        }
    }
}

impl Limits {
    fn check(&self) -> Result<(), ConfigError> {
        let counts = [
            ("connections", self.connections),
            ("streams_per_connection", self.streams_per_connection as usize),
            ("sessions", self.sessions),
            ("key_mib", self.key_bytes / (1 << 20)),
            ("query_mib", self.query_bytes / (1 << 20)),
            ("standing_mib", self.standing_bytes / (1 << 20)),
            ("answer_mib", self.answer_bytes / (1 << 20)),
            ("uploads", self.uploads),
            ("queries", self.queries),
            ("retrievals", self.retrievals),
            ("mappings", self.mappings),
            ("computing", self.computing),
            ("tile", self.tile),
            ("deposits", self.deposits),
        ];
        let times = [
            ("unknown_s", self.unknown),
            ("challenge_s", self.challenge_age),
            ("stall_s", self.stall),
            ("call_s", self.call),
        ];
        let absurd = counts.iter().find(|(_, count)| !(1..=COUNT_MAX).contains(count)).map(|(name, _)| *name);
        let timeless = times.iter().find(|(_, time)| time.is_zero()).map(|(name, _)| *name);
        let crowded = (!(1..=THREADS_MAX).contains(&self.threads)).then_some("threads");
        let crowded = crowded.or((self.tile > TILE_MAX).then_some("tile"));
        match absurd.or(timeless).or(crowded) {
            Some(name) => Err(ConfigError::Limits(name)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("mode", &self.mode)
            .field("round_ms", &self.round_ms)
            .finish_non_exhaustive()
    }
}

/// Why a server cannot run as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Nobody else than this process knows who takes part.
    #[error("closed-loop rounds and simulated users are for a server alone; leave them, or the cluster")]
    ClosedLoopInCluster,
    /// Closed loop on an address that others reach.
    #[error(
        "closed-loop rounds are for simulations on one machine; listen on 127.0.0.1, or leave closed loop"
    )]
    ClosedLoopOffLoopback,
    /// An address that others reach, without encryption.
    #[error(
        "without TLS a server listens on loopback addresses only, such as 127.0.0.1; leave 'plaintext' out"
    )]
    PlaintextOffLoopback,
    /// An address that is none for clients.
    #[error("listening on all addresses, say under which host and port clients reach the server: 'public'")]
    Public,
    /// Simulated users of a server that people could use.
    #[error("simulated users take part in closed loop only, on a server without a data directory")]
    PopulationElsewhere,
    /// More simulated users than a round has room for.
    #[error("more simulated users than a round has room for: 'deposits' is {0}")]
    PopulationTooLarge(usize),
    /// No seeds, or too many.
    #[error("'seed_segments' is 1 to 2^20")]
    SeedSegments,
    /// Nowhere to keep which tokens are spent.
    #[error("registration by token needs a data directory, where the tokens' key is")]
    TokensNeedData,
    /// No table says how many buckets these numbers need.
    #[error("no number of buckets is recommended for this many messages and choices; give --buckets")]
    Buckets,
    /// No batch code, and another number of buckets than of messages.
    #[error(
        "without a batch code, as for one message per round, the number of buckets is that of messages; leave --buckets out"
    )]
    Unencoded,
    /// Clients could not use the address.
    #[error(transparent)]
    Address(sotto_wire::AddressError),
    /// A multi-query would reach the server when its round is retired.
    #[error("the multi-query comes after its round is retired; lower query_ms or lengthen the rounds")]
    QueryTooLate,
    /// Keys, a multi-query or its answers exceed the limits of the wire.
    #[error("with so many buckets a multi-query or its answers are larger than the protocol allows")]
    Sizes,
    /// No table of slots has room for so many simulated users, and others.
    #[error(
        "a round of {0} simulated users and others cannot be arranged, or has queries, answers or hints that are longer than the protocol allows"
    )]
    Population(u32),
    /// A limit is zero or absurdly high.
    #[error("the limit '{0}' is zero or too high: counts are 1 to 2^24, threads 1 to 1024, times above 0")]
    Limits(&'static str),
    /// The parameters contradict each other.
    #[error(transparent)]
    Parameters(#[from] sotto_protocol::Error),
    /// The engine has no parameters for messages of this size.
    #[error(transparent)]
    Engine(#[from] mpir::Error),
}

#[cfg(test)]
mod tests {
    use mpir::sealpir;

    use super::Limits;
    use crate::keys::key_memory_bytes;

    const GIB: u64 = 1 << 30;

    /// With places for more people than there is memory for the keys of, everybody uploads keys in every round; with fewer sessions
    /// than places, people who reach the server are refused.
    #[test]
    fn whoever_finds_a_place_finds_room_for_session_and_keys_on_machines_of_every_size() {
        for memory in
            [None, Some(0), Some(GIB / 2), Some(2 * GIB), Some(22 * GIB), Some(512 * GIB), Some(u64::MAX)]
        {
            for files in [None, Some(0), Some(1024), Some(65_536), Some(1 << 30)] {
                let limits = Limits::of_machine(memory, files);
                limits.check().unwrap();
                assert!(limits.sessions >= limits.connections, "{memory:?}, {files:?}");
                // On less memory than any server has, a few people must do.
                let keys = limits.connections * key_memory_bytes(&*sealpir());
                assert!(keys <= limits.key_bytes || limits.connections == 64, "{memory:?}, {files:?}");
                let on_disk = limits.connections * sealpir().public_keys_bytes();
                assert!(on_disk <= limits.key_file_bytes, "{memory:?}, {files:?}");
                let held = [limits.key_bytes, limits.query_bytes, limits.standing_bytes, limits.answer_bytes];
                let held = held.into_iter().sum::<usize>() as u64;
                assert!(held <= memory.map_or(16 * GIB, |memory| memory / 2).max(GIB / 16), "{memory:?}");
            }
        }
        let limits = Limits::of_machine(Some(16 * GIB), Some(1024));
        assert_eq!((limits.connections, limits.sessions), (768, 64 * 768), "files that may be open");
        let limits = Limits::of_machine(Some(16 * GIB), Some(65_536));
        assert_eq!((limits.connections, limits.key_bytes), (1820, 4 << 30));
    }
}
