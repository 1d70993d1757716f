//! The task that hears of rounds and starts their calls. It does nothing that takes long: the client is with the keeper.

mod announced;
mod auditing;
mod leaving;
mod replacing;
mod rounds;

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use mpir::Engine;
use sotto_protocol::client::{Client, Notice, Retrieval, Warning};
use sotto_protocol::{Error, Manifest, Round, ServerParameters, SignedManifest};
use sotto_session::{RoundNews, Session};
use sotto_wire::{Failure, Refused};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::auditing::Audit;
use super::command::Command;
use super::deposit::{Deposited, deposit};
use super::keeper::{Composed, Keeper, KeptClient, ManifestVerdict, Received};
use super::keys::{Generation, Keyring, upload_offset};
use super::link::News;
use super::person::Person;
use super::retrieval::{Job, Retrieved, Shape};
use super::sessions::{Patience, Sessions};
use super::slots::{Retrieving, Slots};
use super::{Event, Finding, Phase, RoundReport, Step, Trouble};
use crate::host::{Host, StorageError, Work, rng, run};
pub(crate) use auditing::Audits;
use rounds::{Progress, REMEMBERED, Rounds};

/// Retrievals under way at the same time. More of them only a server gone wrong can start.
const RETRIEVALS_MAX: usize = 8;
/// Look-ups at once, those included that were given up and are not done yet: a server chooses how long they take.
const LOOKUPS_MAX: usize = 2;
/// Manifests that were missed are fetched in one call, which is not repeated beyond this.
const MANIFESTS_LONGEST: Duration = Duration::from_secs(120);

/// What a task brought.
enum Done {
    Composed(Round, Composed),
    /// It is time for a round's deposit.
    DepositDue(Round),
    Deposited(Deposited),
    ManifestVerdict(Option<ManifestVerdict>),
    /// It is time to fetch what is missing.
    ManifestsDue,
    Manifests(Result<Vec<SignedManifest>, Failure>),
    /// New keys were uploaded in a round, or were not; none if there are none.
    Keys(Round, Option<Arc<Generation>>, Result<(), Failure>),
    Retrieved(Box<Retrieved>),
    Audited(Round, u16, Audit),
    /// A proof was kept, or was not.
    ProofKept(Round, u16, Result<String, String>),
    Received(Box<RoundReport>, Vec<Trouble>, Received),
    /// The client has taken over what is announced, and was stored with it or was not.
    Adopted(Result<(), StorageError>),
    /// The client has failed.
    KeeperGone,
}

pub(crate) struct Driver {
    host: Arc<dyn Host>,
    engine: Arc<dyn Engine>,
    keeper: Keeper,
    kept: JoinHandle<Option<KeptClient>>,
    /// A client without contacts. Whether it goes along with a round follows from announcements and time alone, and
    /// decides whether there is a deposit; what the real one makes of the round decides only what is in it.
    gate: Client,
    server: ServerParameters,
    /// The same for who opens sessions.
    pinned: watch::Sender<ServerParameters>,
    slots: Slots,
    keys: Keyring,
    sessions: Sessions,
    person: Person,
    calls: JoinSet<Done>,
    /// The tasks that are retrievals, by which a failed one is known.
    retrievals: HashMap<Id, Round>,
    rounds: Rounds,
    /// What was announced as ready before its round, or a later one, was opened.
    early: Option<(Manifest, Box<SignedManifest>, Duration, Instant)>,
    /// Rounds, first and last, whose manifests are missing.
    missing: Option<(Round, Round)>,
    fetching: bool,
    /// Keys uploaded since the last report.
    upload: Phase,
    leaving: Option<Leaving>,
    audits: Audits,
    lookups: Arc<Semaphore>,
    /// When the last call ended whose end everybody sees.
    called: Instant,
}

struct Leaving {
    reply: oneshot::Sender<Client>,
    since: Instant,
    until: Instant,
}

