//! From packed fields to words, eight at a time.

use core::arch::x86_64::{
    __m512i, _mm512_and_si512, _mm512_maskz_loadu_epi8, _mm512_permutexvar_epi8, _mm512_setzero_si512,
    _mm512_srlv_epi64,
};

use super::super::vector512::{lanes, splat};

/// Eight fields of `width <= 56` bits from `width` bytes: each lane fetches the eight bytes its field begins in.
pub(super) struct Unpacker {
    width: usize,
    bytes: __m512i,
    shifts: __m512i,
    field: __m512i,
    /// One bit for each of `width` bytes.
    mask: u64,
}

impl Unpacker {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(width: usize) -> Self {
        assert!(width <= 56, "a field and a partial byte fit a word");
        let starts = [0, 1, 2, 3, 4, 5, 6, 7].map(|lane| lane * width);
        // A byte beyond the last field would only be shifted out; index 63 reads the zero that the masked load leaves.
        let bytes = starts.map(|start| {
            let indices = [0, 1, 2, 3, 4, 5, 6, 7].map(|byte| (start / 8 + byte).min(63) as u8);
            i64::from_le_bytes(indices)
        });
        let mask = (1 << width) - 1;
        Self {
            width,
            bytes: lanes(bytes),
            shifts: lanes(starts.map(|start| (start % 8) as i64)),
            field: splat(mask),
            mask,
        }
    }

    /// Bits of a field, bytes of eight.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Eight fields of each of the columns of a row, which has `width` bytes for each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn unpack<const COLUMNS: usize>(&self, row: &[u8]) -> [__m512i; COLUMNS] {
        assert!(row.len() == COLUMNS * self.width, "as many bytes for each column as a field has bits");
        let mut values = [_mm512_setzero_si512(); COLUMNS];
        for (column, value) in values.iter_mut().enumerate() {
            // SAFETY: the mask selects `width` bytes, and behind `column * width` with `column < COLUMNS` the row has so many,
            // which was just checked; bytes that are not selected are not accessed.
            let packed =
                unsafe { _mm512_maskz_loadu_epi8(self.mask, row.as_ptr().add(column * self.width).cast()) };
            let fields = _mm512_srlv_epi64(_mm512_permutexvar_epi8(self.bytes, packed), self.shifts);
            *value = _mm512_and_si512(fields, self.field);
        }
        values
    }
}
