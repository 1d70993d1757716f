//! The calls to a server, typed in terms of the protocol, each with a deadline and a limit on what it takes in.

mod check;
mod error;
mod transport;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use ed25519_dalek::{Signer as _, SigningKey};
use mpir::Engines;
use sha2::{Digest, Sha256};
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::{PROTOCOL_VERSION, Round, RoundMode, ServerParameters, SignedManifest, Succession};
use sotto_wire::proto::sotto_client::SottoClient;
use sotto_wire::{Failure, Info, Join, RootKey, StreamError, Token, fixed, limits, proto, register, split};
use tokio::time::{Instant, timeout};
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::Address;
use crate::audit::Announced;
use crate::host::{Host, System};
use transport::{Peers, channel_on};

pub(crate) use check::engine;
pub use check::{check, verify};
pub use error::ConnectError;
pub use transport::{channel, endpoint};

/// Flow-control window of one stream: at 20 ms of round trip still 200 MB/s.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// Where to connect, and how patiently.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// The server.
    pub address: Address,
    /// For the connection itself.
    pub connect_timeout: Duration,
    /// For calls of a few hundred bytes.
    pub call_timeout: Duration,
    /// For calls that carry keys, mappings, queries or answers.
    pub transfer_timeout: Duration,
    /// A silent connection is probed this often, and given up after as long again.
    pub keep_alive: Duration,
    /// The first pause before a lost connection is opened again; it doubles up to `retry_most`.
    pub retry_first: Duration,
    /// The longest such pause.
    pub retry_most: Duration,
    /// The engines that this program knows.
    pub engines: Engines,
    /// Accept an engine without privacy. Only for tests of the layers above the engine.
    #[doc(hidden)]
    pub allow_no_privacy: bool,
}

impl ConnectionSettings {
    /// The usual patience.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(10),
            transfer_timeout: Duration::from_secs(120),
            keep_alive: Duration::from_secs(15),
            retry_first: Duration::from_millis(500),
            retry_most: Duration::from_secs(30),
            engines: Engines::default(),
            allow_no_privacy: false,
        }
    }
}

/// A connection to a server, without a session.
#[derive(Clone)]
pub struct Connection {
    client: SottoClient<Channel>,
    settings: ConnectionSettings,
    peers: Arc<Peers>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// [`ConnectError::Unreachable`] or [`ConnectError::WrongKey`].
    pub async fn open(settings: &ConnectionSettings) -> Result<Self, ConnectError> {
        Self::open_on(Arc::new(System), settings).await
    }

    /// Connects from a given machine.
    ///
    /// # Errors
    /// As for [`Connection::open`].
    pub async fn open_on(host: Arc<dyn Host>, settings: &ConnectionSettings) -> Result<Self, ConnectError> {
        let endpoint = endpoint(&settings.address)?
            .connect_timeout(settings.connect_timeout)
            .http2_keep_alive_interval(settings.keep_alive)
            .keep_alive_timeout(settings.keep_alive)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .tcp_nodelay(true);
        let (peers, patience) = (Arc::<Peers>::default(), settings.connect_timeout);
        let channel = channel_on(host, Arc::clone(&peers), endpoint, &settings.address, patience).await?;
        let client = SottoClient::new(channel)
            .max_decoding_message_size(limits::MESSAGE_MAX)
            .max_encoding_message_size(limits::MESSAGE_MAX);
        Ok(Self { client, settings: settings.clone(), peers })
    }

    /// What the server says of itself, checked against what this program accepts: its version, its engine, its
    /// security, its time slots, and its key, for which the root key of the address must vouch. Closed loop is accepted
    /// from this machine alone, by the address of whoever answered; this connection then reaches no other any more.
    ///
    /// # Errors
    /// The [`ConnectError`] that says what is wrong.
    pub async fn info(&self) -> Result<Info, ConnectError> {
        let authority = || self.settings.address.authority();
        let request = proto::InfoRequest { protocol_version: PROTOCOL_VERSION.into() };
        let mut client = self.client.clone();
        let answer = within(self.settings.call_timeout, client.info(request)).await;
        let answer = answer.map_err(|failure| ConnectError::of(failure, authority()))?;
        let info = Info::try_from(answer).map_err(|_| ConnectError::NoServer(authority()))?;
        let ConnectionSettings { engines, address, allow_no_privacy, .. } = &self.settings;
        check(engines, &info, address.root_key(), *allow_no_privacy)?;
        if info.parameters.mode == RoundMode::ClosedLoop && !self.peers.only_loopback() {
            let reason = "its rounds are in closed loop, which is for one machine alone";
            return Err(ConnectError::Parameters(reason.to_owned()));
        }
        Ok(info)
    }

