//! Transforms on doubles: passes of two levels over whole vectors, and the two or three levels of least distance inside
//! pairs of vectors.
//!
//! Every product is below q in magnitude, as long as what is multiplied is below 2^53, see [`Field::multiply`]. So
//! magnitudes grow by less than q per level forward, and double in the inverse where sums follow upon sums. The passes
//! count them, in units of q, and reduce where the next pass could exceed 2^53: half of the values in every third pass
//! forward, every fourth in each pass of the inverse for primes of 50 bits, and none for primes of 36.

use core::arch::x86_64::{
    __m256d, _mm256_add_pd, _mm256_blend_pd, _mm256_castsi256_pd, _mm256_or_pd, _mm256_permute2f128_pd,
    _mm256_set1_pd, _mm256_sub_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd,
};

use super::super::portable;
use super::{Factor, Field, Four, SHIFTER, load_double, store, store_double};
use crate::ring::modulus::Modulus;
use crate::ring::ntt::{Ntt, SplitFactors};

/// Least degree with a pass over whole vectors before the levels inside them.
const LEAST_DEGREE: usize = 16;

/// The multiples of q that integers in a double can reach, at least 8.
fn limit(modulus: &Modulus) -> u64 {
    (1 << 53) / modulus.value()
}

/// How values come into a pass of the forward transform: as integers below `4q`, to be reduced where they are not
/// multiplied, or as they are.
const FIRST: u8 = 0;
const REDUCED: u8 = 1;
const PLAIN: u8 = 2;

#[target_feature(enable = "avx2,fma,bmi2")]
pub(in super::super) fn forward(ntt: &Ntt, values: &mut [u64]) {
    if values.len() < LEAST_DEGREE {
        return portable::forward(ntt, values);
    }
    let (field, roots) = (Field::new(ntt.modulus()), ntt.forward_doubles());
    let (levels, limit) = (values.len().ilog2(), limit(ntt.modulus()));
    let values = values.as_chunks_mut().0;
    forward_pass::<FIRST>(&field, roots, values, 1);
    // Values start in `[-2q, 2q)`.
    let (mut blocks, mut magnitude) = (4, 4);
    while 2 * blocks < values.len() {
        if magnitude + 2 > limit {
            forward_pass::<REDUCED>(&field, roots, values, blocks);
            magnitude = 1;
        } else {
            forward_pass::<PLAIN>(&field, roots, values, blocks);
        }
        blocks *= 4;
        magnitude += 2;
    }
    match (levels.is_multiple_of(2), magnitude + 3 > limit) {
        (true, true) => forward_inside::<false, REDUCED>(&field, roots, values),
        (true, false) => forward_inside::<false, PLAIN>(&field, roots, values),
        (false, true) => forward_inside::<true, REDUCED>(&field, roots, values),
        (false, false) => forward_inside::<true, PLAIN>(&field, roots, values),
    }
}

/// Two levels over whole vectors, from `blocks` blocks to four times as many.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn forward_pass<const ENTRY: u8>(field: &Field, roots: &SplitFactors, values: &mut [Four], blocks: usize) {
    if values.len() == 4 * blocks {
        forward_blocks::<ENTRY, 4>(field, roots, values, blocks);
    } else {
        forward_blocks::<ENTRY, 0>(field, roots, values, blocks);
    }
}

/// Blocks of `LENGTH` vectors; of any number of them if that is 0.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn forward_blocks<const ENTRY: u8, const LENGTH: usize>(
    field: &Field,
    roots: &SplitFactors,
    values: &mut [Four],
    blocks: usize,
) {
    let length = if LENGTH == 0 { values.len() / blocks } else { LENGTH };
    for (block, factors) in values.chunks_exact_mut(length).zip(outer_roots(roots, blocks)) {
        let [first, second, third] =
            [Factor::splat(factors[0]), Factor::splat(factors[1]), Factor::splat(factors[2])];
        for [a, b, c, d] in quarters(block) {
            // The other two are multiplied, which reduces them.
            let (x, y) = (enter::<ENTRY>(field, load_double(a)), enter::<ENTRY>(field, load_double(b)));
            let (z, w) = if ENTRY == FIRST {
                (enter::<FIRST>(field, load_double(c)), enter::<FIRST>(field, load_double(d)))
            } else {
                (load_double(c), load_double(d))
            };
            let (x, z) = forward_butterfly(field, x, z, first);
            let (y, w) = forward_butterfly(field, y, w, first);
            let (x, y) = forward_butterfly(field, x, y, second);
            let (z, w) = forward_butterfly(field, z, w, third);
            store_double(a, x);
            store_double(b, y);
            store_double(c, z);
            store_double(d, w);
        }
    }
}

