//! Taking over what the operator of a server has changed.

use super::Client;
use crate::error::NegotiationError;
use crate::{Error, Round, ServerParameters, Succession, UnixMillis};

impl Client {
    /// Goes on under a later announcement of the same cluster, whose signature has been verified with the root key of the
    /// server's address, with `open` the round that is open now. Contacts, groups and keys stay; what was under way in
    /// rounds of another form is given up, and repeated by its senders.
    ///
    /// Everybody hears of a change at the same time, and nothing about it depends on what this client does.
    ///
    /// # Errors
    /// [`Error::Negotiation`] if it is not later than the one that is kept, or not to be worked with;
    /// [`Error::RoundTooFar`] if no time explains the open round. Nothing is changed then.
    pub fn adopt(
        &mut self,
        parameters: ServerParameters,
        (open, now): (Round, UnixMillis),
    ) -> Result<(), Error> {
        let state = &mut self.state;
        parameters.check_shape()?;
        if parameters.succeeds(&state.server)? != Succession::Later {
            return Err(Error::Negotiation(NegotiationError::NotLater));
        }
        if parameters.code.has_slots() != state.server.code.has_slots() {
            return Err(Error::Negotiation(NegotiationError::Addressing));
        }
        if parameters.differs_in_keys_alone(&state.server) {
            return self.adopt_keys(parameters);
        }
        let mut clock = state.clock.clone();
        clock.adopt(parameters.round_ms, (open, now))?;
        state.cycle.adopt(parameters.retrieve)?;
        state.clock = clock;
        let former = &state.server;
        if parameters.shape() != former.shape()
            || parameters.engine != former.engine
            || parameters.protocol_version != former.protocol_version
        {
            state.ready.clear();
        }
        state.server = parameters;
        Ok(())
    }

    /// Goes on under a later announcement that [differs in keys alone](ServerParameters::differs_in_keys_alone): in the
    /// middle of rounds, of which none is given up.
    ///
    /// # Errors
    /// As for [`Client::adopt`]; nothing is changed then.
    pub fn adopt_keys(&mut self, parameters: ServerParameters) -> Result<(), Error> {
        let state = &mut self.state;
        parameters.check_shape()?;
        let later = parameters.succeeds(&state.server)? == Succession::Later;
        if !later || !parameters.differs_in_keys_alone(&state.server) {
            return Err(Error::Negotiation(NegotiationError::NotLater));
        }
        state.server = parameters;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use crate::client::{Client, Settings};
    use crate::{
        CodeKind, KeyEpoch, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters, UnixMillis,
    };

    fn parameters() -> ServerParameters {
        ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            serial: 1,
            manifest_key: [1; 32],
            seeds: SeedCommitment { first: Round(1), segments: 1, root: [2; 32] },
            engine: "none".into(),
            security_bits: 128,
            code: CodeKind::Cuckoo,
            retrieve: 4,
            buckets: 12,
            choices: 3,
            retained: 2,
            mode: RoundMode::Deadline,
            round_ms: 1000,
            deposit_ms: 100,
            lookup_ms: 200,
            query_ms: 300,
            deposit_spread_ms: 0,
            query_spread_ms: 0,
            key_epoch: KeyEpoch::ENDLESS,
        }
    }

    /// With a round that can still be retrieved.
    fn client(kept: ServerParameters) -> Client {
        let (mut rng, joined) = (ChaCha20Rng::seed_from_u64(1), (Round(1), UnixMillis(0)));
        let settings = Settings { conversations: 1 };
        let mut client = Client::new("alice", kept, settings, joined, &mut rng).unwrap();
        client.state.ready.insert(Round(1), vec![7]);
        client
    }

    /// What is asked in the form of before is answered by nobody; and what was said in rounds whose form stays is still to be read.
    #[test]
    fn rounds_of_another_form_are_given_up_and_others_are_not() {
        type Change = fn(&mut ServerParameters);
        let changes: [(Change, bool); 5] = [
            (|next| next.round_ms = 1001, true),
            (|next| next.query_spread_ms = 5, true),
            (|next| next.buckets = 13, false),
            (|next| next.engine = "another".into(), false),
            (|next| next.retrieve = 5, false),
        ];
        let adopted = |kept: ServerParameters, next: ServerParameters| {
            let mut client = client(kept);
            client.adopt(next.clone(), (Round(1), UnixMillis(0))).unwrap();
            assert_eq!(*client.server(), next);
            client.state.ready.contains_key(&Round(1))
        };
        for (number, (change, stays)) in changes.into_iter().enumerate() {
            let mut next = ServerParameters { serial: 2, ..parameters() };
            change(&mut next);
            assert_eq!(adopted(parameters(), next), stays, "change {number}");
        }
        let before = ServerParameters { protocol_version: PROTOCOL_VERSION - 1, ..parameters() };
        assert!(!adopted(before, ServerParameters { serial: 2, ..parameters() }));
    }
}
