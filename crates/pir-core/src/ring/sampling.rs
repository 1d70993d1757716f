//! Sampling from the ChaCha20 keystream: 32-byte key, 64-bit block counter from 0, 64-bit nonce `stream` (little-endian,
//! as in Bernstein's original layout). Every sampler consumes the bytes in order and is therefore reproducible.
//!
//! No sampler branches on or indexes by a value that it returns; the rejection loops reveal only how many candidates
//! were thrown away, which is independent of those kept. The cipher's state, which holds the seed, and what is left of
//! the keystream are wiped.

use chacha20::cipher::{Block, KeyIvInit, StreamCipher, StreamCipherCore};
use chacha20::variants::Ietf;
use chacha20::{ChaCha8, ChaChaCore, Nonce, R20};
use zeroize::Zeroizing;

use super::modulus::Modulus;
use super::ntt::Ntt;
use super::polynomial::{Form, Polynomial};
use crate::constant_time::public;

/// The centred binomial distribution is a difference of two sums of this many bits.
pub const ERROR_BITS: u32 = 21;

/// Standard deviation of [`errors`]: `sqrt(ERROR_BITS / 2)`, about 3.24.
#[must_use]
pub fn error_deviation() -> f64 {
    (f64::from(ERROR_BITS) / 2.0).sqrt()
}

/// A uniform polynomial in either form.
///
/// Slot by slot: 8 bytes as a little-endian integer, its lowest `bits(q)` bits kept, rejected unless below `q`.
#[must_use]
pub fn uniform<F: Form>(ntt: &Ntt, seed: &[u8; 32], stream: u64) -> Polynomial<F> {
    let mut keystream = Keystream::new(seed, stream);
    let mut polynomial = Polynomial::zero(ntt.degree());
    for value in polynomial.residues_mut() {
        *value = keystream.below(ntt.modulus());
    }
    polynomial
}

/// `count` values uniform in {-1, 0, 1}.
///
/// Two-bit symbols, lowest bits of each byte first: 0, 1, 2 stand for 0, 1, -1, and 3 is rejected.
#[must_use]
pub fn ternary(count: usize, seed: &[u8; 32], stream: u64) -> Zeroizing<Vec<i64>> {
    let mut keystream = Keystream::new(seed, stream);
    let mut values = Zeroizing::new(Vec::with_capacity(count));
    while values.len() < count {
        let byte = keystream.bytes::<1>()[0];
        for shift in [0, 2, 4, 6] {
            let symbol = i64::from(byte >> shift & 3);
            // Which symbols are thrown away says nothing about the others: they are independent, and a kept one is
            // uniform among three whatever the pattern.
            if public(symbol != 3) && values.len() < count {
                values.push((symbol & 1) - (symbol >> 1));
            }
        }
    }
    values
}

/// `count` values of the centred binomial distribution with parameter [`ERROR_BITS`].
///
/// 8 bytes as a little-endian integer per value: the number of ones in its lowest 21 bits less that in the next 21.
#[must_use]
pub fn errors(count: usize, seed: &[u8; 32], stream: u64) -> Zeroizing<Vec<i64>> {
    const MASK: u64 = (1 << ERROR_BITS) - 1;
    let mut keystream = Keystream::new(seed, stream);
    let mut values = Zeroizing::new(Vec::with_capacity(count));
    for _ in 0..count {
        let word = u64::from_le_bytes(keystream.bytes());
        let ones = (word & MASK).count_ones();
        let others = (word >> ERROR_BITS & MASK).count_ones();
        values.push(i64::from(ones) - i64::from(others));
    }
    values
}

/// XORs the ChaCha8 keystream of (`seed`, `stream`) into `bytes`: what comes out looks random, and nothing is hidden.
pub fn whiten(bytes: &mut [u8], seed: &[u8; 32], stream: u64) {
    ChaCha8::new(seed.into(), &nonce(stream)).apply_keystream(bytes);
}

/// The cipher counts blocks in 32 bits, enough for 256 GiB, and takes a nonce of 96; with these the state is that of the
/// layout above.
fn nonce(stream: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&stream.to_le_bytes());
    nonce.into()
}

/// The cipher without the buffer of its stream, which would not be wiped.
type Cipher = ChaChaCore<R20, Ietf>;

struct Keystream {
    cipher: Cipher,
    buffer: Zeroizing<[u8; Self::BUFFER]>,
    used: usize,
}

impl Keystream {
    const BUFFER: usize = 1024;

