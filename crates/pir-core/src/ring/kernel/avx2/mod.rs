//! AVX2 and FMA: four residues to a register, wide products by doubles. What is not here is the portable code, compiled
//! for these features.
//!
//! The product of two integers of magnitude below 2^53 is the exact sum of two doubles, `h = a b` rounded and `l = a b - h`
//! by a fused multiply-add. With `n` an integer near `a b / q`, `a b - n q = (h - n q) + l` is an integer below 2^53 in
//! magnitude, so that every step is exact and the results are those of the other kernels.
//!
//! Every `unsafe` block here reads or writes memory behind a reference to an array of at least the size that is moved.

mod elementwise;
mod field;
mod ntt;
mod product;
mod short;

pub(super) use elementwise::{key_products, multiply, scale};
pub(super) use ntt::{forward, inverse};
pub(super) use product::{arrange, row_products};

use super::moves::{self, orbit_walk_by_steps, radix_columns_by_rows, radix_rows};
use super::portable;
use super::rows::{Lanes, OrbitKeys, OrbitWalk, Pairs};
use crate::ring::modulus::{Modulus, ShoupFactor};
use crate::ring::tables::{Digit, NttTables, SplitFactors, VectorSource};
use elementwise::next_sum;

/// Whether this machine can run the functions of this module.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("bmi2")
}

/// The portable functions, with the instructions of this module.
macro_rules! portable {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        $(
            #[target_feature(enable = "avx2,fma,bmi2")]
            pub(super) fn $name($($argument: $type),*) {
                portable::$name($($argument),*);
            }
        )*
    };
}

portable! {
    fn pair_products(pairs: &[Pairs], positions: usize, queries: &[&[[u32; 4]]], out: &mut [&mut [u64]]);
    fn orbit_products(modulus: &Modulus, digits: &[Lanes], keys: &OrbitKeys, out: &mut [&mut [u64]]);
    fn orbit_crossings(modulus: &Modulus, digits: &[Lanes], stride: usize, steps: usize, out: &mut [u64]);
    fn round_digits(modulus: &Modulus, shift: u32, a: &mut [u64]);
    fn copy_runs(out: &mut [Lanes], places: &[[usize; 2]], source: &[Lanes], stride: usize, length: usize);
    fn weave_columns(
        out: &mut [Lanes],
        stride: usize,
        at: usize,
        columns: &[[Lanes; 2]],
        parts: usize,
        unit: usize,
    );
    fn orbit_masks(out: &mut [Lanes], rows: [&[u64]; 8], half: usize, group: usize);
    fn multiply_accumulate(modulus: &Modulus, sums: [&mut [u64]; 2], terms: &[(&[u64], &[u64])]);
    fn reduce(modulus: &Modulus, out: &mut [u64], sums: [&mut [u64]; 2]);
    fn halves(modulus: &Modulus, a: &mut [u64], odd: &mut [u64], b: &[u64], factors: &[ShoupFactor]);
    fn add(modulus: &Modulus, a: &mut [u64], b: &[u64]);
    fn subtract(modulus: &Modulus, a: &mut [u64], b: &[u64]);
    fn centre(modulus: &Modulus, offset: u64, a: &mut [u64]);
    fn digit(digit: Digit, out: &mut [u64], a: &[u64]);
    fn rescale(multiplier: u64, target: u64, a: &mut [u64]);
    fn rescale_sum(modulus: &Modulus, multiplier: u64, target: u64, a: &mut [u64], b: &[u64]);
    fn rescale_difference(
        modulus: &Modulus,
        multiplier: u64,
        target: u64,
        out: &mut [u64],
        a: &[u64],
        b: &[u64],
    );
    fn substitute(modulus: &Modulus, out: &mut [u64], source: &[u64], sources: &[u32]);
    fn chunk(modulus: &Modulus, shift: u32, bits: u32, out: &mut [u64], a: &[u64]);
    fn permute(out: &mut [u64], source: &[u64], slots: &[u32], vectors: &[VectorSource]);
    fn pack(width: usize, slot: usize, sources: &[&[u64]], out: &mut [u8]);
    fn unpack(width: usize, packed: &[u8], out: &mut [u64]);
    fn xor_keystreams(bytes: &mut [u8], size: usize, key: &[u8; 32], first: u64);
}

#[target_feature(enable = "avx2,fma,bmi2")]
pub(super) fn forward_fetching(tables: &NttTables, values: &mut [u64], _: &[Lanes]) {
    forward(tables, values);
}

radix_columns_by_rows!(
    #[target_feature(enable = "avx2,fma,bmi2")]
    pub(super) fn radix_columns
);

orbit_walk_by_steps!(
    #[target_feature(enable = "avx2,fma,bmi2")]
    pub(super) fn orbit_walk
);
