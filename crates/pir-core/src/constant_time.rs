//! Where something that was computed from secrets becomes public.
//!
//! A test marks secrets as undefined memory and lets valgrind report every branch and every address that depends on them
//! (`crates/mpir/examples/constant_time`). What is public although it follows from secrets goes through [`public`], each
//! time with the reason beside it. Without the feature `constant-time`, that is the identity.

#[cfg(feature = "constant-time")]
use std::sync::OnceLock;

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
