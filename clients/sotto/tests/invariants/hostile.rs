//! A server that lies: it forwards every call to an honest one and tampers with what comes back, holding the honest
//! one's manifest key, as an operator does.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use sotto_protocol::{
    Deposit, Round,
    manifest::{Manifest, SignedManifest},
};
use sotto_wire::proto::{
    AnswerChunk, BucketChunk, BucketRequest, ChallengeRequest, ChallengeResponse, DepositRequest,
    DepositResponse, InfoRequest, InfoResponse, KeysChunk, ManifestsRequest, MappingChunk, MappingRequest,
    QueryChunk, RegisterRequest, RegisterResponse, RoundEvent, SignedManifest as WireManifest,
    UploadKeysResponse, WatchRequest,
    round_event::Event,
    sotto_client::SottoClient,
    sotto_server::{Sotto, SottoServer},
};
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt, wrappers::TcpListenerStream};
use tonic::{Request, Response, Status, Streaming, transport::Channel};

use crate::forgery::{Forged, Forgery};
use crate::lies::{Account, Call, FAR, Lie, Plan};
use crate::teller::Teller;

const MESSAGE_LIMIT: usize = 8 << 20;

/// A call as the server saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenCall {
    pub(crate) account: Account,
    pub(crate) call: Call,
    pub(crate) round: u64,
    /// Bytes of the deposit or the multi-query.
    pub(crate) bytes: usize,
    /// Time since the event to which it belongs was announced to this account.
    pub(crate) since: Option<Duration>,
}

/// What the lying server saw.
#[derive(Default)]
pub(crate) struct Seen {
    /// For every deposit label: the distinct boxes that came under it.
    pub(crate) deposits: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// The round each deposit was made for, in order, one entry per distinct deposit.
    pub(crate) rounds: Vec<u64>,
    /// Every call of a round.
    pub(crate) calls: Vec<SeenCall>,
    /// What was deposited in a round, and by whom.
    pub(crate) by_round: BTreeMap<u64, Vec<(Account, Deposit)>>,
    /// When an event was announced to an account: opened, and ready.
    announced: HashMap<(Account, bool, u64), Instant>,
    /// The newest round that was opened.
    pub(crate) newest: u64,
}

/// What one account was shown.
#[derive(Default)]
struct History {
    shown: BTreeMap<u64, SignedManifest>,
    forged: BTreeMap<u64, Forged>,
    /// Whether it is another one than the honest server's.
    diverged: bool,
}

/// A running liar.
pub(crate) struct Liar {
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

pub(crate) struct State {
    upstream: Mutex<SottoClient<Channel>>,
    key: SigningKey,
    lie: Mutex<Lie>,
    plans: Mutex<Vec<Plan>>,
    seen: Mutex<Seen>,
    /// Whose a session is.
    sessions: Mutex<HashMap<Vec<u8>, Account>>,
    histories: Mutex<HashMap<Account, History>>,
}

async fn connect(upstream: SocketAddr) -> SottoClient<Channel> {
    let channel = Channel::from_shared(format!("http://{upstream}")).unwrap().connect().await.unwrap();
    SottoClient::new(channel)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT)
}

impl Liar {
    /// Starts a relay to the honest server at `upstream`, whose manifest key has the given seed.
    pub(crate) async fn start(upstream: SocketAddr, manifest_seed: [u8; 32]) -> Self {
        let state = Arc::new(State {
            upstream: Mutex::new(connect(upstream).await),
            key: SigningKey::from_bytes(&manifest_seed),
            lie: Mutex::new(Lie::Honest),
            plans: Mutex::default(),
            seen: Mutex::default(),
            sessions: Mutex::default(),
            histories: Mutex::default(),
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
    pub(crate) fn tell(&self, lie: Lie) {
        *self.state.lie.lock().unwrap() = lie;
    }

    /// Tells a lie in the rounds of the plan.
    pub(crate) fn plan(&self, plan: Plan) {
        self.state.plans.lock().unwrap().push(plan);
    }

    /// Relays to another server with the same key from now on, and forgets what was shown.
    pub(crate) async fn redirect(&self, upstream: SocketAddr) {
        let upstream = connect(upstream).await;
        *self.state.upstream.lock().unwrap() = upstream;
        self.state.histories.lock().unwrap().clear();
        self.state.seen.lock().unwrap().newest = 0;
    }

    /// Looks at what was seen.
    pub(crate) fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.state.seen.lock().unwrap())
    }
}

struct Relay(Arc<State>);

impl State {
    fn upstream(&self) -> SottoClient<Channel> {
        self.upstream.lock().unwrap().clone()
    }

