//! Whether to have anything to do with a server.

use std::sync::Arc;

use mpir::{Engine, Engines};
use sotto_protocol::{PROTOCOL_VERSION, ServerParameters, Succession};
use sotto_wire::{Info, RootKey};

use crate::ConnectError;
use crate::round_spec::security_bits;

/// Whether a client with these engines may work with a server of these parameters.
///
/// The security that counts is what this program's own engine has; the server's word alone would be worth nothing.
///
/// # Errors
/// The [`ConnectError`] that says what is wrong and what to do.
pub fn check(
    engines: &Engines,
    info: &Info,
    root: &RootKey,
    allow_no_privacy: bool,
) -> Result<(), ConnectError> {
    let parameters = &info.parameters;
    if parameters.protocol_version != PROTOCOL_VERSION {
        return Err(ConnectError::Version { theirs: Some(parameters.protocol_version) });
    }
    root.check(parameters, &info.endorsement).map_err(|_| ConnectError::WrongKey)?;
    let engine = engine(engines, parameters)?;
    if !allow_no_privacy {
        let bits = security_bits(&**engine).min(parameters.security_bits);
        if bits < ServerParameters::SECURITY_MIN {
            return Err(ConnectError::Security { bits });
        }
        // Without room between the slots, the work before a call would show in its time.
        parameters.check_timing().map_err(ConnectError::Parameters)?;
    }
    parameters.check_shape().map_err(ConnectError::Parameters)
}

/// The engine that a server announces, if it is one of these.
///
/// # Errors
/// [`ConnectError::Engine`] if it is not.
pub fn engine<'a>(
    engines: &'a Engines,
    parameters: &ServerParameters,
) -> Result<&'a Arc<dyn Engine>, ConnectError> {
    engines.get(&parameters.engine).ok_or_else(|| ConnectError::Engine {
        theirs: parameters.engine.clone(),
        ours: engines.names().next().unwrap_or_default(),
    })
}

/// [`check`], and how what is announced stands to the parameters that an account keeps, if there are any. A later
/// announcement is one to take over; whoever cannot must not go on with the server.
///
/// # Errors
/// As for [`check`]; [`ConnectError::Downgrade`] if the server goes back, or has two announcements under one number.
pub fn verify(
    engines: &Engines,
    info: &Info,
    root: &RootKey,
    kept: Option<&ServerParameters>,
    allow_no_privacy: bool,
) -> Result<Succession, ConnectError> {
    check(engines, info, root, allow_no_privacy)?;
    let Some(kept) = kept else { return Ok(Succession::Same) };
    info.parameters.succeeds(kept).map_err(ConnectError::Downgrade)
}

#[cfg(test)]
pub(crate) mod tests {
    use ed25519_dalek::SigningKey;
    use mpir::{Engines, noop, sealpir};
    use sotto_protocol::{
        CodeKind, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters, Succession,
    };
    use sotto_wire::root::endorse;
    use sotto_wire::{Info, RootKey};

    use super::{check, verify};
    use crate::ConnectError;

