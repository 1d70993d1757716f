//! The ring, its slots, and the public polynomials of a round.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use crate::bfv;
use crate::ring::{Evaluation, Modulus, Ntt, Polynomial, Rescale, bit_reverse, sampling};

/// N: coefficients of a polynomial, outputs that are packed together.
pub const DEGREE: usize = 2048;

/// N/2: the orbit of a slot under `X -> X^5`.
pub(super) const ORBIT: usize = DEGREE / 2;

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

/// Bits of a coefficient of the hint.
pub const HINT_BITS: u32 = 18;

/// Bits of a coefficient of an answer.
pub const ANSWER_BITS: u32 = 11;

/// Tables, built once.
pub(super) struct Ring {
    /// In orbit order: slot `h N/2 + br(i)` is the value at `psi^((-1)^h 5^i)`, of which `h N/2 + i` is the *place*.
    pub(super) ntt: Ntt,
    /// The slot of a place, and the place of a slot: reversal of bits is its own inverse.
    pub(super) other: Vec<usize>,
    pub(super) to_query: Rescale,
    pub(super) to_hint: Rescale,
    pub(super) to_answer: Rescale,
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
                to_query: Rescale::new(&modulus, 1 << QUERY_BITS),
                to_hint: Rescale::new(&modulus, 1 << HINT_BITS),
                to_answer: Rescale::new(&modulus, 1 << ANSWER_BITS),
                to_plaintext: Rescale::new(&modulus, 1 << PLAINTEXT_BITS),
            }
        });
        &RING
    }

    pub(super) fn modulus(&self) -> &Modulus {
        self.ntt.modulus()
    }

    /// From slots to places, or from places to slots.
    pub(super) fn reorder(&self, from: &[u64], to: &mut [u64]) {
        to.iter_mut().zip(&self.other).for_each(|(to, at)| *to = from[*at]);
    }
}

/// What everybody derives from a round's public seed.
pub(super) struct Round {
    queries: [u8; 32],
    whitening: [u8; 32],
    /// The public half of the key that takes `s(X^5)` to s, in slots.
    pub(super) step: Polynomial<Evaluation>,
    /// The public half of the key that takes `s(X^-1)` to s, in slots.
    pub(super) conjugation: Polynomial<Evaluation>,
}

impl Round {
    /// The polynomials of the seed: ChaCha20 under `SHA-256("sotto voce v1" || 0 || purpose || 0 || seed)`.
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        let derive = |purpose: &str| -> [u8; 32] {
            let prefix = Sha256::new().chain_update(b"sotto voce v1\0").chain_update(purpose.as_bytes());
            prefix.chain_update([0]).chain_update(seed).finalize().into()
        };
        let (ntt, keys) = (&Ring::get().ntt, derive("keys"));
        Self {
            queries: derive("queries"),
            whitening: derive("whitening"),
            step: sampling::uniform(ntt, &keys, 0),
            conjugation: sampling::uniform(ntt, &keys, 1),
        }
    }

    /// The public half of a ciphertext of a query, in slots.
    pub(super) fn query(&self, ciphertext: u64) -> Polynomial<Evaluation> {
        sampling::uniform(&Ring::get().ntt, &self.queries, ciphertext)
    }

    /// XORs the keystream of a place of the database into what lies there. What comes out looks uniform, whatever whoever does
    /// not know the seed has put there.
    pub(super) fn whiten(&self, bytes: &mut [u8], bucket: usize, element: usize) {
        sampling::whiten(bytes, &self.whitening, (bucket as u64) << 32 | element as u64);
    }
}
