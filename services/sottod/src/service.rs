//! The calls: every one checked, bounded in size and time, and handed to whom it concerns.

mod places;
mod queries;
mod uploads;

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use mpir::Engine;
use sotto_log::Tenure;
use sotto_protocol::manifest::seed::SeedTree;
use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES};
use sotto_protocol::server::Account;
use sotto_protocol::{PROTOCOL_VERSION, Round, ServerParameters};
use sotto_wire::proto::sotto_server::Sotto;
use sotto_wire::{Info, Refused, convert, fixed, limits, proto, split};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};
use zeroize::Zeroizing;

use self::places::{Admission, Busy, Kind};
use crate::accounts::{Accounts, Session, verify};
use crate::answering::Room;
use crate::compute::Compute;
use crate::config::Limits;
use crate::connections::{ConnectionHandle, ConnectionsOfAccounts};
use crate::host::Host;
use crate::keys::files::KeyFiles;
use crate::keys::{KeyStore, Progress};
use crate::manifest_keys::Said;
use crate::memory::Memory;
use crate::metrics::{Queue, SharedMetrics, gauge};
use crate::outgoing::{Gone, Outgoing, Sender, stream};
use crate::rounds::{RoundNews, Rounds, Watch, WatchEnd};
use crate::slots::SlotKey;
use crate::standing::StandingRequests;
use crate::tokens::TokenKey;

/// Of the memory for answers one part in so many is for buckets that are sent to those who check answers.
const UNITS_PART: usize = 4;

/// News come seldom: a watcher may stand still at each as long as at the first.
const EVENT_BYTES: usize = usize::MAX;

/// The state that calls share.
pub(crate) struct Service {
    pub(crate) announcement: Announcement,
    pub(crate) limits: Limits,
    pub(crate) means: ServiceDependencies,
    accounts: Arc<Mutex<Accounts>>,
    keys: Arc<Mutex<KeyStore>>,
    known: Mutex<ConnectionsOfAccounts>,
    busy: Arc<Mutex<Busy>>,
    queries: Arc<Semaphore>,
    retrievals: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    mappings: Arc<Semaphore>,
    query_memory: Memory,
    standing: Arc<Mutex<StandingRequests>>,
    answer_memory: Memory,
    /// Apart, so that whoever reads buckets slowly holds up no answers.
    unit_memory: Memory,
}

/// What calls make use of.
pub(crate) struct ServiceDependencies {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) rounds: Rounds,
    pub(crate) compute: Compute,
    pub(crate) room: Room,
    pub(crate) tracker: TaskTracker,
    /// How far the rounds have come, as the task that owns them says.
    pub(crate) progress: watch::Receiver<Progress>,
    /// What shows that the seeds of rounds were fixed beforehand.
    pub(crate) seeds: Arc<SeedTree>,
    /// Cancelled when the server takes no more calls and watches end.
    pub(crate) closing: CancellationToken,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) metrics: SharedMetrics,
    /// Keys on the disk, if the server has one.
    pub(crate) key_files: Option<Arc<KeyFiles>>,
}

/// What a server says of itself.
pub(crate) struct Announcement {
    /// As they were at the start; the manifest key may be another one since.
    pub(crate) parameters: ServerParameters,
    /// What it says now.
    pub(crate) said: watch::Receiver<Arc<Said>>,
    /// What new accounts must have a token of.
    pub(crate) tokens: Option<TokenKey>,
    /// What accounts show their slots under, if there are slots.
    pub(crate) slots: Option<SlotKey>,
}

