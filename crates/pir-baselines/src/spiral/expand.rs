//! Expansion: one ciphertext into many, level by level as in [`pir_core::expand`], over rings of one prime or two.

use pir_core::bfv::Gadget;

use super::lattice::{Ring, Words, zeros};
use super::switch::{Scratch, Switch, room};

/// A scalar Regev ciphertext.
pub(super) struct Scalar {
    pub(super) a: Words,
    pub(super) b: Words,
}

impl Scalar {
    /// An encryption of 0 under every secret.
    pub(super) fn zero(ring: &Ring) -> Self {
        Self { a: zeros(ring.words()), b: zeros(ring.words()) }
    }
}

/// A tree of substitutions: its keys and gadgets, level by level.
pub(super) struct Tree<'a> {
    pub(super) ring: &'a Ring,
    pub(super) keys: &'a [Switch],
    pub(super) gadgets: &'a [Gadget],
}

impl Tree<'_> {
    /// The first `leaves` leaves of a ciphertext in coefficient form, in evaluation form.
    pub(super) fn expand(
        &self,
        mut root: Scalar,
        leaves: usize,
        levels: u32,
        scratch: &mut Scratch,
    ) -> Vec<Scalar> {
        let mut nodes = Vec::with_capacity(leaves);
        for half in [&mut root.a, &mut root.b] {
            self.ring.divide_by_power_of_two(half.residues_mut(), levels);
            self.ring.forward(half.residues_mut());
        }
        nodes.push(root);
        nodes.resize_with(leaves, || Scalar::zero(self.ring));
        self.descend(&mut nodes, 0..levels, scratch);
        nodes
    }

    /// The subtree of the node at the front, with the levels that are left.
    fn descend(&self, leaves: &mut [Scalar], mut levels: core::ops::Range<u32>, scratch: &mut Scratch) {
        let Some(level) = levels.next() else { return };
        let (even, odd) = leaves.split_at_mut(leaves.len().min(1 << levels.len()));
        let Some(node) = even.first_mut() else { return };
        self.split(level as usize, node, odd.first_mut(), scratch);
        self.descend(even, levels.clone(), scratch);
        if !odd.is_empty() {
            self.descend(odd, levels, scratch);
        }
    }

    /// Replaces `node` by `node + Sub(node)` and, where asked for, `odd` by `(node - Sub(node)) X^-(2^level)`.
    fn split(&self, level: usize, node: &mut Scalar, odd: Option<&mut Scalar>, scratch: &mut Scratch) {
        let (ring, words) = (self.ring, self.ring.words());
        let Scratch { polynomial, digits, column, sums } = scratch;
        let [node_a, node_b] = [&mut node.a, &mut node.b].map(Words::residues_mut);
        let (gadget, key) = (self.gadgets[level], &self.keys[level]);
        let count = gadget.digits as usize;
        let polynomial = room(polynomial, words);
        let digits = room(digits, count * words);
        let substituted = room(column, 2 * words);
        ring.substitute(level, node_a, polynomial);
        ring.inverse(polynomial);
        ring.decompose(gadget, polynomial, digits, [0, count]);
        key.apply(ring, sums, digits, substituted);
        ring.substitute(level, node_b, polynomial);
        let (a, b) = substituted.split_at_mut(words);
        ring.add(b, polynomial);
        match odd {
            Some(odd) => {
                let [odd_a, odd_b] = [&mut odd.a, &mut odd.b].map(Words::residues_mut);
                ring.halves(level, node_a, odd_a, a);
                ring.halves(level, node_b, odd_b, b);
            }
            None => {
                ring.add(node_a, a);
                ring.add(node_b, b);
            }
        }
    }
}