    /// Opens a session for the account with this Ed25519 seed, which is created if it is new; some servers want a token
    /// then. Parameters must be those that the account was made for.
    ///
    /// # Errors
    /// As for [`verify`]; [`ConnectError::Changed`] if the server's parameters are later ones than the pinned.
    pub async fn register(
        &self,
        account_seed: &[u8; 32],
        pinned: &ServerParameters,
        token: Option<&Token>,
    ) -> Result<Session, ConnectError> {
        let (info, succession) = self.meet(pinned).await?;
        if succession == Succession::Later {
            return Err(ConnectError::Changed);
        }
        self.session(account_seed, &info, token).await
    }

    /// What the server says of itself, and how that stands to what the account keeps.
    ///
    /// # Errors
    /// As for [`verify`].
    pub async fn meet(&self, pinned: &ServerParameters) -> Result<(Info, Succession), ConnectError> {
        let info = self.info().await?;
        let ConnectionSettings { engines, address, allow_no_privacy, .. } = &self.settings;
        let succession = verify(engines, &info, address.root_key(), Some(pinned), *allow_no_privacy)?;
        Ok((info, succession))
    }

    /// Opens a session under an announcement that the account keeps.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn session(
        &self,
        account_seed: &[u8; 32],
        info: &Info,
        token: Option<&Token>,
    ) -> Result<Session, ConnectError> {
        let session = self.open_session(account_seed, info, token).await;
        session.map_err(|failure| ConnectError::of(failure, self.settings.address.authority()))
    }

    async fn open_session(
        &self,
        account_seed: &[u8; 32],
        info: &Info,
        token: Option<&Token>,
    ) -> Result<Session, Failure> {
        let key = SigningKey::from_bytes(account_seed);
        let account = key.verifying_key().to_bytes();
        let deadline = self.settings.call_timeout;
        let mut client = self.client.clone();
        let request = proto::ChallengeRequest { account: Bytes::copy_from_slice(&account) };
        let challenge = within(deadline, client.challenge(request)).await?;
        let nonce = fixed::<32>(&challenge.nonce, "nonce").map_err(nonsense)?;
        let signed = register::message(&info.parameters.manifest_key, &account, &nonce);
        let request = proto::RegisterRequest {
            account: Bytes::copy_from_slice(&account),
            nonce: challenge.nonce,
            signature: Bytes::copy_from_slice(&key.sign(&signed).to_bytes()),
            token: token.map_or_else(Bytes::new, |token| Bytes::copy_from_slice(token.bytes())),
        };
        let registered = within(deadline, client.register(request)).await?;
        fixed::<32>(&registered.session, "session").map_err(nonsense)?;
        let announced = Announced { announcement: info.parameters.encode(), endorsement: info.endorsement };
        Ok(Session {
            client,
            settings: self.settings.clone(),
            token: registered.session,
            open: info.open,
            announced,
        })
    }
}

/// A session of one account. Every call fails with [`Failure`]: refused, unreachable, or nonsense.
#[derive(Clone)]
pub struct Session {
    client: SottoClient<Channel>,
    settings: ConnectionSettings,
    token: Bytes,
    /// The round that was open when the session began, as the server says.
    open: Round,
    announced: Announced,
}

/// What comes for a multi-query.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Those of all buckets.
    pub answers: Bytes,
    /// The receipt under them, which is to be checked; of any size.
    pub receipt: Bytes,
    /// When the answers began to come.
    pub first: Instant,
}

/// What a server tells about rounds.
#[derive(Clone, Debug)]
pub enum RoundNews {
    /// A round takes deposits.
    Opened {
        /// Its number.
        round: Round,
        /// Time since it opened.
        elapsed: Duration,
    },
    /// A round can be retrieved.
    Ready {
        /// What the server says about it; not verified.
        manifest: Box<SignedManifest>,
        /// Time since it became ready.
        elapsed: Duration,
    },
}

