//! Sums of products as two words of 52-bit parts: each multiply-accumulate is two instructions, and nothing is reduced
//! before the last term.
//!
//! The low parts of up to 2^12 products stay below 2^64, and the high parts, below `2^(2 bits - 52)` each, below 2^60.

use core::arch::x86_64::{
    __m512i, _MM_HINT_T0, _MM_HINT_T1, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_permutexvar_epi8, _mm512_or_si512, _mm512_setzero_si512, _mm512_sllv_epi64,
};

use super::super::portable;
use super::super::rows::{CHUNK, Lanes, Products, RowSums, Selectors, bundles};
use super::super::vector512::{fetch, lanes, load, store};
use super::prime::{Prime, high, low};
use super::unpacker::Unpacker;
use crate::ring::modulus::Modulus;

/// How far ahead of its use the database is fetched to the first-level cache, bytes.
const AHEAD: usize = 768;

/// The same for the second-level cache.
const FAR_AHEAD: usize = 8192;

/// Bytes that are fetched together.
const LINE: usize = 64;

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
    key_products_by_digits!(8, modulus, out, digits, keys);
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

/// One client takes the residues as they come. Several share the work of unpacking them, [`CHUNK`] rows at a time into
/// the first-level cache.
#[target_feature(enable = "avx512f,avx512bw,avx512ifma,avx512vbmi")]
pub(in super::super) fn row_products(
    modulus: &Modulus,
    packed: &[u8],
    columns: usize,
    selectors: &Selectors,
    products: &mut [&mut Products],
    scratch: &mut RowSums,
) {
    let (width, rows) = (modulus.bits() as usize, selectors.rows);
    let (prime, unpacker) = (Prime::new(modulus), Unpacker::new(width));
    let blocks = selectors.blocks().zip(packed.chunks_exact(rows * columns * width));
    for ((block, clients), packed) in blocks {
        for (columns, packed) in bundles(packed, rows, columns, width) {
            let places = products.iter_mut().map(|products| products.places(&columns, block));
            let clients = clients.clone().zip(places);
            match (columns.len(), selectors.clients) {
                (1, 1) => for_one::<1>(modulus, &prime, &unpacker, packed, clients),
                (2, 1) => for_one::<2>(modulus, &prime, &unpacker, packed, clients),
                (3, 1) => for_one::<3>(modulus, &prime, &unpacker, packed, clients),
                (_, 1) => for_one::<4>(modulus, &prime, &unpacker, packed, clients),
                (1, _) => for_several::<1>(modulus, &prime, &unpacker, packed, clients, scratch),
                (2, _) => for_several::<2>(modulus, &prime, &unpacker, packed, clients, scratch),
                (3, _) => for_several::<3>(modulus, &prime, &unpacker, packed, clients, scratch),
                _ => for_several::<4>(modulus, &prime, &unpacker, packed, clients, scratch),
            }
        }
    }
}

/// Two words of a sum, low parts and high parts, for both halves of the selectors and each column: in registers.
type Words<const COLUMNS: usize> = [[[__m512i; 2]; 2]; COLUMNS];

/// A bundle for each client on its own.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512ifma,avx512vbmi")]
fn for_one<'a, 'b, const COLUMNS: usize>(
    modulus: &Modulus,
    prime: &Prime,
    unpacker: &Unpacker,
    packed: &[u8],
    clients: impl Iterator<Item = (&'a [[Lanes; 2]], &'b mut [Lanes])>,
) {
    for (selectors, places) in clients {
        let mut words = [[[_mm512_setzero_si512(); 2]; 2]; COLUMNS];
        accumulate_packed(&mut words, unpacker, packed, selectors);
        finish(modulus, prime, &words, places);
    }
}

