//! The steps of a round, each an entry of its own that is waited for.

use sotto_protocol::manifest::{FormerManifest, SignedManifest};
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round, UnixMillis};

use crate::log::{
    LogError, Phase, ProposeError, Record, RoundLog, State, TableSeal, TokenId, entries, spent,
};

/// How far rounds had come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// The highest number that was ever opened.
    pub(crate) newest: Option<Round>,
    /// Lots of slots that were begun.
    pub(crate) lots: u32,
    /// The newest manifest of an earlier version.
    pub(crate) former: Option<(Round, Box<FormerManifest>)>,
    /// The newest manifests, ascending.
    pub(crate) manifests: Vec<(Round, SignedManifest)>,
    /// Rounds that were not retired, ascending.
    pub(crate) rounds: Vec<(Round, Phase)>,
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
pub(crate) trait Verbs: RoundLog {
    async fn write(&self, records: Vec<Record>) -> Result<(), LogError> {
        match self.propose(records).await.await {
            Ok(_) => Ok(()),
            Err(ProposeError::Refused(refused)) => Err(LogError::Refused(refused)),
            Err(ProposeError::Elsewhere) => Err(LogError::Ended("it is written elsewhere".to_owned())),
            Err(ProposeError::Log(error)) => Err(error),
        }
    }

    fn history(&self) -> History {
        History::from(&*self.state())
    }

    fn knows(&self, account: &Account) -> bool {
        self.state().knows(account)
    }

    fn is_spent(&self, token: &TokenId) -> bool {
        self.state().is_spent(token)
    }

    async fn open(&self, round: Round) -> Result<(), LogError> {
        self.write(vec![Record::Open(round)]).await
    }

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

    async fn spend(&self, mut tokens: Vec<TokenId>) -> Result<(), LogError> {
        tokens.retain(|token| !self.state().tokens.contains(token));
        for records in spent(tokens) {
            self.write(records).await?;
        }
        Ok(())
    }

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

    async fn publish(&self, round: Round, manifest: SignedManifest) -> Result<(), LogError> {
        self.write(vec![Record::Publish(round, Box::new(manifest))]).await
    }

    /// As servers of earlier versions did.
    async fn publish_former(&self, round: Round, manifest: FormerManifest) -> Result<(), LogError> {
        self.write(vec![Record::FormerPublish(round, Box::new(manifest))]).await
    }

    async fn retire(&self, round: Round) -> Result<(), LogError> {
        self.write(vec![Record::Retire(round)]).await?;
        self.reclaim().await
    }
}

impl<L: RoundLog> Verbs for L {}
