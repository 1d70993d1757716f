//! The clients: one that watches, and many that deposit.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use ed25519_dalek::{Signer, SigningKey};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Label, Round, SealedBox, SignedManifest};
use sotto_wire::proto;
use sotto_wire::proto::round_event::Event;
use sotto_wire::proto::sotto_client::SottoClient;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Channel;

use super::child::Child;

pub(super) type Client = SottoClient<Channel>;
type Manifests = BTreeMap<Round, SignedManifest>;

/// Time from the opening of a round within which clients deposit, ms.
const SPREAD_MS: u64 = 350;

/// Opens a session for the account with this number.
pub(super) async fn session(client: &mut Client, key: &[u8; 32], number: usize) -> Result<Bytes, Status> {
    let mut seed = [0x5a; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    let signing = SigningKey::from_bytes(&seed);
    let account = signing.verifying_key().to_bytes();
    let challenge = proto::ChallengeRequest { account: Bytes::copy_from_slice(&account) };
    let nonce = client.challenge(challenge).await?.into_inner().nonce;
    let signed = nonce[..].try_into().map_err(|_| Status::internal("a nonce of another length"))?;
    let signature = signing.sign(&sotto_wire::register::message(key, &account, &signed));
    let request = proto::RegisterRequest {
        account: Bytes::copy_from_slice(&account),
        nonce,
        signature: Bytes::copy_from_slice(&signature.to_bytes()),
        token: Bytes::new(),
    };
    Ok(client.register(request).await?.into_inner().session)
}

/// What a server acknowledged to one client.
#[derive(Default)]
pub(super) struct Acknowledged {
    /// Which client, if it was registered.
    pub(super) account: Option<usize>,
    pub(super) deposits: Vec<(Round, Deposit)>,
}

/// Deposits once in every round that it hears of.
pub(super) struct Depositor {
    pub(super) number: usize,
    pub(super) rng: StdRng,
    pub(super) channel: Client,
    pub(super) key: [u8; 32],
    pub(super) opened: watch::Receiver<Option<Round>>,
}

impl Depositor {
    /// Goes on until the server is gone; returns what was acknowledged.
    pub(super) async fn deposit(mut self) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        let Ok(session) = session(&mut self.channel, &self.key, self.number).await else {
            return acknowledged;
        };
        acknowledged.account = Some(self.number);
        loop {
            let opened = *self.opened.borrow_and_update();
            if let Some(round) = opened {
                // So that deposits come all the time, and a kill hits some on their way.
                tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..SPREAD_MS))).await;
                let mut sealed = [0; BOX_BYTES];
                self.rng.fill_bytes(&mut sealed);
                let deposit = Deposit { label: Label(self.rng.random()), sealed: SealedBox(sealed) };
                let request = proto::DepositRequest {
                    session: session.clone(),
                    round: round.0,
                    deposit: Bytes::copy_from_slice(&deposit.encode()),
                };
                // One that is late or gets no answer is not acknowledged, and may be there or not.
                if self.channel.deposit(request).await.is_ok() {
                    acknowledged.deposits.push((round, deposit));
                }
            }
            if self.opened.changed().await.is_err() {
                return acknowledged;
            }
        }
    }
}

/// Tells the others which round is open, and remembers the manifests.
pub(super) struct Watcher {
    pub(super) opened: watch::Receiver<Option<Round>>,
    ready: watch::Receiver<Option<Round>>,
    pub(super) client: Client,
    pub(super) session: Bytes,
    task: JoinHandle<Manifests>,
}

impl Watcher {
    pub(super) async fn start(server: &Child, number: usize) -> anyhow::Result<Self> {
        let mut client = server.connect().await?;
        let session = session(&mut client, &server.key, number).await?;
        let request = proto::WatchRequest { session: session.clone() };
        let mut events = client.watch(request).await?.into_inner();
        let (tell_opened, opened) = watch::channel(None);
        let (tell_ready, ready) = watch::channel(None);
        let key = server.key;
        let task = tokio::spawn(async move {
            let mut manifests = Manifests::new();
            while let Ok(Some(event)) = events.message().await {
                match event.event {
                    Some(Event::Opened(opened)) => {
                        tell_opened.send_replace(Some(Round(opened.round)));
                    }
                    Some(Event::Ready(ready)) => {
                        let Some(signed) = ready.manifest.and_then(|manifest| signed(&manifest)) else {
                            break;
                        };
                        let Ok(manifest) = signed.verify(&key) else { break };
                        manifests.insert(manifest.round, signed);
                        tell_ready.send_replace(Some(manifest.round));
                    }
                    None => {}
                }
            }
            manifests
        });
        Ok(Self { opened, ready, client, session, task })
    }

    /// Waits until a round is ready.
    pub(super) async fn ready(&mut self) -> anyhow::Result<()> {
        self.ready.wait_for(Option::is_some).await.map(|_| ()).context("no round becomes ready")
    }

    /// The manifests of these rounds, both included.
    pub(super) async fn manifests(&mut self, first: Round, last: Round) -> anyhow::Result<Manifests> {
        let mut manifests = Manifests::new();
        let mut next = first.0;
        while next <= last.0 {
            let request = proto::ManifestsRequest {
                session: self.session.clone(),
                first: next,
                last: last.0.min(next + sotto_wire::limits::MANIFESTS_MAX as u64 - 1),
            };
            next = request.last + 1;
            let mut stream = self.client.manifests(request).await?.into_inner();
            while let Some(manifest) = stream.message().await? {
                let signed = signed(&manifest).context("a manifest of another length")?;
                let number = signed.bytes.get(8..16).and_then(|round| round.try_into().ok());
                manifests.insert(Round(number.map_or(0, u64::from_le_bytes)), signed);
            }
        }
        Ok(manifests)
    }

    /// What it has seen until the server was gone.
    pub(super) async fn end(self) -> anyhow::Result<Manifests> {
        Ok(self.task.await?)
    }
}

fn signed(manifest: &proto::SignedManifest) -> Option<SignedManifest> {
    let bytes = manifest.manifest[..].try_into().ok()?;
    Some(SignedManifest { bytes, signature: manifest.signature[..].try_into().ok()?, segment: None })
}
