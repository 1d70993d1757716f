//! One client: an account with a session at one of the nodes, and the next one's when that is lost.

use core::time::Duration;
use std::sync::{Arc, Mutex as Lock};

use anyhow::Context;
use bytes::Bytes;
use mpir::{Engine, EngineClient};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sotto_measuring::asking::{Asked, ask, blocking, sent};
use sotto_protocol::mapping::Outcome;
use sotto_protocol::{Deposit, Manifest, OwnSlot, Round, ServerParameters};
use sotto_session::{ConnectError, Connection, ConnectionSettings, Session, round_spec};
use sotto_wire::{Failure, Refused};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout_at};

/// Before the same is asked again of a node that has refused for now, or of the next one.
const PAUSE: Duration = Duration::from_millis(200);
/// How often a node may be busy, or not as far as the others, before the next one is asked.
const PATIENCE: u32 = 8;

/// An account.
pub(super) struct Account {
    seed: [u8; 32],
    server: ServerParameters,
    /// Its home first.
    nodes: Vec<ConnectionSettings>,
    engine: Arc<dyn Engine>,
    pir: Arc<Lock<Box<dyn EngineClient>>>,
    keys: Bytes,
    link: Mutex<Link>,
    /// The number of the last session that was given up: whatever else waits on it need not.
    gone: watch::Sender<u64>,
}

/// The session there is just now.
struct Link {
    /// Which node it is with, or which is asked next.
    place: usize,
    /// Counts sessions and attempts at them.
    number: u64,
    session: Option<Session>,
    /// On a server with slots, from the first session on.
    slot: Option<OwnSlot>,
}

/// What a refusal means that will not pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusals {
    /// A round that takes no deposits any more takes none at any node.
    AreFinal,
    /// Another node may have what this one has no more.
    AreOfNode,
}

/// What a retrieval says of what was wanted.
pub(super) enum Retrieved {
    /// What the mapping says of each, and whether its box came back.
    Judged(Vec<(Deposit, Outcome, bool)>),
    /// No node has given an answer.
    Unreached,
}

impl Account {
    pub(super) async fn new(settings: &ConnectionSettings, server: ServerParameters) -> anyhow::Result<Self> {
        let mut rng: StdRng = rand::make_rng();
        let (seed, pir): ([u8; 32], [u8; 32]) = (rng.random(), rng.random());
        let engine = settings.engines.get(&server.engine).cloned().context("the engine is not known here")?;
        let (pir, keys) = {
            let engine = Arc::clone(&engine);
            let made = blocking(move || {
                let client = engine.client(&pir);
                let keys = client.public_keys();
                (client, keys)
            });
            made.await?
        };
        let account = ed25519_public(&seed);
        Ok(Self {
            seed,
            server,
            nodes: settings.in_order_of(&account, None),
            engine,
            pir: Arc::new(Lock::new(pir)),
            keys: keys.into(),
            link: Mutex::new(Link { place: 0, number: 0, session: None, slot: None }),
            gone: watch::Sender::new(0),
        })
    }

    /// Opens its first session.
    pub(super) async fn enter(&self, until: Instant) -> anyhow::Result<()> {
        let opened = self.call(until, Refusals::AreOfNode, |_| async { Ok(()) }).await;
        opened.context("a client cannot enter")
    }

    /// Deposits a box in a round, with the same bytes at every node that is asked; the deposit as the server stores it, if that
    /// was acknowledged.
    pub(super) async fn deposit(
        &self,
        round: Round,
        mut deposit: Deposit,
        until: Instant,
    ) -> Option<Deposit> {
        let slot = self.link.lock().await.slot.as_ref().map(|slot| slot.number);
        let bytes = &sent(&deposit, slot.is_some());
        if let Some(slot) = slot {
            deposit.label = sotto_protocol::table::stored(slot, &[0; sotto_protocol::table::KNOCK_BYTES]);
        }
        let call = |session: Session| async move { session.deposit(round, bytes).await };
        self.call(until, Refusals::AreFinal, call).await.is_ok().then_some(deposit)
    }

