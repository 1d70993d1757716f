//! Plain Rust: Harvey's lazy butterflies with Shoup factors, 128-bit sums.

pub(super) use super::dense::{orbit_crossings, orbit_products, pair_products, round_digits};
use super::each;
use super::moves::{self, next_sum, orbit_walk_by_steps, radix_columns_by_rows, radix_rows};
pub(super) use super::moves::{copy_runs, orbit_masks, weave_columns};
use super::rows::{CHUNK, Lanes, OrbitWalk, Pairs, Products, RowSums, Selectors, bundles};
use crate::ring::modulus::{Modulus, ShoupFactor};
use crate::ring::sampling::whiten;
use crate::ring::tables::{Digit, NttTables, SplitFactors, VectorSource};

orbit_walk_by_steps!(pub(super) fn orbit_walk);
radix_columns_by_rows!(pub(super) fn radix_columns);

pub(super) fn xor_keystreams(bytes: &mut [u8], size: usize, key: &[u8; 32], first: u64) {
    for (stream, bytes) in (first..).zip(bytes.chunks_exact_mut(size)) {
        whiten(bytes, key, stream);
    }
}

/// It has no instruction for that.
pub(super) fn forward_fetching(tables: &NttTables, values: &mut [u64], _: &[Lanes]) {
    forward(tables, values);
}

/// Cooley-Tukey, natural order in, bit-reversed order out, two levels per pass. Values stay below `4q` between passes.
pub(super) fn forward(tables: &NttTables, values: &mut [u64]) {
    let modulus = tables.modulus();
    let roots = tables.forward_roots();
    let degree = values.len();
    let mut blocks = 1;
    if degree.ilog2() % 2 == 1 {
        let (low, high) = values.split_at_mut(degree / 2);
        for (x, y) in low.iter_mut().zip(high) {
            (*x, *y) = forward_butterfly(modulus, *x, *y, roots[1]);
        }
        blocks = 2;
    }
    while blocks < degree / 4 {
        let quarter = degree / (4 * blocks);
        let factors = roots[blocks..2 * blocks].iter().zip(roots[2 * blocks..4 * blocks].as_chunks::<2>().0);
        for (block, (first, [second, third])) in values.chunks_exact_mut(4 * quarter).zip(factors) {
            for [a, b, c, d] in quarters(block, quarter) {
                [*a, *b, *c, *d] = forward_two_levels(modulus, [*a, *b, *c, *d], [*first, *second, *third]);
            }
        }
        blocks *= 4;
    }
    let twice = 2 * modulus.value();
    let factors = roots[blocks..2 * blocks].iter().zip(roots[2 * blocks..4 * blocks].as_chunks::<2>().0);
    for (block, (first, [second, third])) in values.as_chunks_mut::<4>().0.iter_mut().zip(factors) {
        *block = forward_two_levels(modulus, *block, [*first, *second, *third])
            .map(|x| modulus.reduce_once(x.min(x.wrapping_sub(twice))));
    }
}

/// The elements at the same place of the four quarters of a block.
#[inline(always)]
fn quarters(block: &mut [u64], quarter: usize) -> impl Iterator<Item = [&mut u64; 4]> {
    let (low, high) = block.split_at_mut(2 * quarter);
    let ((a, b), (c, d)) = (low.split_at_mut(quarter), high.split_at_mut(quarter));
    a.iter_mut().zip(b).zip(c.iter_mut().zip(d)).map(|((a, b), (c, d))| [a, b, c, d])
}

#[inline(always)]
fn forward_two_levels(
    modulus: &Modulus,
    [a, b, c, d]: [u64; 4],
    [first, second, third]: [ShoupFactor; 3],
) -> [u64; 4] {
    let (a, c) = forward_butterfly(modulus, a, c, first);
    let (b, d) = forward_butterfly(modulus, b, d, first);
    let (a, b) = forward_butterfly(modulus, a, b, second);
    let (c, d) = forward_butterfly(modulus, c, d, third);
    [a, b, c, d]
}

/// `(x, y) -> (x + w y, x - w y)`, in and out below `4q`.
#[inline(always)]
fn forward_butterfly(modulus: &Modulus, x: u64, y: u64, root: ShoupFactor) -> (u64, u64) {
    let twice = 2 * modulus.value();
    let x = x.min(x.wrapping_sub(twice));
    let product = modulus.mul_shoup_lazy(y, root);
    (x.wrapping_add(product), x.wrapping_add(twice).wrapping_sub(product))
}

