//! Translations between ciphertexts: a scalar Regev ciphertext to a matrix of them, several to a GSW ciphertext, and packing.

use super::expand::Scalar;
use super::keys::{Conversion, PublicKeys};
use super::lattice::{Ring, Words, zeros};
use super::preset::Preset;
use super::shape::Parameters;
use super::switch::{Scratch, Switch, decompose};

/// A scalar ciphertext of `x` modulo Q to the matrix of x times the identity, column by column, modulo q (ScalToMat).
///
/// Column c takes the digits of a times column c of W, and b in its row c. If n = 1, a scalar ciphertext is that matrix.
pub(super) fn to_matrix(
    preset: &Preset,
    conversion: Option<&Conversion>,
    scalar: &Scalar,
    width: usize,
    scratch: &mut Scratch,
    out: &mut [u64],
) {
    let (ring, words) = (&preset.lattice.key, preset.lattice.key.words());
    match conversion {
        Some(conversion) if width > 1 => {
            decompose(ring, preset.conversion, scratch, scalar.a.residues());
            for (at, (key, column)) in
                conversion.columns.iter().zip(out.chunks_exact_mut((1 + width) * words)).enumerate()
            {
                key.apply_decomposed(ring, scratch, column);
                ring.add(&mut column[(1 + at) * words..(2 + at) * words], scalar.b.residues());
            }
        }
        _ => {
            let (a, b) = out.split_at_mut(words);
            a.copy_from_slice(scalar.a.residues());
            b.copy_from_slice(scalar.b.residues());
        }
    }
    preset.lattice.switch(out);
}

/// The scalar ciphertexts of a folding bit times the weights of digits, scaled from q to Q, to a GSW ciphertext of the bit modulo
/// q (RegevToGSW): a column for every digit of a, then for every digit of each b.
///
/// The columns of a take the digits of the ciphertext's a times V, whose phase is `a s s_j` in row j, and its b as their a,
/// whose phase is `b s_j`. Those of `b_c` are column c of the matrix.
pub(super) fn to_gsw(
    preset: &Preset,
    conversion: &Conversion,
    scalars: &[Scalar],
    width: usize,
    scratch: &mut Scratch,
) -> Switch {
    let (ring, words) = (&preset.lattice.key, preset.lattice.key.words());
    let (height, digits) = (1 + width, scalars.len());
    let mut columns: Vec<Words> = (0..height * digits).map(|_| zeros(height * words)).collect();
    let mut matrix = zeros(width * height * words);
    for (digit, scalar) in scalars.iter().enumerate() {
        let of_a = columns[digit].residues_mut();
        conversion.secret.switch(ring, preset.conversion, scratch, scalar.a.residues(), of_a);
        ring.add(&mut of_a[..words], scalar.b.residues());
        preset.lattice.switch(of_a);
        to_matrix(preset, Some(conversion), scalar, width, scratch, matrix.residues_mut());
        for (at, column) in matrix.residues().chunks_exact(height * words).enumerate() {
            columns[(1 + at) * digits + digit].residues_mut().copy_from_slice(column);
        }
    }
    Switch::new(&preset.lattice.data, columns.iter().map(Words::residues), height)
}

/// Scalar ciphertexts modulo q, column by column of a matrix, to the matrix of all their messages (Pack).
///
/// Column j takes, for every row i, the digits of the a of ciphertext (i, j) times column i of the packing key, and its b in row
/// i.
pub(super) fn pack(
    parameters: &Parameters,
    keys: &PublicKeys,
    scalars: &[Words],
    scratch: &mut Scratch,
) -> Words {
    let (preset, pack) = (parameters.preset(), parameters.pack());
    let (ring, words) = (&preset.lattice.data, preset.lattice.data.words());
    let mut packed = zeros(pack * (1 + pack) * words);
    let mut switched = zeros((1 + pack) * words);
    let position = preset.packs.iter().position(|candidate| *candidate == pack);
    let rows = position.map_or(&[][..], |position| &keys.packings[position]);
    let columns = packed.residues_mut().chunks_exact_mut((1 + pack) * words);
    for (column, scalars) in columns.zip(scalars.chunks_exact(pack)) {
        for (row, (key, scalar)) in rows.iter().zip(scalars).enumerate() {
            let (a, b) = scalar.residues().split_at(words);
            key.switch(ring, preset.packing, scratch, a, switched.residues_mut());
            ring.add(column, switched.residues());
            ring.add(&mut column[(1 + row) * words..(2 + row) * words], b);
        }
    }
    packed
}

/// `right` and `left` to the one of them that a folding bit tells: `left + bit (right - left)`, in place of `left`. Both are
/// matrices modulo q, column by column.
pub(super) fn choose(
    parameters: &Parameters,
    bit: &Switch,
    left: &mut [u64],
    right: &mut [u64],
    scratch: &mut Scratch,
) {
    let ring: &Ring = &parameters.preset().lattice.data;
    let (words, height) = (ring.words(), 1 + parameters.width());
    let (gadget, each) = (parameters.folding(), parameters.folding().digits as usize);
    ring.subtract(right, left);
    ring.inverse(right);
    let Scratch { sums, digits, column, .. } = scratch;
    let digits = super::switch::room(digits, bit.digits() * words);
    let product = super::switch::room(column, height * words);
    for (left, right) in left.chunks_exact_mut(height * words).zip(right.chunks_exact_mut(height * words)) {
        for (row, polynomial) in right.chunks_exact_mut(words).enumerate() {
            ring.decompose(gadget, polynomial, digits, [row * each, bit.digits()]);
        }
        bit.apply(ring, sums, digits, product);
        ring.add(left, product);
    }
}
