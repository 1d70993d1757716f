//! Predicted noise. With n the dimension of the matrices that are multiplied, m that of packing, r rows, c columns, folds
//! `f = ceil(log2 c)`, p the plaintext modulus, l digits to the base `2^B` of folding without the d lowest bits, W a bound on the
//! weight of a secret and `R = (1 + W)/12` as in [`pir_core::noise`], the variances are
//!
//! | stage | modulus | variance |
//! |---|---|---|
//! | a key switch by l' digits of B' bits, d' dropped | its own | `K = l' N 4^B'/12 sigma^2 + 4^d'/12 W` |
//! | leaf of a tree of h levels, mean over coefficients | Q | `E = F/2^h + sum_j 2^(h-1-j) K_j`, `F = sigma^2 + 4^u/12` |
//! | row: leaf, converted if n > 1, switched to q; mean over its matrix | q | `U = (E/n + K) (q/Q)^2 + R` |
//! | column: sum of r n products | q | `r n N U p^2/12` |
//! | of a folding bit: the columns of b | q | `M = (E'/n + K) (q/Q)^2 + R`, without K if n = 1 |
//! | the same: the columns of a, whose keys are of `s s_j` | q | `A = (E' W + K') (q/Q)^2 + R`, K' as K with `2 W^2` for W |
//! | a fold adds | q | `X = l N 4^B/12 (A + n M) + 4^d/12 (1 + W)` |
//! | folded | q | `column + f X` |
//! | packing adds, if m > 1 | q | `m K` |
//! | answer of `b` bits | 2^b | `packed (2^b/q)^2 + W/12` |
//!
//! Without a switch, there is no R. What is uploaded directly has `sigma^2` in place of E; M and A, too, if n = 1. A
//! coefficient is safe up to `2^b / (2 p)` less half a unit of the shorter part of an answer, whose rounding is at most that.
//!
//! As in [`pir_core::noise`], noise counts as white, plaintexts, which are whitened, and digits as uniform, tails as Gaussian and
//! are united over all coefficients; the energies of the rows and of a folding bit are taken where they are exceeded with a
//! probability of 2^-[`ENERGY_LOG2`].

use pir_core::bfv::Gadget;
use pir_core::noise::{ENERGY_LOG2, energy_excess, error_variance, tail_log2};

use super::lattice::{DEGREE, Ring};
use super::preset::Preset;
use super::shape::Parameters;

const N: f64 = DEGREE as f64;

/// Predicted standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// A leaf of the tree of rows, or a row as it is uploaded; modulo Q.
    pub leaf: f64,
    /// A row, as it is multiplied with plaintexts; modulo q.
    pub row: f64,
    /// A column, modulo q.
    pub column: f64,
    /// A folding bit: the columns that take digits of b, modulo q.
    pub bit: f64,
    /// The same: the columns that take digits of a.
    pub bit_of_a: f64,
    /// What a fold adds, modulo q.
    pub fold: f64,
    /// All columns folded, modulo q.
    pub folded: f64,
    /// The same, packed.
    pub packed: f64,
    /// In the answer, modulo `2^b` for the b bits of its longer part.
    pub answer: f64,
    /// What a coefficient of the answer may be off without being decoded wrongly.
    pub budget: f64,
}

/// Predicts the noise on uniform plaintexts.
#[must_use]
pub fn stages(parameters: &Parameters) -> Stages {
    with_energy(parameters, [1.0; 2])
}

/// Upper bound on the probability that any coefficient of an answer decodes wrongly, as a logarithm to base 2.
pub(super) fn failure_log2(parameters: &Parameters) -> f64 {
    let preset = parameters.preset();
    let folding = parameters.folding().digits as usize;
    let [rows, bits] = trees(parameters);
    let excess = |tree: Tree, leaves: usize| energy_excess(tree.largest / (leaves as f64 * N * tree.mean));
    let columns =
        if preset.converts(parameters.width()) { folding } else { folding * (1 + parameters.width()) };
    let worst = with_energy(parameters, [excess(rows, parameters.rows()), excess(bits, columns)]);
    let coefficients = N * (parameters.polynomials() * parameters.groups()) as f64;
    let tail = if worst.budget > 0.0 { tail_log2(worst.budget / worst.answer) } else { 0.0 };
    let energies = 1.0 + parameters.folds() as f64;
    ((tail + coefficients.log2()).exp2() + energies * (-ENERGY_LOG2).exp2()).log2()
}

/// Variances at the leaves of a tree.
#[derive(Clone, Copy)]
struct Tree {
    /// Mean over coefficients.
    mean: f64,
    /// At most the largest eigenvalue.
    largest: f64,
}

/// Those of the rows and of the folding bits.
fn trees(parameters: &Parameters) -> [Tree; 2] {
    let preset = parameters.preset();
    if preset.streams {
        return [Tree { mean: error_variance(), largest: error_variance() }; 2];
    }
    let tree = |gadget: &dyn Fn(usize) -> Gadget, dropped: u32, levels: u32, leaves: usize| {
        let fresh = error_variance() + if dropped == 0 { 0.0 } else { f64::from(2 * dropped).exp2() / 12.0 };
        let mut tree = Tree { mean: fresh / f64::from(levels).exp2(), largest: fresh };
        for level in 0..levels {
            let switch = key_switch(&preset.lattice.key, gadget(level as usize));
            let height = levels - 1 - level;
            let twice = if leaves > 1 << height { 2.0 } else { 1.0 };
            tree.mean += f64::from(height).exp2() * switch;
            tree.largest += twice * f64::from(2 * height).exp2() * switch;
        }
        tree
    };
    let [of_rows, of_bits] = preset.dropped_bits;
    [
        tree(&|level| preset.row_gadgets[level], of_rows, parameters.row_levels(), parameters.rows()),
        tree(&|_| preset.bit_gadget, of_bits, parameters.bit_levels(), parameters.bit_leaves()),
    ]
}

