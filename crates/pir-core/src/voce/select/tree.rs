//! The trees that expand a second query into rows: EXPAND (paper Figure 3), of which the public half is the same for everybody.
//!
//! A ciphertext has 256 leaves, of which the first are wanted. The leaves of a *row*, one for each column that shares a pack, follow
//! each other; a row is the sum of `X^-i` times its leaf i.
//!
//! In the slots' order, `X -> X^(N/2^j + 1)` moves slots within blocks of 2^(j+1), in all of them alike. So a tree is expanded block
//! by block of 256 slots, and what that takes of it, for a tile of clients, stays in the cache.

use super::GADGET;
use super::common::{Common, Key};
use super::keys::PublicKeys;
use crate::Error;
use crate::pages::{PagePool, PageVec};
use crate::ring::{
    Evaluation, Polynomial, add, centre, digit, halves, key_products, multiply_accumulate, reduce,
};
use crate::voce::ring::{DEGREE, Ring};
use crate::voce::shape::LEVELS;

/// Slots that are expanded together.
const BLOCK: usize = 1 << LEVELS;

const BLOCKS: usize = DEGREE / BLOCK;

const KEY_DIGITS: usize = GADGET.digits as usize;

/// Words of the digits of a node in a block.
const NODE: usize = KEY_DIGITS * BLOCK;

/// Nodes of a whole tree that split.
const SPLITS: usize = (1 << LEVELS) - 1;

/// Bytes of the digits of a whole tree.
pub(in crate::voce) const TREE_BYTES: usize = BLOCKS * SPLITS * NODE * size_of::<u64>();

/// The public half of a tree.
pub(super) struct Tree {
    leaves: usize,
    row: Row,
    /// Of every node that splits, level by level; block by block.
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
        Self::of(DEGREE)
    }
}

impl Scratch {
    fn of(slots: usize) -> Self {
        Self { low: vec![0; slots], high: vec![0; slots], image: vec![0; slots] }
    }

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
        let mut all = pool.vector::<u64>(TREE_BYTES / size_of::<u64>())?;
        let mut digits = vec![0; KEY_DIGITS * DEGREE];
        let (mut scratch, mut raised) = (Scratch::default(), vec![0; DEGREE]);
        root.scale(modulus, modulus.shoup(modulus.inverse(1 << LEVELS)));
        let mut level_nodes = vec![root.residues().to_vec()];
        for level in 0..LEVELS {
            let (first, many) = (nodes_before(leaves, level), nodes(leaves, level + 1));
            let mut next = Vec::with_capacity(many);
            for (at, mut node) in level_nodes.into_iter().enumerate() {
                common.substitution(level).slots_into(&node, &mut raised);
                ring.ntt.inverse(&mut raised);
                centre(modulus, GADGET.offset(modulus), &mut raised);
                for (number, out) in (0..GADGET.digits).zip(digits.chunks_exact_mut(DEGREE)) {
                    digit(GADGET.digit(modulus, number), out, &raised);
                    ring.ntt.forward(out);
                    for (block, out) in out.chunks_exact(BLOCK).enumerate() {
                        let node = (block * SPLITS + first + at) * NODE;
                        all[node + number as usize * BLOCK..][..BLOCK].copy_from_slice(out);
                    }
                }
                let keys = (0..GADGET.digits).map(|digit| common.half(Key::Tree(level, digit)));
                let terms: Vec<_> = digits.chunks_exact(DEGREE).zip(keys).collect();
                let mut switched = core::mem::take(&mut scratch.image);
                scratch.sum(&terms, &mut switched);
                scratch.image = switched;
                let mut odd = vec![0; DEGREE];
                halves(modulus, &mut node, &mut odd, &scratch.image, common.odd(level).0);
                next.push(node);
                if next.len() < many {
                    next.push(odd);
                }
            }
            level_nodes = next;
        }
        let rows = level_nodes.chunks(row.columns).zip(&row.first);
        let rows = rows.map(|(leaves, first)| combine(&mut scratch, leaves, *first)).collect();
        Ok(Self { leaves, row, digits: all, rows })
    }

    /// Size in memory, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.digits) + self.rows.len() * DEGREE * size_of::<u64>()
    }

    /// The private halves of the rows of a tile of clients, of whose query the private half is given, in slots.
    pub(super) fn rows(&self, keys: &[&PublicKeys], mut roots: Vec<Vec<u64>>) -> Vec<Vec<Vec<u64>>> {
        let modulus = Ring::get().modulus();
        let scale = modulus.inverse(1 << LEVELS);
        roots.iter_mut().flatten().for_each(|slot| *slot = modulus.mul(*slot, scale));
        let row_count = self.rows.len();
        let mut rows = vec![vec![vec![0; DEGREE]; row_count]; keys.len()];
        let mut expansion = Expansion::new(self, keys);
        for block in 0..BLOCKS {
            let here = block * BLOCK..(block + 1) * BLOCK;
            expansion.begin(block);
            for (top, root) in expansion.top.iter_mut().zip(&roots) {
                top[..BLOCK].copy_from_slice(&root[here.clone()]);
            }
            let columns = self.row.columns;
            let row_level = LEVELS - columns.ilog2();
            let mut top = core::mem::take(&mut expansion.top);
            for level in 0..row_level {
                let distance = columns << (row_level - 1 - level);
                for node in 0..nodes(self.leaves, level) {
                    let at = node * 2 * distance / columns;
                    let odd = at + distance / columns;
                    let odd = (odd < row_count).then_some(odd);
                    expansion.split(level, node, at, odd, &mut top);
                }
            }
            let mut leaves = core::mem::take(&mut expansion.leaves);
            for row in 0..row_count {
                for (leaves, top) in leaves.iter_mut().zip(&top) {
                    leaves[..BLOCK].copy_from_slice(&top[row * BLOCK..][..BLOCK]);
                }
                for level in row_level..LEVELS {
                    let distance = 1 << (LEVELS - 1 - level);
                    for at in (0..columns).step_by(2 * distance) {
                        let node = (row * columns + at) >> (LEVELS - level);
                        expansion.split(level, node, at, Some(at + distance), &mut leaves);
                    }
                }
                let powers = &Common::get().columns[self.row.first[row]..];
                for (leaves, rows) in leaves.iter().zip(&mut rows) {
                    let powers = powers.iter().map(|power| &power[here.clone()]);
                    let terms: Vec<_> = leaves.chunks_exact(BLOCK).zip(powers).collect();
                    expansion.scratch.sum(&terms, &mut rows[row][here.clone()]);
                }
            }
            (expansion.top, expansion.leaves) = (top, leaves);
        }
        rows
    }
}

