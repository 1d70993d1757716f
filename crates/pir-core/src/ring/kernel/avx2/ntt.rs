//! Transforms on doubles: passes of two levels over whole vectors, and the two or three levels of least distance inside
//! pairs of vectors.
//!
//! Every product is below q in magnitude, as long as what is multiplied is below 2^53, see [`Field::multiply`]. So
//! magnitudes grow by less than q per level forward, and double in the inverse where sums follow upon sums. The passes
//! count them, in units of q, and reduce where the next pass could exceed 2^53: half of the values in every third pass
//! forward, a quarter in each pass of the inverse for primes of 50 bits, and none for primes of 36.
//!
//! One butterfly is a chain of some sixteen cycles, and the processor looks only so far ahead: [`SIDE`] of them stand side
//! by side, step by step.

use core::arch::x86_64::{
    __m256d, _mm256_add_pd, _mm256_castsi256_pd, _mm256_fmadd_pd, _mm256_or_pd, _mm256_permute_pd,
    _mm256_permute2f128_pd, _mm256_set1_pd, _mm256_sub_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd,
};

use super::super::{each, portable};
use super::field::{Factor, Field, Four, SHIFTER, load_double, store, store_double};
use crate::ring::modulus::Modulus;
use crate::ring::tables::{NttTables, SplitFactors};

/// Least degree with a pass over whole vectors, for two vectors of each quarter, before the levels inside them.
const LEAST_DEGREE: usize = 32;

/// Pairs of vectors that go side by side through the levels inside them.
const SIDE: usize = 4;

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
pub(in super::super) fn forward(tables: &NttTables, values: &mut [u64]) {
    if values.len() < LEAST_DEGREE {
        return portable::forward(tables, values);
    }
    let (field, roots) = (Field::new(tables.modulus()), tables.forward_doubles());
    let (levels, limit) = (values.len().ilog2(), limit(tables.modulus()));
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
        for ([a, b, c, d, e, f, g, h], factors) in
            values.as_chunks_mut().0.iter_mut().zip(roots_of_two(roots, blocks))
        {
            forward_two_levels::<ENTRY>(field, [a, e, b, f, c, g, d, h], factors.map(|roots| splat(roots)));
        }
        return;
    }
    let length = values.len() / blocks;
    for (block, factors) in values.chunks_exact_mut(length).zip(outer_roots(roots, blocks)) {
        let factors = splat(factors);
        for [[a, e], [b, f], [c, g], [d, h]] in quarters(block) {
            forward_two_levels::<ENTRY>(field, [a, e, b, f, c, g, d, h], [factors, factors]);
        }
    }
}

/// The four quarters of two blocks, or at two places of one.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn forward_two_levels<const ENTRY: u8>(field: &Field, vectors: [&mut Four; 8], [one, two]: [[Factor; 3]; 2]) {
    let [a, e, b, f, c, g, d, h] = vectors;
    let lower = [load_double(a), load_double(e), load_double(b), load_double(f)];
    let upper = [load_double(c), load_double(g), load_double(d), load_double(h)];
    // What is multiplied needs no reduction.
    let upper = if ENTRY == FIRST { enter::<FIRST, _>(field, upper) } else { upper };
    let first = [one[0], two[0], one[0], two[0]];
    let ([p, q, r, s], [t, u, v, w]) =
        forward_butterflies(field, enter::<ENTRY, _>(field, lower), upper, first);
    let second = [one[1], two[1], one[2], two[2]];
    let (sums, differences) = forward_butterflies(field, [p, q, t, u], [r, s, v, w], second);
    for (vector, value) in [a, e, c, g].into_iter().zip(sums) {
        store_double(vector, value);
    }
    for (vector, value) in [b, f, d, h].into_iter().zip(differences) {
        store_double(vector, value);
    }
}

/// Two vectors at the same place of the four quarters of a block.
#[inline(always)]
fn quarters(block: &mut [Four]) -> impl Iterator<Item = [&mut [Four; 2]; 4]> {
    let pairs = block.as_chunks_mut().0;
    let quarter = pairs.len() / 4;
    let (low, high) = pairs.split_at_mut(2 * quarter);
    let ((a, b), (c, d)) = (low.split_at_mut(quarter), high.split_at_mut(quarter));
    a.iter_mut().zip(b).zip(c.iter_mut().zip(d)).map(|((a, b), (c, d))| [a, b, c, d])
}

/// A root and the two of the next level.
type OuterRoots = [[f64; 2]; 3];

#[inline]
#[target_feature(enable = "avx2")]
fn splat([first, second, third]: OuterRoots) -> [Factor; 3] {
    [Factor::splat(first), Factor::splat(second), Factor::splat(third)]
}

