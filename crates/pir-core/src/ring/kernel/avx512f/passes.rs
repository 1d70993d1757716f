//! The passes of a transform on AVX-512 registers, for any arithmetic: passes of two or three levels over whole vectors,
//! then the three levels of distance 4, 2 and 1 inside registers.
//!
//! A macro, because functions that need processor features cannot be generic in them. Whoever expands it has in scope:
//! the types `Field` (a prime in every lane) and `Factor` (a root and its quotient by the prime), `forward_butterfly` and
//! `inverse_butterfly`, and what happens to values between passes: `enter_*`, `between`, `leave_forward`, `bound_after`.
//! With `LAZY`, which suits shorter primes, nothing is reduced between the first and the last level.

/// Least degree with a pass over whole vectors before the levels inside them, which take two vectors at a time.
pub(in super::super) const LEAST_DEGREE: usize = 64;

macro_rules! passes {
    ($features:literal, $levels:literal) => {
        #[inline]
        #[target_feature(enable = $features)]
        fn forward_passes<const LAZY: bool>(tables: &NttTables, values: &mut [Lanes], ahead: &[Lanes]) {
            let (field, roots) = (Field::new(tables.modulus()), forward_roots(tables));
            let levels = (8 * values.len()).ilog2();
            let mut blocks = 1;
            // Magnitudes in units of q/4, for arithmetic that reduces between passes: they start below q/2, grow by 3q/4
            // per level, and must not meet a multiplication above 3.5q.
            let mut magnitude = 2 + 3 * $levels;
            match (levels - 3) % $levels {
                1 => forward_pass::<1, LAZY, FIRST>(&field, roots, values, &mut blocks),
                2 => forward_pass::<2, LAZY, FIRST>(&field, roots, values, &mut blocks),
                _ => forward_pass::<$levels, LAZY, FIRST>(&field, roots, values, &mut blocks),
            }
            while blocks < values.len() {
                if magnitude + 3 * ($levels - 1) > 14 {
                    forward_pass::<$levels, LAZY, REDUCED>(&field, roots, values, &mut blocks);
                    magnitude = 2;
                } else {
                    forward_pass::<$levels, LAZY, PLAIN>(&field, roots, values, &mut blocks);
                }
                magnitude += 3 * $levels;
            }
            let inner = InnerRoots::new(roots, blocks);
            let mut ahead = ahead.as_chunks::<8>().0.iter();
            for (i, vectors) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                for line in ahead.next().into_iter().flatten() {
                    fetch::<_MM_HINT_T1>(line.as_ptr().cast());
                }
                forward_inside::<LAZY>(&field, &inner, vectors, i);
            }
        }

        /// How values come into a pass: from a caller, from a pass that asks for a reduction, or as they are.
        const FIRST: u8 = 0;
        const REDUCED: u8 = 1;
        const PLAIN: u8 = 2;

        /// `LEVELS` levels over whole vectors, from `blocks` blocks to `2^LEVELS` times as many.
        #[inline]
        #[target_feature(enable = $features)]
        fn forward_pass<const LEVELS: usize, const LAZY: bool, const ENTRY: u8>(
            field: &Field,
            roots: &SplitFactors,
            values: &mut [Lanes],
            blocks: &mut usize,
        ) {
            let width = 1 << LEVELS;
            let roots = OuterRoots::new(roots, *blocks, LEVELS);
            let length = values.len() / *blocks;
            for (i, block) in values.chunks_exact_mut(length).enumerate() {
                let factors = roots.factors::<LEVELS>(i);
                let parts = split::<LEVELS>(block);
                for position in 0..length / width {
                    let mut x = [_mm512_setzero_si512(); 8];
                    for k in 0..width {
                        let word = load(&parts[k][position]);
                        x[k] = match ENTRY {
                            FIRST => enter_forward::<LAZY>(field, word),
                            REDUCED => between::<LAZY>(field, word),
                            _ => word,
                        };
                    }
                    forward_levels::<LEVELS, LAZY>(field, &factors, &mut x);
                    for k in 0..width {
                        store(&mut parts[k][position], x[k]);
                    }
                }
            }
            *blocks *= width;
        }

        /// `LEVELS` levels over `2^LEVELS` vectors.
        #[inline]
        #[target_feature(enable = $features)]
        fn forward_levels<const LEVELS: usize, const LAZY: bool>(
            field: &Field,
            factors: &[Factor; 8],
            x: &mut [__m512i; 8],
        ) {
            forward_levels_behind::<0, LEVELS, LAZY>(field, factors, x);
        }

        /// The same without so many levels `BEFORE`.
        #[inline]
        #[target_feature(enable = $features)]
        fn forward_levels_behind<const BEFORE: usize, const LEVELS: usize, const LAZY: bool>(
            field: &Field,
            factors: &[Factor; 8],
            x: &mut [__m512i; 8],
        ) {
            for level in BEFORE..LEVELS {
                let half = 1 << LEVELS >> (level + 1);
                for sub in 0..1 << level {
                    for j in 2 * sub * half..(2 * sub + 1) * half {
                        (x[j], x[j + half]) =
                            forward_butterfly::<LAZY>(field, x[j], x[j + half], factors[(1 << level) + sub]);
                    }
                }
            }
        }

        /// The `2^LEVELS` equal parts of a block; the rest of them are empty.
        #[inline]
        fn split<const LEVELS: usize>(mut block: &mut [Lanes]) -> [&mut [Lanes]; 8] {
            let length = block.len() >> LEVELS;
            core::array::from_fn(|i| {
                let middle = if i < 1 << LEVELS { length } else { 0 };
                let (part, rest) = core::mem::take(&mut block).split_at_mut(middle);
                block = rest;
                part
            })
        }

        /// The roots of up to three successive levels over whole vectors: for each block 1, 2 and 4.
        struct OuterRoots<'a> {
            one: [&'a [u64]; 2],
            two: [&'a [[u64; 2]]; 2],
            four: [&'a [[u64; 4]]; 2],
        }

        impl<'a> OuterRoots<'a> {
            /// For `levels` levels from `blocks` blocks on.
            fn new(roots: &'a SplitFactors, blocks: usize, levels: usize) -> Self {
                let tables = [&roots.values[..], &roots.quotients[..]];
                let level = |table: &'a [u64], level: usize| {
                    if level < levels { &table[blocks << level..2 * blocks << level] } else { &[] }
                };
                Self {
                    one: tables.map(|table| level(table, 0)),
                    two: tables.map(|table| level(table, 1).as_chunks().0),
                    four: tables.map(|table| level(table, 2).as_chunks().0),
                }
            }

            /// Those of a block, level `l` at indices `2^l ..`.
            #[inline]
            #[target_feature(enable = $features)]
            fn factors<const LEVELS: usize>(&self, block: usize) -> [Factor; 8] {
                let zero = _mm512_setzero_si512();
                let mut factors = [Factor::of(zero, zero); 8];
                let [values, quotients] = self.one;
                factors[1] = Factor::of(splat(values[block]), splat(quotients[block]));
                if LEVELS > 1 {
                    let [values, quotients] = [&self.two[0][block], &self.two[1][block]];
                    for sub in 0..2 {
                        factors[2 + sub] = Factor::of(splat(values[sub]), splat(quotients[sub]));
                    }
                }
                if LEVELS > 2 {
                    let [values, quotients] = [&self.four[0][block], &self.four[1][block]];
                    for sub in 0..4 {
                        factors[4 + sub] = Factor::of(splat(values[sub]), splat(quotients[sub]));
                    }
                }
                factors
            }
        }

        /// The last three levels of eight vectors, of which `group` come before.
        #[inline]
        #[target_feature(enable = $features)]
        fn forward_inside<const LAZY: bool>(
            field: &Field,
            roots: &InnerRoots<'_>,
            vectors: &mut [Lanes; 8],
            group: usize,
        ) {
            let mut x = [_mm512_setzero_si512(); 8];
            for (x, vector) in x.iter_mut().zip(vectors.iter()) {
                *x = load(vector);
            }
            forward_inside_registers::<LAZY, 0>(field, roots, &mut x, group);
            for (x, vector) in x.iter().zip(vectors) {
                store(vector, *x);
            }
        }

        /// The same in registers: two vectors in a pair of them and four pairs side by side, so that no butterfly waits for the
        /// one before. Each `CALLER` has an instance of its own, which is compiled into it: registers are no arguments of calls.
        #[inline]
        #[target_feature(enable = $features)]
        fn forward_inside_registers<const LAZY: bool, const CALLER: u8>(
            field: &Field,
            roots: &InnerRoots<'_>,
            vectors: &mut [__m512i; 8],
            group: usize,
        ) {
            let mut pairs = [[_mm512_setzero_si512(); 2]; 4];
            for (k, pair) in pairs.iter_mut().enumerate() {
                // a0..3 b0..3 against a4..7 b4..7.
                let x = between::<LAZY>(field, vectors[2 * k]);
                let y = between::<LAZY>(field, vectors[2 * k + 1]);
                *pair = [_mm512_shuffle_i64x2::<0x44>(x, y), _mm512_shuffle_i64x2::<0xEE>(x, y)];
            }
            for (k, [x, y]) in pairs.iter_mut().enumerate() {
                (*x, *y) = forward_butterfly::<LAZY>(field, *x, *y, roots.two(group, k));
            }
            for (k, [x, y]) in pairs.iter_mut().enumerate() {
                // a0 a1 a4 a5 b0 b1 b4 b5 against a2 a3 a6 a7 b2 b3 b6 b7.
                let low = _mm512_permutex2var_epi64(*x, lanes([0, 1, 8, 9, 4, 5, 12, 13]), *y);
                let high = _mm512_permutex2var_epi64(*x, lanes([2, 3, 10, 11, 6, 7, 14, 15]), *y);
                (*x, *y) = forward_butterfly::<LAZY>(field, low, high, roots.four(group, k));
            }
            for (k, [x, y]) in pairs.iter_mut().enumerate() {
                // Even against odd.
                let (low, high) = (_mm512_unpacklo_epi64(*x, *y), _mm512_unpackhi_epi64(*x, *y));
                (*x, *y) = forward_butterfly::<LAZY>(field, low, high, roots.eight(group, k));
            }
            for (k, [x, y]) in pairs.iter_mut().enumerate() {
                let (x, y) = (leave_forward::<LAZY>(field, *x), leave_forward::<LAZY>(field, *y));
                vectors[2 * k] = _mm512_permutex2var_epi64(x, lanes([0, 8, 1, 9, 2, 10, 3, 11]), y);
                vectors[2 * k + 1] = _mm512_permutex2var_epi64(x, lanes([4, 12, 5, 13, 6, 14, 7, 15]), y);
            }
        }

        /// The roots of the levels inside vectors, for groups of eight vectors: 8, 16 and 32 to a group.
        struct InnerRoots<'a> {
            two: [&'a [[u64; 8]]; 2],
            four: [&'a [[Lanes; 2]]; 2],
            eight: [&'a [[Lanes; 4]]; 2],
        }

        impl<'a> InnerRoots<'a> {
            fn new(roots: &'a SplitFactors, blocks: usize) -> Self {
                let tables = [&roots.values, &roots.quotients];
                Self {
                    two: tables.map(|table| table[blocks..2 * blocks].as_chunks().0),
                    four: tables.map(|table| table[2 * blocks..4 * blocks].as_chunks().0.as_chunks().0),
                    eight: tables.map(|table| table[4 * blocks..8 * blocks].as_chunks().0.as_chunks().0),
                }
            }

            /// Two roots at distance 4 for pair `k`, spread over the lanes of their blocks.
            #[inline]
            #[target_feature(enable = $features)]
            fn two(&self, group: usize, k: usize) -> Factor {
                let [a, b] = [2 * k as i64, 2 * k as i64 + 1];
                let order = lanes([a, a, a, a, b, b, b, b]);
                let [values, quotients] = self.two;
                Factor::of(
                    _mm512_permutexvar_epi64(order, load(&values[group])),
                    _mm512_permutexvar_epi64(order, load(&quotients[group])),
                )
            }

            /// Four roots at distance 2.
            #[inline]
            #[target_feature(enable = $features)]
            fn four(&self, group: usize, k: usize) -> Factor {
                let a = 4 * (k as i64 % 2);
                let order = lanes([a, a, a + 1, a + 1, a + 2, a + 2, a + 3, a + 3]);
                let [values, quotients] = self.four;
                Factor::of(
                    _mm512_permutexvar_epi64(order, load(&values[group][k / 2])),
                    _mm512_permutexvar_epi64(order, load(&quotients[group][k / 2])),
                )
            }

            /// Eight roots at distance 1.
            #[inline]
            #[target_feature(enable = $features)]
            fn eight(&self, group: usize, k: usize) -> Factor {
                let [values, quotients] = self.eight;
                Factor::of(load(&values[group][k]), load(&quotients[group][k]))
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn inverse_passes<const LAZY: bool>(tables: &NttTables, values: &mut [Lanes]) {
            let (field, roots) = (Field::new(tables.modulus()), inverse_roots(tables));
            let last = inverse_last(tables);
            let levels = (8 * values.len()).ilog2();
            let mut blocks = values.len();
            let inner = InnerRoots::new(roots, blocks);
            for (i, vectors) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                inverse_inside::<LAZY>(&field, &inner, vectors, i);
            }
            let mut done = 3;
            while levels - done > $levels {
                inverse_pass::<$levels, LAZY, false>(&field, roots, values, &mut blocks, &mut done, last);
            }
            match levels - done {
                1 => inverse_pass::<1, LAZY, true>(&field, roots, values, &mut blocks, &mut done, last),
                2 => inverse_pass::<2, LAZY, true>(&field, roots, values, &mut blocks, &mut done, last),
                _ => inverse_pass::<$levels, LAZY, true>(&field, roots, values, &mut blocks, &mut done, last),
            }
        }

        /// `LEVELS` levels over whole vectors; `done` levels come before. The `LAST` pass ends with a factor of `N^-1`.
        #[inline]
        #[target_feature(enable = $features)]
        fn inverse_pass<const LEVELS: usize, const LAZY: bool, const LAST: bool>(
            field: &Field,
            roots: &SplitFactors,
            values: &mut [Lanes],
            blocks: &mut usize,
            done: &mut u32,
            last: [Factor; 2],
        ) {
            let width = 1 << LEVELS;
            *blocks /= width;
            let roots = OuterRoots::new(roots, *blocks, LEVELS);
            let length = values.len() / *blocks;
            for (i, block) in values.chunks_exact_mut(length).enumerate() {
                let factors = roots.factors::<LEVELS>(i);
                let parts = split::<LEVELS>(block);
                for position in 0..length / width {
                    let mut x = [_mm512_setzero_si512(); 8];
                    for k in 0..width {
                        x[k] = between::<LAZY>(field, load(&parts[k][position]));
                    }
                    let bound = bound_after::<LAZY>(field, *done);
                    inverse_levels::<LEVELS, LAZY, LAST>(field, &factors, last, bound, &mut x);
                    for k in 0..width {
                        store(&mut parts[k][position], x[k]);
                    }
                }
            }
            *done += LEVELS as u32;
        }

        /// `LEVELS` levels over `2^LEVELS` vectors of values below `bound`.
        #[inline]
        #[target_feature(enable = $features)]
        fn inverse_levels<const LEVELS: usize, const LAZY: bool, const LAST: bool>(
            field: &Field,
            factors: &[Factor; 8],
            last: [Factor; 2],
            mut bound: __m512i,
            x: &mut [__m512i; 8],
        ) {
            for level in (0..LEVELS).rev() {
                let half = 1 << LEVELS >> (level + 1);
                for sub in 0..1 << level {
                    for j in 2 * sub * half..(2 * sub + 1) * half {
                        (x[j], x[j + half]) = if LAST && level == 0 {
                            last_inverse_butterfly(field, x[j], x[j + half], last, bound)
                        } else {
                            let factor = factors[(1 << level) + sub];
                            inverse_butterfly::<LAZY>(field, x[j], x[j + half], factor, bound)
                        };
                    }
                }
                bound = next_bound::<LAZY>(bound);
            }
        }

        /// The first three levels of the inverse; the mirror image of [`forward_inside`].
        #[inline]
        #[target_feature(enable = $features)]
        fn inverse_inside<const LAZY: bool>(
            field: &Field,
            roots: &InnerRoots<'_>,
            vectors: &mut [Lanes; 8],
            group: usize,
        ) {
            let mut x = [_mm512_setzero_si512(); 8];
            for (x, vector) in x.iter_mut().zip(vectors.iter()) {
                *x = load(vector);
            }
            inverse_inside_registers::<LAZY, 0>(field, roots, &mut x, group);
            for (x, vector) in x.iter().zip(vectors) {
                store(vector, *x);
            }
        }

        /// The same in registers, with an instance for each `CALLER` as there.
        #[inline]
        #[target_feature(enable = $features)]
        fn inverse_inside_registers<const LAZY: bool, const CALLER: u8>(
            field: &Field,
            roots: &InnerRoots<'_>,
            vectors: &mut [__m512i; 8],
            group: usize,
        ) {
            let mut pairs = [[_mm512_setzero_si512(); 2]; 4];
            for (k, pair) in pairs.iter_mut().enumerate() {
                let x = enter_inverse::<LAZY>(field, vectors[2 * k]);
                let y = enter_inverse::<LAZY>(field, vectors[2 * k + 1]);
                *pair = [
                    _mm512_permutex2var_epi64(x, lanes([0, 2, 4, 6, 8, 10, 12, 14]), y),
                    _mm512_permutex2var_epi64(x, lanes([1, 3, 5, 7, 9, 11, 13, 15]), y),
                ];
            }
            let bound = bound_after::<LAZY>(field, 0);
            for (k, [x, y]) in pairs.iter_mut().enumerate() {
                (*x, *y) = inverse_butterfly::<LAZY>(field, *x, *y, roots.eight(group, k), bound);
            }
            let bound = bound_after::<LAZY>(field, 1);
            for (k, [x, y]) in pairs.iter_mut().enumerate() {
                let (low, high) = (_mm512_unpacklo_epi64(*x, *y), _mm512_unpackhi_epi64(*x, *y));
                (*x, *y) = inverse_butterfly::<LAZY>(field, low, high, roots.four(group, k), bound);
            }
            let bound = bound_after::<LAZY>(field, 2);
            for (k, [x, y]) in pairs.iter_mut().enumerate() {
                let low = _mm512_permutex2var_epi64(*x, lanes([0, 1, 8, 9, 4, 5, 12, 13]), *y);
                let high = _mm512_permutex2var_epi64(*x, lanes([2, 3, 10, 11, 6, 7, 14, 15]), *y);
                (*x, *y) = inverse_butterfly::<LAZY>(field, low, high, roots.two(group, k), bound);
            }
            for (k, [x, y]) in pairs.iter().enumerate() {
                vectors[2 * k] = _mm512_shuffle_i64x2::<0x44>(*x, *y);
                vectors[2 * k + 1] = _mm512_shuffle_i64x2::<0xEE>(*x, *y);
            }
        }
    };
}

pub(in super::super) use passes;
