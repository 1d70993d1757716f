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