impl Driver {
    #[expect(clippy::too_many_arguments, reason = "one call, in which each has its name")]
    pub(crate) fn new(
        host: Arc<dyn Host>,
        engine: Arc<dyn Engine>,
        (keeper, kept): (Keeper, JoinHandle<Option<KeptClient>>),
        (gate, pinned): (Client, watch::Sender<ServerParameters>),
        slots: Slots,
        keys: Keyring,
        sessions: Sessions,
        person: Person,
        upload: Phase,
        audits: Audits,
    ) -> Self {
        let server = gate.server().clone();
        Self {
            host,
            engine,
            keeper,
            kept,
            gate,
            server,
            pinned,
            slots,
            keys,
            sessions,
            person,
            calls: JoinSet::new(),
            retrievals: HashMap::new(),
            rounds: Rounds::default(),
            early: None,
            missing: None,
            fetching: false,
            upload,
            leaving: None,
            audits,
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            called: Instant::now(),
        }
    }

    /// Takes part until told to leave, or until nobody is there to tell.
    pub(crate) async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        mut news: mpsc::Receiver<News>,
    ) {
        loop {
            let until = self.leaves_at();
            if until.is_some_and(|until| self.sessions.are_lost() || Instant::now() >= until) {
                break;
            }
            // What was begun goes first: whoever floods this with news or wishes holds up neither calls nor leaving.
            tokio::select! {
                biased;
                Some(done) = self.calls.join_next_with_id() => match done {
                    Ok((_, Done::KeeperGone)) => break,
                    Ok((id, done)) => {
                        self.retrievals.remove(&id);
                        self.take(done);
                    }
                    Err(error) => self.failed(&error),
                },
                command = commands.recv() => match command {
                    Some(Command::Change(change)) => self.keeper.change(change),
                    Some(Command::Ask(ask)) => self.keeper.ask(ask),
                    Some(Command::Audit(answers)) => self.audits.ask(answers),
                    Some(Command::Finish(reply)) => {
                        let since = Instant::now();
                        self.leaving = Some(Leaving { reply, since, until: since + self.two_rounds() });
                    }
                    Some(Command::Stop(reply)) => {
                        let since = Instant::now();
                        self.leaving = Some(Leaving { reply, since, until: since });
                    }
                    None => break,
                },
                Some(news) = news.recv() => self.hear(news),
                () = wait(until) => {}
            }
        }
        // The connection ends now: how long the client is stored is nobody's business.
        drop(news);
        self.leave().await;
    }

    async fn leave(mut self) {
        self.calls.shutdown().await;
        drop(self.sessions);
        for event in self.rounds.drain() {
            self.person.tell(event);
        }
        // The keeper ends when everything handed in is done.
        drop(self.keeper);
        let Ok(Some(kept)) = self.kept.await else { return };
        let Some((stored, kept)) = run(&self.host, Work::Person, move || (kept.persist(), kept)).await else {
            return;
        };
        if let Err(error) = stored {
            self.person.tell(Event::Trouble { round: None, trouble: Trouble::Store(error) });
        }
        let client = kept.into_client();
        if let Some(Leaving { reply, .. }) = self.leaving {
            let _ = reply.send(client);
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Round(RoundNews::Opened { round, elapsed }, at) => self.opened(round, elapsed, at),
            News::Round(RoundNews::Ready { manifest, elapsed }, at) => self.ready(manifest, elapsed, at),
            // The link has looked at it.
            News::Round(RoundNews::Directory(_), _) => {}
            News::Directory(signed) => self.keeper.keep_directory(signed),
            News::BadDirectory(error) => {
                self.person.tell(Event::Notice(Notice::Warning(Warning::BadDirectory(error))));
            }
            News::Round(RoundNews::Announced(announced), _) => self.announced(&announced),
            News::Lost(error) => self.person.tell(Event::ConnectionLost(error)),
            News::Restored => self.person.tell(Event::ConnectionRestored),
        }
        for event in self.rounds.forget() {
            self.person.tell(event);
        }
    }

    /// Opens a round, and lets its deposit leave at its time whether it is composed by then or not.
    ///
    /// A round whose number cannot be explained gets no deposit; the person is told at once, since such a round may
    /// never end.
    ///
    /// Only who was alone in the round before speaks: a copy of this client, or the one whose backup this is, may have used
    /// this round's key. As long as the server takes one deposit of an account in a round, and says so, no key serves twice.
    fn opened(&mut self, round: Round, elapsed: Duration, at: Instant) {
        let refuse = |error| Event::Trouble { round: Some(round), trouble: Trouble::RoundRefused(error) };
        if round < self.gate.newest_round() {
            return self.person.tell(refuse(Error::RoundReplayed(round)));
        }
        // Who claims that the time has passed does not thereby decide when the deposit leaves.
        let offset = self.slots.deposit(round);
        let late = elapsed >= offset;
        let due = at + if late { offset } else { offset - elapsed };
        match self.rounds.progress(round) {
            // Announced again after a reconnection: the same bytes, if they were not taken.
            Some(Progress::Failed(bytes)) => {
                let bytes = bytes.clone();
                return self.send(round, bytes, due);
            }
            Some(_) => return,
            None if self.leaving.is_some() => return,
            None => {}
        }
        if let Err(error) = self.gate.open_round(round, self.host.unix_now(), &mut rng(&self.host)) {
            return self.person.tell(refuse(error));
        }
        let speaks = self.rounds.is_ours(round.back(1));
        self.rounds.opened(round, late);
        self.person.tell(Event::Step { round, step: Step::Opened(elapsed) });
        self.keys.opened(round, self.server.retained);
        let composing = self.keeper.compose(round, speaks);
        self.await_keeper(composing, move |composed| Done::Composed(round, composed));
        self.calls.spawn(async move {
            sleep_until(due).await;
            Done::DepositDue(round)
        });
        let offset = upload_offset(&self.server, offset);
        self.replace_keys(round, at + if elapsed >= offset { offset } else { offset - elapsed });
        if let Some((announced, signed, elapsed, at)) = self.early.take() {
            self.retrieve(announced, signed, elapsed, at);
        }
    }

    /// Waits for the keeper's answer.
    fn await_keeper<T: Send + 'static>(
        &mut self,
        answer: oneshot::Receiver<T>,
        done: impl FnOnce(T) -> Done + Send + 'static,
    ) {
        self.calls.spawn(async move { answer.await.map_or(Done::KeeperGone, done) });
    }

    fn composed(&mut self, round: Round, composed: Composed) {
        self.believed(composed.early);
        match composed.bytes {
            Ok(bytes) => self.rounds.composed(round, bytes, composed.inherited),
            Err(trouble) => {
                self.note(round, Event::Trouble { round: Some(round), trouble });
                self.rounds.composed(round, self.noise(), false);
            }
        }
    }

    /// Sends what is composed, or else random bytes; the keys that were used up for the round then serve nothing.
    fn deposit_due(&mut self, round: Round) {
        let bytes = match self.rounds.progress(round) {
            Some(Progress::Composed(bytes)) => bytes.clone(),
            Some(Progress::Composing) => {
                self.note(round, Event::Trouble { round: Some(round), trouble: Trouble::DepositLate });
                self.noise()
            }
            _ => return,
        };
        self.send(round, bytes, Instant::now());
    }

    fn send(&mut self, round: Round, bytes: Bytes, at: Instant) {
        let keys = self.keys.current().public.clone();
        let call = deposit(self.sessions.clone(), keys, round, bytes.clone(), at);
        let call = self.calls.spawn(async move { Done::Deposited(call.await) });
        self.rounds.sending(round, bytes, call);
    }

    /// As long as a deposit, and nothing.
    fn noise(&self) -> Bytes {
        let mut bytes = vec![0; self.server.deposit_bytes()];
        self.host.fill(&mut bytes);
        bytes.into()
    }

    fn deposited(&mut self, Deposited { round, result }: Deposited) {
        self.called = Instant::now();
        if let Err(failure) = &result {
            // One who comes late in a round may miss it, and that is no trouble.
            let missed = Failure::Refused(Refused::RoundClosed);
            if *failure != missed || !self.rounds.is_late(round) {
                let trouble = match failure {
                    Failure::Refused(Refused::Quota) => Trouble::Doubled,
                    failure => Trouble::Deposit(*failure),
                };
                self.note(round, Event::Trouble { round: Some(round), trouble });
            }
        } else {
            self.person.tell(Event::Step { round, step: Step::Deposited });
        }
        self.rounds.deposited(round, result);
    }

    /// Takes what is announced as ready. The calls follow it, believed or not. What announces no round at all cannot be
    /// followed, nor can what is far from the rounds that were opened.
    fn ready(&mut self, signed: Box<SignedManifest>, elapsed: Duration, at: Instant) {
        let announced = match Manifest::decode(&signed.bytes) {
            Ok(announced) => announced,
            Err(error) => {
                return self.person.tell(Event::Notice(Notice::Warning(Warning::BadManifest(error))));
            }
        };
        let (round, newest) = (announced.round, self.gate.newest_round());
        if round > newest {
            // To one who returns, the server tells first what is ready, and then what is open.
            self.early = Some((announced, signed, elapsed, at));
        } else if round < newest.back(REMEMBERED as u64 / 2) {
            let trouble = Trouble::RoundRefused(Error::RoundReplayed(round));
            self.person.tell(Event::Trouble { round: Some(round), trouble });
        } else {
            self.retrieve(announced, signed, elapsed, at);
        }
    }

    /// Starts the retrieval of a round.
    fn retrieve(&mut self, announced: Manifest, signed: Box<SignedManifest>, elapsed: Duration, at: Instant) {
        let round = announced.round;
        if !self.rounds.is_news(round) {
            return;
        }
        let starts = self.rounds.is_waiting(round);
        let believing = self.keeper.believe(round, (*signed).clone());
        self.await_keeper(believing, Done::ManifestVerdict);
        // One who hears of a round late begins to count then.
        let Retrieving { begin, lookup, query } = self.slots.retrieval(round);
        let elapsed = if elapsed < lookup { elapsed } else { Duration::ZERO };
        let lookup_until = at + lookup.saturating_sub(elapsed);
        if !starts {
            return;
        }
        self.person.tell(Event::Step { round, step: Step::Ready });
        // What is missing is known by then, and asked for at a time that does not show when it became known.
        self.calls.spawn(async move {
            sleep_until(lookup_until).await;
            Done::ManifestsDue
        });
        let trouble = match Shape::new(&*self.engine, self.audits.root(), &self.server, &announced) {
            Some(shape) if self.retrievals.len() < RETRIEVALS_MAX => {
                let keys = self.keys.of(round);
                let shape = Arc::new(shape);
                let (auditing, evidence) = self.audit(announced, *signed, &shape, &keys.public);
                let job = Job {
                    round,
                    shape,
                    begin_at: at + begin.saturating_sub(elapsed),
                    lookup_until,
                    query_at: at + query.saturating_sub(elapsed),
                    client: self.keeper.copy(),
                    keys,
                    auditing,
                    evidence,
                    sessions: self.sessions.clone(),
                    host: Arc::clone(&self.host),
                    lookups: Arc::clone(&self.lookups),
                };
                let task = self.calls.spawn(async move { Done::Retrieved(Box::new(job.run().await)) });
                self.retrievals.insert(task.id(), round);
                self.rounds.retrieving(round);
                return;
            }
            Some(_) => Trouble::TooMany,
            None => Trouble::Sizes,
        };
        self.rounds.hold(round, Event::Trouble { round: Some(round), trouble });
        self.release(round);
    }

    fn believed(&mut self, believed: Option<ManifestVerdict>) {
        let Some(ManifestVerdict { round, notices, missing }) = believed else { return };
        self.missing = missing;
        for notice in notices {
            match round {
                Some(round) => self.note(round, Event::Notice(notice)),
                None => self.person.tell(Event::Notice(notice)),
            }
        }
    }

    /// Fetches manifests of rounds that were missed. Which are missing follows from what was announced alone.
    fn fetch_missing(&mut self) {
        let Some((first, last)) = self.missing.filter(|_| !self.fetching) else { return };
        self.fetching = true;
        let (sessions, keys) = (self.sessions.clone(), self.keys.current().public.clone());
        self.calls.spawn(async move {
            let patience = Patience { until: Instant::now() + MANIFESTS_LONGEST, attempts: 1 };
            let call = |session: Session| async move { session.manifests(first, last).await };
            Done::Manifests(sessions.call(patience, &keys, call).await)
        });
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Composed(round, composed) => self.composed(round, composed),
            Done::DepositDue(round) => self.deposit_due(round),
            Done::Deposited(deposited) => self.deposited(deposited),
            Done::ManifestVerdict(believed) => self.believed(believed),
            Done::ManifestsDue => self.fetch_missing(),
            Done::Keys(round, next, taken) => self.keys_uploaded(round, next, taken),
            Done::Manifests(fetched) => {
                self.fetching = false;
                match fetched {
                    Ok(manifests) => {
                        let supplied = self.keeper.supply(manifests);
                        self.await_keeper(supplied, |believed| Done::ManifestVerdict(Some(believed)));
                    }
                    Err(failure) => {
                        let trouble = Trouble::Manifests(failure);
                        self.person.tell(Event::Trouble { round: None, trouble });
                    }
                }
            }
            Done::Retrieved(retrieved) => {
                let Retrieved { retrieval, elements, report, troubles } = *retrieved;
                self.receive(retrieval, elements, report, troubles);
            }
            Done::Audited(round, unit, audit) => self.audited(round, unit, audit),
            Done::ProofKept(round, unit, kept) => {
                self.person.tell(Event::Audited { round, unit, finding: Finding::Cheated(kept) });
            }
            Done::Received(report, troubles, taken) => self.taken(*report, troubles, taken),
            Done::Adopted(stored) => self.adopted(stored),
            // Ends everything, before it comes here.
            Done::KeeperGone => {}
        }
    }

    fn receive(
        &mut self,
        retrieval: Retrieval,
        elements: Vec<Option<Vec<u8>>>,
        report: RoundReport,
        troubles: Vec<Trouble>,
    ) {
        self.called = Instant::now();
        self.rounds.answered(report.round);
        let taking = self.keeper.take(retrieval, elements);
        self.await_keeper(taking, move |taken| Done::Received(Box::new(report), troubles, taken));
    }

    /// The round's calls are made: now its contents may show.
    fn taken(&mut self, mut report: RoundReport, troubles: Vec<Trouble>, taken: Received) {
        let round = report.round;
        let again = self.sessions.uploads();
        let first = core::mem::take(&mut self.upload);
        report.keys = Phase { bytes: first.bytes + again.bytes, time: first.time + again.time };
        let deposit = self.rounds.deposit(round);
        report.deposit = deposit.unwrap_or_default();
        report.complete = deposit.is_some() && troubles.is_empty();
        // A round that was retrieved before this process began is not retrieved again, and that is no trouble.
        let again = |trouble: &Trouble| {
            let quota = Failure::Refused(Refused::Quota);
            [Trouble::Answer, Trouble::Mapping, Trouble::Hint].iter().any(|call| *trouble == call(quota))
        };
        let foreign = self.rounds.is_foreign(round);
        let troubles = troubles.into_iter().filter(|trouble| !(foreign && again(trouble)));
        for trouble in troubles.chain(taken.stored.err().map(Trouble::Store)) {
            self.rounds.hold(round, Event::Trouble { round: Some(round), trouble });
        }
        for notice in taken.notices {
            self.rounds.hold(round, Event::Notice(notice));
        }
        self.rounds.hold(round, Event::RoundReport(report));
        self.release(round);
    }

    /// A task panicked. A retrieval that did leaves its round without contents, but not without end.
    fn failed(&mut self, error: &JoinError) {
        if let Some(round) = self.retrievals.remove(&error.id()) {
            self.rounds.hold(round, Event::Trouble { round: Some(round), trouble: Trouble::Failed });
            self.release(round);
        }
    }

    /// Keeps an event back until the round's calls are made, if they are not.
    fn note(&mut self, round: Round, event: Event) {
        self.rounds.hold(round, event);
        if self.rounds.is_retrieved(round) {
            self.release(round);
        }
    }

    fn release(&mut self, round: Round) {
        for event in self.rounds.retrieved(round) {
            self.person.tell(event);
        }
    }
}

async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => core::future::pending().await,
    }
}
