//! The Fan-Vercauteren cryptosystem over `R_q = Z_q[X]/(X^N + 1)` (paper section 3.1), symmetric and seeded.
//!
//! A ciphertext is a pair with `c0 + c1 s = phase`, and the phase of a message `m` is `Delta m + e` for a small `e`,
//! `Delta = floor(q / 2^bits)`. Plaintext moduli are powers of two.

mod ciphertext;
mod galois;
mod parameters;
mod secret_key;
mod seed;
mod switching;

pub use ciphertext::Ciphertext;
pub use galois::{GaloisKeys, Workspace};
pub use parameters::Parameters;
pub use secret_key::{Measurement, SecretKey, SeededCiphertext};
pub use switching::Rescale;
pub(crate) use switching::switch_in_place;
