//! The inner loops; each operation below dispatches to the back end in use once per polynomial.
//!
//! All back ends give identical results, bit for bit.

/// The body of a vector kernel's `key_products`: the number of digits is a constant of its `key_products_of` where there
/// are 3 to 8, and the portable code has the rest. It stands before the modules since they see no macro that follows them.
#[cfg(target_arch = "x86_64")]
macro_rules! key_products_by_digits {
    ($lanes:literal, $modulus:ident, $out:ident, $digits:ident, $keys:ident) => {{
        let degree = $out[0].len();
        let whole = degree > 0 && degree.is_multiple_of($lanes);
        match if whole { $digits.len() / degree } else { 0 } {
            3 => key_products_of::<3>($modulus, $out, $digits, $keys),
            4 => key_products_of::<4>($modulus, $out, $digits, $keys),
            5 => key_products_of::<5>($modulus, $out, $digits, $keys),
            6 => key_products_of::<6>($modulus, $out, $digits, $keys),
            7 => key_products_of::<7>($modulus, $out, $digits, $keys),
            8 => key_products_of::<8>($modulus, $out, $digits, $keys),
            _ => portable::key_products($modulus, $out, $digits, $keys),
        }
    }};
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector loads and stores")]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector loads and stores")]
mod avx512;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector loads and stores")]
mod avx512f;
mod backend;
mod dense;
mod moves;
mod portable;
mod rows;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector loads and stores")]
mod vector512;

use backend::Available;
pub use backend::{Backend, KERNEL_VARIABLE};
pub use rows::Products;
pub(crate) use rows::{COLUMNS, Lanes, OrbitKeys, OrbitWalk, Pairs, RowSums, Selectors};

use super::modulus::{Modulus, ShoupFactor};
use super::tables::{Digit, NttTables, SplitFactors, VectorSource};

/// Begins to fetch the cache line at a place, where there is an instruction for it, while other things are computed. Nothing is read
/// that a program could see, so that any address will do, one behind the end of everything too.
#[inline(always)]
pub fn fetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    vector512::fetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// As [`core::array::from_fn`], and always a part of what calls it. That one is now and then a function of its own: what it makes
/// is then computed without the features of whoever calls it and without what is known there, several times as slowly.
#[inline(always)]
fn each<T: Copy, const N: usize>(mut make: impl FnMut(usize) -> T) -> [T; N] {
    let mut all = [make(0); N];
    let mut place = 0;
    // Counted by hand: with overflow checks `enumerate` keeps this a loop.
    if let [_, rest @ ..] = &mut all[..] {
        for one in rest {
            place += 1;
            *one = make(place);
        }
    }
    all
}

