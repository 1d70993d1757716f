//! EXPAND (paper Figure 3): one ciphertext into many, obliviously.
//!
//! With h levels, let the phase of the query be `sum_m p_m X^m`. Leaf r, `0 <= r < 2^h`, has the phase
//! `sum_m p_(r + m 2^h) X^(m 2^h)`: the encryption of `Delta x^r` expands to one of `Delta` at leaf r and to
//! encryptions of 0 elsewhere (Theorem 1). Two things differ from the figure.
//!
//! * The doubling at each level is undone by `2^-h mod q`, applied to the ciphertext **before the first level**. The
//!   factor then cancels exactly, for the message and for the noise of the query; after the last level the noise of the
//!   substitutions would no longer be divisible by it. The plaintext modulus may be a power of two and does not shrink.
//! * Selector i sits at coefficient [`position`]`(i, h)`, the reversal of the h bits of i. The leaves of selectors
//!   `0 .. S` are then neighbours, and level j has only `ceil(S / 2^(h-j))` nodes to work on.

use crate::bfv::{Ciphertext, GaloisKeys, Parameters, Workspace};
use crate::ring::{Coefficient, Evaluation, bit_reverse};

/// The coefficient of selector `i` when `levels` levels run.
#[must_use]
pub fn position(i: usize, levels: u32) -> usize {
    bit_reverse(i, levels)
}

/// The number of substitutions that [`expand`] makes: `sum_j ceil(selectors / 2^(levels - j))`, `0 <= j < levels`.
#[must_use]
pub fn substitutions(selectors: usize, levels: u32) -> usize {
    (1..=levels).map(|height| selectors.div_ceil(1 << height)).sum()
}

/// Expands a query into its first `selectors` leaves, in the order of the selectors, in evaluation form.
///
/// # Panics
/// If `selectors` is 0 or above `2^levels`, or `levels` above log2 N.
#[must_use]
pub fn expand(
    parameters: &Parameters,
    keys: &GaloisKeys,
    mut query: Ciphertext<Coefficient>,
    selectors: usize,
    levels: u32,
) -> Vec<Ciphertext<Evaluation>> {
    let mut nodes = vec![Ciphertext::zero(parameters.ciphertext_basis()); selectors];
    query.divide_by_power_of_two(parameters, levels);
    if let Some(root) = nodes.first_mut() {
        *root = query.into_evaluation(parameters.ciphertext_basis());
    }
    expand_in_place(parameters, keys, &mut nodes, levels, &mut Workspace::new(parameters));
    nodes
}

/// [`expand`] in the memory of the leaves: their number is that of the selectors, and the first holds the root, already
/// divided by `2^levels`.
///
/// A level spreads its nodes from the last to the first, so that child 2i and child 2i + 1 of node i overwrite only
/// nodes that are done.
pub(crate) fn expand_in_place(
    parameters: &Parameters,
    keys: &GaloisKeys,
    leaves: &mut [Ciphertext<Evaluation>],
    levels: u32,
    workspace: &mut Workspace,
) {
    let selectors = leaves.len();
    assert!(
        levels as usize <= parameters.levels() && (1..=1 << levels).contains(&selectors),
        "leaves of the tree"
    );
    for level in 0..levels {
        let children = selectors.div_ceil(1 << (levels - level - 1));
        for node in (0..children.div_ceil(2)).rev() {
            leaves.swap(node, 2 * node);
            let (front, back) = leaves.split_at_mut(2 * node + 1);
            let odd = back.first_mut().filter(|_| 2 * node + 1 < children);
            let Some(even) = front.last_mut() else { continue };
            keys.split(parameters, level as usize, even, odd, workspace);
        }
    }
}