impl Session {
    /// Uploads the public PIR keys and gives their digest, under which they are used.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn upload_keys(&self, keys: Bytes) -> Result<[u8; 32], Failure> {
        let digest: [u8; 32] = Sha256::digest(&keys).into();
        let token = self.token.clone();
        let chunks = split(keys).enumerate().map(move |(number, data)| {
            let session = if number == 0 { token.clone() } else { Bytes::new() };
            proto::KeysChunk { session, data }
        });
        let mut client = self.client.clone();
        let call = client.upload_keys(tokio_stream::iter(chunks));
        let answer = within(self.settings.transfer_timeout, call).await?;
        if answer.digest[..] != digest {
            return Err(Failure::Nonsense(Code::DataLoss));
        }
        Ok(digest)
    }

    /// Follows the rounds for as long as the connection holds.
    ///
    /// # Errors
    /// [`Failure`]; within the stream too, which then ends.
    pub async fn watch(&self) -> Result<impl Stream<Item = Result<RoundNews, Failure>> + use<>, Failure> {
        let mut client = self.client.clone();
        let call = client.watch(proto::WatchRequest { session: self.token.clone() });
        let stream = within(self.settings.call_timeout, call).await?;
        Ok(stream.map(|event| round_news(event?)))
    }

    /// Hands in the deposit of a round. It is in the round when this returns.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn deposit(&self, round: Round, deposit: &[u8; DEPOSIT_BYTES]) -> Result<(), Failure> {
        let request = proto::DepositRequest {
            session: self.token.clone(),
            round: round.0,
            deposit: Bytes::copy_from_slice(deposit),
        };
        let mut client = self.client.clone();
        within(self.settings.call_timeout, client.deposit(request)).await.map(|_| ())
    }

    /// Downloads a round's mapping of exactly `bytes` bytes.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn mapping(&self, round: Round, bytes: usize) -> Result<Bytes, Failure> {
        let mut client = self.client.clone();
        let request = proto::MappingRequest { session: self.token.clone(), round: round.0 };
        let transfer = async {
            let stream = client.mapping(request).await?.into_inner();
            Ok(join(stream, bytes, |chunk| chunk.data).await?.0)
        };
        timeout(self.settings.transfer_timeout, transfer).await.unwrap_or(Err(Failure::Unreachable))
    }

    /// Downloads what there is of a round's bucket, exactly `bytes` bytes: the digests of all buckets, and its boxes.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn bucket(&self, round: Round, bucket: u16, bytes: usize) -> Result<Bytes, Failure> {
        let mut client = self.client.clone();
        let (session, bucket) = (self.token.clone(), bucket.into());
        let request = proto::BucketRequest { session, round: round.0, bucket };
        let transfer = async {
            let stream = client.bucket(request).await?.into_inner();
            Ok(join(stream, bytes, |chunk| chunk.data).await?.0)
        };
        timeout(self.settings.transfer_timeout, transfer).await.unwrap_or(Err(Failure::Unreachable))
    }

    /// Sends a multi-query and receives its answers of exactly `answer_bytes` bytes.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn retrieve(
        &self,
        round: Round,
        keys: &[u8; 32],
        query: Bytes,
        answer_bytes: usize,
    ) -> Result<Answers, Failure> {
        let (token, keys) = (self.token.clone(), Bytes::copy_from_slice(keys));
        let chunks = split(query).enumerate().map(move |(number, data)| match number {
            0 => proto::QueryChunk { session: token.clone(), round: round.0, keys: keys.clone(), data },
            _ => proto::QueryChunk { data, ..Default::default() },
        });
        let mut client = self.client.clone();
        let transfer = async {
            let stream = client.retrieve(tokio_stream::iter(chunks)).await?.into_inner();
            let mut receipt = Bytes::new();
            let stream = stream.map(|chunk| {
                let proto::AnswerChunk { data, receipt: last } = chunk?;
                // That of the last chunk is the one.
                receipt = last;
                Ok(data)
            });
            let (answers, first) = join_all(stream, answer_bytes).await?;
            Ok(Answers { answers, receipt, first })
        };
        timeout(self.settings.transfer_timeout, transfer).await.unwrap_or(Err(Failure::Unreachable))
    }

    /// The manifests of the rounds from `first` to `last`, and of these the newest [`limits::MANIFESTS_MAX`]: older ones
    /// no server keeps.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn manifests(&self, first: Round, last: Round) -> Result<Vec<SignedManifest>, Failure> {
        let mut client = self.client.clone();
        let first = newest(first, last, limits::MANIFESTS_MAX as u64);
        let request = proto::ManifestsRequest { session: self.token.clone(), first: first.0, last: last.0 };
        let transfer = async {
            let mut stream = client.manifests(request).await?.into_inner();
            let (mut manifests, mut segment) = (Vec::new(), None);
            while let Some(manifest) = stream.next().await {
                if manifests.len() == limits::MANIFESTS_MAX {
                    return Err(nonsense(StreamError::Oversized { limit: limits::MANIFESTS_MAX }));
                }
                let manifest = SignedManifest::try_from(&manifest?).map_err(nonsense)?;
                // What shows that seeds were fixed comes with the first one that it holds for.
                segment = manifest.segment.clone().or(segment);
                manifests.push(manifest.with_segment(segment.clone()));
            }
            Ok(manifests)
        };
        timeout(self.settings.transfer_timeout, transfer).await.unwrap_or(Err(Failure::Unreachable))
    }

    /// What the server said of itself when the session began.
    #[must_use]
    pub fn announced(&self) -> &Announced {
        &self.announced
    }

    /// The root key of the server's cluster.
    #[must_use]
    pub fn root_key(&self) -> RootKey {
        *self.settings.address.root_key()
    }

    /// The round that was open when the session began, as the server says.
    pub(crate) fn open(&self) -> Round {
        self.open
    }

    /// Names this session among a process's sessions.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.token == other.token
    }
}