impl Service {
    pub(crate) fn new(
        announcement: Announcement,
        limits: Limits,
        challenge_key: Zeroizing<[u8; 32]>,
        means: ServiceDependencies,
    ) -> Self {
        // Who retrieves in every round keeps its keys until the next time, and one round longer if a call is lost.
        let ServerParameters { round_ms, retained, .. } = announcement.parameters;
        let protection = Duration::from_millis(round_ms.into()).saturating_mul(u32::from(retained) + 1);
        Self {
            accounts: Arc::new(Mutex::new(Accounts::new(&limits, challenge_key, Instant::now()))),
            keys: Arc::new(Mutex::new(KeyStore::new(
                &*means.engine,
                limits.key_bytes,
                protection,
                means.key_files.clone(),
            ))),
            known: Mutex::default(),
            busy: Arc::default(),
            queries: Arc::new(Semaphore::new(limits.queries)),
            retrievals: Arc::new(Semaphore::new(limits.retrievals)),
            uploads: Arc::new(Semaphore::new(limits.uploads)),
            mappings: Arc::new(Semaphore::new(limits.mappings)),
            query_memory: Memory::new(limits.query_bytes),
            answer_memory: Memory::new(limits.answer_bytes - limits.answer_bytes / UNITS_PART),
            unit_memory: Memory::new(limits.answer_bytes / UNITS_PART),
            standing: Arc::new(Mutex::new(StandingRequests::new(limits.standing_bytes))),
            announcement,
            limits,
            means,
        }
    }

    /// Brings up to date what is measured of that which is held now.
    pub(crate) fn gauges(&self) -> impl Fn() + Send + Sync + 'static {
        let metrics = Arc::clone(&self.means.metrics);
        let (accounts, keys) = (Arc::clone(&self.accounts), Arc::clone(&self.keys));
        let Limits { uploads, queries, retrievals, mappings, .. } = self.limits;
        let queues = [
            (Queue::Uploads, Arc::clone(&self.uploads), uploads),
            (Queue::Queries, Arc::clone(&self.queries), queries),
            (Queue::Retrievals, Arc::clone(&self.retrievals), retrievals),
            (Queue::Mappings, Arc::clone(&self.mappings), mappings),
        ];
        let standing = Arc::clone(&self.standing);
        let compute = self.means.compute.clone();
        let progress = self.means.progress.clone();
        move || {
            for (queue, places, most) in &queues {
                metrics.queue(*queue, most.saturating_sub(places.available_permits()));
            }
            metrics.queue(Queue::Computing, compute.answering());
            metrics.sessions.set(gauge(lock(&accounts).sessions()));
            let mut keys = lock(&keys);
            keys.drop_former(progress.borrow().oldest);
            metrics.key_sets.set(gauge(keys.len()));
            drop(keys);
            let mut standing = lock(&standing);
            standing.sweep(progress.borrow().oldest);
            metrics.standing.set(gauge(standing.len()));
        }
    }

    /// Whose session it is; the connection that shows it may stay.
    fn account(&self, handle: &ConnectionHandle, session: &[u8]) -> Result<Account, Refused> {
        self.member(handle, session).map(|(account, _)| account)
    }

    fn member(
        &self,
        handle: &ConnectionHandle,
        session: &[u8],
    ) -> Result<(Account, Option<Tenure>), Refused> {
        let member = lock(&self.accounts).member(session, Instant::now())?;
        lock(&self.known).came(member.0, handle);
        Ok(member)
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let late = |_| Status::deadline_exceeded("the call took too long");
        tokio::time::timeout(self.limits.call, call).await.map_err(late)?
    }

    /// Sends what is the same for everybody, in the time that a call has; of the memory for what is made for one reader a part
    /// is held.
    fn download<T: Send + 'static>(
        &self,
        handle: ConnectionHandle,
        admission: Admission,
        memory: Option<OwnedSemaphorePermit>,
        all: Bytes,
        chunk: fn(Bytes) -> T,
    ) -> Outgoing<T> {
        let limit = self.limits.call;
        stream(&self.means.tracker, self.limits.stall, handle, move |mut sender| async move {
            let _admission = admission;
            if let Some(memory) = memory {
                sender.hold(memory);
            }
            let sent = async {
                for data in split(all) {
                    let bytes = data.len();
                    sender.send(chunk(data), bytes).await?;
                }
                Ok::<(), Gone>(())
            };
            if tokio::time::timeout(limit, sent).await.is_err() {
                sender.refuse(Refused::Busy).await;
            }
        })
    }
}

