//! A server's life by chance, and what must be left of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES, SignedManifest};
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Label, Round, SealedBox, UnixMillis};

use crate::testing::{Simulated, Verbs, options};
use crate::{DurableLog, Feed, LogError, Phase, TableSeal, TokenId};

pub(super) async fn start(disk: &Simulated, seed: u64) -> Result<DurableLog, LogError> {
    DurableLog::start(Arc::new(disk.clone()), options(seed), ()).await
}

/// What was asked of a log, and what of it was acknowledged.
#[derive(Default)]
pub(super) struct Life {
    pub(super) rounds: BTreeMap<Round, Past>,
    accounts: BTreeSet<Account>,
    tokens: BTreeSet<TokenId>,
    /// Lots of slots that were begun, and those of the append that was not acknowledged.
    lots: u32,
    unsure_lots: Option<u32>,
    /// Those whose spending was not acknowledged.
    unsure: BTreeSet<TokenId>,
}

#[derive(Default)]
pub(super) struct Past {
    opened: bool,
    acknowledged: Vec<Deposit>,
    /// The append that was not acknowledged, if any: all of it may be there, or nothing.
    unsure: Vec<Deposit>,
    /// Seed, time, and whether it was acknowledged.
    seal: Option<([u8; 32], UnixMillis, bool)>,
    manifest: Option<(SignedManifest, bool)>,
    retired: bool,
}

impl Life {
    /// Lives for so many steps, or until the disk fails.
    pub(super) async fn live(
        &mut self,
        log: &DurableLog,
        rng: &mut StdRng,
        steps: usize,
    ) -> Result<(), LogError> {
        let mut round = Round(rng.random_range(1..100));
        self.open(log, round).await?;
        for _ in 0..steps {
            match rng.random_range(0..9) {
                0 => {
                    let accounts: Vec<Account> = (0..rng.random_range(1..4)).map(|_| rng.random()).collect();
                    log.append(round, Vec::new(), accounts.clone(), None).await?;
                    self.accounts.extend(accounts);
                }
                1 => {
                    let tokens: Vec<TokenId> = (0..rng.random_range(1..4)).map(|_| rng.random()).collect();
                    self.spend(log, tokens).await?;
                }
                2..=6 => {
                    let deposits: Vec<Deposit> = (0..rng.random_range(1..9)).map(|_| deposit(rng)).collect();
                    self.append(log, round, deposits, rng.random()).await?;
                }
                _ => {
                    self.seal(log, round, rng.random(), UnixMillis(rng.random())).await?;
                    round = Round(round.0 + rng.random_range(1..3));
                    self.open(log, round).await?;
                    self.publish(log, rng).await?;
                    self.retire(log).await?;
                }
            }
        }
        Ok(())
    }

    fn past(&mut self, round: Round) -> &mut Past {
        self.rounds.entry(round).or_default()
    }

    async fn open(&mut self, log: &DurableLog, round: Round) -> Result<(), LogError> {
        self.past(round);
        log.open(round).await?;
        self.past(round).opened = true;
        Ok(())
    }

    async fn append(
        &mut self,
        log: &DurableLog,
        round: Round,
        deposits: Vec<Deposit>,
        account: Account,
    ) -> Result<(), LogError> {
        // As the log has them: it does not keep the order in which they came.
        let mut sorted = deposits.clone();
        sorted.sort_by_key(Deposit::encode);
        self.past(round).unsure.clone_from(&sorted);
        // Some accounts begin lots.
        let lots = account[0].is_multiple_of(4).then_some(self.lots + 1 + u32::from(account[1] / 64));
        self.unsure_lots = lots;
        log.append(round, deposits, vec![account], lots).await?;
        self.lots = self.unsure_lots.take().unwrap_or(self.lots);
        let deposits = sorted;
        self.accounts.insert(account);
        let past = self.past(round);
        past.unsure.clear();
        past.acknowledged.extend(deposits);
        Ok(())
    }

    async fn spend(&mut self, log: &DurableLog, tokens: Vec<TokenId>) -> Result<(), LogError> {
        assert!(!tokens.iter().any(|token| log.is_spent(token)));
        self.unsure.extend(&tokens);
        log.spend(tokens.clone()).await?;
        self.unsure.clear();
        // Spending again changes nothing.
        log.spend(tokens.clone()).await?;
        self.tokens.extend(tokens);
        Ok(())
    }

    async fn seal(
        &mut self,
        log: &DurableLog,
        round: Round,
        seed: [u8; 32],
        at: UnixMillis,
    ) -> Result<(), LogError> {
        self.past(round).seal = Some((seed, at, false));
        let sealed = log.seal(round, seed, table(&seed), at).await?;
        self.past(round).seal = Some((seed, at, true));
        assert_eq!(sealed, self.rounds[&round].acknowledged.len() as u64);
        Ok(())
    }

