//! A bucket as the first dimension reads it.

use super::ring::{PLAINTEXT_BITS, Whitening};
use super::shape::{BLOCK, Shape};
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::Pairs;
use crate::ring::bits::unpack;

/// Places that are whitened at a time, at least: as many as the widest kernel has lanes for.
const TOGETHER: usize = 16;

/// The coefficients of a bucket, in `[-t/2, t/2)`: block by block of 16 outputs, position by position. Where
/// fields of columns take turns, as the shape says, one column's coefficients are every so many outputs.
pub(super) struct Bucket {
    pub(super) pairs: PageVec<Pairs>,
}

impl Bucket {
    /// Whitens and spreads the elements of a bucket; places without an element are whitened, too.
    ///
    /// # Errors
    /// [`Error::Shape`] if they are not as many bytes as the shape says; [`Error::Memory`] if there is no room.
    pub(super) fn new(
        pool: &PagePool,
        shape: &Shape,
        whitening: &Whitening,
        bucket: usize,
        elements: &[u8],
    ) -> Result<Self, Error> {
        let size = shape.element_bytes();
        if elements.len() != shape.elements() * size {
            return Err(Error::Shape("bytes of a bucket"));
        }
        let (positions, outputs) = (shape.positions(), shape.element_outputs());
        let mut pairs = pool.vector::<Pairs>(shape.bucket_outputs() / BLOCK * positions)?;
        let (columns, width) = (shape.columns(), outputs * PLAINTEXT_BITS as usize / 8);
        // Whitened and unpacked together: places follow each other from one position to the next. With the most columns there are of the
        // longest elements that is 34 MB, a third of what a pack takes while it is made.
        let at_once = TOGETHER.div_ceil(2 * columns);
        let mut run = vec![0; at_once * 2 * columns * width];
        let mut values = vec![0; at_once * 2 * columns * outputs];
        // Of so many columns outputs take turns; they are written a block at a time, with both rows of a position.
        let together = shape.interleaved_columns();
        let mut words = vec![0u32; together * outputs];
        for position in 0..positions {
            if position % at_once == 0 {
                let place = 2 * position * columns;
                run.fill(0);
                let here = elements.chunks_exact(size).skip(place);
                run.chunks_exact_mut(width)
                    .zip(here)
                    .for_each(|(to, element)| to[..size].copy_from_slice(element));
                whitening.apply_all(&mut run, width, bucket, place);
                unpack(PLAINTEXT_BITS, &run, &mut values);
            }
            let (even, odd) =
                values[position % at_once * 2 * columns * outputs..].split_at(columns * outputs);
            for first in (0..columns).step_by(together) {
                for column in 0..together {
                    let here = (first + column) * outputs..(first + column + 1) * outputs;
                    join_rows(&mut words, [&even[here.clone()], &odd[here]], column, together);
                }
                let lines = pairs.iter_mut().skip(first * outputs / BLOCK * positions + position);
                for (line, words) in lines.step_by(positions).zip(words.as_chunks::<BLOCK>().0) {
                    line.copy_from_slice(bytemuck::cast_slice(words));
                }
            }
        }
        Ok(Self { pairs })
    }

    /// The positions of a block of 16 outputs.
    pub(super) fn block(&self, positions: usize, block: usize) -> &[Pairs] {
        &self.pairs[block * positions..(block + 1) * positions]
    }
}

/// Writes the coefficients of two rows of a column, every `together`th from its own on: in memory that of the first row, then that of
/// the second.
fn join_rows(words: &mut [u32], [even, odd]: [&[u64]; 2], column: usize, together: usize) {
    let word = |even: u64, odd: u64| {
        let half = |value: u64| (value as u32).wrapping_sub(1 << (PLAINTEXT_BITS - 1)) & 0xffff;
        let word = half(even) | half(odd) << 16;
        if cfg!(target_endian = "big") { word.rotate_left(16) } else { word }
    };
    let fields = even.iter().zip(odd);
    if together == 1 {
        words.iter_mut().zip(fields).for_each(|(out, (even, odd))| *out = word(*even, *odd));
    } else {
        let out = words.iter_mut().skip(column).step_by(together);
        out.zip(fields).for_each(|(out, (even, odd))| *out = word(*even, *odd));
    }
}