// A session token is as good as the account key while it lasts.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.settings.address).finish_non_exhaustive()
    }
}

async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Failure> {
    match timeout(deadline, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(status.into()),
        Err(_) => Err(Failure::Unreachable),
    }
}

/// The whole of a stream, and when its first chunk came.
async fn join<T>(
    stream: Streaming<T>,
    bytes: usize,
    data: fn(T) -> Bytes,
) -> Result<(Bytes, Instant), Failure> {
    join_all(stream.map(|chunk| Ok(data(chunk?))), bytes).await
}

async fn join_all(
    stream: impl Stream<Item = Result<Bytes, Status>>,
    bytes: usize,
) -> Result<(Bytes, Instant), Failure> {
    let mut stream = core::pin::pin!(stream);
    let mut join = Join::exactly(bytes);
    let mut first = None;
    while let Some(chunk) = stream.next().await {
        first.get_or_insert_with(Instant::now);
        join.push(chunk?).map_err(nonsense)?;
    }
    let whole = join.finish().map_err(nonsense)?;
    Ok((whole, first.unwrap_or_else(Instant::now)))
}

pub(crate) fn round_news(event: proto::RoundEvent) -> Result<RoundNews, Failure> {
    match event.event {
        Some(proto::round_event::Event::Opened(opened)) => Ok(RoundNews::Opened {
            round: Round(opened.round),
            elapsed: Duration::from_millis(opened.elapsed_ms.into()),
        }),
        Some(proto::round_event::Event::Ready(ready)) => {
            let manifest = ready.manifest.ok_or_else(|| nonsense(()))?;
            Ok(RoundNews::Ready {
                manifest: Box::new(SignedManifest::try_from(&manifest).map_err(nonsense)?),
                elapsed: Duration::from_millis(ready.elapsed_ms.into()),
            })
        }
        None => Err(nonsense(())),
    }
}

/// The first of at most `most` rounds that end with `last`.
fn newest(first: Round, last: Round, most: u64) -> Round {
    first.max(last.back(most - 1))
}

/// An answer that an honest server does not give.
fn nonsense<E>(_: E) -> Failure {
    Failure::Nonsense(Code::DataLoss)
}

#[cfg(test)]
mod tests {
    use sotto_protocol::Round;

    use super::newest;

    #[test]
    fn of_a_long_gap_the_newest_manifests_are_asked_for() {
        assert_eq!(newest(Round(1), Round(10), 1024), Round(1));
        assert_eq!(newest(Round(1), Round(1024), 1024), Round(1));
        assert_eq!(newest(Round(1), Round(5000), 1024), Round(3977));
    }
}
