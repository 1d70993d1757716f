//! The trees that expand a second query into rows: EXPAND (paper Figure 3), of which the public half is the same for everybody.
//!
//! A ciphertext has 256 leaves, in the order in which EXPAND's need no pruning but at the end. The leaves of a *row*, one for each
//! column that shares a pack, follow each other; a row is the sum of `X^-i` times its leaf i.

use super::GADGET;
use super::common::{Common, Key};
use super::keys::PublicKeys;
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::{Evaluation, Polynomial, centre, digit, halves, multiply_accumulate, reduce};
use crate::voce::ring::{DEGREE, Ring};
use crate::voce::shape::LEVELS;

/// Words of the digits of a node.
const NODE: usize = GADGET.digits as usize * DEGREE;

/// The public half of a tree.
pub(super) struct Tree {
    leaves: usize,
    row: Row,
    /// Of every node that splits, level by level.
    digits: PageVec<u64>,
    /// Of the rows, in slots.
    pub(super) rows: Vec<Vec<u64>>,
}

/// How many leaves a row has, and at which power of `1/X` its first column lies, row by row.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) columns: usize,
    pub(super) first: Vec<usize>,
}

/// Sums of products, two words each, and a polynomial.
struct Scratch {
    low: Vec<u64>,
    high: Vec<u64>,
    image: Vec<u64>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { low: vec![0; DEGREE], high: vec![0; DEGREE], image: vec![0; DEGREE] }
    }
}

impl Scratch {
    /// `sum of a b`.
    fn sum(&mut self, terms: &[(&[u64], &[u64])], out: &mut [u64]) {
        let modulus = Ring::get().modulus();
        multiply_accumulate(modulus, [&mut self.low, &mut self.high], terms);
        reduce(modulus, out, [&mut self.low, &mut self.high]);
    }
}

/// `sum of a b`, slot by slot.
pub(super) fn sum_of_products(terms: &[(&[u64], &[u64])], out: &mut [u64]) {
    Scratch::default().sum(terms, out);
}

/// Nodes at a level: those of which some leaf is wanted.
fn nodes(leaves: usize, level: u32) -> usize {
    leaves.div_ceil(1 << (LEVELS - level))
}

/// Nodes that split, before a level.
fn nodes_before(leaves: usize, level: u32) -> usize {
    (0..level).map(|level| nodes(leaves, level)).sum()
}

impl Tree {
    /// Of a query's public half, in slots.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no room.
    pub(super) fn new(
        pool: &PagePool,
        mut root: Polynomial<Evaluation>,
        leaves: usize,
        row: Row,
    ) -> Result<Self, Error> {
        let (ring, common) = (Ring::get(), Common::get());
        let modulus = ring.modulus();
        // Whole trees, so that the pool has pieces of one size.
        let mut digits = pool.vector::<u64>(nodes_before(1 << LEVELS, LEVELS) * NODE)?;
        let (mut scratch, mut raised) = (Scratch::default(), vec![0; DEGREE]);
        root.scale(modulus, modulus.shoup(modulus.inverse(1 << LEVELS)));
        let mut level_nodes = vec![root.residues().to_vec()];
        for level in 0..LEVELS {
            let (first, many) = (nodes_before(leaves, level), nodes(leaves, level + 1));
            let mut next = Vec::with_capacity(many);
            for (at, mut node) in level_nodes.into_iter().enumerate() {
                let digits = &mut digits[(first + at) * NODE..][..NODE];
                common.substitution(level).slots_into(&node, &mut raised);
                ring.ntt.inverse(&mut raised);
                centre(modulus, GADGET.offset(modulus), &mut raised);
                for (number, out) in (0..GADGET.digits).zip(digits.chunks_exact_mut(DEGREE)) {
                    digit(GADGET.digit(modulus, number), out, &raised);
                    ring.ntt.forward(out);
                }
                let keys = (0..GADGET.digits).map(|digit| common.half(Key::Tree(level, digit)));
                let terms: Vec<_> = digits.chunks_exact(DEGREE).zip(keys).collect();
                let mut switched = core::mem::take(&mut scratch.image);
                scratch.sum(&terms, &mut switched);
                scratch.image = switched;
                let mut odd = vec![0; DEGREE];
                halves(modulus, &mut node, &mut odd, &scratch.image, common.odd(level));
                next.push(node);
                if next.len() < many {
                    next.push(odd);
                }
            }
            level_nodes = next;
        }
        let rows = level_nodes.chunks(row.columns).zip(&row.first);
        let rows = rows.map(|(leaves, first)| combine(&mut scratch, leaves, *first)).collect();
        Ok(Self { leaves, row, digits, rows })
    }

    /// Size in memory, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.digits) + self.rows.len() * DEGREE * size_of::<u64>()
    }

    /// The private halves of the rows of a tile of clients, of whose query the private half is given, in slots.
    pub(super) fn rows(&self, keys: &[&PublicKeys], roots: Vec<Vec<u64>>) -> Vec<Vec<Vec<u64>>> {
        let (ring, common) = (Ring::get(), Common::get());
        let modulus = ring.modulus();
        let scale = modulus.shoup(modulus.inverse(1 << LEVELS));
        let mut scratch = Scratch::default();
        let root = |root: Vec<u64>| {
            let mut root = Polynomial::<Evaluation>::from_residues(root);
            root.scale(modulus, scale);
            vec![root.residues().to_vec()]
        };
        let mut clients: Vec<Vec<Vec<u64>>> = roots.into_iter().map(root).collect();
        for level in 0..LEVELS {
            let (first, many) = (nodes_before(self.leaves, level), nodes(self.leaves, level + 1));
            for (client, keys) in clients.iter_mut().zip(keys) {
                let halves_of_keys: Vec<_> =
                    (0..GADGET.digits).map(|digit| keys.half(Key::Tree(level, digit))).collect();
                let mut next = Vec::with_capacity(many);
                for (at, mut node) in core::mem::take(client).into_iter().enumerate() {
                    let digits = &self.digits[(first + at) * NODE..][..NODE];
                    let terms: Vec<_> =
                        digits.chunks_exact(DEGREE).zip(halves_of_keys.iter().copied()).collect();
                    let (mut odd, mut switched) = (vec![0; DEGREE], core::mem::take(&mut scratch.image));
                    scratch.sum(&terms, &mut switched);
                    common.substitution(level).slots_into(&node, &mut odd);
                    crate::ring::add(modulus, &mut switched, &odd);
                    halves(modulus, &mut node, &mut odd, &switched, common.odd(level));
                    scratch.image = switched;
                    next.push(node);
                    if next.len() < many {
                        next.push(odd);
                    }
                }
                *client = next;
            }
        }
        let rows = |leaves: Vec<Vec<u64>>| {
            let rows = leaves.chunks(self.row.columns).zip(&self.row.first);
            rows.map(|(leaves, first)| combine(&mut scratch, leaves, *first)).collect()
        };
        clients.into_iter().map(rows).collect()
    }
}

/// The sum of `X^-(first + i)` times leaf i.
fn combine(scratch: &mut Scratch, leaves: &[Vec<u64>], first: usize) -> Vec<u64> {
    let powers = &Common::get().columns[first..];
    let terms: Vec<(&[u64], &[u64])> =
        leaves.iter().zip(powers).map(|(leaf, power)| (&**leaf, &**power)).collect();
    let mut row = vec![0; DEGREE];
    scratch.sum(&terms, &mut row);
    row
}
