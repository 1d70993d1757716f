//! One run: a server, its clients, and somebody who watches all of them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use sotto_protocol::{Deposit, Manifest, Round};
use sotto_session::{RoundNews, Session};
use sotto_wire::Failure;
use sottod::{Addressing, Usage};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::{Stream, StreamExt as _};

use crate::asking;
use crate::child::{Child, PATIENCE, Process, session};
use crate::depositors::Depositor;
use crate::ledger::{Fate, Ledger, News};
use crate::retrievers::{self, Question, Retrieved, Retriever};
use crate::summary::{Retrievals, Rounds, Sample, Summary};

/// Clients on one connection: a server takes so many calls at a time from it.
const CLIENTS_PER_CONNECTION: usize = 16;
/// Uploads of keys at the same time.
const UPLOADS: usize = 64;

/// What is to be done.
#[derive(Clone)]
pub(crate) struct Plan {
    /// The server: this program with the argument `serve`.
    pub(crate) program: PathBuf,
    pub(crate) seconds: u64,
    pub(crate) clients: usize,
    pub(crate) retrievers: usize,
    pub(crate) retrieve: u16,
    pub(crate) addressing: Addressing,
    pub(crate) round_ms: u32,
    pub(crate) spread_ms: u64,
    pub(crate) seed: u64,
    pub(crate) progress: bool,
}

type Watch = Pin<Box<dyn Stream<Item = Result<RoundNews, Failure>> + Send>>;

/// A run that is under way.
struct Run {
    plan: Plan,
    server: Child,
    session: Session,
    events: Option<Watch>,
    opened: Option<watch::Sender<Option<(Round, Instant)>>>,
    questions: Option<watch::Sender<Option<Arc<Question>>>>,
    news: mpsc::UnboundedSender<News>,
    asked: mpsc::UnboundedSender<anyhow::Result<Arc<Question>>>,
    wanted: HashMap<Round, Deposit>,
    ledger: Ledger,
    rounds: Rounds,
    retrievals: Retrievals,
    samples: Vec<Sample>,
    rng: StdRng,
    began: Instant,
}

impl Plan {
    /// Does it.
    pub(crate) async fn run(self) -> anyhow::Result<Summary> {
        let (_directory, data) = crate::data_directory()?;
        let retrieve = self.retrieve.to_string();
        let addressing = self.addressing.name();
        let options = ["--retrieve", &retrieve, "--addressing", addressing];
        let server = Process::spawn(&self.program, &data, self.round_ms, &options)?.listening().await?;
        let own = session(&server.connect().await?, &server.info, 0, None).await?;

        let registering = Instant::now();
        let (news, mut told) = mpsc::unbounded_channel();
        let (retrieved, mut answers) = mpsc::channel(64);
        let (asked, mut ready) = mpsc::unbounded_channel();
        let (opened, questions) = (watch::Sender::new(None), watch::Sender::new(None));
        let (accounts, keys) =
            (self.register(&server).await?, Bytes::from(retrievers::client().public_keys()));
        let mut tasks = JoinSet::new();
        let mut uploads = JoinSet::new();
        for (number, session) in accounts.into_iter().enumerate() {
            if number < self.clients {
                let rng = StdRng::seed_from_u64(self.seed ^ number as u64);
                let (opened, news) = (opened.subscribe(), news.clone());
                let spread_ms = self.spread_ms;
                tasks.spawn(Depositor { session, rng, spread_ms, opened, news }.deposit());
                continue;
            }
            let (questions, retrieved) = (questions.subscribe(), retrieved.clone());
            let keys = keys.clone();
            if uploads.len() >= UPLOADS
                && let Some(retriever) = uploads.join_next().await
            {
                tasks.spawn(Retriever::retrieve(retriever??));
            }
            uploads.spawn(async move {
                let keys = session.upload_keys(keys).await?;
                anyhow::Ok(Retriever { session, keys, questions, retrieved })
            });
        }
        while let Some(retriever) = uploads.join_next().await {
            tasks.spawn(retriever??.retrieve());
        }
        drop(retrieved);
        let registered = registering.elapsed();

        let mut run = Run {
            rng: StdRng::seed_from_u64(!self.seed),
            rounds: Rounds::new(self.round_ms),
            server,
            session: own,
            events: None,
            opened: Some(opened),
            questions: Some(questions),
            news,
            asked,
            wanted: HashMap::new(),
            ledger: Ledger::default(),
            retrievals: Retrievals::default(),
            samples: Vec::new(),
            began: Instant::now(),
            plan: self,
        };
        run.watch().await?;
        let server = run.server.process.0.id();
        let before = (Usage::of(server), Usage::of_this());
        let died = run.drive(&mut tasks, &mut told, &mut answers, &mut ready).await?;
        let after = (Usage::of(server), Usage::of_this());
        let seconds = run.began.elapsed().as_secs_f64();
        if !died {
            run.server.kill()?;
        }
        let accounts = run.plan.clients + run.plan.retrievers + 1;
        let checked = check(&data, accounts, &mut run.ledger)?;
        Ok(Summary {
            clients: run.plan.clients,
            retrievers: run.plan.retrievers,
            retrieve: run.plan.retrieve,
            round_ms: run.plan.round_ms,
            spread_ms: run.plan.spread_ms,
            seconds: run.plan.seconds,
            registered,
            totals: checked,
            acknowledgements: run.ledger.acknowledgements,
            refusals: run.ledger.refusals,
            retrievals: run.retrievals,
            rounds: run.rounds,
            samples: run.samples,
            server_cores: (after.0.processor - before.0.processor) / seconds,
            client_cores: (after.1.processor - before.1.processor) / seconds,
            died,
        })
    }

