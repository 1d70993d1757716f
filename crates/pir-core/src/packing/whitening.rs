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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Packing, whiten};

    /// Of two places with one keystream the difference of what lies there would show, which the noise's bound excludes.
    #[test]
    fn every_place_has_a_keystream_of_its_own() {
        // Elements of three plaintexts each.
        let packing = Packing::new(5, 5_000).unwrap();
        assert_eq!((packing.plaintexts(), packing.groups()), (5, 3));
        let places = (0..5).flat_map(|plaintext| (0..3).map(move |group| (plaintext, group)));
        let keystreams: BTreeSet<[u8; 16]> = places
            .map(|(plaintext, group)| {
                let mut bytes = [0; 16];
                whiten(&packing, &mut bytes, group, plaintext);
                bytes
            })
            .collect();
        assert_eq!(keystreams.len(), 15);
    }
}
