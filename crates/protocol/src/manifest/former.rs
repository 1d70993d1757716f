//! Manifests of earlier versions, as far as a server needs them that has published some: they are the beginning of its chain.

use core::fmt;

use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

use super::SIGNATURE_BYTES;
use crate::Error;
use crate::error::{Malformed, ManifestError};

/// An encoded manifest of an earlier version and the signature on it.
#[derive(Clone, PartialEq, Eq)]
pub struct FormerManifest {
    version: u16,
    bytes: Box<[u8]>,
    signature: [u8; SIGNATURE_BYTES],
}

impl FormerManifest {
    /// The earlier versions, and the bytes of an encoded manifest of each.
    pub const VERSIONS: [(u16, usize); 2] = [(1, 188), (2, 220)];

    /// Bytes of an encoded manifest of a version; none if it is no earlier one.
    #[must_use]
    pub fn bytes_of(version: u16) -> Option<usize> {
        Self::VERSIONS.iter().find(|(former, _)| *former == version).map(|(_, bytes)| *bytes)
    }

    /// A manifest of that version.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another size, or a version that is no earlier one.
    pub fn new(version: u16, bytes: &[u8], signature: [u8; SIGNATURE_BYTES]) -> Result<Self, Error> {
        if Self::bytes_of(version) != Some(bytes.len()) {
            return Err(Error::Malformed(Malformed::FormerManifest));
        }
        Ok(Self { version, bytes: bytes.into(), signature })
    }

    /// Its version.
    #[must_use]
    pub const fn version(&self) -> u16 {
        self.version
    }

    /// The encoded manifest.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The signature.
    #[must_use]
    pub const fn signature(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.signature
    }

    /// What the manifest after this one names as its predecessor, if the holder of `manifest_key` signed exactly this one.
    ///
    /// # Errors
    /// [`Error::Manifest`] for a signature of somebody else.
    pub fn digest(&self, manifest_key: &[u8; 32]) -> Result<[u8; 32], Error> {
        let unsigned = |_| Error::Manifest(ManifestError::Unsigned);
        let key = VerifyingKey::from_bytes(manifest_key).map_err(unsigned)?;
        let signed = [&self.domain("signature"), &*self.bytes].concat();
        key.verify_strict(&signed, &Signature::from_bytes(&self.signature)).map_err(unsigned)?;
        Ok(Sha256::new_with_prefix(self.domain("digest")).chain_update(&self.bytes).finalize().into())
    }

    fn domain(&self, of: &str) -> Vec<u8> {
        format!("sotto/manifest/v{}/{of}\0", self.version).into_bytes()
    }
}

impl fmt::Debug for FormerManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormerManifest").field("version", &self.version).finish_non_exhaustive()
    }
}
