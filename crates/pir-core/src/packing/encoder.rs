//! From elements to plaintexts.

use super::layout::{Packing, plaintext_bytes};
use super::whitening::whiten;
use crate::ring::bits::unpack;
use crate::{bfv, ring};

/// Buffers of one thread for plaintexts in the making.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    coefficients: Vec<u64>,
}

impl Encoder {
    /// Plaintext `plaintext` of group `group`, in evaluation form modulo q: whitened bytes, cut into coefficients of log2 t
    /// bits centred in `[-t/2, t/2)`. Beyond the last plaintext, zeros.
    ///
    /// # Panics
    /// If `elements` are not those of the packing, or `encoded` does not have N entries.
    pub fn encode(
        &mut self,
        packing: &Packing,
        elements: &[u8],
        group: usize,
        plaintext: usize,
        encoded: &mut [u64],
    ) {
        if plaintext >= packing.plaintexts() {
            // Places that the last columns have too many.
            encoded.fill(0);
            return;
        }
        let bfv = bfv::Parameters::s2048();
        let (per_plaintext, size) = (packing.elements_per_plaintext(), packing.element_bytes());
        let first = (plaintext * per_plaintext).min(packing.elements());
        let last = (first + per_plaintext).min(packing.elements());
        let source = &elements[first * size..last * size];
        // One of the two factors is 1: several elements in a plaintext, or several plaintexts (groups) to an element.
        let offset = group * plaintext_bytes();
        let part = &source[offset.min(source.len())..source.len().min(offset + plaintext_bytes())];
        self.bytes.clear();
        self.bytes.extend_from_slice(part);
        self.bytes.resize(plaintext_bytes(), 0);
        whiten(packing, &mut self.bytes, group, plaintext);

        let bits = bfv.plaintext_bits();
        self.coefficients.resize(bfv.degree(), 0);
        unpack(bits, &self.bytes, &mut self.coefficients);
        ring::chunk(bfv.small().modulus(), 0, bits, encoded, &self.coefficients);
        bfv.small().forward(encoded);
    }
}
