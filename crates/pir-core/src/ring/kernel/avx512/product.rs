//! Sums of products as two words of 52-bit parts: each multiply-accumulate is two instructions, and nothing is reduced
//! before the last term.
//!
//! The low parts of up to 2^12 products stay below 2^64, and the high parts, below `2^(2 bits - 52)` each, below 2^60.

use core::arch::x86_64::{
    __m512i, _MM_HINT_T1, _mm_prefetch, _mm512_and_si512, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_maskz_permutexvar_epi8, _mm512_or_si512, _mm512_permutexvar_epi8,
    _mm512_setzero_si512, _mm512_sllv_epi64, _mm512_srlv_epi64,
};

use super::super::avx512f::{lanes, load, splat, store};
use super::super::{CHUNK, RowSums, SelectorRun, Selectors, portable};
use super::{Lanes, Prime, high, low};
use crate::ring::modulus::Modulus;

/// How far ahead of its use the database is fetched, bytes.
const AHEAD: usize = 4096;

/// Whether sums of 2^12 products need the third part in [`Prime::reduce_sums`].
fn is_wide(modulus: &Modulus) -> bool {
    modulus.bits() > 45
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn multiply_accumulate(_: &Modulus, sums: [&mut [u64]; 2], terms: &[(&[u64], &[u64])]) {
    let [sum0, sum1] = sums.map(|sums| sums.as_chunks_mut::<8>().0);
    for terms in terms.chunks(4) {
        match terms {
            [a, b, c, d] => accumulate_terms([sum0, sum1], [*a, *b, *c, *d]),
            _ => terms.iter().for_each(|term| accumulate_terms([sum0, sum1], [*term])),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn accumulate_terms<const TERMS: usize>([sum0, sum1]: [&mut [Lanes]; 2], terms: [(&[u64], &[u64]); TERMS]) {
    let terms = terms.map(|(a, b)| (a.as_chunks::<8>().0, b.as_chunks::<8>().0));
    assert!(terms.iter().all(|(a, b)| a.len() >= sum0.len() && b.len() >= sum0.len()), "one value per sum");
    for (i, (sum0, sum1)) in sum0.iter_mut().zip(sum1).enumerate() {
        let (mut first, mut second) = (load(sum0), load(sum1));
        for (a, b) in &terms {
            let (a, b) = (load(&a[i]), load(&b[i]));
            (first, second) = (low(first, a, b), high(second, a, b));
        }
        store(sum0, first);
        store(sum1, second);
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn reduce(modulus: &Modulus, out: &mut [u64], sums: [&mut [u64]; 2]) {
    let prime = Prime::new(modulus);
    let [sum0, sum1] = sums.map(|sums| sums.as_chunks_mut::<8>().0);
    for ((out, sum0), sum1) in out.as_chunks_mut::<8>().0.iter_mut().zip(sum0).zip(sum1) {
        store(out, prime.reduce_sums::<true>(load(sum0), load(sum1)));
        (*sum0, *sum1) = ([0; 8], [0; 8]);
    }
}

/// The high parts of 12 products stay below 2^52.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(in super::super) fn key_products(modulus: &Modulus, out: [&mut [u64]; 2], digits: &[u64], keys: &[u64]) {
    let degree = out[0].len();
    if degree == 0 || !degree.is_multiple_of(8) {
        return portable::key_products(modulus, out, digits, keys);
    }
    match digits.len() / degree {
        3 => key_products_of::<3>(modulus, out, digits, keys),
        4 => key_products_of::<4>(modulus, out, digits, keys),
        5 => key_products_of::<5>(modulus, out, digits, keys),
        6 => key_products_of::<6>(modulus, out, digits, keys),
        7 => key_products_of::<7>(modulus, out, digits, keys),
        8 => key_products_of::<8>(modulus, out, digits, keys),
        _ => portable::key_products(modulus, out, digits, keys),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn key_products_of<const DIGITS: usize>(
    modulus: &Modulus,
    [out0, out1]: [&mut [u64]; 2],
    digits: &[u64],
    keys: &[u64],
) {
    let (prime, degree) = (Prime::new(modulus), out0.len());
    let zero = _mm512_setzero_si512();
    let mut vectors: [&[Lanes]; DIGITS] = [&[]; DIGITS];
    let mut pairs: [[&[Lanes]; 2]; DIGITS] = [[&[]; 2]; DIGITS];
    for i in 0..DIGITS {
        vectors[i] = digits[i * degree..(i + 1) * degree].as_chunks().0;
        let (b, a) = keys[2 * i * degree..2 * (i + 1) * degree].split_at(degree);
        pairs[i] = [b.as_chunks().0, a.as_chunks().0];
    }
    let outs = out0.as_chunks_mut::<8>().0.iter_mut().zip(out1.as_chunks_mut::<8>().0);
    for (v, (out0, out1)) in outs.enumerate() {
        let mut sums = [[zero; 2]; 2];
        for i in 0..DIGITS {
            let digit = load(&vectors[i][v]);
            for half in 0..2 {
                let key = load(&pairs[i][half][v]);
                sums[half] = [low(sums[half][0], digit, key), high(sums[half][1], digit, key)];
            }
        }
        store(out0, prime.reduce_sums::<false>(sums[0][0], sums[0][1]));
        store(out1, prime.reduce_sums::<false>(sums[1][0], sums[1][1]));
    }
}

/// Fields of even lanes do not share a byte with one another, nor do those of odd lanes: two permutations put them in
/// their places.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(in super::super) fn pack(width: usize, slot: usize, sources: &[&[u64]], out: &mut [u8]) {
    let (mut places, mut used, mut shifts) = ([[0u8; 64]; 2], [0u64; 2], [0; 8]);
    for (lane, shift) in shifts.iter_mut().enumerate() {
        let start = lane * width;
        *shift = (start % 8) as i64;
        let bytes = start / 8..(start + width).div_ceil(8);
        for (i, place) in places[lane % 2][bytes.clone()].iter_mut().enumerate() {
            *place = (8 * lane + i) as u8;
        }
        bytes.for_each(|byte| used[lane % 2] |= 1 << byte);
    }
    let [even, odd] = places.each_ref();
    let (even, odd, shifts) = (load_bytes(even), load_bytes(odd), lanes(shifts));
    let mask = (1 << width) - 1;
    for (source, bytes) in sources.iter().zip(out.chunks_exact_mut(width)) {
        let Some(values) = source[slot..].first_chunk() else { continue };
        let shifted = _mm512_sllv_epi64(load(values), shifts);
        let packed = _mm512_or_si512(
            _mm512_maskz_permutexvar_epi8(used[0], even, shifted),
            _mm512_maskz_permutexvar_epi8(used[1], odd, shifted),
        );
        // SAFETY: the mask selects the first `width` bytes, and `chunks_exact_mut(width)` gives that many.
        unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), mask, packed) };
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_bytes(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes that are read.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// The two halves as they are.
#[target_feature(enable = "avx512f")]
pub(in super::super) fn arrange(
    modulus: &Modulus,
    selectors: &mut Selectors,
    client: usize,
    row: usize,
    halves: [&[u64]; 2],
) {
    portable::arrange(modulus, selectors, client, row, halves);
}

/// Unpacks [`CHUNK`] rows at a time into the first-level cache and multiplies them with every client's selectors.
#[target_feature(enable = "avx512f,avx512bw,avx512ifma,avx512vbmi")]
pub(in super::super) fn row_products(
    modulus: &Modulus,
    packed: &[u8],
    columns: usize,
    selectors: SelectorRun<'_>,
    out: &mut [[Lanes; 2]],
    scratch: &mut RowSums,
) {
    let (width, rows) = (modulus.bits() as usize, selectors.rows());
    let (prime, unpacker) = (Prime::new(modulus), Unpacker::new(width));
    let blocks = selectors.blocks().zip(out.chunks_exact_mut(selectors.clients() * columns));
    for ((clients, out), packed) in blocks.zip(packed.chunks_exact(rows * columns * width)) {
        scratch.clear(columns, selectors.clients());
        let clients: Vec<&[[Lanes; 2]]> = clients.collect();
        for (chunk, packed) in packed.chunks(CHUNK * columns * width).enumerate() {
            // One client takes the residues as they come; several share the work of unpacking them.
            let shared = clients.len() > 1;
            if shared {
                for (values, bytes) in scratch.values.iter_mut().zip(packed.chunks_exact(width)) {
                    store(values, unpacker.unpack(bytes));
                }
            }
            let values = &scratch.values[..];
            for (selectors, sums) in clients.iter().zip(scratch.sums.chunks_exact_mut(columns)) {
                let selectors = &selectors[chunk * CHUNK..];
                let source = Source { unpacker: &unpacker, packed, values, width };
                match (columns, shared) {
                    (1, false) => accumulate_rows::<1, false>(sums, source, selectors),
                    (2, false) => accumulate_rows::<2, false>(sums, source, selectors),
                    (3, false) => accumulate_rows::<3, false>(sums, source, selectors),
                    (_, false) => accumulate_rows::<4, false>(sums, source, selectors),
                    (1, true) => accumulate_rows::<1, true>(sums, source, selectors),
                    (2, true) => accumulate_rows::<2, true>(sums, source, selectors),
                    (3, true) => accumulate_rows::<3, true>(sums, source, selectors),
                    (_, true) => accumulate_rows::<4, true>(sums, source, selectors),
                }
            }
        }
        for (out, [sum0, sum1]) in out.as_flattened_mut().iter_mut().zip(scratch.sums.as_flattened()) {
            let (sum0, sum1) = (load(sum0), load(sum1));
            let reduced = if is_wide(modulus) {
                prime.reduce_sums::<true>(sum0, sum1)
            } else {
                prime.reduce_sums::<false>(sum0, sum1)
            };
            store(out, reduced);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(in super::super) fn unpack(width: usize, packed: &[u8], out: &mut [u64]) {
    let unpacker = Unpacker::new(width);
    for (values, bytes) in out.as_chunks_mut().0.iter_mut().zip(packed.chunks_exact(width)) {
        store(values, unpacker.unpack(bytes));
    }
}

/// At most [`CHUNK`] rows of the database: packed, and where clients share the work, unpacked.
struct Source<'a> {
    unpacker: &'a Unpacker,
    packed: &'a [u8],
    values: &'a [Lanes],
    width: usize,
}

/// Both halves of the selectors against `COLUMNS` columns: `4 COLUMNS` sums in registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512ifma,avx512vbmi")]
fn accumulate_rows<const COLUMNS: usize, const SHARED: bool>(
    sums: &mut [[[Lanes; 2]; 2]],
    source: Source<'_>,
    selectors: &[[Lanes; 2]],
) {
    let Some(sums) = sums.first_chunk_mut::<COLUMNS>() else { return };
    let zero = _mm512_setzero_si512();
    let mut words = [[[zero; 2]; 2]; COLUMNS];
    for (words, sums) in words.iter_mut().zip(sums.iter()) {
        *words = [[load(&sums[0][0]), load(&sums[0][1])], [load(&sums[1][0]), load(&sums[1][1])]];
    }
    let Source { unpacker, packed, values, width } = source;
    for (row, (bytes, selector)) in packed.chunks_exact(COLUMNS * width).zip(selectors).enumerate() {
        // While the processor multiplies, the memory shall not rest.
        let ahead = bytes.as_ptr().wrapping_add(if SHARED { packed.len() } else { AHEAD });
        for line in 0..3 {
            _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(64 * line).cast());
        }
        let selector = [load(&selector[0]), load(&selector[1])];
        for (column, words) in words.iter_mut().enumerate() {
            let value = if SHARED {
                load(&values[row * COLUMNS + column])
            } else {
                unpacker.unpack(&bytes[column * width..(column + 1) * width])
            };
            for (word, selector) in words.iter_mut().zip(selector) {
                *word = [low(word[0], value, selector), high(word[1], value, selector)];
            }
        }
    }
    for (words, sums) in words.into_iter().zip(sums) {
        for (words, sums) in words.into_iter().zip(sums) {
            store(&mut sums[0], words[0]);
            store(&mut sums[1], words[1]);
        }
    }
}

/// Eight fields of `width <= 56` bits from `width` bytes: each lane fetches the eight bytes its field begins in.
struct Unpacker {
    bytes: __m512i,
    shifts: __m512i,
    field: __m512i,
    mask: u64,
}

impl Unpacker {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(width: usize) -> Self {
        let starts = [0, 1, 2, 3, 4, 5, 6, 7].map(|lane| lane * width);
        // A byte beyond the last field would only be shifted out; index 63 reads the zero that the masked load leaves.
        let bytes = starts.map(|start| {
            let indices = [0, 1, 2, 3, 4, 5, 6, 7].map(|byte| (start / 8 + byte).min(63) as u8);
            i64::from_le_bytes(indices)
        });
        Self {
            bytes: lanes(bytes),
            shifts: lanes(starts.map(|start| (start % 8) as i64)),
            field: splat((1 << width) - 1),
            mask: (1 << width) - 1,
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn unpack(&self, bytes: &[u8]) -> __m512i {
        debug_assert_eq!(bytes.len(), self.mask.count_ones() as usize, "as many bytes as a field has bits");
        // SAFETY: the mask selects the first `width` bytes, the caller's slice has that many (it comes from
        // `chunks_exact(width)`), and bytes that are not selected are not accessed.
        let packed = unsafe { _mm512_maskz_loadu_epi8(self.mask, bytes.as_ptr().cast()) };
        let fields = _mm512_srlv_epi64(_mm512_permutexvar_epi8(self.bytes, packed), self.shifts);
        _mm512_and_si512(fields, self.field)
    }
}
