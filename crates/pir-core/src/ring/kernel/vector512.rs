//! Loads, stores and constants of eight words, for all kernels with AVX-512.
//!
//! Every `unsafe` block here reads or writes memory behind a reference to an array of the size that is moved.

use core::arch::x86_64::{
    __m512i, _mm_prefetch, _mm_sfence, _mm512_loadu_si512, _mm512_min_epu64, _mm512_set_epi64,
    _mm512_set1_epi64, _mm512_storeu_si512, _mm512_stream_si512, _mm512_sub_epi64,
};

use super::rows::Lanes;

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(values: &Lanes) -> __m512i {
    // SAFETY: the reference covers the 64 bytes that are read, and an unaligned load has no other demand.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(values: &mut Lanes, lanes: __m512i) {
    // SAFETY: the exclusive reference covers the 64 bytes that are written; an unaligned store has no other demand.
    unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), lanes) }
}

/// Past the caches where it is a whole line of them. Other threads see it for sure only after an `sfence`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn stream(values: &mut Lanes, lanes: __m512i) {
    let place: *mut __m512i = values.as_mut_ptr().cast();
    if place.is_aligned() {
        // SAFETY: the exclusive reference covers the 64 bytes that are written, and they are aligned.
        unsafe { _mm512_stream_si512(place, lanes) }
    } else {
        store(values, lanes);
    }
}

// In both, the oldest Rust asks for an `unsafe` block, and the newest has no use for it.

/// What was streamed before is seen by other threads that see what is written after.
#[inline]
#[allow(unused_unsafe)]
pub(super) fn fence() {
    // SAFETY: a fence touches no memory.
    unsafe { _mm_sfence() }
}

/// Fetches the line at `place` into the caches that `HINT` names, while other things are computed.
#[inline]
#[allow(unused_unsafe)]
pub(super) fn fetch<const HINT: i32>(place: *const u8) {
    // SAFETY: this reads nothing that the program could see, and any address will do.
    unsafe { _mm_prefetch::<HINT>(place.cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn splat(value: u64) -> __m512i {
    _mm512_set1_epi64(value as i64)
}

/// Lane `i` gets `lanes[i]`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn lanes([a, b, c, d, e, f, g, h]: [i64; 8]) -> __m512i {
    _mm512_set_epi64(h, g, f, e, d, c, b, a)
}

/// `x` or `x - bound`, whichever is in `[0, bound)`, for `x < 2 bound`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn reduce_by(x: __m512i, bound: __m512i) -> __m512i {
    _mm512_min_epu64(x, _mm512_sub_epi64(x, bound))
}
