//! A server that lies: it forwards every call to an honest one and tampers with what comes back, holding the honest
//! one's manifest key, as an operator does.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use ed25519_dalek::SigningKey;
use sotto_protocol::{
    Round,
    manifest::{Manifest, SignedManifest},
};
use sotto_wire::proto::{
    self, AnswerChunk, ChallengeRequest, ChallengeResponse, DepositRequest, DepositResponse, InfoRequest,
    InfoResponse, KeysChunk, ManifestsRequest, MappingChunk, MappingRequest, QueryChunk, RegisterRequest,
    RegisterResponse, RoundEvent, UploadKeysResponse, WatchRequest, round_event::Event, sotto_client::SottoClient,
    sotto_server::{Sotto, SottoServer},
};
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt, wrappers::TcpListenerStream};
use tonic::{Request, Response, Status, Streaming, transport::Channel};

const MESSAGE_LIMIT: usize = 8 << 20;

/// The lie to tell from the given round on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// None: an honest relay.
    Honest,
    /// One byte in the middle of every answer is flipped.
    CorruptElement,
    /// All answers are cut short.
    ShortAnswer,
    /// All answers are noise of the right size.
    NoiseAnswer,
    /// The mapping is noise of the right size.
    NoiseMapping,
    /// The mapping is cut short.
    ShortMapping,
    /// The manifest's signature is broken.
    UnsignedManifest,
    /// Another round seed than the one the database was built with, well signed.
    WrongSeed,
    /// Another number of entries and another bucket size, well signed.
    WrongCounts,
    /// A previous manifest's digest that is not the last one's, well signed.
    ForkedChain,
    /// Opened rounds are announced again and again.
    ReplayedRound,
    /// A round far in the future is announced.
    FarRound,
    /// Retrieval is refused.
    RefusedRetrieval,
    /// Deposits are refused.
    RefusedDeposit,
}

/// What the lying server saw.
#[derive(Default)]
pub struct Seen {
    /// For every deposit label: the distinct boxes that came under it.
    pub deposits: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// The round each deposit was made for, in order, one entry per distinct deposit.
    pub rounds: Vec<u64>,
}

/// A running liar.
pub struct Liar {
    /// Where clients connect.
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    upstream: SottoClient<Channel>,
    key: SigningKey,
    lie: Mutex<Lie>,
    seen: Mutex<Seen>,
}

impl Liar {
    /// Starts a relay to the honest server at `upstream`, whose manifest key has the given seed.
    pub async fn start(upstream: SocketAddr, manifest_seed: [u8; 32]) -> Self {
        let channel = Channel::from_shared(format!("http://{upstream}")).unwrap().connect().await.unwrap();
        let state = Arc::new(State {
            upstream: SottoClient::new(channel)
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT),
            key: SigningKey::from_bytes(&manifest_seed),
            lie: Mutex::new(Lie::Honest),
            seen: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = SottoServer::new(Relay(Arc::clone(&state))).max_decoding_message_size(MESSAGE_LIMIT);
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener)),
        );
        Self { address, state }
    }

    /// Tells this lie from now on.
    pub fn tell(&self, lie: Lie) {
        *self.state.lie.lock().unwrap() = lie;
    }

    /// Looks at what was seen.
    pub fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.state.seen.lock().unwrap())
    }
}

struct Relay(Arc<State>);

impl Relay {
    fn upstream(&self) -> SottoClient<Channel> {
        self.0.upstream.clone()
    }

    fn lie(&self) -> Lie {
        *self.0.lie.lock().unwrap()
    }
}

impl State {
    fn lie(&self) -> Lie {
        *self.lie.lock().unwrap()
    }

    /// The events to send in place of an honest one.
    fn events(&self, honest: RoundEvent) -> Vec<RoundEvent> {
        let lie = self.lie();
        let mut events = vec![honest];
        match (&mut events[0].event, lie) {
            (Some(Event::Opened(opened)), Lie::ReplayedRound) => {
                let old = proto::RoundOpened { round: opened.round.saturating_sub(1), elapsed_ms: 0 };
                let again = opened.clone();
                events.push(RoundEvent { event: Some(Event::Opened(again)) });
                events.push(RoundEvent { event: Some(Event::Opened(old)) });
            }
            (Some(Event::Opened(_)), Lie::FarRound) => {
                let far = proto::RoundOpened { round: 1 << 40, elapsed_ms: 0 };
                events.insert(0, RoundEvent { event: Some(Event::Opened(far)) });
            }
            (Some(Event::Ready(ready)), _) => {
                if let Some(manifest) = &mut ready.manifest {
                    *manifest = self.tamper(manifest, lie);
                }
            }
            _ => {}
        }
        events
    }