/// Declares each operation twice: for the active back end, and as a method of a given one that this machine can run.
macro_rules! operations {
    ($($(#[$documentation:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        $(
            $(#[$documentation])*
            #[inline]
            pub(crate) fn $name($($argument: $type),*) {
                Available::active().$name($($argument),*);
            }
        )*

        impl Available {
            $(
                #[allow(unsafe_code, reason = "the one dispatch to functions that need processor features")]
                fn $name(self, $($argument: $type),*) {
                    match self.backend() {
                        // SAFETY: an `Available` is made only where this machine has the features that the functions of
                        // its back end are compiled for (`Available::all`).
                        #[cfg(target_arch = "x86_64")]
                        Backend::Avx512 => unsafe { avx512::$name($($argument),*) },
                        // SAFETY: as above.
                        #[cfg(target_arch = "x86_64")]
                        Backend::Avx512F => unsafe { avx512f::$name($($argument),*) },
                        // SAFETY: as above.
                        #[cfg(target_arch = "x86_64")]
                        Backend::Avx2 => unsafe { avx2::$name($($argument),*) },
                        #[cfg(not(target_arch = "x86_64"))]
                        Backend::Avx512 | Backend::Avx512F | Backend::Avx2 => portable::$name($($argument),*),
                        Backend::Portable => portable::$name($($argument),*),
                    }
                }
            )*
        }
    };
}

operations! {
    /// See `Ntt::forward`.
    fn forward(tables: &NttTables, values: &mut [u64]);

    /// The same, while what is read next is fetched into the second-level cache: as many words at most.
    fn forward_fetching(tables: &NttTables, values: &mut [u64], ahead: &[Lanes]);

    /// See `Ntt::inverse`.
    fn inverse(tables: &NttTables, values: &mut [u64]);

    /// `sums[i] += sum over the terms (a, b) of a[i] * b[i]`, unreduced; at most 2^12 products of residues between two
    /// reductions. A sum is two words whose meaning is the back end's own; two zeros are 0.
    fn multiply_accumulate(modulus: &Modulus, sums: [&mut [u64]; 2], terms: &[(&[u64], &[u64])]);

    /// `out[i] = sums[i] mod q`, and `sums[i] = 0`.
    fn reduce(modulus: &Modulus, out: &mut [u64], sums: [&mut [u64]; 2]);

    /// `a[i] = a[i] * b[i] mod q`.
    fn multiply(modulus: &Modulus, a: &mut [u64], b: &[u64]);

    /// `a[i] = a[i] * factor mod q`.
    fn scale(modulus: &Modulus, a: &mut [u64], factor: ShoupFactor);

    /// `odd[i] = (a[i] - b[i]) * factors[i] mod q`, then `a[i] = a[i] + b[i] mod q`; with an eighth as many factors,
    /// `factors[i / 8]`.
    fn halves(modulus: &Modulus, a: &mut [u64], odd: &mut [u64], b: &[u64], factors: &[ShoupFactor]);

    /// `a[i] = a[i] + b[i] mod q`.
    fn add(modulus: &Modulus, a: &mut [u64], b: &[u64]);

    /// `a[i] = a[i] - b[i] mod q`.
    fn subtract(modulus: &Modulus, a: &mut [u64], b: &[u64]);

    /// `out[h][i] = sum over the digits d of digits[d N + i] * keys[(2 d + h) N + i] mod q`, N slots each, at most 12
    /// digits.
    fn key_products(modulus: &Modulus, out: [&mut [u64]; 2], digits: &[u64], keys: &[u64]);

    /// `a[i] = centre(a[i]) + offset`, where `centre` takes residues to `(-q/2, q/2)` and `offset > q/2`.
    fn centre(modulus: &Modulus, offset: u64, a: &mut [u64]);

    /// `out[i] = source[s]` where `sources[i]` is `2 s`, `-source[s] mod q` where it is `2 s + 1`.
    fn substitute(modulus: &Modulus, out: &mut [u64], source: &[u64], sources: &[u32]);

    /// `out[i] = (floor(a[i] / 2^shift) & mask) + bias`.
    fn digit(digit: Digit, out: &mut [u64], a: &[u64]);

    /// `a[i] = floor((a[i] * multiplier + 2^63) / 2^64)`, and 0 instead of `target`, for `a[i] < 2^52`; no result may be
    /// above `target <= 2^50`.
    fn rescale(multiplier: u64, target: u64, a: &mut [u64]);

    /// The same for `a[i] = a[i] + b[i] mod q`.
    fn rescale_sum(modulus: &Modulus, multiplier: u64, target: u64, a: &mut [u64], b: &[u64]);

    /// The same for `out[i] = a[i] - b[i] mod q`.
    fn rescale_difference(
        modulus: &Modulus,
        multiplier: u64,
        target: u64,
        out: &mut [u64],
        a: &[u64],
        b: &[u64],
    );

    /// `out[i] = q + c`, where `c` in `[-2^(bits-1), 2^(bits-1))` is `floor(a[i] / 2^shift)` modulo `2^bits < q`.
    fn chunk(modulus: &Modulus, shift: u32, bits: u32, out: &mut [u64], a: &[u64]);

    /// `out[i] = source[slots[i]]`; `vectors` says the same eight slots at a time, or is empty.
    fn permute(out: &mut [u64], source: &[u64], slots: &[u32], vectors: &[VectorSource]);

    /// `out[client][16 b + l] = sum over p of (D0 + 2^13 D1) q mod 2^39`, where `D0, D1 = pairs[b * positions + p][2 l..]` are in
    /// `[-2^8, 2^8)` and `q = q0 + 2^13 q1 + 2^26 q2` comes as the words `q0`, `q1 + 2^16 q0` and `q2 + 2^16 q1` of
    /// `queries[client][p]`: their halves are what each of the pair is multiplied with.
    fn pair_products(pairs: &[Pairs], positions: usize, queries: &[&[[u32; 4]]], out: &mut [&mut [u64]]);

    /// `out[client][h M + 8 t + l] += sum over k from 0 to M - 1 of (D0(k, h, i) + key(1 - h, i + k)) (D1(k, h, i) + key(h, i + k))
    /// mod q, for the place `i = t + M/8 l`, below 2^51, M being half as many as there are results for each client, and at most 1024.
    /// Row r of a half of a key, for r below M/8, are the places `r + M/8 l`. `digits` has for each t, for each row r and for s
    /// below 8 the vectors `D0(k, 0), D0(k, 1), D1(k, 0), D1(k, 1)` where k modulo M/8 is that of r - t and s is k over M/8, in the
    /// lanes of the key's places that they meet.
    fn orbit_products(modulus: &Modulus, digits: &[Lanes], keys: &OrbitKeys, out: &mut [&mut [u64]]);

    /// `out[h M + 8 b + l] -= sum over s of a b mod q`, where a and b are in lane l of the vectors
    /// `digits[b * stride + 4 s + h]` and the second one behind it, M is half as many as there are results, and s counts the steps,
    /// at most 2^12.
    fn orbit_crossings(modulus: &Modulus, digits: &[Lanes], stride: usize, steps: usize, out: &mut [u64]);

    /// `a[i] = q + floor(centre(a[i]) / 2^shift + 1/2)`, where `centre` takes residues to `(-q/2, q/2)`.
    fn round_digits(modulus: &Modulus, shift: u32, a: &mut [u64]);

    /// Writes the columns of some parts, which have as many slots each, part by part: for slot f the vectors from `out[f * stride + at]`
    /// on, two for each part. Of the parts `unit` lanes take turns. What is written is not kept in caches.
    fn weave_columns(
        out: &mut [Lanes],
        stride: usize,
        at: usize,
        columns: &[[Lanes; 2]],
        parts: usize,
        unit: usize,
    );

    /// `out[place ..]` begins with the first `length` of `source[b * stride ..]`, each moved up by `lanes`, where `[place, lanes]` is
    /// `places[b]`. What is written is not kept in caches.
    fn copy_runs(out: &mut [Lanes], places: &[[usize; 2]], source: &[Lanes], stride: usize, length: usize);

    /// Lane l of `out[slot]` becomes, or with `adds` grows by, `factors[slot]` times what a polynomial has at that slot, modulo q: that of
    /// which coefficient p is `D0 + 2^13 D1`, with `D0, D1 = pairs[p][2 l..]`, and all others are 0; q is above
    /// their magnitudes, and below 2^50, and words that grow are below q. `scratch` has as many
    /// words as `out`.
    fn radix_columns(
        tables: &NttTables,
        pairs: &[Pairs],
        factors: &SplitFactors,
        adds: bool,
        scratch: &mut [Lanes],
        out: &mut [[Lanes; 2]],
    );

    /// For every step k of the walk, the last one first: the digit of `sum`, both in slots, is what `round_digits` makes of its
    /// coefficients. Its vector v of half h goes to `kept[br(v) * stride + 4 (k - first) + h]`, two further in the second chain, lanes
    /// by place. Then `sum = digit * image + mask mod q`.
    fn orbit_walk(tables: &NttTables, walk: &OrbitWalk<'_>, sum: &mut [u64], kept: &mut [Lanes]);

    /// Sorts eight rows, of slots `8 group ..` of a half, by the number of steps between two places: a value in slot e of a row for
    /// slot f goes to lane and vector e of the polynomial `place(f) - place(e)` of a chain, the second one if they are in different
    /// halves. What is written is not kept in caches.
    fn orbit_masks(out: &mut [Lanes], rows: [&[u64]; 8], half: usize, group: usize);

    /// Packs eight values, from `slot` on, of each source into `width <= 56` bytes, as many as a value has bits.
    fn pack(width: usize, slot: usize, sources: &[&[u64]], out: &mut [u8]);

    /// The inverse for one source: every `width` bytes give eight values.
    fn unpack(width: usize, packed: &[u8], out: &mut [u64]);

    /// XORs the ChaCha8 keystream of `key` and the stream `first + i` into the bytes from `i size` on, `size` of them, for all of which
    /// there are as many.
    fn xor_keystreams(bytes: &mut [u8], size: usize, key: &[u8; 32], first: u64);

    /// Puts both halves of a selector, residues at the blocks that `selectors` has room for, in their places.
    fn arrange(modulus: &Modulus, selectors: &mut Selectors, client: usize, row: usize, halves: [&[u64]; 2]);

    /// The inner products of the first dimension, at a run of blocks of eight neighbouring slots: those of `selectors`.
    ///
    /// `packed` holds, block by block, bundle by bundle of [`COLUMNS`] columns (the last may be smaller) and row by row, a
    /// plaintext for each of the bundle's columns: eight residues of `bits(q)` bits packed into as many bytes. Every
    /// client gets into its `products`, for each column and both halves of its selectors, the sum over the rows r, at
    /// most 2^12, of `selectors[r] * plaintext(r, column) mod q`.
    fn row_products(
        modulus: &Modulus,
        packed: &[u8],
        columns: usize,
        selectors: &Selectors,
        products: &mut [&mut Products],
        scratch: &mut RowSums,
    );
}
