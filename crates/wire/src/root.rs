//! What a cluster's root key stands for: the nodes of the cluster, and what they announce: parameters, the key that signs
//! manifests, the seeds of rounds.

use core::fmt;
use std::sync::Arc;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use rustls::client::Resumption;
use rustls::pki_types::alg_id::ED25519;
use rustls::pki_types::{Der, ServerName, TrustAnchor};
use rustls::sign::public_key_to_spki;
use rustls::{ClientConfig, RootCertStore, version};

use sotto_protocol::ServerParameters;
use sotto_protocol::base32::BASE32;
use sotto_protocol::negotiation::ANNOUNCEMENT_BYTES;

use crate::Malformed;
use crate::convert::Endorsement;

/// The name that every node's certificate carries. Which node answers does not matter to a client, so there is one name
/// for all: a cluster moves to another host or port under the same certificates.
pub const NODE_NAME: &str = "node.sotto.invalid";

/// The issuer that every node's certificate carries (common name).
pub const ROOT_NAME: &str = "Sotto root";

/// [`ROOT_NAME`] as a certificate holds it: a set of one sequence of the identifier of common names and a UTF-8 string.
const ROOT_SUBJECT: &[u8] = b"\x31\x13\x30\x11\x06\x03\x55\x04\x03\x0c\x0aSotto root";
/// Kind and length of a sequence of less than 128 bytes, which a public key's is.
const SEQUENCE_HEADER: usize = 2;

/// What is spoken over TLS (ALPN).
pub const APPLICATION: &[u8] = b"h2";

/// Domain of the signature under an announcement.
const DOMAIN: &[u8] = b"sotto v4 announcement";
/// The same for earlier versions of the protocol, with the bytes of an announcement of then. A server that made one reads
/// number and manifest key of it.
const FORMER_DOMAINS: [(usize, &[u8]); 2] =
    [(145, b"sotto v2 announcement"), (153, b"sotto v3 announcement")];

/// The public half of a root key, Ed25519. Clients have it from the server's address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RootKey(pub [u8; 32]);

impl RootKey {
    /// Whether the root has signed these parameters (strict: one signature, one meaning).
    ///
    /// # Errors
    /// [`Malformed`] if it has not.
    pub fn check(&self, parameters: &ServerParameters, endorsement: &Endorsement) -> Result<(), Malformed> {
        self.check_encoded(&parameters.encode(), endorsement)
    }

    /// [`RootKey::check`] for parameters as [`ServerParameters::encode`] gives them.
    ///
    /// # Errors
    /// As for [`RootKey::check`].
    pub fn check_encoded(
        &self,
        parameters: &[u8; ANNOUNCEMENT_BYTES],
        endorsement: &Endorsement,
    ) -> Result<(), Malformed> {
        self.verify(&[DOMAIN, &self.0, parameters].concat(), endorsement)
    }

    /// Whether the root has signed an announcement of an earlier version: for the server that made it. No client accepts one.
    ///
    /// # Errors
    /// As for [`RootKey::check`], and for other sizes than announcements had.
    pub fn check_former(&self, parameters: &[u8], endorsement: &Endorsement) -> Result<(), Malformed> {
        let domain = FORMER_DOMAINS.iter().find(|(bytes, _)| *bytes == parameters.len());
        let (_, domain) = domain.ok_or(Malformed("announcement"))?;
        self.verify(&[*domain, &self.0, parameters].concat(), endorsement)
    }

    fn verify(&self, message: &[u8], endorsement: &Endorsement) -> Result<(), Malformed> {
        let wrong = |_| Malformed("signature of the parameters");
        let key = VerifyingKey::from_bytes(&self.0).map_err(wrong)?;
        key.verify_strict(message, &Signature::from_bytes(endorsement)).map_err(wrong)
    }

