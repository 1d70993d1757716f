//! Polynomials in rows and columns, packed in the order the first dimension reads them, over any ring.

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::Error;
use crate::bfv::Ciphertext;
use crate::pages::{PagePool, Pages};
use crate::ring::{self, COLUMNS, Evaluation, Lanes, Ntt, Products, RowSums, Selectors};

/// Slots that are stored and multiplied together.
const LANES: usize = size_of::<Lanes>() / size_of::<u64>();

/// Bytes of selectors put in order at a time; with many clients or rows, more.
const ARRANGED_BYTES: usize = 1 << 20;

/// Blocks whose selectors are put in order at a time: neighbours in memory, of which the processor fetches many at once.
const ARRANGED_BLOCKS: core::ops::RangeInclusive<usize> = 8..=32;

/// Plaintexts in evaluation form modulo the prime q of a ring, in `groups` matrices of rows and columns.
///
/// For each eight neighbouring slots (a *block*), the columns stand together in bundles of four, the last one of a group
/// possibly smaller. A bundle holds its rows one after the other: in each row, for each of its columns, eight residues of
/// `bits(q)` bits packed into as many bytes. The first dimension reads all of it once, from end to end, with the sums of a
/// bundle in registers and the selectors of a block in the cache. The *places* of a block are numbered in this order.
pub struct PackedMatrix {
    layout: Layout,
    /// Group by group, block by block.
    packed: Pages,
}