#[tonic::async_trait]
impl Sotto for Service {
    async fn info(
        &self,
        request: Request<proto::InfoRequest>,
    ) -> Result<Response<proto::InfoResponse>, Status> {
        if request.into_inner().protocol_version != u32::from(PROTOCOL_VERSION) {
            return Err(Refused::Version.into());
        }
        let open = self.within(async { Ok(self.means.rounds.current().await?) }).await?;
        let Announcement { said, tokens, .. } = &self.announcement;
        let said = Arc::clone(&said.borrow());
        let info = Info {
            parameters: said.parameters.clone(),
            open,
            endorsement: said.endorsement,
            token_required: tokens.is_some(),
        };
        Ok(Response::new(info.into()))
    }

    async fn challenge(
        &self,
        request: Request<proto::ChallengeRequest>,
    ) -> Result<Response<proto::ChallengeResponse>, Status> {
        let account = fixed(&request.into_inner().account, "account")?;
        let nonce = lock(&self.accounts).challenge(&account, random(&*self.means.host)?, Instant::now());
        Ok(Response::new(proto::ChallengeResponse { nonce: Bytes::copy_from_slice(&nonce) }))
    }

    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::RegisterResponse>, Status> {
        let handle = ConnectionHandle::of(&request);
        let request = request.into_inner();
        let account = fixed(&request.account, "account")?;
        let nonce = fixed(&request.nonce, "nonce")?;
        let signature = fixed(&request.signature, "signature")?;
        // Whoever it is for, and whether tokens are wanted or not.
        let token = match request.token.is_empty() {
            true => None,
            false => Some(fixed(&request.token, "token")?),
        };
        let shown = convert::slot(&request.slot)?;
        let issued = lock(&self.accounts).issued(&account, &nonce, Instant::now())?;
        let Announcement { said, tokens, slots, .. } = &self.announcement;
        let parameters = said.borrow().parameters.clone();
        // Whoever has asked what the server says before another key was announced signs for the former one.
        verify(&parameters.manifest_key, &account, &nonce, &signature).or_else(|refused| {
            let former = parameters.key_epoch.former_key().ok_or(refused)?;
            verify(&former, &account, &nonce, &signature)
        })?;
        let token = tokens.as_ref().zip(token).and_then(|(key, token)| key.check(&token));
        let shown = match (slots, shown) {
            (Some(key), Some(slot)) => Some(key.tenure(&account, &slot).ok_or(Refused::Slot)?),
            (_, None) => None,
            (None, Some(_)) => return Err(Refused::Malformed.into()),
        };
        let registered = self.means.rounds.register(account, token, shown);
        let slot = self.within(async { Ok(registered.await?) }).await?;
        lock(&self.known).came(account, &handle);
        let session: Session = random(&*self.means.host)?;
        lock(&self.accounts).open((account, slot), issued, session, handle, Instant::now())?;
        let given = slots.as_ref().zip(slot).filter(|_| shown.is_none());
        let given = given.map(|(key, slot)| convert::encode_slot(&key.credential(&account, slot)));
        let slot = given.unwrap_or_default();
        Ok(Response::new(proto::RegisterResponse { session: Bytes::copy_from_slice(&session), slot }))
    }

    async fn upload_keys(
        &self,
        request: Request<Streaming<proto::KeysChunk>>,
    ) -> Result<Response<proto::UploadKeysResponse>, Status> {
        let handle = ConnectionHandle::of(&request);
        let digest = self.within(self.upload(&handle, request.into_inner())).await?;
        Ok(Response::new(proto::UploadKeysResponse { digest: Bytes::copy_from_slice(&digest) }))
    }

