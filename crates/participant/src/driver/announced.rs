//! What the server says of itself while rounds go on: another manifest key is taken over at once, and nothing else.
//!
//! It is the same for everybody, and so is what follows: no call depends on it.

use sotto_protocol::error::NegotiationError;
use sotto_protocol::{Error, Succession};
use sotto_session::Announced;

use super::{Done, Driver};
use crate::host::StorageError;
use crate::{Event, Trouble};

impl Driver {
    /// Takes over what the root has signed, if it is later and differs in keys alone. What else changes is taken over with
    /// the next session, which a server that changes it ends all sessions for.
    pub(super) fn announced(&mut self, announced: &Announced) {
        let Ok(parameters) = announced.parameters(self.audits.root()) else {
            return self.mistrust(Error::Negotiation(NegotiationError::Unsigned));
        };
        match parameters.succeeds(&self.server) {
            Ok(Succession::Same) => return,
            Ok(Succession::Later) if !parameters.differs_in_keys_alone(&self.server) => return,
            Ok(Succession::Later) => {}
            Err(error) => return self.mistrust(error),
        }
        if let Err(error) = self.gate.adopt_keys(parameters.clone()) {
            return self.mistrust(error);
        }
        // The client is stored with it before it believes any manifest that comes behind it.
        let adopting = self.keeper.adopt_keys(parameters.clone());
        self.await_keeper(adopting, Done::Adopted);
        self.audits.adopt(announced.clone());
        self.pinned.send_replace(parameters.clone());
        self.server = parameters;
    }

    pub(super) fn adopted(&mut self, stored: Result<(), StorageError>) {
        if let Err(error) = stored {
            self.person.tell(Event::Trouble { round: None, trouble: Trouble::Store(error) });
        }
    }

    fn mistrust(&mut self, error: Error) {
        self.person.tell(Event::Trouble { round: None, trouble: Trouble::Announced(error) });
    }
}