/// K.
fn key_switch(ring: &Ring, gadget: Gadget) -> f64 {
    key_switch_of(ring, gadget, secret_weight())
}

/// K for what is switched from a polynomial of the given weight.
fn key_switch_of(ring: &Ring, gadget: Gadget, weight: f64) -> f64 {
    digits(gadget) * error_variance() + dropped(ring, gadget) * weight
}

/// `l N 4^B/12`: the energy of as many uniform digits.
fn digits(gadget: Gadget) -> f64 {
    f64::from(gadget.digits) * N * f64::from(2 * gadget.base_bits).exp2() / 12.0
}

fn dropped(ring: &Ring, gadget: Gadget) -> f64 {
    let bits = ring.dropped_bits(gadget);
    if bits == 0 { 0.0 } else { f64::from(2 * bits).exp2() / 12.0 }
}

/// What a fold adds, X, for the variances of the columns of a and of b.
fn fold(ring: &Ring, gadget: Gadget, width: f64, of_a: f64, of_b: f64) -> f64 {
    digits(gadget) * (of_a + width * of_b) + dropped(ring, gadget) * (1.0 + secret_weight())
}

fn with_energy(parameters: &Parameters, [of_rows, of_bits]: [f64; 2]) -> Stages {
    let (preset, width) = (parameters.preset(), parameters.width());
    let [key, data] = [&preset.lattice.key, &preset.lattice.data];
    let [rows, bits] = trees(parameters);
    let (conversion, weight) = (key_switch(key, preset.conversion), secret_weight());
    let scale = (data.modulus() as f64 / key.modulus() as f64).powi(2);
    let rounding = if preset.lattice.switches() { (1.0 + weight) / 12.0 } else { 0.0 };
    let converted = if width > 1 { conversion } else { 0.0 };
    // A leaf is in the diagonal of its matrix alone.
    let diagonal = 1.0 / width as f64;
    let row = (of_rows * rows.mean * diagonal + converted) * scale + rounding;
    let plaintext = f64::from(2 * parameters.plaintext_bits()).exp2() / 12.0;
    let column = (parameters.rows() * width) as f64 * N * row * plaintext;
    let [bit, bit_of_a] = if preset.converts(width) {
        let bits = of_bits * bits.mean;
        // The square of a secret: each product of two of its coefficients is there twice.
        let of_secret = key_switch_of(key, preset.conversion, 2.0 * weight.powi(2));
        [(bits * diagonal + converted) * scale + rounding, (bits * weight + of_secret) * scale + rounding]
    } else {
        [of_bits * bits.mean; 2]
    };
    let fold = fold(data, parameters.folding(), width as f64, bit_of_a, bit);
    let folded = column + parameters.folds() as f64 * fold;
    let pack = parameters.pack();
    let packed = if pack > 1 { folded + pack as f64 * key_switch(data, preset.packing) } else { folded };
    let [short, long] = parameters.answer_bits();
    let modulus = f64::from(long).exp2();
    let answer = packed * (modulus / data.modulus() as f64).powi(2) + weight / 12.0;
    let budget =
        modulus / f64::from(parameters.plaintext_bits() + 1).exp2() - f64::from(long - short).exp2() / 2.0;
    Stages {
        leaf: rows.mean.sqrt(),
        row: row.sqrt(),
        column: column.sqrt(),
        bit: bit.sqrt(),
        bit_of_a: bit_of_a.sqrt(),
        fold: fold.sqrt(),
        folded: folded.sqrt(),
        packed: packed.sqrt(),
        answer: answer.sqrt(),
        budget,
    }
}

/// The variance of the columns of a folding bit that take digits of a.
pub(super) fn of_bits(parameters: &Parameters) -> f64 {
    with_energy(parameters, [1.0; 2]).bit_of_a.powi(2)
}

/// The gadget of so many digits under which a fold adds least, for columns of a given noise: shorter digits make less of it,
/// and drop more.
pub(super) fn quietest(preset: &Preset, digits: u32, width: usize, noise: f64) -> Gadget {
    let ring = &preset.lattice.data;
    let longest = ring.bits().div_ceil(digits);
    if preset.as_published {
        return Gadget { digits, base_bits: longest };
    }
    let added = |base_bits| fold(ring, Gadget { digits, base_bits }, width as f64, noise, noise);
    let bases = 2..=ring.bits() / digits;
    let base_bits = bases.min_by(|a, b| added(*a).total_cmp(&added(*b)));
    Gadget { digits, base_bits: base_bits.unwrap_or(2) }
}

/// W, a standard deviation above the mean as in [`pir_core::noise`].
fn secret_weight() -> f64 {
    N * 2.0 / 3.0 + (N * 2.0 / 9.0).sqrt()
}
