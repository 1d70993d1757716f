//! Manifests of version 1, as far as a server needs them that has published some: they are the beginning of its chain.

use core::fmt;

use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

use super::SIGNATURE_BYTES;
use crate::Error;
use crate::error::ManifestError;

/// Bytes of an encoded manifest of version 1.
pub const FORMER_BYTES: usize = 188;

const SIGNATURE_DOMAIN: &[u8] = b"sotto/manifest/v1/signature\0";
const DIGEST_DOMAIN: &[u8] = b"sotto/manifest/v1/digest\0";

/// An encoded manifest of version 1 and the signature on it.
#[derive(Clone, PartialEq, Eq)]
pub struct FormerManifest {
    /// The encoded manifest.
    pub bytes: [u8; FORMER_BYTES],
    /// The signature.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl FormerManifest {
    /// What the manifest after this one names as its predecessor, if the holder of `manifest_key` signed exactly this one.
    ///
    /// # Errors
    /// [`Error::Manifest`] for a signature of somebody else.
    pub fn digest(&self, manifest_key: &[u8; 32]) -> Result<[u8; 32], Error> {
        let unsigned = |_| Error::Manifest(ManifestError::Unsigned);
        let key = VerifyingKey::from_bytes(manifest_key).map_err(unsigned)?;
        let signed = [SIGNATURE_DOMAIN, &self.bytes].concat();
        key.verify_strict(&signed, &Signature::from_bytes(&self.signature)).map_err(unsigned)?;
        Ok(Sha256::new_with_prefix(DIGEST_DOMAIN).chain_update(self.bytes).finalize().into())
    }
}

impl fmt::Debug for FormerManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormerManifest").finish_non_exhaustive()
    }
}
