//! The drill: what it does, and how it judges.

#[path = "../common/asking.rs"]
mod asking;
#[path = "../common/child.rs"]
mod child;
#[path = "client.rs"]
mod client;
#[path = "group.rs"]
mod group;
#[path = "../common/ports.rs"]
pub(crate) mod ports;
#[path = "retriever.rs"]
mod retriever;
#[path = "visitor.rs"]
mod visitor;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use sotto_protocol::deposit::arrange;
use sotto_protocol::manifest::deposits_digest;
use sotto_protocol::{Deposit, OwnSlot, Round, SignedManifest};
use sotto_session::ConnectError;
use sotto_wire::Refused;
use sottod::Addressing;

use child::{Child, Process};
use client::{Depositor, Watcher, manifests};
use retriever::Served;

pub(crate) use group::GroupPlan;

/// Length of a round while clients deposit, ms.
const ROUND_MS: u32 = 400;
/// While it is judged: no round ends before all is retrieved from it.
const JUDGED_ROUND_MS: u32 = 60_000;
/// Rounds that stay retrievable.
const RETAINED: usize = 4;
/// When a server is killed that is still starting, ms after its process was made.
const STARTING_MS: Range<u64> = 0..400;

/// One message is retrieved per round: the databases are as small as can be, so that a server lives through many rounds.
const OPTIONS: [&str; 11] = [
    "--plaintext",
    "--retrieve",
    "1",
    "--retained",
    "4",
    "--deposit-ms",
    "50",
    "--lookup-ms",
    "50",
    "--query-ms",
    "150",
];

/// What is to be done.
pub(crate) struct Plan {
    /// The server: this program with the argument `serve`.
    pub(crate) program: PathBuf,
    /// An empty directory for it.
    pub(crate) data: PathBuf,
    pub(crate) kills: u32,
    /// Kills after which what was acknowledged is judged and dropped: the server does not keep it for ever either.
    pub(crate) judge_every: u32,
    pub(crate) seed: u64,
    pub(crate) clients: usize,
    /// How long a server lives once its clients are there, ms.
    pub(crate) alive_ms: Range<u64>,
    /// Share of the kills that come while the server is starting. The kill before a judgement never does.
    pub(crate) starting: f64,
    /// Deposits that are retrieved at each judgement; no more than clients.
    pub(crate) sample: usize,
    /// How clients find boxes.
    pub(crate) addressing: Addressing,
    pub(crate) verbose: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) acknowledged: u64,
    /// Exactly once in the round it was for, in no other round, and under the manifest that clients were given; and if it
    /// was sampled, retrieved as it was sent.
    pub(crate) retrievable: u64,
    /// How often any deposit was in the log beside the first time, when most were.
    pub(crate) duplicates: u64,
    /// Deposits that were asked for by private retrieval.
    pub(crate) sampled: u64,
    /// Those of them that came back as they were sent.
    pub(crate) retrieved: u64,
}

impl Outcome {
    pub(crate) fn lost(&self) -> u64 {
        self.acknowledged - self.retrievable
    }

    /// Whether everything is where it belongs, once.
    pub(crate) fn is_good(&self) -> bool {
        self.lost() == 0 && self.duplicates == 0 && self.retrieved == self.sampled
    }

    fn add(&mut self, judged: Self) {
        self.acknowledged += judged.acknowledged;
        self.retrievable += judged.retrievable;
        // What was there before is still there, or its segment is removed.
        self.duplicates = self.duplicates.max(judged.duplicates);
        self.sampled += judged.sampled;
        self.retrieved += judged.retrieved;
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, retrievable, duplicates, sampled, retrieved } = self;
        writeln!(f, "duplicates {duplicates}")?;
        writeln!(f, "retrieved by PIR: {retrieved} of {sampled} sampled")?;
        write!(f, "acknowledged {acknowledged}, retrievable {retrievable}, {} lost", self.lost())
    }
}

/// What clients have seen, as far as it is not judged.
#[derive(Default)]
struct Seen {
    /// What was acknowledged, and for which round.
    acknowledged: Vec<(Round, Deposit)>,
    /// Clients that were registered, over all of the drill.
    accounts: BTreeSet<usize>,
    /// Slots that accounts have been given, on a server with slots.
    slots: BTreeMap<usize, OwnSlot>,
    /// Accounts that clients gave up, since they never heard of the slot that they have.
    given_up: BTreeMap<usize, usize>,
    /// Manifests as they were announced.
    announced: BTreeMap<Round, SignedManifest>,
    key: Option<[u8; 32]>,
    /// The last manifest that was judged: its round and digest.
    head: Option<(Round, [u8; 32])>,
}

/// Accounts of one client have numbers so far apart.
const ANOTHER_ACCOUNT: usize = 100_000;

impl Seen {
    /// The account of a client.
    fn account(&self, client: usize) -> usize {
        client + ANOTHER_ACCOUNT * self.given_up.get(&client).copied().unwrap_or_default()
    }

