//! What follows from the committed entries: the state that every node of a group computes alike.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use openraft::EntryPayload;
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::manifest::{FormerManifest, SIGNATURE_BYTES, SignedManifest};
use sotto_protocol::server::Account;
use sotto_protocol::{Round, ServerParameters, SignedDirectory, Succession, UnixMillis};
use sotto_wire::{Announced, RootKey};

use super::codec::{Malformed, NONE_IS_ZERO, Reader, ascends, put_count, take_ascending};
use super::entry::{
    Entry, LogId, StoredMembership, put_membership, put_optional_log_id, take_membership,
    take_optional_log_id,
};
use super::frame::PAYLOAD_MAX;
use super::record::{
    MANIFEST_RECORD_BYTES, Record, TableSeal, TokenId, put_announced, put_directory, put_former,
    put_manifest, take_announced, take_directory, take_former, take_manifest,
};
use super::{LogError, Phase, SealedRound};
use crate::slots::Tenure;

/// Manifests kept for clients that close a gap.
const MANIFESTS_KEPT: usize = sotto_wire::limits::MANIFESTS_MAX;
/// Accounts that are known at most, so that nobody fills memory and disk by registering.
pub(crate) const ACCOUNTS_MAX: u32 = 1 << 20;
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
pub(crate) struct Applied {
    /// Why it changed nothing.
    pub(crate) refused: Option<&'static str>,
}

/// The state after all entries up to `applied`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
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

/// The versions of the state's encoding, which have manifests of the protocol's version of then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As servers of version 1 of the protocol wrote it.
    Version1,
    /// As those of version 2 did, who knew that there had been a version before.
    Version2,
    /// As those did that had no slots.
    Version3,
    /// As those did that were alone, each with all its rounds.
    Version4,
    /// As those did that knew one manifest key, and told nobody of other nodes.
    Version5,
    /// As those did in which accounts were for ever.
    Version6,
    /// As it is written.
    Current,
}

impl Encoding {
    const fn has_slots(self) -> bool {
        matches!(self, Self::Version4 | Self::Version5 | Self::Version6 | Self::Current)
    }

    /// Whether rounds may be written down whose entries are not here.
    const fn has_gone(self) -> bool {
        matches!(self, Self::Version5 | Self::Version6 | Self::Current)
    }

    /// Whether manifest keys change, and people are told of other nodes.
    const fn has_directory(self) -> bool {
        matches!(self, Self::Version6 | Self::Current)
    }

