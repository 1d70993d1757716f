//! What follows from the committed entries: the state that every node of a group computes alike.

pub(super) mod format;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use openraft::EntryPayload;
use sotto_protocol::manifest::{FormerManifest, SignedManifest};
use sotto_protocol::server::Account;
use sotto_protocol::{Round, ServerParameters, SignedDirectory, Succession, UnixMillis};
use sotto_wire::{Announced, RootKey};

use super::entry::{Entry, LogId, StoredMembership};
use super::record::{Record, TableSeal, TokenId};
use super::{LogError, Phase, SealedRound};
use crate::tenure::Tenure;

/// Manifests kept for clients that close a gap.
const MANIFESTS_KEPT: usize = sotto_wire::limits::MANIFESTS_MAX;
/// Accounts that are known at most, so that nobody fills memory and disk by registering.
pub const ACCOUNTS_MAX: u32 = 1 << 20;
/// More than can be stored: entries that are applied again put accounts in before others are taken out.
const ACCOUNTS_STORED: usize = 1 << 22;
/// More than any table has.
const SLOTS_MAX: u32 = 1 << 24;
/// Spent tokens that are known at most.
const TOKENS_MAX: usize = 1 << 20;
/// Places of these that are left to tokens that are being spent when no more are taken.
const TOKENS_UNDER_WAY: usize = 1 << 12;

/// What became of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Why it changed nothing.
    pub refused: Option<&'static str>,
}

/// The state after all entries up to `applied`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub(super) applied: Option<LogId>,
    pub(super) membership: StoredMembership,
    newest: Option<Round>,
    pub(super) accounts: BTreeSet<Account>,
    pub(super) tokens: BTreeSet<TokenId>,
    /// Lots of slots that were begun.
    lots: u32,
    /// Slots that were given back, each with the number of the tenure that it is in now, or will be.
    pub(super) tenures: BTreeMap<u32, StoredTenure>,
    /// What is announced since the manifest key was changed here.
    announced: Option<Box<Announced>>,
    /// The newest manifest of an earlier version, from which the chain goes on.
    former: Option<Former>,
    manifests: VecDeque<(Round, SignedManifest)>,
    pub(super) rounds: BTreeMap<Round, StoredRound>,
    /// The newest that people are told.
    directory: Option<Box<SignedDirectory>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredTenure {
    number: u32,
    /// It has not begun.
    vacant: bool,
}

/// A manifest of an earlier version, and its round.
type Former = (Round, Box<FormerManifest>);

/// A round that is not retired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredRound {
    /// Seed and time, once it is sealed.
    pub(super) sealed: Option<([u8; 32], UnixMillis)>,
    pub(super) published: bool,
    pub(super) deposits: u64,
    /// Entries with its deposits: indices of the first and the last of each stretch. The deposits stay where the log
    /// has them.
    pub(super) spans: Vec<(u64, u64)>,
    /// Of a sealed round of a server with slots.
    pub(super) table: Option<TableSeal>,
    /// Entries with its deposits are not here: it was retired when the state that says so was written down.
    pub(super) gone: bool,
}

/// Entries with a round's deposits: indices of the first and the last of each stretch; and how many deposits there are.
pub(super) struct Entries {
    pub(super) spans: Vec<(u64, u64)>,
    pub(super) count: u64,
}

fn unsigned(root: Option<&RootKey>, record: &Record) -> Option<&'static str> {
    let (Some(root), Record::Announced(announced)) = (root, record) else { return None };
    announced.parameters(root).is_err().then_some("an announcement that the root key has not signed")
}

impl State {
    /// Applies the next entry, whoever has signed what it announces.
    pub(super) fn apply(&mut self, entry: &Entry) -> Applied {
        self.apply_under(None, entry)
    }