    fn account(&self, session: &[u8]) -> Account {
        self.sessions.lock().unwrap().get(session).copied().unwrap_or_default()
    }

    /// What to tell somebody in a round, and how many rounds the lie has lasted by then.
    pub(crate) fn told(&self, account: &Account, round: u64) -> (Lie, u64) {
        let plans = self.plans.lock().unwrap();
        let fits = |plan: &&Plan| {
            plan.rounds.contains(&round) && plan.target.is_none_or(|target| target == *account)
        };
        let plan = plans.iter().rfind(fits);
        plan.map_or_else(|| (*self.lie.lock().unwrap(), 0), |plan| (plan.lie, round - plan.rounds.start))
    }

    /// Notes that an event is announced.
    pub(crate) fn announce(&self, account: &Account, event: &RoundEvent) {
        let mut seen = self.seen.lock().unwrap();
        let (ready, round) = match &event.event {
            Some(Event::Opened(opened)) => {
                if opened.round < FAR.0 {
                    seen.newest = seen.newest.max(opened.round);
                }
                (false, opened.round)
            }
            Some(Event::Ready(ready)) => (true, round_of(ready.manifest.as_ref())),
            None => return,
        };
        seen.announced.entry((*account, ready, round)).or_insert_with(Instant::now);
    }

