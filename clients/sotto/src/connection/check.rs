//! Whether to have anything to do with a server.

use pir_core::Scheme;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{PROTOCOL_VERSION, ServerParameters};

use super::ConnectError;

/// Whether a client with the engine `S` may work with a server of these parameters.
///
/// The security that counts is what this program's own engine has; the server's word alone would be worth nothing.
///
/// # Errors
/// The [`ConnectError`] that says what is wrong and what to do.
pub fn check<S: Scheme>(
    parameters: &ServerParameters,
    manifest_key: &[u8; 32],
    allow_no_privacy: bool,
) -> Result<(), ConnectError> {
    if parameters.protocol_version != PROTOCOL_VERSION {
        return Err(ConnectError::Version { theirs: Some(parameters.protocol_version) });
    }
    if parameters.manifest_key != *manifest_key {
        return Err(ConnectError::WrongKey);
    }
    if parameters.engine != S::NAME {
        return Err(ConnectError::Engine { theirs: parameters.engine.clone(), ours: S::NAME });
    }
    if !allow_no_privacy {
        let ours = S::parameters(1, BOX_BYTES).map_or(0, |parameters| S::security_bits(&parameters));
        let bits = ours.min(parameters.security_bits);
        if bits < ServerParameters::SECURITY_MIN {
            return Err(ConnectError::Security { bits });
        }
        // Without room between the slots, the work before a call would show in its time.
        parameters.check_timing().map_err(|error| ConnectError::Parameters(error.to_string()))?;
    }
    parameters.check_shape().map_err(|error| ConnectError::Parameters(error.to_string()))
}

#[cfg(test)]
mod tests {
    use pir_core::{NoOp, Scheme as _};
    use sotto_protocol::{PROTOCOL_VERSION, RoundMode, ServerParameters};

    use super::{ConnectError, check};

    fn parameters() -> ServerParameters {
        ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            manifest_key: [3; 32],
            engine: NoOp::NAME.into(),
            security_bits: 0,
            retrieve: 4,
            buckets: 8,
            choices: 3,
            retained: 2,
            mode: RoundMode::Deadline,
            round_ms: 1000,
            deposit_ms: 100,
            lookup_ms: 100,
            query_ms: 200,
        }
    }

    #[test]
    fn an_unacceptable_server_is_refused_with_what_to_do() {
        assert_eq!(check::<NoOp>(&parameters(), &[3; 32], true), Ok(()));
        assert_eq!(check::<NoOp>(&parameters(), &[4; 32], true), Err(ConnectError::WrongKey));
        let version = ServerParameters { protocol_version: PROTOCOL_VERSION + 1, ..parameters() };
        let refused = check::<NoOp>(&version, &[3; 32], true).unwrap_err();
        assert_eq!(refused, ConnectError::Version { theirs: Some(PROTOCOL_VERSION + 1) });
        assert!(refused.to_string().contains("update"));
        let engine = ServerParameters { engine: "another".into(), ..parameters() };
        let refused = check::<NoOp>(&engine, &[3; 32], true).unwrap_err();
        assert!(matches!(refused, ConnectError::Engine { .. }), "{refused}");
        let shape = ServerParameters { retained: 9, ..parameters() };
        assert!(matches!(check::<NoOp>(&shape, &[3; 32], true), Err(ConnectError::Parameters(_))));
    }

    #[test]
    fn a_server_that_claims_security_does_not_make_an_insecure_engine_acceptable() {
        let boasting = ServerParameters { security_bits: 256, ..parameters() };
        assert_eq!(check::<NoOp>(&boasting, &[3; 32], false), Err(ConnectError::Security { bits: 0 }));
    }
}
