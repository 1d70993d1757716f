//! Why there is no session with a server, in words that say what to do.

use sotto_protocol::PROTOCOL_VERSION;
use sotto_wire::{Failure, Refused};

/// Why no session could be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody answers.
    #[error("no server answers at {0}; check that it is running and that the address is right")]
    Unreachable(String),
    /// Somebody answers who is no Sotto server.
    #[error("what answers at {0} is not a Sotto server; check the address")]
    NoServer(String),
    /// Another key than the address names.
    #[error(
        "the server does not hold the key in its address; ask its operator for the current address, and do not go on \
         if nobody can explain the change"
    )]
    WrongKey,
    /// A certificate that has ended, or a clock that stands wrong.
    #[error(
        "the server's certificate is not valid at this machine's time; set the clock right, and if it is, tell the \
         server's operator to make a new certificate"
    )]
    Certificate,
    /// Another version of the protocol.
    #[error(
        "the server speaks {} of the protocol and this program version {PROTOCOL_VERSION}; update the older one",
        version(*theirs)
    )]
    Version {
        /// The server's version, if it says so.
        theirs: Option<u16>,
    },
    /// Another engine.
    #[error(
        "the server runs the PIR engine '{theirs}' and this program '{ours}'; use a client made for that server"
    )]
    Engine {
        /// The server's engine.
        theirs: String,
        /// The one that this program would rather have.
        ours: &'static str,
    },
    /// Less than 128 bits.
    #[error("the server offers {bits} bits of security and this program wants 128; use another server")]
    Security {
        /// What is offered.
        bits: u32,
    },
    /// Parameters that no server should have.
    #[error("unacceptable server: {0}; tell its operator")]
    Parameters(String),
    /// Later parameters than those that the account keeps. They are taken over with the next start.
    #[error("the server has changed its parameters; they are taken over when you come online anew")]
    Changed,
    /// Older parameters than those that the account has taken over, or two sets under one number.
    #[error("unacceptable server: {0}; do not go on if its operator cannot explain it")]
    Downgrade(String),
    /// The server does not want this account now.
    #[error("the server refused the session: {0}")]
    Refused(Refused),
}

impl ConnectError {
    /// Why a call failed before there was a session, with the server at this authority.
    #[must_use]
    pub fn of(failure: Failure, authority: String) -> Self {
        match failure {
            Failure::Unreachable => Self::Unreachable(authority),
            Failure::Nonsense(_) => Self::NoServer(authority),
            Failure::Refused(Refused::Version) => Self::Version { theirs: None },
            Failure::Refused(refused) => Self::Refused(refused),
        }
    }
}

fn version(version: Option<u16>) -> String {
    version.map_or_else(|| "another version".into(), |version| format!("version {version}"))
}
