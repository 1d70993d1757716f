//! The one task that owns the client: it hears of rounds, starts their calls, and takes in what they bring.

mod rounds;

use core::time::Duration;
use std::sync::Arc;

use mpir::MultiClient;
use pir_core::Scheme;
use sotto_protocol::client::Client;
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::{Error, Manifest, Round, ServerParameters, SignedManifest};
use sotto_wire::{Failure, Refused};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::deposit::{Deposited, deposit};
use super::link::News;
use super::retrieval::{Job, Retrieved, Shape};
use super::sessions::{Patience, Sessions};
use super::{Event, HandleError, Phase, Trouble, blocking, now};
use crate::Store;
use crate::connection::RoundNews;
use rounds::{Progress, Rounds};

/// Told after the change is stored, or could not be.
type Reply = Box<dyn FnOnce(Result<(), HandleError>) + Send>;
/// Changes the client.
pub(super) type Change = Box<dyn FnOnce(&mut Client) -> Reply + Send>;
/// Looks at the client.
pub(super) type Ask = Box<dyn FnOnce(&Client) + Send>;

/// What a handle wants.
pub(super) enum Command {
    /// Change the client and store it.
    Change(Change),
    /// Look at the client.
    Ask(Ask),
    /// Leave at once.
    Stop(oneshot::Sender<Client>),
    /// Leave when the rounds in progress are done.
    Finish(oneshot::Sender<Client>),
}

/// Retrievals under way at the same time. More of them only a server gone wrong can start.
const RETRIEVALS_MAX: usize = 8;
/// Manifests that were missed are fetched in one call, which is not repeated beyond this.
const MANIFESTS_LONGEST: Duration = Duration::from_secs(120);

/// What a call brought.
enum Done {
    Deposited(Deposited),
    Retrieved(Box<Retrieved>),
    Manifests(Result<Vec<SignedManifest>, Failure>),
}

pub(super) struct Driver<S: Scheme> {
    client: Client,
    server: ServerParameters,
    store: Option<Arc<Store>>,
    multi: Arc<MultiClient<S>>,
    sessions: Sessions,
    events: mpsc::UnboundedSender<Event>,
    calls: JoinSet<Done>,
    rounds: Rounds,
    fetching: bool,
    /// A manifest that came before any round was opened: to one who returns, the server tells first what is ready. The
    /// client could not yet tell its number from an invented one.
    early: Option<(Round, SignedManifest)>,
    /// Keys uploaded since the last report.
    upload: Phase,
    lookup_delay: Duration,
    leaving: Option<Leaving>,
}

struct Leaving {
    reply: oneshot::Sender<Client>,
    until: Instant,
}

impl<S: Scheme> Driver<S> {
    pub(super) fn new(
        client: Client,
        store: Option<Arc<Store>>,
        multi: Arc<MultiClient<S>>,
        sessions: Sessions,
        events: mpsc::UnboundedSender<Event>,
        upload: Phase,
        lookup_delay: Duration,
    ) -> Self {
        let server = client.server().clone();
        let rounds = Rounds::default();
        let calls = JoinSet::new();
        Self {
            client,
            server,
            store,
            multi,
            sessions,
            events,
            calls,
            rounds,
            fetching: false,
            early: None,
            upload,
            lookup_delay,
            leaving: None,
        }
    }

