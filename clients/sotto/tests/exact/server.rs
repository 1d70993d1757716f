//! An honest server in memory, which takes no time but that of its rounds, and notes what it sees.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use mpir::MultiDatabase;
use pir_core::Scheme;
use sha2::{Digest, Sha256};
use sotto_protocol::audit::{Statement, answer_digest, query_digest};
use sotto_protocol::deposit::{BOX_BYTES, arrange};
use sotto_protocol::manifest::seed::SeedTree;
use sotto_protocol::manifest::{
    MAPPING_BLOOM, Manifest, SignedManifest, bucket_digest, buckets_digest, deposits_digest,
};
use sotto_protocol::server::{SeedChain, segment_end};
use sotto_protocol::{BloomMapping, Deposit, Label, Round, ServerParameters};
use sotto_wire::proto::{self, round_event::Event, sotto_server::Sotto};
use sotto_wire::root::endorse;
use sotto_wire::{Info, Refused, split};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

pub(crate) type Account = [u8; 32];

/// How long a sealed round is built.
pub(crate) const BUILD_MS: u64 = 20;

/// Calls that carry something of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Upload,
    Deposit,
    Mapping,
    Retrieve,
    Bucket,
}

/// A call as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Since the server began.
    pub(crate) at: Duration,
    pub(crate) account: Account,
    pub(crate) call: Call,
    pub(crate) round: u64,
    /// The deposit, the query or the keys.
    pub(crate) bytes: Bytes,
    /// The digest of the keys, uploaded or named.
    pub(crate) keys: [u8; 32],
}

/// Whether, and why, a call of an account in a round is refused.
pub(crate) type Refusing = fn(Call, u64) -> Option<Refused>;

/// Changes the answers of a round, bucket by bucket.
pub(crate) type Tampering = Box<dyn FnMut(u64, &mut Vec<Vec<u8>>) + Send>;

struct Ready<S: Scheme> {
    signed: SignedManifest,
    at: Instant,
    mapping: Bytes,
    database: MultiDatabase<S>,
    pub(crate) boxes: Vec<u8>,
    /// Of every bucket, and the digests of all.
    contents: Vec<Vec<u8>>,
    digests: Vec<[u8; 32]>,
    manifest: [u8; 32],
}

struct State<S: Scheme> {
    open: Round,
    opened: Instant,
    deposits: BTreeMap<Account, Deposit>,
    ready: BTreeMap<Round, Arc<Ready<S>>>,
    newest: [u8; 32],
    seeds: SeedChain,
    keys: BTreeMap<Account, Vec<([u8; 32], Arc<S::PublicKeys>)>>,
    watchers: Vec<mpsc::UnboundedSender<Result<proto::RoundEvent, Status>>>,
    seen: Vec<Seen>,
    answers: Vec<(Round, Bytes)>,
}

/// A server.
pub(crate) struct Server<S: Scheme> {
    pub(crate) parameters: ServerParameters,
    root: SigningKey,
    key: SigningKey,
    began: Instant,
    /// Sets of keys held for each account.
    generations: usize,
    refusing: Mutex<(Option<Account>, Refusing)>,
    tampering: Mutex<Tampering>,
    state: Mutex<State<S>>,
}

/// Its calls.
pub(crate) struct Calls<S: Scheme>(pub(crate) Arc<Server<S>>);

impl<S: Scheme> Server<S> {
    pub(crate) fn start(mut parameters: ServerParameters, first: Round, generations: usize) -> Arc<Self> {
        let (root, key) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        parameters.manifest_key = key.verifying_key().to_bytes();
        let secret = [3; 32];
        let seeds = SeedTree::new(first, vec![segment_end(&secret, first, 0)]).unwrap();
        parameters.seeds = seeds.commitment();
        let seeds = SeedChain::new(secret.into(), seeds).unwrap();
        let state = State {
            open: first,
            opened: Instant::now(),
            deposits: BTreeMap::new(),
            ready: BTreeMap::new(),
            newest: [0; 32],
            seeds,
            keys: BTreeMap::new(),
            watchers: Vec::new(),
            seen: Vec::new(),
            answers: Vec::new(),
        };
        let server = Arc::new(Self {
            parameters,
            root,
            key,
            began: Instant::now(),
            generations,
            refusing: Mutex::new((None, |_, _| None)),
            tampering: Mutex::new(Box::new(|_, _| {})),
            state: Mutex::new(state),
        });
        tokio::spawn(Arc::clone(&server).rounds());
        server
    }

    pub(crate) fn root(&self) -> [u8; 32] {
        self.root.verifying_key().to_bytes()
    }