/// Gentleman-Sande, bit-reversed order in, natural order out, two levels per pass. Values stay below `2q` between
/// passes.
pub(super) fn inverse(tables: &NttTables, values: &mut [u64]) {
    let modulus = tables.modulus();
    let roots = tables.inverse_roots();
    let degree = values.len();
    let mut blocks = degree / 4;
    let factors = roots[blocks..2 * blocks].iter().zip(roots[2 * blocks..].as_chunks::<2>().0);
    for (block, (first, [second, third])) in values.as_chunks_mut::<4>().0.iter_mut().zip(factors) {
        *block = inverse_two_levels(modulus, *block, [*first, *second, *third]);
    }
    while blocks > 4 {
        blocks /= 4;
        let quarter = degree / (4 * blocks);
        let factors = roots[blocks..2 * blocks].iter().zip(roots[2 * blocks..4 * blocks].as_chunks::<2>().0);
        for (block, (first, [second, third])) in values.chunks_exact_mut(4 * quarter).zip(factors) {
            for [a, b, c, d] in quarters(block, quarter) {
                [*a, *b, *c, *d] = inverse_two_levels(modulus, [*a, *b, *c, *d], [*first, *second, *third]);
            }
        }
    }
    let last = tables.inverse_last();
    if blocks == 4 {
        for [a, b, c, d] in quarters(values, degree / 4) {
            (*a, *b) = inverse_butterfly(modulus, *a, *b, roots[2]);
            (*c, *d) = inverse_butterfly(modulus, *c, *d, roots[3]);
            (*a, *c) = last_inverse_butterfly(modulus, *a, *c, last);
            (*b, *d) = last_inverse_butterfly(modulus, *b, *d, last);
        }
    } else {
        let (low, high) = values.split_at_mut(degree / 2);
        for (x, y) in low.iter_mut().zip(high) {
            (*x, *y) = last_inverse_butterfly(modulus, *x, *y, last);
        }
    }
}

#[inline(always)]
fn inverse_two_levels(
    modulus: &Modulus,
    [a, b, c, d]: [u64; 4],
    [first, second, third]: [ShoupFactor; 3],
) -> [u64; 4] {
    let (a, b) = inverse_butterfly(modulus, a, b, second);
    let (c, d) = inverse_butterfly(modulus, c, d, third);
    let (a, c) = inverse_butterfly(modulus, a, c, first);
    let (b, d) = inverse_butterfly(modulus, b, d, first);
    [a, b, c, d]
}

/// `(x, y) -> (x + y, (x - y) w)`, in and out below `2q`.
#[inline(always)]
fn inverse_butterfly(modulus: &Modulus, x: u64, y: u64, root: ShoupFactor) -> (u64, u64) {
    let twice = 2 * modulus.value();
    let sum = x.wrapping_add(y);
    let difference = x.wrapping_add(twice).wrapping_sub(y);
    (sum.min(sum.wrapping_sub(twice)), modulus.mul_shoup_lazy(difference, root))
}

/// The last level with the factor `N^-1`: in below `2q`, out below `q`.
#[inline(always)]
fn last_inverse_butterfly(
    modulus: &Modulus,
    x: u64,
    y: u64,
    [scale, scaled_root]: [ShoupFactor; 2],
) -> (u64, u64) {
    let (sum, difference) = (x.wrapping_add(y), x.wrapping_add(2 * modulus.value()).wrapping_sub(y));
    (modulus.mul_shoup(sum, scale), modulus.mul_shoup(difference, scaled_root))
}

/// The words of a sum are the halves of a 128-bit integer. Four terms at a time, so that a sum is loaded and stored once
/// for four products.
#[inline(always)]
pub(super) fn multiply_accumulate(_: &Modulus, [low, high]: [&mut [u64]; 2], terms: &[(&[u64], &[u64])]) {
    let product = |a: &u64, b: &u64| u128::from(*a) * u128::from(*b);
    let (fours, rest) = terms.as_chunks::<4>();
    for [(a, b), (c, d), (e, f), (g, h)] in fours {
        let pairs = a.iter().zip(*b).zip(c.iter().zip(*d)).zip(e.iter().zip(*f).zip(g.iter().zip(*h)));
        for ((low, high), (((a, b), (c, d)), ((e, f), (g, h)))) in low.iter_mut().zip(&mut *high).zip(pairs) {
            let products = product(a, b)
                .wrapping_add(product(c, d))
                .wrapping_add(product(e, f))
                .wrapping_add(product(g, h));
            add_to(low, high, products);
        }
    }
    for (a, b) in rest {
        for (((low, high), a), b) in low.iter_mut().zip(&mut *high).zip(*a).zip(*b) {
            add_to(low, high, product(a, b));
        }
    }
}

#[inline(always)]
fn add_to(low: &mut u64, high: &mut u64, x: u128) {
    let sum = join(*low, *high).wrapping_add(x);
    (*low, *high) = (sum as u64, (sum >> 64) as u64);
}

