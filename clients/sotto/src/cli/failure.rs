//! How a command fails: one line for the person, one code for the script.

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sotto_protocol::Error;

use super::print::{escaped, harmless};
use crate::daemon::SocketError;
use crate::{AddressError, StoreError};
use sotto_participant::HandleError;
use sotto_session::ConnectError;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;
const STATE: u8 = 4;
const SERVER: u8 = 5;

/// A message for the person, and for programs an exit code and the reason's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Exit code of the process.
    pub(crate) exit: u8,
    /// Name of the reason, of lower-case letters and hyphens, which stays when the message changes.
    pub(crate) code: Cow<'static, str>,
    /// What the person is told.
    #[serde(rename = "error")]
    pub(crate) message: String,
}

impl Failure {
    fn new(exit: u8, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code: code.into(), message: message.into() }
    }

    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self::new(FAILED, "failed", message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, "usage", message)
    }

    pub(crate) fn state(message: impl Into<String>) -> Self {
        Self::new(STATE, "state", message)
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(UNREACHABLE, "unreachable", message)
    }

    /// Under the code of a typed reason.
    pub(crate) fn coded(self, code: &'static str) -> Self {
        Self { code: code.into(), ..self }
    }

    /// Whether the command could be done by somebody else or at another time, as far as the client can tell.
    pub(crate) fn is_refusal(&self) -> bool {
        self.exit == FAILED
    }

    /// Tells the person, or a program that reads JSON, and gives the exit code.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        // Without standard error there is nobody to tell.
        let _ = match json {
            true => writeln!(io::stderr(), "{}", escaped(&json!(self))),
            false => writeln!(io::stderr(), "error: {}", harmless(&self.message)),
        };
        ExitCode::from(self.exit)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::state(error.to_string()).coded(error.code())
    }
}

impl From<SocketError> for Failure {
    fn from(error: SocketError) -> Self {
        Self::state(error.to_string())
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let exit = match error {
            ConnectError::Unreachable(_)
            | ConnectError::NoServer(_)
            | ConnectError::TooOften { .. }
            | ConnectError::Refused(_) => UNREACHABLE,
            ConnectError::NotStored(_) => STATE,
            _ => SERVER,
        };
        Self::new(exit, error.code(), error.to_string())
    }
}

impl From<HandleError> for Failure {
    fn from(error: HandleError) -> Self {
        let failure = match error {
            // It was taken back.
            HandleError::Store(_) => {
                Self::state(format!("{error}; nothing was done: do it again when there is room"))
            }
            _ => Self::other(error.to_string()),
        };
        failure.coded(error.code())
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
        Self::other(format!("{error}{advice}")).coded(error.code())
    }
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Self {
        Self::usage(error.to_string()).coded(error.code())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::other(format!("cannot read what is typed, or print: {error}"))
    }
}
