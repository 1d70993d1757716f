//! AVX-512 without integer multiply-add, as on servers before Ice Lake: eight residues to a register, wide products by
//! doubles. What needs no wide product serves [`super::avx512`] as well.
//!
//! The product of two integers below 2^52 and 2^50 is the exact sum of two doubles, `h = a b` rounded and `l = a b - h`
//! by a fused multiply-add. With `b` the nearest integer to `a b / q`, `a b - b q = (h - b q) + l` is an integer below 2^53
//! in magnitude, so that every step is exact and the results are those of the other kernels. Adding and subtracting
//! 1.5 * 2^52 rounds a double below 2^51 to the nearest integer.

mod dense;
mod elementwise;
mod field;
mod keystream;
mod moves;
mod ntt;
mod orbit;
mod passes;
mod product;
mod unpacker;

pub(super) use dense::{
    fold_pairs, orbit_crossings, orbit_products, pair_products, pair_products_by, round_digits,
};
pub(super) use elementwise::{
    add, centre, chunk, digit, halves, multiply, permute, rescale, rescale_difference, rescale_sum,
    rescaling, scale, substitute, subtract,
};
pub(super) use keystream::xor_keystreams;
pub(super) use moves::{copy_runs, orbit_masks, radix_rows, weave_columns};
pub(super) use ntt::{forward, forward_fetching, inverse, radix_columns};
pub(super) use orbit::orbit_walk;
pub(super) use passes::{LEAST_DEGREE, passes};
pub(super) use product::{arrange, key_products, multiply_accumulate, pack, reduce, row_products, unpack};

/// Whether this machine can run the functions of this module.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
}