    /// A client makes another account.
    fn give_up(&mut self, client: usize) {
        *self.given_up.entry(client).or_default() += 1;
    }

    /// Accounts to retrieve with: those first that are known to have a slot.
    fn retrieving(&self, clients: usize) -> Vec<(usize, Option<OwnSlot>)> {
        let account = |client| (self.account(client), self.slots.get(&self.account(client)).cloned());
        let mut accounts: Vec<_> = (1..=clients).map(account).collect();
        accounts.sort_by_key(|(_, slot)| slot.is_none());
        accounts
    }
}

impl Plan {
    /// How a server is started.
    fn options(&self) -> Vec<&'static str> {
        let addressing = self.addressing.name();
        OPTIONS.into_iter().chain(["--addressing", addressing]).collect()
    }

    /// Somebody watches, under another account if the slot of the one before is lost.
    async fn watch(&self, seen: &mut Seen, server: &Child) -> anyhow::Result<Watcher> {
        loop {
            let account = seen.account(0);
            match Watcher::start(server, account, seen.slots.get(&account)).await {
                Ok(watcher) => {
                    seen.slots.extend(watcher.session.given_slot().map(|slot| (account, slot.clone())));
                    seen.accounts.insert(account);
                    return Ok(watcher);
                }
                Err(error) => match error.downcast_ref() {
                    Some(ConnectError::Refused(Refused::Slot)) => seen.give_up(0),
                    _ => return Err(error.context("watching")),
                },
            }
        }
    }

    /// Does all of it.
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut seen = Seen::default();
        let mut outcome = Outcome::default();
        for kill in 1..=self.kills {
            let judged = kill == self.kills || kill % self.judge_every.max(1) == 0;
            let starting = rng.random_bool(self.starting) && !judged;
            let ms = if starting { STARTING_MS } else { self.alive_ms.clone() };
            let alive = Duration::from_millis(rng.random_range(ms));
            if starting {
                let process = Process::spawn(&self.program, &self.data, ROUND_MS, &self.options())?;
                tokio::time::sleep(alive).await;
                process.kill()?;
            } else {
                self.live(&mut seen, rng.random(), alive).await?;
            }
            if self.verbose {
                println!(
                    "kill {kill} after {} ms{}: {} acknowledged",
                    alive.as_millis(),
                    if starting { " of starting" } else { "" },
                    outcome.acknowledged + seen.acknowledged.len() as u64
                );
            }
            if judged {
                outcome.add(self.judge(&mut seen, &mut rng).await?);
                seen.acknowledged.clear();
                seen.announced.clear();
            }
        }
        Ok(outcome)
    }

    /// One life of the server, under load, to its sudden end.
    async fn live(&self, seen: &mut Seen, seed: u64, alive: Duration) -> anyhow::Result<()> {
        let server =
            Process::spawn(&self.program, &self.data, ROUND_MS, &self.options())?.listening().await?;
        let key = *seen.key.get_or_insert(server.key());
        ensure!(server.key() == key, "the server has another key than before");
        let watcher = self.watch(seen, &server).await?;
        let mut depositors = tokio::task::JoinSet::new();
        let mut connection = server.connect().await?;
        for number in 1..=self.clients {
            // A server takes so many calls at a time from one connection.
            if number % 16 == 0 {
                connection = server.connect().await?;
            }
            let rng = StdRng::seed_from_u64(seed ^ number as u64);
            let (connection, info) = (connection.clone(), server.info.clone());
            let opened = watcher.opened.clone();
            let number = seen.account(number);
            let slot = seen.slots.get(&number).cloned();
            depositors.spawn(Depositor { number, slot, rng, connection, info, opened }.deposit());
        }
        tokio::time::sleep(alive).await;
        server.kill()?;
        // Their calls fail now; what was acknowledged was acknowledged before.
        while let Some(acknowledged) = depositors.join_next().await {
            let acknowledged = acknowledged?;
            seen.acknowledged.extend(acknowledged.deposits);
            seen.accounts.extend(acknowledged.account);
            seen.slots.extend(acknowledged.account.zip(acknowledged.slot));
            if let Some(account) = acknowledged.given_up {
                seen.give_up(account % ANOTHER_ACCOUNT);
            }
        }
        for (round, manifest) in watcher.end().await? {
            let before = seen.announced.insert(round, manifest.clone());
            ensure!(before.is_none_or(|before| before == manifest), "round {round} has two manifests");
        }
        Ok(())
    }

    /// Judges what was acknowledged since the last time: by one more start, which is asked for manifests and for a sample
    /// of the deposits, and by what is in the log after it.
    async fn judge(&self, seen: &mut Seen, rng: &mut StdRng) -> anyhow::Result<Outcome> {
        let server =
            Process::spawn(&self.program, &self.data, JUDGED_ROUND_MS, &self.options())?.listening().await?;
        let mut watcher = self.watch(seen, &server).await?;
        // All that was sealed, also a round in which nothing was acknowledged.
        let newest = watcher.ready().await?;
        let manifests = self.chain(seen, &watcher, newest).await?;
        let served = Served::ask(&watcher.session, &server.key(), &manifests, RETAINED).await?;
        let served = served.context("a node alone serves before its rounds are built again")?;
        let retrievable = seen.acknowledged.iter().filter(|(round, _)| served.serves(*round));
        let sample = retrievable.sample(rng, self.sample.min(self.clients));
        let connection = server.connect().await?;
        let accounts = seen.retrieving(self.clients);
        let missing = served.retrieve(&connection, &server.info, &accounts, &sample).await?;
        server.kill()?;
        let missing: HashSet<[u8; 304]> = missing.iter().map(|(_, deposit)| deposit.encode()).collect();
        let outcome = Outcome {
            sampled: sample.len() as u64,
            retrieved: (sample.len() - missing.len()) as u64,
            ..self.examine(seen, &manifests, &missing)?
        };
        Ok(outcome)
    }

    /// The manifests since the last judgement; they must go on with the chain that was judged, and be those that were
    /// announced.
    async fn chain(
        &self,
        seen: &mut Seen,
        watcher: &Watcher,
        newest: Round,
    ) -> anyhow::Result<BTreeMap<Round, SignedManifest>> {
        let rounds = seen.acknowledged.iter().map(|(round, _)| *round).chain(seen.announced.keys().copied());
        let rounds = rounds.chain(seen.head.map(|(round, _)| round)).chain([newest]);
        let (first, last) = rounds
            .fold((Round(u64::MAX), Round(0)), |(first, last), round| (first.min(round), last.max(round)));
        let manifests = manifests(&watcher.session, first, last).await?;
        let key = seen.key.context("no server was started")?;
        if let Some((round, _)) = seen.head {
            ensure!(manifests.contains_key(&round), "the manifest of round {round} is gone");
        }
        let mut newest: Option<(Round, [u8; 32])> = None;
        for (round, signed) in &manifests {
            let manifest = signed.verify(&key)?;
            let digest = manifest.digest();
            ensure!(
                newest.is_none_or(|(_, digest)| digest == manifest.previous),
                "the chain breaks at {round}"
            );
            let judged = seen.head.filter(|(judged, _)| judged == round);
            ensure!(judged.is_none_or(|(_, judged)| judged == digest), "round {round} has two manifests");
            newest = Some((*round, digest));
        }
        seen.head = newest;
        for (round, announced) in &seen.announced {
            ensure!(
                manifests.get(round) == Some(announced),
                "round {round} was announced with another manifest"
            );
        }
        Ok(manifests)
    }

    /// What is in the log of what was acknowledged, but for what could not be retrieved.
    fn examine(
        &self,
        seen: &Seen,
        manifests: &BTreeMap<Round, SignedManifest>,
        missing: &HashSet<[u8; 304]>,
    ) -> anyhow::Result<Outcome> {
        let summary = sottod::check_log(&self.data)?;
        let given_up: usize = seen.given_up.values().sum();
        let expected = seen.accounts.len() as u64..=(self.clients + 1 + given_up) as u64;
        ensure!(expected.contains(&summary.accounts), "{} accounts are known", summary.accounts);
        let rounds = sottod::read_log(&self.data)?;
        let mut places: HashMap<[u8; 304], Vec<Round>> = HashMap::new();
        let mut published = BTreeMap::new();
        for (round, logged) in rounds {
            for deposit in &logged.deposits {
                places.entry(deposit.encode()).or_default().push(round);
            }
            let (Some(seed), Some(signed)) = (logged.sealed, manifests.get(&round)) else { continue };
            let manifest = signed.verify(&seen.key.context("no server was started")?)?;
            let mut deposits = logged.deposits;
            arrange(&mut deposits, &seed);
            // With slots it says nothing of the deposits; what was built of them, the retrievals do.
            let digest = if manifest.code.has_slots() { [0; 32] } else { deposits_digest(&deposits) };
            let same = manifest.round_seed == seed && manifest.deposits_digest == digest;
            ensure!(same, "round {round} is not what its manifest says");
            published.insert(round, ());
        }
        let retrievable = seen.acknowledged.iter().filter(|(round, deposit)| {
            let deposit = deposit.encode();
            places.get(&deposit).is_some_and(|places| places[..] == [*round])
                && published.contains_key(round)
                && !missing.contains(&deposit)
        });
        Ok(Outcome {
            acknowledged: seen.acknowledged.len() as u64,
            retrievable: retrievable.count() as u64,
            duplicates: places.values().map(|places| places.len() as u64 - 1).sum(),
            ..Outcome::default()
        })
    }
}
