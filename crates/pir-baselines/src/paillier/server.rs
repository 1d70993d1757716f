//! SETUP and ANSWER.

use crypto_bigint::modular::FixedMontyForm;
use crypto_bigint::{MultiExponentiateBoundedExp, Uint};
use pir_core::Error;

use super::keys::PublicKeys;
use super::{ANSWER, Parameters, QUERY, header};

/// A database ready to answer.
pub struct Database<const MODULUS: usize> {
    parameters: Parameters<MODULUS>,
    /// Chunk by chunk, of all elements.
    chunks: Vec<Uint<MODULUS>>,
}

impl<const MODULUS: usize> Database<MODULUS> {
    /// Cuts `elements * element_bytes` bytes into chunks.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters.
    pub fn new(parameters: &Parameters<MODULUS>, elements: &[u8]) -> Result<Self, Error> {
        let size = parameters.element_bytes;
        if elements.len() != parameters.elements * size {
            return Err(Error::Shape("size of the database"));
        }
        let chunk = |chunk: usize, element: &[u8]| {
            let first = chunk * Parameters::<MODULUS>::CHUNK_BYTES;
            let bytes = &element[first..size.min(first + Parameters::<MODULUS>::CHUNK_BYTES)];
            let mut padded = Uint::<MODULUS>::ZERO.to_le_bytes();
            padded.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
            Uint::from_le_slice(padded.as_slice())
        };
        let chunks = (0..parameters.chunks())
            .flat_map(|number| elements.chunks_exact(size).map(move |element| chunk(number, element)));
        Ok(Self { parameters: *parameters, chunks: chunks.collect() })
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chunks.len() * Uint::<MODULUS>::BYTES
    }

    /// Chunk by chunk, the product of all ciphertexts of a query to the power of the elements.
    pub(super) fn answer<const SQUARE: usize>(
        &self,
        keys: &PublicKeys<MODULUS, SQUARE>,
        query: &[u8],
    ) -> Result<Vec<u8>, Error> {
        const WHAT: &str = "query";
        let body = query.strip_prefix(&header::<MODULUS>(QUERY)).ok_or(Error::Malformed(WHAT))?;
        if body.len() != self.parameters.elements * Uint::<SQUARE>::BYTES {
            return Err(Error::Malformed(WHAT));
        }
        let read = |bytes| Ok(FixedMontyForm::new(&keys.read(bytes, WHAT)?, keys.square()));
        let bases: Vec<FixedMontyForm<SQUARE>> =
            body.chunks_exact(Uint::<SQUARE>::BYTES).map(read).collect::<Result<_, Error>>()?;
        let bits = 8 * Parameters::<MODULUS>::CHUNK_BYTES as u32;
        let mut answer = header::<MODULUS>(ANSWER).to_vec();
        for chunk in self.chunks.chunks_exact(self.parameters.elements) {
            let terms: Vec<(FixedMontyForm<SQUARE>, Uint<MODULUS>)> =
                bases.iter().copied().zip(chunk.iter().copied()).collect();
            let product = FixedMontyForm::multi_exponentiate_bounded_exp(&terms[..], bits);
            answer.extend(product.retrieve().to_le_bytes().as_slice());
        }
        Ok(answer)
    }
}
