//! A server, a liar before it, a recorder before one client, and the people.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pir_core::NoOp;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto::host::{Dialled, Pending, System, Work};
use sotto::participant::now;
use sotto::{Address, Connection, ConnectionSettings, Event, Events, Handle, Participant};
use sotto_protocol::audit::{AUDITED, AuditCoins};
use sotto_protocol::client::{Client, Notice, Settings, Warning};
use sotto_protocol::{ConversationId, Round, UnixMillis};
use sotto_wire::{Host, Transport};
use sottod::{Config, Running};

use crate::hostile::Liar;
use crate::recorder::{Call, Recorder};

/// Time slots far enough apart that a busy machine does not blur them.
pub(crate) const ROUND_MS: u32 = 1200;
pub(crate) const DEPOSIT_MS: u32 = 200;
pub(crate) const LOOKUP_MS: u32 = 400;
pub(crate) const QUERY_MS: u32 = 700;

const MANIFEST_SEED: [u8; 32] = [7; 32];

/// How long a round is, and when the calls of a round are made, ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    pub(crate) round: u32,
    pub(crate) deposit: u32,
    pub(crate) lookup: u32,
    pub(crate) query: u32,
}

const WIDE: Slots = Slots { round: ROUND_MS, deposit: DEPOSIT_MS, lookup: LOOKUP_MS, query: QUERY_MS };

/// Everything but the people.
pub(crate) struct World {
    pub(crate) server: Running<NoOp>,
    pub(crate) liar: Liar,
    pub(crate) recorder: Recorder,
    pub(crate) rng: ChaCha20Rng,
    slots: Slots,
}

/// Somebody who takes part.
pub(crate) struct Person {
    pub(crate) handle: Handle,
    pub(crate) events: Events,
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        Self::with(seed, WIDE).await
    }

    /// A world with other times.
    pub(crate) async fn with(seed: u64, slots: Slots) -> Self {
        let server = serve(slots, None);
        let liar = Liar::start(server.local_addr(), MANIFEST_SEED).await;
        let recorder = Recorder::start(liar.address).await.unwrap();
        Self { server, liar, recorder, rng: ChaCha20Rng::seed_from_u64(seed), slots }
    }

    /// Ends the server and starts another one with the same key, which knows nothing and begins with this round.
    pub(crate) async fn restart_server(&mut self, first: Round) {
        // Dropped, it cuts all calls off at once, as a crash does.
        self.server = serve(self.slots, Some(first));
        self.liar.redirect(self.server.local_addr()).await;
    }

    /// Connects through recorder and liar.
    pub(crate) fn watched(&self) -> ConnectionSettings {
        self.settings(self.recorder.address)
    }

    /// Connects through the liar only.
    pub(crate) fn unwatched(&self) -> ConnectionSettings {
        self.settings(self.liar.address)
    }

    fn settings(&self, at: SocketAddr) -> ConnectionSettings {
        let key = *self.server.address().root_key();
        let address = Address::new(Transport::Plaintext, Host::Ip(at.ip()), at.port(), key).unwrap();
        let mut settings = ConnectionSettings::new(address);
        settings.allow_no_privacy = true;
        settings
    }

    /// Somebody with room for two conversations.
    pub(crate) async fn client(&mut self, name: &str) -> Client {
        self.client_for(name, 2).await
    }

    /// Somebody with room for so many conversations.
    pub(crate) async fn client_for(&mut self, name: &str, conversations: u8) -> Client {
        let info = Connection::open(&self.unwatched()).await.unwrap().info::<NoOp>().await.unwrap();
        let (settings, buckets) = (Settings { conversations }, info.parameters.buckets);
        loop {
            let (server, joined) = (info.parameters.clone(), (info.open, now()));
            let client = Client::new(name, server, settings, joined, &mut self.rng).unwrap();
            // One who checks an answer makes one call more; these tests are about the others.
            let coins = AuditCoins::new(client.account_seed());
            let mut rounds = info.open.0..info.open.0 + 64;
            if rounds.all(|round| coins.draw(Round(round), buckets, AUDITED).is_none()) {
                return client;
            }
        }
    }

    /// Makes contacts of two.
    pub(crate) fn introduce(
        &mut self,
        one: &mut Client,
        other: &mut Client,
    ) -> (ConversationId, ConversationId) {
        let invitation = one.invite(other.name(), now(), &mut self.rng).unwrap();
        let at_other = other.accept(one.name(), &invitation, now(), &mut self.rng).unwrap();
        (one.find(other.name()).unwrap(), at_other)
    }

    /// Ends the server; the people's connections break.
    pub(crate) async fn end(self) {
        self.server.shutdown().await.ok();
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.recorder.calls()
    }
}

