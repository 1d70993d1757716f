//! The one place where a back end is chosen, once per process.
//!
//! `SOTTO_KERNEL` forces one by its name; a name that this build or this machine does not offer is ignored
//! ([`Backend::active`] says what runs, so that a caller can report it).

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512, avx512f};

/// Environment variable that forces a back end by its [`Backend::name`].
pub const KERNEL_VARIABLE: &str = "SOTTO_KERNEL";

/// An implementation of the inner loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// AVX-512 with IFMA and VBMI.
    Avx512,
    /// AVX-512 with DQ and BW only: wide products by doubles.
    Avx512F,
    /// AVX2 with FMA.
    Avx2,
    /// Plain Rust.
    Portable,
}

impl Backend {
    /// The back ends this machine can run, best first.
    pub fn available() -> impl Iterator<Item = Self> {
        Available::all().map(Available::backend)
    }

    /// The back end in use in this process.
    #[must_use]
    pub fn active() -> Self {
        Available::active().backend()
    }

    /// Its name in the environment variable, reports and benches.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx512F => "avx512f",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }

    fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512F => avx512f::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx512F | Self::Avx2 => false,
            Self::Portable => true,
        }
    }
}

/// A back end whose processor features this machine was seen to have: no other is ever called.
#[derive(Clone, Copy)]
pub(super) struct Available(Backend);

impl Available {
    /// All of them, best first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let all = [Backend::Avx512, Backend::Avx512F, Backend::Avx2, Backend::Portable];
        all.into_iter().filter(|backend| backend.is_available()).map(Self)
    }

    /// The one in use in this process.
    pub(super) fn active() -> Self {
        static ACTIVE: OnceLock<Available> = OnceLock::new();
        *ACTIVE.get_or_init(|| {
            let wanted = std::env::var(KERNEL_VARIABLE).unwrap_or_default();
            let named = Self::all().find(|available| available.backend().name() == wanted);
            named.or_else(|| Self::all().next()).unwrap_or(Self::portable())
        })
    }

    /// Plain Rust, which every machine can run.
    pub(super) fn portable() -> Self {
        Self(Backend::Portable)
    }

    pub(super) fn backend(self) -> Backend {
        self.0
    }
}
