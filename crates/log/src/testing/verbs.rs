//! The steps of a round, each an entry of its own that is waited for.

use sotto_protocol::manifest::{FormerManifest, SignedManifest};
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round, UnixMillis};

use crate::record::{entries, spent};
use crate::{LogError, Phase, ProposeError, Record, RoundLog, State, TableSeal, TokenId};

/// How far rounds had come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The highest number that was ever opened.
    pub newest: Option<Round>,
    /// Lots of slots that were begun.
    pub lots: u32,
    /// The newest manifest of an earlier version.
    pub former: Option<(Round, Box<FormerManifest>)>,
    /// The newest manifests, ascending.
    pub manifests: Vec<(Round, SignedManifest)>,
    /// Rounds that were not retired, ascending.
    pub rounds: Vec<(Round, Phase)>,
}

impl From<&State> for History {
    fn from(state: &State) -> Self {
        Self {
            newest: state.newest(),
            lots: state.lots(),
            former: state.former().cloned(),
            manifests: state.manifests().iter().cloned().collect(),
            rounds: state.rounds().collect(),
        }
    }
}

/// What a server does with its log.
#[expect(async_fn_in_trait, reason = "for tests, which hold what they call")]
pub trait Verbs: RoundLog {
    /// Hands records in and waits for what becomes of them.
    async fn write(&self, records: Vec<Record>) -> Result<(), LogError> {
        match self.propose(records).await.await {
            Ok(_) => Ok(()),
            Err(ProposeError::Refused(refused)) => Err(LogError::Refused(refused)),
            Err(ProposeError::Elsewhere) => Err(LogError::Ended("it is written elsewhere".to_owned())),
            Err(ProposeError::Log(error)) => Err(error),
        }
    }

    /// How far rounds have come.
    fn history(&self) -> History {
        History::from(&*self.state())
    }

    /// Whether it holds an account.
    fn knows(&self, account: &Account) -> bool {
        self.state().knows(account)
    }

    /// Whether a token was used.
    fn is_spent(&self, token: &TokenId) -> bool {
        self.state().is_spent(token)
    }

    /// Opens a round.
    async fn open(&self, round: Round) -> Result<(), LogError> {
        self.write(vec![Record::Open(round)]).await
    }

    /// Stores deposits, accounts that are new among some, and how many lots have been begun.
    async fn append(
        &self,
        round: Round,
        deposits: Vec<Deposit>,
        mut accounts: Vec<Account>,
        lots: Option<u32>,
    ) -> Result<(), LogError> {
        accounts.retain(|account| !self.state().knows(account));
        let (deposits, others) = entries(round, deposits, accounts, lots, Vec::new());
        for records in deposits.into_iter().chain(others) {
            self.write(records).await?;
        }
        Ok(())
    }

    /// Stores those of some tokens that are new.
    async fn spend(&self, mut tokens: Vec<TokenId>) -> Result<(), LogError> {
        tokens.retain(|token| !self.state().tokens.contains(token));
        for records in spent(tokens) {
            self.write(records).await?;
        }
        Ok(())
    }

    /// Seals a round, and says how many deposits it has.
    async fn seal(
        &self,
        round: Round,
        seed: [u8; 32],
        table: Option<TableSeal>,
        at: UnixMillis,
    ) -> Result<u64, LogError> {
        let table = table.map(|table| Record::Table(round, table));
        self.write(table.into_iter().chain([Record::Seal(round, seed, at)]).collect()).await?;
        Ok(self.state().deposits(round))
    }

    /// Stores a manifest.
    async fn publish(&self, round: Round, manifest: SignedManifest) -> Result<(), LogError> {
        self.write(vec![Record::Publish(round, Box::new(manifest))]).await
    }

    /// As servers of earlier versions did.
    async fn publish_former(&self, round: Round, manifest: FormerManifest) -> Result<(), LogError> {
        self.write(vec![Record::FormerPublish(round, Box::new(manifest))]).await
    }

    /// Retires a round, and gives its space up.
    async fn retire(&self, round: Round) -> Result<(), LogError> {
        self.write(vec![Record::Retire(round)]).await?;
        self.reclaim().await
    }
}

impl<L: RoundLog> Verbs for L {}
