//! The keystream of whitening.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use super::layout::Packing;
use crate::ring::sampling;

/// XORs the public keystream of a plaintext into its bytes: ChaCha8 under SHA-256("sotto sealpir whitening v2"), stream
/// `plaintext * groups + group`.
pub(crate) fn whiten(packing: &Packing, bytes: &mut [u8], group: usize, plaintext: usize) {
    static SEED: LazyLock<[u8; 32]> = LazyLock::new(|| Sha256::digest(b"sotto sealpir whitening v2").into());
    sampling::whiten(bytes, &SEED, (plaintext * packing.groups() + group) as u64);
}
