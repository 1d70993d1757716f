//! Why there is no session with a server, in words that say what to do.

use sotto_protocol::{Error, PROTOCOL_VERSION};
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
    /// A server that says without end what it is.
    #[error(
        "the server at {0} announces again and again what is not new, or not its own; if this comes again, tell its operator"
    )]
    Flood(String),
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
    #[error("{}; tell its operator", unacceptable(.0))]
    Parameters(Error),
    /// Rounds in closed loop, from another machine: they wait for everybody, and so show who is there.
    #[error(
        "unacceptable server: its rounds are in closed loop, which is for one machine alone; tell its operator"
    )]
    ClosedLoop,
    /// The server's engine draws no keys here.
    #[error("unacceptable server: its PIR engine fails here; tell its operator")]
    EngineFails,
    /// What the server has changed could not be stored on this side.
    #[error("{0}")]
    NotStored(String),
    /// Later parameters than those that the account keeps. They are taken over with the next start.
    #[error("the server has changed its parameters; they are taken over when you come online anew")]
    Changed,
    /// Older parameters than those that the account has taken over, or two sets under one number.
    #[error("{}; do not go on if its operator cannot explain it", unacceptable(.0))]
    Downgrade(Error),
    /// The account has brought as many keys as a server takes in a stretch of rounds.
    #[error(
        "this account has come online so often that the server takes no more keys of it for {}; come again then",
        minutes(*seconds)
    )]
    TooOften {
        /// Until the next stretch begins, if rounds last as long as announced.
        seconds: u64,
    },
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
            Failure::Flood => Self::Flood(authority),
            Failure::Refused(Refused::Version) => Self::Version { theirs: None },
            Failure::Refused(refused) => Self::Refused(refused),
        }
    }

    /// Whether it says something of the node that was asked, and another one of the same server may do better. What the root key
    /// has signed, what all nodes have decided, and what fails on this side is the same everywhere.
    #[must_use]
    pub fn is_of_node(&self) -> bool {
        match self {
            // It is gone, somebody else answers in its place, its certificate has ended, or it is older, or behind, as in the midst
            // of an update.
            Self::Unreachable(_)
            | Self::Flood(_)
            | Self::WrongKey
            | Self::NoServer(_)
            | Self::Certificate
            | Self::Version { .. }
            | Self::Downgrade(_)
            // Each counts what is brought to it.
            | Self::TooOften { .. } => true,
            // Others would refuse the same. It is at its limit, or does not take part yet, otherwise.
            Self::Refused(refused) => !matches!(refused, Refused::Token | Refused::Slot),
            // What the root key has signed; `Changed` is to be taken over first.
            Self::Engine { .. }
            | Self::Security { .. }
            | Self::Parameters(_)
            | Self::ClosedLoop
            | Self::Changed => false,
            Self::EngineFails | Self::NotStored(_) => false,
        }
    }

    /// What to tell of all nodes that were asked in turn, of which this is the next to fail: the first reason that says more
    /// than that nobody answers.
    ///
    /// # Errors
    /// One for which no other node needs to be asked, see [`ConnectError::is_of_node`].
    pub fn of_turn(told: Option<Self>, error: Self) -> Result<Self, Self> {
        match told {
            _ if !error.is_of_node() => Err(error),
            None | Some(Self::Unreachable(_)) => Ok(error),
            Some(told) => Ok(told),
        }
    }

    /// A name of the reason for programs, of lower-case letters and hyphens, which stays when the sentence changes: the
    /// protocol's where that refused, the server's word where the server did.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "connect-unreachable",
            Self::NoServer(_) => "connect-no-server",
            Self::Flood(_) => "connect-flood",
            Self::WrongKey => "connect-wrong-key",
            Self::Certificate => "connect-certificate",
            Self::Version { .. } => "connect-version",
            Self::Engine { .. } => "connect-engine",
            Self::Security { .. } => "connect-security",
            Self::Parameters(error) | Self::Downgrade(error) => error.code(),
            Self::ClosedLoop => "connect-closed-loop",
            Self::EngineFails => "connect-engine-fails",
            Self::NotStored(_) => "connect-not-stored",
            Self::Changed => "connect-changed",
            Self::TooOften { .. } => "connect-too-often",
            Self::Refused(refused) => refused.reason(),
        }
    }
}

