//! The one place where a back end is chosen, once per process; each operation below dispatches once per polynomial.
//!
//! All back ends give identical results, bit for bit. `SOTTO_KERNEL` forces one by its name; a name that this build or
//! this machine does not offer is ignored ([`Backend::active`] says what runs, so that a caller can report it).

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
mod portable;
#[cfg(test)]
mod tests;

use core::ops::Range;
use std::sync::OnceLock;

use super::aligned::Aligned;
use super::automorphism::VectorSource;
use super::modulus::{Modulus, ShoupFactor};
use super::ntt::Ntt;

/// Environment variable that forces a back end by its [`Backend::name`].
pub const KERNEL_VARIABLE: &str = "SOTTO_KERNEL";

/// Neighbouring slots that are stored together.
pub(crate) type Lanes = [u64; 8];

/// Rows that [`row_products`] unpacks at a time.
const CHUNK: usize = 64;

/// Words that a row takes when it is unpacked: one for each column of a bundle, or three digits for two of them.
const ROW_WORDS: usize = 6;

/// One digit of a gadget decomposition: see [`digit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digit {
    /// Its lowest bit.
    pub(crate) shift: u32,
    /// What is kept of it.
    pub(crate) mask: u64,
    /// Added to it.
    pub(crate) bias: u64,
}

/// Columns that stand together, in a *bundle*: as many sums as fit in registers.
pub(crate) const COLUMNS: usize = 4;

/// Bundle by bundle of a block of the database: its columns and its bytes.
fn bundles(
    packed: &[u8],
    rows: usize,
    columns: usize,
    width: usize,
) -> impl Iterator<Item = (Range<usize>, &[u8])> {
    let bundles = packed.chunks(rows * COLUMNS * width).zip((0..columns).step_by(COLUMNS));
    bundles.map(move |(bundle, first)| (first..columns.min(first + COLUMNS), bundle))
}

/// The selectors of some clients at a run of blocks, in the order and the form in which [`row_products`] reads them:
/// block by block, client by client and row by row, two words for eight slots of both halves.
pub(crate) struct Selectors {
    clients: usize,
    rows: usize,
    first: usize,
    words: Aligned<[Lanes; 2]>,
}

impl Selectors {
    /// For so many clients, `rows` selectors each.
    pub(crate) fn new(clients: usize, rows: usize) -> Self {
        Self { clients, rows, first: 0, words: Aligned::default() }
    }

    /// Makes room for these blocks.
    pub(crate) fn resize(&mut self, blocks: Range<usize>) {
        self.first = blocks.start;
        self.words.resize(blocks.len() * self.clients * self.rows, [[0; 8]; 2]);
    }

    /// Bytes of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.clients * self.rows * size_of::<[Lanes; 2]>()
    }

    /// The places of one selector, block by block.
    fn places(&mut self, client: usize, row: usize) -> impl Iterator<Item = &mut [Lanes; 2]> {
        self.words.iter_mut().skip(client * self.rows + row).step_by(self.clients * self.rows)
    }

    /// Block by block, its number and the selectors of each client.
    fn blocks(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = &[[Lanes; 2]]> + Clone)> {
        let blocks = self.words.chunks_exact(self.clients * self.rows);
        (self.first..).zip(blocks.map(|block| block.chunks_exact(self.rows)))
    }
}

/// What [`row_products`] gives one client: block by block and column by column, both halves of a sum. In this order it is
/// written from end to end; polynomial by polynomial, every store would go to another page.
#[derive(Clone, Default)]
pub struct Products {
    columns: usize,
    values: Aligned<[Lanes; 2]>,
}

impl Products {
    /// Makes room for so many columns of polynomials of the given degree.
    pub fn resize(&mut self, columns: usize, degree: usize) {
        self.columns = columns;
        self.values.resize(columns * degree / 8, [[0; 8]; 2]);
    }

    /// c0 and c1 of neighbouring columns, polynomial by polynomial.
    pub fn read(&self, columns: Range<usize>, out: &mut [u64]) {
        let blocks = self.values.len() / self.columns;
        for (block, values) in self.values.chunks_exact(self.columns).enumerate() {
            let out = out.as_chunks_mut().0.iter_mut().skip(block).step_by(blocks);
            out.zip(values[columns.clone()].as_flattened()).for_each(|(place, slots)| *place = *slots);
        }
    }

    /// c0 and c1 of one column.
    #[cfg(test)]
    pub(crate) fn column(&self, column: usize) -> [Vec<u64>; 2] {
        let degree = 8 * self.values.len() / self.columns;
        let mut halves = vec![0; 2 * degree];
        self.read(column..column + 1, &mut halves);
        let c1 = halves.split_off(degree);
        [halves, c1]
    }

