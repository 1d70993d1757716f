//! What an answer holds of each group, as it is written and as it is read.

use zeroize::Zeroizing;

use super::further::CHUNKS;
use crate::bfv;
use crate::bfv::SecretKey;
use crate::packing::{Packing, plaintext_bytes, whiten};
use crate::ring::Ntt;
use crate::ring::bits::{BitReader, BitWriter, packed_bytes};

/// The bits of an answer's coefficients beyond those of its plaintext: 8, or more where the failure bound demands.
pub const ANSWER_MARGIN_BITS: core::ops::RangeInclusive<u32> = 8..=12;

/// The ciphertexts of one group: after d dimensions there are `4^(d-1)`, each with its N coefficients of c0, then those of
/// c1. Those of the dimension before are chunks: low and high of c0, low and high of c1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerForm {
    /// d, at least 1.
    pub dimensions: u32,
    /// Bits of each coefficient.
    pub bits: u32,
}

impl AnswerForm {
    /// The number of ciphertexts, `4^(d-1)`.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        CHUNKS.pow(self.dimensions - 1)
    }

    /// Bytes of all ciphertexts of a group.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ciphertexts() * packed_bytes(2 * bfv::Parameters::s2048().degree(), self.bits)
    }

    /// Switches a ciphertext of the given ring to the answer's modulus and appends it; it is used up.
    pub fn write(&self, ntt: &Ntt, ciphertext: [&mut [u64]; 2], answer: &mut Vec<u8>) {
        let rescale = bfv::Parameters::to_power_of_two(ntt, self.bits);
        let mut writer = BitWriter::new(answer);
        for half in ciphertext {
            ntt.inverse(half);
            rescale.apply_all(half);
            half.iter().for_each(|value| writer.write(*value, self.bits));
        }
        writer.finish();
    }

    /// Decrypts the ciphertexts of all groups, and picks the element of a slot of a plaintext. No branch and no memory
    /// access depends on either.
    #[must_use]
    pub fn extract(
        &self,
        secret: &SecretKey,
        packing: &Packing,
        [plaintext, slot]: [usize; 2],
        body: &[u8],
    ) -> Vec<u8> {
        let mut reader = BitReader::new(body);
        let mut element = Vec::with_capacity(packing.element_bytes());
        for group in 0..packing.groups() {
            let coefficients = self.decrypt_nested(secret, self.dimensions, &mut reader);
            let mut bytes = Zeroizing::new(Vec::with_capacity(plaintext_bytes()));
            let mut writer = BitWriter::new(&mut bytes);
            let bits = bfv::Parameters::s2048().plaintext_bits();
            coefficients.iter().for_each(|coefficient| writer.write(*coefficient, bits));
            writer.finish();
            whiten(packing, &mut bytes, group, plaintext);
            packing.select(&bytes, group, slot, &mut element);
        }
        element
    }

    /// Reads and decrypts one ciphertext.
    fn decrypt(&self, secret: &SecretKey, reader: &mut BitReader<'_>) -> Zeroizing<Vec<u64>> {
        let bfv = bfv::Parameters::s2048();
        let mut half = || (0..bfv.degree()).map(|_| reader.read(self.bits)).collect::<Vec<u64>>();
        let (c0, c1) = (half(), half());
        secret.decrypt(bfv, &c0, &c1, self.bits)
    }

    /// Reads and decrypts a ciphertext or, with more dimensions than one, what carries the four chunks of a ciphertext
    /// modulo `t^2`, and decrypts that.
    fn decrypt_nested(
        &self,
        secret: &SecretKey,
        dimensions: u32,
        reader: &mut BitReader<'_>,
    ) -> Zeroizing<Vec<u64>> {
        if dimensions == 1 {
            return self.decrypt(secret, reader);
        }
        let bfv = bfv::Parameters::s2048();
        let mut half = || {
            let low = self.decrypt_nested(secret, dimensions - 1, reader);
            let high = self.decrypt_nested(secret, dimensions - 1, reader);
            low.iter()
                .zip(high.iter())
                .map(|(low, high)| low | high << bfv.plaintext_bits())
                .collect::<Vec<u64>>()
        };
        // They tell the column.
        let (c0, c1) = (Zeroizing::new(half()), Zeroizing::new(half()));
        secret.decrypt(bfv, &c0, &c1, 2 * bfv.plaintext_bits())
    }
}
