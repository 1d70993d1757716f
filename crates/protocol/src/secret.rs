//! 32-byte secrets and the derivation of one from another by HKDF-SHA-256.

use core::fmt;

use hkdf::Hkdf;
use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub(crate) mod kem;
#[cfg(test)]
pub(crate) mod witness;

/// A secret of 32 bytes: erased on drop, never printed, never compared.
#[derive(Clone, Zeroize, ZeroizeOnDrop, Serialize, Deserialize)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        #[cfg(test)]
        witness::note(witness::GIVEN, &[], None, &bytes);
        Self(bytes)
    }

    pub(crate) fn random(rng: &mut impl CryptoRng) -> Self {
        let mut secret = Self([0; 32]);
        rng.fill_bytes(&mut secret.0);
        #[cfg(test)]
        witness::note(witness::RANDOM, &[], None, &secret.0);
        secret
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// HKDF-Extract with the domain as salt: one uniform secret from several parts, each of a fixed size.
    pub(crate) fn extract(domain: &str, parts: [&Secret; 2]) -> Self {
        let mut material = Zeroizing::new([0; 64]);
        let (first, second) = material.split_at_mut(32);
        first.copy_from_slice(&parts[0].0);
        second.copy_from_slice(&parts[1].0);
        let (secret, _) = Hkdf::<Sha256>::extract(Some(domain.as_bytes()), material.as_slice());
        #[cfg(test)]
        witness::note(domain, &[], None, &secret);
        Self(secret.into())
    }

    /// HKDF-Expand with info `domain | 0x00 | fields`; this secret is the pseudorandom key.
    ///
    /// At most 8,160 bytes; more leave the rest of `output` zero, which no caller comes near.
    pub(crate) fn expand_into(&self, domain: &str, fields: &[&[u8]], output: &mut [u8]) {
        let key = Hkdf::<Sha256>::from_prk(&self.0).expect("32 bytes are the size of a SHA-256 key");
        let mut info = Vec::with_capacity(fields.len() + 2);
        info.extend_from_slice(&[domain.as_bytes(), &[0]]);
        info.extend_from_slice(fields);
        let expanded = key.expand_multi_info(&info, output);
        debug_assert!(expanded.is_ok(), "an output of HKDF is at most 8,160 bytes");
        #[cfg(test)]
        witness::note(domain, fields, Some(&self.0), output);
    }

    pub(crate) fn expand(&self, domain: &str, fields: &[&[u8]]) -> Self {
        let mut secret = Self([0; 32]);
        self.expand_into(domain, fields, &mut secret.0);
        secret
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