    /// From now on some calls of this account are refused.
    pub(crate) fn refuse(&self, account: Account, refusing: Refusing) {
        *self.refusing.lock().unwrap() = (Some(account), refusing);
    }

    /// From now on the answers of rounds are changed before they are signed and sent.
    pub(crate) fn tamper(&self, tampering: Tampering) {
        *self.tampering.lock().unwrap() = tampering;
    }

    /// What was seen of an account.
    pub(crate) fn seen(&self, account: &Account) -> Vec<Seen> {
        self.state.lock().unwrap().seen.iter().filter(|seen| seen.account == *account).cloned().collect()
    }

    /// The answers of a round, whosoever asked, and the boxes in it.
    pub(crate) fn answered(&self, round: Round) -> (Vec<Bytes>, Vec<u8>) {
        let state = self.state.lock().unwrap();
        let answers = state.answers.iter().filter(|(of, _)| *of == round);
        (answers.map(|(_, answer)| answer.clone()).collect(), state.ready[&round].boxes.clone())
    }

    async fn rounds(self: Arc<Self>) {
        let length = Duration::from_millis(self.parameters.round_ms.into());
        loop {
            let until = {
                let mut state = self.state.lock().unwrap();
                state.opened = Instant::now();
                let opened = proto::RoundOpened { round: state.open.0, elapsed_ms: 0 };
                state.tell(&Event::Opened(opened));
                state.opened + length
            };
            sleep_until(until).await;
            let mut state = self.state.lock().unwrap();
            let (round, deposits) = (state.open, core::mem::take(&mut state.deposits));
            state.open = Round(round.0 + 1);
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                sleep(Duration::from_millis(BUILD_MS)).await;
                server.publish(round, deposits.into_values().collect());
            });
        }
    }

    fn publish(&self, round: Round, mut deposits: Vec<Deposit>) {
        let mut state = self.state.lock().unwrap();
        let parameters = &self.parameters;
        let seed = state.seeds.seed(round).unwrap();
        arrange(&mut deposits, &seed);
        // As large as any bucket could be, so that sizes do not depend on labels, which are random.
        let padded = deposits.len().max(1);
        let mut manifest = Manifest {
            version: parameters.protocol_version,
            round,
            entries: deposits.len() as u64,
            engine: S::NAME.to_owned(),
            code: parameters.code,
            retrieve: parameters.retrieve,
            buckets: parameters.buckets,
            choices: parameters.choices,
            mapping_kind: MAPPING_BLOOM,
            bucket_size: padded as u32,
            round_seed: seed,
            mapping_digest: [0; 32],
            deposits_digest: deposits_digest(&deposits),
            buckets_digest: [0; 32],
            previous: state.newest,
        };
        let code = manifest.code().unwrap();
        let labels: Vec<Label> = deposits.iter().map(|deposit| deposit.label).collect();
        let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
        let encoding = code.encode(&keys);
        let boxes: Vec<u8> = deposits.iter().flat_map(|deposit| deposit.sealed.0).collect();
        let contents = encoding.materialise(BOX_BYTES, &boxes, padded).unwrap();
        let database = MultiDatabase::setup(BOX_BYTES, padded, &contents).unwrap();
        let mapping = BloomMapping::build(&seed, &*code, &encoding, &labels, padded as u32).unwrap();
        manifest.mapping_digest = BloomMapping::digest(&mapping);
        let digests: Vec<[u8; 32]> =
            (0..).zip(&contents).map(|(bucket, boxes)| bucket_digest(bucket, boxes)).collect();
        manifest.buckets_digest = buckets_digest(&digests);
        manifest.check().unwrap();
        state.newest = manifest.digest();
        let segment = state.seeds.tree().of(round);
        let signed = SignedManifest::sign(&manifest, &self.key).with_segment(segment);
        let event = proto::RoundReady { manifest: Some((&signed).into()), elapsed_ms: 0 };
        let ready = Ready {
            signed,
            at: Instant::now(),
            mapping: mapping.into(),
            database,
            boxes,
            contents,
            digests,
            manifest: manifest.digest(),
        };
        state.ready.insert(round, Arc::new(ready));
        state.tell(&Event::Ready(event));
    }

    /// Notes a call, and refuses it or not.
    fn meet(
        &self,
        call: Call,
        account: &[u8],
        round: u64,
        bytes: Bytes,
        keys: [u8; 32],
    ) -> Result<Account, Status> {
        let account: Account = account.try_into().map_err(|_| Status::from(Refused::UnknownSession))?;
        let at = self.began.elapsed();
        self.state.lock().unwrap().seen.push(Seen { at, account, call, round, bytes, keys });
        let (whom, refusing) = *self.refusing.lock().unwrap();
        let refused = if whom == Some(account) { refusing(call, round) } else { None };
        refused.map_or(Ok(account), |refused| Err(refused.into()))
    }

    fn ready(&self, round: u64) -> Result<Arc<Ready<S>>, Status> {
        self.state
            .lock()
            .unwrap()
            .ready
            .get(&Round(round))
            .cloned()
            .ok_or_else(|| Refused::RoundNotReady.into())
    }
}

