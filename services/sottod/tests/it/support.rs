//! A member of a server, by raw calls.

use core::ops::{Deref, DerefMut};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ed25519_dalek::{Signer, SigningKey};
use hyper_util::rt::TokioIo;
use mpir::{Engine, EngineClient, Form, RoundSpec, Sizes, noop};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Label, Manifest, Round, SealedBox, SignedManifest};
use sotto_session::Dial as _;
use sotto_wire::proto::round_event::Event;
use sotto_wire::proto::sotto_client::SottoClient;
use sotto_wire::{Failure, Refused, Transport, limits, proto, split};
use sottod::{Config, RunError, Running};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use super::stage::Wire;

pub(crate) type Client = SottoClient<Channel>;

/// A server without privacy and with fast rounds, on a free port.
pub(crate) fn server(adjust: impl FnOnce(&mut Config)) -> Server {
    server_of(noop(), adjust)
}

pub(crate) fn server_of(engine: Arc<dyn Engine>, adjust: impl FnOnce(&mut Config)) -> Server {
    let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
    config.transport = Transport::Plaintext;
    config.allow_no_privacy = true;
    config.retrieve = 4;
    config.round_ms = 300;
    config.retained = 4;
    (config.deposit_ms, config.lookup_ms, config.query_ms) = (0, 0, 0);
    config.seed_segments = Some(2);
    config.limits.drain = Duration::from_secs(2);
    adjust(&mut config);
    let (running, wire) = super::stage::start(engine, config);
    Server { running, wire }
}

/// A server, and the way to it.
pub(crate) struct Server {
    running: Running,
    wire: Wire,
}

impl Server {
    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Connects as this endpoint says.
    pub(crate) async fn channel(&self, endpoint: Endpoint) -> Channel {
        let wire = self.wire.clone();
        let connector = tower::service_fn(move |_| {
            let dialled = wire.dial("");
            async move { Ok::<_, io::Error>(TokioIo::new(dialled.await?.stream)) }
        });
        endpoint.connect_with_connector(connector).await.unwrap()
    }

    pub(crate) async fn shutdown(self) -> Result<(), RunError> {
        self.running.shutdown().await
    }
}

impl Deref for Server {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}

/// An endpoint for [`Server::channel`].
pub(crate) fn endpoint() -> Endpoint {
    Endpoint::from_static("http://server")
}

pub(crate) async fn connect(server: &Server) -> Client {
    let channel = server.channel(endpoint().timeout(Duration::from_secs(10))).await;
    SottoClient::new(channel).max_decoding_message_size(limits::MESSAGE_MAX)
}

/// The refusal in a status that must be one.
pub(crate) fn refusal(status: &Status) -> Refused {
    match Failure::from(status) {
        Failure::Refused(refused) => refused,
        other => panic!("{other:?}: {status:?}"),
    }
}

pub(crate) fn deposit(label: u8, content: u8) -> Deposit {
    Deposit { label: Label([label; 16]), sealed: SealedBox([content; BOX_BYTES]) }
}

pub(crate) struct Member {
    pub(crate) client: Client,
    pub(crate) session: Bytes,
    pub(crate) keys: Bytes,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) secret: [u8; 32],
    pub(crate) manifest_key: [u8; 32],
}

impl Member {
    pub(crate) async fn register(server: &Server, number: u8) -> Self {
        let mut client = connect(server).await;
        let manifest_key = server.parameters().manifest_key;
        let session = session(&mut client, &manifest_key, number).await.unwrap();
        let (engine, secret) = (Arc::clone(server.engine()), [number; 32]);
        Self { client, session, keys: Bytes::new(), engine, secret, manifest_key }
    }

    pub(crate) async fn with_keys(server: &Server, number: u8) -> Self {
        let mut member = Self::register(server, number).await;
        member.upload().await.unwrap();
        member
    }

