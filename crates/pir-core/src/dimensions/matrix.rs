//! The preprocessed database: plaintexts in evaluation form, packed, in the order the first dimension reads them.

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use super::packed::{Layout, PackedMatrix};
use crate::packing::{Encoder, Packing};
use crate::pages::PagePool;
use crate::ring::{Aligned, Evaluation, Products};
use crate::{Error, bfv};

/// Plaintexts for each thread that are encoded before they are put in their places: enough for long runs, few enough for
/// the cache.
const BATCH: usize = 32;

/// The plaintexts of a database in rows and columns, column by column, ready for the first dimension: a [`PackedMatrix`]
/// over the small prime, with a group for each plaintext of an element. 4 bytes are kept per byte of 288-byte elements.
pub struct Matrix {
    packed: PackedMatrix,
}

/// Packing, rows and columns.
#[derive(Clone, Copy)]
struct Arrangement {
    packing: Packing,
    layout: Layout,
}

impl Matrix {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool, into memory of a page
    /// pool. Places that the last
    /// columns have too many hold zeros.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the packing, or its plaintexts are more than the places, or there are more
    /// than 2^12 rows; [`Error::Memory`] if there is no room for it.
    pub fn new(
        pool: &PagePool,
        packing: &Packing,
        [rows, columns]: [usize; 2],
        elements: &[u8],
    ) -> Result<Self, Error> {
        if elements.len() != packing.elements() * packing.element_bytes() {
            return Err(Error::Shape("size of the database"));
        }
        if rows.checked_mul(columns).is_none_or(|places| places < packing.plaintexts()) {
            return Err(Error::Shape("fewer places than plaintexts"));
        }
        let ntt = bfv::Parameters::s2048().small();
        let arrangement = Arrangement { packing: *packing, layout: Layout::new(ntt, [rows, columns]) };
        let mut packed = PackedMatrix::new(pool, ntt, packing.groups(), [rows, columns])?;
        for (group, packed) in packed.groups_mut().enumerate() {
            arrangement.encode_group(elements, group, packed);
        }
        Ok(Self { packed })
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// For every client and column, `sum_r selectors[r] * plaintext(r, column)` over the `n1` rows r, for both halves of
    /// the selectors, modulo q and in evaluation form, in one pass over the database.
    ///
    /// # Panics
    /// If there is no such group, or there are not `products` for every client and selectors for every row.
    pub fn first_dimension(
        &self,
        group: usize,
        selectors: &[&[bfv::Ciphertext<Evaluation>]],
        products: &mut [&mut Products],
    ) {
        self.packed.products(bfv::Parameters::s2048().small(), group, selectors, products);
    }
}

impl Arrangement {
    /// The plaintext, counted column by column, at a place of every block.
    fn plaintext_at(&self, place: usize) -> usize {
        let [row, column] = self.layout.row_and_column(place);
        column * self.layout.rows + row
    }

    /// Encodes plaintexts that stand next to each other, then writes, block by block, the run of bytes they share.
    fn encode_group(&self, elements: &[u8], group: usize, packed: &mut [u8]) {
        let (degree, places) = (self.layout.degree, self.layout.rows * self.layout.columns);
        let at_once = places.min(BATCH * rayon::current_num_threads());
        let mut batch = Aligned::filled(0, at_once * degree);
        for first in (0..places).step_by(at_once) {
            let batch = &mut batch[..at_once.min(places - first) * degree];
            batch.par_chunks_exact_mut(degree).enumerate().for_each_init(
                Encoder::default,
                |encoder, (i, encoded)| {
                    let plaintext = self.plaintext_at(first + i);
                    encoder.encode(&self.packing, elements, group, plaintext, encoded);
                },
            );
            let sources: Vec<&[u64]> = batch.chunks_exact(degree).collect();
            self.layout.write(packed, first, &sources);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrangement, Layout, Packing, bfv};

    #[test]
    fn every_byte_is_written_whatever_was_there() {
        // Columns and a last plaintext that are not full; elements of several plaintexts.
        for (elements, element_bytes, rows, columns) in [(1000, 288, 18, 7), (5, 6000, 5, 1)] {
            let packing = Packing::new(elements, element_bytes).unwrap();
            let layout = Layout::new(bfv::Parameters::s2048().small(), [rows, columns]);
            let arrangement = Arrangement { packing, layout };
            let bytes: Vec<u8> = (0..elements * element_bytes).map(|i| (i * 7 % 251) as u8).collect();
            for group in 0..packing.groups() {
                let [zeros, ones] = [0, 0xFF].map(|content| {
                    let mut packed = vec![content; layout.group_bytes()];
                    arrangement.encode_group(&bytes, group, &mut packed);
                    packed
                });
                assert_eq!(zeros, ones, "{elements} of {element_bytes} bytes");
            }
        }
    }
}