    /// Takes part until told to leave, or until nobody is there to tell.
    pub(super) async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        mut news: mpsc::UnboundedReceiver<News>,
    ) {
        loop {
            if let Some(Leaving { until, .. }) = &self.leaving
                && (self.rounds.are_done() || Instant::now() >= *until)
            {
                break;
            }
            let until = self.leaving.as_ref().map(|leaving| leaving.until);
            tokio::select! {
                Some(news) = news.recv() => self.hear(news).await,
                command = commands.recv() => match command {
                    Some(Command::Change(change)) => self.change(change).await,
                    Some(Command::Ask(ask)) => ask(&self.client),
                    Some(Command::Finish(reply)) => {
                        self.leaving = Some(Leaving { reply, until: Instant::now() + self.two_rounds() });
                    }
                    Some(Command::Stop(reply)) => {
                        self.leaving = Some(Leaving { reply, until: Instant::now() });
                    }
                    None => break,
                },
                Some(done) = self.calls.join_next() => {
                    if let Ok(done) = done {
                        self.take(done).await;
                    }
                }
                () = wait(until) => {}
            }
        }
        self.leave().await;
    }

    async fn leave(mut self) {
        self.calls.shutdown().await;
        for event in self.rounds.drain() {
            self.tell(event);
        }
        if let Err(error) = self.persist().await {
            self.tell(Event::Trouble { round: None, trouble: Trouble::Store(error) });
        }
        if let Some(Leaving { reply, .. }) = self.leaving {
            // Given up before the lock, so that whoever gets the client can open the store again.
            drop(self.store);
            let _ = reply.send(self.client);
        }
    }

    /// Two rounds and what is beside them: the longest that the calls of the rounds in progress can take.
    fn two_rounds(&self) -> Duration {
        let ms = u64::from(self.server.round_ms) * 2 + u64::from(self.server.query_ms);
        Duration::from_millis(ms) + Duration::from_secs(30)
    }

    async fn hear(&mut self, news: News) {
        match news {
            News::Round(RoundNews::Opened { round, elapsed }, at) => self.opened(round, elapsed, at).await,
            News::Round(RoundNews::Ready { manifest, elapsed }, at) => self.ready(&manifest, elapsed, at),
            News::Lost(error) => self.tell(Event::ConnectionLost(error)),
            News::Restored => self.tell(Event::ConnectionRestored),
        }
        for event in self.rounds.forget() {
            self.tell(event);
        }
    }

    /// Opens a round and lets its deposit leave at its time.
    ///
    /// A round whose number the client refuses gets no deposit. That follows from the numbers announced and the time, and
    /// so tells the server nothing; the person is told at once, since such a round may never end.
    async fn opened(&mut self, round: Round, elapsed: Duration, at: Instant) {
        if self.rounds.is_past(round) {
            let trouble = Trouble::RoundRefused(Error::RoundReplayed(round));
            return self.tell(Event::Trouble { round: Some(round), trouble });
        }
        let bytes = match self.rounds.progress(round) {
            // Announced again after a reconnection: the same bytes, if they were not taken.
            Some(Progress::Failed(bytes)) => *bytes,
            Some(_) => return,
            None if self.leaving.is_some() => return,
            None => match self.compose(round).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    let trouble = Trouble::RoundRefused(error);
                    return self.tell(Event::Trouble { round: Some(round), trouble });
                }
            },
        };
        self.rounds.begin(round, bytes);
        let offset = Duration::from_millis(self.server.deposit_ms.into()).saturating_sub(elapsed);
        let call = deposit(self.sessions.clone(), round, bytes, at + offset);
        let call = self.calls.spawn(async move { Done::Deposited(call.await) });
        self.rounds.sending(round, call);
    }

    /// The deposit of a round. It is the client's only if the client is stored as having used this round; otherwise, it is
    /// random bytes, so that a full disk does not show.
    ///
    /// # Errors
    /// The client's reason not to go along with the round.
    async fn compose(&mut self, round: Round) -> Result<[u8; DEPOSIT_BYTES], Error> {
        let opened = self.client.open_round(round, now(), &mut rng());
        let composed =
            self.client.deposit().filter(|(of, _)| *of == round).map(|(_, deposit)| deposit.encode());
        let trouble = match (opened, composed) {
            // Opened now, or before this process began.
            (Ok(()) | Err(Error::RoundReplayed(_)), Some(bytes)) => {
                self.rounds.accepted(round);
                if let Some((round, signed)) = self.early.take() {
                    self.believe(round, &signed);
                }
                match self.persist().await {
                    Ok(()) => return Ok(bytes),
                    Err(error) => Trouble::Store(error),
                }
            }
            (Ok(()), None) => return Err(Error::Unknown("deposit")),
            (Err(error), _) => return Err(error),
        };
        self.rounds.hold(round, Event::Trouble { round: Some(round), trouble });
        let mut bytes = [0; DEPOSIT_BYTES];
        rand::Rng::fill_bytes(&mut rng(), &mut bytes);
        Ok(bytes)
    }

    /// Takes a manifest and starts the retrieval of its round.
    fn ready(&mut self, signed: &SignedManifest, elapsed: Duration, at: Instant) {
        // The calls follow what is announced, believed or not. What announces no round at all cannot be followed.
        let Ok(announced) = Manifest::decode(&signed.bytes) else {
            for notice in self.client.ready(signed, now()) {
                self.tell(Event::Notice(notice));
            }
            return;
        };
        let round = announced.round;
        if self.rounds.any_accepted() || round <= self.client.newest_round() {
            self.believe(round, signed);
        } else {
            self.early = Some((round, signed.clone()));
        }
        if !self.rounds.retrieve(round, RETRIEVALS_MAX) {
            return;
        }
        let (Some(shape), Ok(client)) =
            (Shape::new(&self.server, &announced), Client::restore(&self.client.snapshot()))
        else {
            self.rounds.hold(round, Event::Trouble { round: Some(round), trouble: Trouble::Sizes });
            self.release(round);
            return;
        };
        // One who hears of a round late begins to count then.
        let lookup = Duration::from_millis(self.server.lookup_ms.into());
        let query = Duration::from_millis(self.server.query_ms.into());
        let elapsed = if elapsed < lookup { elapsed } else { Duration::ZERO };
        let job = Job {
            lookup_delay: self.lookup_delay,
            round,
            shape,
            lookup_until: at + lookup.saturating_sub(elapsed),
            query_at: at + query.saturating_sub(elapsed),
            client,
            multi: Arc::clone(&self.multi),
            sessions: self.sessions.clone(),
        };
        self.calls.spawn(async move { Done::Retrieved(Box::new(job.run().await)) });
    }

    /// Gives a manifest to the client, which decides whether it holds.
    fn believe(&mut self, round: Round, signed: &SignedManifest) {
        for notice in self.client.ready(signed, now()) {
            self.rounds.hold(round, Event::Notice(notice));
        }
        if self.rounds.is_retrieved(round) {
            // Announced again after its calls were made, perhaps differently.
            self.release(round);
        }
        self.fetch_missing();
    }

    /// Fetches manifests of rounds that were missed. Which are missing follows from what was announced alone.
    fn fetch_missing(&mut self) {
        let Some((first, last)) = self.client.missing_manifests().filter(|_| !self.fetching) else { return };
        self.fetching = true;
        let sessions = self.sessions.clone();
        self.calls.spawn(async move {
            let patience = Patience { until: Instant::now() + MANIFESTS_LONGEST, attempts: 1 };
            let call =
                |session: crate::connection::Session| async move { session.manifests(first, last).await };
            Done::Manifests(sessions.call(patience, call).await)
        });
    }

    async fn take(&mut self, done: Done) {
        match done {
            Done::Deposited(Deposited { round, result }) => {
                if let Err(failure) = &result {
                    let trouble = Trouble::Deposit(*failure);
                    self.rounds.hold(round, Event::Trouble { round: Some(round), trouble });
                }
                self.rounds.deposited(round, result);
            }
            Done::Manifests(fetched) => {
                self.fetching = false;
                match fetched {
                    Ok(manifests) => {
                        for notice in self.client.supply_manifests(&manifests) {
                            self.tell(Event::Notice(notice));
                        }
                    }
                    Err(failure) => {
                        self.tell(Event::Trouble { round: None, trouble: Trouble::Manifests(failure) });
                    }
                }
            }
            Done::Retrieved(retrieved) => self.retrieved(*retrieved).await,
        }
    }

    /// The round's calls are made: now its contents may show.
    async fn retrieved(&mut self, retrieved: Retrieved) {
        let Retrieved { retrieval, elements, mut report, troubles } = retrieved;
        let round = retrieval.round;
        let notices = self.client.received(retrieval, elements, now());
        let stored = self.persist().await.err().map(Trouble::Store);
        let again = self.sessions.uploads();
        let first = core::mem::take(&mut self.upload);
        report.keys = Phase { bytes: first.bytes + again.bytes, time: first.time + again.time };
        let deposit = self.rounds.deposit(round);
        report.deposit = deposit.unwrap_or_default();
        report.complete = deposit.is_some() && troubles.is_empty();
        // A round that was retrieved before this process began is not retrieved again, and that is no trouble.
        let again = |trouble: &Trouble| {
            let quota = Failure::Refused(Refused::Quota);
            *trouble == Trouble::Answer(quota) || *trouble == Trouble::Mapping(quota)
        };
        let foreign = self.rounds.is_foreign(round);
        let troubles = troubles.into_iter().filter(|trouble| !(foreign && again(trouble)));
        for trouble in troubles.chain(stored) {
            self.rounds.hold(round, Event::Trouble { round: Some(round), trouble });
        }
        for notice in notices {
            self.rounds.hold(round, Event::Notice(notice));
        }
        self.rounds.hold(round, Event::RoundReport(report));
        self.release(round);
    }

    fn release(&mut self, round: Round) {
        for event in self.rounds.retrieved(round) {
            self.tell(event);
        }
    }

    async fn change(&mut self, change: Change) {
        let reply = change(&mut self.client);
        reply(self.persist().await.map_err(HandleError::Store));
    }

    /// Puts the client on the disk.
    async fn persist(&self) -> Result<(), String> {
        let Some(store) = self.store.clone() else { return Ok(()) };
        let snapshot = self.client.snapshot();
        blocking(move || store.save(&snapshot)).await.map_err(|error| error.to_string())
    }

    fn tell(&self, event: Event) {
        // A person who does not listen misses it.
        let _ = self.events.send(event);
    }
}

async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => core::future::pending().await,
    }
}

fn rng() -> rand::rngs::StdRng {
    rand::make_rng()
}
