//! Words on their way from one order to another, in plain Rust.

use super::each;
use super::rows::{Lanes, PAIR_LIMB, Pairs};
use crate::ring::modulus::Modulus;
use crate::ring::tables::bit_reverse;

pub(super) fn gather_columns(out: &mut [Lanes], stride: usize, at: usize, rows: [&[u64]; 8]) {
    for (column, out) in out.iter_mut().skip(at).step_by(stride).take(rows[0].len()).enumerate() {
        *out = rows.map(|row| row[column]);
    }
}

pub(super) fn copy_runs(out: &mut [Lanes], places: &[usize], source: &[Lanes], stride: usize, length: usize) {
    for (place, source) in places.iter().zip(source.chunks(stride)) {
        out[*place..][..length].copy_from_slice(&source[..length]);
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

pub(super) fn orbit_step(
    modulus: &Modulus,
    sum: &mut [u64],
    digits: &mut [u64],
    images: &[Lanes],
    exchanged: bool,
    power: usize,
) {
    let half = sum.len() / 2;
    let bits = (half / 8).ilog2();
    let parts = sum.chunks_exact_mut(half).zip(digits.chunks_exact_mut(half));
    for (h, (sum, digits)) in parts.enumerate() {
        let images = &images[(h ^ usize::from(exchanged)) * half..][..half];
        let vectors = sum.as_chunks_mut::<8>().0.iter_mut().zip(digits.as_chunks_mut::<8>().0);
        for (v, (sum, digits)) in vectors.enumerate() {
            let image = &images[(bit_reverse(v, bits) + power) % half];
            for ((sum, digit), image) in sum.iter_mut().zip(digits).zip(image) {
                *sum = modulus.add(*sum, modulus.mul(*digit, *image));
                *digit = *sum;
            }
        }
    }
}

pub(super) fn reverse_bits(out: &mut [Lanes], [stride, half_stride]: [usize; 2], at: usize, source: &[u64]) {
    let half = source.len() / 2;
    let (bits, blocks) = (half.ilog2(), half / 8);
    for (h, source) in source.chunks_exact(half).enumerate() {
        for block in 0..blocks {
            let place = |lane: usize| source[bit_reverse(8 * block + lane, bits)];
            out[h * half_stride + block * stride + at] = each(place);
        }
    }
}

pub(super) fn diagonals(out: &mut [Lanes], rows: [&[Lanes]; 2]) {
    let strips = out.len() / 8;
    for (strip, (first, second)) in rows[0].chunks_exact(8).zip(rows[1].chunks_exact(8)).enumerate() {
        let row = |at: usize| if at < 8 { &first[at] } else { &second[at - 8] };
        for step in 0..8 {
            out[step * strips + strip] = each(|lane| row(step + lane)[lane]);
        }
    }
}
