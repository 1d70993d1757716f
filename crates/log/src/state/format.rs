//! The state as it is stored, and as earlier versions stored it.

use std::collections::{BTreeMap, VecDeque};

use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::manifest::{FormerManifest, SIGNATURE_BYTES, SignedManifest};
use sotto_protocol::{Round, ServerParameters, UnixMillis};
use sotto_wire::Announced;

use super::{
    ACCOUNTS_STORED, Former, MANIFESTS_KEPT, SLOTS_MAX, State, StoredRound, StoredTenure, TOKENS_MAX,
};
use crate::codec::{Malformed, NONE_IS_ZERO, Reader, ascends, put_count, take_ascending};
use crate::entry::{
    StoredMembership, put_membership, put_optional_log_id, take_membership, take_optional_log_id,
};
use crate::frame::PAYLOAD_MAX;
use crate::record::{
    MANIFEST_RECORD_BYTES, TableSeal, put_announced, put_directory, put_former, put_manifest, take_announced,
    take_directory, take_former, take_manifest,
};

/// The versions of the state's encoding, which have manifests of the protocol's version of then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
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

impl State {
    /// ```text
    /// applied (25) | membership's entry (25) | membership | newest: flag, u8, and u64 | accounts | spent tokens | lots, u32 | tenures, each: slot, u32 | number, u32 | vacant, u8 | announced: flag, u8, and, if it is 1, announcement and signature (269) |
    /// version of the newest manifest of an earlier version, u8, or 0, and, if there is one, its round and it | manifests, each with its round | rounds, each: number, u64 | sealed, u8 | seed (32) | time, u64 | published, u8 | gone, u8 | deposits, u64 | table: flag, u8, lots, u32, and cover (32) | spans |
    /// directory: flag, u8, and, if there is one, it and its signature (64)
    /// ```
    /// Lists begin with their length, u32, and are ascending.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
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

    pub(crate) fn decode(reader: &mut Reader<'_>, encoding: Encoding) -> Result<Self, Malformed> {
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
