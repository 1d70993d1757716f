//! Products of a matrix of signed bytes with vectors of words modulo 2^32: all that servers of these engines do.
//!
//! A word is cut into its halves of 16 bits, `w = low + 2^16 high` with `low` in `[-2^15, 2^15)`, so that one instruction
//! multiplies two entries with two halves and adds the products up: `sum = sum of entry low + 2^16 sum of entry high`, where
//! what passes 2^32 is lost on purpose. All back ends give the same words.

use core::ops::Range;

use pir_core::ring::{Backend, fetch};
#[cfg(target_arch = "x86_64")]
use pulp::x86::{V3, V4};

use super::matrix::{ByteMatrix, STEP};

/// Columns that are gone through before the next rows, and the next vectors, meet the same words: halves of so many stay in the first cache.
const CHUNK: usize = 4096;

/// Rows that stay in the second cache meanwhile, with as many columns as that.
pub(super) const PANEL: usize = 64;

/// Bytes of a row that are fetched ahead of those that are multiplied: processors do so by themselves within a page of 4 KiB, and several
/// rows at a time are too many places for the fastest memories.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 2048;

/// Vectors of words, cut into halves and padded like the rows that they meet.
pub(crate) struct Halves {
    stride: usize,
    /// For each vector the low halves, then the high ones.
    values: Vec<i16>,
}

impl Halves {
    /// As many vectors as there are, each of one word for each column of a matrix.
    pub(crate) fn new<'a>(columns: usize, vectors: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let (stride, mut values) = (columns.next_multiple_of(STEP), Vec::new());
        for vector in vectors {
            let start = values.len();
            values.resize(start + 2 * stride, 0);
            let (low, high) = values[start..].split_at_mut(stride);
            for ((low, high), word) in low.iter_mut().zip(high).zip(vector) {
                *low = *word as i16;
                *high = (word.wrapping_sub(*low as u32) >> 16) as i16;
            }
        }
        Self { stride, values }
    }

    /// Number of vectors.
    pub(crate) fn count(&self) -> usize {
        self.values.len() / (2 * self.stride)
    }

    /// Size in memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.values[..])
    }

    /// Both halves of a vector at some columns.
    fn at(&self, vector: usize, columns: &Range<usize>) -> [&[i16]; 2] {
        [0, 1].map(|half| {
            let start = (2 * vector + half) * self.stride;
            &self.values[start + columns.start..start + columns.end]
        })
    }
}

/// `out[v R + r] += sum over j of matrix[rows.start + r][j] * vectors[v][j] mod 2^32`, R being the number of rows.
///
/// # Panics
/// If the vectors are of another length than rows, there are no such rows, or there is another number of results.
pub(crate) fn multiply(matrix: &ByteMatrix, rows: Range<usize>, vectors: &Halves, out: &mut [u32]) {
    multiply_by(Backend::active(), matrix, rows, vectors, out);
}

fn multiply_by(backend: Backend, matrix: &ByteMatrix, rows: Range<usize>, vectors: &Halves, out: &mut [u32]) {
    assert_eq!(matrix.stride(), vectors.stride, "as many words as there are columns");
    assert_eq!(out.len(), rows.len() * vectors.count(), "a result for each row and vector");
    match backend {
        #[cfg(target_arch = "x86_64")]
        Backend::Avx512 | Backend::Avx512F => {
            // Every machine that has the back end has these features, and some with more of them are asked for here.
            if let Some(simd) = V4::try_new() {
                return simd.vectorize(
                    #[inline(always)]
                    || blocks(matrix, rows, vectors, out, Avx512Tile(simd)),
                );
            }
            blocks(matrix, rows, vectors, out, PlainTile);
        }
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2 => {
            if let Some(simd) = V3::try_new() {
                return simd.vectorize(
                    #[inline(always)]
                    || blocks(matrix, rows, vectors, out, Avx2Tile(simd)),
                );
            }
            blocks(matrix, rows, vectors, out, PlainTile);
        }
        _ => blocks(matrix, rows, vectors, out, PlainTile),
    }
}

/// The sums of a few rows and vectors, in registers.
trait Tile: Copy {
    /// Rows, and vectors, that there are registers for.
    const SHAPE: [usize; 2];

    /// For each vector and row, all of one length, a multiple of [`STEP`], the sum of the products.
    fn sums<const R: usize, const C: usize>(
        self,
        rows: [&[i8]; R],
        vectors: [[&[i16]; 2]; C],
    ) -> [[u32; R]; C];
}

