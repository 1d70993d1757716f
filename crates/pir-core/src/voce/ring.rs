//! The ring, its slots, and the public polynomials of a round.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use crate::bfv;
use crate::ring::{Evaluation, Modulus, Ntt, Polynomial, Rescale, bit_reverse, sampling, xor_keystreams};

/// N: coefficients of a polynomial, outputs that are packed together.
pub const DEGREE: usize = 2048;

/// N/2: the orbit of a slot under `X -> X^5`.
pub(super) const ORBIT: usize = DEGREE / 2;

/// Words of a vector.
pub(super) const LANES: usize = 8;

/// Bits of q, and of a residue of a key.
pub const MODULUS_BITS: u32 = 50;

/// log2 t: bits of a message that one coefficient carries.
pub const PLAINTEXT_BITS: u32 = 9;

/// Bits that a step of the packing drops from what it decomposes: one digit of 24 bits is left.
pub(super) const DROPPED_BITS: u32 = 26;

/// Bits of a coefficient of a query.
pub const QUERY_BITS: u32 = 39;

/// Between the two rows that share a coefficient of a query.
pub(super) const RADIX_BITS: u32 = 13;

/// Bits of a coefficient of the hint, and of a packed ciphertext before a column of it is selected.
pub const HINT_BITS: u32 = 18;

/// Bits of a coefficient of an answer.
pub const ANSWER_BITS: u32 = 11;

/// Bits of a coefficient of a ciphertext that selects columns.
pub(super) const COLUMN_BITS: u32 = 30;

/// Bits of a coefficient of the public half of a reply, and of its private half.
pub(super) const REPLY_PUBLIC_BITS: u32 = 19;
/// See [`REPLY_PUBLIC_BITS`].
pub(super) const REPLY_BITS: u32 = 12;

/// Tables, built once.
pub(super) struct Ring {
    /// In orbit order: slot `h N/2 + br(i)` is the value at `psi^((-1)^h 5^i)`, of which `h N/2 + i` is the *place*.
    pub(super) ntt: Ntt,
    /// The slot of a place, and the place of a slot: reversal of bits is its own inverse.
    pub(super) other: Vec<usize>,
    /// Slots in the order in which packing has them, and the other way round: see [`woven`].
    woven: Vec<usize>,
    pub(super) to_query: Rescale,
    pub(super) to_hint: Rescale,
    pub(super) to_answer: Rescale,
    pub(super) to_column: Rescale,
    pub(super) to_reply: [Rescale; 2],
    pub(super) to_plaintext: Rescale,
}

impl Ring {
    pub(super) fn get() -> &'static Self {
        static RING: LazyLock<Ring> = LazyLock::new(|| {
            let modulus = *bfv::Parameters::s2048().large().modulus();
            assert_eq!(modulus.bits(), MODULUS_BITS, "the prime of the preset");
            let ntt = Ntt::in_orbit_order(modulus, DEGREE).expect("q is 1 modulo 2N");
            let reverse = |at: usize| at & ORBIT | bit_reverse(at % ORBIT, ORBIT.ilog2());
            Ring {
                ntt,
                other: (0..DEGREE).map(reverse).collect(),
                woven: (0..DEGREE).map(|at| reverse(at & ORBIT | woven(at % ORBIT))).collect(),
                to_query: Rescale::new(&modulus, 1 << QUERY_BITS),
                to_hint: Rescale::new(&modulus, 1 << HINT_BITS),
                to_answer: Rescale::new(&modulus, 1 << ANSWER_BITS),
                to_column: Rescale::new(&modulus, 1 << COLUMN_BITS),
                to_reply: [REPLY_PUBLIC_BITS, REPLY_BITS].map(|bits| Rescale::new(&modulus, 1 << bits)),
                to_plaintext: Rescale::new(&modulus, 1 << PLAINTEXT_BITS),
            }
        });
        &RING
    }

    pub(super) fn modulus(&self) -> &Modulus {
        self.ntt.modulus()
    }

    /// `round(value q / 2^bits)`, for a value below `2^bits`, but for the largest, which may give 0.
    pub(super) fn raise(&self, value: u64, bits: u32) -> u64 {
        let scaled = u128::from(value) * u128::from(self.modulus().value()) + (1 << (bits - 1));
        self.modulus().reduce_once((scaled >> bits) as u64)
    }

    /// `round(q / 2^bits)`: what a message of 1 is scaled by where it is one of so many bits.
    pub(super) fn share(&self, bits: u32) -> u64 {
        (self.modulus().value() + (1 << (bits - 1))) >> bits
    }

    /// From slots to the order in which packing has them, or the other way round.
    pub(super) fn weave(&self, from: &[u64], to: &mut [u64]) {
        to.iter_mut().zip(&self.woven).for_each(|(to, at)| *to = from[*at]);
    }
}

