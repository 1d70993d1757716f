//! The dimensions of an answer over the preset [`crate::bfv::Parameters::s2048`]: what every engine shares that selects by
//! inner products, however the selectors came to the server.
//!
//! The plaintexts ([`crate::packing`]) stand in a [`Matrix`] of rows and columns. Its first dimension is, for every column,
//! the inner product of the rows' selectors with the plaintexts of the column, modulo q. Each result is switched to the
//! modulus `t^2`, and both its polynomials are split into two chunks below t: a further dimension ([`FurtherDimension`]) is
//! the inner product of its selectors with each of these four rows of chunks. The ciphertexts that come last are switched
//! to a power of two and sent ([`AnswerForm`]); a client decrypts chunk by chunk and puts the chunks together again.

mod answer;
mod further;
mod matrix;
mod packed;
mod stage;

pub use answer::{ANSWER_MARGIN_BITS, AnswerForm};
pub use further::{CHUNKS, FurtherDimension};
pub use matrix::Matrix;
pub use packed::PackedMatrix;
pub use stage::Stage;

pub use crate::ring::Products;
