//! The rings `Z_q[X]/(X^N + 1)` with `q` a prime below 2^50.

mod aligned;
mod automorphism;
pub mod bits;
mod kernel;
mod modulus;
mod ntt;
mod polynomial;
pub mod sampling;

pub use automorphism::Automorphism;
pub use kernel::{Backend, KERNEL_VARIABLE, Products};
pub use modulus::{MAXIMUM_BITS, Modulus, ShoupFactor};
pub use ntt::{Ntt, bit_reverse};
pub use polynomial::{Coefficient, Evaluation, Form, Polynomial};

pub(crate) use aligned::Aligned;
pub(crate) use kernel::{
    COLUMNS, Digit, Lanes, RowSums, Selectors, add, arrange, centre, chunk, digit, halves, key_products,
    multiply_accumulate, pack, reduce, rescale, rescale_difference, rescale_sum, row_products,
};