#[inline(always)]
fn join(low: u64, high: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

#[inline(always)]
pub(super) fn reduce(modulus: &Modulus, out: &mut [u64], [low, high]: [&mut [u64]; 2]) {
    for ((value, low), high) in out.iter_mut().zip(low).zip(high) {
        *value = modulus.reduce(join(*low, *high));
        (*low, *high) = (0, 0);
    }
}

/// The two halves as they are.
#[inline(always)]
pub(super) fn arrange(
    _: &Modulus,
    selectors: &mut Selectors,
    client: usize,
    row: usize,
    [first, second]: [&[u64]; 2],
) {
    let halves = first.as_chunks().0.iter().zip(second.as_chunks().0);
    for (place, (first, second)) in selectors.places(client, row).zip(halves) {
        *place = [*first, *second];
    }
}

/// Unpacks [`CHUNK`] rows at a time and multiplies them with every client's selectors.
#[inline(always)]
pub(super) fn row_products(
    modulus: &Modulus,
    packed: &[u8],
    columns: usize,
    selectors: &Selectors,
    products: &mut [&mut Products],
    scratch: &mut RowSums,
) {
    let (width, rows) = (modulus.bits() as usize, selectors.rows);
    let blocks = selectors.blocks().zip(packed.chunks_exact(rows * columns * width));
    for ((block, clients), packed) in blocks {
        for (columns, packed) in bundles(packed, rows, columns, width) {
            let bundle = columns.len();
            scratch.clear(bundle, selectors.clients);
            for (chunk, packed) in packed.chunks(CHUNK * bundle * width).enumerate() {
                for (values, bytes) in scratch.values.iter_mut().zip(packed.chunks_exact(width)) {
                    *values = unpack_lanes(bytes);
                }
                let values = &scratch.values[..packed.len() / width];
                for (selectors, sums) in clients.clone().zip(scratch.sums.chunks_exact_mut(bundle)) {
                    for (row, selector) in values.chunks_exact(bundle).zip(&selectors[chunk * CHUNK..]) {
                        row.iter()
                            .zip(&mut *sums)
                            .for_each(|(values, sums)| accumulate(sums, values, selector));
                    }
                }
            }
            for (products, sums) in products.iter_mut().zip(scratch.sums.chunks_exact_mut(bundle)) {
                let places = products.places(&columns, block);
                for (place, [low, high]) in places.iter_mut().zip(sums.as_flattened_mut()) {
                    reduce(modulus, place, [low, high]);
                }
            }
        }
    }
}

/// One plaintext times both halves of a selector.
#[inline(always)]
fn accumulate(sums: &mut [[Lanes; 2]; 2], values: &Lanes, selector: &[Lanes; 2]) {
    for (half, [low, high]) in selector.iter().zip(sums) {
        for (((low, high), a), b) in low.iter_mut().zip(high).zip(values).zip(half) {
            add_to(low, high, u128::from(*a) * u128::from(*b));
        }
    }
}

/// Widths that are known when this is compiled are several times as fast: those of plaintexts and of the database.
#[inline(always)]
pub(super) fn unpack(width: usize, packed: &[u8], out: &mut [u64]) {
    match width {
        9 => unpack_all(packed.as_chunks::<9>().0, out),
        36 => unpack_all(packed.as_chunks::<36>().0, out),
        _ => unpack_all(packed.chunks_exact(width), out),
    }
}

#[inline(always)]
fn unpack_all<'a, Bytes: AsRef<[u8]> + ?Sized + 'a>(
    packed: impl IntoIterator<Item = &'a Bytes>,
    out: &mut [u64],
) {
    for (values, bytes) in out.as_chunks_mut().0.iter_mut().zip(packed) {
        *values = unpack_lanes(bytes.as_ref());
    }
}

/// Eight fields of as many bits as there are bytes, at most 56.
#[inline(always)]
fn unpack_lanes(bytes: &[u8]) -> Lanes {
    let width = bytes.len();
    let mask = (1u64 << width) - 1;
    each(|lane| {
        let (start, mut word) = (lane * width, [0; 8]);
        let source = &bytes[start / 8..bytes.len().min(start / 8 + 8)];
        word[..source.len()].copy_from_slice(source);
        u64::from_le_bytes(word) >> (start % 8) & mask
    })
}

#[inline(always)]
pub(super) fn pack(width: usize, slot: usize, sources: &[&[u64]], out: &mut [u8]) {
    match width {
        36 => pack_all(slot, sources, out.as_chunks_mut::<36>().0),
        _ => pack_all(slot, sources, out.chunks_exact_mut(width)),
    }
}

#[inline(always)]
fn pack_all<'a, Bytes: AsMut<[u8]> + ?Sized + 'a>(
    slot: usize,
    sources: &[&[u64]],
    out: impl IntoIterator<Item = &'a mut Bytes>,
) {
    for (source, bytes) in sources.iter().zip(out) {
        if let Some(values) = source[slot..].first_chunk() {
            pack_lanes(values, bytes.as_mut());
        }
    }
}

/// The inverse of [`unpack_lanes`].
#[inline(always)]
fn pack_lanes(values: &Lanes, bytes: &mut [u8]) {
    let (width, mut words) = (bytes.len(), [0; 8]);
    for (lane, value) in values.iter().enumerate() {
        let (word, shift) = (lane * width / 64, lane * width % 64);
        words[word] |= value << shift;
        if shift + width > 64 {
            words[word + 1] |= value >> (64 - shift);
        }
    }
    bytes.copy_from_slice(&words.map(u64::to_le_bytes).as_flattened()[..width]);
}

#[inline(always)]
pub(super) fn multiply(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = modulus.mul(*x, *y);
    }
}