/// The vectors at the same place of the four quarters of a block.
#[inline(always)]
fn quarters(block: &mut [Four]) -> impl Iterator<Item = [&mut Four; 4]> {
    let (low, high) = block.split_at_mut(block.len() / 2);
    let ((a, b), (c, d)) = (low.split_at_mut(low.len() / 2), high.split_at_mut(high.len() / 2));
    a.iter_mut().zip(b).zip(c.iter_mut().zip(d)).map(|((a, b), (c, d))| [a, b, c, d])
}

/// For each of so many blocks, the root of a level and the two of the next.
#[inline(always)]
fn outer_roots(roots: &SplitFactors, blocks: usize) -> impl Iterator<Item = [[f64; 2]; 3]> {
    let level = |range: core::ops::Range<usize>| {
        let (values, quotients) = (&roots.values[range.clone()], &roots.quotients[range]);
        (values, quotients)
    };
    let ((values, quotients), (next_values, next_quotients)) =
        (level(blocks..2 * blocks), level(2 * blocks..4 * blocks));
    let next = next_values.as_chunks::<2>().0.iter().zip(next_quotients.as_chunks::<2>().0);
    values.iter().zip(quotients).zip(next).map(|((value, quotient), (values, quotients))| {
        [[*value, *quotient], [values[0], quotients[0]], [values[1], quotients[1]]]
            .map(|pair| pair.map(f64::from_bits))
    })
}

/// The roots of the levels inside a pair of vectors: the one at distance 4, two and four.
struct InnerRoots<'a> {
    one: [f64; 2],
    two: [&'a [u64; 2]; 2],
    four: [&'a Four; 2],
}

impl InnerRoots<'_> {
    /// Distance 4.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn one(&self) -> Factor {
        Factor::splat(self.one)
    }

    /// Distance 2: two roots, each for two lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn two(&self) -> Factor {
        let [value, quotient] = self.two.map(|pair| {
            let [a, b] = pair.map(f64::from_bits);
            _mm256_blend_pd::<0b1100>(_mm256_set1_pd(a), _mm256_set1_pd(b))
        });
        Factor { value, quotient }
    }

    /// Distance 1.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn four(&self) -> Factor {
        let [value, quotient] = self.four.map(|four| load_double(four));
        Factor { value, quotient }
    }
}

/// Pair by pair.
#[inline(always)]
fn inner_roots(roots: &SplitFactors, pairs: usize) -> impl Iterator<Item = InnerRoots<'_>> {
    let (values, quotients) = (&roots.values[pairs..8 * pairs], &roots.quotients[pairs..8 * pairs]);
    let ((one, values), (one_quotients, quotients)) = (values.split_at(pairs), quotients.split_at(pairs));
    let ((two, four), (two_quotients, four_quotients)) =
        (values.split_at(2 * pairs), quotients.split_at(2 * pairs));
    let one = one.iter().zip(one_quotients);
    let two = two.as_chunks::<2>().0.iter().zip(two_quotients.as_chunks::<2>().0);
    let four = four.as_chunks::<4>().0.iter().zip(four_quotients.as_chunks::<4>().0);
    one.zip(two).zip(four).map(|((one, two), four)| InnerRoots {
        one: [*one.0, *one.1].map(f64::from_bits),
        two: two.into(),
        four: four.into(),
    })
}