/// Block by block.
#[inline(always)]
fn outer_roots(roots: &SplitFactors, blocks: usize) -> impl Iterator<Item = OuterRoots> {
    let [[values, quotients], [next_values, next_quotients]] = two_levels(roots, blocks);
    let next = next_values.as_chunks().0.iter().zip(next_quotients.as_chunks().0);
    values.iter().zip(quotients).zip(next).map(|((a, aq), ([b, c], [bq, cq]))| {
        [[*a, *aq], [*b, *bq], [*c, *cq]].map(|root| root.map(f64::from_bits))
    })
}

/// For two blocks at a time.
#[inline(always)]
fn roots_of_two(roots: &SplitFactors, blocks: usize) -> impl Iterator<Item = [OuterRoots; 2]> {
    let [[values, quotients], [next_values, next_quotients]] = two_levels(roots, blocks);
    let one = values.as_chunks::<2>().0.iter().zip(quotients.as_chunks::<2>().0);
    let next = next_values.as_chunks::<4>().0.iter().zip(next_quotients.as_chunks::<4>().0);
    one.zip(next).map(|((a, aq), (b, bq))| {
        [0, 1].map(|i| {
            [[a[i], aq[i]], [b[2 * i], bq[2 * i]], [b[2 * i + 1], bq[2 * i + 1]]]
                .map(|root| root.map(f64::from_bits))
        })
    })
}

/// The values and quotients of a level of so many blocks, and of the next.
#[inline(always)]
fn two_levels(roots: &SplitFactors, blocks: usize) -> [[&[u64]; 2]; 2] {
    let level = |blocks: usize| [&roots.values[blocks..2 * blocks], &roots.quotients[blocks..2 * blocks]];
    [level(blocks), level(2 * blocks)]
}

/// The roots of the levels inside [`SIDE`] pairs of vectors.
struct InnerRoots<'a> {
    one: [&'a [u64; SIDE]; 2],
    two: [Around<'a>; 2],
    four: [&'a [Four; SIDE]; 2],
}

/// Two roots for each of [`SIDE`] pairs, with a neighbour on either side: those of even pairs, and those of odd pairs.
type Around<'a> = (&'a [Four; SIDE / 2], &'a [Four; SIDE / 2]);

impl InnerRoots<'_> {
    /// Distance 4.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn one(&self) -> [Factor; SIDE] {
        let [values, quotients] = self.one;
        each(|i| Factor::splat([values[i], quotients[i]].map(f64::from_bits)))
    }

    /// Distance 2: two roots of a pair, each for two lanes. They are loaded with their neighbours, so that none has to
    /// move from half to half.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn two(&self) -> [Factor; SIDE] {
        each(|i| {
            let [value, quotient] = self.two.map(|(even, odd)| {
                let around = if i % 2 == 0 { &even[i / 2] } else { &odd[i / 2] };
                _mm256_permute_pd::<0b0011>(load_double(around))
            });
            Factor { value, quotient }
        })
    }

    /// Distance 1.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn four(&self) -> [Factor; SIDE] {
        let [values, quotients] = self.four;
        each(|i| Factor { value: load_double(&values[i]), quotient: load_double(&quotients[i]) })
    }
}