    type WatchStream = Outgoing<proto::RoundEvent>;

    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let handle = ConnectionHandle::of(&request);
        let account = self.account(&handle, &request.into_inner().session)?;
        let has_keys = lock(&self.keys).has(&account);
        let watch = self.within(async { Ok(self.means.rounds.watch(account, has_keys).await?) }).await?;
        let (closing, seeds) = (self.means.closing.clone(), Arc::clone(&self.means.seeds));
        let events = stream(&self.means.tracker, self.limits.stall, handle, |sender| {
            follow(watch, sender, closing, seeds)
        });
        Ok(Response::new(events))
    }

    async fn deposit(
        &self,
        request: Request<proto::DepositRequest>,
    ) -> Result<Response<proto::DepositResponse>, Status> {
        let handle = ConnectionHandle::of(&request);
        let request = request.into_inner();
        let (account, slot) = self.member(&handle, &request.session)?;
        let deposit = if self.announcement.parameters.code.has_slots() {
            convert::deposit_in_table(&request.deposit, slot.ok_or(Refused::UnknownSession)?.slot)?
        } else {
            convert::deposit(&request.deposit)?
        };
        let accepted = self.means.rounds.deposit(account, Round(request.round), deposit, slot);
        self.within(async { Ok(accepted.await?) }).await?;
        Ok(Response::new(proto::DepositResponse {}))
    }

    async fn close(
        &self,
        request: Request<proto::CloseRequest>,
    ) -> Result<Response<proto::CloseResponse>, Status> {
        let handle = ConnectionHandle::of(&request);
        let (account, slot) = self.member(&handle, &request.into_inner().session)?;
        let (rounds, accounts, keys) =
            (self.means.rounds.clone(), Arc::clone(&self.accounts), Arc::clone(&self.keys));
        let standing = Arc::clone(&self.standing);
        // Also if the caller does not wait for it.
        let closing = self.means.tracker.spawn(async move {
            rounds.close(account, slot).await?;
            lock(&accounts).end(&account);
            lock(&keys).forget_account(&account);
            lock(&standing).forget_account(&account);
            Ok::<_, Refused>(())
        });
        self.within(async { Ok(closing.await.map_err(|_| Refused::Internal)??) }).await?;
        Ok(Response::new(proto::CloseResponse {}))
    }

    type MappingStream = Outgoing<proto::MappingChunk>;

    async fn mapping(
        &self,
        request: Request<proto::MappingRequest>,
    ) -> Result<Response<Self::MappingStream>, Status> {
        let handle = ConnectionHandle::of(&request);
        let request = request.into_inner();
        let account = self.account(&handle, &request.session)?;
        if self.announcement.parameters.code.has_slots() {
            return Err(Refused::Malformed.into());
        }
        let admission = self.admit(Kind::Download, account)?;
        let mapping = self.means.rounds.mapping(account, Round(request.round));
        let database = self.within(async { Ok(mapping.await?) }).await?;
        let mapping = database.mapping.clone();
        Ok(Response::new(
            self.download(handle, admission, None, mapping, |data| proto::MappingChunk { data }),
        ))
    }

    type HintStream = Outgoing<proto::HintChunk>;

    async fn hint(&self, request: Request<proto::HintRequest>) -> Result<Response<Self::HintStream>, Status> {
        let handle = ConnectionHandle::of(&request);
        let request = request.into_inner();
        let account = self.account(&handle, &request.session)?;
        let admission = self.admit(Kind::Download, account)?;
        let hint = self.means.rounds.hint(account, Round(request.round));
        let database = self.within(async { Ok(hint.await?) }).await?;
        let hint = database.hint.clone();
        Ok(Response::new(self.download(handle, admission, None, hint, |data| proto::HintChunk { data })))
    }

    type UnitStream = Outgoing<proto::UnitChunk>;

    async fn unit(&self, request: Request<proto::UnitRequest>) -> Result<Response<Self::UnitStream>, Status> {
        let handle = ConnectionHandle::of(&request);
        let proto::UnitRequest { session, round, unit } = request.into_inner();
        let account = self.account(&handle, &session)?;
        let admission = self.admit(Kind::Check, account)?;
        // There are no more units than buckets.
        let unit = u16::try_from(unit).ok().filter(|unit| *unit < self.announcement.parameters.buckets);
        let unit = unit.ok_or(Refused::Malformed)?;
        let made = async {
            let database = self.means.rounds.unit(account, Round(round), unit).await?;
            let bytes = database.unit_bytes(unit);
            // Whoever waits keeps no round in memory. A name that is used again would not drop it.
            let kept = Arc::downgrade(&database);
            drop(database);
            let memory = self.unit_memory.wait(bytes).await?;
            let make = move || Some(kept.upgrade()?.unit(unit));
            let made = self.means.compute.answer(make).await.map_err(|_| Refused::Internal)?;
            let made = made.ok_or(Refused::RoundClosed)?.ok_or(Refused::Malformed)?;
            Ok((made, memory))
        };
        let (made, memory) = self.within(made).await?;
        let chunk = |data| proto::UnitChunk { data };
        Ok(Response::new(self.download(handle, admission, Some(memory), made, chunk)))
    }

    type RetrieveStream = Outgoing<proto::AnswerChunk>;

    async fn retrieve(
        &self,
        request: Request<Streaming<proto::QueryChunk>>,
    ) -> Result<Response<Self::RetrieveStream>, Status> {
        let handle = ConnectionHandle::of(&request);
        let accepted = self.within(self.accept_query(&handle, request.into_inner())).await?;
        Ok(Response::new(self.answer(handle, accepted)))
    }

    type RetrieveAgainStream = Outgoing<proto::AnswerChunk>;

    async fn retrieve_again(
        &self,
        request: Request<proto::RetrieveAgainRequest>,
    ) -> Result<Response<Self::RetrieveAgainStream>, Status> {
        let handle = ConnectionHandle::of(&request);
        let accepted = self.within(self.accept_again(&handle, request.into_inner())).await?;
        Ok(Response::new(self.answer(handle, accepted)))
    }

    type ManifestsStream = Outgoing<proto::SignedManifest>;

    async fn manifests(
        &self,
        request: Request<proto::ManifestsRequest>,
    ) -> Result<Response<Self::ManifestsStream>, Status> {
        let handle = ConnectionHandle::of(&request);
        let request = request.into_inner();
        self.account(&handle, &request.session)?;
        let many =
            request.last.checked_sub(request.first).is_none_or(|span| span >= limits::MANIFESTS_MAX as u64);
        if many {
            return Err(Refused::Malformed.into());
        }
        let manifests = self.means.rounds.manifests(Round(request.first), Round(request.last));
        let manifests = self.within(async { Ok(manifests.await?) }).await?;
        let seeds = Arc::clone(&self.means.seeds);
        let messages = stream(&self.means.tracker, self.limits.stall, handle, |mut sender| async move {
            let mut last = None;
            for manifest in manifests {
                let segment = seeds.of(manifest.claimed_round());
                let new = segment.clone().filter(|_| last != segment);
                let message = proto::SignedManifest::from(&manifest.with_segment(new));
                let bytes = MANIFEST_BYTES + SIGNATURE_BYTES + message.segment.len();
                last = segment;
                if sender.send(message, bytes).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(messages))
    }
}

/// Passes the rounds' news on until either side ends.
async fn follow(
    mut watch: Watch,
    mut sender: Sender<proto::RoundEvent>,
    closing: CancellationToken,
    seeds: Arc<SeedTree>,
) {
    loop {
        let news = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            () = sender.gone() => return,
            news = watch.next() => news,
        };
        let sent = match news {
            Ok(news) => sender.send(event(news, &seeds), EVENT_BYTES).await,
            Err(WatchEnd::Slow) => return sender.refuse(Refused::Busy).await,
            Err(WatchEnd::Replaced) => return sender.refuse(Refused::UnknownSession).await,
            Err(WatchEnd::Stopped) => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

fn event(news: RoundNews, seeds: &SeedTree) -> proto::RoundEvent {
    use proto::round_event::Event;

    let elapsed = |at: Instant| at.elapsed().as_millis().try_into().unwrap_or(u32::MAX);
    let event = match news {
        RoundNews::Directory(directory) => Event::Directory((&*directory).into()),
        RoundNews::Opened { round, at } => {
            Event::Opened(proto::RoundOpened { round: round.0, elapsed_ms: elapsed(at) })
        }
        RoundNews::Ready { manifest, at } => {
            let segment = seeds.of(manifest.claimed_round());
            let manifest = Some((&(*manifest).clone().with_segment(segment)).into());
            Event::Ready(proto::RoundReady { manifest, elapsed_ms: elapsed(at) })
        }
        RoundNews::Announced(announced) => Event::Announced((&*announced).into()),
    };
    proto::RoundEvent { event: Some(event) }
}

fn random<const N: usize>(host: &dyn Host) -> Result<[u8; N], Refused> {
    let mut bytes = [0; N];
    host.fill(&mut bytes).map_err(|_| Refused::Internal)?;
    Ok(bytes)
}

/// No holder of these locks leaves anything half done, so a poisoned one is as good as new.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
