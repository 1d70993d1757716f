//! Which server a client is of: that of a root key, whatever becomes of the other keys.

use super::{Client, State};
use crate::Error;
use crate::error::NegotiationError;
use crate::invitation::server_mark;

impl Client {
    /// Takes note of the root key of the server's address, which stays: invitations and cards name the server by it from
    /// now on.
    ///
    /// # Errors
    /// [`Error::Negotiation`] if the client is of a server with another one.
    pub fn keep_root(&mut self, root: [u8; 32]) -> Result<(), Error> {
        if self.state.root.is_some_and(|kept| kept != root) {
            return Err(Error::Negotiation(NegotiationError::OtherServer));
        }
        self.state.root = Some(root);
        Ok(())
    }
}

impl State {
    /// By what invitations and cards that are made here name the server.
    pub(super) fn mark(&self) -> [u8; 8] {
        server_mark(self.root.as_ref().unwrap_or(&self.server.manifest_key))
    }

    /// Whether an invitation or a card is for this server. Those of before the root key was known here, or where it is not,
    /// name the manifest key of then.
    pub(super) fn is_marked_by(&self, mark: [u8; 8]) -> bool {
        let former = self.server.key_epoch.former_key();
        let keys = self.root.into_iter().chain([self.server.manifest_key]).chain(former);
        keys.into_iter().any(|key| server_mark(&key) == mark)
    }
}
