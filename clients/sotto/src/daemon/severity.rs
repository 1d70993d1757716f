//! How much what the participant tells is to be heeded.

use sotto_protocol::client::Warning;

use super::message::Severity;
use sotto_participant::Trouble;
use sotto_session::ConnectError;

/// What may also come about by itself, or tells the person what to do, is a warning. All else an honest server and honest
/// contacts do not do, or somebody else has something that was this person's alone.
pub(super) fn of_warning(warning: &Warning) -> Severity {
    match warning {
        Warning::BadMapping { .. }
        | Warning::Corrupted { .. }
        | Warning::HistoryLost
        | Warning::RekeyNeeded { .. }
        | Warning::CardKeys { .. } => Severity::Warning,
        _ => Severity::Alarm,
    }
}

/// Texts are repeated, so that most troubles only take time.
pub(super) fn of_trouble(trouble: &Trouble) -> Severity {
    match trouble {
        Trouble::Doubled | Trouble::HintForged | Trouble::Receipt => Severity::Alarm,
        _ => Severity::Warning,
    }
}

/// A server that is gone comes back; one that is another than before does not.
pub(super) fn of_loss(error: &ConnectError) -> Severity {
    match error {
        ConnectError::WrongKey | ConnectError::Parameters(_) | ConnectError::Security { .. } => {
            Severity::Alarm
        }
        _ => Severity::Warning,
    }
}

#[cfg(test)]
mod tests {
    use sotto_protocol::ConversationId;
    use sotto_protocol::client::Warning;

    use super::{of_loss, of_trouble, of_warning};
    use crate::daemon::message::Severity;
    use sotto_participant::Trouble;
    use sotto_session::ConnectError;

    #[test]
    fn what_somebody_does_is_told_from_what_happens() {
        let conversation = ConversationId(1);
        for harm in [
            Warning::OtherKeys { conversation },
            Warning::SplitView { conversation },
            Warning::NameBorrowed { conversation },
            Warning::IdentityHeld { conversation, held: None },
        ] {
            assert_eq!(of_warning(&harm), Severity::Alarm, "{harm}");
        }
        assert_eq!(of_warning(&Warning::Corrupted { conversation }), Severity::Warning);
        assert_eq!(of_trouble(&Trouble::Doubled), Severity::Alarm);
        assert_eq!(of_trouble(&Trouble::LookupLate), Severity::Warning);
        assert_eq!(of_loss(&ConnectError::WrongKey), Severity::Alarm);
        assert_eq!(of_loss(&ConnectError::Unreachable(String::new())), Severity::Warning);
    }
}
