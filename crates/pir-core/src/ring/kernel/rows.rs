//! What the first dimension of an answer works on: the selectors of some clients, and their sums.

use core::ops::Range;

use crate::ring::aligned::Aligned;
use crate::ring::tables::bit_reverse;

/// Neighbouring slots that are stored together.
pub(crate) type Lanes = [u64; 8];

/// Two small integers for each of 16 sums: `[2 lane]` and `[2 lane + 1]`.
pub(crate) type Pairs = [i16; 32];

/// Bits of the sums of [`Pairs`]' products.
pub(super) const PAIR_BITS: u32 = 39;

/// Bits of the limbs that they are multiplied with.
pub(super) const PAIR_LIMB: u32 = 13;

/// Positions whose products are summed in 32 bits, of integers in `[-2^8, 2^8)` with limbs of 13 bits. With the lowest limb there
/// is one product for each position, and the sum fits: `2^8 (2^13 - 1) 2^10 < 2^31`. With either of the other two limbs there are
/// two, and their sum may lose a multiple of 2^32; it counts 2^13 or 2^26 times, so that what is lost is a multiple of 2^45, and
/// of the result 39 bits are kept.
pub(super) const PAIR_CHUNK: usize = 1024;

/// A walk of some steps along the powers of `sigma`, that is `X -> X^5`, in one of two chains; M places in an orbit.
///
/// In orbit order, vector v of a half has in lane l the slot of place `br(v) + M/8 br(l)`: places of the M/8 vectors of a half follow
/// each other without a change of lanes, but for the last one, after which they have moved on by a lane.
pub(crate) struct OrbitWalk<'a> {
    /// Bits that a digit drops.
    pub(crate) shift: u32,
    /// From the last one down to the first, which is at least 1.
    pub(crate) steps: Range<usize>,
    /// Vector t of a half has the place `t + M/8 br(l)` in lane l, for t below M.
    pub(crate) images: &'a [Lanes],
    /// For each step what is added when it has led to the one before: in slots.
    pub(crate) masks: &'a [Lanes],
    /// In the second chain halves of images are exchanged, and digits kept behind those of the first.
    pub(crate) second: bool,
    /// Vectors from one block of kept digits to the next.
    pub(crate) stride: usize,
}

impl OrbitWalk<'_> {
    /// Of the four vectors of a step that are kept for a block, the first of this chain.
    #[inline]
    pub(super) fn first_vector(&self) -> usize {
        2 * usize::from(self.second)
    }

    /// The image that a vector of digits of a step is multiplied with.
    #[inline]
    pub(super) fn image(&self, step: usize, vector: usize) -> &Lanes {
        let orbit = self.images.len() / 2;
        let blocks = orbit / 8;
        let place = (bit_reverse(vector % blocks, blocks.ilog2()) + step - 1) % orbit;
        &self.images[((vector / blocks) ^ usize::from(self.second)) * orbit + place]
    }

    /// What is added when a step has been done, for polynomials of so many coefficients.
    #[inline]
    pub(super) fn masks_of(&self, step: usize, degree: usize) -> &[Lanes] {
        &self.masks[(step - 1) * degree / 8..][..degree / 8]
    }
}

/// Clients whose keys lie side by side.
pub(super) const TOGETHER: usize = 16;

/// Keys of some clients in the order in which `orbit_products` reads them. As they come, each would lie a multiple of a page behind
/// the one before, and what is read of all of them at a time would meet in the same few lines of the first-level cache.
pub(crate) struct OrbitKeys {
    clients: usize,
    rows: usize,
    words: Aligned<OrbitRow>,
}

/// Of both halves of a key eight places that are an eighth of the orbit apart.
pub(super) type OrbitRow = [Lanes; 2];

impl OrbitKeys {
    /// Of keys of one size, each both halves, row by row.
    pub(crate) fn new(keys: &[&[u64]]) -> Self {
        let rows = keys.first().map_or(0, |key| key.len() / 16);
        assert!(keys.iter().all(|key| key.len() == 16 * rows), "keys of one size");
        let mut words = Aligned::filled([[0; 8]; 2], rows * keys.len());
        let groups = words.chunks_mut(TOGETHER * rows.max(1)).zip(keys.chunks(TOGETHER));
        for (words, keys) in groups {
            for (row, words) in words.chunks_exact_mut(keys.len()).enumerate() {
                for (word, key) in words.iter_mut().zip(keys) {
                    let (first, second) = key.as_chunks().0.split_at(rows);
                    *word = [first[row], second[row]];
                }
            }
        }
        Self { clients: keys.len(), rows, words }
    }

    pub(super) fn clients(&self) -> usize {
        self.clients
    }

    /// Eight times as many are the places of an orbit.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Sixteen clients after the other, how many they are and their keys: row by row, and client by client in each.
    pub(super) fn groups(&self) -> impl Iterator<Item = (usize, &[OrbitRow])> {
        let groups = self.words.chunks(TOGETHER * self.rows.max(1));
        groups.map(|words| (words.len() / self.rows, words))
    }
}

