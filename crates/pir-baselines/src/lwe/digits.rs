//! Words, and elements cut into digits.

use pir_core::constant_time::equal;
use subtle::ConditionallySelectable;
use zeroize::Zeroizing;

use super::noise::MODULUS_BITS;

/// Bytes of a word modulo 2^32.
pub(crate) const WORD_BYTES: usize = 4;

/// Words that were sent, little-endian; what is left of them at the end is no word.
pub(crate) fn read_words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// A word that was sent.
#[inline(always)]
pub(crate) fn read_word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

/// The digits of a word, of `bits` bits each, lowest first, centred.
pub(crate) fn split_word<'a>(word: u32, bits: u32, digits: impl Iterator<Item = &'a mut i8>) {
    let shifts = (0..MODULUS_BITS).step_by(bits as usize);
    digits.zip(shifts).for_each(|(digit, shift)| {
        let value = (word >> shift) & ((1 << bits) - 1);
        *digit = (value as i16 - (1 << (bits - 1))) as i8;
    });
}

/// The inverse of [`split_word`] for digits that are not centred; of the highest, what is beyond the word is lost.
#[inline(always)]
pub(crate) fn join_word(digits: impl Iterator<Item = u32>, bits: u32) -> u32 {
    digits.zip((0..MODULUS_BITS).step_by(bits as usize)).fold(0, |word, (digit, shift)| word | digit << shift)
}

/// The digits of an element, of `bits <= 8` bits each, lowest bits of the lowest byte first, centred: `[0, 2^bits)` becomes
/// `[-2^(bits-1), 2^(bits-1))`. Bits beyond the end are 0.
pub(crate) fn split_digits(element: &[u8], bits: u32, digits: &mut [i8]) {
    if bits == 8 {
        digits.iter_mut().zip(element).for_each(|(digit, byte)| *digit = byte.wrapping_sub(128) as i8);
        return;
    }
    for (number, digit) in digits.iter_mut().enumerate() {
        let at = number * bits as usize;
        let byte = |number: usize| u16::from(element.get(number).copied().unwrap_or(0));
        let word = byte(at / 8) | byte(at / 8 + 1) << 8;
        let value = (word >> (at % 8)) & ((1 << bits) - 1);
        *digit = (value as i16 - (1 << (bits - 1))) as i8;
    }
}

/// The inverse of [`split_digits`] for digits that are not centred.
pub(crate) fn join_digits(digits: &[u32], bits: u32, element_bytes: usize) -> Vec<u8> {
    let mut element = vec![0; element_bytes];
    for (number, digit) in digits.iter().enumerate() {
        let at = number * bits as usize;
        let word = (*digit as u16) << (at % 8);
        for (byte, part) in element.iter_mut().skip(at / 8).zip(word.to_le_bytes()) {
            *byte |= part;
        }
    }
    element
}

/// The digit, no longer centred, of which a word is `2^(32 - bits)` times the centred one and noise.
#[inline(always)]
pub(crate) fn rounded(word: u32, bits: u32) -> u32 {
    let half_step = 1 << (MODULUS_BITS - 1 - bits);
    // Half of all words more is half of all digits more.
    word.wrapping_add(half_step).wrapping_add(1 << (MODULUS_BITS - 1)) >> (MODULUS_BITS - bits)
}

/// Run `number` of runs of `length` values; no access depends on which.
pub(crate) fn select(values: &[u32], length: usize, number: usize) -> Zeroizing<Vec<u32>> {
    let mut selected = Zeroizing::new(vec![0; length]);
    for (run, values) in values.chunks_exact(length).enumerate() {
        let wanted = equal(run, number);
        selected
            .iter_mut()
            .zip(values)
            .for_each(|(selected, value)| selected.conditional_assign(value, wanted));
    }
    selected
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{join_digits, join_word, rounded, split_digits, split_word};

    proptest! {
        /// Whatever the noise below half a step.
        #[test]
        fn digits_come_back(element in vec(any::<u8>(), 1..20), bits in 1u32..=8, noise in any::<i32>()) {
            let mut digits = vec![0; (8 * element.len()).div_ceil(bits as usize)];
            split_digits(&element, bits, &mut digits);
            let noise = noise >> bits;
            let read: Vec<u32> = digits
                .iter()
                .map(|digit| rounded(((i32::from(*digit) << (32 - bits)).wrapping_add(noise)) as u32, bits))
                .collect();
            prop_assert_eq!(join_digits(&read, bits, element.len()), element);
        }

        #[test]
        fn words_come_back(word in any::<u32>(), bits in 1u32..=8) {
            let mut digits = vec![0; 32usize.div_ceil(bits as usize)];
            split_word(word, bits, digits.iter_mut());
            let digits = digits.iter().map(|digit| (i32::from(*digit) + (1 << (bits - 1))) as u32);
            prop_assert_eq!(join_word(digits, bits), word);
        }
    }
}
