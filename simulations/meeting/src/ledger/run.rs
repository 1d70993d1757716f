//! Who deposits and retrieves when, until it is over.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Context, bail};
use rand::RngExt;
use sotto_protocol::{Deposit, Round, ServerParameters};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

use super::Arguments;
use super::account::{Account, Retrieved, random_deposit};
use super::book::Book;
use super::manifests::Manifests;
use super::node::{Heard, Node, What};
use super::page::{Ready, Wanted};
use super::tell::Sum;
use crate::target::ended;

/// For everybody to enter.
const ENTERING: Duration = Duration::from_secs(120);
/// A deposit is repeated so long, unless its round is over before.
const DEPOSITING: Duration = Duration::from_secs(20);
/// So long, a round that is ready waits for those who still deposit in it, before the others are asked to retrieve.
const STRAGGLERS: Duration = Duration::from_secs(1);
/// Longer than any round is retrievable in the demonstration.
const RETRIEVING: Duration = Duration::from_secs(30);
/// For what is under way when it is to end.
const LEAVING: Duration = Duration::from_secs(12);
const TICK: Duration = Duration::from_millis(100);
/// Every so many rounds a sum is told.
const TOLD: u64 = 5;

/// What has come of a call.
enum Done {
    Deposited(Round, Option<Box<Deposit>>),
    Retrieved(Round, Vec<Wanted>, Retrieved),
}

struct Run {
    accounts: Vec<Arc<Account>>,
    server: ServerParameters,
    retrieve: usize,
    nodes: usize,
    book: Book,
    manifests: Manifests,
    done: UnboundedSender<Done>,
    /// The first round of the ledger, and the newest that was heard of.
    first: Round,
    newest: Round,
    rounds: u64,
    json: bool,
    /// How many rounds may still begin; none, if any number.
    left: Option<u64>,
    stopping: Option<Instant>,
}

/// Runs until it has been long enough, or is asked to end; whether all is well.
pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let mut ended = core::pin::pin!(ended());
    let begun = tokio::select! {
        // Whoever is asked to end before anything has begun has lost nothing.
        ended = &mut ended => { ended?; return Ok(true); }
        begun = begin(arguments) => begun?,
    };
    let (mut run, mut heard, mut done) = begun;
    let mut tick = interval(TICK);
    loop {
        tokio::select! {
            said = heard.recv() => run.hear(said.context("nobody listens to the nodes")?)?,
            what = done.recv() => run.take(what.context("nobody tells what was done")?),
            _ = tick.tick() => {}
            asked = &mut ended, if run.stopping.is_none() => { asked?; run.stop(); }
        }
        run.ask();
        run.settle()?;
        if run.is_over() {
            return run.finish();
        }
    }
}

type Begun = (Run, UnboundedReceiver<Heard>, UnboundedReceiver<Done>);

async fn begin(arguments: &Arguments) -> anyhow::Result<Begun> {
    let (settings, info) = arguments.target.reach().await?;
    let server = info.parameters;
    let mut entering = JoinSet::new();
    for number in 0..arguments.clients {
        let (settings, server) = (settings.clone(), server.clone());
        entering.spawn(async move {
            let account = Account::new(&settings, server).await?;
            account.enter(Instant::now() + ENTERING).await?;
            anyhow::Ok((number, Arc::new(account)))
        });
    }
    let mut accounts = BTreeMap::new();
    while let Some(entered) = entering.join_next().await {
        accounts.extend([entered??]);
    }
    let (says, heard) = unbounded_channel();
    let (tells, done) = unbounded_channel();
    let mut nodes = 0;
    for (number, settings) in settings.each().enumerate() {
        let node = Node {
            number,
            settings,
            server: server.clone(),
            heard: says.clone(),
            first: info.open,
            slot: None,
        };
        tokio::spawn(node.listen());
        nodes += 1;
    }
    let clients = accounts.len();
    let run = Run {
        accounts: accounts.into_values().collect(),
        retrieve: usize::from(arguments.retrieve.min(server.retrieve)),
        server,
        nodes,
        book: Book::new(clients),
        manifests: Manifests::new(nodes),
        done: tells,
        // Of the round that is open now, some may have missed the beginning.
        first: info.open.next(),
        newest: info.open,
        rounds: 0,
        json: arguments.json,
        left: arguments.rounds,
        stopping: None,
    };
    Ok((run, heard, done))
}

impl Run {
    fn hear(&mut self, Heard { node, what }: Heard) -> anyhow::Result<()> {
        match what {
            What::Opened(round, at) => self.open(round, at),
            What::Ready(signed, at) => {
                let manifest = signed.verify(&self.server.manifest_key)?;
                self.compare(node, &signed)?;
                if let Some(page) = self.book.pages.get_mut(&manifest.round)
                    && page.ready.is_none()
                {
                    page.ready = Some(Ready { manifest, at, node });
                }
            }
            What::Manifests(manifests) => {
                for signed in manifests {
                    let manifest = signed.verify(&self.server.manifest_key)?;
                    self.compare(node, &signed)?;
                    if let Some(page) = self.book.pages.get_mut(&manifest.round)
                        && page.ready.is_none()
                    {
                        page.ready = Some(Ready { manifest, at: Instant::now(), node });
                    }
                }
            }
        }
        Ok(())
    }

