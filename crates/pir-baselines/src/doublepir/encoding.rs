//! What is announced and sent. Words have four bytes, little-endian.
//!
//! | encoding | bytes |
//! |---|---|
//! | profile | 1, the version; 1 and 1, bits of a digit of the first and of the second level; 1 of zero; 4, elements of a row; 4, blocks, both little-endian; zeros |
//! | query | c1 for each column that an element has, then c2 |
//! | answer | for each block H1 c2, then for each column h, row by row, and a1 c2 |
//! | hint | H2 for each block, row by row |
//!
//! In H1, and so in H2 and in H1 c2, the digits of a word of `D A1` follow each other, lowest first. Any word is one that may
//! have been sent: nothing but its size makes a query, an answer or a hint malformed. The engine of the paper's security has
//! one profile, which says what it is.

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
    let [first, second] = parameters.plaintext_bits();
    profile[..3].copy_from_slice(&[VERSION, first as u8, second as u8]);
    profile[4..8].copy_from_slice(&(parameters.row_elements() as u32).to_le_bytes());
    profile[8..12].copy_from_slice(&(parameters.blocks() as u32).to_le_bytes());
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
    let number =
        |at: usize| announced[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
    let parameters = Parameters::new(elements, element_bytes, number(4), number(8))?;
    if profile(&parameters) == *announced { Ok(parameters) } else { Err(UNKNOWN) }
}