    /// Applies the next entry, which announces nothing but what this root key has signed. Whoever leads puts into the log what it
    /// likes: what nobody could go by must not stand in the way of what comes later.
    pub(super) fn apply_under(&mut self, root: Option<&RootKey>, entry: &Entry) -> Applied {
        self.applied = Some(entry.log_id);
        match &entry.payload {
            EntryPayload::Blank => Applied::default(),
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
                Applied::default()
            }
            EntryPayload::Normal(batch) => {
                let refuses = |record: &Record| self.refuses(record).or_else(|| unsigned(root, record));
                if let Some(refused) = batch.0.iter().find_map(refuses) {
                    return Applied { refused: Some(refused) };
                }
                for record in &batch.0 {
                    self.change(entry.log_id.index, record);
                }
                Applied::default()
            }
        }
    }

    fn refuses(&self, record: &Record) -> Option<&'static str> {
        let round = |round: &Round| self.rounds.get(round);
        match record {
            Record::Open(Round(u64::MAX)) => Some("no number would be left for the next round"),
            Record::Open(number) => {
                (self.newest >= Some(*number)).then_some("a number of a round was to be used twice")
            }
            Record::Deposits(number, _) => round(number)
                .is_none_or(|round| round.sealed.is_some())
                .then_some("a deposit for no open round"),
            Record::Accounts(_) | Record::Closed(_) | Record::Retire(_) => None,
            Record::Vacant(slots) | Record::Begun(slots) => {
                let is_none = |tenure: &Tenure| tenure.slot >= SLOTS_MAX || tenure.number == 0;
                let ascend = slots.is_sorted_by(|before, after| before.slot < after.slot);
                (!ascend || slots.iter().any(is_none)).then_some(
                    "slots that no table has, that nobody has given back, or that are not ascending",
                )
            }
            // One that was left out could be spent again.
            Record::Spent(tokens) => {
                let new = tokens.iter().filter(|token| !self.tokens.contains(*token)).count();
                (self.tokens.len() + new > TOKENS_MAX).then_some("there is no room for spent tokens")
            }
            Record::Announced(announced) => self.refuses_announced(announced),
            Record::Lots(lots) => (*lots < self.lots).then_some("lots of slots were to be taken back"),
            Record::Table(number, _) => round(number)
                .is_none_or(|round| round.sealed.is_some())
                .then_some("no open round for a table"),
            Record::Seal(number, ..) => {
                round(number).is_none_or(|round| round.sealed.is_some()).then_some("no open round to seal")
            }
            Record::Publish(number, _) => {
                (!self.may_publish(*number)).then_some("no sealed round to publish")
            }
            Record::Directory(directory) => {
                // Nobody who leads for a while can use the numbers up.
                let newest = self.directory.as_ref().map_or(0, |newest| newest.claimed_number());
                (newest.checked_add(1) != Some(directory.claimed_number()))
                    .then_some("a directory is not the next one")
            }
            Record::FormerPublish(number, _) => (!self.may_publish(*number) || !self.manifests.is_empty())
                .then_some("no sealed round to publish under an earlier manifest"),
        }
    }

    /// Every node says the same, whatever it announces itself.
    fn refuses_announced(&self, announced: &Announced) -> Option<&'static str> {
        let Ok(parameters) = ServerParameters::decode(&announced.announcement) else {
            return Some("no announcement");
        };
        let epoch = &parameters.key_epoch;
        if epoch.check(&parameters.manifest_key).is_err() || epoch.former_key().is_none() {
            return Some("an announcement of no other manifest key");
        }
        if Some(epoch.first) <= self.newest {
            return Some("a manifest key for a round that was opened before");
        }
        let known = self.announced.as_ref()?;
        let Ok(known) = ServerParameters::decode(&known.announcement) else { return None };
        if parameters.key_epoch.number <= known.key_epoch.number
            || parameters.succeeds(&known) != Ok(Succession::Later)
        {
            return Some("an announcement that is no later one");
        }
        let first = known.key_epoch.first;
        if self.newest < Some(first) {
            return Some("the manifest key before has signed nothing yet");
        }
        // An announcement names two keys. What is kept must be of these, or nothing would verify it any more.
        let newest = self.manifests.back().map(|(round, _)| *round);
        let is_of_former =
            self.rounds.keys().next().is_some_and(|oldest| *oldest < first) || newest < Some(first);
        is_of_former.then_some("rounds of the manifest key before the last one are not over yet")
    }

    fn may_publish(&self, number: Round) -> bool {
        let round = self.rounds.get(&number);
        let newest = self.manifests.back().map(|(round, _)| *round);
        round.is_some_and(|round| round.sealed.is_some() && !round.published)
            && newest.max(self.former.as_ref().map(|(round, _)| *round)) < Some(number)
    }

    fn change(&mut self, index: u64, record: &Record) {
        match record {
            Record::Open(round) => {
                self.newest = Some(*round);
                self.rounds.insert(*round, StoredRound::default());
            }
            Record::Deposits(round, deposits) => {
                let Some(round) = self.rounds.get_mut(round) else { return };
                round.deposits += super::record::split(deposits).count() as u64;
                match round.spans.last_mut() {
                    Some((_, last)) if *last + 1 >= index => *last = index,
                    _ => round.spans.push((index, index)),
                }
            }
            Record::Accounts(accounts) => {
                // Whoever leads sees to it that there are not too many. Of entries that are applied again none may be left out.
                self.accounts.extend(accounts);
            }
            Record::Seal(round, seed, at) => {
                let Some(round) = self.rounds.get_mut(round) else { return };
                round.sealed = Some((*seed, *at));
            }
            Record::Closed(accounts) => {
                for account in accounts {
                    self.accounts.remove(account);
                }
            }
            Record::Vacant(slots) => self.tenures_change(slots, true),
            Record::Begun(slots) => self.tenures_change(slots, false),
            Record::Lots(lots) => self.lots = *lots,
            Record::Announced(announced) => self.announced = Some(announced.clone()),
            Record::Table(round, table) => {
                let Some(round) = self.rounds.get_mut(round) else { return };
                round.table = Some(*table);
            }
            Record::FormerPublish(number, manifest) => {
                let Some(round) = self.rounds.get_mut(number) else { return };
                round.published = true;
                self.former = Some((*number, manifest.clone()));
            }
            Record::Publish(number, manifest) => {
                let Some(round) = self.rounds.get_mut(number) else { return };
                round.published = true;
                if self.manifests.len() >= MANIFESTS_KEPT {
                    self.manifests.pop_front();
                }
                self.manifests.push_back((*number, (**manifest).clone()));
            }
            Record::Retire(round) => {
                self.rounds.remove(round);
            }
            Record::Spent(tokens) => self.tokens.extend(tokens),
            Record::Directory(directory) => self.directory = Some(directory.clone()),
        }
    }

    /// A tenure goes one way, and is vacant before it has begun: entries that are applied again change nothing.
    fn tenures_change(&mut self, slots: &[Tenure], vacant: bool) {
        for Tenure { slot, number } in slots {
            let stored = self.tenures.entry(*slot).or_insert(StoredTenure { number: 0, vacant: false });
            if stored.number < *number {
                *stored = StoredTenure { number: *number, vacant };
            } else if stored.number == *number && !vacant {
                stored.vacant = false;
            }
        }
    }

    /// The tenure of a slot that its holder shows, if somebody has it.
    pub fn is_had(&self, tenure: Tenure) -> bool {
        match self.tenures.get(&tenure.slot) {
            None => tenure.number == 0,
            Some(stored) => stored.number == tenure.number && !stored.vacant,
        }
    }

    /// Whether a tenure has not begun, as far as is known here.
    pub fn is_to_come(&self, tenure: Tenure) -> bool {
        let stored = self.tenures.get(&tenure.slot);
        stored.map_or(0, |stored| stored.number) < tenure.number
            || stored == Some(&StoredTenure { number: tenure.number, vacant: true })
    }

    /// Tenures that nobody has yet, of slots that were given back, ascending.
    pub fn vacant(&self) -> impl Iterator<Item = Tenure> + '_ {
        let vacant = self.tenures.iter().filter(|(_, stored)| stored.vacant);
        vacant.map(|(slot, stored)| Tenure { slot: *slot, number: stored.number })
    }

    /// Whether an account is known, or there is room for it beside others that will be.
    pub fn admits_beside(&self, account: &Account, waiting: &BTreeSet<Account>) -> bool {
        if self.accounts.len() + waiting.len() < ACCOUNTS_MAX as usize || self.accounts.contains(account) {
            return true;
        }
        let new = waiting.iter().filter(|waiting| !self.accounts.contains(*waiting)).count();
        waiting.contains(account) || self.accounts.len() + new < ACCOUNTS_MAX as usize
    }

    /// Whether a token is spent, or there is no room to know that it is.
    pub fn is_spent(&self, token: &TokenId) -> bool {
        self.tokens.len() + TOKENS_UNDER_WAY > TOKENS_MAX || self.tokens.contains(token)
    }

    /// The first entry that is needed beside this state: the first with deposits of a round that is not retired.
    pub(super) fn floor(&self) -> u64 {
        let here = self.rounds.values().filter(|round| !round.gone);
        let spans = here.filter_map(|round| round.spans.first());
        spans.map(|(first, _)| *first).min().unwrap_or_else(|| self.next_index())
    }

    /// This state but for what may come from a later state as well: entries that are applied again change nothing there, or, of
    /// accounts that come and go, lead to the same in the end.
    pub(super) fn without_what_grows(&self) -> Self {
        let Self { applied, newest, lots, .. } = *self;
        Self {
            applied,
            membership: self.membership.clone(),
            newest,
            accounts: BTreeSet::new(),
            tokens: BTreeSet::new(),
            lots,
            tenures: BTreeMap::new(),
            announced: self.announced.clone(),
            former: self.former.clone(),
            manifests: self.manifests.clone(),
            rounds: self.rounds.clone(),
            directory: self.directory.clone(),
        }
    }

    /// The state that [`State::without_what_grows`] left of an earlier one, with what has grown until this one, in which all
    /// its rounds are retired: who begins with it needs no entry before the next.
    pub(super) fn as_it_was(&self, earlier: &Self) -> Self {
        let gone = StoredRound { gone: true, ..StoredRound::default() };
        let rounds = earlier.rounds.iter().map(|(number, round)| {
            // Nobody needs to know how its table was filled.
            let StoredRound { sealed, published, .. } = *round;
            (*number, StoredRound { sealed, published, ..gone.clone() })
        });
        Self {
            accounts: self.accounts.clone(),
            tokens: self.tokens.clone(),
            tenures: self.tenures.clone(),
            rounds: rounds.collect(),
            ..earlier.clone()
        }
    }

    /// Whether it follows from entries that a log does not have that ends with this one. What the last one's term is says
    /// nothing about that.
    pub(super) fn is_beyond(&self, last: Option<LogId>) -> bool {
        last.map(|last| last.index) < self.applied.map(|applied| applied.index)
    }

    /// Index of the entry to be applied next.
    pub fn next_index(&self) -> u64 {
        self.applied.map_or(0, |applied| applied.index + 1)
    }

    /// The highest number that was ever opened.
    pub fn newest(&self) -> Option<Round> {
        self.newest
    }

    /// Lots of slots that were begun.
    pub fn lots(&self) -> u32 {
        self.lots
    }

    /// What is announced, if that was changed here.
    pub fn announced(&self) -> Option<&Announced> {
        self.announced.as_deref()
    }

    /// Whether an account is known.
    pub fn knows(&self, account: &Account) -> bool {
        self.accounts.contains(account)
    }

    /// The newest manifest of an earlier version: rounds up to this one are not served again.
    pub fn former(&self) -> Option<&(Round, Box<FormerManifest>)> {
        self.former.as_ref()
    }

    /// The newest manifests, ascending.
    pub fn manifests(&self) -> &VecDeque<(Round, SignedManifest)> {
        &self.manifests
    }

    /// Where people find the nodes, as they are told.
    pub fn directory(&self) -> Option<&SignedDirectory> {
        self.directory.as_deref()
    }

    /// Under what a round was published.
    pub fn manifest(&self, round: Round) -> Option<&SignedManifest> {
        let at = self.manifests.binary_search_by_key(&round, |(number, _)| *number).ok()?;
        self.manifests.get(at).map(|(_, manifest)| manifest)
    }

    /// Rounds that were not retired, as far as they are here, ascending.
    pub fn rounds(&self) -> impl Iterator<Item = (Round, Phase)> + '_ {
        self.rounds.iter().filter(|(_, round)| !round.gone).map(|(number, round)| (*number, round.phase()))
    }

    /// Deposits of a round, counted.
    pub fn deposits(&self, round: Round) -> u64 {
        self.rounds.get(&round).map_or(0, |round| round.deposits)
    }

    /// What sealing a round fixed, and where its deposits are.
    pub(super) fn sealed(&self, number: Round) -> Result<(SealedRound, Entries), LogError> {
        let round = self.rounds.get(&number).filter(|round| !round.gone);
        let round = round.ok_or(LogError::Refused("no such round"))?;
        let (seed, at) = round.sealed.ok_or(LogError::Refused("the round is not sealed"))?;
        let sealed = SealedRound { round: number, seed, at, deposits: Vec::new(), table: round.table };
        Ok((sealed, Entries { spans: round.spans.clone(), count: round.deposits }))
    }
}

impl StoredRound {
    fn phase(&self) -> Phase {
        match (&self.sealed, self.published) {
            (None, _) => Phase::Open,
            (Some(_), false) => Phase::Sealed,
            (Some(_), true) => Phase::Published,
        }
    }
}
