//! The Fan-Vercauteren cryptosystem over `R_Q = Z_Q[X]/(X^N + 1)` (paper section 3.1), symmetric and seeded.
//!
//! A ciphertext is a pair with `c0 + c1 s = phase`, and the phase of a message `m` is `Delta m + e` for a small `e`,
//! `Delta = floor(Q / t)`. Fresh ciphertexts and public keys live modulo the prime Q, which has room for the noise of
//! key switching. What is multiplied with plaintexts is switched to the smaller prime q first: plaintexts are then stored
//! modulo q.

mod ciphertext;
mod gadget;
mod galois;
mod parameters;
mod secret_key;
mod security;
mod seed;
mod switching;

pub use ciphertext::Ciphertext;
pub use gadget::{Gadget, digit_products};
pub use galois::{GaloisKeys, Workspace};
pub use parameters::Parameters;
pub use secret_key::{Measurement, SecretKey, SeededCiphertext};
pub use security::security_bits;
