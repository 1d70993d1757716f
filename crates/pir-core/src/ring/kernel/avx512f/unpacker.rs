//! From packed fields to words, eight at a time.

use core::arch::x86_64::{
    __m512i, _mm512_and_si512, _mm512_loadu_si512, _mm512_maskz_loadu_epi8, _mm512_permutexvar_epi16,
    _mm512_setzero_si512, _mm512_srlv_epi64,
};

use super::super::vector512::{lanes, splat};

/// Eight fields from `width` bytes: each lane fetches the four 16-bit words its field begins in.
pub(super) struct Unpacker {
    width: usize,
    words: __m512i,
    shifts: __m512i,
    field: __m512i,
    /// One bit for each of `width` bytes.
    mask: u64,
}

impl Unpacker {
    /// A field begins within the first 16 of 64 bits.
    pub(super) const MAXIMUM_WIDTH: usize = 49;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(width: usize) -> Self {
        assert!(width <= Self::MAXIMUM_WIDTH, "a field lies in four words of 16 bits");
        let mut words = [0; 32];
        for (i, word) in words.iter_mut().enumerate() {
            // Word 31 reads the zero that the masked load leaves.
            *word = (i / 4 * width / 16 + i % 4).min(31) as u16;
        }
        let shifts = [0, 1, 2, 3, 4, 5, 6, 7].map(|lane| (lane * width % 16) as i64);
        let mask = (1 << width) - 1;
        Self { width, words: load_words(&words), shifts: lanes(shifts), field: splat(mask), mask }
    }

    /// Eight fields of each of the columns of a row, which has `width` bytes for each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn unpack<const COLUMNS: usize>(&self, row: &[u8]) -> [__m512i; COLUMNS] {
        assert!(row.len() == COLUMNS * self.width, "as many bytes for each column as a field has bits");
        let mut values = [_mm512_setzero_si512(); COLUMNS];
        for (column, value) in values.iter_mut().enumerate() {
            // SAFETY: the mask selects `width` bytes, and behind `column * width` with `column < COLUMNS` the row has so many,
            // which was just checked; bytes that are not selected are not accessed.
            let packed =
                unsafe { _mm512_maskz_loadu_epi8(self.mask, row.as_ptr().add(column * self.width).cast()) };
            let fields = _mm512_srlv_epi64(_mm512_permutexvar_epi16(self.words, packed), self.shifts);
            *value = _mm512_and_si512(fields, self.field);
        }
        values
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_words(words: &[u16; 32]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes that are read.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}
