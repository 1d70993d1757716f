//! How a group changes its keys: together or not at all.
//!
//! New keys come from the *keeper*, the present member of the lowest number, through conversations of two. Who was given
//! them shows their mark under the present keys, and changes over when every member who remains has shown the same mark,
//! or is heard under the new keys. A member who is silent holds the others up for [`CHANGE_ROUNDS`]; one who speaks
//! without the mark holds them up for as long as it does, since whoever changed over without it might have been given
//! keys that nobody else has. It may have gone back to before it was given them: after [`HELD_UP_ROUNDS`] the keeper makes
//! others for it.

use super::keys::{Change, News, Task, bit, bits};
use super::rekey::{Echo, Farewell, Rekey, author_of, epoch_after};
use super::{Group, Peer};
use crate::error::{InputError, Malformed};
use crate::message::FAREWELL_BYTES;
use crate::ratchet::Chain;
use crate::reaction::{REACTION_ROUNDS, block};
use crate::secret::Secret;
use crate::{Error, Round, domain};

/// Rounds by which the author of a rekey may be ahead.
const AHEAD_MAX: u64 = 16;
/// Rounds by which a rekey's chains may begin before the present one.
pub(super) const BEHIND_MAX: u64 = 4096;
/// Rounds between two changes that a member takes part in.
const CHANGE_PAUSE: u64 = 64;
/// Rounds for which a member that is not heard holds up a change.
pub(super) const CHANGE_ROUNDS: u64 = 256;
/// Rounds after which a change that somebody holds up begins anew. Members take new keys 256 rounds after others, and are
/// heard to have them some rounds later.
pub(super) const HELD_UP_ROUNDS: u64 = 2 * CHANGE_ROUNDS;
/// Rounds after which keys are made anew for a member that came too late for them, or seems to have others.
pub(super) const RENEW_ROUNDS: u64 = 2048;
/// Blocks between two looks for members who seem to have other keys.
const RENEW_BLOCKS: u64 = RENEW_ROUNDS / REACTION_ROUNDS;

impl Peer {
    /// Whether it was not heard for as long as keys stay when somebody has missed them.
    fn is_silent(&self, round: Round) -> bool {
        self.heard.is_none_or(|heard| heard.0.saturating_add(RENEW_ROUNDS) <= round.0)
    }
}

impl Group {
    /// Whose task it is to make new keys, and who alone removes others: the present member of the lowest number.
    pub(crate) fn keeper(&self) -> Option<u8> {
        (0..).zip(&self.members).find(|(_, peer)| peer.present).map(|(number, _)| number)
    }

    /// All that has happened since it was last asked.
    pub(crate) fn news(&mut self) -> Vec<News> {
        core::mem::take(&mut self.news)
    }

    /// A name on the card is that of a contact, borne by somebody else.
    pub(crate) fn warn_of_names(&mut self) {
        if !core::mem::replace(&mut self.names_told, true) {
            self.tell(News::NameBorrowed);
        }
    }

    pub(super) fn tell(&mut self, news: News) {
        if !self.news.contains(&news) {
            self.news.push(news);
        }
    }

    /// Takes a farewell in, from its author or handed on by another.
    ///
    /// # Errors
    /// [`Error::Malformed`] if its author has not signed it.
    pub(crate) fn take_farewell(&mut self, farewell: &Farewell) -> Result<(), Error> {
        let malformed = Error::Malformed(Malformed::Farewell);
        let peer = self.members.get_mut(usize::from(farewell.member)).ok_or(malformed.clone())?;
        if farewell.group != self.id || farewell.member == self.me || !farewell.is_by(&peer.identity) {
            return Err(malformed);
        }
        if peer.present {
            peer.present = false;
            peer.farewell = farewell.signature.to_vec();
            self.refused = false;
            self.tell(News::Left(farewell.member));
        }
        Ok(())
    }

    /// The farewells of those who left, for members who may not have heard them.
    pub(crate) fn farewells(&self) -> Vec<Farewell> {
        let farewell = |(member, signature): (u8, &[u8])| {
            let signature: [u8; FAREWELL_BYTES] = signature.try_into().ok()?;
            Some(Farewell { group: self.id, member, signature })
        };
        let members = (0..).zip(&self.members).map(|(number, peer)| (number, peer.farewell.as_slice()));
        members.filter_map(farewell).collect()
    }

    /// The members, as bits, who have left or were removed.
    pub(super) fn gone(&self) -> u8 {
        bits((0..).zip(&self.members).filter(|(_, peer)| !peer.present).map(|(number, _)| number))
    }

    /// The members, as bits, to whom new keys are not to be given.
    pub(crate) fn excluded_next(&self) -> u8 {
        self.gone() | self.removing
    }