/// Goes through the rows once, panel by panel.
#[inline(always)]
fn blocks<T: Tile>(matrix: &ByteMatrix, rows: Range<usize>, vectors: &Halves, out: &mut [u32], tile: T) {
    let (count, stride, height, first) = (vectors.count(), matrix.stride(), rows.len(), rows.start);
    let [_, most] = T::SHAPE;
    for start in rows.clone().step_by(PANEL) {
        let panel = start..(start + PANEL).min(rows.end);
        for start in (0..stride).step_by(CHUNK) {
            let columns = start..(start + CHUNK).min(stride);
            for group in (0..count).step_by(most) {
                let of = |number: usize| vectors.at(group + number, &columns);
                let add = |vector: usize, row: usize, sum: u32| {
                    let out = &mut out[(group + vector) * height + row - first];
                    *out = out.wrapping_add(sum);
                };
                match (count - group).min(most) {
                    1 => strips(matrix, &panel, &columns, [of(0)], tile, add),
                    2 => strips(matrix, &panel, &columns, [of(0), of(1)], tile, add),
                    _ => strips(matrix, &panel, &columns, [of(0), of(1), of(2)], tile, add),
                }
            }
        }
    }
}

/// All rows of a panel, as many at a time as there are registers for.
#[inline(always)]
fn strips<T: Tile, const C: usize>(
    matrix: &ByteMatrix,
    panel: &Range<usize>,
    columns: &Range<usize>,
    vectors: [[&[i16]; 2]; C],
    tile: T,
    mut add: impl FnMut(usize, usize, u32),
) {
    let mut row = panel.start;
    while row < panel.end {
        let of = |number: usize| &matrix.row(row + number)[columns.clone()];
        let (left, [most, _]) = (panel.end - row, T::SHAPE);
        if most == 4 && left >= 4 {
            let sums = tile.sums([of(0), of(1), of(2), of(3)], vectors);
            each(&sums, |vector, number, sum| add(vector, row + number, sum));
            row += 4;
        } else if most >= 2 && left >= 2 {
            let sums = tile.sums([of(0), of(1)], vectors);
            each(&sums, |vector, number, sum| add(vector, row + number, sum));
            row += 2;
        } else {
            let sums = tile.sums([of(0)], vectors);
            each(&sums, |vector, number, sum| add(vector, row + number, sum));
            row += 1;
        }
    }
}

#[inline(always)]
fn each<const R: usize, const C: usize>(sums: &[[u32; R]; C], mut add: impl FnMut(usize, usize, u32)) {
    for (vector, sums) in sums.iter().enumerate() {
        sums.iter().enumerate().for_each(|(row, sum)| add(vector, row, *sum));
    }
}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ahead<T>(place: &T) -> *const u8 {
    core::ptr::from_ref(place).cast::<u8>().wrapping_add(AHEAD)
}