/// Group by group of [`SIDE`] pairs.
#[inline(always)]
fn inner_roots(roots: &SplitFactors, pairs: usize) -> impl Iterator<Item = InnerRoots<'_>> {
    let level = |from: usize, to: usize| [&roots.values[from..to], &roots.quotients[from..to]];
    let [values, quotients] = level(pairs, 2 * pairs).map(|table| table.as_chunks().0);
    let one = values.iter().zip(quotients);
    let [values, quotients] =
        level(2 * pairs - 1, 4 * pairs - 1).map(|table| table.as_chunks().0.as_chunks().0);
    let even = values.iter().zip(quotients);
    let [values, quotients] =
        level(2 * pairs + 1, 4 * pairs + 1).map(|table| table.as_chunks().0.as_chunks().0);
    let odd = values.iter().zip(quotients);
    let [values, quotients] = level(4 * pairs, 8 * pairs).map(|table| table.as_chunks().0.as_chunks().0);
    let four = values.iter().zip(quotients);
    one.zip(even.zip(odd)).zip(four).map(|((one, (even, odd)), four)| InnerRoots {
        one: one.into(),
        two: [(even.0, odd.0), (even.1, odd.1)],
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
    for (vectors, roots) in
        values.as_chunks_mut::<2>().0.as_chunks_mut::<SIDE>().0.iter_mut().zip(inner_roots(roots, pairs))
    {
        let mut x = vectors.each_ref().map(|[a, _]| load_double(a));
        let mut y = vectors.each_ref().map(|[_, b]| load_double(b));
        if THREE {
            (x, y) = forward_butterflies(field, enter::<ENTRY, _>(field, x), y, roots.one());
        }
        // a0 a1 b0 b1 against a2 a3 b2 b3.
        (x, y) = exchange_halves(x, y);
        if !THREE {
            x = enter::<ENTRY, _>(field, x);
        }
        (x, y) = forward_butterflies(field, x, y, roots.two());
        // Even against odd.
        (x, y) = exchange_odd(x, y);
        (x, y) = forward_butterflies(field, x, y, roots.four());
        (x, y) = (field.reduce_each(x), field.reduce_each(y));
        (x, y) = exchange_odd(x, y);
        let residue = |x| _mm256_castsi256_pd(field.residue(x));
        (x, y) = exchange_halves(x.map(residue), y.map(residue));
        for (([a, b], x), y) in vectors.iter_mut().zip(x).zip(y) {
            store_double(a, x);
            store_double(b, y);
        }
    }
}

/// The lower halves, and the upper halves.
#[inline]
#[target_feature(enable = "avx2")]
fn exchange_halves(x: [__m256d; SIDE], y: [__m256d; SIDE]) -> ([__m256d; SIDE], [__m256d; SIDE]) {
    (
        each(|i| _mm256_permute2f128_pd::<0x20>(x[i], y[i])),
        each(|i| _mm256_permute2f128_pd::<0x31>(x[i], y[i])),
    )
}

/// The lower lanes of the halves, and the upper lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn exchange_odd(x: [__m256d; SIDE], y: [__m256d; SIDE]) -> ([__m256d; SIDE], [__m256d; SIDE]) {
    (each(|i| _mm256_unpacklo_pd(x[i], y[i])), each(|i| _mm256_unpackhi_pd(x[i], y[i])))
}

/// In a first pass, `x` holds integers, from which `2q` is taken away.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn enter<const ENTRY: u8, const K: usize>(field: &Field, x: [__m256d; K]) -> [__m256d; K] {
    match ENTRY {
        FIRST => {
            let twice = _mm256_add_pd(field.value, field.value);
            difference(x, _mm256_add_pd(twice, _mm256_set1_pd(SHIFTER)))
        }
        REDUCED => field.reduce_each(x),
        _ => x,
    }
}

/// `x - y` for integers `x` below 2^52, and `y + 2^52` as doubles.
#[inline]
#[target_feature(enable = "avx2")]
fn difference<const K: usize>(x: [__m256d; K], y: __m256d) -> [__m256d; K] {
    x.map(|x| _mm256_sub_pd(raised(x), y))
}

/// The double of `x + 2^52`, for integers below.
#[inline]
#[target_feature(enable = "avx2")]
fn raised(x: __m256d) -> __m256d {
    _mm256_or_pd(x, _mm256_set1_pd(SHIFTER))
}

/// `(x, y) -> (x + w y, x - w y)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn forward_butterflies<const K: usize>(
    field: &Field,
    x: [__m256d; K],
    y: [__m256d; K],
    factors: [Factor; K],
) -> ([__m256d; K], [__m256d; K]) {
    let products = field.multiply(y, factors);
    (each(|i| _mm256_add_pd(x[i], products[i])), each(|i| _mm256_sub_pd(x[i], products[i])))
}

#[target_feature(enable = "avx2,fma,bmi2")]
pub(in super::super) fn inverse(tables: &NttTables, values: &mut [u64]) {
    if values.len() < LEAST_DEGREE {
        return portable::inverse(tables, values);
    }
    let (field, roots) = (Field::new(tables.modulus()), tables.inverse_doubles());
    let (levels, limit) = (values.len().ilog2(), limit(tables.modulus()));
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
    inverse_last_pass(&field, tables, values);
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
    for (vectors, roots) in
        values.as_chunks_mut::<2>().0.as_chunks_mut::<SIDE>().0.iter_mut().zip(inner_roots(roots, pairs))
    {
        let x = vectors.each_ref().map(|[a, _]| load_double(a));
        let y = vectors.each_ref().map(|[_, b]| load_double(b));
        let (x, y) = exchange_halves(x, y);
        // Even against odd. An operation stands before and behind: on adjacent exchanges, or an exchange and a sum, the
        // compiler would choose slower instructions.
        let (x, y) = exchange_odd(x.map(|x| raised(x)), y.map(|y| raised(y)));
        let (mut x, mut y) = (x.map(|x| _mm256_sub_pd(x, entry)), y.map(|y| _mm256_sub_pd(y, entry)));
        (x, y) = inverse_butterflies(field, x, y, roots.four());
        // a0 a1 b0 b1 against a2 a3 b2 b3.
        (x, y) = exchange_odd(x, y);
        (x, y) = inverse_butterflies_of_exchanged(field, x, y, roots.two());
        if REDUCED && !THREE {
            x = field.reduce_each(x);
        }
        (x, y) = exchange_halves(x, y);
        if THREE {
            (x, y) = inverse_butterflies(field, x, y, roots.one());
            if REDUCED {
                x = field.reduce_each(x);
            }
        }
        for (([a, b], x), y) in vectors.iter_mut().zip(x).zip(y) {
            store_double(a, x);
            store_double(b, y);
        }
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
        for ([a, b, c, d, e, f, g, h], factors) in
            values.as_chunks_mut().0.iter_mut().zip(roots_of_two(roots, blocks))
        {
            inverse_two_levels::<REDUCED>(field, [a, e, b, f, c, g, d, h], factors.map(|roots| splat(roots)));
        }
        return;
    }
    let length = values.len() / blocks;
    for (block, factors) in values.chunks_exact_mut(length).zip(outer_roots(roots, blocks)) {
        let factors = splat(factors);
        for [[a, e], [b, f], [c, g], [d, h]] in quarters(block) {
            inverse_two_levels::<REDUCED>(field, [a, e, b, f, c, g, d, h], [factors, factors]);
        }
    }
}

