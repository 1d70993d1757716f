//! AVX-512 with 52-bit integer multiply-add (IFMA) and byte permutation (VBMI): eight residues to a register.
//!
//! IFMA reads the low 52 bits of its factors and adds the low or the high 52 bits of their product to a 64-bit word.
//! Factors therefore have to be right modulo 2^52 only, and stay below 2^52 in value: `4q` for any prime below 2^50.
//! Shoup's quotient is `floor(w 2^52 / q)`, the 64-bit quotient of the tables without its lowest 12 bits.
//!
//! Every `unsafe` block here reads or writes memory behind a reference to an array of the size that is moved.

mod dense;
mod elementwise;
mod ntt;
mod prime;
mod product;
mod unpacker;

use super::avx512f::radix_rows;
pub(super) use super::avx512f::{
    add, centre, chunk, copy_runs, digit, orbit_masks, permute, round_digits, subtract, weave_columns,
    xor_keystreams,
};
pub(super) use dense::{orbit_crossings, orbit_products, pair_products};
pub(super) use elementwise::{halves, multiply, rescale, rescale_difference, rescale_sum, scale, substitute};
pub(super) use ntt::{forward, forward_fetching, inverse, orbit_walk, radix_columns};
pub(super) use product::{arrange, key_products, multiply_accumulate, pack, reduce, row_products, unpack};

/// Whether this machine can run the functions of this module.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512ifma")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vnni")
}
