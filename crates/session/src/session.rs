//! The calls of one account, each with a deadline and a limit on what it takes in.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use sotto_protocol::{OwnSlot, Round, SignedDirectory, SignedManifest, Succession};
use sotto_wire::proto::sotto_client::SottoClient;
use sotto_wire::{Failure, Join, Refused, RootKey, StreamError, limits, proto, split};
use tokio::time::{Instant, timeout};
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::transport::Peers;
use crate::{Announced, ConnectError, ConnectionSettings};

/// Announcements without consequence that are looked at in one `Watch`. A server tells one at its beginning, and then those alone
/// that change something; each costs signatures to be verified.
const IDLE_ANNOUNCEMENTS_MAX: usize = 8;

/// How many announcements of a `Watch` had no consequence.
#[derive(Default)]
struct Idle(usize);

impl Idle {
    fn may_go_on(&self) -> Result<(), Failure> {
        if self.0 < IDLE_ANNOUNCEMENTS_MAX { Ok(()) } else { Err(Failure::Flood) }
    }

    fn heard(&mut self, has_consequence: bool) {
        self.0 += usize::from(!has_consequence);
    }
}

/// A session of one account. Every call fails with [`Failure`]: refused, unreachable, or nonsense.
#[derive(Clone)]
pub struct Session {
    pub(crate) client: SottoClient<Channel>,
    pub(crate) settings: ConnectionSettings,
    pub(crate) token: Bytes,
    /// The round that was open when the session began, as the server says.
    pub(crate) open: Round,
    pub(crate) given: Option<OwnSlot>,
    /// As it was when the session began, or changed since.
    pub(crate) announced: Arc<Mutex<Announced>>,
    pub(crate) peers: Arc<Peers>,
}

/// What comes for a multi-query.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Those of all buckets.
    pub answers: Bytes,
    /// The receipt under them, which is to be checked; of any size.
    pub receipt: Bytes,
    /// Whether the multi-query was sent whole.
    pub whole: bool,
    /// When the answers began to come.
    pub first: Instant,
}