    const fn has_tenures(self) -> bool {
        matches!(self, Self::Current)
    }
}

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
    pub(crate) fn is_had(&self, tenure: Tenure) -> bool {
        match self.tenures.get(&tenure.slot) {
            None => tenure.number == 0,
            Some(stored) => stored.number == tenure.number && !stored.vacant,
        }
    }

    /// Whether a tenure has not begun, as far as is known here.
    pub(crate) fn is_to_come(&self, tenure: Tenure) -> bool {
        let stored = self.tenures.get(&tenure.slot);
        stored.map_or(0, |stored| stored.number) < tenure.number
            || stored == Some(&StoredTenure { number: tenure.number, vacant: true })
    }

    /// Tenures that nobody has yet, of slots that were given back, ascending.
    pub(crate) fn vacant(&self) -> impl Iterator<Item = Tenure> + '_ {
        let vacant = self.tenures.iter().filter(|(_, stored)| stored.vacant);
        vacant.map(|(slot, stored)| Tenure { slot: *slot, number: stored.number })
    }

    /// Whether an account is known, or there is room for it beside others that will be.
    pub(crate) fn admits_beside(&self, account: &Account, waiting: &BTreeSet<Account>) -> bool {
        if self.accounts.len() + waiting.len() < ACCOUNTS_MAX as usize || self.accounts.contains(account) {
            return true;
        }
        let new = waiting.iter().filter(|waiting| !self.accounts.contains(*waiting)).count();
        waiting.contains(account) || self.accounts.len() + new < ACCOUNTS_MAX as usize
    }

    /// Whether a token is spent, or there is no room to know that it is.
    pub(crate) fn is_spent(&self, token: &TokenId) -> bool {
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
    pub(crate) fn next_index(&self) -> u64 {
        self.applied.map_or(0, |applied| applied.index + 1)
    }

    /// The highest number that was ever opened.
    pub(crate) fn newest(&self) -> Option<Round> {
        self.newest
    }

    /// Lots of slots that were begun.
    pub(crate) fn lots(&self) -> u32 {
        self.lots
    }

    /// What is announced, if that was changed here.
    pub(crate) fn announced(&self) -> Option<&Announced> {
        self.announced.as_deref()
    }

    /// Whether an account is known.
    pub(crate) fn knows(&self, account: &Account) -> bool {
        self.accounts.contains(account)
    }

    /// The newest manifest of an earlier version: rounds up to this one are not served again.
    pub(crate) fn former(&self) -> Option<&(Round, Box<FormerManifest>)> {
        self.former.as_ref()
    }

    /// The newest manifests, ascending.
    pub(crate) fn manifests(&self) -> &VecDeque<(Round, SignedManifest)> {
        &self.manifests
    }

    /// Where people find the nodes, as they are told.
    pub(crate) fn directory(&self) -> Option<&SignedDirectory> {
        self.directory.as_deref()
    }

    /// Under what a round was published.
    pub(crate) fn manifest(&self, round: Round) -> Option<&SignedManifest> {
        let at = self.manifests.binary_search_by_key(&round, |(number, _)| *number).ok()?;
        self.manifests.get(at).map(|(_, manifest)| manifest)
    }

    /// Rounds that were not retired, as far as they are here, ascending.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = (Round, Phase)> + '_ {
        self.rounds.iter().filter(|(_, round)| !round.gone).map(|(number, round)| (*number, round.phase()))
    }

    /// Deposits of a round, counted.
    pub(crate) fn deposits(&self, round: Round) -> u64 {
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

    /// ```text
    /// applied (25) | membership's entry (25) | membership | newest: flag, u8, and u64 | accounts | spent tokens | lots, u32 | tenures, each: slot, u32 | number, u32 | vacant, u8 | announced: flag, u8, and, if it is 1, announcement and signature (269) |
    /// version of the newest manifest of an earlier version, u8, or 0, and, if there is one, its round and it | manifests, each with its round | rounds, each: number, u64 | sealed, u8 | seed (32) | time, u64 | published, u8 | gone, u8 | deposits, u64 | table: flag, u8, lots, u32, and cover (32) | spans |
    /// directory: flag, u8, and, if there is one, it and its signature (64)
    /// ```
    /// Lists begin with their length, u32, and are ascending.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self {
            applied,
            membership,
            newest,
            accounts,
            tokens,
            lots,
            tenures,
            announced,
            former,
            manifests,
            rounds,
            directory,
        } = self;
        put_optional_log_id(out, applied.as_ref());
        put_optional_log_id(out, membership.log_id().as_ref());
        put_membership(out, membership.membership());
        out.push(newest.is_some().into());
        out.extend_from_slice(&newest.unwrap_or_default().0.to_le_bytes());
        put_count(out, accounts.len());
        accounts.iter().for_each(|account| out.extend_from_slice(account));
        put_count(out, tokens.len());
        tokens.iter().for_each(|token| out.extend_from_slice(token));
        out.extend_from_slice(&lots.to_le_bytes());
        put_count(out, tenures.len());
        for (slot, StoredTenure { number, vacant }) in tenures {
            out.extend_from_slice(&slot.to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
            out.push((*vacant).into());
        }
        out.push(announced.is_some().into());
        if let Some(announced) = announced {
            put_announced(out, announced);
        }
        let version = former.as_ref().map_or(0, |(_, manifest)| manifest.version());
        // There are few.
        out.push(u8::try_from(version).unwrap_or(u8::MAX));
        if let Some((round, manifest)) = former {
            out.extend_from_slice(&round.0.to_le_bytes());
            put_former(out, manifest);
        }
        put_count(out, manifests.len());
        for (round, manifest) in manifests {
            out.extend_from_slice(&round.0.to_le_bytes());
            put_manifest(out, manifest);
        }
        put_count(out, rounds.len());
        for (number, round) in rounds {
            let StoredRound { sealed, published, deposits, spans, table, gone } = round;
            out.extend_from_slice(&number.0.to_le_bytes());
            out.push(sealed.is_some().into());
            let (seed, at) = sealed.unwrap_or_default();
            out.extend_from_slice(&seed);
            out.extend_from_slice(&at.0.to_le_bytes());
            out.push((*published).into());
            out.push((*gone).into());
            out.extend_from_slice(&deposits.to_le_bytes());
            out.push(table.is_some().into());
            table.unwrap_or_default().encode(out);
            put_count(out, spans.len());
            for (first, last) in spans {
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&last.to_le_bytes());
            }
        }
        out.push(directory.is_some().into());
        if let Some(directory) = directory {
            put_directory(out, directory);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>, encoding: Encoding) -> Result<Self, Malformed> {
        let applied = take_optional_log_id(reader)?;
        let membership = StoredMembership::new(take_optional_log_id(reader)?, take_membership(reader)?);
        let some = reader.flag()?;
        let newest = Round(reader.u64()?);
        if !some && newest != Round::default() {
            return Err(NONE_IS_ZERO);
        }
        let accounts = take_ascending(reader)?.into_iter().collect();
        let tokens = take_ascending(reader)?.into_iter().collect();
        let lots = if encoding.has_slots() { reader.u32()? } else { 0 };
        let mut tenures = BTreeMap::new();
        let stored = if encoding.has_tenures() { reader.count(9)? } else { 0 };
        for _ in 0..stored {
            let slot = reader.u32()?;
            ascends(tenures.last_key_value().map(|(last, _)| last), &slot)?;
            tenures.insert(slot, StoredTenure { number: reader.u32()?, vacant: reader.flag()? });
        }
        let changed = encoding.has_directory() && reader.flag()?;
        let announced = if changed { Some(Box::new(take_announced(reader)?)) } else { None };
        let mut former: Option<Former> = None;
        let mut manifests: VecDeque<(Round, SignedManifest)> = VecDeque::new();
        match encoding {
            Encoding::Version1 => former = take_formers(reader, 1, None)?,
            Encoding::Version2 => {
                let first = if reader.flag()? { Some(take_one_former(reader, 1)?) } else { None };
                former = take_formers(reader, 2, first)?;
            }
            Encoding::Version3
            | Encoding::Version4
            | Encoding::Version5
            | Encoding::Version6
            | Encoding::Current => {
                let version = reader.u8()?;
                if version > 0 {
                    former = Some(take_one_former(reader, version.into())?);
                }
                for _ in 0..reader.count(8 + MANIFEST_RECORD_BYTES)? {
                    let round = Round(reader.u64()?);
                    let before = manifests.back().map(|(last, _)| last);
                    ascends(before.or(former.as_ref().map(|(last, _)| last)), &round)?;
                    manifests.push_back((round, take_manifest(reader)?));
                }
            }
        }
        let mut rounds: BTreeMap<Round, StoredRound> = BTreeMap::new();
        for _ in 0..reader.count(62)? {
            let round = Round(reader.u64()?);
            ascends(rounds.last_key_value().map(|(last, _)| last), &round)?;
            rounds.insert(round, StoredRound::decode(reader, encoding)?);
        }
        let directory = match encoding.has_directory() && reader.flag()? {
            true => Some(Box::new(take_directory(reader)?)),
            false => None,
        };
        let newest = some.then_some(newest);
        let state = Self {
            applied,
            membership,
            newest,
            accounts,
            tokens,
            lots,
            tenures,
            announced,
            former,
            manifests,
            rounds,
            directory,
        };
        state.check()?;
        Ok(state)
    }

    /// Whether entries can have led to this state.
    fn check(&self) -> Result<(), Malformed> {
        if self.accounts.len() > ACCOUNTS_STORED
            || self.tokens.len() > TOKENS_MAX
            || self.manifests.len() > MANIFESTS_KEPT
        {
            return Err(Malformed("it holds more than it can"));
        }
        let is_none = |(slot, stored): (&u32, &StoredTenure)| *slot >= SLOTS_MAX || stored.number == 0;
        if self.tenures.iter().any(is_none) {
            return Err(Malformed("it holds a slot that nobody has given back"));
        }
        let unread = |announced: &Announced| ServerParameters::decode(&announced.announcement).is_err();
        if self.announced.as_deref().is_some_and(unread) {
            return Err(Malformed("it holds no announcement"));
        }
        let newest = self.rounds.keys().last().copied().max(self.manifests.back().map(|(round, _)| *round));
        let newest = newest.max(self.former.as_ref().map(|(round, _)| *round));
        if newest > self.newest || self.newest >= Some(Round(u64::MAX)) {
            return Err(Malformed("a round is newer than the newest"));
        }
        self.rounds.values().try_for_each(|round| round.check(self.next_index()))
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

    /// Whether entries below `end` can have led to this round.
    fn check(&self, end: u64) -> Result<(), Malformed> {
        let (mut least, mut entries) = (0, 0);
        for (first, last) in &self.spans {
            if *first < least || last < first || *last >= end {
                return Err(Malformed("a round's entries are not where entries can be"));
            }
            entries += last - first + 1;
            least = last + 1;
        }
        // Indices are below 2^48, and an entry is shorter than 2^22 bytes.
        let most = entries * (PAYLOAD_MAX / DEPOSIT_BYTES) as u64;
        if self.deposits <= most {
            Ok(())
        } else {
            Err(Malformed("a round has more deposits than its entries"))
        }
    }

    fn decode(reader: &mut Reader<'_>, encoding: Encoding) -> Result<Self, Malformed> {
        let some = reader.flag()?;
        let sealed = (reader.array()?, UnixMillis(reader.u64()?));
        if !some && sealed != Default::default() {
            return Err(NONE_IS_ZERO);
        }
        let published = reader.flag()?;
        let gone = if encoding.has_gone() { reader.flag()? } else { false };
        let deposits = reader.u64()?;
        let table = if encoding.has_slots() { take_table(reader)? } else { None };
        let spans = reader.count(16)?;
        let spans = (0..spans).map(|_| Ok((reader.u64()?, reader.u64()?))).collect::<Result<_, _>>()?;
        Ok(Self { sealed: some.then_some(sealed), published, deposits, spans, table, gone })
    }
}

fn take_table(reader: &mut Reader<'_>) -> Result<Option<TableSeal>, Malformed> {
    let some = reader.flag()?;
    let table = TableSeal::decode(reader)?;
    if some || table == TableSeal::default() { Ok(some.then_some(table)) } else { Err(NONE_IS_ZERO) }
}

fn take_one_former(reader: &mut Reader<'_>, version: u16) -> Result<Former, Malformed> {
    Ok((Round(reader.u64()?), Box::new(take_former(reader, version)?)))
}

/// The last of a list of manifests of an earlier version, or else what was before.
fn take_formers(
    reader: &mut Reader<'_>,
    version: u16,
    mut last: Option<Former>,
) -> Result<Option<Former>, Malformed> {
    let each = FormerManifest::bytes_of(version).unwrap_or_default() + SIGNATURE_BYTES;
    for _ in 0..reader.count(8 + each)? {
        let next = take_one_former(reader, version)?;
        ascends(last.as_ref().map(|(last, _)| last), &next.0)?;
        last = Some(next);
    }
    Ok(last)
}
