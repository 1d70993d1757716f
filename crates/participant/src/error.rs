//! Why a participant refuses.

use sotto_protocol::Error;

use crate::host::StorageError;

/// Why a participant did not do as told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// It has stopped.
    #[error("the participant has stopped")]
    Stopped,
    /// The protocol refused.
    #[error(transparent)]
    Protocol(#[from] Error),
    /// The change could not be stored; it is lost if the program ends now.
    #[error(transparent)]
    Store(#[from] StorageError),
}

impl HandleError {
    /// A name of the reason for programs, which stays when the sentence changes.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Protocol(error) => error.code(),
            Self::Store(error) => error.code,
        }
    }
}