impl<S: Scheme> State<S> {
    fn tell(&mut self, event: &Event) {
        let event = proto::RoundEvent { event: Some(event.clone()) };
        self.watchers.retain(|watcher| watcher.send(Ok(event.clone())).is_ok());
    }
}

async fn whole<T>(stream: &mut Streaming<T>, data: fn(T) -> Bytes) -> Result<Bytes, Status> {
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&data(chunk?));
    }
    Ok(bytes.into())
}

type BoxStream<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn chunks<T: Send + 'static>(bytes: Bytes, chunk: fn(Bytes) -> T) -> Response<BoxStream<T>> {
    let all: Vec<_> = split(bytes).map(|data| Ok(chunk(data))).collect();
    Response::new(Box::pin(tokio_stream::iter(all)))
}

#[tonic::async_trait]
impl<S: Scheme> Sotto for Calls<S> {
    type WatchStream = UnboundedReceiverStream<Result<proto::RoundEvent, Status>>;
    type MappingStream = BoxStream<proto::MappingChunk>;
    type RetrieveStream = BoxStream<proto::AnswerChunk>;
    type BucketStream = BoxStream<proto::BucketChunk>;
    type ManifestsStream = BoxStream<proto::SignedManifest>;

    async fn info(&self, _: Request<proto::InfoRequest>) -> Result<Response<proto::InfoResponse>, Status> {
        let parameters = self.0.parameters.clone();
        let endorsement = endorse(&self.0.root, &parameters);
        let open = self.0.state.lock().unwrap().open;
        Ok(Response::new(Info { parameters, open, endorsement, token_required: false }.into()))
    }

    async fn challenge(
        &self,
        _: Request<proto::ChallengeRequest>,
    ) -> Result<Response<proto::ChallengeResponse>, Status> {
        Ok(Response::new(proto::ChallengeResponse { nonce: vec![7; 32].into() }))
    }

    /// A session is named by its account: nobody here lies.
    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::RegisterResponse>, Status> {
        Ok(Response::new(proto::RegisterResponse { session: request.into_inner().account }))
    }

    async fn upload_keys(
        &self,
        request: Request<Streaming<proto::KeysChunk>>,
    ) -> Result<Response<proto::UploadKeysResponse>, Status> {
        let mut stream = request.into_inner();
        let first = stream.next().await.ok_or_else(|| Status::from(Refused::Malformed))??;
        let rest = whole(&mut stream, |chunk: proto::KeysChunk| chunk.data).await?;
        let bytes = Bytes::from([first.data, rest].concat());
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let round = self.0.state.lock().unwrap().open.0;
        let account = self.0.meet(Call::Upload, &first.session, round, bytes.clone(), digest)?;
        let keys = S::decode_public_keys(&bytes).map_err(|_| Status::from(Refused::Malformed))?;
        let mut state = self.0.state.lock().unwrap();
        let held = state.keys.entry(account).or_default();
        held.retain(|(other, _)| *other != digest);
        held.push((digest, Arc::new(keys)));
        let surplus = held.len().saturating_sub(self.0.generations);
        held.drain(..surplus);
        Ok(Response::new(proto::UploadKeysResponse { digest: digest.to_vec().into() }))
    }

    async fn watch(&self, _: Request<proto::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.0.state.lock().unwrap();
        let oldest = state.open.back(u64::from(self.0.parameters.retained));
        for (_, ready) in state.ready.range(oldest..) {
            let elapsed_ms = ready.at.elapsed().as_millis() as u32;
            let ready = proto::RoundReady { manifest: Some((&ready.signed).into()), elapsed_ms };
            drop(sender.send(Ok(proto::RoundEvent { event: Some(Event::Ready(ready)) })));
        }
        let elapsed_ms = state.opened.elapsed().as_millis() as u32;
        let opened = proto::RoundOpened { round: state.open.0, elapsed_ms };
        drop(sender.send(Ok(proto::RoundEvent { event: Some(Event::Opened(opened)) })));
        state.watchers.push(sender);
        Ok(Response::new(UnboundedReceiverStream::new(receiver)))
    }

