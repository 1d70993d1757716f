//! Words on their way from one order to another, in plain Rust.

use super::rows::Lanes;
use crate::ring::tables::bit_reverse;

pub(super) fn gather_columns(out: &mut [Lanes], stride: usize, at: usize, rows: [&[u64]; 8]) {
    for (column, out) in out.iter_mut().skip(at).step_by(stride).take(rows[0].len()).enumerate() {
        *out = rows.map(|row| row[column]);
    }
}

pub(super) fn reverse_bits(out: &mut [Lanes], [stride, half_stride]: [usize; 2], at: usize, source: &[u64]) {
    let half = source.len() / 2;
    let (bits, blocks) = (half.ilog2(), half / 8);
    for (h, source) in source.chunks_exact(half).enumerate() {
        for block in 0..blocks {
            let place = |lane: usize| source[bit_reverse(8 * block + lane, bits)];
            out[h * half_stride + block * stride + at] = core::array::from_fn(place);
        }
    }
}

pub(super) fn diagonals(out: &mut [Lanes], columns: &[Lanes], stride: usize, exchanged: bool, power: usize) {
    let blocks = out.len() / 8;
    let orbit = 4 * blocks;
    for block in 0..blocks {
        let (half, first) = ((8 * block / orbit) ^ usize::from(exchanged), 8 * block % orbit + power);
        let columns = &columns[block * stride + half * orbit..][..orbit];
        for step in 0..8 {
            let place = |lane: usize| columns[(first + step + lane) % orbit][lane];
            out[step * blocks + block] = core::array::from_fn(place);
        }
    }
}