    /// Registers everybody, so many on one connection as may be; first those who deposit.
    async fn register(&self, server: &Child) -> anyhow::Result<Vec<Session>> {
        let mut connections = JoinSet::new();
        let all = self.clients + self.retrievers;
        for first in (0..all).step_by(CLIENTS_PER_CONNECTION) {
            let (connection, info) = (server.connect().await?, server.info.clone());
            connections.spawn(async move {
                let mut accounts = Vec::new();
                for number in first..all.min(first + CLIENTS_PER_CONNECTION) {
                    accounts.push((number, session(&connection, &info, number + 1, None).await?));
                }
                anyhow::Ok(accounts)
            });
        }
        let mut accounts = BTreeMap::new();
        while let Some(registered) = connections.join_next().await {
            accounts.extend(registered?.context("registering")?);
        }
        Ok(accounts.into_values().collect())
    }
}

impl Run {
    /// Until the time is over and all calls have ended; whether the server died before.
    async fn drive(
        &mut self,
        tasks: &mut JoinSet<()>,
        told: &mut mpsc::UnboundedReceiver<News>,
        answers: &mut mpsc::Receiver<Retrieved>,
        ready: &mut mpsc::UnboundedReceiver<anyhow::Result<Arc<Question>>>,
    ) -> anyhow::Result<bool> {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        let end = self.began + Duration::from_secs(self.plan.seconds);
        let mut last = None;
        loop {
            tokio::select! {
                event = next(&mut self.events) => match event {
                    Some(event) => self.hear(event)?,
                    None => {
                        self.rounds.watches_lost += 1;
                        if self.server.process.0.try_wait()?.is_some() {
                            return Ok(true);
                        }
                        tokio::time::sleep(Duration::from_millis(250)).await;
                        // If that fails, it is tried again.
                        let _ = self.watch().await;
                    }
                },
                Some(news) = told.recv() => self.ledger.note(news),
                Some(retrieved) = answers.recv() => self.take(retrieved),
                Some(question) = ready.recv() => match question {
                    Ok(question) => {
                        if let Some(questions) = &self.questions {
                            questions.send_replace(Some(question));
                        }
                    }
                    Err(_) => self.rounds.unasked += 1,
                },
                _ = second.tick() => {
                    self.sample();
                    if self.server.process.0.try_wait()?.is_some() {
                        return Ok(true);
                    }
                    if Instant::now() >= end {
                        // Those who wait for the next round end; calls under way go on.
                        self.opened = None;
                        self.questions = None;
                        while tasks.try_join_next().is_some() {}
                        let quiet = tasks.is_empty() && self.ledger.on_their_way() == 0;
                        let since = *last.get_or_insert_with(Instant::now);
                        let rounds = Duration::from_millis(u64::from(self.plan.round_ms) * 3);
                        if (quiet && since.elapsed() >= rounds) || since.elapsed() >= PATIENCE {
                            return Ok(false);
                        }
                    }
                }
            }
        }
    }

    async fn watch(&mut self) -> anyhow::Result<()> {
        self.events = None;
        self.events = Some(Box::pin(self.session.watch().await?));
        Ok(())
    }

