//! What a cluster's root key stands for: the nodes of the cluster, and the key that signs its manifests.

use core::fmt;
use std::sync::Arc;

use data_encoding::BASE32_NOPAD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use rustls::client::Resumption;
use rustls::pki_types::{Der, ServerName, TrustAnchor};
use rustls::{ClientConfig, RootCertStore, version};

use crate::Malformed;

/// The name that every node's certificate carries. Which node answers does not matter to a client, so there is one name
/// for all: a cluster moves to another host or port under the same certificates.
pub const NODE_NAME: &str = "node.sotto.invalid";

/// The issuer that every node's certificate carries (common name).
pub const ROOT_NAME: &str = "Sotto root";

/// What is spoken over TLS (ALPN).
pub const APPLICATION: &[u8] = b"h2";

/// Domain of the signature under the manifest key.
const DOMAIN: &[u8] = b"sotto v1 manifest key";

/// The public half of a root key, Ed25519. Clients have it from the server's address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RootKey(pub [u8; 32]);

/// A root's signature under a manifest key, 64 bytes.
pub type Endorsement = [u8; 64];

impl RootKey {
    /// Whether the root vouches for a manifest key (strict: one signature, one meaning).
    ///
    /// # Errors
    /// [`Malformed`] if it does not.
    pub fn check(&self, manifest_key: &[u8; 32], endorsement: &Endorsement) -> Result<(), Malformed> {
        let wrong = |_| Malformed("endorsement of the manifest key");
        let key = VerifyingKey::from_bytes(&self.0).map_err(wrong)?;
        let message = message(&self.0, manifest_key);
        key.verify_strict(&message, &Signature::from_bytes(endorsement)).map_err(wrong)
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
        /// OID 2.5.4.3, common name; then a UTF-8 string.
        const COMMON_NAME: [u8; 6] = [0x06, 0x03, 0x55, 0x04, 0x03, 0x0c];
        /// OID 1.3.101.112, Ed25519; then a bit string of 33 bytes, none of whose bits is unused.
        const ED25519: [u8; 10] = [0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        let name = ROOT_NAME.len() as u8;
        let attribute = COMMON_NAME.len() as u8 + 1 + name;
        let mut subject = vec![0x31, attribute + 2, 0x30, attribute];
        subject.extend_from_slice(&COMMON_NAME);
        subject.push(name);
        subject.extend_from_slice(ROOT_NAME.as_bytes());
        TrustAnchor {
            subject: Der::from(subject),
            subject_public_key_info: Der::from([ED25519.as_slice(), &self.0].concat()),
            name_constraints: None,
        }
    }
}

/// The name by which a client asks for any node.
#[must_use]
pub fn node_name() -> ServerName<'static> {
    ServerName::try_from(NODE_NAME).expect("the name is one of DNS")
}

/// Vouches for a manifest key with a root's secret half.
#[must_use]
pub fn endorse(root: &SigningKey, manifest_key: &[u8; 32]) -> Endorsement {
    root.sign(&message(&root.verifying_key().to_bytes(), manifest_key)).to_bytes()
}

fn message(root: &[u8; 32], manifest_key: &[u8; 32]) -> Vec<u8> {
    [DOMAIN, root, manifest_key].concat()
}

impl fmt::Display for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD.encode(&self.0).to_ascii_lowercase())
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::{RootKey, endorse};

    #[test]
    fn nobody_but_the_root_vouches_for_a_manifest_key() {
        let root = SigningKey::from_bytes(&[1; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        let endorsement = endorse(&root, &[7; 32]);
        assert_eq!(key.check(&[7; 32], &endorsement), Ok(()));
        assert!(key.check(&[8; 32], &endorsement).is_err());
        let other = SigningKey::from_bytes(&[2; 32]);
        assert!(key.check(&[7; 32], &endorse(&other, &[7; 32])).is_err());
        assert!(RootKey(other.verifying_key().to_bytes()).check(&[7; 32], &endorsement).is_err());
        let mut spoilt = endorsement;
        spoilt[63] ^= 1;
        assert!(key.check(&[7; 32], &spoilt).is_err());
    }
}
