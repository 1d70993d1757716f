//! Why a participant refuses.

use sotto_protocol::Error;

/// Why a participant did not do as told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// It has stopped.
    #[error("the participant has stopped")]
    Stopped,
    /// The protocol refused.
    #[error(transparent)]
    Protocol(#[from] Error),
    /// The change could not be stored; it is lost if the program ends now.
    #[error("{0}")]
    Store(String),
}
