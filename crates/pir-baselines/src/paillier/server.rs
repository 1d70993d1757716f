//! SETUP and ANSWER.

use crypto_bigint::{MultiExponentiateBoundedExp, U2048};
use pir_core::Error;

use super::keys::{PublicKeys, Residue};
use super::{ANSWER_HEADER, CHUNK_BYTES, CIPHERTEXT_BYTES, MODULUS_BYTES, Parameters, QUERY_HEADER};

/// A database ready to answer.
pub struct Database {
    parameters: Parameters,
    /// Chunk by chunk, of all elements.
    chunks: Vec<U2048>,
}

impl Database {
    /// Cuts `elements * element_bytes` bytes into chunks.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters.
    pub fn new(parameters: &Parameters, elements: &[u8]) -> Result<Self, Error> {
        let size = parameters.element_bytes;
        if elements.len() != parameters.elements * size {
            return Err(Error::Shape("size of the database"));
        }
        let chunk = |chunk: usize, element: &[u8]| {
            let first = chunk * CHUNK_BYTES;
            let bytes = &element[first..size.min(first + CHUNK_BYTES)];
            let mut padded = [0; MODULUS_BYTES];
            padded[..bytes.len()].copy_from_slice(bytes);
            U2048::from_le_slice(&padded)
        };
        let chunks = (0..parameters.chunks())
            .flat_map(|number| elements.chunks_exact(size).map(move |element| chunk(number, element)));
        Ok(Self { parameters: *parameters, chunks: chunks.collect() })
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chunks.len() * MODULUS_BYTES
    }

    /// Chunk by chunk, the product of all ciphertexts of a query to the power of the elements.
    pub(super) fn answer(&self, keys: &PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        const WHAT: &str = "query";
        let body = query.strip_prefix(&QUERY_HEADER).ok_or(Error::Malformed(WHAT))?;
        if body.len() != self.parameters.elements * CIPHERTEXT_BYTES {
            return Err(Error::Malformed(WHAT));
        }
        let read = |bytes| Ok(Residue::new(&keys.read(bytes, WHAT)?, keys.square()));
        let bases: Vec<Residue> =
            body.chunks_exact(CIPHERTEXT_BYTES).map(read).collect::<Result<_, Error>>()?;
        let mut answer = ANSWER_HEADER.to_vec();
        for chunk in self.chunks.chunks_exact(self.parameters.elements) {
            let terms: Vec<(Residue, U2048)> = bases.iter().copied().zip(chunk.iter().copied()).collect();
            let product = Residue::multi_exponentiate_bounded_exp(&terms[..], 8 * CHUNK_BYTES as u32);
            answer.extend(product.retrieve().to_le_bytes().as_slice());
        }
        Ok(answer)
    }
}
