//! A bucket as the first dimension reads it.

use super::ring::{PLAINTEXT_BITS, Round};
use super::shape::{BLOCK, Shape};
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::Pairs;
use crate::ring::bits::unpack;

/// The coefficients of a bucket, in `[-t/2, t/2)`: block by block of 16 outputs, position by position. What the shape's
/// `output(column, i)` is at row r is coefficient i of element `r * columns + column`.
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
        round: &Round,
        bucket: usize,
        elements: &[u8],
    ) -> Result<Self, Error> {
        let size = shape.element_bytes();
        if elements.len() != shape.elements() * size {
            return Err(Error::Shape("bytes of a bucket"));
        }
        let (positions, outputs) = (shape.positions(), shape.element_outputs());
        let mut pairs = pool.vector::<Pairs>(shape.bucket_outputs() / BLOCK * positions)?;
        let mut bytes = vec![0; outputs * PLAINTEXT_BITS as usize / 8];
        let mut values = vec![0; outputs];
        for place in 0..2 * positions * shape.columns() {
            bytes.fill(0);
            if let Some(element) = elements.chunks_exact(size).nth(place) {
                bytes[..size].copy_from_slice(element);
            }
            round.whiten(&mut bytes, bucket, place);
            unpack(PLAINTEXT_BITS, &bytes, &mut values);
            let (row, column) = (place / shape.columns(), place % shape.columns());
            for (field, value) in values.iter().enumerate() {
                let output = shape.output(column, field);
                let pair = &mut pairs[output / BLOCK * positions + row / 2];
                pair[2 * (output % BLOCK) + row % 2] = *value as i16 - (1 << (PLAINTEXT_BITS - 1));
            }
        }
        Ok(Self { pairs })
    }

    /// The positions of a block of 16 outputs.
    pub(super) fn block(&self, positions: usize, block: usize) -> &[Pairs] {
        &self.pairs[block * positions..(block + 1) * positions]
    }
}
