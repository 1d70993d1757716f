//! What a client gives back to the heap holds no secret.
//!
//! One test, since the allocator watches the whole process. It sees neither the stack nor registers.
#![allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]

mod heap;
mod sealpir;
mod targets;
mod voce;

use heap::left_behind;
use pir_core::ring::{Modulus, Ntt, Polynomial};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

/// What is not to be found, and what it is.
type Secret = (&'static str, Vec<u64>);

fn rng(number: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([number; 32])
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn signed(values: &[i64]) -> Vec<u64> {
    values.iter().map(|value| *value as u64).collect()
}

fn residues(modulus: &Modulus, values: &[i64]) -> Vec<u64> {
    values.iter().map(|value| modulus.from_signed(*value)).collect()
}

/// The forms that a small polynomial takes: signed, residues, slots.
fn forms(ntt: &Ntt, values: &[i64]) -> [Vec<u64>; 3] {
    let evaluation = Polynomial::from_signed(ntt.modulus(), values).into_evaluation(ntt).residues().to_vec();
    [signed(values), residues(ntt.modulus(), values), evaluation]
}

#[test]
fn what_a_client_gives_back_holds_no_secret() {
    let control =
        [("control", (1..=4).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect::<Vec<_>>())];
    assert_eq!(
        left_behind(&control, || drop(control[0].1.clone())),
        ["control"],
        "the allocator sees secrets"
    );

    sealpir::keys_and_retrievals();
    targets::are_not_left_behind();
    voce::with_a_hint();
    voce::without_one();
}
