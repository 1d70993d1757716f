//! What is announced and sent. Words have four bytes, little-endian.
//!
//! | encoding | bytes |
//! |---|---|
//! | profile | 1, the version; 1, bits of a digit; 2 of zeros; 4, elements of a column, little-endian; zeros |
//! | query | the words of c, column by column |
//! | answer | the words of a, row by row |
//! | hint | the words of H, row by row |
//!
//! Any word is one that may have been sent: nothing but its size makes a query, an answer or a hint malformed. The engine of
//! the paper's security has one profile, which says what it is.

use pir_core::Error;

use super::shape::Parameters;
use crate::lwe::PAPER;

/// The profile of a round with the paper's parameters.
pub const INSECURE_PROFILE: [u8; 16] = *b"INSECURE, square";

/// Version of all formats.
const VERSION: u8 = 1;

pub(super) fn profile<const N: usize>(parameters: &Parameters<N>) -> [u8; 16] {
    if N == PAPER {
        return INSECURE_PROFILE;
    }
    let mut profile = [0; 16];
    profile[..2].copy_from_slice(&[VERSION, parameters.plaintext_bits() as u8]);
    profile[4..8].copy_from_slice(&(parameters.column_elements() as u32).to_le_bytes());
    profile
}

pub(super) fn with_profile<const N: usize>(
    elements: usize,
    element_bytes: usize,
    announced: &[u8; 16],
) -> Result<Parameters<N>, Error> {
    const UNKNOWN: Error = Error::Shape("a profile that the engine does not know");
    if N == PAPER {
        let admitted = *announced == INSECURE_PROFILE;
        return if admitted { Parameters::square(elements, element_bytes) } else { Err(UNKNOWN) };
    }
    let [_, _, _, _, a, b, c, d, ..] = *announced;
    let column_elements = u32::from_le_bytes([a, b, c, d]) as usize;
    let parameters = Parameters::new(elements, element_bytes, column_elements)?;
    if profile(&parameters) == *announced { Ok(parameters) } else { Err(UNKNOWN) }
}
