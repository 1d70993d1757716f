//! The calls' side of the task that owns the rounds.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sotto_log::{Tenure, TokenId};
use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round};
use sotto_wire::{Announced, Refused};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::Place;
use super::command::{Command, Reply};
use super::overview::RoundStatus;
use super::watchers::Watch;
use crate::round_database::RoundDatabase;

/// The way back for commands that nobody could carry out. It keeps no task alive.
#[derive(Clone)]
pub(super) struct Again(pub(super) mpsc::WeakSender<Command>);

impl Again {
    /// Hands commands in again, all of them after one pause.
    pub(super) async fn bring(&self, commands: impl IntoIterator<Item = Command, IntoIter: Send> + Send) {
        tokio::time::sleep(AGAIN).await;
        for command in commands {
            // If the task has ended, so does the wait for an answer.
            let Some(commands) = self.0.upgrade() else { return };
            let _ = commands.send(command).await;
        }
    }
}

/// Between two attempts to reach whoever leads.
const AGAIN: Duration = Duration::from_millis(100);

/// Asks the task and waits for its answer. Callers set the time limit.
pub(crate) struct Rounds {
    commands: mpsc::Sender<Command>,
    tracker: TaskTracker,
}

impl Clone for Rounds {
    fn clone(&self) -> Self {
        Self { commands: self.commands.clone(), tracker: self.tracker.clone() }
    }
}

impl Rounds {
    /// Which nobody answers.
    #[cfg(test)]
    pub(crate) fn of_nobody() -> Self {
        Self { commands: mpsc::channel(1).0, tracker: TaskTracker::new() }
    }

    pub(super) fn new(commands: mpsc::Sender<Command>, tracker: TaskTracker) -> Self {
        Self { commands, tracker }
    }

    pub(crate) async fn deposit(
        &self,
        account: Account,
        round: Round,
        deposit: Deposit,
        tenure: Option<Tenure>,
    ) -> Result<(), Refused> {
        let digest = Sha256::digest(deposit.encode()).into();
        let deposit = Box::new(deposit);
        self.ask(|reply| Command::Deposit { account, round, deposit, digest, tenure, reply }).await?
    }

    /// Makes an account unknown again, and gives its slot back, on a server with slots.
    pub(crate) async fn close(&self, account: Account, tenure: Option<Tenure>) -> Result<(), Refused> {
        self.ask(|reply| Command::Close { account, tenure, reply }).await?
    }

    /// Makes an account known that has proved to hold its key; the slot that it has shown or is given, on a server with slots.
    pub(crate) async fn register(
        &self,
        account: Account,
        token: Option<TokenId>,
        shown: Option<Tenure>,
    ) -> Result<Option<Tenure>, Refused> {
        self.ask(|reply| Command::Register { account, token, shown, reply }).await?
    }

    /// Follows the rounds as this account, which takes part until the watch is dropped. An older watch of the same
    /// account ends.
    pub(crate) async fn watch(&self, account: Account, has_keys: bool) -> Result<Watch, Refused> {
        let joined = self.ask(|reply| Command::Watch { account, has_keys, reply }).await;
        // A node that is cut off from the others, or ends, takes nobody; later, or elsewhere, it may work.
        let joined = joined.map_err(|_| Refused::Busy)?;
        let (commands, tracker, generation) =
            (self.commands.clone(), self.tracker.clone(), joined.generation);
        // A watch may be dropped where no runtime is at hand.
        let runtime = tokio::runtime::Handle::current();
        let leave = move || {
            let left = async move {
                // If the task has ended, nobody waits for this account either.
                let _ = commands.send(Command::Left { account, generation }).await;
            };
            tracker.spawn_on(left, &runtime);
        };
        Ok(Watch::new(joined, Box::new(leave)))
    }

    pub(crate) async fn has_keys(&self, account: Account) -> Result<(), Refused> {
        self.commands.send(Command::HasKeys { account }).await.map_err(|_| Refused::Internal)
    }

    /// A node says where people find it.
    pub(crate) async fn place(&self, place: Place) {
        // If the task has ended, another node leads soon.
        let _ = self.commands.send(Command::Place(place)).await;
    }

    /// Announces another manifest key, if this node leads; the first round that it signs.
    pub(crate) async fn announce(&self, announced: Announced) -> Result<Round, String> {
        let announced = Box::new(announced);
        let answer = self.ask(|reply| Command::Announce { announced, reply }).await;
        answer.unwrap_or_else(|_| Err("the server ends".to_owned()))
    }

    /// The rounds that are not retired, the newest first.
    pub(crate) async fn overview(&self) -> Result<Vec<RoundStatus>, Refused> {
        self.ask(|reply| Command::Overview { reply }).await
    }

    pub(crate) async fn current(&self) -> Result<Round, Refused> {
        self.ask(|reply| Command::Current { reply }).await
    }

    pub(crate) async fn served(&self, round: Round) -> Result<Arc<RoundDatabase>, Refused> {
        self.ask(|reply| Command::Served { round, reply }).await?.map_err(Refused::from)
    }

    pub(crate) async fn mapping(
        &self,
        account: Account,
        round: Round,
    ) -> Result<Arc<RoundDatabase>, Refused> {
        self.ask(|reply| Command::Mapping { account, round, reply }).await?.map_err(Refused::from)
    }

    pub(crate) async fn hint(&self, account: Account, round: Round) -> Result<Arc<RoundDatabase>, Refused> {
        self.ask(|reply| Command::Hint { account, round, reply }).await?.map_err(Refused::from)
    }

    pub(crate) async fn unit(
        &self,
        account: Account,
        round: Round,
        unit: u16,
    ) -> Result<Arc<RoundDatabase>, Refused> {
        self.ask(|reply| Command::Unit { account, round, unit, reply }).await?.map_err(Refused::from)
    }

    pub(crate) async fn retrieve(
        &self,
        account: Account,
        round: Round,
        digest: [u8; 32],
    ) -> Result<(), Refused> {
        self.ask(|reply| Command::Retrieve { account, round, digest, reply }).await?.map_err(Refused::from)
    }

    /// A retrieval has ended; `complete` says whether all answers were handed over.
    pub(crate) async fn answered(&self, account: Account, round: Round, complete: bool) {
        // If the task has ended, no round waits any more.
        let _ = self.commands.send(Command::Answered { account, round, complete }).await;
    }

    pub(crate) async fn manifests(&self, first: Round, last: Round) -> Result<Vec<SignedManifest>, Refused> {
        self.ask(|reply| Command::Manifests { first, last, reply }).await
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Refused> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| Refused::Internal)?;
        answer.await.map_err(|_| Refused::Internal)
    }
}
