//! A keyed permutation of a small domain, computed in a constant expected number of steps. Not in constant time: which
//! table entries are read, and how often the cycle is walked, depends on the number.

use crate::hash::{KeyedHash, reduce};

/// Rounds, even. Luby and Rackoff need four for a domain too large to be enumerated; small ones need more, and ten are
/// what the FFX family of format-preserving encryption takes.
const ROUNDS: usize = 10;

/// A permutation of `0..size` by a generalised Feistel network (Black and Rogaway, "Ciphers with arbitrary finite
/// domains", 2002): numbers are pairs `(l, r)` with `l < rows` and `r < columns`, and rounds add to `l` a function of
/// `r` modulo `rows`, then to `r` a function of `l` modulo `columns`. A result beyond the domain is put in again until
/// one is within (cycle walking): `rows * columns` exceeds the domain by less than `columns`, so that this is rare.
///
/// The round functions are tables of uniform numbers, drawn from SHA-256 under the key: random functions as far as
/// anyone can tell, at the cost of `5 (rows + columns)` numbers, about `10 sqrt(size)`, when the permutation is made.
#[derive(Clone)]
pub(crate) struct Permutation {
    size: u32,
    columns: u32,
    rows: u32,
    /// Alternately of `columns` numbers below `rows` and of `rows` numbers below `columns`.
    tables: Vec<Vec<u32>>,
}

impl Permutation {
    /// The permutation of this name under the key of the hash.
    pub(crate) fn new(size: u32, hash: &KeyedHash, name: &[u8]) -> Self {
        // The root's successor at most, which has 17 bits.
        let columns = (f64::from(size).sqrt().ceil() as u32).max(1);
        let rows = size.div_ceil(columns).max(1);
        let mut words = hash.words(name);
        let mut table = |entries: u32, bound: u32| -> Vec<u32> {
            words.by_ref().filter_map(|word| reduce(word, bound)).take(entries as usize).collect()
        };
        let tables = (0..ROUNDS).map(|round| match round % 2 {
            0 => table(columns, rows),
            _ => table(rows, columns),
        });
        let tables = tables.collect();
        Self { size, columns, rows, tables }
    }

    /// Where `number` goes; a number beyond the domain stays.
    pub(crate) fn forward(&self, number: u32) -> u32 {
        self.walk(number, Self::forward_once)
    }

    /// What goes to `number`.
    #[cfg(test)]
    fn backward(&self, number: u32) -> u32 {
        self.walk(number, Self::backward_once)
    }

    fn walk(&self, number: u32, once: fn(&Self, u64) -> u64) -> u32 {
        if number >= self.size {
            return number;
        }
        let mut walked = once(self, number.into());
        while walked >= self.size.into() {
            walked = once(self, walked);
        }
        // Below `size`.
        walked as u32
    }

    fn forward_once(&self, number: u64) -> u64 {
        let (mut l, mut r) = self.split(number);
        for (round, table) in self.tables.iter().enumerate() {
            match round % 2 {
                0 => l = add(l, table[r as usize], self.rows),
                _ => r = add(r, table[l as usize], self.columns),
            }
        }
        self.joined(l, r)
    }

    #[cfg(test)]
    fn backward_once(&self, number: u64) -> u64 {
        let (mut l, mut r) = self.split(number);
        for (round, table) in self.tables.iter().enumerate().rev() {
            match round % 2 {
                0 => l = add(l, self.rows - table[r as usize], self.rows),
                _ => r = add(r, self.columns - table[l as usize], self.columns),
            }
        }
        self.joined(l, r)
    }

    const fn split(&self, number: u64) -> (u32, u32) {
        // Below `rows * columns`, so both fit.
        ((number / self.columns as u64) as u32, (number % self.columns as u64) as u32)
    }

    const fn joined(&self, l: u32, r: u32) -> u64 {
        l as u64 * self.columns as u64 + r as u64
    }
}

/// Both below the bound, or the second equal to it; the bound has less than 18 bits.
const fn add(a: u32, b: u32, bound: u32) -> u32 {
    let sum = a + b;
    if sum >= bound { sum - bound } else { sum }
}

#[cfg(test)]
mod tests {
    use super::Permutation;
    use crate::hash::{KeyedHash, domain};

    fn permutation(size: u32, name: &[u8]) -> Permutation {
        Permutation::new(size, &KeyedHash::new(&domain("test"), &[3; 32]), name)
    }

    /// Two indices in one slot would lose an element; every size has its own shape.
    #[test]
    fn every_number_is_hit_once() {
        for size in (1..300).chain([1_000, 1_023, 1_024, 1_025, 4_097, 65_537]) {
            let permutation = permutation(size, b"one");
            let mut hit = vec![false; size as usize];
            for number in 0..size {
                let image = permutation.forward(number);
                assert!(!core::mem::replace(&mut hit[image as usize], true), "{size}: {image} twice");
                assert_eq!(permutation.backward(image), number);
            }
        }
    }

    /// The largest domains must neither overflow nor be left.
    #[test]
    fn large_domains_are_permuted_both_ways() {
        for size in [u32::MAX, u32::MAX - 1, 1 << 31, 65_536 * 65_535] {
            let permutation = permutation(size, b"one");
            for number in [0, 1, size / 2, size - 2, size - 1] {
                let image = permutation.forward(number);
                assert!(image < size);
                assert_eq!(permutation.backward(image), number);
            }
        }
        assert_eq!(permutation(10, b"one").forward(10), 10);
    }

    /// Neighbours that stay together, or permutations that resemble each other, would make buckets collide.
    #[test]
    fn images_are_uniform_and_independent_of_the_name() {
        let (one, other) = (permutation(9_973, b"one"), permutation(9_973, b"two"));
        let mut pairs = vec![0_u32; 24 * 24];
        let mut steps = vec![0_u32; 24];
        for number in 0..9_973 {
            pairs[(one.forward(number) % 24 * 24 + other.forward(number) % 24) as usize] += 1;
            let next = one.forward((number + 1) % 9_973);
            steps[((next + 9_973 - one.forward(number)) % 9_973 % 24) as usize] += 1;
        }
        for counts in [pairs, steps] {
            let expected = 9_973.0 / counts.len() as f64;
            let chi: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
            let freedom = (counts.len() - 1) as f64;
            assert!((chi - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "{chi} for {freedom}");
        }
    }
}
