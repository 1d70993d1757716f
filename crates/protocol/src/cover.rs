//! Deposits that are no messages.

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::ratchet::RoundKey;
use crate::seal::PLAINTEXT_BYTES;
use crate::secret::Secret;
use crate::{Deposit, Round};

/// A deposit that looks and costs like a message, and that nobody can open: everything about it is drawn afresh.
pub fn cover(round: Round, rng: &mut impl CryptoRng) -> Deposit {
    let mut plaintext = Zeroizing::new([0; PLAINTEXT_BYTES]);
    rng.fill_bytes(plaintext.as_mut_slice());
    RoundKey::of_nobody(round, Secret::random(rng)).sealing(0).seal(&plaintext)
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::{PLAINTEXT_BYTES, cover};
    use crate::Round;
    use crate::ratchet::Chain;
    use crate::secret::Secret;

    #[test]
    fn cover_is_drawn_afresh_and_opens_for_nobody() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (one, other) = (cover(Round(1), &mut rng), cover(Round(1), &mut rng));
        assert!(one.label != other.label && one.sealed != other.sealed);
        let key = Chain::new(Round(1), Secret::new([7; 32])).take(Round(1)).unwrap().opening(0);
        assert!(key.open(&one.sealed.0).is_none());
    }

    /// Gives the same bytes again and again.
    struct Scripted(Vec<u8>, usize);

    impl rand_core::TryRng for Scripted {
        type Error = core::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(0)
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(0)
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.copy_from_slice(&self.0[self.1..self.1 + bytes.len()]);
            self.1 += bytes.len();
            Ok(())
        }
    }

    impl rand_core::TryCryptoRng for Scripted {}

    /// A label that followed from a number, or from anything else that others know, would tell them what is cover. It
    /// follows from every bit of 32 random bytes, and from nothing else.
    #[test]
    fn the_label_of_cover_follows_from_a_random_key_alone() {
        let drawn: Vec<u8> = (0..PLAINTEXT_BYTES + 32).map(|at| (at * at % 251) as u8).collect();
        let label = |drawn: &[u8]| cover(Round(1), &mut Scripted(drawn.to_vec(), 0)).label.0;
        assert_eq!(label(&drawn), label(&drawn));
        let mut labels = std::collections::BTreeSet::from([label(&drawn)]);
        for bit in 0..8 * drawn.len() {
            let mut other = drawn.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let of_the_key = bit >= 8 * PLAINTEXT_BYTES;
            assert_eq!(labels.insert(label(&other)), of_the_key, "bit {bit}");
        }
        assert_eq!(labels.len(), 257);
    }
}