/// Rows that `row_products` unpacks at a time.
pub(super) const CHUNK: usize = 64;

/// Words that a row takes when it is unpacked: one for each column of a bundle, or three digits for two of them.
const ROW_WORDS: usize = 6;

/// Columns that stand together, in a *bundle*: as many sums as fit in registers.
pub(crate) const COLUMNS: usize = 4;

/// Bundle by bundle of a block of the database: its columns and its bytes.
pub(super) fn bundles(
    packed: &[u8],
    rows: usize,
    columns: usize,
    width: usize,
) -> impl Iterator<Item = (Range<usize>, &[u8])> {
    let bundles = packed.chunks(rows * COLUMNS * width).zip((0..columns).step_by(COLUMNS));
    bundles.map(move |(bundle, first)| (first..columns.min(first + COLUMNS), bundle))
}

/// The selectors of some clients at a run of blocks, in the order and the form in which `row_products` reads them:
/// block by block, client by client and row by row, two words for eight slots of both halves.
pub(crate) struct Selectors {
    pub(super) clients: usize,
    pub(super) rows: usize,
    first: usize,
    words: Aligned<[Lanes; 2]>,
}

impl Selectors {
    /// For so many clients, `rows` selectors each.
    pub(crate) fn new(clients: usize, rows: usize) -> Self {
        Self { clients, rows, first: 0, words: Aligned::default() }
    }

    /// Makes room for these blocks.
    pub(crate) fn resize(&mut self, blocks: Range<usize>) {
        self.first = blocks.start;
        self.words.resize(blocks.len() * self.clients * self.rows, [[0; 8]; 2]);
    }

    /// Bytes of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.clients * self.rows * size_of::<[Lanes; 2]>()
    }

    /// The places of one selector, block by block.
    pub(super) fn places(&mut self, client: usize, row: usize) -> impl Iterator<Item = &mut [Lanes; 2]> {
        self.words.iter_mut().skip(client * self.rows + row).step_by(self.clients * self.rows)
    }

    /// Block by block, its number and the selectors of each client.
    pub(super) fn blocks(
        &self,
    ) -> impl Iterator<Item = (usize, impl Iterator<Item = &[[Lanes; 2]]> + Clone)> {
        let blocks = self.words.chunks_exact(self.clients * self.rows);
        (self.first..).zip(blocks.map(|block| block.chunks_exact(self.rows)))
    }
}

/// What `row_products` gives one client: block by block and column by column, both halves of a sum. In this order it is
/// written from end to end; polynomial by polynomial, every store would go to another page.
#[derive(Clone, Default)]
pub struct Products {
    columns: usize,
    values: Aligned<[Lanes; 2]>,
}

impl Products {
    /// Makes room for so many columns of polynomials of the given degree.
    pub fn resize(&mut self, columns: usize, degree: usize) {
        self.columns = columns;
        self.values.resize(columns * degree / 8, [[0; 8]; 2]);
    }

    /// c0 and c1 of neighbouring columns, polynomial by polynomial.
    pub fn read(&self, columns: Range<usize>, out: &mut [u64]) {
        let blocks = self.values.len() / self.columns;
        for (block, values) in self.values.chunks_exact(self.columns).enumerate() {
            let out = out.as_chunks_mut().0.iter_mut().skip(block).step_by(blocks);
            out.zip(values[columns.clone()].as_flattened()).for_each(|(place, slots)| *place = *slots);
        }
    }

    /// c0 and c1 of one column.
    #[cfg(test)]
    pub(crate) fn column(&self, column: usize) -> [Vec<u64>; 2] {
        let degree = 8 * self.values.len() / self.columns;
        let mut halves = vec![0; 2 * degree];
        self.read(column..column + 1, &mut halves);
        let c1 = halves.split_off(degree);
        [halves, c1]
    }

    /// Takes c0 and c1 of one column.
    pub fn write(&mut self, column: usize, [c0, c1]: [&[u64]; 2]) {
        let places = self.values.iter_mut().skip(column).step_by(self.columns);
        for ((place, c0), c1) in places.zip(c0.as_chunks().0).zip(c1.as_chunks().0) {
            *place = [*c0, *c1];
        }
    }

    /// The places of neighbouring columns at a block.
    pub(super) fn places(&mut self, columns: &Range<usize>, block: usize) -> &mut [Lanes] {
        let first = block * self.columns;
        self.values[first + columns.start..first + columns.end].as_flattened_mut()
    }
}

/// Buffers of one thread for `row_products`.
#[derive(Default)]
pub(crate) struct RowSums {
    /// [`CHUNK`] rows of [`ROW_WORDS`].
    pub(super) values: Aligned<Lanes>,
    /// For every client and column, two words for each half.
    pub(super) sums: Aligned<[[Lanes; 2]; 2]>,
}

impl RowSums {
    pub(super) fn clear(&mut self, columns: usize, clients: usize) {
        self.values.resize(CHUNK * ROW_WORDS, [0; 8]);
        self.sums.resize(columns * clients, [[[0; 8]; 2]; 2]);
        self.sums.fill([[[0; 8]; 2]; 2]);
    }
}
