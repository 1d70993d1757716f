//! Opening rounds and reading manifests.

use rand_core::CryptoRng;

use super::{Client, Notice, State, Want, Warning};
use crate::conversation::Talk;
use crate::cover::cover;
use crate::deposit::BOX_BYTES;
use crate::error::ManifestError;
use crate::secret::Secret;
use crate::turn::Turn;
use crate::{Deposit, Error, Manifest, Round, SignedManifest, UnixMillis, domain};

impl Client {
    /// Begins a round: uses up its sending keys, composes its deposit, and notes which boxes to look for.
    ///
    /// The caller stores [`Client::snapshot`] before sending anything.
    ///
    /// # Errors
    /// [`Error::RoundReplayed`] or [`Error::RoundTooFar`]: nothing is to be sent in such a round, and no key is used.
    pub fn open_round(
        &mut self,
        round: Round,
        now: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<(), Error> {
        self.begin_round(round, now, rng, true)
    }

    /// Begins a round as [`Client::open_round`] does, but says nothing in it: its sending keys are used up for nothing, and
    /// its deposit is cover. For a round in which a copy of this client may have said something: one that begins from a
    /// stored state cannot know whether that is the newest.
    ///
    /// # Errors
    /// As for [`Client::open_round`].
    pub fn pass_round(
        &mut self,
        round: Round,
        now: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<(), Error> {
        self.begin_round(round, now, rng, false)
    }

    fn begin_round(
        &mut self,
        round: Round,
        now: UnixMillis,
        rng: &mut impl CryptoRng,
        speaks: bool,
    ) -> Result<(), Error> {
        let state = &mut self.state;
        state.clock.advance(round, now)?;
        state.end_expired(now);
        state.store = Secret::extract(domain::FRESH, [&state.store, &Secret::random(rng)]);

        state.tend_groups(round);
        state.tend_left(round);
        let epoch = state.server.code.epoch(round);
        let epoch_rounds = state.server.code.epoch_rounds();
        let sender = state.cycle.sender(round);
        let polled = state.cycle.polled(Round(round.0 / epoch_rounds));
        let before: Vec<u8> = (epoch.0..round.0).map(|round| state.cycle.sender(Round(round))).collect();
        let last = (epoch_rounds > 1).then(|| Round(epoch.0.saturating_add(epoch_rounds - 1)));
        let slot = state.addresses.number().filter(|_| state.server.code.has_slots());
        let (identity, head) = (state.identity.key(), state.chain.newest());
        let mut deposit = cover(round, rng);
        let mut wants = Vec::new();
        let fresh = Secret::random(rng);
        for conversation in &mut state.conversations {
            if let Talk::Pair(pair) = &mut conversation.talk {
                pair.mix(&fresh);
            }
            let mine = speaks && conversation.place == sender;
            let knocks = !before.contains(&conversation.place);
            let turn = Turn { round, mine, slot, last, knocks, head, identity };
            let (message, listening) = conversation.open_round(&turn, &polled);
            if let Some(message) = message {
                deposit = message;
            }
            wants.extend(listening.into_iter().map(|listening| Want {
                conversation: conversation.id,
                epoch: listening.epoch,
                member: listening.member,
                key: listening.key,
            }));
        }
        state.deposit = Some((round, deposit));
        state.wants.insert(round, wants);
        state.forget_retired(round);
        state.free_units();
        Ok(())
    }

    /// What to lay into the newest round opened: the same always.
    #[must_use]
    pub fn deposit(&self) -> Option<(Round, &Deposit)> {
        self.state.deposit.as_ref().map(|(round, deposit)| (*round, deposit))
    }

    /// The bytes of that as they are sent, and sent again: label, or with slots the knock, and box.
    #[must_use]
    pub fn outgoing(&self) -> Option<(Round, Vec<u8>)> {
        let (round, deposit) = self.deposit()?;
        let sent = self.state.server.deposit_bytes() - BOX_BYTES;
        Some((round, [&deposit.label.0[..sent], &deposit.sealed.0].concat()))
    }

    /// Takes the manifest of a sealed round. If it is not in order, the notices say so and the round is retrieved with
    /// random queries only; the caller need not know.
    pub fn ready(&mut self, manifest: &SignedManifest) -> Vec<Notice> {
        let warning = |error| vec![Notice::Warning(Warning::BadManifest(error))];
        match manifest.verify_for(&self.state.server) {
            Ok(manifest) => self.state.take_manifest(&manifest).map_or_else(warning, |()| Vec::new()),
            Err(error) => warning(error),
        }
    }

    /// Rounds, first and last, whose manifests are to be fetched for [`Client::supply_manifests`].
    #[must_use]
    pub fn missing_manifests(&self) -> Option<(Round, Round)> {
        self.state.chain.missing()
    }

    /// Closes a gap in the chain of manifests, or its front part, with those that were missed, ascending by round. If
    /// they do not begin where the gap does, it is given up, with one warning.
    pub fn supply_manifests(&mut self, manifests: &[SignedManifest]) -> Vec<Notice> {
        let server = &self.state.server;
        // Of keys before the former one nothing is known here: what they signed is as good as not there.
        let epoch = &server.key_epoch;
        let is_of_older_key = |manifest: &&SignedManifest| {
            epoch.number > 2 && manifest.claimed_round() < epoch.first && manifest.verify_for(server).is_err()
        };
        let manifests = manifests.iter().skip_while(is_of_older_key);
        let manifests: Result<Vec<Manifest>, Error> =
            manifests.map(|manifest| manifest.verify_for(server)).collect();
        let filled = manifests.and_then(|manifests| self.state.chain.fill_gap(&manifests));
        let warning = |error| match error {
            Error::Unknown(_) => Warning::HistoryLost,
            error => Warning::BadManifest(error),
        };
        filled.err().map(|error| Notice::Warning(warning(error))).into_iter().collect()
    }
}

impl State {
    fn take_manifest(&mut self, manifest: &Manifest) -> Result<(), Error> {
        let server = &self.server;
        let same = manifest.engine == server.engine && manifest.shape() == server.shape();
        if !same {
            return Err(Error::Manifest(ManifestError::OtherParameters));
        }
        if manifest.round > self.clock.newest().0 {
            return Err(Error::Manifest(ManifestError::NotOpened));
        }
        match self.chain.accept(manifest) {
            Ok(_) => {}
            // The same once more, after a reconnection.
            Err(Error::RoundReplayed(round))
                if self.chain.prefix_of(round) == Some(manifest.head_prefix()) => {}
            // One of those that are missing, announced to a program that was started again before they were fetched: how it
            // stands to the others is known when they are.
            Err(Error::RoundReplayed(round))
                if self.chain.missing().is_some_and(|(first, last)| (first..=last).contains(&round)) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        if self.wants_in(manifest.round).is_some() {
            self.ready.insert(manifest.round, manifest.encode().to_vec());
        }
        Ok(())
    }

    /// Gives back units that nobody would notice missing.
    fn free_units(&mut self) {
        if self.cycle.polls_all() {
            for conversation in &mut self.conversations {
                if let Talk::Pair(pair) = &conversation.talk
                    && pair.is_settled()
                {
                    conversation.units.truncate(1);
                }
            }
        }
    }

    /// Erases the keys of rounds that can no longer be retrieved, and groups that were left.
    fn forget_retired(&mut self, newest: Round) {
        let oldest = newest.back(self.server.retained.into());
        self.wants.retain(|round, _| *round >= oldest);
        self.ready.retain(|round, _| *round >= oldest);
        let left = &mut self.left;
        self.conversations.retain(|conversation| match &conversation.talk {
            Talk::Group(group) if group.has_left() => {
                left.keep(group);
                false
            }
            _ => true,
        });
        self.forget_strangers();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::client::world::{Fate, World};
    use crate::client::{Client, Notice, Settings, Warning};
    use crate::error::ManifestError;
    use crate::pair::Pair;
    use crate::{CodeKind, Error, Round, SignedManifest, UnixMillis};

    const HERE: Fate = Fate { absent: false, deposit_lost: false, answers_lost: false, restarts: false };
    const AWAY: Fate = Fate { absent: true, ..HERE };

    /// What was published in so many rounds, in all of which the first is there, and the second if it is not away.
    fn publish(world: &mut World, rounds: u64, second: Fate) -> Vec<SignedManifest> {
        let mut manifests = Vec::new();
        for _ in 0..rounds {
            let deposits = world.deposits(&[HERE, second]);
            let published = world.publish(&deposits);
            world.read(&published, &[HERE, second]);
            manifests.push(published.manifest);
            world.round += 1;
        }
        manifests
    }

    /// A manifest of before is none of the history that a client can check, and a round that it has not opened was not published
    /// for it: neither is retrieved.
    #[test]
    fn a_manifest_from_before_the_history_that_is_known_is_refused() {
        let mut world = World::new(1, &["alice", "bob"], 1, 4);
        let before = publish(&mut world, 3, AWAY);
        let (settings, joined) = (Settings { conversations: 1 }, (Round(world.round), world.now()));
        let parameters = world.parameters.clone();
        world.clients[1] = Client::new("bob", parameters, settings, joined, &mut world.rng).unwrap();
        assert_eq!(world.clients[1].newest_round(), Round(4));
        let known = publish(&mut world, 2, HERE);
        assert_eq!(world.clients[1].newest_round(), Round(5));
        let mut told = |manifest: &SignedManifest| world.clients[1].ready(manifest);
        let refused = |error| [Notice::Warning(Warning::BadManifest(error))];
        assert_eq!(told(&before[2]), refused(Error::RoundReplayed(Round(3))));
        assert!(told(&known[0]).is_empty() && told(&known[1]).is_empty(), "the same once more");
        let deposits = world.deposits(&[HERE, AWAY]);
        let next = world.publish(&deposits).manifest;
        assert_eq!(world.ready(1, &next), refused(Error::Manifest(ManifestError::NotOpened)));
    }

    /// Of rounds that were missed a manifest says nothing until it is known what leads to it, and then it must not be an alarm.
    #[test]
    fn a_manifest_out_of_a_gap_waits_for_those_before_it() {
        let mut world = World::new(1, &["alice", "bob"], 1, 4);
        publish(&mut world, 2, HERE);
        assert_eq!(world.clients[1].missing_manifests(), None);
        let missed = publish(&mut world, 3, AWAY);
        publish(&mut world, 1, HERE);
        assert_eq!(world.clients[1].missing_manifests(), Some((Round(3), Round(5))));
        for manifest in &missed {
            assert!(world.clients[1].ready(manifest).is_empty());
        }
        assert!(world.clients[1].state.ready.is_empty(), "nothing of it is to be retrieved");
        assert!(world.clients[1].supply_manifests(&missed).is_empty());
        assert_eq!(world.clients[1].missing_manifests(), None);
        let other = [Notice::Warning(Warning::BadManifest(Error::Manifest(ManifestError::Fork)))];
        let mut forged = missed[1].verify(&world.parameters.manifest_key).unwrap();
        forged.round_seed[0] ^= 1;
        assert_eq!(world.clients[1].ready(&SignedManifest::sign(&forged, &world.key)), other);
    }

    /// Where queries stand a knock is looked for in one cell through all rounds of an epoch, or what is asked would not be for it.
    #[test]
    fn a_knock_is_looked_for_in_one_cell_of_an_epoch_where_queries_stand() {
        for (code, cells) in [(CodeKind::Standing, 2), (CodeKind::Partitioned, 16)] {
            let mut world = World::with_code(8, 1, &["alice", "bob"], 1, 4, code);
            world.befriend(0, 1);
            let (mut looked_for, mut said, mut found) = (BTreeSet::new(), BTreeSet::new(), 0);
            for round in (8..24).map(Round) {
                for client in &mut world.clients {
                    client.open_round(round, UnixMillis(round.0 * 1000), &mut world.rng).unwrap();
                }
                let [alice, bob] = &world.clients[..] else { panic!("there are two") };
                let wants = &alice.state.wants[&round];
                let knock = wants.iter().find(|want| Pair::is_knock(want.epoch)).unwrap();
                let (looks, says) = (knock.key.label().selector(), bob.deposit().unwrap().1.label.selector());
                found += usize::from(looks == says);
                looked_for.insert(looks);
                said.insert(says);
            }
            assert_eq!((looked_for.len(), found), (cells, cells), "{code:?}");
            assert_eq!(said.len(), 16, "whoever said one twice would be seen to meet somebody");
        }
    }
}