/// The expansion of a tile's queries in a block of slots.
struct Expansion<'a> {
    tree: &'a Tree,
    keys: &'a [&'a PublicKeys],
    block: usize,
    /// Of each level and every two clients, digit by digit the keys of both.
    pairs: Vec<Vec<u64>>,
    /// Of every client, what has been expanded to rows, and the leaves of a row.
    top: Vec<Vec<u64>>,
    leaves: Vec<Vec<u64>>,
    switched: [Vec<u64>; 2],
    image: Vec<u64>,
    scratch: Scratch,
}

impl<'a> Expansion<'a> {
    fn new(tree: &'a Tree, keys: &'a [&'a PublicKeys]) -> Self {
        let nodes = |count: usize| vec![vec![0; count * BLOCK]; keys.len()];
        Self {
            tree,
            keys,
            block: 0,
            pairs: vec![vec![0; 2 * NODE]; LEVELS as usize * keys.len().div_ceil(2)],
            top: nodes(tree.rows.len()),
            leaves: nodes(tree.row.columns),
            switched: [(); 2].map(|()| vec![0; BLOCK]),
            image: vec![0; BLOCK],
            scratch: Scratch::of(BLOCK),
        }
    }

    /// Brings the keys of a block together.
    fn begin(&mut self, block: usize) {
        self.block = block;
        let count = self.keys.len().div_ceil(2);
        for (at, pair) in self.pairs.iter_mut().enumerate() {
            let (level, first) = ((at / count) as u32, at % count * 2);
            for (half, keys) in self.keys[first..].iter().take(2).enumerate() {
                for digit in 0..GADGET.digits {
                    let key = &keys.half(Key::Tree(level, digit))[block * BLOCK..][..BLOCK];
                    pair[(2 * digit as usize + half) * BLOCK..][..BLOCK].copy_from_slice(key);
                }
            }
        }
    }

    /// Splits a node of a level, which every client has at the first place, into two, of which the second may not be wanted.
    fn split(&mut self, level: u32, node: usize, at: usize, odd: Option<usize>, clients: &mut [Vec<u64>]) {
        let (modulus, common) = (Ring::get().modulus(), Common::get());
        let number = nodes_before(self.tree.leaves, level) + node;
        let digits = &self.tree.digits[(self.block * SPLITS + number) * NODE..][..NODE];
        let (factors, eighth) = common.odd(level);
        let run = if eighth { BLOCK / 8 } else { BLOCK };
        let factors = &factors[self.block * run..][..run];
        let count = self.keys.len().div_ceil(2);
        for (pair, clients) in clients.chunks_mut(2).enumerate() {
            let [first, second] = &mut self.switched;
            key_products(modulus, [first, second], digits, &self.pairs[level as usize * count + pair]);
            for (nodes, switched) in clients.iter_mut().zip(&mut self.switched) {
                let (here, behind) = nodes[at * BLOCK..].split_at_mut(BLOCK);
                common.substitution(level).block_into(here, &mut self.image);
                add(modulus, switched, &self.image);
                let odd = odd.map(|odd| &mut behind[(odd - at - 1) * BLOCK..][..BLOCK]);
                match odd {
                    Some(odd) => halves(modulus, here, odd, switched, factors),
                    None => add(modulus, here, switched),
                }
            }
        }
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