/// The form of a group, of which there are at least one row and one column.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) degree: usize,
    /// Bits of a residue, and bytes of eight.
    pub(super) width: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl PackedMatrix {
    /// Room for polynomials over the given ring, in memory of a page pool. Every place has to be written before the first
    /// product.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are groups, 1 to 2^12 rows, and columns; [`Error::Memory`] if there is no room.
    pub fn new(
        pool: &PagePool,
        ntt: &Ntt,
        groups: usize,
        [rows, columns]: [usize; 2],
    ) -> Result<Self, Error> {
        if groups == 0 || columns == 0 || !(1..=1 << 12).contains(&rows) {
            return Err(Error::Shape("groups, columns, and 1 to 4096 rows"));
        }
        let layout = Layout::new(ntt, [rows, columns]);
        let places = rows.checked_mul(columns).and_then(|places| places.checked_mul(groups));
        let bytes = places.and_then(|places| places.checked_mul(layout.degree / LANES * layout.width));
        let packed = pool.pages(bytes.ok_or(Error::Memory { bytes: usize::MAX })?)?;
        Ok(Self { layout, packed })
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.packed.len()
    }

    /// Rows and columns of each group.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.layout.rows, self.layout.columns]
    }

    /// The columns that stand together with `column`.
    #[must_use]
    pub fn bundle(&self, column: usize) -> core::ops::Range<usize> {
        let first = column / COLUMNS * COLUMNS;
        first..self.layout.columns.min(first + COLUMNS)
    }

    /// Writes some rows of a bundle's columns: `sources` has, row by row from `first_row` on, the slots of each of them.
    ///
    /// # Panics
    /// If there are no such places, or a source does not have N entries.
    pub fn write_rows(&mut self, group: usize, bundle: usize, first_row: usize, sources: &[&[u64]]) {
        let columns = self.bundle(bundle);
        assert!(sources.len() <= columns.len() * (self.layout.rows - first_row), "rows of the bundle");
        assert!(sources.iter().all(|source| source.len() == self.layout.degree), "N slots");
        let first = columns.start * self.layout.rows + first_row * columns.len();
        let (layout, bytes) = (self.layout, self.layout.group_bytes());
        layout.write(&mut self.packed[group * bytes..(group + 1) * bytes], first, sources);
    }

    /// Group by group, the bytes of all blocks.
    pub(super) fn groups_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.packed.chunks_exact_mut(self.layout.group_bytes())
    }

    /// For every client and column, `sum_r selectors[r] * plaintext(r, column)` over the rows r, for both halves of the
    /// selectors, modulo q and in evaluation form, in one pass over the group.
    ///
    /// # Panics
    /// If the ring has another degree or length of modulus than that of the matrix, there is no such group, or there are not
    /// `products` for every client and selectors for every row.
    pub fn products(
        &self,
        ntt: &Ntt,
        group: usize,
        selectors: &[&[Ciphertext<Evaluation>]],
        products: &mut [&mut Products],
    ) {
        let Layout { degree, width, rows, columns } = self.layout;
        assert!(ntt.degree() == degree && ntt.modulus().bits() as usize == width, "the ring of the matrix");
        assert_eq!(selectors.len(), products.len(), "products for every client");
        assert!(selectors.iter().all(|selectors| selectors.len() >= rows), "a selector for every row");
        if selectors.is_empty() {
            return;
        }
        for products in products.iter_mut() {
            products.resize(columns, degree);
        }
        let bytes = self.layout.group_bytes();
        let packed = &self.packed[group * bytes..(group + 1) * bytes];
        let block_bytes = self.layout.block_bytes();
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

impl Layout {
    pub(super) fn new(ntt: &Ntt, [rows, columns]: [usize; 2]) -> Self {
        Self { degree: ntt.degree(), width: ntt.modulus().bits() as usize, rows, columns }
    }

    /// Bytes of a block of a group.
    fn block_bytes(&self) -> usize {
        self.rows * self.columns * self.width
    }

    /// Bytes of all blocks of a group.
    pub(super) fn group_bytes(&self) -> usize {
        self.degree / LANES * self.block_bytes()
    }

    /// Row and column of a place of every block.
    pub(super) fn row_and_column(&self, place: usize) -> [usize; 2] {
        let (bundle, place) = (place / (self.rows * COLUMNS), place % (self.rows * COLUMNS));
        let in_bundle = COLUMNS.min(self.columns - bundle * COLUMNS);
        [place / in_bundle, bundle * COLUMNS + place % in_bundle]
    }

    /// Writes, block by block of a group, the run of bytes of neighbouring places from `first` on.
    pub(super) fn write(&self, packed: &mut [u8], first: usize, sources: &[&[u64]]) {
        packed.par_chunks_exact_mut(self.block_bytes()).enumerate().for_each(|(block, bytes)| {
            let run = &mut bytes[first * self.width..][..sources.len() * self.width];
            ring::pack(self.width, block * LANES, sources, run);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, PackedMatrix};
    use crate::bfv;
    use crate::pages::PagePool;
    use crate::ring::bits::unpack;

    #[test]
    fn matrices_beyond_the_bounds_are_refused() {
        let (pool, ntt) = (PagePool::default(), bfv::Parameters::s2048().small());
        let new = |groups, shape| PackedMatrix::new(&pool, ntt, groups, shape);
        for (groups, shape) in [(0, [1, 1]), (1, [0, 1]), (1, [1, 0]), (1, [4097, 1]), (usize::MAX, [2, 2])] {
            assert!(new(groups, shape).is_err(), "{groups} {shape:?}");
        }
        // Of 2,048 residues of 36 bits in each place.
        for (groups, shape) in [(1, [1, 1]), (2, [3, 5]), (1, [4096, 1])] {
            let matrix = new(groups, shape).unwrap();
            assert_eq!(matrix.shape(), shape);
            assert_eq!(matrix.bytes(), groups * shape[0] * shape[1] * 9216);
        }
    }

    /// Four columns stand together, and those that are left.
    #[test]
    fn columns_stand_in_bundles() {
        let (pool, ntt) = (PagePool::default(), bfv::Parameters::s2048().small());
        let matrix = PackedMatrix::new(&pool, ntt, 1, [3, 6]).unwrap();
        assert_eq!([0, 3, 4, 5].map(|column| matrix.bundle(column)), [0..4, 0..4, 4..6, 4..6]);
        let layout = Layout::new(ntt, [3, 6]);
        assert_eq!([0, 3, 4, 11].map(|place| layout.row_and_column(place)), [[0, 0], [0, 3], [1, 0], [2, 3]]);
        assert_eq!(
            [12, 13, 14, 17].map(|place| layout.row_and_column(place)),
            [[0, 4], [0, 5], [1, 4], [2, 5]]
        );
    }

    fn write(first_row: usize, sources: usize, slots: usize) {
        let (pool, ntt) = (PagePool::default(), bfv::Parameters::s2048().small());
        let mut matrix = PackedMatrix::new(&pool, ntt, 1, [3, 6]).unwrap();
        let source = vec![1; slots];
        matrix.write_rows(0, 4, first_row, &vec![&*source; sources]);
    }

    /// Block by block and bundle by bundle; of each row eight residues of every column. The first dimension reads them in this order.
    #[test]
    fn every_row_of_a_bundle_is_written_where_it_is_read() {
        let (pool, ntt) = (PagePool::default(), bfv::Parameters::s2048().small());
        let mut matrix = PackedMatrix::new(&pool, ntt, 2, [3, 6]).unwrap();
        let value = |group: usize, row: usize, column: usize, slot: usize| {
            (slot + 2048 * (column + 6 * (row + 3 * group))) as u64
        };
        for (group, bundle) in [(0, 0), (0, 4), (1, 3), (1, 5)] {
            let columns = matrix.bundle(bundle);
            // The first row by itself, then those that are left.
            for rows in [0..1, 1..3] {
                let polynomial =
                    |(row, column)| (0..2048).map(|slot| value(group, row, column, slot)).collect();
                let places = rows.clone().flat_map(|row| columns.clone().map(move |column| (row, column)));
                let sources: Vec<Vec<u64>> = places.map(polynomial).collect();
                let sources: Vec<&[u64]> = sources.iter().map(Vec::as_slice).collect();
                matrix.write_rows(group, bundle, rows.start, &sources);
            }
        }
        let mut found = vec![0; 2 * 3 * 6 * 2048];
        unpack(36, &matrix.packed, &mut found);
        let mut found = found.chunks_exact(8);
        for (group, block) in (0..2).flat_map(|group| (0..256).map(move |block| (group, block))) {
            for columns in [0..4, 4..6] {
                for (row, column) in (0..3).flat_map(|row| columns.clone().map(move |column| (row, column))) {
                    let expected = (0..8).map(|lane| value(group, row, column, 8 * block + lane));
                    assert!(
                        found.next().unwrap().iter().copied().eq(expected),
                        "{group} {block} {row} {column}"
                    );
                }
            }
        }
    }

    /// What stands behind them is another bundle's, or nobody's.
    #[test]
    fn rows_that_a_bundle_has_are_written() {
        write(0, 6, 2048);
        write(1, 4, 2048);
        write(2, 2, 2048);
    }

    #[test]
    #[should_panic(expected = "rows of the bundle")]
    fn rows_that_a_bundle_does_not_have_are_not_written() {
        write(2, 3, 2048);
    }

    #[test]
    #[should_panic(expected = "N slots")]
    fn polynomials_of_another_degree_are_not_written() {
        write(0, 1, 2047);
    }
}