/// The four quarters of two blocks, or at two places of one.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_two_levels<const REDUCED: bool>(
    field: &Field,
    vectors: [&mut Four; 8],
    [one, two]: [[Factor; 3]; 2],
) {
    let [a, e, b, f, c, g, d, h] = vectors;
    let x = [load_double(a), load_double(e), load_double(c), load_double(g)];
    let y = [load_double(b), load_double(f), load_double(d), load_double(h)];
    let ([p, q, t, u], [r, s, v, w]) = inverse_butterflies(field, x, y, [one[1], two[1], one[2], two[2]]);
    let first = [one[0], two[0], one[0], two[0]];
    let ([p, q, r, s], differences) = inverse_butterflies(field, [p, q, r, s], [t, u, v, w], first);
    let [p, q] = if REDUCED { field.reduce_each([p, q]) } else { [p, q] };
    for (vector, value) in [a, e, b, f].into_iter().zip([p, q, r, s]) {
        store_double(vector, value);
    }
    for (vector, value) in [c, g, d, h].into_iter().zip(differences) {
        store_double(vector, value);
    }
}

/// The last two levels, with a factor of `N^-1`, to integers in `[0, q)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_last_pass(field: &Field, tables: &NttTables, values: &mut [Four]) {
    let of = |factor| SplitFactors::double(tables.modulus(), factor);
    let [scale, scaled_root] = tables.inverse_last();
    let (scale, scaled_root) = (Factor::splat(of(scale.value)), Factor::splat(of(scaled_root.value)));
    let [second, third] = [2, 3].map(|i| Factor::splat(tables.inverse_doubles().doubles(i)));
    for [[a, e], [b, f], [c, g], [d, h]] in quarters(values) {
        let x = [load_double(a), load_double(e), load_double(c), load_double(g)];
        let y = [load_double(b), load_double(f), load_double(d), load_double(h)];
        let ([p, q, t, u], [r, s, v, w]) = inverse_butterflies(field, x, y, [second, second, third, third]);
        let (x, y) = ([p, q, r, s], [t, u, v, w]);
        let sums = each(|i| _mm256_add_pd(x[i], y[i]));
        let differences = each(|i| _mm256_sub_pd(x[i], y[i]));
        for (vector, value) in [a, e, b, f].into_iter().zip(field.multiply(sums, [scale; 4])) {
            store(vector, field.residue(value));
        }
        for (vector, value) in [c, g, d, h].into_iter().zip(field.multiply(differences, [scaled_root; 4])) {
            store(vector, field.residue(value));
        }
    }
}

/// `(x, y) -> (x + y, (x - y) w)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_butterflies<const K: usize>(
    field: &Field,
    x: [__m256d; K],
    y: [__m256d; K],
    factors: [Factor; K],
) -> ([__m256d; K], [__m256d; K]) {
    let differences = each(|i| _mm256_sub_pd(x[i], y[i]));
    (each(|i| _mm256_add_pd(x[i], y[i])), field.multiply(differences, factors))
}

/// The same, in a form that the compiler does not take for horizontal sums, which are slower.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_butterflies_of_exchanged<const K: usize>(
    field: &Field,
    x: [__m256d; K],
    y: [__m256d; K],
    factors: [Factor; K],
) -> ([__m256d; K], [__m256d; K]) {
    let differences: [_; K] = each(|i| _mm256_sub_pd(y[i], x[i]));
    let sums = each(|i| _mm256_fmadd_pd(x[i], _mm256_set1_pd(2.0), differences[i]));
    (sums, field.multiply_negated(differences, factors))
}
