//! What a handle wants.

use sotto_protocol::client::Client;
use tokio::sync::oneshot;

use super::error::HandleError;

/// Told after the change is stored, or could not be.
pub(crate) type Reply = Box<dyn FnOnce(Result<(), HandleError>) + Send>;
/// Changes the client.
pub(crate) type Change = Box<dyn FnOnce(&mut Client) -> Reply + Send>;
/// Looks at the client.
pub(crate) type Ask = Box<dyn FnOnce(&Client) + Send>;

/// What a handle wants.
pub(crate) enum Command {
    /// Change the client and store it.
    Change(Change),
    /// Look at the client.
    Ask(Ask),
    /// Check so many answers.
    Audit(u32),
    /// Leave at once.
    Stop(oneshot::Sender<Client>),
    /// Leave when the rounds in progress are done.
    Finish(oneshot::Sender<Client>),
}
