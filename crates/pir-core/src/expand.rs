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
use crate::ring::{self, Coefficient, Evaluation, Polynomial, bit_reverse};

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
    assert!(
        levels as usize <= parameters.levels() && (1..=1 << levels).contains(&selectors),
        "leaves of the tree"
    );
    query.divide_by_power_of_two(parameters, levels);
    let mut workspace = Workspace::new(parameters);
    let mut nodes = vec![query.into_evaluation(parameters.ciphertext_basis())];
    for level in 0..levels {
        let children = selectors.div_ceil(1 << (levels - level - 1));
        let mut next = Vec::with_capacity(children);
        for mut node in nodes {
            let substituted = keys.substitute(parameters, level as usize, &node, &mut workspace);
            let odd = (next.len() + 1 < children)
                .then(|| odd_child(parameters, level as usize, &node, &substituted));
            node.add_assign(parameters, &substituted);
            next.push(node);
            next.extend(odd);
        }
        nodes = next;
    }
    nodes
}

/// `(c - Sub(c)) X^-(2^level)`: equal to the figure's `c X^-(2^j) + Sub(c X^-(2^j))`, with one substitution for both
/// children, since the substitution of `X^(N/2^j + 1)` negates `X^(2^j)`.
fn odd_child(
    parameters: &Parameters,
    level: usize,
    node: &Ciphertext<Evaluation>,
    substituted: &Ciphertext<Evaluation>,
) -> Ciphertext<Evaluation> {
    let half = |a: &Polynomial<Evaluation>, b: &Polynomial<Evaluation>| {
        let mut out = Polynomial::zero(parameters.ciphertext_basis());
        for (i, modulus) in parameters.ciphertext_basis().moduli().enumerate() {
            let monomial = parameters.inverse_monomial(level, i);
            ring::subtract_multiply(modulus, out.channel_mut(i), a.channel(i), b.channel(i), monomial);
        }
        out
    };
    Ciphertext { c0: half(&node.c0, &substituted.c0), c1: half(&node.c1, &substituted.c1) }
}