    pub(crate) fn parameters() -> ServerParameters {
        ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            serial: 3,
            manifest_key: [3; 32],
            seeds: SeedCommitment { first: Round(1), segments: 1, root: [5; 32] },
            engine: noop().name().into(),
            security_bits: 0,
            code: CodeKind::Cuckoo,
            retrieve: 4,
            buckets: 8,
            choices: 3,
            retained: 2,
            mode: RoundMode::Deadline,
            round_ms: 1000,
            deposit_ms: 100,
            lookup_ms: 100,
            query_ms: 200,
            deposit_spread_ms: 0,
            query_spread_ms: 0,
            key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
        }
    }

    fn root(seed: u8) -> (SigningKey, RootKey) {
        let root = SigningKey::from_bytes(&[seed; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        (root, key)
    }

    fn judge(parameters: ServerParameters, allow_no_privacy: bool) -> Result<(), ConnectError> {
        let (root, key) = root(1);
        let endorsement = endorse(&root, &parameters);
        let info = Info { parameters, open: Round(1), endorsement, token_required: false };
        check(&Engines::default(), &info, &key, allow_no_privacy)
    }

    #[test]
    fn an_unacceptable_server_is_refused_with_what_to_do() {
        assert_eq!(judge(parameters(), true), Ok(()));
        let version = ServerParameters { protocol_version: PROTOCOL_VERSION + 1, ..parameters() };
        let refused = judge(version, true).unwrap_err();
        assert_eq!(refused, ConnectError::Version { theirs: Some(PROTOCOL_VERSION + 1) });
        assert!(refused.to_string().contains("update"));
        let engine = ServerParameters { engine: "another".into(), ..parameters() };
        let refused = judge(engine, true).unwrap_err();
        assert!(matches!(refused, ConnectError::Engine { .. }), "{refused}");
        let shape = ServerParameters { retained: 9, ..parameters() };
        assert!(matches!(judge(shape, true), Err(ConnectError::Parameters(_))));
    }

    #[test]
    fn what_the_root_has_not_signed_is_refused() {
        let ((root, key), (_, other)) = (root(1), root(2));
        let endorsement = endorse(&root, &parameters());
        let info = Info { parameters: parameters(), open: Round(1), endorsement, token_required: false };
        assert_eq!(check(&Engines::default(), &info, &key, true), Ok(()));
        assert_eq!(check(&Engines::default(), &info, &other, true), Err(ConnectError::WrongKey));
        let others = [
            ServerParameters { manifest_key: [4; 32], ..parameters() },
            ServerParameters { serial: 4, ..parameters() },
            ServerParameters { round_ms: 2000, ..parameters() },
        ];
        for another in others {
            let info = Info { parameters: another, ..info.clone() };
            assert_eq!(check(&Engines::default(), &info, &key, true), Err(ConnectError::WrongKey));
        }
    }

    #[test]
    fn a_later_announcement_is_told_from_the_same_and_from_a_downgrade() {
        let (root, key) = root(1);
        let verify = |parameters: ServerParameters, kept: &ServerParameters| {
            let endorsement = endorse(&root, &parameters);
            let info = Info { parameters, open: Round(1), endorsement, token_required: false };
            verify(&Engines::default(), &info, &key, Some(kept), true)
        };
        let later = ServerParameters { serial: 4, round_ms: 2000, ..parameters() };
        assert_eq!(verify(parameters(), &parameters()), Ok(Succession::Same));
        assert_eq!(verify(later.clone(), &parameters()), Ok(Succession::Later));
        assert!(matches!(verify(parameters(), &later), Err(ConnectError::Downgrade(_))));
        let two = ServerParameters { serial: 3, ..later };
        assert!(matches!(verify(two, &parameters()), Err(ConnectError::Downgrade(_))));
        let unacceptable = ServerParameters { serial: 4, retained: 9, ..parameters() };
        assert!(matches!(verify(unacceptable, &parameters()), Err(ConnectError::Parameters(_))));
    }

    /// Queries that take longer to build than their slot would leave when they are built.
    #[test]
    fn attack_a8_a_server_with_more_buckets_than_its_slots_have_time_for_is_refused() {
        let (root, key) = root(1);
        let judge = |buckets, query_ms| {
            let engine = sealpir().name().into();
            let parameters =
                ServerParameters { engine, security_bits: 128, buckets, query_ms, ..parameters() };
            let endorsement = endorse(&root, &parameters);
            check(
                &Engines::default(),
                &Info { parameters, open: Round(1), endorsement, token_required: false },
                &key,
                false,
            )
        };
        assert_eq!(judge(24, 200), Ok(()));
        for (buckets, query_ms) in [(1024, 150), (1024, 661), (384, 341), (24, 161)] {
            let refused = judge(buckets, query_ms).unwrap_err();
            assert!(matches!(&refused, ConnectError::Parameters(_)), "{refused}");
            assert!(refused.to_string().contains("buckets"), "{refused}");
            assert_eq!(judge(buckets, query_ms + 512), Ok(()));
        }
    }

    #[test]
    fn a_server_that_claims_security_does_not_make_an_insecure_engine_acceptable() {
        let boasting = ServerParameters { security_bits: 256, ..parameters() };
        assert_eq!(judge(boasting, false), Err(ConnectError::Security { bits: 0 }));
    }
}
