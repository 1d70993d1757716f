//! Who has which turn: fixed cycles of sending and polling, padded with nobody, in an order that only the client knows.
//!
//! A client has `conversations` *places*. In a cycle of as many rounds every place has exactly one round in which its
//! conversation may send; a place without a conversation, or without anything to say, sends cover. Polling has
//! `max(k, 2 * conversations)` *units* in cycles of `ceil(units / k)` rounds; a conversation of two has two units, a
//! group one for each other member. Where all units are polled in every round, a conversation of two gives its second
//! unit back once its key exchange is over, for nobody can notice. Neither cycle depends on what is sent or received, so neither the number of
//! contacts nor what they do can be told from anybody's delays.
//!
//! The order of a cycle is a Fisher-Yates shuffle by the words, u64 LE, of
//! `HKDF-Expand(cycle secret, domain | 0 | number of the cycle, u64 LE)`.

use serde::{Deserialize, Serialize};

use crate::error::{InputError, NegotiationError, ShapeError};
use crate::secret::Secret;
use crate::{Error, Round, ServerParameters, domain};

/// Turns of sending and polling.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cycle {
    secret: Secret,
    places: u8,
    retrieve: u16,
    /// Units there are at least: as many as there were before the server's k changed.
    least: u16,
}

/// The same in states of version 2.
#[derive(Deserialize)]
pub(crate) struct Cycle2 {
    secret: Secret,
    places: u8,
    retrieve: u16,
}

impl TryFrom<Cycle2> for Cycle {
    type Error = Error;

    fn try_from(old: Cycle2) -> Result<Self, Error> {
        Self::new(old.secret, old.places, old.retrieve)
    }
}

impl Cycle {
    /// # Errors
    /// [`Error::Input`] if there is no place at all; [`Error::Negotiation`] unless k is 1 to 256.
    pub(crate) fn new(secret: Secret, places: u8, retrieve: u16) -> Result<Self, Error> {
        if places == 0 {
            return Err(Error::Input(InputError::NoConversations));
        }
        if retrieve == 0 || retrieve > ServerParameters::RETRIEVE_MAX {
            return Err(Error::Negotiation(NegotiationError::Shape(ShapeError::Retrieve)));
        }
        Ok(Self { secret, places, retrieve, least: 0 })
    }

    /// Conversations there is room for.
    pub(crate) fn places(&self) -> u8 {
        self.places
    }

    /// Units of polling there is room for.
    pub(crate) fn units(&self) -> u16 {
        self.retrieve.max(2 * u16::from(self.places)).max(self.least)
    }

    /// Goes on with another number of messages a round. No unit is taken from anybody.
    ///
    /// # Errors
    /// As for [`Cycle::new`].
    pub(crate) fn adopt(&mut self, retrieve: u16) -> Result<(), Error> {
        let least = self.units();
        *self = Self { least, ..Self::new(self.secret.clone(), self.places, retrieve)? };
        Ok(())
    }

    /// Whether all units are polled in every round.
    pub(crate) fn polls_all(&self) -> bool {
        self.units() <= self.retrieve
    }

    /// The place whose turn to send it is.
    pub(crate) fn sender(&self, round: Round) -> u8 {
        let places = u64::from(self.places.max(1));
        let order = self.order(domain::SEND_CYCLE, round.0 / places, self.places.into());
        // Below the number of places, which is a u8.
        order.get((round.0 % places) as usize).map_or(0, |place| *place as u8)
    }

    /// The units polled in a round, or in an epoch of this number: at most k.
    pub(crate) fn polled(&self, round: Round) -> Vec<u16> {
        let (units, retrieve) = (self.units(), self.retrieve.max(1));
        let rounds = u64::from(units.div_ceil(retrieve));
        if rounds == 1 {
            return (0..units).collect();
        }
        let order = self.order(domain::POLL_CYCLE, round.0 / rounds, units);
        let turn = (round.0 % rounds) as usize;
        order.chunks(retrieve.into()).nth(turn).map(<[u16]>::to_vec).unwrap_or_default()
    }