    fn compare(&mut self, node: usize, signed: &sotto_protocol::SignedManifest) -> anyhow::Result<()> {
        let Some(found) = self.manifests.note(node, signed) else { return Ok(()) };
        let (one, other) = found.nodes;
        self.say(&format!("round {}: node {one} and node {other} have different manifests", found.round))
    }

    /// Everybody deposits in a round, once.
    fn open(&mut self, round: Round, at: Instant) {
        if round <= self.newest || self.stopping.is_some() {
            return;
        }
        self.newest = round;
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                self.stop();
            }
        }
        let page = self.book.pages.entry(round).or_default();
        page.opened = Some(at);
        page.depositing = self.accounts.len();
        let spread = u64::from(self.server.deposit_spread_ms);
        for account in &self.accounts {
            let (account, done) = (Arc::clone(account), self.done.clone());
            let after = u64::from(self.server.deposit_ms) + rand::rng().random_range(0..=spread);
            tokio::spawn(async move {
                let due = at + Duration::from_millis(after);
                sleep_until(due).await;
                let until = Instant::now() + DEPOSITING;
                let deposited = account.deposit(round, random_deposit(round), until).await;
                // If nobody listens any more, it is over.
                let _ = done.send(Done::Deposited(round, deposited.map(Box::new)));
            });
        }
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Deposited(round, deposit) => {
                if let Some(page) = self.book.pages.get_mut(&round) {
                    page.deposited(deposit.map(|deposit| *deposit));
                }
            }
            Done::Retrieved(round, wanted, retrieved) => {
                if let Some(page) = self.book.pages.get_mut(&round) {
                    page.retrieved(wanted, retrieved);
                }
            }
        }
    }

    /// Clients retrieve what was acknowledged in rounds that are ready, in every round others first.
    fn ask(&mut self) {
        let clients = self.accounts.len();
        for (round, page) in &mut self.book.pages {
            let Some(ready) = &page.ready else { continue };
            if page.depositing > 0 && ready.at.elapsed() < STRAGGLERS {
                continue;
            }
            let manifest = ready.manifest.clone();
            let from =
                usize::try_from(round.0).unwrap_or_default().wrapping_mul(clients.div_ceil(self.retrieve))
                    % clients;
            while let Some((client, wanted)) = page.next(clients, from, self.retrieve) {
                let Some(account) = self.accounts.get(client).cloned() else { continue };
                let (round, manifest, done) = (*round, manifest.clone(), self.done.clone());
                tokio::spawn(async move {
                    let deposits = wanted.iter().map(|wanted| wanted.deposit.clone()).collect();
                    let retrieved = account.retrieve(manifest, deposits, Instant::now() + RETRIEVING).await;
                    // What cannot be asked for is not found.
                    let retrieved = retrieved.unwrap_or(Retrieved::Unreached);
                    let _ = done.send(Done::Retrieved(round, wanted, retrieved));
                });
            }
        }
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        let length = Duration::from_millis(self.server.round_ms.into());
        while let Some(line) = self.book.settle(length) {
            self.rounds += 1;
            match self.json {
                true => self.say(&serde_json::to_string(&line)?)?,
                false => self.say(&line.text(self.nodes))?,
            }
            if self.rounds.is_multiple_of(TOLD) && !self.json {
                self.say(&format!("so far: {}", self.sum()))?;
            }
        }
        Ok(())
    }

    fn sum(&self) -> Sum {
        Sum { manifests: self.manifests.compared(self.first), ..self.book.sum.clone() }
    }

    /// No round begins any more.
    fn stop(&mut self) {
        self.stopping.get_or_insert_with(Instant::now);
    }

    fn is_over(&self) -> bool {
        let Some(since) = self.stopping else { return false };
        // The last round is compared, too, if there was one.
        let compared = || self.rounds == 0 || self.manifests.compared(self.first).newest >= self.newest.0;
        (self.book.pages.is_empty() && compared()) || since.elapsed() >= LEAVING
    }

    fn finish(mut self) -> anyhow::Result<bool> {
        let open = self.book.open();
        if open > 0 && !self.json {
            self.say(&format!(
                "{open} acknowledged in rounds that were not over at the end are not counted"
            ))?;
        }
        let sum = self.sum();
        match self.json {
            true => self.say(&serde_json::to_string(&sum)?)?,
            false => self.say(&sum.to_string())?,
        }
        Ok(sum.is_sound())
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            bail!("nobody reads what is printed");
        }
        Ok(())
    }
}
