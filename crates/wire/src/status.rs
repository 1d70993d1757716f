//! The one place where refusals become gRPC statuses, and statuses refusals.
//!
//! The gRPC code serves middle boxes and foreign clients; ours read the reason word in the status's metadata.

use sotto_protocol::server::Refusal;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

/// Metadata key of the reason word.
pub const REASON: &str = "sotto-reason";

/// Why a server refused a call. Nothing in it identifies anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The session is not known (any more): register again.
    #[error("the session is not known; register again")]
    UnknownSession,
    /// The PIR keys are not known (any more): upload them again.
    #[error("the PIR keys are not known; upload them again")]
    UnknownKeys,
    /// The multi-query is not known (any more): send it whole.
    #[error("the multi-query is not known; send it whole")]
    UnknownQuery,
    /// This call was already made in this round, with other bytes.
    #[error("the quota of this round is used up; try again in a later one")]
    Quota,
    /// The round no longer takes deposits, or is no longer retrievable.
    #[error("the round is over")]
    RoundClosed,
    /// The round does not take this call yet.
    #[error("the round is not open for this yet")]
    RoundNotReady,
    /// The other side speaks another version of the protocol.
    #[error("the server speaks another version of the protocol; update the older side")]
    Version,
    /// The signature, or the nonce it signs, does not hold.
    #[error("the signature does not prove possession of the account key")]
    Signature,
    /// A new account needs a token, and this is none, or one that was used.
    #[error(
        "a new account needs a registration token that was not used yet; ask the server's operator for one"
    )]
    Token,
    /// The account shows a slot that is not its own, or none although it was given one.
    #[error(
        "this account has no slot at this server, or shows another's; if its state was restored, make a new account"
    )]
    Slot,
    /// The call's bytes are not what they should be.
    #[error("the call is malformed")]
    Malformed,
    /// A limit of the server is reached; later it may work.
    #[error("the server is at its limit; try again later")]
    Busy,
    /// The server failed.
    #[error("the server failed")]
    Internal,
}

impl Refused {
    const ALL: [Self; 13] = [
        Self::UnknownSession,
        Self::UnknownKeys,
        Self::UnknownQuery,
        Self::Quota,
        Self::RoundClosed,
        Self::RoundNotReady,
        Self::Version,
        Self::Signature,
        Self::Token,
        Self::Slot,
        Self::Malformed,
        Self::Busy,
        Self::Internal,
    ];

    /// The gRPC code.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::UnknownSession => Code::Unauthenticated,
            Self::UnknownKeys | Self::UnknownQuery | Self::Version => Code::FailedPrecondition,
            Self::Quota | Self::Busy => Code::ResourceExhausted,
            Self::RoundClosed | Self::RoundNotReady => Code::OutOfRange,
            Self::Signature | Self::Token | Self::Slot => Code::PermissionDenied,
            Self::Malformed => Code::InvalidArgument,
            Self::Internal => Code::Internal,
        }
    }

    /// The refusal of that word.
    #[must_use]
    pub fn from_reason(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|refused| refused.reason() == reason)
    }

    /// The word that stands for it.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::UnknownSession => "unknown-session",
            Self::UnknownKeys => "unknown-keys",
            Self::UnknownQuery => "unknown-query",
            Self::Quota => "quota",
            Self::RoundClosed => "round-closed",
            Self::RoundNotReady => "round-not-ready",
            Self::Version => "version",
            Self::Signature => "signature",
            Self::Token => "token",
            Self::Slot => "slot",
            Self::Malformed => "malformed",
            Self::Busy => "busy",
            Self::Internal => "internal",
        }
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        let mut status = Self::new(refused.code(), refused.to_string());
        status.metadata_mut().insert(REASON, MetadataValue::from_static(refused.reason()));
        status
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Closed => Self::RoundClosed,
            Refusal::NotReady => Self::RoundNotReady,
            Refusal::Quota => Self::Quota,
            Refusal::Full => Self::Busy,
        }
    }
}

/// Why a call did not succeed, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server said no.
    #[error(transparent)]
    Refused(Refused),
    /// No answer: the server or the way to it is gone, or the deadline passed. The call may or may not have arrived.
    #[error("the server does not answer")]
    Unreachable,
    /// The answer is larger than allowed, or no message of the schema, or from no server of ours.
    #[error("the server's answer makes no sense ({0})")]
    Nonsense(Code),
    /// The server says again and again what it is, and nothing of it is new, or holds.
    #[error("the server announces again and again what is not new, or not its own")]
    Flood,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::from(&status)
    }
}

impl From<&Status> for Failure {
    fn from(status: &Status) -> Self {
        let reason = status.metadata().get(REASON).and_then(|reason| reason.to_str().ok());
        let refused = reason.and_then(Refused::from_reason);
        match (refused, status.code()) {
            (Some(refused), _) => Self::Refused(refused),
            // tonic reports a lost connection as any of these.
            (None, Code::Unavailable | Code::Cancelled | Code::Unknown | Code::DeadlineExceeded) => {
                Self::Unreachable
            }
            (None, code) => Self::Nonsense(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Failure, REASON, Refused, Status};

    #[test]
    fn every_refusal_comes_back_as_itself() {
        for refused in Refused::ALL {
            let status = Status::from(refused);
            assert_eq!(status.code(), refused.code());
            assert_eq!(Failure::from(status), Failure::Refused(refused));
        }
    }

    #[test]
    fn a_status_that_is_not_ours_is_not_taken_for_a_refusal() {
        for code in [Code::Unavailable, Code::Cancelled, Code::Unknown, Code::DeadlineExceeded] {
            assert_eq!(Failure::from(Status::new(code, "")), Failure::Unreachable);
        }
        assert_eq!(Failure::from(Status::unimplemented("")), Failure::Nonsense(Code::Unimplemented));
        let mut status = Status::out_of_range("");
        status.metadata_mut().insert(REASON, "another".parse().unwrap());
        assert_eq!(Failure::from(status), Failure::Nonsense(Code::OutOfRange));
    }
}