    /// The rekey for all who remain.
    ///
    /// # Errors
    /// [`Error::Input`] if this author has used up its epochs.
    pub(crate) fn propose(&self, fresh: Secret, round: Round) -> Result<Rekey, Error> {
        let newest =
            self.change.as_ref().map_or((self.epoch, self.start), |change| (change.epoch, change.start));
        let epoch = epoch_after(newest, self.me, round);
        let epoch = epoch.ok_or(Error::Input(InputError::EpochsUsedUp))?;
        Ok(Rekey { group: self.id, epoch, start: round, excluded: self.excluded_next(), fresh })
    }

    /// What asks for newer keys than this member may have.
    pub(crate) fn request(&self) -> Rekey {
        Rekey::request(self.id)
    }

    /// Takes a rekey, or a request for one, whose author was authenticated. It waits until a block of rounds begins; of
    /// several the newest does.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no honest member writes it.
    pub(crate) fn offer(&mut self, author: u8, rekey: Rekey, next: Round) -> Result<(), Error> {
        if rekey.is_request() {
            return self.take_request(author, rekey, next);
        }
        let excluded = |member: u8| rekey.excluded & bit(member) != 0;
        let members = u8::try_from(self.members.len()).unwrap_or(0);
        let possible = rekey.group == self.id
            && author < members
            && author != self.me
            && !excluded(author)
            && (members..8).all(|nobody| !excluded(nobody))
            && author_of(rekey.epoch) == author
            && rekey.start.0 <= next.0.saturating_add(AHEAD_MAX);
        if !possible {
            return Err(Error::Malformed(Malformed::Rekey));
        }
        // One who has left is no longer believed, and may have spoken before it did.
        if self.ended || !self.members.get(usize::from(author)).is_some_and(|peer| peer.present) {
            return Ok(());
        }
        let keeps = self.keeper() == Some(author) && (0..author).all(excluded);
        if !keeps {
            self.tell(News::RekeyRefused);
            return Ok(());
        }
        let changing = self.change.as_ref().map_or(0, |change| change.epoch);
        let waiting = self.offer.as_ref().map_or(0, |rekey| rekey.epoch);
        if rekey.epoch > self.epoch.max(changing).max(waiting) {
            self.offer = Some(rekey);
        }
        Ok(())
    }

    /// A member who may have missed keys asks for others. Only the keeper heeds it, once in [`CHANGE_ROUNDS`].
    fn take_request(&mut self, author: u8, request: Rekey, next: Round) -> Result<(), Error> {
        let member = self.members.get(usize::from(author)).filter(|_| author != self.me);
        let member = member.ok_or(Error::Malformed(Malformed::Rekey))?;
        if request.encode() != Rekey::request(self.id).encode() {
            return Err(Error::Malformed(Malformed::Rekey));
        }
        // Whoever is on the card finds there what there is, unless this client has gone back to it.
        let others = self.epoch != 0 || self.is_old(next);
        if member.present && !self.ended && others && self.keeper() == Some(self.me) {
            self.offer = Some(request);
        }
        Ok(())
    }

    /// At the first round of a block, acts on what was read before.
    pub(crate) fn tend(&mut self, round: Round) -> Task {
        if self.ended || block(round) <= self.block {
            return Task::Nothing;
        }
        let looks = block(round) / RENEW_BLOCKS > self.block / RENEW_BLOCKS;
        self.block = block(round);
        self.conclude(round);
        let asked = self.take_asked(round);
        self.take_offer(round);
        if self.ended {
            return Task::Nothing;
        }
        let strange = core::mem::take(&mut self.strange);
        let me = self.me;
        let unheard = (0..)
            .zip(&self.members)
            .any(|(number, peer)| number != me && peer.present && peer.heard.is_none());
        self.announcing = strange || unheard || self.epoch == 0 || self.change.is_some();
        if asked || self.keys_are_due(round, unheard) {
            return Task::NewKeys;
        }
        self.missed(round, looks)
    }

    /// Whether there is a request for keys, and now is the time for it.
    fn take_asked(&mut self, round: Round) -> bool {
        let rested = self.taken.is_none_or(|taken| round.0.saturating_sub(taken.0) >= CHANGE_ROUNDS);
        let ready = rested && self.change.is_none() && self.leaving.is_none() && !self.is_alone();
        ready && self.offer.take_if(|offer| offer.is_request()).is_some()
    }

    /// Whether nobody else would have the next keys.
    fn is_alone(&self) -> bool {
        self.excluded_next() | bit(self.me) == self.everybody()
    }

    /// Whether the present keys are so old that somebody may have missed them.
    fn is_old(&self, round: Round) -> bool {
        self.start.0.saturating_add(RENEW_ROUNDS) <= round.0
    }

