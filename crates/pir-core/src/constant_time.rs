//! Arithmetic whose time does not depend on what it is given, and where something that was computed from secrets becomes
//! public.
//!
//! A test marks secrets as undefined memory and lets valgrind report every branch and every address that depends on them
//! (`crates/mpir/examples/constant_time`). What is public although it follows from secrets goes through [`public`], each
//! time with the reason beside it. Without the feature `constant-time`, that is the identity.

#[cfg(feature = "constant-time")]
use std::sync::OnceLock;

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// Makes so many bytes at an address defined.
#[cfg(feature = "constant-time")]
pub type Declassify = fn(*mut u8, usize);

#[cfg(feature = "constant-time")]
static HOOK: OnceLock<Declassify> = OnceLock::new();

/// What [`public`] calls from now on; the first call counts.
#[cfg(feature = "constant-time")]
pub fn on_public(declassify: Declassify) {
    HOOK.get_or_init(|| declassify);
}

/// The same value, which anybody may know.
#[cfg_attr(not(feature = "constant-time"), allow(unused_mut, reason = "what changes it is compiled out"))]
#[inline(always)]
#[must_use]
pub fn public<T: Copy>(mut value: T) -> T {
    #[cfg(feature = "constant-time")]
    if let Some(declassify) = HOOK.get() {
        declassify((&raw mut value).cast(), size_of::<T>());
    }
    value
}

/// Whether two numbers are the same.
#[must_use]
pub fn equal(a: usize, b: usize) -> Choice {
    (a as u64).ct_eq(&(b as u64))
}

/// Quotient and remainder by long division, a bit at a time; `divisor` is public and not 0.
#[must_use]
pub fn divide(dividend: usize, divisor: usize) -> (usize, usize) {
    let (dividend, divisor) = (dividend as u64, divisor as u64);
    let (mut quotient, mut remainder) = (0u64, 0u64);
    for bit in (0..u64::BITS).rev() {
        remainder = remainder << 1 | (dividend >> bit & 1);
        // A mask made here by hand was compiled to a branch in one of three places; this one is opaque.
        let fits = Choice::from(((remainder.wrapping_sub(divisor) >> 63) ^ 1) as u8);
        remainder.conditional_assign(&remainder.wrapping_sub(divisor), fits);
        quotient |= u64::from(fits.unwrap_u8()) << bit;
    }
    (quotient as usize, remainder as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{divide, equal, public};

    #[test]
    fn numbers_are_the_same_or_are_not() {
        assert_eq!(public(7), 7);
        for (a, b) in [(0, 0), (3, 3), (3, 4), (0, 1 << 40), (usize::MAX, usize::MAX)] {
            assert_eq!(bool::from(equal(a, b)), a == b, "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn long_division_is_division(dividend in 0usize..1 << 40, divisor in 1usize..1 << 20) {
            prop_assert_eq!(divide(dividend, divisor), (dividend / divisor, dividend % divisor));
        }
    }
}
