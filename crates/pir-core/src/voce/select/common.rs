//! What is the same for all rounds and clients: the public halves of keys, and powers of X.

use std::sync::LazyLock;

use super::GADGET;
use crate::ring::{Automorphism, Evaluation, Polynomial, ShoupFactor, sampling};
use crate::voce::ring::{DEGREE, Ring, derive};
use crate::voce::shape::LEVELS;

/// Buckets that can share a reply, and columns a pack: 2 to the power of it.
pub(super) const GROUP_LEVELS: u32 = 3;

/// Key after key, where they stand among the public halves and in what a client uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// From `s(X^5)` to s.
    Step,
    /// From `s(X^-1)` to s.
    Conjugation,
    /// From `s^2` to s.
    Square,
    /// From `s(X^(N/2^j + 1))` to s, in one digit.
    Separation(u32),
    /// The same for a digit of a level of the trees.
    Tree(u32, u32),
}

/// Number of keys.
pub(super) const KEYS: usize = (3 + GROUP_LEVELS + LEVELS * GADGET.digits) as usize;

impl Key {
    pub(super) const fn number(self) -> usize {
        (match self {
            Self::Step => 0,
            Self::Conjugation => 1,
            Self::Square => 2,
            Self::Separation(level) => 3 + level,
            Self::Tree(level, digit) => 3 + GROUP_LEVELS + level * GADGET.digits + digit,
        }) as usize
    }

    /// All of them, in order.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let tree =
            (0..LEVELS).flat_map(|level| (0..GADGET.digits).map(move |digit| Self::Tree(level, digit)));
        let separation = (0..GROUP_LEVELS).map(Self::Separation);
        [Self::Step, Self::Conjugation, Self::Square].into_iter().chain(separation).chain(tree)
    }
}

/// Tables, built once.
pub(super) struct Common {
    /// The public halves, in slots, key after key.
    halves: Vec<Polynomial<Evaluation>>,
    /// `X -> X^(N/2^j + 1)`.
    substitutions: Vec<Automorphism>,
    /// `X^-(2^j)` in slots, or in every eighth.
    odd: Vec<Vec<ShoupFactor>>,
    /// `X^-i` in slots.
    pub(super) columns: Vec<Vec<u64>>,
    /// `X^i` in slots.
    pub(super) powers: Vec<Vec<u64>>,
}

/// The seed of the public halves.
pub(in crate::voce) fn key_seed() -> [u8; 32] {
    derive("lasting keys", &[])
}

impl Common {
    pub(super) fn get() -> &'static Self {
        static COMMON: LazyLock<Common> = LazyLock::new(|| {
            let (ring, seed) = (Ring::get(), key_seed());
            let modulus = ring.modulus();
            let power = |exponent: usize| {
                let mut slots = vec![0; DEGREE];
                let (place, sign) = (exponent % DEGREE, exponent / DEGREE % 2);
                slots[place] = if sign == 1 { modulus.value() - 1 } else { 1 };
                ring.ntt.forward(&mut slots);
                slots
            };
            let odd = (0..LEVELS).map(|level| {
                let slots = power(2 * DEGREE - (1 << level));
                let eights = slots.as_chunks::<8>().0;
                let same = eights.iter().all(|eight| eight.iter().all(|slot| *slot == eight[0]));
                slots.iter().step_by(if same { 8 } else { 1 }).map(|slot| modulus.shoup(*slot)).collect()
            });
            Common {
                halves: (0..KEYS).map(|key| sampling::uniform(&ring.ntt, &seed, key as u64)).collect(),
                substitutions: (0..LEVELS).map(substitution).collect(),
                odd: odd.collect(),
                columns: (0..1 << GROUP_LEVELS).map(|i| power(2 * DEGREE - i)).collect(),
                powers: (0..1 << GROUP_LEVELS).map(power).collect(),
            }
        });
        &COMMON
    }

    /// The public half of a key.
    pub(super) fn half(&self, key: Key) -> &[u64] {
        self.halves[key.number()].residues()
    }

    /// `X -> X^(N/2^level + 1)`.
    pub(super) fn substitution(&self, level: u32) -> &Automorphism {
        &self.substitutions[level as usize]
    }

    /// `X^-(2^level)`, and whether that is the same in eight neighbouring slots, of which there is only one then.
    pub(super) fn odd(&self, level: u32) -> (&[ShoupFactor], bool) {
        let factors = &self.odd[level as usize];
        (factors, factors.len() < DEGREE)
    }
}

fn substitution(level: u32) -> Automorphism {
    Automorphism::in_orbit_order(DEGREE, (DEGREE >> level) + 1)
}