/// The last three levels, or the last two.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn forward_inside<const THREE: bool, const ENTRY: u8>(
    field: &Field,
    roots: &SplitFactors,
    values: &mut [Four],
) {
    let pairs = values.len() / 2;
    for ([a, b], roots) in values.as_chunks_mut::<2>().0.iter_mut().zip(inner_roots(roots, pairs)) {
        let (mut x, mut y) = (load_double(a), load_double(b));
        if THREE {
            (x, y) = forward_butterfly(field, enter::<ENTRY>(field, x), y, roots.one());
        }
        // a0 a1 b0 b1 against a2 a3 b2 b3.
        (x, y) = exchange_halves(x, y);
        if !THREE {
            x = enter::<ENTRY>(field, x);
        }
        (x, y) = forward_butterfly(field, x, y, roots.two());
        // Even against odd.
        (x, y) = (_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
        (x, y) = forward_butterfly(field, x, y, roots.four());
        (x, y) = (field.reduce(x), field.reduce(y));
        (x, y) = (_mm256_castsi256_pd(field.residue(x)), _mm256_castsi256_pd(field.residue(y)));
        (x, y) = (_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
        (x, y) = exchange_halves(x, y);
        store_double(a, x);
        store_double(b, y);
    }
}

/// The lower halves, and the upper halves.
#[inline]
#[target_feature(enable = "avx2")]
fn exchange_halves(x: __m256d, y: __m256d) -> (__m256d, __m256d) {
    (_mm256_permute2f128_pd::<0x20>(x, y), _mm256_permute2f128_pd::<0x31>(x, y))
}

/// With a first pass, `x` holds integers, from which `2q` is taken away.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn enter<const ENTRY: u8>(field: &Field, x: __m256d) -> __m256d {
    match ENTRY {
        FIRST => {
            difference(x, _mm256_add_pd(_mm256_add_pd(field.value, field.value), _mm256_set1_pd(SHIFTER)))
        }
        REDUCED => field.reduce(x),
        _ => x,
    }
}

/// `x - y` for integers `x` below 2^52, and `y + 2^52` as doubles.
#[inline]
#[target_feature(enable = "avx2")]
fn difference(x: __m256d, raised: __m256d) -> __m256d {
    _mm256_sub_pd(_mm256_or_pd(x, _mm256_set1_pd(SHIFTER)), raised)
}

/// `(x, y) -> (x + w y, x - w y)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn forward_butterfly(field: &Field, x: __m256d, y: __m256d, factor: Factor) -> (__m256d, __m256d) {
    let product = field.multiply(y, factor);
    (_mm256_add_pd(x, product), _mm256_sub_pd(x, product))
}

#[target_feature(enable = "avx2,fma,bmi2")]
pub(in super::super) fn inverse(ntt: &Ntt, values: &mut [u64]) {
    if values.len() < LEAST_DEGREE {
        return portable::inverse(ntt, values);
    }
    let (field, roots) = (Field::new(ntt.modulus()), ntt.inverse_doubles());
    let (levels, limit) = (values.len().ilog2(), limit(ntt.modulus()));
    let values = values.as_chunks_mut().0;
    // Values start in `[-q, q)`. A pass may meet a quarter of the limit.
    let (mut blocks, mut magnitude) =
        if levels.is_multiple_of(2) { (values.len(), 4) } else { (values.len() / 2, 8) };
    let reduced = 4 * magnitude > limit;
    match (levels.is_multiple_of(2), reduced) {
        (true, true) => inverse_inside::<false, true>(&field, roots, values),
        (true, false) => inverse_inside::<false, false>(&field, roots, values),
        (false, true) => inverse_inside::<true, true>(&field, roots, values),
        (false, false) => inverse_inside::<true, false>(&field, roots, values),
    }
    if reduced {
        magnitude = 1;
    }
    while blocks > 4 {
        blocks /= 4;
        if 16 * magnitude > limit {
            inverse_pass::<true>(&field, roots, values, blocks);
            magnitude = 2;
        } else {
            inverse_pass::<false>(&field, roots, values, blocks);
            magnitude *= 4;
        }
    }
    inverse_last_pass(&field, ntt, values);
}

