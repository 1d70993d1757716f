//! How a command fails: one line for the person, one code for the script.

use std::io::{self, Write as _};
use std::process::ExitCode;

use sotto_protocol::Error;

use super::print::harmless;
use crate::daemon::SocketError;
use crate::daemon::message::Reply;
use crate::{AddressError, ConnectError, HandleError, StoreError};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;
const STATE: u8 = 4;
const SERVER: u8 = 5;

/// A message and an exit code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    pub(crate) fn state(message: impl Into<String>) -> Self {
        Self { code: STATE, message: message.into() }
    }

    /// As another process reported it.
    pub(crate) fn reported(code: u8, message: String) -> Self {
        Self { code, message }
    }

    /// For another process to report.
    pub(crate) fn into_reply(self) -> Reply {
        Reply::Failed { code: self.code, message: self.message }
    }

    /// Tells the person and gives the code.
    pub(crate) fn report(self) -> ExitCode {
        // Without standard error there is nobody to tell.
        let _ = writeln!(io::stderr(), "error: {}", harmless(&self.message));
        ExitCode::from(self.code)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::state(error.to_string())
    }
}

impl From<SocketError> for Failure {
    fn from(error: SocketError) -> Self {
        Self::state(error.to_string())
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match error {
            ConnectError::Unreachable(_) | ConnectError::NoServer(_) | ConnectError::Refused(_) => {
                UNREACHABLE
            }
            _ => SERVER,
        };
        Self { code, message: error.to_string() }
    }
}

impl From<HandleError> for Failure {
    fn from(error: HandleError) -> Self {
        match error {
            HandleError::Store(message) => Self::state(message),
            other => Self::other(other.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let advice = match &error {
            Error::Capacity { .. } => {
                "; an account with more room needs 'sotto init --conversations N' in another --home"
            }
            Error::Malformed(_) => "; copy the whole text again",
            _ => "",
        };
        Self::other(format!("{error}{advice}"))
    }
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::other(format!("cannot read or write the terminal: {error}"))
    }
}
