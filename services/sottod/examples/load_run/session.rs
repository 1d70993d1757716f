//! Registering, and why a call failed.

use sotto_session::{ConnectError, Connection, Session};
use sotto_wire::{Failure, Info};

/// Opens a session for the account with this number.
pub(crate) async fn session(
    connection: &Connection,
    info: &Info,
    number: usize,
) -> Result<Session, ConnectError> {
    let mut seed = [0x4c; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    connection.session(&seed, info, None).await
}

/// The reason word of a refusal; for want of one, what the call met with.
pub(crate) fn word(failure: Failure) -> String {
    match failure {
        Failure::Refused(refused) => refused.reason().to_owned(),
        Failure::Unreachable => "unreachable".to_owned(),
        Failure::Nonsense(code) => format!("{code:?}"),
    }
}
