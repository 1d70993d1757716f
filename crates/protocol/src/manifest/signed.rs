//! A manifest and the server's signature on it.

use core::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use super::{MANIFEST_BYTES, Manifest};
use crate::error::ManifestError;
use crate::{Error, Round, SegmentEnd, ServerParameters};

/// Where the number of the round stands.
const ROUND_AT: usize = 8;

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

const SIGNATURE_DOMAIN: &[u8] = b"sotto/manifest/v3/signature\0";

/// An encoded manifest with an Ed25519 signature over a domain and those bytes; not verified yet.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedManifest {
    /// The encoded manifest.
    pub bytes: [u8; MANIFEST_BYTES],
    /// The signature.
    pub signature: [u8; SIGNATURE_BYTES],
    /// By what its seed is known to be the one that was fixed beforehand; the signature is not over it.
    pub segment: Option<SegmentEnd>,
}

impl SignedManifest {
    /// Signs a manifest.
    #[must_use]
    pub fn sign(manifest: &Manifest, key: &SigningKey) -> Self {
        let bytes = manifest.encode();
        Self { bytes, signature: key.sign(&signed_bytes(&bytes)).to_bytes(), segment: None }
    }

    /// The same with what shows that its seed was fixed beforehand.
    #[must_use]
    pub fn with_segment(self, segment: Option<SegmentEnd>) -> Self {
        Self { segment, ..self }
    }

    /// [`SignedManifest::verify`], for a server that has announced these parameters: its seed must be the one that was
    /// fixed. Without any (`segments` 0), which [`ServerParameters::check_shape`] refuses, tests of everything else make do.
    ///
    /// # Errors
    /// As for [`SignedManifest::verify`]; [`Error::Manifest`] for a round that no key signs, another seed, or one of which nothing shows that it was fixed.
    pub fn verify_for(&self, server: &ServerParameters) -> Result<Manifest, Error> {
        let key = server.manifest_key_of(self.claimed_round());
        let manifest = self.verify(&key.ok_or(Error::Manifest(ManifestError::KeyEnded))?)?;
        if server.seeds.segments > 0 {
            let segment = self.segment.as_ref().ok_or(Error::Manifest(ManifestError::SeedNotShown))?;
            server.seeds.verify(manifest.round, &manifest.round_seed, segment)?;
        }
        Ok(manifest)
    }

    /// The round that it says it is of; not verified.
    #[must_use]
    pub fn claimed_round(&self) -> Round {
        let mut round = [0; 8];
        round.iter_mut().zip(self.bytes.iter().skip(ROUND_AT)).for_each(|(to, from)| *to = *from);
        Round(u64::from_le_bytes(round))
    }

    /// The manifest, if the holder of `manifest_key` signed exactly it (strict verification, RFC 8032 without
    /// small-order keys).
    ///
    /// # Errors
    /// [`Error::Manifest`] for a signature of somebody else or impossible contents; [`Error::Malformed`] as for
    /// [`Manifest::decode`].
    pub fn verify(&self, manifest_key: &[u8; 32]) -> Result<Manifest, Error> {
        let key = VerifyingKey::from_bytes(manifest_key).map_err(|_| Error::Manifest(ManifestError::Key))?;
        key.verify_strict(&signed_bytes(&self.bytes), &Signature::from_bytes(&self.signature))
            .map_err(|_| Error::Manifest(ManifestError::Unsigned))?;
        Manifest::decode(&self.bytes)
    }
}

// Half a kilobyte of bytes tells nobody anything.
impl fmt::Debug for SignedManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedManifest").finish_non_exhaustive()
    }
}

fn signed_bytes(manifest: &[u8; MANIFEST_BYTES]) -> Vec<u8> {
    [SIGNATURE_DOMAIN, manifest].concat()
}