    fn keys_are_due(&self, round: Round, unheard: bool) -> bool {
        // Whoever is removed is told, and reads nothing more, also if nobody else remains.
        let alone = self.is_alone() && self.removing == 0;
        if self.keeper() != Some(self.me) || self.leaving.is_some() || alone {
            return false;
        }
        // If everybody is silent on the card, they may have other keys: this client has gone back to an older state.
        let others = || (0..).zip(&self.members).filter(|(number, peer)| *number != self.me && peer.present);
        let lonely = || self.is_old(round) && others().all(|(_, peer)| peer.is_silent(round));
        match &self.change {
            None => self.excluded_next() != self.excluded || (self.epoch == 0 && (!unheard || lonely())),
            // One who does not take the keys must not keep its keeper from removing it.
            Some(change) => {
                self.excluded_next() != change.excluded
                    && round.0 >= change.since.0.saturating_add(CHANGE_ROUNDS)
            }
        }
    }

    pub(super) fn everybody(&self) -> u8 {
        bits((0..).zip(&self.members).map(|(number, _)| number))
    }

    /// Whom to make keys for, or to ask for some.
    ///
    /// Keeper or member may have gone back to an older state, in which it believes to have been heard, or to be waited for by
    /// somebody who has left.
    fn missed(&self, round: Round, looks: bool) -> Task {
        let keeper = self.keeper();
        let keeps = keeper == Some(self.me);
        let which = |misses: &dyn Fn(u8, &Peer) -> bool| -> Vec<[u8; 32]> {
            let present =
                (0..).zip(&self.members).filter(|(number, peer)| *number != self.me && peer.present);
            present.filter(|(number, peer)| misses(*number, peer)).map(|(_, peer)| peer.identity).collect()
        };
        let ask = |asked: Vec<[u8; 32]>| if asked.is_empty() { Task::Nothing } else { Task::Ask(asked) };
        let make = |late: Vec<[u8; 32]>| if late.is_empty() { Task::Nothing } else { Task::NewKeysFor(late) };
        if self.leaving.is_some() {
            return Task::Nothing;
        }
        if let Some(change) = self.change.as_ref() {
            // Whoever speaks on under the present keys has gone back to before it was given these, or the keeper has.
            let held_up = round.0.saturating_sub(change.since.0) >= HELD_UP_ROUNDS;
            let lacks = |number: u8, _: &Peer| {
                held_up && change.excluded & bit(number) == 0 && !change.has_confirmed(number)
            };
            return match keeps {
                true => make(which(&lacks)),
                false => ask(which(&|number, peer| looks && keeper == Some(number) && lacks(number, peer))),
            };
        }
        // Whoever makes keys now may not have heard who left.
        if looks && !keeps && self.gone() & !self.excluded != 0 {
            return ask(which(&|number, _| keeper == Some(number)));
        }
        if !self.is_old(round) {
            return Task::Nothing;
        }
        let owes = |peer: &Peer| peer.is_silent(round) && self.outbox.is_under_way_after(peer.acknowledged);
        match keeps && self.epoch != 0 {
            true => make(which(&|_, peer| peer.heard.is_none() || (looks && owes(peer)))),
            // If it has left, it says so to those who ask.
            false => {
                ask(which(&|_, peer| looks && ((self.epoch == 0 && peer.is_silent(round)) || owes(peer))))
            }
        }
    }

    fn take_offer(&mut self, round: Round) {
        let Some(rekey) = self.offer.as_ref().filter(|offer| !offer.is_request()) else { return };
        // The author may have left since.
        if self.keeper() != Some(author_of(rekey.epoch)) {
            self.offer = None;
            return;
        }
        if rekey.excluded & bit(self.me) != 0 {
            let by = author_of(rekey.epoch);
            self.end(by);
            return;
        }
        let rested = |since: Round, pause: u64| round.0.saturating_sub(since.0) >= pause;
        let ready = self.taken.is_none_or(|taken| rested(taken, CHANGE_PAUSE))
            && self.change.as_ref().is_none_or(|change| rested(change.since, CHANGE_ROUNDS));
        if ready && let Some(rekey) = self.offer.take() {
            // Keys from too long ago are passed over; the keeper makes others for who came too late.
            let _ = self.begin(&rekey, round);
        }
    }

