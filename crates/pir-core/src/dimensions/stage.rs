//! The stages of an answer, for measurements.

/// What ends while queries are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Queries are parsed and expanded.
    Expanded,
    /// The first dimension of one group is done.
    FirstDimension,
    /// What follows is done, for one group or a part of it.
    FurtherDimensions,
}