    pub(crate) async fn upload(&mut self) -> Result<(), Status> {
        let session = self.session.clone();
        let first = |number| if number == 0 { session.clone() } else { Bytes::new() };
        let chunk = |(number, data)| proto::KeysChunk { session: first(number), data };
        let chunks: Vec<_> = split(self.pir().public_keys().into()).enumerate().map(chunk).collect();
        let response = self.client.upload_keys(tokio_stream::iter(chunks)).await?;
        self.keys = response.into_inner().digest;
        Ok(())
    }

    pub(crate) async fn deposit(&mut self, round: Round, deposit: &Deposit) -> Result<(), Status> {
        let deposit = Bytes::copy_from_slice(&deposit.encode());
        let request = proto::DepositRequest { session: self.session.clone(), round: round.0, deposit };
        self.client.deposit(request).await.map(|_| ())
    }

    pub(crate) async fn watch(&mut self) -> Events {
        let request = proto::WatchRequest { session: self.session.clone() };
        let stream = self.client.watch(request).await.unwrap().into_inner();
        Events { stream, manifest_key: self.manifest_key }
    }

    pub(crate) async fn mapping(&mut self, round: Round) -> Result<Vec<u8>, Status> {
        let request = proto::MappingRequest { session: self.session.clone(), round: round.0 };
        let mut stream = self.client.mapping(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.message().await? {
            bytes.extend_from_slice(&chunk.data);
        }
        Ok(bytes)
    }

    /// What is sent of a bucket.
    pub(crate) async fn unit(&mut self, round: Round, unit: u32) -> Result<Vec<u8>, Status> {
        let request = proto::UnitRequest { session: self.session.clone(), round: round.0, unit };
        let mut stream = self.client.unit(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.message().await? {
            bytes.extend_from_slice(&chunk.data);
        }
        Ok(bytes)
    }

    /// Sends a multi-query of these bytes and returns all answer bytes.
    pub(crate) async fn send_query(&mut self, round: Round, query: Vec<u8>) -> Result<Vec<u8>, Status> {
        Ok(self.ask(round, query).await?.0)
    }

    /// The same with the receipt.
    pub(crate) async fn ask(&mut self, round: Round, query: Vec<u8>) -> Result<(Vec<u8>, Bytes), Status> {
        let (session, keys) = (self.session.clone(), self.keys.clone());
        let chunks = split(query.into()).enumerate().map(move |(number, data)| match number {
            0 => proto::QueryChunk { session: session.clone(), round: round.0, keys: keys.clone(), data },
            _ => proto::QueryChunk { data, ..Default::default() },
        });
        let mut stream =
            self.client.retrieve(tokio_stream::iter(chunks.collect::<Vec<_>>())).await?.into_inner();
        let (mut bytes, mut receipt) = (Vec::new(), Bytes::new());
        while let Some(chunk) = stream.message().await? {
            assert!(chunk.data.len() <= limits::CHUNK_BYTES && receipt.is_empty());
            bytes.extend_from_slice(&chunk.data);
            receipt = chunk.receipt;
        }
        Ok((bytes, receipt))
    }

    /// Retrieves these positions of the buckets.
    pub(crate) async fn retrieve(
        &mut self,
        manifest: &Manifest,
        targets: &[Option<usize>],
    ) -> Result<Vec<Vec<u8>>, Status> {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let request = self.pir().ask(self.spec(manifest), targets, &mut rng).unwrap();
        let answer = self.send_query(manifest.round, request.bytes).await?;
        Ok(request.pending.read(&[], &answer).into_iter().map(Result::unwrap).collect())
    }

    /// Its half of the engine, new every time: these tests ask for a round more than once.
    pub(crate) fn pir(&self) -> Box<dyn EngineClient> {
        self.engine.client(&self.secret)
    }

    /// A round, for engines whose requests do not depend on the seed.
    pub(crate) fn spec(&self, manifest: &Manifest) -> RoundSpec {
        let (buckets, elements) = (manifest.buckets.into(), manifest.bucket_size as usize);
        let form = Form { buckets, elements, element_bytes: BOX_BYTES };
        let profile = self.engine.profile(form).unwrap();
        RoundSpec { seed: [0; 32], whitening: [0; 32], round: manifest.round.0, form, profile }
    }

    /// Sizes of what is sent for a round.
    pub(crate) fn sizes(&self, manifest: &Manifest) -> Sizes {
        self.engine.sizes(&self.spec(manifest)).unwrap()
    }

    pub(crate) async fn decoded_mapping(&mut self, manifest: &Manifest) -> BloomMapping {
        BloomMapping::decode(&self.mapping(manifest.round).await.unwrap(), manifest).unwrap()
    }
}

pub(crate) async fn session(
    client: &mut Client,
    manifest_key: &[u8; 32],
    number: u8,
) -> Result<Bytes, Status> {
    session_by(client, manifest_key, number, Bytes::new()).await
}

/// A session for an account that may need a token.
pub(crate) async fn session_by(
    client: &mut Client,
    manifest_key: &[u8; 32],
    number: u8,
    token: Bytes,
) -> Result<Bytes, Status> {
    Ok(registered(client, manifest_key, number, token, Bytes::new()).await?.session)
}

/// All that is answered to an account that may need a token, and may have a slot to show.
pub(crate) async fn registered(
    client: &mut Client,
    manifest_key: &[u8; 32],
    number: u8,
    token: Bytes,
    slot: Bytes,
) -> Result<proto::RegisterResponse, Status> {
    let key = SigningKey::from_bytes(&[number; 32]);
    let account = key.verifying_key().to_bytes();
    let challenge = proto::ChallengeRequest { account: Bytes::copy_from_slice(&account) };
    let nonce = client.challenge(challenge).await?.into_inner().nonce;
    let signed: [u8; 32] = nonce[..].try_into().unwrap();
    let signature = key.sign(&sotto_wire::register::message(manifest_key, &account, &signed));
    let request = proto::RegisterRequest {
        account: Bytes::copy_from_slice(&account),
        nonce,
        signature: Bytes::copy_from_slice(&signature.to_bytes()),
        token,
        slot,
    };
    Ok(client.register(request).await?.into_inner())
}

/// The rounds' news.
pub(crate) struct Events {
    pub(crate) stream: Streaming<proto::RoundEvent>,
    pub(crate) manifest_key: [u8; 32],
}

impl Events {
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let next = tokio::time::timeout(Duration::from_secs(10), self.stream.message());
        next.await.unwrap().unwrap().map(|event| event.event.unwrap())
    }

    pub(crate) async fn opened(&mut self) -> Round {
        loop {
            if let Event::Opened(opened) = self.next().await.unwrap() {
                return Round(opened.round);
            }
        }
    }

    /// A round that has just opened: with time to deposit in it, however busy the machine.
    pub(crate) async fn fresh(&mut self) -> Round {
        loop {
            if let Event::Opened(opened) = self.next().await.unwrap()
                && opened.elapsed_ms < 50
            {
                return Round(opened.round);
            }
        }
    }

    pub(crate) async fn ready(&mut self) -> Manifest {
        loop {
            if let Event::Ready(ready) = self.next().await.unwrap() {
                return self.manifest(&ready.manifest.unwrap());
            }
        }
    }

    /// The manifest of this round, which must come.
    pub(crate) async fn ready_of(&mut self, round: Round) -> Manifest {
        loop {
            let manifest = self.ready().await;
            if manifest.round >= round {
                assert_eq!(manifest.round, round);
                return manifest;
            }
        }
    }

    fn manifest(&self, signed: &proto::SignedManifest) -> Manifest {
        let bytes = signed.manifest[..].try_into().unwrap();
        let signature = signed.signature[..].try_into().unwrap();
        SignedManifest { bytes, signature, segment: None }.verify(&self.manifest_key).unwrap()
    }
}