    /// Notes a call, and does with it what the plan says: it may take a while, or be refused.
    async fn meet(&self, account: Account, call: Call, round: u64, bytes: usize) -> Result<(), Status> {
        {
            let mut seen = self.seen.lock().unwrap();
            let event = seen.announced.get(&(account, call != Call::Deposit, round));
            let since = event.map(Instant::elapsed);
            seen.calls.push(SeenCall { account, call, round, bytes, since });
        }
        match self.told(&account, round).0 {
            Lie::Refuse(kind, refused) if kind == call => Err(refused.into()),
            Lie::Delay(kind, ms) if kind == call => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The manifest to show in place of an honest one. Who has been shown another history stays in it.
    pub(crate) fn show(&self, account: &Account, honest: &WireManifest) -> WireManifest {
        let mut manifest = Manifest::decode(&honest.manifest).unwrap();
        let round = manifest.round.0;
        let segment = SignedManifest::try_from(honest).unwrap().segment;
        let (lie, _) = self.told(account, round);
        let tampered = self.tamper(honest, lie);
        if tampered != *honest {
            return tampered;
        }
        let mut histories = self.histories.lock().unwrap();
        let history = histories.entry(*account).or_default();
        if lie != Lie::ReadyFirst
            && let Some(shown) = history.shown.get(&round)
        {
            return shown.into();
        }
        if history.diverged
            && let Some((_, before)) = history.shown.range(..round).next_back()
        {
            manifest.previous = Manifest::decode(&before.bytes).unwrap().digest();
        }
        let signed = if let Lie::Forge(forgery) = lie {
            let deposits = self.seen.lock().unwrap().by_round.get(&round).cloned().unwrap_or_default();
            let mut forged = Forged::new(forgery, account, &deposits, manifest, &self.key);
            forged.signed.segment = segment;
            let signed = forged.signed.clone();
            history.forged.insert(round, forged);
            history.diverged = true;
            signed
        } else {
            SignedManifest::sign(&manifest, &self.key).with_segment(segment)
        };
        history.shown.entry(round).or_insert_with(|| signed.clone());
        (&signed).into()
    }

    /// A round, announced as ready while it takes deposits, in which there is nothing.
    pub(crate) fn show_early(&self, account: &Account, round: u64) -> Option<WireManifest> {
        let mut histories = self.histories.lock().unwrap();
        let history = histories.entry(*account).or_default();
        let (_, before) = history.shown.range(..round).next_back()?;
        let mut manifest = Manifest::decode(&before.bytes).unwrap();
        manifest.previous = manifest.digest();
        manifest.round = Round(round);
        let forged = Forged::new(Forgery::OtherSeed, account, &[], manifest, &self.key);
        let signed = forged.signed.clone();
        history.forged.insert(round, forged);
        history.shown.insert(round, signed.clone());
        history.diverged = true;
        Some((&signed).into())
    }

    /// Everything shown so far, each under another seed.
    pub(crate) fn reseeded(&self, account: &Account) -> Vec<WireManifest> {
        let histories = self.histories.lock().unwrap();
        let shown = histories.get(account).into_iter().flat_map(|history| history.shown.values());
        let reseed = |signed: &SignedManifest| {
            let mut manifest = Manifest::decode(&signed.bytes).unwrap();
            manifest.round_seed[0] ^= 0x80;
            (&SignedManifest::sign(&manifest, &self.key)).into()
        };
        shown.map(reseed).collect()
    }

    /// Something of the round as it was forged for this account, if it was.
    fn forged<T>(&self, account: &Account, round: u64, look: impl FnOnce(&Forged) -> T) -> Option<T> {
        Some(look(self.histories.lock().unwrap().get(account)?.forged.get(&round)?))
    }

    /// What was shown of these rounds to somebody who is in another history than everybody else.
    fn other_history(&self, account: &Account, first: u64, last: u64) -> Option<Vec<WireManifest>> {
        let histories = self.histories.lock().unwrap();
        let history = histories.get(account).filter(|history| history.diverged)?;
        Some(history.shown.range(first..=last).map(|(_, shown)| shown.into()).collect())
    }

    fn tamper(&self, honest: &WireManifest, lie: Lie) -> WireManifest {
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
                manifest.entries = 4 * manifest.entries + 8;
                manifest.bucket_size = 8;
            }
            Lie::ImpossibleCounts => manifest.bucket_size += 1 << 20,
            Lie::ForkedChain => manifest.previous[0] ^= 1,
            _ => return honest.clone(),
        }
        let segment = SignedManifest::try_from(honest).unwrap().segment;
        (&SignedManifest::sign(&manifest, &self.key).with_segment(segment)).into()
    }
}

/// The round of a manifest as it is sent; 0 if it has none.
pub(crate) fn round_of(signed: Option<&WireManifest>) -> u64 {
    signed.and_then(|signed| Manifest::decode(&signed.manifest).ok()).map_or(0, |manifest| manifest.round.0)
}

type BoxStream<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Sotto for Relay {
    type WatchStream = BoxStream<RoundEvent>;
    type MappingStream = BoxStream<MappingChunk>;
    type RetrieveStream = BoxStream<AnswerChunk>;
    type BucketStream = BoxStream<BucketChunk>;
    type ManifestsStream = BoxStream<WireManifest>;

    async fn info(&self, request: Request<InfoRequest>) -> Result<Response<InfoResponse>, Status> {
        self.0.upstream().info(request.into_inner()).await
    }

    async fn challenge(
        &self,
        request: Request<ChallengeRequest>,
    ) -> Result<Response<ChallengeResponse>, Status> {
        self.0.upstream().challenge(request.into_inner()).await
    }

    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let request = request.into_inner();
        let account = request.account[..].try_into().unwrap_or_default();
        let answer = self.0.upstream().register(request).await?;
        self.0.sessions.lock().unwrap().insert(answer.get_ref().session.to_vec(), account);
        Ok(answer)
    }