fn serve(slots: Slots, first: Option<Round>) -> Running<NoOp> {
    let mut config = Config::deadline("127.0.0.1:0".parse().unwrap());
    config.round_ms = slots.round;
    config.deposit_ms = slots.deposit;
    config.lookup_ms = slots.lookup;
    config.query_ms = slots.query;
    config.retrieve = 4;
    config.first_round = first.unwrap_or(config.first_round);
    config.manifest_seed = Some(zeroize::Zeroizing::new(MANIFEST_SEED));
    config.transport = Transport::Plaintext;
    config.allow_no_privacy = true;
    sottod::start::<NoOp>(config).unwrap()
}

/// This machine, but slow at one kind of work.
struct Slow(Option<(Work, u32)>);

impl sotto::host::Host for Slow {
    fn unix_now(&self) -> UnixMillis {
        System.unix_now()
    }

    fn fill(&self, bytes: &mut [u8]) {
        System.fill(bytes);
    }

    fn work(&self, kind: Work, work: Box<dyn FnOnce() + Send>) -> Pending<()> {
        let delay = self.0.filter(|(slow, _)| *slow == kind).map_or(0, |(_, delay)| delay);
        System.work(
            kind,
            Box::new(move || {
                std::thread::sleep(Duration::from_millis(delay.into()));
                work();
            }),
        )
    }

    fn dial(&self, authority: &str) -> Pending<std::io::Result<Dialled>> {
        System.dial(authority)
    }
}

impl Person {
    pub(crate) async fn start(client: Client, settings: ConnectionSettings) -> Self {
        let (handle, events) = Participant::<NoOp>::start(client, None, settings).await.unwrap();
        Self { handle, events }
    }

    /// Somebody whose machine takes so many milliseconds longer for one kind of work.
    pub(crate) async fn start_slowly(
        client: Client,
        settings: ConnectionSettings,
        slow: Option<(Work, u32)>,
    ) -> Self {
        let host = Arc::new(Slow(slow));
        let (handle, events) = Participant::<NoOp>::start_on(host, client, None, settings).await.unwrap();
        Self { handle, events }
    }

    /// Everything that happened so far.
    pub(crate) fn happened(&mut self) -> Happened {
        let mut happened = Happened::default();
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Notice(Notice::Text { text, .. }) => happened.texts.push(text),
                Event::Notice(Notice::Warning(warning)) => happened.warnings.push(warning),
                Event::Trouble { trouble, .. } => happened.troubles.push(trouble.to_string()),
                Event::RoundReport(_) => happened.rounds += 1,
                Event::Missed(_) => happened.missed = true,
                _ => {}
            }
        }
        happened
    }

    /// Waits for this many more rounds.
    pub(crate) async fn rounds(&mut self, count: usize) -> Happened {
        let mut all = Happened::default();
        let patience = Duration::from_millis(u64::from(ROUND_MS) * (count as u64 + 6));
        let waiting = async {
            while all.rounds < count {
                tokio::time::sleep(Duration::from_millis(50)).await;
                all.add(self.happened());
            }
        };
        let in_time = tokio::time::timeout(patience, waiting).await.is_ok();
        assert!(in_time, "rounds do not go on: {all:?}");
        all
    }
}

/// What somebody was told.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    pub(crate) texts: Vec<String>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) troubles: Vec<String>,
    pub(crate) rounds: usize,
    /// Whether there was too much to tell.
    pub(crate) missed: bool,
}

impl Happened {
    pub(crate) fn add(&mut self, more: Self) {
        self.texts.extend(more.texts);
        self.warnings.extend(more.warnings);
        self.troubles.extend(more.troubles);
        self.rounds += more.rounds;
        self.missed |= more.missed;
    }
}