    fn hear(&mut self, news: RoundNews) -> anyhow::Result<()> {
        let at = |elapsed: Duration| {
            let now = Instant::now();
            now.checked_sub(elapsed).unwrap_or(now)
        };
        match news {
            RoundNews::Opened { round, elapsed } => {
                let at = at(elapsed);
                self.rounds.opened(round, at);
                if let Some(opened) = &self.opened {
                    self.rounds.loaded += 1;
                    opened.send_replace(Some((round, at)));
                    self.deposit_own(round);
                }
            }
            RoundNews::Ready { manifest, elapsed } => {
                let at = at(elapsed);
                let manifest = manifest.verify(&self.server.key())?;
                self.rounds.ready(manifest.round, at);
                self.ask(&manifest, at);
                let _ = self.news.send(News::Ready(Box::new(manifest)));
            }
            RoundNews::Announced(_) | RoundNews::Directory(_) => {}
        }
        Ok(())
    }

    /// Deposits a box that everybody will ask for.
    fn deposit_own(&mut self, round: Round) {
        let (deposit, bytes) = asking::deposit(&mut self.rng, self.session.given_slot());
        self.wanted.insert(round, deposit.clone());
        let (session, news) = (self.session.clone(), self.news.clone());
        tokio::spawn(async move {
            let _ = news.send(News::Sent { round });
            let sent = Instant::now();
            let fate = Fate::of(session.deposit(round, &bytes).await, sent);
            let _ = news.send(News::Ended { round, deposit: Box::new(deposit), fate });
        });
    }

    fn ask(&mut self, manifest: &Manifest, at: Instant) {
        let wanted = self.wanted.remove(&manifest.round);
        self.wanted.retain(|round, _| *round > manifest.round);
        let (Some(wanted), true) = (wanted, self.questions.is_some() && self.plan.retrievers > 0) else {
            return;
        };
        let (session, asked) = (self.session.clone(), self.asked.clone());
        let manifest = manifest.clone();
        tokio::spawn(async move {
            let built = retrievers::question(&session, manifest, &wanted, at).await;
            // If nobody listens any more, the run is over.
            let _ = asked.send(built);
        });
    }

    fn take(&mut self, retrieved: Retrieved) {
        match retrieved {
            Retrieved::Answers { answers, after, question } => {
                self.retrievals.times.push(after.as_micros().try_into().unwrap_or(u32::MAX));
                self.retrievals.wrong += u64::from(!question.is_answered_by(&answers));
            }
            Retrieved::Refused(word) => *self.retrievals.refusals.entry(word).or_default() += 1,
            Retrieved::Skipped(rounds) => self.retrievals.skipped += rounds,
        }
    }

    fn sample(&mut self) {
        let resident = Usage::of(self.server.process.0.id()).resident as f64 / f64::from(1 << 20);
        let seconds = self.began.elapsed().as_secs_f64();
        self.samples.push(Sample { seconds, resident });
        if self.plan.progress {
            let left = (self.plan.seconds as f64 - seconds).max(0.0);
            let refused: u64 =
                self.ledger.refusals.values().chain(self.retrievals.refusals.values()).sum::<u64>();
            println!(
                "{seconds:.0} s, {left:.0} s left: {} rounds, {} acknowledged, {} retrieved, {refused} refused, server {resident:.0} MiB",
                self.rounds.sealed(),
                self.ledger.totals.acknowledged,
                self.retrievals.times.len()
            );
        }
    }
}

async fn next(events: &mut Option<Watch>) -> Option<RoundNews> {
    events.as_mut()?.next().await?.ok()
}

/// Judges by the log itself what no manifest was seen for.
fn check(data: &Path, accounts: usize, ledger: &mut Ledger) -> anyhow::Result<crate::ledger::Totals> {
    let summary = sottod::check_log(data)?;
    ensure!(summary.accounts == accounts as u64, "{} accounts are known", summary.accounts);
    let logged = sottod::read_log(data)?;
    let mut totals = ledger.totals;
    for (round, acknowledged) in ledger.take_open() {
        let mut places: HashMap<[u8; 304], u32> = HashMap::new();
        for deposit in logged.get(&round).iter().flat_map(|round| &round.deposits) {
            *places.entry(deposit.encode()).or_default() += 1;
        }
        let stored = acknowledged.iter().filter(|deposit| places.get(&deposit.encode()) == Some(&1)).count();
        totals.stored += stored as u64;
        totals.lost += (acknowledged.len() - stored) as u64;
    }
    Ok(totals)
}
