//! People at a server in memory, and one whole stay of the person who is watched.

use std::sync::Arc;
use std::time::Duration;

use ed25519_dalek::SigningKey;
use mpir::Engine;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use sha2::{Digest, Sha256};
use sotto::Address;
use sotto_participant::host::{Disk, Work};
use sotto_participant::{Event, Events, Handle, Participant};
use sotto_protocol::client::{Client, Notice, Settings};
use sotto_protocol::{
    CodeKind, ConversationId, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters,
    UnixMillis,
};
use sotto_session::{ConnectError, ConnectionSettings};
use sotto_wire::limits::MESSAGE_MAX;
use sotto_wire::proto::sotto_server::SottoServer;
use sotto_wire::{Host, RootKey, Transport};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::codegen::http::header::DATE;
use tonic::codegen::http::{HeaderValue, Response};
use tower::util::MapResponseLayer;

use crate::machine::{BASE_MS, Machine, Memory, Pace};
use crate::server::{Account, Calls, Server};
use crate::wire::Wire;

pub(crate) const FIRST: Round = Round(1000);
pub(crate) const ROUND_MS: u32 = 1000;
pub(crate) const DEPOSIT_MS: u32 = 100;
pub(crate) const LOOKUP_MS: u32 = 150;
pub(crate) const QUERY_MS: u32 = 300;

pub(crate) fn parameters(engine: &dyn Engine, mode: RoundMode) -> ServerParameters {
    ServerParameters {
        serial: 1,
        seeds: SeedCommitment::default(),
        protocol_version: PROTOCOL_VERSION,
        manifest_key: [0; 32],
        engine: engine.name().into(),
        security_bits: 128,
        code: CodeKind::Cuckoo,
        retrieve: 4,
        buckets: 8,
        choices: 3,
        retained: 2,
        mode,
        round_ms: ROUND_MS,
        deposit_ms: DEPOSIT_MS,
        lookup_ms: LOOKUP_MS,
        query_ms: QUERY_MS,
        deposit_spread_ms: 0,
        query_spread_ms: 0,
        key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
    }
}

/// Work that is done in its slot.
pub(crate) fn quick(work: Work) -> Duration {
    Duration::from_millis(match work {
        Work::Keys => 40,
        Work::Spare | Work::Query => 25,
        Work::Extract | Work::LookUp => 10,
        _ => 3,
    })
}

/// Everything but the people.
pub(crate) struct World {
    pub(crate) server: Arc<Server>,
    pub(crate) began: Instant,
    seed: u64,
    dial: mpsc::UnboundedSender<DuplexStream>,
    people: u64,
}

/// Somebody who takes part.
pub(crate) struct Person {
    pub(crate) handle: Handle,
    pub(crate) events: Events,
    /// What happened before the program was started again.
    before: Vec<Event>,
    pub(crate) machine: Arc<Machine>,
    pub(crate) wire: Wire,
    pub(crate) disk: Memory,
    pub(crate) account: Account,
}

impl World {
    pub(crate) fn new(seed: u64, parameters: ServerParameters, generations: usize) -> Self {
        let server = Server::start(parameters, FIRST, generations);
        let dial = serve(&server, 0);
        Self { server, began: Instant::now(), seed, dial, people: 0 }
    }

    /// A wire to one more node.
    pub(crate) fn wire_to(&self, node: u8) -> Wire {
        Wire::new(serve(&self.server, node))
    }

    pub(crate) fn rng(&self, purpose: &str) -> [u8; 32] {
        Sha256::digest(format!("{} {purpose}", self.seed)).into()
    }

    /// Somebody with room for so many conversations; the same in all worlds of a seed.
    pub(crate) fn client(&self, name: &str, conversations: u8) -> Client {
        let mut rng = ChaCha20Rng::from_seed(self.rng(name));
        let joined = (FIRST, UnixMillis(BASE_MS));
        let parameters = self.server.parameters.clone();
        Client::new(name, parameters, Settings { conversations }, joined, &mut rng).unwrap()
    }

    /// Makes contacts of two.
    pub(crate) fn introduce(&self, one: &mut Client, other: &mut Client) -> [ConversationId; 2] {
        let mut rng = ChaCha20Rng::from_seed(self.rng(&format!("{} meets {}", one.name(), other.name())));
        let now = UnixMillis(BASE_MS);
        let invitation = one.invite(other.name(), now, &mut rng).unwrap();
        let at_other = other.accept(one.name(), &invitation, now, &mut rng).unwrap();
        [one.find(other.name()).unwrap(), at_other]
    }

    pub(crate) async fn start(&mut self, client: Client, pace: Pace) -> Person {
        let (wire, disk) = (Wire::new(self.dial.clone()), Memory::new(self.began));
        self.people += 1;
        let seed = self.rng(&format!("machine {}", self.people));
        let machine = Machine::new(wire.dial.clone(), self.began, seed, pace);
        self.start_on(client, machine, wire, disk).await.unwrap()
    }