    /// Retrieves boxes of a round by one multi-query, which goes to the next node if an answer is lost.
    pub(super) async fn retrieve(
        &self,
        manifest: Manifest,
        wanted: Vec<Deposit>,
        until: Instant,
    ) -> anyhow::Result<Retrieved> {
        let round = manifest.round;
        let (spec, sizes) = {
            let root = self.nodes.first().context("no node")?.address.root_key();
            round_spec(&*self.engine, root, &manifest)?
        };
        let bytes = usize::try_from(manifest.mapping_bytes())?;
        let mapping = self
            .call(until, Refusals::AreOfNode, |session| async move { session.mapping(round, bytes).await })
            .await;
        let Ok(mapping) = mapping else { return Ok(Retrieved::Unreached) };
        let bytes = sizes.hint.bytes();
        let hint = self
            .call(until, Refusals::AreOfNode, |session| async move { session.hint(round, bytes).await })
            .await;
        let Ok(hint) = hint else { return Ok(Retrieved::Unreached) };

        let (pir, seed) = (Arc::clone(&self.pir), rand::make_rng::<StdRng>().random());
        let asked = blocking(move || ask(&pir, spec, &manifest, &mapping, wanted, seed));
        let (query, asked): (Bytes, Asked) = asked.await??;
        let (digest, query) = (&sha256(&self.keys), &query);
        let call = |session: Session| async move {
            session.retrieve(round, digest, query.clone(), sizes.answer.bytes()).await
        };
        let Ok(answers) = self.call(until, Refusals::AreOfNode, call).await else {
            return Ok(Retrieved::Unreached);
        };
        let judged = blocking(move || asked.judge(&hint, &answers.answers)).await?;
        Ok(Retrieved::Judged(judged))
    }

    /// Makes a call, and makes it again, where need be at the next node, until it is answered, all nodes refuse it, or the time
    /// is over.
    async fn call<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        until: Instant,
        refused: Refusals,
        call: impl Fn(Session) -> F,
    ) -> Result<T, Failure> {
        let (mut refusals, mut waits) = (0, 0);
        loop {
            let opened = timeout_at(until, self.session()).await.map_err(|_| Failure::Unreachable)?;
            let Some((number, session)) = opened else {
                timeout_at(until, sleep(PAUSE)).await.map_err(|_| Failure::Unreachable)?;
                continue;
            };
            let mut gone = self.gone.subscribe();
            let called = async {
                tokio::select! {
                    answer = call(session.clone()) => answer,
                    _ = gone.wait_for(|gone| *gone >= number) => Err(Failure::Unreachable),
                }
            };
            let failure = match timeout_at(until, called).await.map_err(|_| Failure::Unreachable)? {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            match failure {
                Failure::Refused(Refused::UnknownKeys) => {
                    // If that fails, the call does, too.
                    let _ = timeout_at(until, session.upload_keys(self.keys.clone())).await;
                    waits += 1;
                }
                Failure::Refused(Refused::UnknownSession) => self.renew(number, 0).await,
                Failure::Refused(Refused::Busy | Refused::RoundNotReady | Refused::Internal) => {
                    waits += 1;
                    timeout_at(until, sleep(PAUSE)).await.map_err(|_| Failure::Unreachable)?;
                }
                Failure::Refused(_) => {
                    refusals += 1;
                    if refused == Refusals::AreFinal || refusals >= self.nodes.len() {
                        return Err(failure);
                    }
                    self.renew(number, 1).await;
                }
                Failure::Unreachable | Failure::Nonsense(_) | Failure::Flood => self.renew(number, 1).await,
            }
            if waits >= PATIENCE {
                waits = 0;
                self.renew(number, 1).await;
            }
        }
    }

    /// The session, opened if there is none; nothing if the node whose turn it is gives none.
    async fn session(&self) -> Option<(u64, Session)> {
        let mut link = self.link.lock().await;
        if let Some(session) = &link.session {
            return Some((link.number, session.clone()));
        }
        // Whatever becomes of the attempt, the next one is at the next node.
        let place = link.place;
        link.place = (place + 1) % self.nodes.len();
        link.number += 1;
        let slot = link.slot.clone();
        let session = self.open(self.nodes.get(place)?, slot.as_ref()).await.ok()?;
        link.place = place;
        link.slot = slot.or_else(|| session.given_slot().cloned());
        link.session = Some(session.clone());
        Some((link.number, session))
    }

    /// A session, to which keys are brought at once: whoever comes because another node is gone has no time to lose.
    async fn open(&self, node: &ConnectionSettings, slot: Option<&OwnSlot>) -> Result<Session, ConnectError> {
        let session = Connection::open(node).await?.register(&self.seed, &self.server, None, slot).await?;
        // If that fails, the first retrieval is told, and does it.
        let _ = session.upload_keys(self.keys.clone()).await;
        Ok(session)
    }

    /// Gives a session up, unless that was done before, for one so many nodes on.
    async fn renew(&self, number: u64, on: usize) {
        let mut link = self.link.lock().await;
        if link.number == number && link.session.take().is_some() {
            link.place = (link.place + on) % self.nodes.len();
            self.gone.send_replace(number);
        }
    }
}

/// A random box under a random label.
pub(super) fn random_deposit(round: Round) -> Deposit {
    sotto_protocol::cover(round, &mut StdRng::from_seed(rand::make_rng::<StdRng>().random()))
}

fn ed25519_public(seed: &[u8; 32]) -> [u8; 32] {
    ed25519_dalek::SigningKey::from_bytes(seed).verifying_key().to_bytes()
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}
