//! EXPAND (paper Figure 3): one ciphertext into many, obliviously.
//!
//! With h levels, let the phase of the query be `sum_m p_m X^m`. Leaf r, `0 <= r < 2^h`, has the phase
//! `sum_m p_(r + m 2^h) X^(m 2^h)`: the encryption of `Delta x^r` expands to one of `Delta` at leaf r and to
//! encryptions of 0 elsewhere (Theorem 1). Two things differ from the figure.
//!
//! * The doubling at each level is undone by `2^-h mod Q`, applied to the ciphertext **before the first level**. The
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

/// The number of substitutions that [`expand`] makes at each level: `ceil(selectors / 2^(levels - j))` at level j.
pub fn substitutions(selectors: usize, levels: u32) -> impl Iterator<Item = usize> {
    (1..=levels).rev().map(move |height| selectors.div_ceil(1 << height))
}

/// Expands a query into its first `selectors` leaves, in the order of the selectors, in evaluation form modulo Q.
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
    let mut nodes = vec![Ciphertext::zero(parameters.degree()); selectors];
    query.divide_by_power_of_two(parameters.large().modulus(), levels);
    if let Some(root) = nodes.first_mut() {
        *root = query.into_evaluation(parameters.large());
    }
    expand_in_place(parameters, keys, &mut nodes, levels, 0, &mut Workspace::new(parameters));
    nodes
}

/// [`expand`] in the memory of the leaves: their number is that of the selectors, and the first holds the root, already
/// divided by `2^levels`. The first `switched` leaves are switched to q; that takes at least one level.
///
/// # Panics
/// If there are no leaves, more than `2^levels`, or more levels than log2 N; or if leaves are to be switched by no level.
pub fn expand_in_place(
    parameters: &Parameters,
    keys: &GaloisKeys,
    leaves: &mut [Ciphertext<Evaluation>],
    levels: u32,
    switched: usize,
    workspace: &mut Workspace,
) {
    assert!(
        levels as usize <= parameters.levels() && (1..=1 << levels).contains(&leaves.len()),
        "leaves of the tree"
    );
    assert!(levels > 0 || switched == 0, "a level that switches");
    descend(parameters, keys, leaves, 0..levels, switched, workspace);
}

/// The subtree of the node at the front of `leaves`, with the levels that are left.
fn descend(
    parameters: &Parameters,
    keys: &GaloisKeys,
    leaves: &mut [Ciphertext<Evaluation>],
    mut levels: core::ops::Range<u32>,
    switched: usize,
    workspace: &mut Workspace,
) {
    let Some(level) = levels.next() else { return };
    let (even, odd) = leaves.split_at_mut(leaves.len().min(1 << levels.len()));
    let Some(node) = even.first_mut() else { return };
    let level = level as usize;
    if !levels.is_empty() || switched == 0 {
        keys.split(parameters, level, node, odd.first_mut(), workspace);
    } else if switched == 1 && !odd.is_empty() {
        keys.split(parameters, level, node, odd.first_mut(), workspace);
        node.switch(parameters);
    } else {
        keys.split_and_switch(parameters, level, node, odd.first_mut(), workspace);
    }
    let switched_odd = switched.saturating_sub(even.len());
    descend(parameters, keys, even, levels.clone(), switched - switched_odd, workspace);
    if !odd.is_empty() {
        descend(parameters, keys, odd, levels, switched_odd, workspace);
    }
}

#[cfg(test)]
mod tests {
    use super::expand_in_place;
    use crate::bfv::{Ciphertext, Gadget, GaloisKeys, Parameters, SecretKey, Workspace};

    /// Of degree 8, which has three levels.
    fn taken(leaves: usize, levels: u32, switched: usize) -> bool {
        let gadgets = [Gadget { digits: 5, base_bits: 10 }; 3];
        let (large, small) = (1_125_899_906_826_241, 68_719_230_977);
        let bfv = Parameters::new_allowing_insecure_parameters(8, large, small, 9, &gadgets).unwrap();
        let key = SecretKey::derive(&bfv, &[1; 32]);
        let keys = GaloisKeys::derive(&bfv, &key, &[1; 32]);
        let mut all = vec![Ciphertext::zero(8); leaves];
        let expand = || expand_in_place(&bfv, &keys, &mut all, levels, switched, &mut Workspace::new(&bfv));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(expand)).is_ok()
    }

    #[test]
    fn trees_have_as_many_leaves_as_their_levels_allow() {
        for (leaves, levels, switched) in [(1, 0, 0), (1, 1, 1), (2, 1, 0), (8, 3, 8), (5, 3, 2)] {
            assert!(
                taken(leaves, levels, switched),
                "{leaves} leaves of {levels} levels, {switched} switched"
            );
        }
        for (leaves, levels, switched) in [(0, 1, 0), (2, 0, 0), (9, 3, 0), (9, 4, 0), (1, 4, 0), (1, 0, 1)] {
            assert!(
                !taken(leaves, levels, switched),
                "{leaves} leaves of {levels} levels, {switched} switched"
            );
        }
    }
}