/// What a server tells about rounds, and about itself.
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
    /// Where the server's nodes are, as it says; not verified.
    Directory(Box<SignedDirectory>),
    /// What the server says of itself now, the same to everybody; not verified.
    Announced(Box<Announced>),
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

    /// Makes an end of the account, and of this session. It is unknown to the server when this returns, and its slot is given to
    /// somebody else one day. Whoever holds its key may register it anew.
    ///
    /// # Errors
    /// [`ConnectError`]; whether the account is closed is not known then, and may be asked again in another session.
    pub async fn close_account(&self) -> Result<(), ConnectError> {
        let mut client = self.client.clone();
        let request = proto::CloseRequest { session: self.token.clone() };
        let closed = within(self.settings.call_timeout, client.close(request)).await;
        closed.map(|_| ()).map_err(|failure| match failure {
            // A server of before has no such call.
            Failure::Nonsense(Code::Unimplemented) => ConnectError::Version { theirs: None },
            failure => ConnectError::of(failure, self.settings.address.authority()),
        })
    }

    /// Follows the rounds for as long as the connection holds.
    ///
    /// # Errors
    /// [`Failure`]; within the stream too, which then ends.
    pub async fn watch(&self) -> Result<impl Stream<Item = Result<RoundNews, Failure>> + use<>, Failure> {
        let mut client = self.client.clone();
        let call = client.watch(proto::WatchRequest { session: self.token.clone() });
        let stream = within(self.settings.call_timeout, call).await?;
        let (announced, root) = (Arc::clone(&self.announced), self.root_key());
        let mut idle = Idle::default();
        Ok(stream.map(move |event| {
            let news = round_news(event?)?;
            if let RoundNews::Announced(now) = &news {
                // Before any signature is looked at, by whoever hears of it, too.
                idle.may_go_on()?;
                idle.heard(take_over(&mut lock(&announced), now, &root));
            }
            Ok(news)
        }))
    }

    /// Hands in the deposit of a round. It is in the round when this returns.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn deposit(&self, round: Round, deposit: &[u8]) -> Result<(), Failure> {
        let deposit = Bytes::copy_from_slice(deposit);
        let request = proto::DepositRequest { session: self.token.clone(), round: round.0, deposit };
        let mut client = self.client.clone();
        within(self.settings.call_timeout, client.deposit(request)).await.map(|_| ())
    }

    /// Downloads a round's mapping of exactly `bytes` bytes; makes no call for one of none.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn mapping(&self, round: Round, bytes: usize) -> Result<Bytes, Failure> {
        if bytes == 0 {
            return Ok(Bytes::new());
        }
        let mut client = self.client.clone();
        let request = proto::MappingRequest { session: self.token.clone(), round: round.0 };
        let transfer = async {
            let stream = client.mapping(request).await?.into_inner();
            Ok(join(stream, bytes, |chunk| chunk.data).await?.0)
        };
        timeout(self.settings.transfer_timeout, transfer).await.unwrap_or(Err(Failure::Unreachable))
    }

    /// Downloads a round's hint of exactly `bytes` bytes; makes no call for one of none.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn hint(&self, round: Round, bytes: usize) -> Result<Bytes, Failure> {
        if bytes == 0 {
            return Ok(Bytes::new());
        }
        let mut client = self.client.clone();
        let request = proto::HintRequest { session: self.token.clone(), round: round.0 };
        let transfer = async {
            let stream = client.hint(request).await?.into_inner();
            Ok(join(stream, bytes, |chunk| chunk.data).await?.0)
        };
        timeout(self.settings.transfer_timeout, transfer).await.unwrap_or(Err(Failure::Unreachable))
    }

    /// Downloads what there is of a round's unit, exactly `bytes` bytes: the digests of all buckets, and the boxes of the
    /// unit's buckets.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn unit(&self, round: Round, unit: u16, bytes: usize) -> Result<Bytes, Failure> {
        let mut client = self.client.clone();
        let (session, unit) = (self.token.clone(), unit.into());
        let request = proto::UnitRequest { session, round: round.0, unit };
        let transfer = async {
            let stream = client.unit(request).await?.into_inner();
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
            answers(stream, answer_bytes, true).await
        };
        timeout(self.settings.transfer_timeout, transfer).await.unwrap_or(Err(Failure::Unreachable))
    }

    /// The same as [`Session::retrieve`] with a multi-query that the server has, as it was sent in an earlier round of the epoch:
    /// by its digest. If the server does not have it, it is sent whole.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn retrieve_again(
        &self,
        round: Round,
        keys: &[u8; 32],
        (query, digest): (Bytes, &[u8; 32]),
        answer_bytes: usize,
    ) -> Result<Answers, Failure> {
        let request = proto::RetrieveAgainRequest {
            session: self.token.clone(),
            round: round.0,
            keys: Bytes::copy_from_slice(keys),
            query: Bytes::copy_from_slice(digest),
        };
        let mut client = self.client.clone();
        let transfer = async {
            let stream = client.retrieve_again(request).await?.into_inner();
            answers(stream, answer_bytes, false).await
        };
        match timeout(self.settings.transfer_timeout, transfer).await {
            Ok(Err(Failure::Refused(Refused::UnknownQuery))) => {
                self.retrieve(round, keys, query, answer_bytes).await
            }
            answered => answered.unwrap_or(Err(Failure::Unreachable)),
        }
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

    /// What the server says of itself under its root key: when the session began, or since, to who follows the rounds.
    #[must_use]
    pub fn announced(&self) -> Announced {
        lock(&self.announced).clone()
    }

    /// The slot that the account was given when the session began, if it had shown none: it is to be stored, and shown from then
    /// on.
    #[must_use]
    pub fn given_slot(&self) -> Option<&OwnSlot> {
        self.given.as_ref()
    }

    /// The root key of the server's cluster.
    #[must_use]
    pub fn root_key(&self) -> RootKey {
        *self.settings.address.root_key()
    }

    /// The round that was open when the session began, as the server says.
    #[must_use]
    pub fn open(&self) -> Round {
        self.open
    }

    /// Waits until the session's connection has ended. Nobody needs to make a call to learn that, if the connection is probed
    /// ([`ConnectionSettings::keep_alive`]).
    pub async fn ended(&self) {
        self.peers.ended().await;
    }

    /// Names this session among a process's sessions.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.token == other.token
    }
}