    /// What a client believes of whoever answers: TLS 1.3 only, certificates of this root only. The name of the host is
    /// not sent, and sessions are not resumed.
    ///
    /// # Errors
    /// [`Malformed`] if this is no key.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, Malformed> {
        VerifyingKey::from_bytes(&self.0).map_err(|_| Malformed("root key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = RootCertStore { roots: vec![self.trust_anchor()] };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|_| Malformed("TLS version"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![APPLICATION.to_vec()];
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// The root as the end of a chain of certificates: the contents (DER) of its name and of its public key.
    #[must_use]
    pub fn trust_anchor(&self) -> TrustAnchor<'static> {
        let key = public_key_to_spki(&ED25519, self.0);
        TrustAnchor {
            subject: Der::from_slice(ROOT_SUBJECT),
            subject_public_key_info: Der::from(key[SEQUENCE_HEADER..].to_vec()),
            name_constraints: None,
        }
    }
}

/// The name by which a client asks for any node.
#[must_use]
pub fn node_name() -> ServerName<'static> {
    ServerName::try_from(NODE_NAME).expect("the name is one of DNS")
}

/// Signs an announcement with a root's secret half.
#[must_use]
pub fn endorse(root: &SigningKey, parameters: &ServerParameters) -> Endorsement {
    root.sign(&[DOMAIN, &root.verifying_key().to_bytes(), &parameters.encode()].concat()).to_bytes()
}

impl fmt::Display for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32.encode(&self.0))
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({self})")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ed25519_dalek::{Signer, SigningKey};
    use sotto_protocol::{CodeKind, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters};

    use super::{RootKey, endorse};

    pub(crate) fn parameters(serial: u64) -> ServerParameters {
        ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            serial,
            manifest_key: [7; 32],
            seeds: SeedCommitment { first: Round(1), segments: 1, root: [2; 32] },
            engine: "none".into(),
            security_bits: 128,
            code: CodeKind::Single,
            retrieve: 1,
            buckets: 1,
            choices: 1,
            retained: 2,
            mode: RoundMode::Deadline,
            round_ms: 1000,
            deposit_ms: 100,
            lookup_ms: 100,
            query_ms: 200,
            deposit_spread_ms: 0,
            query_spread_ms: 50,
            key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
        }
    }

    #[test]
    fn nobody_but_the_root_announces_anything() {
        let root = SigningKey::from_bytes(&[1; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        let endorsement = endorse(&root, &parameters(3));
        assert_eq!(key.check(&parameters(3), &endorsement), Ok(()));
        assert!(key.check(&parameters(4), &endorsement).is_err());
        let other = SigningKey::from_bytes(&[2; 32]);
        assert!(key.check(&parameters(3), &endorse(&other, &parameters(3))).is_err());
        assert!(RootKey(other.verifying_key().to_bytes()).check(&parameters(3), &endorsement).is_err());
        let mut spoilt = endorsement;
        spoilt[63] ^= 1;
        assert!(key.check(&parameters(3), &spoilt).is_err());
    }

    /// What version 3 of the protocol signed, by another program.
    #[test]
    fn an_announcement_of_an_earlier_version_is_known_by_the_server_that_made_it() {
        let root = SigningKey::from_bytes(&[1; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        let now = parameters(3).encode();
        let mut then = now[..153].to_vec();
        then[8] = 3;
        let signed = [b"sotto v3 announcement".as_slice(), &key.0, &then].concat();
        let endorsement = root.sign(&signed).to_bytes();
        assert_eq!(endorsement[..4], [0x43, 0x39, 0x64, 0x45]);
        assert_eq!(key.check_former(&then, &endorsement), Ok(()));
        assert!(
            key.check_former(&now, &endorsement).is_err() && key.check_former(&[], &endorsement).is_err()
        );
        assert!(key.check_encoded(&now, &endorsement).is_err());
    }

    /// Made by a program that shares no code with this one, from the text of the protocol.
    #[test]
    fn an_endorsement_has_the_published_bytes() {
        let expected = concat!(
            "26039990a28a32280d32d12666e64ad6dbdc5a601f6fe8529d556a3ca6c9a606",
            "f7edf6520dd592b758897ac66ac08a8bc01e47cda5d8e44bc7d0d6580dd0490e",
        );
        let endorsement = endorse(&SigningKey::from_bytes(&[1; 32]), &parameters(3));
        let actual: String = endorsement.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(actual, expected);
    }
}