    /// Takes c0 and c1 of one column.
    pub fn write(&mut self, column: usize, [c0, c1]: [&[u64]; 2]) {
        let places = self.values.iter_mut().skip(column).step_by(self.columns);
        for ((place, c0), c1) in places.zip(c0.as_chunks().0).zip(c1.as_chunks().0) {
            *place = [*c0, *c1];
        }
    }

    /// The places of neighbouring columns at a block.
    fn places(&mut self, columns: &Range<usize>, block: usize) -> &mut [Lanes] {
        let first = block * self.columns;
        self.values[first + columns.start..first + columns.end].as_flattened_mut()
    }
}

/// Buffers of one thread for [`row_products`].
#[derive(Default)]
pub(crate) struct RowSums {
    /// [`CHUNK`] rows of [`ROW_WORDS`].
    values: Aligned<Lanes>,
    /// For every client and column, two words for each half.
    sums: Aligned<[[Lanes; 2]; 2]>,
}

impl RowSums {
    fn clear(&mut self, columns: usize, clients: usize) {
        self.values.resize(CHUNK * ROW_WORDS, [0; 8]);
        self.sums.resize(columns * clients, [[[0; 8]; 2]; 2]);
        self.sums.fill([[[0; 8]; 2]; 2]);
    }
}

/// An implementation of the inner loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// AVX-512 with IFMA and VBMI.
    Avx512,
    /// AVX-512 with DQ and BW only: wide products by doubles.
    Avx512F,
    /// AVX2 with FMA.
    Avx2,
    /// Plain Rust.
    Portable,
}

impl Backend {
    const ALL: [Self; 4] = [Self::Avx512, Self::Avx512F, Self::Avx2, Self::Portable];

    /// The back ends this machine can run, best first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|backend| backend.is_available())
    }

    /// The back end in use in this process.
    #[must_use]
    pub fn active() -> Self {
        static ACTIVE: OnceLock<Backend> = OnceLock::new();
        *ACTIVE.get_or_init(|| {
            let wanted = std::env::var(KERNEL_VARIABLE).unwrap_or_default();
            let named = Self::available().find(|backend| backend.name() == wanted);
            named.or_else(|| Self::available().next()).unwrap_or(Self::Portable)
        })
    }

    /// Its name in the environment variable, reports and benches.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx512F => "avx512f",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }

    fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512F => avx512f::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx512F | Self::Avx2 => false,
            Self::Portable => true,
        }
    }
}

/// Declares each operation twice: for the active back end, and as a method for a given one.
macro_rules! operations {
    ($($(#[$documentation:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        $(
            $(#[$documentation])*
            #[inline]
            pub(crate) fn $name($($argument: $type),*) {
                Backend::active().$name($($argument),*);
            }
        )*

        impl Backend {
            $(
                #[allow(unsafe_code, reason = "the one dispatch to functions that need processor features")]
                fn $name(self, $($argument: $type),*) {
                    debug_assert!(self.is_available(), "a back end out of `Backend::available`");
                    match self {
                        // SAFETY: the method is private to this module and its tests, which only call it on back ends out
                        // of `Backend::available`: that has checked the features these functions are compiled for.
                        #[cfg(target_arch = "x86_64")]
                        Self::Avx512 => unsafe { avx512::$name($($argument),*) },
                        // SAFETY: as above.
                        #[cfg(target_arch = "x86_64")]
                        Self::Avx512F => unsafe { avx512f::$name($($argument),*) },
                        // SAFETY: as above.
                        #[cfg(target_arch = "x86_64")]
                        Self::Avx2 => unsafe { avx2::$name($($argument),*) },
                        #[cfg(not(target_arch = "x86_64"))]
                        Self::Avx512 | Self::Avx512F | Self::Avx2 => portable::$name($($argument),*),
                        Self::Portable => portable::$name($($argument),*),
                    }
                }
            )*
        }
    };
}

operations! {
    /// See [`Ntt::forward`].
    fn forward(ntt: &Ntt, values: &mut [u64]);

    /// See [`Ntt::inverse`].
    fn inverse(ntt: &Ntt, values: &mut [u64]);

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

    /// Packs eight values, from `slot` on, of each source into `width <= 56` bytes, as many as a value has bits.
    fn pack(width: usize, slot: usize, sources: &[&[u64]], out: &mut [u8]);

    /// The inverse for one source: every `width` bytes give eight values.
    fn unpack(width: usize, packed: &[u8], out: &mut [u64]);

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
