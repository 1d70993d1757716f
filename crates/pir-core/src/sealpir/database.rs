//! The preprocessed database.

use super::progress::Progress;
use super::shape::Parameters;
use crate::Error;
use crate::dimensions::Matrix;
use crate::pages::{PagePool, Scratch};

/// A database ready to answer; at 36 bits, it keeps 4 bytes per byte of 288-byte elements.
pub struct Database {
    parameters: Parameters,
    matrix: Matrix,
    tiles: Scratch<Vec<Progress>>,
}

impl Database {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool, into memory of a page
    /// pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters; [`Error::Memory`] if there is no room for it.
    pub fn new(pool: &PagePool, parameters: &Parameters, elements: &[u8]) -> Result<Self, Error> {
        let places = [parameters.rows(), parameters.all_columns()];
        Ok(Self {
            parameters: *parameters,
            matrix: Matrix::new(pool, parameters.packing(), places, elements)?,
            tiles: pool.scratch(),
        })
    }

    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.matrix.bytes()
    }

    /// Where answers are made, one for each tile of clients.
    pub(super) fn tiles(&self) -> &Scratch<Vec<Progress>> {
        &self.tiles
    }

    /// The plaintexts.
    pub(super) fn matrix(&self) -> &Matrix {
        &self.matrix
    }
}