    async fn upload_keys(
        &self,
        request: Request<Streaming<KeysChunk>>,
    ) -> Result<Response<UploadKeysResponse>, Status> {
        self.0.upstream().upload_keys(request.into_inner().filter_map(Result::ok)).await
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let state = Arc::clone(&self.0);
        let mut teller = Teller::new(state.account(&request.session));
        let mut honest = state.upstream().watch(request).await?.into_inner();
        let (sender, receiver) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            while let Some(event) = honest.next().await {
                let events = match event {
                    Ok(event) => teller.events(&state, event),
                    Err(status) => return drop(sender.send(Err(status)).await),
                };
                for (delay, event) in events {
                    tokio::time::sleep(delay).await;
                    state.announce(&teller.account, &event);
                    if sender.send(Ok(event)).await.is_err() {
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
        let account = self.0.account(&request.session);
        self.0.meet(account, Call::Deposit, request.round, request.deposit.len()).await?;
        if self.0.told(&account, request.round).0 == Lie::RefusedDeposit {
            return Err(Status::resource_exhausted("no"));
        }
        let (round, deposit) = (request.round, Deposit::decode(&request.deposit).unwrap());
        let answer = self.0.upstream().deposit(request).await?;
        let mut seen = self.0.seen.lock().unwrap();
        let deposits = seen.by_round.entry(round).or_default();
        if !deposits.contains(&(account, deposit.clone())) {
            deposits.push((account, deposit));
        }
        Ok(answer)
    }

    async fn mapping(
        &self,
        request: Request<MappingRequest>,
    ) -> Result<Response<Self::MappingStream>, Status> {
        let request = request.into_inner();
        let (account, round) = (self.0.account(&request.session), request.round);
        self.0.meet(account, Call::Mapping, round, 0).await?;
        if let Some(mapping) = self.0.forged(&account, round, |forged| forged.mapping.clone()) {
            let chunks = sotto_wire::split(mapping.into()).map(|data| Ok(MappingChunk { data }));
            return Ok(Response::new(Box::pin(tokio_stream::iter(chunks.collect::<Vec<_>>()))));
        }
        let honest = self.0.upstream().mapping(request).await?.into_inner();
        let lie = self.0.told(&account, round).0;
        Ok(Response::new(Box::pin(honest.map(move |chunk| {
            chunk.map(|chunk| match lie {
                Lie::NoiseMapping => MappingChunk {
                    data: chunk.data.iter().map(|byte| byte.wrapping_mul(197) ^ 0x5a).collect(),
                },
                Lie::ShortMapping => MappingChunk { data: chunk.data.slice(..chunk.data.len() / 2) },
                _ => chunk,
            })
        }))))
    }

    async fn retrieve(
        &self,
        request: Request<Streaming<QueryChunk>>,
    ) -> Result<Response<Self::RetrieveStream>, Status> {
        // The whole query is read first, as a server that wants to look innocent would.
        let queries: Vec<QueryChunk> = request.into_inner().filter_map(Result::ok).collect().await;
        let first = queries.first().cloned().unwrap_or_default();
        let (account, round) = (self.0.account(&first.session), first.round);
        let query: Vec<u8> = queries.iter().flat_map(|chunk| chunk.data.clone()).collect();
        self.0.meet(account, Call::Retrieve, round, query.len()).await?;
        let lie = self.0.told(&account, round).0;
        if lie == Lie::RefusedRetrieval {
            return Err(Status::resource_exhausted("no"));
        }
        if let Some(answer) = self.0.forged(&account, round, |forged| forged.answer(&query)) {
            let chunks =
                sotto_wire::split(answer.into()).map(|data| Ok(AnswerChunk { data, receipt: Bytes::new() }));
            return Ok(Response::new(Box::pin(tokio_stream::iter(chunks.collect::<Vec<_>>()))));
        }
        let honest = self.0.upstream().retrieve(tokio_stream::iter(queries)).await?.into_inner();
        Ok(Response::new(Box::pin(honest.map(move |chunk| {
            chunk.map(|chunk| match lie {
                Lie::CorruptElement => {
                    // A flip every 256 bytes reaches every element of every bucket.
                    let mut data = chunk.data.to_vec();
                    data.iter_mut().skip(100).step_by(256).for_each(|byte| *byte ^= 0x10);
                    AnswerChunk { data: data.into(), ..chunk }
                }
                Lie::NoiseAnswer => AnswerChunk {
                    data: chunk.data.iter().map(|byte| byte.wrapping_mul(197) ^ 0x5a).collect(),
                    ..chunk
                },
                Lie::ShortAnswer => AnswerChunk { data: chunk.data.slice(..chunk.data.len() / 2), ..chunk },
                _ => chunk,
            })
        }))))
    }

    async fn bucket(&self, request: Request<BucketRequest>) -> Result<Response<Self::BucketStream>, Status> {
        let honest = self.0.upstream().bucket(request.into_inner()).await?.into_inner();
        Ok(Response::new(Box::pin(honest)))
    }

    async fn manifests(
        &self,
        request: Request<ManifestsRequest>,
    ) -> Result<Response<Self::ManifestsStream>, Status> {
        let request = request.into_inner();
        let account = self.0.account(&request.session);
        self.0.meet(account, Call::Manifests, request.last, 0).await?;
        if let Some(shown) = self.0.other_history(&account, request.first, request.last) {
            return Ok(Response::new(Box::pin(tokio_stream::iter(shown.into_iter().map(Ok)))));
        }
        let honest = self.0.upstream().manifests(request).await?.into_inner();
        Ok(Response::new(Box::pin(honest)))
    }
}
