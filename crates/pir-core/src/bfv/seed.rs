//! Independent 32-byte seeds from one.

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::parameters::Parameters;

/// `SHA-256("sotto bfv v1" || 0 || domain || 0 || identity of the parameters || seed)`; domains contain no zero byte.
pub(super) fn derive(parameters: &Parameters, domain: &str, seed: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let digest = Sha256::new()
        .chain_update(b"sotto bfv v1\0")
        .chain_update(domain.as_bytes())
        .chain_update([0])
        .chain_update(parameters.identity())
        .chain_update(seed)
        .finalize();
    Zeroizing::new(digest.into())
}