    async fn publish(&mut self, log: &DurableLog, rng: &mut StdRng) -> Result<(), LogError> {
        let waiting = |past: &Past| past.seal.is_some() && past.manifest.is_none();
        let Some(round) = self.rounds.iter().find(|(_, past)| waiting(past)).map(|(round, _)| *round) else {
            return Ok(());
        };
        let mut manifest =
            SignedManifest { bytes: [0; MANIFEST_BYTES], signature: [0; SIGNATURE_BYTES], segment: None };
        rng.fill_bytes(&mut manifest.bytes);
        self.past(round).manifest = Some((manifest.clone(), false));
        log.publish(round, manifest.clone()).await?;
        self.past(round).manifest = Some((manifest, true));
        Ok(())
    }

    async fn retire(&mut self, log: &DurableLog) -> Result<(), LogError> {
        let kept = |past: &Past| past.manifest.is_some() && !past.retired;
        let kept: Vec<Round> =
            self.rounds.iter().filter(|(_, past)| kept(past)).map(|(round, _)| *round).collect();
        if kept.len() > 2 {
            self.past(kept[0]).retired = true;
            log.retire(kept[0]).await?;
            log.settle().await;
        }
        Ok(())
    }

    /// Compares a log that was opened again with what had been acknowledged.
    pub(super) async fn check(&self, log: &DurableLog) {
        let history = log.history();
        let opened = self.rounds.iter().filter(|(_, past)| past.opened).map(|(round, _)| *round).max();
        assert!(history.newest >= opened, "a number could be used again");
        if let Some(newest) = history.newest {
            assert!(self.rounds.contains_key(&newest), "a number that was never used");
        }
        assert!(self.accounts.iter().all(|account| log.knows(account)), "an account is lost");
        assert!(self.tokens.iter().all(|token| log.is_spent(token)), "a token could be spent again");
        let unsure = self.unsure.iter().filter(|token| log.is_spent(token)).count();
        assert!(unsure == 0 || unsure == self.unsure.len(), "tokens of one append come together");
        assert_eq!(
            log.state().tokens.len(),
            self.tokens.len() + unsure,
            "a token was spent that nobody spent"
        );
        let lots = history.lots;
        assert!(lots == self.lots || Some(lots) == self.unsure_lots, "{lots} lots of {}", self.lots);
        let phases: BTreeMap<Round, Phase> = history.rounds.into_iter().collect();
        let manifests: BTreeMap<Round, SignedManifest> = history.manifests.into_iter().collect();
        for (round, past) in &self.rounds {
            match (&past.manifest, manifests.get(round)) {
                (Some((expected, _)), Some(found)) => assert!(expected == found, "another manifest"),
                (Some((_, acknowledged)), None) => assert!(!acknowledged, "a manifest is lost"),
                (None, found) => assert!(found.is_none(), "a manifest from nowhere"),
            }
            match phases.get(round) {
                None => assert!(past.retired || !past.opened, "a round is lost"),
                Some(phase) => past.check(log, *round, *phase).await,
            }
        }
    }
}

impl Past {
    async fn check(&self, log: &DurableLog, round: Round, phase: Phase) {
        let (mut seed, mut at) = ([7; 32], UnixMillis(7));
        match self.seal {
            Some((expected, time, acknowledged)) if acknowledged || phase != Phase::Open => {
                (seed, at) = (expected, time);
                assert_ne!(phase, Phase::Open, "a seal is lost");
            }
            _ => {
                assert_eq!(phase, Phase::Open, "a seal from nowhere");
                log.seal(round, seed, table(&seed), at).await.unwrap();
            }
        }
        let sealed = log.sealed(round).await.unwrap();
        assert_eq!((sealed.seed, sealed.at, sealed.table), (seed, at, table(&seed)));
        let (acknowledged, more) =
            sealed.deposits.split_at_checked(self.acknowledged.len()).expect("deposits lost");
        assert!(acknowledged == self.acknowledged, "deposits changed");
        assert!(more.is_empty() || more == self.unsure, "deposits from nowhere");
    }
}

/// Of every other round, as if the server had changed.
fn table(seed: &[u8; 32]) -> Option<TableSeal> {
    seed[0].is_multiple_of(2).then_some(TableSeal { lots: seed[1].into(), cover: *seed })
}

fn deposit(rng: &mut StdRng) -> Deposit {
    let mut sealed = [0; BOX_BYTES];
    rng.fill_bytes(&mut sealed);
    Deposit { label: Label(rng.random()), sealed: SealedBox(sealed) }
}

pub(crate) fn rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}
