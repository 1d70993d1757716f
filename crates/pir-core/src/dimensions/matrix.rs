//! The preprocessed database: plaintexts in evaluation form, packed, in the order the first dimension reads them.

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::packing::{Encoder, Packing};
use crate::pages::{PagePool, Pages};
use crate::ring::{self, Aligned, COLUMNS, Evaluation, Lanes, Products, RowSums, Selectors};
use crate::{Error, bfv};

/// Slots that are stored and multiplied together.
const LANES: usize = size_of::<Lanes>() / size_of::<u64>();

/// Plaintexts for each thread that are encoded before they are put in their places: enough for long runs, few enough for
/// the cache.
const BATCH: usize = 32;

/// Bytes of selectors put in order at a time; with many clients or rows, more.
const ARRANGED_BYTES: usize = 1 << 20;

/// Blocks whose selectors are put in order at a time: neighbours in memory, of which the processor fetches many at once.
const ARRANGED_BLOCKS: core::ops::RangeInclusive<usize> = 8..=32;

/// The plaintexts of a database in rows and columns, column by column, ready for the first dimension.
///
/// For each eight neighbouring slots (a *block*), the columns stand together in bundles of four, the last one of a group
/// possibly smaller. A bundle holds its rows one after the other: in each row, for each of its columns, eight residues of
/// `bits(q)` bits packed into as many bytes. The first dimension reads all of it once, from end to end, with the sums of a
/// bundle in registers and the selectors of a block in the cache; at 36 bits, 4 bytes are kept per byte of 288-byte
/// elements.
pub struct Matrix {
    arrangement: Arrangement,
    /// Block by block, group by group.
    packed: Pages,
}

/// Packing, rows and columns.
#[derive(Clone, Copy)]
struct Arrangement {
    packing: Packing,
    rows: usize,
    columns: usize,
}

impl Matrix {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool, into memory of a page
    /// pool. Places that the last
    /// columns have too many hold zeros.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the packing, or its plaintexts are more than the places;
    /// [`Error::Memory`] if there is no room for it.
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
        let arrangement = Arrangement { packing: *packing, rows, columns };
        let mut packed = pool.pages(packing.groups() * arrangement.group_bytes())?;
        for (group, packed) in packed.chunks_exact_mut(arrangement.group_bytes()).enumerate() {
            arrangement.encode_group(elements, group, packed);
        }
        Ok(Self { arrangement, packed })
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.packed.len()
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
        let rows = self.arrangement.rows;
        assert_eq!(selectors.len(), products.len(), "products for every client");
        assert!(selectors.iter().all(|selectors| selectors.len() >= rows), "a selector for every row");
        if selectors.is_empty() {
            return;
        }
        let ntt = bfv::Parameters::s2048().small();
        let columns = self.arrangement.columns;
        for products in products.iter_mut() {
            products.resize(columns, ntt.degree());
        }
        let bytes = self.arrangement.group_bytes();
        let packed = &self.packed[group * bytes..(group + 1) * bytes];
        let block_bytes = self.arrangement.block_bytes();
        let mut scratch = RowSums::default();
        let mut arranged = Selectors::new(selectors.len(), rows);
        let at_once = (ARRANGED_BYTES / arranged.block_bytes().max(1))
            .clamp(*ARRANGED_BLOCKS.start(), *ARRANGED_BLOCKS.end());
        for (index, packed) in packed.chunks(at_once * block_bytes).enumerate() {
            let first = index * at_once;
            let blocks = first..first + packed.len() / block_bytes;
            let slots = blocks.start * LANES..blocks.end * LANES;
            arranged.resize(blocks);
            for (client, selectors) in selectors.iter().enumerate() {
                for (row, selector) in selectors.iter().take(rows).enumerate() {
                    let halves = [&selector.c0, &selector.c1].map(|half| &half.residues()[slots.clone()]);
                    ring::arrange(ntt.modulus(), &mut arranged, client, row, halves);
                }
            }
            ring::row_products(ntt.modulus(), packed, columns, &arranged, products, &mut scratch);
        }
    }
}

impl Arrangement {
    /// Bytes of a block of a group.
    fn block_bytes(&self) -> usize {
        self.rows * self.columns * residue_bits()
    }

    /// Bytes of all blocks of a group.
    fn group_bytes(&self) -> usize {
        bfv::Parameters::s2048().degree() / LANES * self.block_bytes()
    }

    /// The plaintext, counted column by column, at a place of every block.
    fn plaintext_at(&self, place: usize) -> usize {
        let (bundle, place) = (place / (self.rows * COLUMNS), place % (self.rows * COLUMNS));
        let in_bundle = COLUMNS.min(self.columns - bundle * COLUMNS);
        (bundle * COLUMNS + place % in_bundle) * self.rows + place / in_bundle
    }

    /// Encodes plaintexts that stand next to each other, then writes, block by block, the run of bytes they share.
    fn encode_group(&self, elements: &[u8], group: usize, packed: &mut [u8]) {
        let (degree, width) = (bfv::Parameters::s2048().degree(), residue_bits());
        let places = self.rows * self.columns;
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
            packed.par_chunks_exact_mut(self.block_bytes()).enumerate().for_each(|(block, bytes)| {
                let run = &mut bytes[first * width..][..sources.len() * width];
                ring::pack(width, block * LANES, &sources, run);
            });
        }
    }
}

/// Bits of a stored residue, and bytes of eight.
fn residue_bits() -> usize {
    bfv::Parameters::s2048().small().modulus().bits() as usize
}

#[cfg(test)]
mod tests {
    use super::{Arrangement, Packing};

    #[test]
    fn every_byte_is_written_whatever_was_there() {
        // Columns and a last plaintext that are not full; elements of several plaintexts.
        for (elements, element_bytes, rows, columns) in [(1000, 288, 18, 7), (5, 6000, 5, 1)] {
            let packing = Packing::new(elements, element_bytes).unwrap();
            let arrangement = Arrangement { packing, rows, columns };
            let bytes: Vec<u8> = (0..elements * element_bytes).map(|i| (i * 7 % 251) as u8).collect();
            for group in 0..packing.groups() {
                let [zeros, ones] = [0, 0xFF].map(|content| {
                    let mut packed = vec![content; arrangement.group_bytes()];
                    arrangement.encode_group(&bytes, group, &mut packed);
                    packed
                });
                assert_eq!(zeros, ones, "{elements} of {element_bytes} bytes");
            }
        }
    }
}
