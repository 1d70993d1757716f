//! The rings `Z_q[X]/(X^N + 1)` with `q` a prime below 2^50.

mod aligned;
mod automorphism;
pub mod bits;
mod kernel;
mod modulus;
mod ntt;
mod polynomial;
mod rescale;
pub mod sampling;
pub mod slots;
mod tables;

pub use aligned::Aligned;
pub use automorphism::Automorphism;
pub use kernel::{Backend, KERNEL_VARIABLE, Products, fetch};
pub use modulus::{MAXIMUM_BITS, Modulus, ShoupFactor};
pub use ntt::Ntt;
pub use polynomial::{Coefficient, Evaluation, Form, Polynomial};
pub use rescale::Rescale;
pub use tables::bit_reverse;

pub(crate) use kernel::{
    COLUMNS, Lanes, OrbitKeys, OrbitWalk, Pairs, RowSums, Selectors, add, arrange, centre, chunk, copy_runs,
    digit, halves, key_products, multiply, multiply_accumulate, orbit_crossings, orbit_masks, orbit_products,
    pack, pair_products, reduce, round_digits, row_products, weave_columns, xor_keystreams,
};
pub(crate) use tables::{Digit, SplitFactors};
