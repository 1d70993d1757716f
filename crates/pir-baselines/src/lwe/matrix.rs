//! Matrices of signed bytes, and the public matrix of a round.

use core::ops::Range;

use pir_core::{Error, PagePool, PageVec};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator, ParallelSliceMut};
use sha2::{Digest, Sha256};

use super::kernel::{Halves, PANEL, multiply};

/// A row is padded with zeros to a multiple of so many entries: a cache line, and whole vectors of every kernel.
pub(crate) const STEP: usize = 64;

/// Vectors of a public matrix that are held at a time.
const GROUP: usize = 48;

/// A matrix of signed bytes, row by row.
pub(crate) struct ByteMatrix {
    rows: usize,
    columns: usize,
    entries: PageVec<i8>,
}

impl ByteMatrix {
    /// So many rows and columns of zeros.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no room for them.
    pub(crate) fn zeros(pool: &PagePool, rows: usize, columns: usize) -> Result<Self, Error> {
        let length = rows.checked_mul(columns.next_multiple_of(STEP));
        let mut entries = pool.vector(length.ok_or(Error::Memory { bytes: usize::MAX })?)?;
        entries.par_chunks_mut(1 << 20).for_each(|entries| entries.fill(0));
        Ok(Self { rows, columns, entries })
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) const fn columns(&self) -> usize {
        self.columns
    }

    /// Entries of a row with its padding.
    pub(crate) const fn stride(&self) -> usize {
        self.columns.next_multiple_of(STEP)
    }

    /// Size in memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn row(&self, row: usize) -> &[i8] {
        let stride = self.stride();
        &self.entries[row * stride..(row + 1) * stride]
    }

    /// All rows, padding included.
    pub(crate) fn entries_mut(&mut self) -> &mut [i8] {
        &mut self.entries
    }

    #[cfg(test)]
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [i8] {
        let stride = self.stride();
        &mut self.entries[row * stride..(row + 1) * stride]
    }

    /// Runs of so many rows each, padding included, in parallel.
    pub(crate) fn runs_mut(&mut self, rows: usize) -> impl IndexedParallelIterator<Item = &mut [i8]> {
        let length = rows * self.stride();
        self.entries.par_chunks_mut(length)
    }
}

/// The seed of a public matrix: SHA-256(domain, 0, seed of the round).
pub(crate) fn public_seed(domain: &str, seed: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update(domain).chain_update([0]).chain_update(seed).finalize().into()
}

/// Column `number` of the public matrix of a seed: the words of the ChaCha20 keystream `number`, little-endian. A longer
/// column begins with a shorter one.
pub(crate) fn public_column(seed: &[u8; 32], number: usize, words: &mut [u32]) {
    let mut rng = ChaCha20Rng::from_seed(*seed);
    rng.set_stream(number as u64);
    let mut bytes = [0; 4096];
    for words in words.chunks_mut(bytes.len() / 4) {
        let bytes = &mut bytes[..4 * words.len()];
        rng.fill_bytes(bytes);
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
    }
}

/// Columns of the public matrix of a seed, on all threads of the pool that it is called on.
fn public_columns(seed: &[u8; 32], numbers: Range<usize>, rows: usize) -> Halves {
    let column = |number| {
        let mut words = vec![0; rows];
        public_column(seed, number, &mut words);
        words
    };
    let columns: Vec<Vec<u32>> = numbers.into_par_iter().map(column).collect();
    Halves::new(rows, columns.iter().map(Vec::as_slice))
}

/// The public matrix of a seed, of so many columns and rows.
pub(crate) fn public_matrix(seed: &[u8; 32], degree: usize, rows: usize) -> Halves {
    public_columns(seed, 0..degree, rows)
}

/// The products of several matrices of as many columns with the public matrix of `degree` columns, on all threads of the
/// pool that it is called on: of each the words row by row, `degree` of them in a row, little-endian.
pub(crate) fn times_public(seed: &[u8; 32], degree: usize, matrices: &[&ByteMatrix]) -> Vec<Vec<u8>> {
    let columns = matrices.first().map_or(0, |matrix| matrix.columns());
    let mut products: Vec<Vec<u8>> =
        matrices.iter().map(|matrix| vec![0; 4 * degree * matrix.rows()]).collect();
    for first in (0..degree).step_by(GROUP) {
        let vectors = public_columns(seed, first..(first + GROUP).min(degree), columns);
        for (matrix, product) in matrices.iter().zip(&mut products) {
            product.par_chunks_mut(4 * degree * PANEL).enumerate().for_each(|(panel, product)| {
                let rows = product.len() / (4 * degree);
                let mut words = vec![0; rows * vectors.count()];
                multiply(matrix, panel * PANEL..panel * PANEL + rows, &vectors, &mut words);
                let (product, _) = product.as_chunks_mut();
                for (number, words) in words.chunks_exact(rows).enumerate() {
                    for (row, word) in words.iter().enumerate() {
                        product[row * degree + first + number] = word.to_le_bytes();
                    }
                }
            });
        }
    }
    products
}
