//! Elements as plaintexts of the preset [`crate::bfv::Parameters::s2048`]: what every engine over this preset shares.
//!
//! # Whitening
//!
//! The bytes of every plaintext are XORed with a public, fixed keystream before they are packed, and again after they
//! are decoded. It hides nothing; it makes the coefficients that the selectors are multiplied with look uniform, so that
//! the noise, and with it the failure bound, is the same for every database whose contents do not depend on where in the
//! database they will be placed.

mod encoder;
mod layout;
mod whitening;

pub use encoder::Encoder;
pub use layout::{Packing, plaintext_bytes};

pub(crate) use whitening::whiten;
