//! The secrets, and the keys that the server needs.
//!
//! A client has a ternary secret `s_j` for each row of the largest matrix; scalar ciphertexts are under `s = s_1`. Its keys are
//! columns (see [`super::switch`]), of which the phase of digit i, of the weight w, is
//!
//! | key | ring | `b` | phase |
//! |---|---|---|---|
//! | tree of the rows, level j | Q | one | `w s(X^(N/2^j + 1))` |
//! | tree of the folding bits, level j | Q | one | `w s(X^(N/2^j + 1))` |
//! | V: to the columns that take digits of a | Q | n | `w s s_j` in row j |
//! | W: to column c of a matrix, for every c | Q | n | `w s` in row c, 0 elsewhere |
//! | packing: the same | q | m | `w s` in row c, 0 elsewhere |
//!
//! for the largest n and m; smaller matrices take the first rows and columns. What a preset does not use is not there.

use core::fmt;

use pir_core::Error;
use pir_core::bfv::Gadget;
use pir_core::constant_time::public;
use pir_core::ring::sampling;
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::encoding::{HEADER_BYTES, SEED_BYTES, keys_header, read_slots, write_slots};
use super::lattice::{DEGREE, LEVELS, Ring, Words, zeros};
use super::preset::{BIT_LEVELS, Preset};
use super::shape::polynomial_bytes;
use super::switch::Switch;

/// A client's secret, for all databases.
pub struct ClientKey {
    preset: usize,
    seed: Zeroizing<[u8; 32]>,
    /// Each modulo Q.
    key: Vec<Words>,
    /// Each modulo q.
    data: Vec<Words>,
    /// Each modulo the prime of [`super::lattice::Lattice::exact`].
    exact: Vec<Words>,
}

/// A client's keys for expanding, converting and packing.
pub struct PublicKeys {
    /// The preset's number.
    pub(super) preset: usize,
    /// Level by level.
    pub(super) rows: Vec<Switch>,
    pub(super) bits: Vec<Switch>,
    /// For every n of the preset.
    pub(super) conversions: Vec<Conversion>,
    /// For every m of the preset, column by column; empty if that is 1.
    pub(super) packings: Vec<Vec<Switch>>,
}

/// From scalar ciphertexts to matrices of some n.
pub(super) struct Conversion {
    /// V.
    pub(super) secret: Switch,
    /// W, column by column; none if n = 1.
    pub(super) columns: Vec<Switch>,
}

/// Which key a column belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Row(usize),
    Bit(usize),
    Secret,
    Column(usize),
    Packing(usize),
}

/// A column of the keys: its key, gadget and digit.
struct Column {
    key: Key,
    gadget: Gadget,
    digit: u32,
}

impl Column {
    /// All of a preset, in the order of their numbers.
    fn all(preset: &Preset) -> impl Iterator<Item = Self> {
        let [width, pack] = preset.largest();
        let trees = if preset.streams { 0 } else { LEVELS };
        let bits = trees.min(BIT_LEVELS);
        let converts = preset.converts(width);
        let columns = if converts && width > 1 { width } else { 0 };
        let packed = if pack > 1 { pack } else { 0 };
        let rows = (0..trees).map(|level| (Key::Row(level), preset.row_gadgets[level]));
        let bits = (0..bits).map(|level| (Key::Bit(level), preset.bit_gadget));
        let secret = converts.then_some((Key::Secret, preset.conversion));
        let columns = (0..columns).map(|column| (Key::Column(column), preset.conversion));
        let packing = (0..packed).map(|column| (Key::Packing(column), preset.packing));
        let keys = rows.chain(bits).chain(secret).chain(columns).chain(packing);
        keys.flat_map(|(key, gadget)| (0..gadget.digits).map(move |digit| Self { key, gadget, digit }))
    }

    fn ring<'a>(&self, preset: &'a Preset) -> &'a Ring {
        if matches!(self.key, Key::Packing(_)) { &preset.lattice.data } else { &preset.lattice.key }
    }

    /// The number of polynomials `b`.
    fn height(&self, preset: &Preset) -> usize {
        let [width, pack] = preset.largest();
        match self.key {
            Key::Row(_) | Key::Bit(_) => 1,
            Key::Secret | Key::Column(_) => width,
            Key::Packing(_) => pack,
        }
    }
}