/// A bundle for all clients, [`CHUNK`] rows at a time.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512ifma,avx512vbmi")]
fn for_several<'a, 'b, const COLUMNS: usize>(
    modulus: &Modulus,
    prime: &Prime,
    unpacker: &Unpacker,
    packed: &[u8],
    clients: impl Iterator<Item = (&'a [[Lanes; 2]], &'b mut [Lanes])>,
    scratch: &mut RowSums,
) {
    let clients: Vec<_> = clients.collect();
    scratch.clear(COLUMNS, clients.len());
    let sums = scratch.sums.as_chunks_mut::<COLUMNS>().0;
    for (chunk, packed) in packed.chunks(CHUNK * COLUMNS * unpacker.width()).enumerate() {
        let values = &mut scratch.values[..packed.len() / unpacker.width()];
        let rows = packed.chunks_exact(COLUMNS * unpacker.width());
        for (values, row) in values.as_chunks_mut::<COLUMNS>().0.iter_mut().zip(rows) {
            for (values, unpacked) in values.iter_mut().zip(unpacker.unpack::<COLUMNS>(row)) {
                store(values, unpacked);
            }
        }
        // While the processor multiplies, the next rows shall come: a share for each client, since all at once would
        // take up every buffer that this chunk's rows come through.
        let lines = packed.len().div_ceil(LINE).div_ceil(clients.len());
        for (client, ((selectors, _), sums)) in clients.iter().zip(&mut *sums).enumerate() {
            for line in client * lines..(client + 1) * lines {
                fetch::<_MM_HINT_T1>(packed.as_ptr().wrapping_add(packed.len() + LINE * line).cast());
            }
            accumulate_values(sums, values.as_chunks::<COLUMNS>().0, &selectors[chunk * CHUNK..]);
        }
    }
    for ((_, places), sums) in clients.into_iter().zip(sums) {
        finish(modulus, prime, &load_words(sums), places);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn finish<const COLUMNS: usize>(
    modulus: &Modulus,
    prime: &Prime,
    words: &Words<COLUMNS>,
    places: &mut [Lanes],
) {
    for (place, [sum0, sum1]) in places.iter_mut().zip(words.as_flattened()) {
        let reduced = if is_wide(modulus) {
            prime.reduce_sums::<true>(*sum0, *sum1)
        } else {
            prime.reduce_sums::<false>(*sum0, *sum1)
        };
        store(place, reduced);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_words<const COLUMNS: usize>(sums: &[[[Lanes; 2]; 2]; COLUMNS]) -> Words<COLUMNS> {
    let mut words = [[[_mm512_setzero_si512(); 2]; 2]; COLUMNS];
    for (words, sums) in words.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
        *words = [load(&sums[0]), load(&sums[1])];
    }
    words
}

/// All rows of one client.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512ifma,avx512vbmi")]
fn accumulate_packed<const COLUMNS: usize>(
    words: &mut Words<COLUMNS>,
    unpacker: &Unpacker,
    packed: &[u8],
    selectors: &[[Lanes; 2]],
) {
    for (bytes, selector) in packed.chunks_exact(COLUMNS * unpacker.width()).zip(selectors) {
        // While the processor multiplies, the memory shall not rest.
        for line in 0..COLUMNS.min(3) {
            let line = bytes.as_ptr().wrapping_add(64 * line);
            fetch::<_MM_HINT_T1>(line.wrapping_add(FAR_AHEAD).cast());
            fetch::<_MM_HINT_T0>(line.wrapping_add(AHEAD).cast());
        }
        let selector = [load(&selector[0]), load(&selector[1])];
        for (words, value) in words.iter_mut().zip(unpacker.unpack::<COLUMNS>(bytes)) {
            multiply_into(words, value, selector);
        }
    }
}

/// Some rows of one client, unpacked.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn accumulate_values<const COLUMNS: usize>(
    sums: &mut [[[Lanes; 2]; 2]; COLUMNS],
    values: &[[Lanes; COLUMNS]],
    selectors: &[[Lanes; 2]],
) {
    let mut words = load_words(sums);
    for (values, selector) in values.iter().zip(selectors) {
        let selector = [load(&selector[0]), load(&selector[1])];
        for (words, value) in words.iter_mut().zip(values) {
            multiply_into(words, load(value), selector);
        }
    }
    for (sums, words) in sums.as_flattened_mut().iter_mut().zip(words.as_flattened()) {
        store(&mut sums[0], words[0]);
        store(&mut sums[1], words[1]);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply_into(words: &mut [[__m512i; 2]; 2], value: __m512i, selector: [__m512i; 2]) {
    for (word, selector) in words.iter_mut().zip(selector) {
        *word = [low(word[0], value, selector), high(word[1], value, selector)];
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(in super::super) fn unpack(width: usize, packed: &[u8], out: &mut [u64]) {
    let unpacker = Unpacker::new(width);
    for (values, bytes) in out.as_chunks_mut().0.iter_mut().zip(packed.chunks_exact(width)) {
        let [unpacked] = unpacker.unpack(bytes);
        store(values, unpacked);
    }
}
