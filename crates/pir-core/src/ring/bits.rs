//! Fields of fixed width packed without gaps: bit `i` of the stream is bit `i mod 8` of byte `i / 8`, and every field
//! starts with its lowest bit.

use super::kernel;

/// Bytes that `count` fields of `width` bits take, the last byte padded with zero bits.
#[must_use]
pub const fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// The fields of every `width` bytes, eight of `width` bits each, for as many as `out` has room for.
///
/// # Panics
/// If the width is 0 or above 56.
pub fn unpack(width: u32, packed: &[u8], out: &mut [u64]) {
    assert!((1..=56).contains(&width), "a field and a partial byte fit a word");
    kernel::unpack(width as usize, packed, out);
}

/// Appends fields of up to 56 bits to a byte vector.
#[derive(Debug)]
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    filled: u32,
}

impl<'a> BitWriter<'a> {
    /// Starts at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, pending: 0, filled: 0 }
    }

    /// Appends the lowest `width <= 56` bits of `value`.
    #[inline]
    pub fn write(&mut self, value: u64, width: u32) {
        debug_assert!(width <= 56, "a field and a partial byte fit a word");
        let value = value & mask(width);
        self.pending |= value << self.filled;
        self.filled += width;
        if self.filled >= 64 {
            self.out.extend_from_slice(&self.pending.to_le_bytes());
            self.filled -= 64;
            // The bits that did not fit.
            self.pending = value >> (width - self.filled);
        }
    }

    /// Writes out what is left, the last byte padded with zero bits.
    pub fn finish(self) {
        let bytes = self.filled.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.pending.to_le_bytes()[..bytes]);
    }
}

/// Reads fields of up to 56 bits from bytes; beyond the end, it reads zero bits.
#[derive(Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    pending: u64,
    filled: u32,
}

impl<'a> BitReader<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, pending: 0, filled: 0 }
    }

    /// The next `width <= 56` bits.
    #[inline]
    pub fn read(&mut self, width: u32) -> u64 {
        debug_assert!(width <= 56, "a field and a partial byte fit a word");
        if self.filled < width {
            self.fill();
        }
        let value = self.pending & mask(width);
        self.pending >>= width;
        self.filled -= width;
        value
    }

    /// Fetches as many whole bytes as fit.
    #[inline]
    fn fill(&mut self) {
        let bytes = (64 - self.filled) as usize / 8;
        let mut word = [0; 8];
        if let Some((head, _)) = self.bytes.split_first_chunk::<8>() {
            word[..bytes].copy_from_slice(&head[..bytes]);
        } else {
            let left = bytes.min(self.bytes.len());
            word[..left].copy_from_slice(&self.bytes[..left]);
        }
        self.bytes = self.bytes.get(bytes..).unwrap_or_default();
        self.pending |= u64::from_le_bytes(word) << self.filled;
        self.filled += 8 * bytes as u32;
    }

    /// Whether all that is left are zero bits.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.bytes.is_empty() && self.pending == 0
    }
}

const fn mask(width: u32) -> u64 {
    (1 << width) - 1
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{BitReader, BitWriter, mask, packed_bytes};

    proptest! {
        #[test]
        fn fields_come_back_in_order(values in vec(any::<u64>(), 0..50), width in 1u32..=56) {
            let mut bytes = vec![0xAA];
            let mut writer = BitWriter::new(&mut bytes);
            values.iter().for_each(|value| writer.write(*value, width));
            writer.finish();
            prop_assert_eq!(bytes.len(), 1 + packed_bytes(values.len(), width));
            let mut reader = BitReader::new(&bytes[1..]);
            for value in &values {
                prop_assert_eq!(reader.read(width), value & mask(width));
            }
            prop_assert!(reader.is_finished());
        }
    }

    #[test]
    fn the_order_of_bits_is_the_documented_one() {
        let mut bytes = Vec::new();
        let mut writer = BitWriter::new(&mut bytes);
        writer.write(0b101, 3);
        writer.write(0xABC, 12);
        writer.finish();
        assert_eq!(bytes, [0b1110_0101, 0x55]);
    }
}