    /// Begins to change to new keys, which `round` is the first to be able to use.
    ///
    /// # Errors
    /// [`Error::RoundTooFar`] if they begin too long ago; nothing is changed then.
    pub(crate) fn begin(&mut self, rekey: &Rekey, round: Round) -> Result<(), Error> {
        if round.0.saturating_sub(rekey.start.0) > BEHIND_MAX {
            return Err(Error::RoundTooFar(rekey.start));
        }
        let secret = Secret::extract(domain::GROUP_REKEY, [&self.base, &rekey.fresh]);
        let excluded = rekey.excluded;
        let (send, chains) = self.derive(rekey.epoch, &secret, rekey.start, round, excluded)?;
        let epoch = rekey.epoch.to_le_bytes();
        let start = rekey.start.0.to_le_bytes();
        let mark = secret.expand(domain::GROUP_MARK, &[&self.id, &epoch, &start, &[excluded]]);
        let by = author_of(rekey.epoch);
        for (member, peer) in (0..).zip(&mut self.members) {
            if excluded & bit(member) == 0 {
                if !peer.present && peer.farewell.is_empty() && !self.news.contains(&News::RekeyNeeded) {
                    // The keeper has gone back to before it removed this one.
                    self.news.push(News::RekeyNeeded);
                }
                continue;
            }
            if peer.present {
                peer.present = false;
                self.news.push(News::Removed { by, member });
            }
            // Who left is heard, and answered, until the change; who was removed is not.
            if peer.farewell.is_empty() {
                peer.chain = None;
            }
        }
        self.removing &= !excluded;
        // In place of keys that somebody holds up, which the person was told.
        let told = self.change.as_ref().is_some_and(|change| change.told);
        self.change = Some(Change {
            epoch: rekey.epoch,
            excluded,
            start: rekey.start,
            mark: *mark.bytes(),
            since: round,
            send,
            chains,
            confirmed: 0,
            heard: 0,
            told,
        });
        self.taken = Some(round);
        self.announcing = true;
        self.refused = false;
        for sequence in self.acknowledged() {
            self.news.push(News::Acknowledged(sequence));
        }
        Ok(())
    }

    /// A member was heard under the keys that the group is changing to.
    pub(super) fn heard_changed(&mut self, member: u8) {
        if let Some(change) = &mut self.change {
            change.confirmed |= bit(member);
            change.heard |= bit(member);
        }
    }

    /// A member shows which keys it was given.
    pub(super) fn take_echo(&mut self, member: u8, echo: Echo) {
        let differ = match &mut self.change {
            Some(change) if change.epoch == echo.epoch && change.mark == echo.mark => {
                change.confirmed |= bit(member);
                return;
            }
            Some(change) if change.epoch == echo.epoch => !core::mem::replace(&mut change.told, true),
            _ => false,
        };
        // It must hear that this member is there, and was not given the same.
        self.strange = true;
        // Keys that this client has made and forgotten: it has gone back, and who was given them waits for others.
        let forgotten = self.change.is_none() && echo.epoch > self.epoch && author_of(echo.epoch) == self.me;
        if forgotten && self.keeper() == Some(self.me) {
            self.offer = Some(self.request());
        }
        if differ {
            self.tell(News::KeysDiffer);
        }
    }

    /// Changes over, if nobody would be left behind who is there.
    fn conclude(&mut self, round: Round) {
        let everybody = self.everybody();
        let remaining = everybody & !self.gone() & !bit(self.me);
        let Some(change) = &mut self.change else { return };
        let missing = remaining & !change.excluded & !change.confirmed;
        let waited = round.0.saturating_sub(change.since.0);
        if missing != 0 && waited < CHANGE_ROUNDS {
            return;
        }
        // And so since the change began, which is longer ago.
        let lately = |heard: Round| round.0.saturating_sub(heard.0) < CHANGE_ROUNDS / 2;
        let mut others = (0..).zip(&self.members).filter(|(number, _)| missing & bit(*number) != 0);
        if others.any(|(_, peer)| peer.heard.is_some_and(lately)) {
            if !core::mem::replace(&mut change.told, true) {
                self.tell(News::KeysDiffer);
            }
            return;
        }
        let Some(change) = self.change.take() else { return };
        for ((number, peer), chain) in (0..).zip(&mut self.members).zip(change.chains) {
            peer.chain = chain.filter(|_| peer.present);
            peer.heard = (change.heard & bit(number) != 0).then_some(round);
        }
        self.send = change.send;
        (self.epoch, self.excluded, self.start) = (change.epoch, change.excluded, change.start);
        self.tell(News::NewKeys);
    }

    /// The keeper has removed this member: all keys are erased, and what was not said stays unsaid.
    fn end(&mut self, by: u8) {
        self.ended = true;
        (self.change, self.offer) = (None, None);
        self.base = Secret::new([0; 32]);
        self.send = Chain::new(Round(0), Secret::new([0; 32]));
        for peer in &mut self.members {
            peer.chain = None;
        }
        if let Some(me) = self.members.get_mut(usize::from(self.me)) {
            me.present = false;
        }
        self.news.push(News::Removed { by, member: self.me });
        for sequence in self.outbox.give_back() {
            self.news.push(News::NotSent(sequence));
        }
    }
}