/// The first three levels, or the first two; the mirror image of [`forward_inside`]. With `REDUCED`, what comes out is
/// below q in magnitude.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_inside<const THREE: bool, const REDUCED: bool>(
    field: &Field,
    roots: &SplitFactors,
    values: &mut [Four],
) {
    let pairs = values.len() / 2;
    let entry = _mm256_add_pd(field.value, _mm256_set1_pd(SHIFTER));
    for ([a, b], roots) in values.as_chunks_mut::<2>().0.iter_mut().zip(inner_roots(roots, pairs)) {
        let (mut x, mut y) = (difference(load_double(a), entry), difference(load_double(b), entry));
        (x, y) = exchange_halves(x, y);
        // Even against odd.
        (x, y) = (_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
        (x, y) = inverse_butterfly(field, x, y, roots.four());
        // a0 a1 b0 b1 against a2 a3 b2 b3.
        (x, y) = (_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
        (x, y) = inverse_butterfly(field, x, y, roots.two());
        if REDUCED && !THREE {
            x = field.reduce(x);
        }
        (x, y) = exchange_halves(x, y);
        if THREE {
            (x, y) = inverse_butterfly(field, x, y, roots.one());
            if REDUCED {
                x = field.reduce(x);
            }
        }
        store_double(a, x);
        store_double(b, y);
    }
}

/// Two levels over whole vectors, to `blocks` blocks from four times as many. With `REDUCED`, what is below `2q` in
/// magnitude remains so: a sum of sums is reduced, a sum of products is below `2q`, and products are below q.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_pass<const REDUCED: bool>(
    field: &Field,
    roots: &SplitFactors,
    values: &mut [Four],
    blocks: usize,
) {
    if values.len() == 4 * blocks {
        inverse_blocks::<REDUCED, 4>(field, roots, values, blocks);
    } else {
        inverse_blocks::<REDUCED, 0>(field, roots, values, blocks);
    }
}

/// Blocks of `LENGTH` vectors; of any number of them if that is 0.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_blocks<const REDUCED: bool, const LENGTH: usize>(
    field: &Field,
    roots: &SplitFactors,
    values: &mut [Four],
    blocks: usize,
) {
    let length = if LENGTH == 0 { values.len() / blocks } else { LENGTH };
    for (block, factors) in values.chunks_exact_mut(length).zip(outer_roots(roots, blocks)) {
        let [first, second, third] =
            [Factor::splat(factors[0]), Factor::splat(factors[1]), Factor::splat(factors[2])];
        for [a, b, c, d] in quarters(block) {
            let (x, y) = inverse_butterfly(field, load_double(a), load_double(b), second);
            let (z, w) = inverse_butterfly(field, load_double(c), load_double(d), third);
            let (x, z) = inverse_butterfly(field, x, z, first);
            let (y, w) = inverse_butterfly(field, y, w, first);
            store_double(a, if REDUCED { field.reduce(x) } else { x });
            store_double(b, y);
            store_double(c, z);
            store_double(d, w);
        }
    }
}

/// The last two levels, with a factor of `N^-1`, to integers in `[0, q)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_last_pass(field: &Field, ntt: &Ntt, values: &mut [Four]) {
    let of = |factor| SplitFactors::double(ntt.modulus(), factor);
    let [scale, scaled_root] = ntt.inverse_last();
    let (scale, scaled_root) = (Factor::splat(of(scale.value)), Factor::splat(of(scaled_root.value)));
    let (second, third) =
        (Factor::splat(ntt.inverse_doubles().doubles(2)), Factor::splat(ntt.inverse_doubles().doubles(3)));
    for [a, b, c, d] in quarters(values) {
        let (x, y) = inverse_butterfly(field, load_double(a), load_double(b), second);
        let (z, w) = inverse_butterfly(field, load_double(c), load_double(d), third);
        for (x, y, low, high) in [(x, z, a, c), (y, w, b, d)] {
            store(low, field.residue(field.multiply(_mm256_add_pd(x, y), scale)));
            store(high, field.residue(field.multiply(_mm256_sub_pd(x, y), scaled_root)));
        }
    }
}

/// `(x, y) -> (x + y, (x - y) w)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_butterfly(field: &Field, x: __m256d, y: __m256d, factor: Factor) -> (__m256d, __m256d) {
    (_mm256_add_pd(x, y), field.multiply(_mm256_sub_pd(x, y), factor))
}
