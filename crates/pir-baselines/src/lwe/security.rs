//! Estimates of security.

/// Estimated bits of a uniform secret of so many words modulo 2^32 under errors of deviation 6.4; 0 for a length without an
/// estimate. `docs/PARAMETERS.md` says how they were made: that of 1,120 words is extrapolated.
#[must_use]
pub(crate) const fn security_bits(degree: usize) -> u32 {
    match degree {
        1024 => 120,
        1120 => 132,
        _ => 0,
    }
}
