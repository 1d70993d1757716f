//! Words on their way from one order to another, in plain Rust.

use super::each;
use super::rows::{Lanes, OrbitWalk, PAIR_LIMB, Pairs};
use crate::ring::modulus::Modulus;
use crate::ring::tables::bit_reverse;

pub(super) fn weave_columns(
    out: &mut [Lanes],
    stride: usize,
    at: usize,
    columns: &[[Lanes; 2]],
    parts: usize,
    unit: usize,
) {
    let slots = columns.len() / parts;
    for (slot, out) in out.chunks_mut(stride).take(slots).enumerate() {
        for (number, word) in out[at..][..2 * parts].as_flattened_mut().iter_mut().enumerate() {
            let (part, lane) = (number / unit % parts, number / (unit * parts) * unit + number % unit);
            *word = columns[part * slots + slot][lane / 8][lane % 8];
        }
    }
}

/// The columns row by row, by the functions in scope. Whoever expands it has `radix_rows`, `forward` and `multiply`.
macro_rules! radix_columns_by_rows {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident) => {
        $(#[$attribute])*
        $visibility fn $name(
            tables: &NttTables,
            pairs: &[Pairs],
            factors: &SplitFactors,
            adds: bool,
            scratch: &mut [Lanes],
            out: &mut [[Lanes; 2]],
        ) {
            let (modulus, degree) = (tables.modulus(), out.len());
            let rows = &mut scratch.as_flattened_mut()[..16 * degree];
            rows.fill(0);
            let mut coefficients = rows.chunks_exact_mut(degree).map(|row| &mut row[..pairs.len()]);
            radix_rows(modulus, pairs, core::array::from_fn(|_| coefficients.next().unwrap_or_default()));
            drop(coefficients);
            for row in rows.chunks_exact_mut(degree) {
                forward(tables, row);
                multiply(modulus, row, &factors.values);
            }
            for (slot, out) in out.iter_mut().enumerate() {
                for (lane, word) in out.as_flattened_mut().iter_mut().enumerate() {
                    let value = rows[lane * degree + slot];
                    *word = if adds { modulus.add(*word, value) } else { value };
                }
            }
        }
    };
}

pub(super) use radix_columns_by_rows;

pub(super) fn copy_runs(
    out: &mut [Lanes],
    places: &[[usize; 2]],
    source: &[Lanes],
    stride: usize,
    length: usize,
) {
    for ([place, lanes], source) in places.iter().zip(source.chunks(stride)) {
        for (out, source) in out[*place..][..length].iter_mut().zip(&source[..length]) {
            *out = *source;
            out.rotate_right(*lanes);
        }
    }
}

pub(super) fn radix_rows(modulus: &Modulus, pairs: &[Pairs], rows: [&mut [u64]; 16]) {
    let q = modulus.value();
    for (lane, row) in rows.into_iter().enumerate() {
        for (out, pair) in row.iter_mut().zip(pairs) {
            let c = i64::from(pair[2 * lane]) + (i64::from(pair[2 * lane + 1]) << PAIR_LIMB);
            *out = (c as u64).wrapping_add(if c < 0 { q } else { 0 });
        }
    }
}

/// `SKEWED[c][lane]`: the row whose place is c eighths of an orbit behind that of a lane. Rows and lanes are numbered with their bits
/// reversed.
const SKEWED: [[usize; 8]; 8] = {
    let mut rows = [[0; 8]; 8];
    let mut at = 0;
    while at < 64 {
        let (c, lane) = (at / 8, at % 8);
        rows[c][lane] = REVERSED[(c + REVERSED[lane]) % 8];
        at += 1;
    }
    rows
};

/// The numbers below eight with their bits reversed.
pub(super) const REVERSED: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

pub(super) fn orbit_masks(out: &mut [Lanes], rows: [&[u64]; 8], half: usize, group: usize) {
    let orbit = rows[0].len() / 2;
    let (blocks, bits) = (orbit / 8, (orbit / 8).ilog2());
    let to = bit_reverse(group, bits);
    let rows: [&[Lanes]; 8] = rows.map(|row| row.as_chunks().0);
    for vector in 0..2 * blocks {
        let words = rows.map(|row| &row[vector]);
        let chain = (vector / blocks) ^ half;
        let first = to + orbit - bit_reverse(vector % blocks, bits);
        for (c, skewed) in SKEWED.iter().enumerate() {
            let step = (first + blocks * c) % orbit;
            out[(chain * orbit + step) * 2 * blocks + vector] = each(|lane| words[skewed[lane]][lane]);
        }
    }
}

/// Keeps digits, in slots, as [`super::OrbitWalk`] says, `at` being the place of the step among the kept ones.
pub(super) fn keep_digits(walk: &OrbitWalk<'_>, kept: &mut [Lanes], at: usize, digits: &[u64]) {
    let blocks = digits.len() / 16;
    for (vector, digits) in digits.as_chunks::<8>().0.iter().enumerate() {
        let block = bit_reverse(vector % blocks, blocks.ilog2());
        let place = &mut kept[block * walk.stride + 4 * at + walk.first_vector() + vector / blocks];
        *place = REVERSED.map(|lane| digits[lane]);
    }
}

/// What follows digits, both in slots: their products with the images, and the masks.
pub(super) fn next_sum(modulus: &Modulus, walk: &OrbitWalk<'_>, step: usize, digits: &mut [u64]) {
    let masks = walk.masks_of(step, digits.len());
    for ((vector, digits), masks) in digits.as_chunks_mut::<8>().0.iter_mut().enumerate().zip(masks) {
        let image = walk.image(step, vector);
        for ((digit, image), mask) in digits.iter_mut().zip(image).zip(masks) {
            *digit = modulus.add(*mask, modulus.mul(*digit, *image));
        }
    }
}

/// The walk step by step, by the functions in scope. Whoever expands it has `forward`, `inverse`, `round_digits` and `next_sum`.
macro_rules! orbit_walk_by_steps {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident) => {
        $(#[$attribute])*
        $visibility fn $name(
            tables: &NttTables,
            walk: &OrbitWalk<'_>,
            sum: &mut [u64],
            kept: &mut [Lanes],
        ) {
            for (at, step) in walk.steps.clone().enumerate().rev() {
                inverse(tables, sum);
                round_digits(tables.modulus(), walk.shift, sum);
                forward(tables, sum);
                moves::keep_digits(walk, kept, at, sum);
                next_sum(tables.modulus(), walk, step, sum);
            }
        }
    };
}

pub(super) use orbit_walk_by_steps;