#[inline(always)]
pub(super) fn scale(modulus: &Modulus, a: &mut [u64], factor: ShoupFactor) {
    for x in a {
        *x = modulus.mul_shoup(*x, factor);
    }
}

#[inline(always)]
pub(super) fn halves(modulus: &Modulus, a: &mut [u64], odd: &mut [u64], b: &[u64], factors: &[ShoupFactor]) {
    let run = if factors.len() < a.len() { 8 } else { 1 };
    let slots = odd.chunks_mut(run).zip(a.chunks(run)).zip(b.chunks(run));
    for (((odd, a), b), factor) in slots.zip(factors) {
        for ((odd, a), b) in odd.iter_mut().zip(a).zip(b) {
            *odd = modulus.mul_shoup(a.wrapping_add(modulus.value()).wrapping_sub(*b), *factor);
        }
    }
    add(modulus, a, b);
}

#[inline(always)]
pub(super) fn permute(out: &mut [u64], source: &[u64], slots: &[u32], _: &[VectorSource]) {
    for (value, slot) in out.iter_mut().zip(slots) {
        *value = source[*slot as usize];
    }
}

#[inline(always)]
pub(super) fn add(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = modulus.add(*x, *y);
    }
}

#[inline(always)]
pub(super) fn subtract(modulus: &Modulus, a: &mut [u64], b: &[u64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = modulus.sub(*x, *y);
    }
}

#[inline(always)]
pub(super) fn key_products(modulus: &Modulus, out: [&mut [u64]; 2], digits: &[u64], keys: &[u64]) {
    for (half, out) in out.into_iter().enumerate() {
        let degree = out.len();
        let keys = keys.chunks_exact(degree).skip(half).step_by(2);
        let terms = digits.chunks_exact(degree).zip(keys);
        for (i, value) in out.iter_mut().enumerate() {
            let products = terms.clone().map(|(digit, key)| u128::from(digit[i]) * u128::from(key[i]));
            *value = modulus.reduce(products.sum());
        }
    }
}

#[inline(always)]
pub(super) fn centre(modulus: &Modulus, offset: u64, a: &mut [u64]) {
    for x in a {
        *x = offset.wrapping_add(modulus.centre(*x) as u64);
    }
}

#[inline(always)]
pub(super) fn digit(digit: Digit, out: &mut [u64], a: &[u64]) {
    for (value, x) in out.iter_mut().zip(a) {
        *value = (x >> digit.shift & digit.mask) + digit.bias;
    }
}

#[inline(always)]
pub(super) fn rescale(multiplier: u64, target: u64, a: &mut [u64]) {
    for x in a {
        let scaled = u128::from(*x) * u128::from(multiplier) + (1 << 63);
        let quotient = (scaled >> 64) as u64;
        *x = quotient.min(quotient.wrapping_sub(target));
    }
}

#[inline(always)]
pub(super) fn rescale_sum(modulus: &Modulus, multiplier: u64, target: u64, a: &mut [u64], b: &[u64]) {
    add(modulus, a, b);
    rescale(multiplier, target, a);
}

#[inline(always)]
pub(super) fn rescale_difference(
    modulus: &Modulus,
    multiplier: u64,
    target: u64,
    out: &mut [u64],
    a: &[u64],
    b: &[u64],
) {
    for ((out, x), y) in out.iter_mut().zip(a).zip(b) {
        *out = modulus.sub(*x, *y);
    }
    rescale(multiplier, target, out);
}

#[inline(always)]
pub(super) fn substitute(modulus: &Modulus, out: &mut [u64], source: &[u64], sources: &[u32]) {
    for (value, from) in out.iter_mut().zip(sources) {
        let x = source[(from >> 1) as usize];
        *value = if from & 1 == 0 { x } else { modulus.neg(x) };
    }
}

#[inline(always)]
pub(super) fn chunk(modulus: &Modulus, shift: u32, bits: u32, out: &mut [u64], a: &[u64]) {
    for (value, x) in out.iter_mut().zip(a) {
        let centred = (x >> shift << (64 - bits)) as i64 >> (64 - bits);
        *value = modulus.value().wrapping_add(centred as u64);
    }
}