    fn new(seed: &[u8; 32], stream: u64) -> Self {
        let cipher = Cipher::new(seed.into(), &nonce(stream));
        Self { cipher, buffer: Zeroizing::new([0; Self::BUFFER]), used: Self::BUFFER }
    }

    /// The next `COUNT` bytes; a caller uses one count throughout, a divisor of the buffer's size.
    #[inline]
    fn bytes<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        const { assert!(Self::BUFFER.is_multiple_of(COUNT) && Self::BUFFER.is_multiple_of(64)) };
        if self.used == Self::BUFFER {
            let (blocks, _) = Block::<Cipher>::slice_as_chunks_mut(&mut self.buffer[..]);
            self.cipher.write_keystream_blocks(blocks);
            self.used = 0;
        }
        let mut bytes = [0; COUNT];
        bytes.copy_from_slice(&self.buffer[self.used..self.used + COUNT]);
        self.used += COUNT;
        bytes
    }

    #[inline]
    fn below(&mut self, modulus: &Modulus) -> u64 {
        let mask = (1 << modulus.bits()) - 1;
        loop {
            let candidate = u64::from_le_bytes(self.bytes()) & mask;
            if candidate < modulus.value() {
                return candidate;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};
    use zeroize::ZeroizeOnDrop;

    use super::{Keystream, error_deviation, errors, ternary, uniform};
    use crate::ring::{Coefficient, Modulus, Ntt, Polynomial};

    #[test]
    fn the_keystream_is_chacha20_with_a_64_bit_counter() {
        // Test vector of the original specification: zero key and nonce.
        let mut keystream = Keystream::new(&[0; 32], 0);
        assert_eq!(keystream.bytes::<8>(), [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
        assert_ne!(Keystream::new(&[0; 32], 1).bytes::<8>(), Keystream::new(&[0; 32], 0).bytes::<8>());
    }

    /// Keys and golden files hang on every byte: another implementation agrees over many blocks and all of the nonce.
    #[test]
    fn another_implementation_gives_the_same_keystream() {
        for stream in [0, 1, 58, 1 << 31, 1 << 32, u64::MAX] {
            let mut other = ChaCha20Rng::from_seed([9; 32]);
            other.set_stream(stream);
            let mut keystream = Keystream::new(&[9; 32], stream);
            assert!((0..1000).all(|_| keystream.bytes() == other.next_u64().to_le_bytes()), "{stream}");
        }
    }

    /// Without the feature of the cipher that wipes it, this does not compile.
    #[test]
    fn the_cipher_is_wiped() {
        fn wiped<T: ZeroizeOnDrop>(_: &T) {}
        let keystream = Keystream::new(&[0; 32], 0);
        wiped(&keystream.cipher);
        wiped(&keystream.buffer);
    }

    #[test]
    fn distributions_have_the_moments_the_noise_bound_assumes() {
        let count = 1 << 18;
        let moments = |values: &[i64]| {
            let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
            let square = values.iter().map(|value| value * value).sum::<i64>() as f64 / values.len() as f64;
            (mean, square)
        };
        let (mean, square) = moments(&ternary(count, &[7; 32], 0));
        assert!(mean.abs() < 0.01 && (square - 2.0 / 3.0).abs() < 0.01, "{mean} {square}");
        let (mean, square) = moments(&errors(count, &[7; 32], 0));
        assert!(mean.abs() < 0.04 && (square.sqrt() - error_deviation()).abs() < 0.03, "{mean} {square}");
        assert!(ternary(count, &[7; 32], 0).iter().all(|value| (-1..=1).contains(value)));
    }

    #[test]
    fn uniform_residues_fill_the_range_of_their_prime() {
        // Of 32 numbers that are drawn for a residue modulo 17 one is 17 itself.
        for (prime, degree) in [(68_719_230_977, 4096), (65537, 4096), (17, 8)] {
            let ntt = Ntt::new(Modulus::new(prime).unwrap(), degree).unwrap();
            let drawn = (0..4096 / degree as u64).map(|stream| uniform(&ntt, &[1; 32], stream));
            let residues: Vec<u64> = drawn
                .flat_map(|polynomial: Polynomial<Coefficient>| polynomial.residues().to_vec())
                .collect();
            assert!(residues.iter().all(|value| *value < prime));
            let mean = residues.iter().map(|value| *value as f64 + 0.5).sum::<f64>() / 4096.0 / prime as f64;
            assert!((mean - 0.5).abs() < 0.03, "{mean}");
        }
    }
}