    fn tamper(&self, honest: &proto::SignedManifest, lie: Lie) -> proto::SignedManifest {
        let mut manifest = Manifest::decode(&honest.manifest).unwrap();
        match lie {
            Lie::UnsignedManifest => {
                let mut broken = honest.clone();
                let mut signature = broken.signature.to_vec();
                signature[7] ^= 1;
                broken.signature = signature.into();
                return broken;
            }
            Lie::WrongSeed => manifest.round_seed[0] ^= 1,
            Lie::WrongCounts => {
                manifest.entries += 1000;
                manifest.bucket_size += 1000;
            }
            Lie::ForkedChain => manifest.previous[0] ^= 1,
            _ => return honest.clone(),
        }
        let signed = SignedManifest::sign(&manifest, &self.key);
        proto::SignedManifest { manifest: signed.bytes.into(), signature: signed.signature.to_vec().into() }
    }
}

type BoxStream<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Sotto for Relay {
    type WatchStream = BoxStream<RoundEvent>;
    type MappingStream = BoxStream<MappingChunk>;
    type RetrieveStream = BoxStream<AnswerChunk>;
    type ManifestsStream = Streaming<proto::SignedManifest>;

    async fn info(&self, request: Request<InfoRequest>) -> Result<Response<InfoResponse>, Status> {
        self.upstream().info(request.into_inner()).await
    }

    async fn challenge(
        &self,
        request: Request<ChallengeRequest>,
    ) -> Result<Response<ChallengeResponse>, Status> {
        self.upstream().challenge(request.into_inner()).await
    }

    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        self.upstream().register(request.into_inner()).await
    }

    async fn upload_keys(
        &self,
        request: Request<Streaming<KeysChunk>>,
    ) -> Result<Response<UploadKeysResponse>, Status> {
        self.upstream().upload_keys(request.into_inner().filter_map(Result::ok)).await
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let honest = self.upstream().watch(request.into_inner()).await?.into_inner();
        let state = Arc::clone(&self.0);
        let (sender, receiver) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            let mut honest = honest;
            while let Some(event) = honest.next().await {
                let events = match event {
                    Ok(event) => state.events(event).into_iter().map(Ok).collect(),
                    Err(status) => vec![Err(status)],
                };
                for event in events {
                    if sender.send(event).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(receiver))))
    }

    async fn deposit(&self, request: Request<DepositRequest>) -> Result<Response<DepositResponse>, Status> {
        let request = request.into_inner();
        {
            let (label, sealed) = request.deposit.split_at(16);
            let mut seen = self.0.seen.lock().unwrap();
            let boxes = seen.deposits.entry(label.to_vec()).or_default();
            if !boxes.iter().any(|old| old == sealed) {
                boxes.push(sealed.to_vec());
                seen.rounds.push(request.round);
            }
        }
        if self.lie() == Lie::RefusedDeposit {
            return Err(Status::resource_exhausted("no"));
        }
        self.upstream().deposit(request).await
    }

    async fn mapping(&self, request: Request<MappingRequest>) -> Result<Response<Self::MappingStream>, Status> {
        let honest = self.upstream().mapping(request.into_inner()).await?.into_inner();
        let lie = self.lie();
        Ok(Response::new(Box::pin(honest.map(move |chunk| {
            chunk.map(|chunk| match lie {
                Lie::NoiseMapping => {
                    MappingChunk { data: chunk.data.iter().map(|byte| byte.wrapping_mul(197) ^ 0x5a).collect() }
                }
                Lie::ShortMapping => MappingChunk { data: chunk.data.slice(..chunk.data.len() / 2) },
                _ => chunk,
            })
        }))))
    }

    async fn retrieve(
        &self,
        request: Request<Streaming<QueryChunk>>,
    ) -> Result<Response<Self::RetrieveStream>, Status> {
        let lie = self.lie();
        if lie == Lie::RefusedRetrieval {
            // Read the whole query first, as a server that wants to look innocent would.
            let mut queries = request.into_inner();
            while queries.next().await.is_some() {}
            return Err(Status::resource_exhausted("no"));
        }
        let honest =
            self.upstream().retrieve(request.into_inner().filter_map(Result::ok)).await?.into_inner();
        Ok(Response::new(Box::pin(honest.map(move |chunk| {
            chunk.map(|chunk| match lie {
                Lie::CorruptElement => {
                    // A flip every 256 bytes reaches every element of every bucket.
                    let mut data = chunk.data.to_vec();
                    data.iter_mut().skip(100).step_by(256).for_each(|byte| *byte ^= 0x10);
                    AnswerChunk { data: data.into() }
                }
                Lie::NoiseAnswer => {
                    AnswerChunk { data: chunk.data.iter().map(|byte| byte.wrapping_mul(197) ^ 0x5a).collect() }
                }
                Lie::ShortAnswer => AnswerChunk { data: chunk.data.slice(..chunk.data.len() / 2) },
                _ => chunk,
            })
        }))))
    }

    async fn manifests(
        &self,
        request: Request<ManifestsRequest>,
    ) -> Result<Response<Self::ManifestsStream>, Status> {
        self.upstream().manifests(request.into_inner()).await
    }
}

/// The round a liar's far announcement names.
pub const FAR: Round = Round(1 << 40);