/// SHA-256("sotto spiral v1" || 0 || domain || 0 || preset || seed); domains contain no zero byte.
pub(super) fn derive(preset: usize, domain: &str, seed: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let digest = Sha256::new()
        .chain_update(b"sotto spiral v1\0")
        .chain_update(domain.as_bytes())
        .chain_update([0, preset as u8])
        .chain_update(seed)
        .finalize();
    Zeroizing::new(digest.into())
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl Drop for ClientKey {
    fn drop(&mut self) {
        self.key.iter_mut().chain(&mut self.data).chain(&mut self.exact).for_each(Zeroize::zeroize);
    }
}

impl ClientKey {
    /// Derives the key from a client's seed, always the same one.
    pub(super) fn derive(number: usize, seed: &[u8; 32]) -> Self {
        let preset = Preset::of(number);
        let secret_seed = derive(number, "secret key", seed);
        let ternary: Vec<_> = (0..preset.secrets() as u64)
            .map(|stream| sampling::ternary(DEGREE, &secret_seed, stream))
            .collect();
        let over = |ring: &Ring| ternary.iter().map(|secret| ring.small(secret)).collect();
        let exact = |secret: &Zeroizing<Vec<i64>>| {
            let exact = &preset.lattice.exact;
            pir_core::ring::Polynomial::from_signed(exact.modulus(), secret).into_evaluation(exact)
        };
        Self {
            preset: number,
            seed: Zeroizing::new(*seed),
            key: over(&preset.lattice.key),
            data: over(&preset.lattice.data),
            exact: ternary.iter().map(exact).collect(),
        }
    }

    /// The preset's number.
    pub(super) fn preset(&self) -> usize {
        self.preset
    }

    /// The secrets modulo Q.
    pub(super) fn secrets(&self) -> &[Words] {
        &self.key
    }

    /// The secrets modulo q.
    #[cfg(test)]
    pub(super) fn data_secrets(&self) -> &[Words] {
        &self.data
    }

    /// The secrets where products of integers are exact.
    pub(super) fn exact_secrets(&self) -> &[Words] {
        &self.exact
    }

    /// Replaces every `b` of a column by `-a s_j + e_j` plus what it holds, in evaluation form; the errors come from consecutive
    /// streams of a seed that must be secret and used once.
    pub(super) fn mask(
        secrets: &[Words],
        ring: &Ring,
        seed: &[u8; 32],
        first_stream: u64,
        column: &mut [u64],
    ) {
        let (a, b) = column.split_at_mut(ring.words());
        for ((b, secret), stream) in b.chunks_exact_mut(ring.words()).zip(secrets).zip(first_stream..) {
            let mut errors = ring.small(&sampling::errors(DEGREE, seed, stream));
            ring.add(b, errors.residues());
            let mut product = secret.clone();
            ring.multiply(product.residues_mut(), a);
            ring.subtract(b, product.residues());
            product.zeroize();
            errors.zeroize();
        }
    }

    /// Encodes the seed of the uniform polynomials and every other one, always the same bytes.
    pub(super) fn public_keys(&self) -> Vec<u8> {
        let preset = Preset::of(self.preset);
        // The keys begin with it; a hash says nothing about what it was made of.
        let uniform_seed = public(*derive(self.preset, "keys uniform", &self.seed));
        let error_seed = derive(self.preset, "keys errors", &self.seed);
        let mut bytes = Vec::with_capacity(PublicKeys::encoded_bytes(self.preset));
        bytes.extend(keys_header(self.preset));
        bytes.extend(uniform_seed);
        let mut stream = 0;
        for (number, column) in Column::all(preset).enumerate() {
            let (ring, height) = (column.ring(preset), column.height(preset));
            let mut words = zeros((1 + height) * ring.words());
            ring.uniform(&uniform_seed, number as u64, &mut words.residues_mut()[..ring.words()]);
            self.put_target(preset, &column, words.residues_mut());
            Self::mask(self.over(&column), ring, &error_seed, stream, words.residues_mut());
            stream += height as u64;
            for b in words.residues()[ring.words()..].chunks_exact(ring.words()) {
                write_slots(ring, b, &mut bytes);
            }
        }
        bytes
    }

    /// The secrets over the ring of a column.
    fn over(&self, column: &Column) -> &[Words] {
        if matches!(column.key, Key::Packing(_)) { &self.data } else { &self.key }
    }

    /// Writes the phase of a column into its `b`.
    fn put_target(&self, preset: &Preset, column: &Column, words: &mut [u64]) {
        let (ring, secrets) = (column.ring(preset), self.over(column));
        let size = ring.words();
        let (_, b) = words.split_at_mut(size);
        let scalar = secrets[0].residues();
        match column.key {
            Key::Row(level) | Key::Bit(level) => ring.substitute(level, scalar, b),
            Key::Secret => {
                for (b, secret) in b.chunks_exact_mut(size).zip(secrets) {
                    b.copy_from_slice(secret.residues());
                    ring.multiply(b, scalar);
                }
            }
            Key::Column(at) | Key::Packing(at) => b[at * size..(at + 1) * size].copy_from_slice(scalar),
        }
        ring.scale(b, ring.weight(column.gadget, column.digit));
    }
}

impl PublicKeys {
    /// Exact size of the encoding, bytes.
    pub(super) fn encoded_bytes(number: usize) -> usize {
        let preset = Preset::of(number);
        let column = |column: Column| column.height(preset) * polynomial_bytes(column.ring(preset));
        HEADER_BYTES + SEED_BYTES + Column::all(preset).map(column).sum::<usize>()
    }

    /// Parses [`ClientKey::public_keys`]'s bytes and expands the seed.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a wrong size, version or range.
    pub(super) fn decode(number: usize, bytes: &[u8]) -> Result<Self, Error> {
        const WHAT: &str = "public keys";
        if bytes.len() != Self::encoded_bytes(number) {
            return Err(Error::Malformed(WHAT));
        }
        let body = bytes.strip_prefix(&keys_header(number)).ok_or(Error::Malformed(WHAT))?;
        let (seed, mut rest) = body.split_first_chunk::<SEED_BYTES>().ok_or(Error::Malformed(WHAT))?;
        let preset = Preset::of(number);
        let mut columns: Vec<(Key, Words)> = Vec::new();
        for (number, column) in Column::all(preset).enumerate() {
            let (ring, height) = (column.ring(preset), column.height(preset));
            let mut words = zeros((1 + height) * ring.words());
            let (a, b) = words.residues_mut().split_at_mut(ring.words());
            ring.uniform(seed, number as u64, a);
            for b in b.chunks_exact_mut(ring.words()) {
                read_slots(ring, &mut rest, WHAT, b)?;
            }
            columns.push((column.key, words));
        }
        let [key, data] = [&preset.lattice.key, &preset.lattice.data];
        let of = |wanted: Key, ring: &Ring, height: usize| {
            let found: Vec<&[u64]> = columns
                .iter()
                .filter(|(key, _)| *key == wanted)
                .map(|(_, words)| &words.residues()[..(1 + height) * ring.words()])
                .collect();
            Switch::new(ring, found.into_iter(), 1 + height)
        };
        let has = |wanted: Key| columns.iter().any(|(key, _)| *key == wanted);
        let tree = |key_of: &dyn Fn(usize) -> Key| -> Vec<Switch> {
            (0..LEVELS).map(key_of).filter(|wanted| has(*wanted)).map(|wanted| of(wanted, key, 1)).collect()
        };
        let conversion = |width: &usize| Conversion {
            secret: of(Key::Secret, key, *width),
            columns: if *width > 1 {
                (0..*width).map(|at| of(Key::Column(at), key, *width)).collect()
            } else {
                Vec::new()
            },
        };
        let packing = |pack: &usize| (0..*pack).map(|at| of(Key::Packing(at), data, *pack)).collect();
        Ok(Self {
            preset: number,
            rows: tree(&Key::Row),
            bits: tree(&Key::Bit),
            conversions: preset.widths.iter().map(conversion).collect(),
            packings: preset.packs.iter().map(packing).collect(),
        })
    }
}