/// The sums in vector registers: entries widened to 16 bits, multiplied in pairs with either half, added up.
#[cfg(target_arch = "x86_64")]
macro_rules! tiles {
    ($name:ident, $simd:ident, $lanes:literal, $shape:expr, $zero:expr, $widen:expr, $multiply:expr, $add:expr,
     $shift:expr, $total:expr) => {
        #[derive(Clone, Copy)]
        struct $name($simd);

        impl Tile for $name {
            const SHAPE: [usize; 2] = $shape;

            #[inline(always)]
            fn sums<const R: usize, const C: usize>(
                self,
                rows: [&[i8]; R],
                vectors: [[&[i16]; 2]; C],
            ) -> [[u32; R]; C] {
                let Self(simd) = self;
                let rows = rows.map(|row| row.as_chunks::<$lanes>().0);
                let vectors = vectors.map(|halves| halves.map(|half| half.as_chunks::<$lanes>().0));
                let steps = rows[0].len();
                let rows = rows.map(|row| &row[..steps]);
                let vectors = vectors.map(|halves| halves.map(|half| &half[..steps]));
                let mut sums = [[[$zero(simd); 2]; R]; C];
                for step in 0..steps {
                    if step.is_multiple_of(LINE / $lanes) {
                        rows.iter().for_each(|row| fetch(ahead(&row[step])));
                    }
                    // Without closures, which a compiler of few optimisations leaves where they stand.
                    let mut entries = [$zero(simd); R];
                    for (entries, row) in entries.iter_mut().zip(&rows) {
                        *entries = $widen(simd, row[step]);
                    }
                    for (sums, halves) in sums.iter_mut().zip(&vectors) {
                        let [low, high] = [pulp::cast(halves[0][step]), pulp::cast(halves[1][step])];
                        for (sums, entries) in sums.iter_mut().zip(&entries) {
                            sums[0] = $add(simd, sums[0], $multiply(simd, *entries, low));
                            sums[1] = $add(simd, sums[1], $multiply(simd, *entries, high));
                        }
                    }
                }
                let mut totals = [[0; R]; C];
                for (totals, sums) in totals.iter_mut().zip(sums) {
                    for (total, [low, high]) in totals.iter_mut().zip(sums) {
                        *total = $total(simd, $add(simd, low, $shift(simd, high)));
                    }
                }
                totals
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
tiles!(
    Avx512Tile,
    V4,
    32,
    [4, 3],
    |simd: V4| simd.avx512f._mm512_setzero_si512(),
    |simd: V4, entries: [i8; 32]| simd.avx512bw._mm512_cvtepi8_epi16(pulp::cast(entries)),
    |simd: V4, a, b| simd.avx512bw._mm512_madd_epi16(a, b),
    |simd: V4, a, b| simd.avx512f._mm512_add_epi32(a, b),
    |simd: V4, high| simd.avx512f._mm512_slli_epi32::<16>(high),
    |simd: V4, sum| simd.avx512f._mm512_reduce_add_epi32(sum) as u32
);

#[cfg(target_arch = "x86_64")]
tiles!(
    Avx2Tile,
    V3,
    16,
    [2, 2],
    |simd: V3| simd.avx._mm256_setzero_si256(),
    |simd: V3, entries: [i8; 16]| simd.avx2._mm256_cvtepi8_epi16(pulp::cast(entries)),
    |simd: V3, a, b| simd.avx2._mm256_madd_epi16(a, b),
    |simd: V3, a, b| simd.avx2._mm256_add_epi32(a, b),
    |simd: V3, high| simd.avx2._mm256_slli_epi32::<16>(high),
    |_: V3, sum| pulp::cast::<_, [u32; 8]>(sum).into_iter().fold(0, u32::wrapping_add)
);

/// Plain Rust.
#[derive(Clone, Copy)]
struct PlainTile;

impl Tile for PlainTile {
    const SHAPE: [usize; 2] = [1, 1];

    #[inline(always)]
    fn sums<const R: usize, const C: usize>(
        self,
        rows: [&[i8]; R],
        vectors: [[&[i16]; 2]; C],
    ) -> [[u32; R]; C] {
        vectors.map(|[low, high]| {
            rows.map(|row| {
                row.iter().zip(low).zip(high).fold(0u32, |sum, ((entry, low), high)| {
                    let word = (i32::from(*high) << 16).wrapping_add(i32::from(*low));
                    sum.wrapping_add(i32::from(*entry).wrapping_mul(word) as u32)
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use pir_core::PagePool;
    use pir_core::ring::Backend;
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    use super::super::matrix::ByteMatrix;
    use super::{CHUNK, Halves, multiply_by};

    /// All that is extreme, and all that is random, by every kernel and by the definition.
    #[test]
    fn every_kernel_gives_the_same_words() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let shapes = [
            (1, 1, 1),
            (2, 63, 2),
            (3, 64, 3),
            (5, 65, 4),
            (70, 300, 7),
            (9, CHUNK + 70, 5),
            (6, 2 * CHUNK + 5, 1),
        ];
        for (number, (rows, columns, count)) in shapes.into_iter().enumerate() {
            let mut matrix = ByteMatrix::zeros(&PagePool::default(), rows, columns).unwrap();
            let mut words = vec![vec![0u32; columns]; count];
            for row in 0..rows {
                for entry in &mut matrix.row_mut(row)[..columns] {
                    *entry = [rng.next_u32() as i8, -128, 127][number % 3 * usize::from(row % 2 == 0)];
                }
            }
            for (place, word) in words.iter_mut().flatten().enumerate() {
                *word = match place % 5 {
                    0 => [0x8000_8000, 0x7FFF_8000, 0x8000_7FFF, u32::MAX][place % 4],
                    _ => rng.next_u32(),
                };
            }
            let expected: Vec<u32> = words
                .iter()
                .flat_map(|word| {
                    let matrix = &matrix;
                    (0..rows).map(move |row| {
                        let products = matrix.row(row).iter().zip(word);
                        products.fold(7, |sum: u32, (entry, word)| {
                            sum.wrapping_add((i32::from(*entry) as u32).wrapping_mul(*word))
                        })
                    })
                })
                .collect();
            let halves = Halves::new(columns, words.iter().map(Vec::as_slice));
            for backend in Backend::available() {
                let mut out = vec![7; count * rows];
                multiply_by(backend, &matrix, 0..rows, &halves, &mut out);
                assert!(out == expected, "{} at {rows} x {columns}, {count}", backend.name());
                // Some of the rows alone.
                let part = rows / 3..rows - rows / 4;
                let mut out = vec![7; count * part.len()];
                multiply_by(backend, &matrix, part.clone(), &halves, &mut out);
                let all = expected.chunks(rows).flat_map(|all| &all[part.clone()]);
                assert!(out.iter().eq(all), "{} at {part:?} of {rows}", backend.name());
            }
        }
    }
}