// A session token is as good as the account key while it lasts.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

pub(crate) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Failure> {
    match timeout(deadline, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(status.into()),
        Err(_) => Err(Failure::Unreachable),
    }
}

/// Answers of so many bytes, with the receipt behind them.
async fn answers(
    stream: Streaming<proto::AnswerChunk>,
    bytes: usize,
    whole: bool,
) -> Result<Answers, Failure> {
    let mut receipt = Bytes::new();
    let stream = stream.map(|chunk| {
        let proto::AnswerChunk { data, receipt: last } = chunk?;
        // That of the last chunk is the one.
        receipt = last;
        Ok(data)
    });
    let (answers, first) = join_all(stream, bytes).await?;
    Ok(Answers { answers, receipt, whole, first })
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
        Some(proto::round_event::Event::Directory(directory)) => {
            Ok(RoundNews::Directory(Box::new(SignedDirectory::try_from(&directory).map_err(nonsense)?)))
        }
        Some(proto::round_event::Event::Announced(announced)) => {
            Ok(RoundNews::Announced(Box::new(Announced::try_from(&announced).map_err(nonsense)?)))
        }
        None => Err(nonsense(())),
    }
}

/// Keeps what a server says of itself while a session goes on, if it follows on what is known: what was said before stays valid
/// under the root's signature, and so could be said again. Whether anything followed.
fn take_over(known: &mut Announced, now: &Announced, root: &RootKey) -> bool {
    if known == now {
        return false;
    }
    let (Ok(before), Ok(said)) = (known.parameters(root), now.parameters(root)) else { return false };
    let follows = said.succeeds(&before) == Ok(Succession::Later) && said.differs_in_keys_alone(&before);
    if follows {
        *known = now.clone();
    }
    follows
}

fn lock(announced: &Mutex<Announced>) -> MutexGuard<'_, Announced> {
    announced.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first of at most `most` rounds that end with `last`.
fn newest(first: Round, last: Round, most: u64) -> Round {
    first.max(last.back(most - 1))
}

/// An answer that an honest server does not give.
pub(crate) fn nonsense<E>(_: E) -> Failure {
    Failure::Nonsense(Code::DataLoss)
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use sotto_protocol::{Round, ServerParameters};
    use sotto_wire::root::endorse;
    use sotto_wire::{Announced, Failure, RootKey};

    use super::{Idle, newest, take_over};
    use crate::check::tests::parameters;

    #[test]
    fn only_what_follows_on_what_is_known_is_taken_for_what_the_server_says_now() {
        let root = SigningKey::from_bytes(&[1; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        let announced =
            |parameters: &ServerParameters| Announced::new(parameters, endorse(&root, parameters));
        let first = parameters();
        let key_epoch = first.key_epoch.next(first.manifest_key, Round(50), Round(100));
        let second =
            ServerParameters { serial: first.serial + 1, manifest_key: [8; 32], key_epoch, ..first.clone() };
        let longer = ServerParameters { serial: first.serial + 2, round_ms: 9_000, ..second.clone() };
        let forged = Announced::new(&second, [0; 64]);
        let mut known = announced(&first);
        let mut now = |said: &Announced| {
            take_over(&mut known, said, &key);
            known.clone()
        };
        assert_eq!(now(&forged), announced(&first));
        assert_eq!(now(&announced(&longer)), announced(&first));
        assert_eq!(now(&announced(&second)), announced(&second));
        assert_eq!(now(&announced(&first)), announced(&second));
    }

    #[test]
    fn so_many_announcements_without_consequence_are_looked_at_and_no_more() {
        let mut idle = Idle::default();
        for _ in 0..8 {
            idle.heard(true);
            assert!(idle.may_go_on().is_ok());
            idle.heard(false);
        }
        assert!(matches!(idle.may_go_on(), Err(Failure::Flood)));
    }

    #[test]
    fn of_a_long_gap_the_newest_manifests_are_asked_for() {
        assert_eq!(newest(Round(1), Round(10), 1024), Round(1));
        assert_eq!(newest(Round(1), Round(1024), 1024), Round(1));
        assert_eq!(newest(Round(1), Round(5000), 1024), Round(3977));
    }
}
