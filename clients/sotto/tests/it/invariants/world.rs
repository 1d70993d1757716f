//! A server, a recorder before one client, and the people.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto::Address;
use sotto_participant::host::{Dial, Dialled, Pending, System, Work, now};
use sotto_participant::{Event, Events, Handle, Participant};
use sotto_protocol::audit::{AUDITED, AuditCoins};
use sotto_protocol::client::{Client, Settings};
use sotto_protocol::{ConversationId, Round, UnixMillis};
use sotto_session::{Connection, ConnectionSettings};
use sotto_wire::{Host, Transport};
use sottod::{Config, Running};

use super::recorder::{Call, Recorder};

/// Time slots far enough apart that a busy machine does not blur them.
pub(crate) const ROUND_MS: u32 = 1200;
pub(crate) const DEPOSIT_MS: u32 = 200;
pub(crate) const LOOKUP_MS: u32 = 400;
pub(crate) const QUERY_MS: u32 = 700;

/// Everything but the people.
pub(crate) struct World {
    pub(crate) server: Running,
    pub(crate) recorder: Recorder,
    pub(crate) rng: ChaCha20Rng,
}

/// Somebody who takes part.
pub(crate) struct Person {
    _handle: Handle,
    pub(crate) events: Events,
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        let server = serve();
        let recorder = Recorder::start(server.local_addr()).await.unwrap();
        Self { server, recorder, rng: ChaCha20Rng::seed_from_u64(seed) }
    }

    /// Connects through the recorder.
    pub(crate) fn watched(&self) -> ConnectionSettings {
        self.settings(self.recorder.address)
    }

    /// Connects past it.
    pub(crate) fn unwatched(&self) -> ConnectionSettings {
        self.settings(self.server.local_addr())
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
        let info = Connection::open(&self.unwatched()).await.unwrap().info().await.unwrap();
        let (settings, buckets) = (Settings { conversations: 2 }, info.parameters.buckets);
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

fn serve() -> Running {
    let mut config = Config::deadline("127.0.0.1:0".parse().unwrap());
    config.round_ms = ROUND_MS;
    config.deposit_ms = DEPOSIT_MS;
    config.lookup_ms = LOOKUP_MS;
    config.query_ms = QUERY_MS;
    config.retrieve = 4;
    config.seed_segments = Some(2);
    config.transport = Transport::Plaintext;
    config.allow_no_privacy = true;
    sottod::start(mpir::noop(), config).unwrap()
}

/// This machine, but slow at one kind of work.
struct Slow(Option<(Work, u32)>);

impl sotto_participant::host::Host for Slow {
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
}

impl Dial for Slow {
    fn dial(&self, authority: &str) -> Pending<std::io::Result<Dialled>> {
        System.dial(authority)
    }
}

impl Person {
    pub(crate) async fn start(client: Client, settings: ConnectionSettings) -> Self {
        let (handle, events) = Participant::start(client, None, settings).await.unwrap();
        Self { _handle: handle, events }
    }

    /// Somebody whose machine takes so many milliseconds longer for one kind of work.
    pub(crate) async fn start_slowly(
        client: Client,
        settings: ConnectionSettings,
        slow: Option<(Work, u32)>,
    ) -> Self {
        let host = Arc::new(Slow(slow));
        let (handle, events) = Participant::start_on(host, client, None, settings).await.unwrap();
        Self { _handle: handle, events }
    }

    /// Waits for this many more rounds; what went wrong in them.
    pub(crate) async fn rounds(&mut self, count: usize) -> Vec<String> {
        let (mut rounds, mut troubles) = (0, Vec::new());
        let patience = Duration::from_millis(u64::from(ROUND_MS) * (count as u64 + 6));
        let waiting = async {
            while rounds < count {
                match self.events.recv().await {
                    Some(Event::Trouble { trouble, .. }) => troubles.push(trouble.to_string()),
                    Some(Event::RoundReport(_)) => rounds += 1,
                    Some(_) => {}
                    None => break,
                }
            }
        };
        assert!(tokio::time::timeout(patience, waiting).await.is_ok(), "rounds do not go on");
        assert_eq!(rounds, count, "the participant has stopped: {troubles:?}");
        troubles
    }
}