    /// Starts somebody again, with the tape and the disk of before.
    pub(crate) async fn again(&mut self, before: Person, client: Client, pace: Pace) -> Person {
        self.people += 1;
        let seed = self.rng(&format!("machine {}", self.people));
        let Person { machine, wire, disk, events: mut told, .. } = before;
        let machine =
            Machine::at(Arc::clone(&machine.tape), wire.dial.clone(), seed, pace, [127, 0, 0, 1].into());
        let mut person = self.start_on(client, machine, wire, disk).await.unwrap();
        while let Ok(event) = told.try_recv() {
            person.before.push(event);
        }
        person
    }

    /// Starts somebody on a machine, if the server is acceptable.
    pub(crate) async fn start_on(
        &self,
        client: Client,
        machine: Arc<Machine>,
        wire: Wire,
        disk: Memory,
    ) -> Result<Person, ConnectError> {
        self.start_with(self.settings(), client, machine, wire, disk).await
    }

    /// Starts somebody who connects in another way.
    pub(crate) async fn start_with(
        &self,
        settings: ConnectionSettings,
        client: Client,
        machine: Arc<Machine>,
        wire: Wire,
        disk: Memory,
    ) -> Result<Person, ConnectError> {
        let account = account(&client);
        let disk_of_client: Option<Box<dyn Disk>> = Some(Box::new(disk.clone()));
        let started = Participant::start_on(machine.clone(), client, disk_of_client, settings).await;
        let (handle, events) = started?;
        Ok(Person { handle, events, before: Vec::new(), machine, wire, disk, account })
    }

    /// How people connect.
    pub(crate) fn settings(&self) -> ConnectionSettings {
        let host = Host::Ip([127, 0, 0, 1].into());
        let root = RootKey(self.server.root());
        let address = Address::new(Transport::Plaintext, host, 7370, root).unwrap();
        let mut settings = ConnectionSettings::new(address);
        settings.allow_no_privacy = self.server.engine.name() == mpir::noop().name();
        settings
    }

    /// A wire to the server.
    pub(crate) fn wire(&self) -> Wire {
        Wire::new(self.dial.clone())
    }

    /// Waits until so many milliseconds after the world began.
    pub(crate) async fn until(&self, ms: u64) {
        tokio::time::sleep_until(self.began + Duration::from_millis(ms)).await;
    }
}

/// Lets a node of the server take connections.
fn serve(server: &Arc<Server>, node: u8) -> mpsc::UnboundedSender<DuplexStream> {
    let (dial, dialled) = mpsc::unbounded_channel();
    let calls = SottoServer::new(Calls(Arc::clone(server), node))
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    let incoming = UnboundedReceiverStream::new(dialled).map(Ok::<_, std::io::Error>);
    // The time of day that HTTP tells is the real one, unless it is told already.
    let date = MapResponseLayer::new(|mut response: Response<tonic::body::Body>| {
        response.headers_mut().insert(DATE, HeaderValue::from_static("Thu, 01 Jan 2026 00:00:00 GMT"));
        response
    });
    let server_of_calls = tonic::transport::Server::builder().layer(date).add_service(calls);
    tokio::spawn(server_of_calls.serve_with_incoming(incoming));
    dial
}

/// Within what a stand-in is opened.
pub(crate) const SPREAD_MS: u64 = 60_000;

/// What an account draws for its pause of that kind and number, as the protocol says.
pub(crate) fn drawn(account: &Account, kind: u8, number: u64, spread_ms: u64) -> u64 {
    let hash = Sha256::new_with_prefix(b"sotto/node-pause/v1\0").chain_update(account).chain_update([kind]);
    let digest = hash.chain_update(number.to_le_bytes()).finalize();
    u64::from_le_bytes(*digest.first_chunk().unwrap()) % spread_ms
}

/// The account of a client.
pub(crate) fn account(client: &Client) -> Account {
    SigningKey::from_bytes(client.account_seed()).verifying_key().to_bytes()
}

/// What somebody was told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) texts: Vec<String>,
    pub(crate) acknowledged: usize,
    /// Sorted: the runtime draws which of two calls that end with one session is heard first.
    pub(crate) troubles: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// Why there was no session.
    pub(crate) lost: Vec<String>,
    /// In which rounds a box that was looked for was found; ascending, since the runtime draws which of two answers that come at one
    /// moment is read first.
    pub(crate) found: Vec<u64>,
}

impl Person {
    pub(crate) fn told(&mut self) -> Told {
        let mut told = Told::default();
        let mut events = core::mem::take(&mut self.before);
        while let Ok(event) = self.events.try_recv() {
            events.push(event);
        }
        for event in events {
            match event {
                Event::Notice(Notice::Text { text, .. }) => told.texts.push(text),
                Event::Notice(Notice::Acknowledged { .. }) => told.acknowledged += 1,
                Event::Notice(Notice::Warning(warning)) => told.warnings.push(warning.to_string()),
                Event::ConnectionLost(error) => told.lost.push(error.to_string()),
                Event::Trouble { trouble, .. } => told.troubles.push(trouble.to_string()),
                Event::RoundReport(report) if report.lookups.found > 0 => told.found.push(report.round.0),
                _ => {}
            }
        }
        told.found.sort_unstable();
        told.troubles.sort_unstable();
        told
    }
}
