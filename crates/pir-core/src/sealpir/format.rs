//! Sizes in the encodings that shapes and encodings both depend on.

/// Bytes of every header.
pub(super) const HEADER_BYTES: usize = 4;

/// Bytes of the seed of a query's uniform half.
pub(super) const SEED_BYTES: usize = 32;

/// Low bits that are not sent of the coefficients of a query; at the noise of EXPAND, nobody misses them.
pub(super) const QUERY_DROPPED_BITS: u32 = 20;