/// The place of a half that packing has at `8 t + l`: `t + N/16 l`. Eight steps along the orbit that are N/16 apart move lanes on by one.
pub(super) fn woven(at: usize) -> usize {
    at / LANES + ORBIT / LANES * (at % LANES)
}

/// The public randomness of a round's databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// Of the public halves of queries. Where queries serve for several rounds, so does this.
    pub halves: [u8; 32],
    /// Of what elements are whitened with: of one round alone, and unknown to whoever writes the elements.
    pub whitening: [u8; 32],
}

impl From<[u8; 32]> for Seeds {
    /// Of a round that has one for both.
    fn from(seed: [u8; 32]) -> Self {
        Self { halves: seed, whitening: seed }
    }
}

/// What everybody derives from public seeds.
pub(super) struct Round {
    queries: [u8; 32],
    columns: [u8; 32],
    /// The public half of the key that takes `s(X^5)` to s, in slots.
    pub(super) step: Polynomial<Evaluation>,
    /// The public half of the key that takes `s(X^-1)` to s, in slots.
    pub(super) conjugation: Polynomial<Evaluation>,
}

impl Round {
    /// The polynomials of a round whose keys are of that round, too.
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        Self::with_keys(seed, &derive("keys", seed))
    }

    /// The polynomials of a round, and of keys that outlive it.
    pub(super) fn with_keys(seed: &[u8; 32], keys: &[u8; 32]) -> Self {
        let ntt = &Ring::get().ntt;
        Self {
            queries: derive("queries", seed),
            columns: derive("columns", seed),
            step: sampling::uniform(ntt, keys, 0),
            conjugation: sampling::uniform(ntt, keys, 1),
        }
    }

    /// The public half of a ciphertext of a query, in slots.
    pub(super) fn query(&self, ciphertext: u64) -> Polynomial<Evaluation> {
        sampling::uniform(&Ring::get().ntt, &self.queries, ciphertext)
    }

    /// The public half of a ciphertext that selects columns, in slots.
    pub(super) fn column(&self, ciphertext: u64) -> Polynomial<Evaluation> {
        sampling::uniform(&Ring::get().ntt, &self.columns, ciphertext)
    }
}

/// What elements are whitened with.
pub(super) struct Whitening([u8; 32]);

impl Whitening {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        Self(derive("whitening", seed))
    }

    /// XORs the keystream of a place of the database into what lies there. What comes out looks uniform, whatever whoever does
    /// not know the seed has put there.
    pub(super) fn apply(&self, bytes: &mut [u8], bucket: usize, element: usize) {
        sampling::whiten(bytes, &self.0, Self::stream(bucket, element));
    }

    /// The same for all places from one on, of so many bytes each.
    pub(super) fn apply_all(&self, bytes: &mut [u8], size: usize, bucket: usize, first: usize) {
        xor_keystreams(bytes, size, &self.0, Self::stream(bucket, first));
    }

    fn stream(bucket: usize, element: usize) -> u64 {
        (bucket as u64) << 32 | element as u64
    }
}

/// `SHA-256("sotto voce v1" || 0 || purpose || 0 || seed)`, the key of a ChaCha20 stream of polynomials.
pub(super) fn derive(purpose: &str, seed: &[u8]) -> [u8; 32] {
    let prefix = Sha256::new().chain_update(b"sotto voce v1\0").chain_update(purpose.as_bytes());
    prefix.chain_update([0]).chain_update(seed).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::Ring;

    /// q is `2^50 - 16,383`.
    #[test]
    fn shares_of_the_modulus_are_rounded() {
        let share = |bits| Ring::get().share(bits);
        // Down, by little.
        assert_eq!([6, 9, 12].map(share), [(1 << 44) - 256, (1 << 41) - 32, (1 << 38) - 4]);
        // Up.
        assert_eq!([18, 22].map(share), [1 << 32, 1 << 28]);
    }
}