    async fn deposit(
        &self,
        request: Request<proto::DepositRequest>,
    ) -> Result<Response<proto::DepositResponse>, Status> {
        let proto::DepositRequest { session, round, deposit } = request.into_inner();
        let account = self.0.meet(Call::Deposit, &session, round, deposit.clone(), [0; 32])?;
        let mut state = self.0.state.lock().unwrap();
        if state.open.0 != round {
            return Err(Refused::RoundClosed.into());
        }
        let deposit = Deposit::decode(&deposit).map_err(|_| Status::from(Refused::Malformed))?;
        state.deposits.insert(account, deposit);
        Ok(Response::new(proto::DepositResponse {}))
    }

    async fn mapping(
        &self,
        request: Request<proto::MappingRequest>,
    ) -> Result<Response<Self::MappingStream>, Status> {
        let proto::MappingRequest { session, round } = request.into_inner();
        self.0.meet(Call::Mapping, &session, round, Bytes::new(), [0; 32])?;
        Ok(chunks(self.0.ready(round)?.mapping.clone(), |data| proto::MappingChunk { data }))
    }

    async fn retrieve(
        &self,
        request: Request<Streaming<proto::QueryChunk>>,
    ) -> Result<Response<Self::RetrieveStream>, Status> {
        let mut stream = request.into_inner();
        let first = stream.next().await.ok_or_else(|| Status::from(Refused::Malformed))??;
        let rest = whole(&mut stream, |chunk: proto::QueryChunk| chunk.data).await?;
        let query = Bytes::from([first.data, rest].concat());
        let digest: [u8; 32] = first.keys[..].try_into().map_err(|_| Status::from(Refused::Malformed))?;
        let account = self.0.meet(Call::Retrieve, &first.session, first.round, query.clone(), digest)?;
        let ready = self.0.ready(first.round)?;
        let keys = {
            let state = self.0.state.lock().unwrap();
            let held = state.keys.get(&account).into_iter().flatten();
            held.into_iter().find(|(held, _)| *held == digest).map(|(_, keys)| Arc::clone(keys))
        };
        let keys = keys.ok_or_else(|| Status::from(Refused::UnknownKeys))?;
        let size = S::query_bytes(ready.database.parameters());
        let queries: Vec<&[u8]> = query.chunks(size).collect();
        let mut answers =
            ready.database.answer(&keys, &queries).map_err(|_| Status::from(Refused::Malformed))?;
        (self.0.tampering.lock().unwrap())(first.round, &mut answers);
        let queried: Vec<_> =
            (0..).zip(&queries).map(|(bucket, query)| query_digest(bucket, query)).collect();
        let answered: Vec<_> =
            (0..).zip(&answers).map(|(bucket, answer)| answer_digest(bucket, answer)).collect();
        let statement = Statement::new(Round(first.round), ready.manifest, digest, &queried, &answered);
        let receipt = Bytes::copy_from_slice(&statement.sign(&self.0.key));
        let answer = Bytes::from(answers.concat());
        self.0.state.lock().unwrap().answers.push((Round(first.round), answer.clone()));
        let mut chunks: Vec<_> =
            split(answer).map(|data| proto::AnswerChunk { data, receipt: Bytes::new() }).collect();
        chunks.last_mut().unwrap().receipt = receipt;
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks.into_iter().map(Ok)))))
    }

    async fn bucket(
        &self,
        request: Request<proto::BucketRequest>,
    ) -> Result<Response<Self::BucketStream>, Status> {
        let proto::BucketRequest { session, round, bucket } = request.into_inner();
        let asked = Bytes::copy_from_slice(&bucket.to_le_bytes());
        self.0.meet(Call::Bucket, &session, round, asked, [0; 32])?;
        let ready = self.0.ready(round)?;
        let boxes = &ready.contents[bucket as usize];
        let bytes = [ready.digests.as_flattened(), boxes].concat();
        Ok(chunks(bytes.into(), |data| proto::BucketChunk { data }))
    }

    async fn manifests(
        &self,
        request: Request<proto::ManifestsRequest>,
    ) -> Result<Response<Self::ManifestsStream>, Status> {
        let proto::ManifestsRequest { first, last, .. } = request.into_inner();
        let state = self.0.state.lock().unwrap();
        let all: Vec<_> = state
            .ready
            .range(Round(first)..=Round(last))
            .map(|(_, ready)| Ok((&ready.signed).into()))
            .collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(all))))
    }
}