/// What the protocol refuses at a server, under one heading.
fn unacceptable(error: &Error) -> String {
    match error {
        Error::Negotiation(_) => error.to_string(),
        other => format!("unacceptable server: {other}"),
    }
}

fn minutes(seconds: u64) -> String {
    match seconds.div_ceil(60) {
        0 | 1 => "a minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

fn version(version: Option<u16>) -> String {
    version.map_or_else(|| "another version".into(), |version| format!("version {version}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sotto_protocol::Error;
    use sotto_protocol::error::NegotiationError;
    use sotto_wire::Refused;

    use super::ConnectError;

    #[test]
    fn no_program_takes_one_reason_for_another() {
        let text = String::new;
        let reasons = [
            ConnectError::Unreachable(text()),
            ConnectError::NoServer(text()),
            ConnectError::WrongKey,
            ConnectError::Certificate,
            ConnectError::Version { theirs: None },
            ConnectError::Engine { theirs: text(), ours: "" },
            ConnectError::Security { bits: 0 },
            ConnectError::Parameters(Error::Negotiation(NegotiationError::Timing)),
            ConnectError::ClosedLoop,
            ConnectError::EngineFails,
            ConnectError::NotStored(text()),
            ConnectError::Changed,
            ConnectError::TooOften { seconds: 0 },
            ConnectError::Downgrade(Error::Negotiation(NegotiationError::Downgrade)),
            ConnectError::Refused(Refused::Token),
            ConnectError::Refused(Refused::Busy),
        ];
        let codes: BTreeSet<_> = reasons.iter().map(ConnectError::code).collect();
        assert_eq!(codes.len(), reasons.len(), "{codes:?}");
    }

    /// A node that is down, behind or full must not keep anybody from the others; nobody is sent on past a false key.
    #[test]
    fn what_one_node_says_of_itself_is_told_from_what_holds_for_all() {
        let of_node = [
            ConnectError::Unreachable(String::new()),
            ConnectError::NoServer(String::new()),
            ConnectError::Certificate,
            ConnectError::Version { theirs: Some(9) },
            ConnectError::Downgrade(Error::Negotiation(NegotiationError::Downgrade)),
            ConnectError::Refused(Refused::Busy),
            ConnectError::Refused(Refused::Internal),
            ConnectError::TooOften { seconds: 1 },
        ];
        assert!(of_node.iter().all(ConnectError::is_of_node));
        // Whoever sits on the way to one node must not keep people from the others.
        assert!(ConnectError::WrongKey.is_of_node());
        let of_all = [
            ConnectError::Changed,
            ConnectError::Security { bits: 0 },
            ConnectError::Refused(Refused::Token),
            ConnectError::Refused(Refused::Slot),
            ConnectError::NotStored(String::new()),
        ];
        assert!(!of_all.iter().any(ConnectError::is_of_node));
        // What is told in the end is a reason, if there is one.
        let [silent, ended] = [of_node[0].clone(), of_node[2].clone()];
        let of_turn = ConnectError::of_turn;
        assert_eq!(of_turn(None, silent.clone()), Ok(silent.clone()));
        assert_eq!(of_turn(Some(silent.clone()), ended.clone()), Ok(ended.clone()));
        assert_eq!(of_turn(Some(ended.clone()), silent), Ok(ended.clone()));
        assert_eq!(of_turn(Some(ended), ConnectError::Changed), Err(ConnectError::Changed));
    }

    /// Whoever has to update must know which of the two is older, if the server says it.
    #[test]
    fn a_person_reads_which_version_a_server_speaks() {
        let told = |theirs| ConnectError::Version { theirs }.to_string();
        assert!(
            told(Some(7)).starts_with("the server speaks version 7 of the protocol and this program version")
        );
        assert!(told(None).starts_with("the server speaks another version of the protocol and"));
    }

    #[test]
    fn a_person_reads_for_how_many_minutes_to_wait() {
        let told = [0, 60, 61, 3600].map(|seconds| ConnectError::TooOften { seconds }.to_string());
        let expected = ["a minute", "a minute", "2 minutes", "60 minutes"];
        assert!(told.iter().zip(expected).all(|(told, expected)| told.contains(expected)), "{told:?}");
    }

    #[test]
    fn a_person_reads_once_that_a_server_is_unacceptable() {
        let refused = ConnectError::Parameters(Error::Negotiation(NegotiationError::NoSerial));
        assert_eq!(
            refused.to_string(),
            "unacceptable server: its announcement has no number; tell its operator"
        );
    }
}
