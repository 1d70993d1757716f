//! What SimplePIR and DoublePIR share: LWE modulo 2^32 with a public matrix from the round's seed.

mod digits;
mod engine;
mod kernel;
mod matrix;
mod noise;
mod sampling;
mod security;

pub use engine::{Hinted, Hinting, WithHint};

pub(crate) use digits::{
    WORD_BYTES, join_digits, join_word, read_word, read_words, rounded, select, split_digits, split_word,
};
pub(crate) use kernel::{Halves, multiply};
pub(crate) use matrix::{ByteMatrix, STEP, public_matrix, public_seed, times_public};
pub(crate) use noise::{MODULUS_BITS, deviation, failure_log2, largest_deviation, margin};
pub(crate) use sampling::{Ask, DEVIATION, encrypt, errors, mask, uniform};
pub(crate) use security::security_bits;
pub use security::{PAPER, SECURE};
