//! The key by which a person is known.

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// The seed of an identity, which is what is stored, with the key that follows from it: it is needed in every round, and
/// computing it takes a multiplication on the curve.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Secret", into = "Secret")]
pub(super) struct Identity {
    seed: Secret,
    key: SigningKey,
}

impl Identity {
    pub(super) fn key(&self) -> &SigningKey {
        &self.key
    }

    pub(super) fn public(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }
}

impl From<Secret> for Identity {
    fn from(seed: Secret) -> Self {
        Self { key: SigningKey::from_bytes(seed.bytes()), seed }
    }
}

impl From<Identity> for Secret {
    fn from(identity: Identity) -> Self {
        identity.seed
    }
}
