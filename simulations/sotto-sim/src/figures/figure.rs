//! What a figure is.

use crate::table::Table;

/// What comes of a figure.
pub(super) struct Figure {
    pub(super) table: Table,
    pub(super) svg: String,
    /// What it shows.
    pub(super) shows: String,
    /// What differs from the paper's figure, and why.
    pub(super) differs: String,
}