    fn order(&self, domain: &str, cycle: u64, size: u16) -> Vec<u16> {
        let mut words = vec![0; 8 * usize::from(size)];
        self.secret.expand_into(domain, &[&cycle.to_le_bytes()], &mut words);
        let (words, _) = words.as_chunks::<8>();
        let mut order: Vec<u16> = (0..size).collect();
        for (last, word) in (1..usize::from(size)).rev().zip(words) {
            // Biased by less than 2^-54.
            let other = (u128::from(u64::from_le_bytes(*word)) * (last as u128 + 1)) >> 64;
            order.swap(last, other as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Cycle;
    use crate::Round;
    use crate::secret::Secret;

    fn cycle(places: u8, retrieve: u16) -> Cycle {
        Cycle::new(Secret::new([3; 32]), places, retrieve).unwrap()
    }

    #[test]
    fn nobody_is_starved_in_any_cycle() {
        for places in [1, 2, 7, 255] {
            let cycle = cycle(places, 4);
            for first in [0, 3 * u64::from(places)] {
                let rounds = (first..first + u64::from(places)).map(Round);
                assert_eq!(
                    rounds.map(|round| cycle.sender(round)).collect::<BTreeSet<_>>().len(),
                    places.into()
                );
            }
        }
        for (places, retrieve) in [(1, 1), (8, 16), (8, 3), (255, 256), (255, 7)] {
            let cycle = cycle(places, retrieve);
            let rounds = u64::from(cycle.units().div_ceil(retrieve));
            let polled: Vec<Vec<u16>> =
                (rounds..2 * rounds).map(|round| cycle.polled(Round(round))).collect();
            assert!(polled.iter().all(|units| units.len() <= retrieve.into()));
            let all: BTreeSet<u16> = polled.concat().into_iter().collect();
            assert_eq!((all.len(), polled.concat().len()), (cycle.units().into(), cycle.units().into()));
            let in_one_round = usize::from(cycle.units()) == polled[0].len();
            assert_eq!(cycle.polls_all(), in_one_round, "{places} places, {retrieve} retrieved");
        }
    }

    #[test]
    fn the_order_of_turns_cannot_be_foretold_from_an_earlier_cycle() {
        let cycle = cycle(8, 16);
        let order =
            |number: u64| (8 * number..8 * number + 8).map(|round| cycle.sender(Round(round))).collect();
        let orders: BTreeSet<Vec<u8>> = (0..50).map(order).collect();
        assert!(orders.len() > 45);
    }

    /// Whoever has units keeps them, with however few messages a round they are polled from now on.
    #[test]
    fn no_unit_is_lost_where_fewer_messages_are_retrieved() {
        let mut cycle = cycle(2, 8);
        assert_eq!((cycle.units(), cycle.polls_all()), (8, true));
        for (retrieve, units, in_a_round) in [(3, 8, 3), (1, 8, 1), (12, 12, 12), (2, 12, 2)] {
            cycle.adopt(retrieve).unwrap();
            assert_eq!((cycle.places(), cycle.units()), (2, units));
            let rounds = 0..u64::from(units.div_ceil(retrieve));
            let polled: Vec<Vec<u16>> = rounds.map(|round| cycle.polled(Round(round))).collect();
            assert!(polled.iter().all(|units| units.len() <= in_a_round));
            assert_eq!(polled.concat().into_iter().collect::<BTreeSet<_>>().len(), usize::from(units));
        }
        assert!(cycle.adopt(0).is_err() && cycle.adopt(257).is_err());
        assert_eq!((cycle.units(), cycle.polled(Round(0)).len()), (12, 2));
    }

    #[test]
    fn the_greatest_round_does_not_overflow() {
        cycle(255, 1).sender(Round(u64::MAX));
        cycle(255, 1).polled(Round(u64::MAX));
        assert!(Cycle::new(Secret::new([3; 32]), 0, 1).is_err());
    }
}
