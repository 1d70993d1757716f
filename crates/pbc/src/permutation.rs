//! A keyed permutation of a small domain, in two ways: fast, and in constant time.

use crate::hash::{KeyedHash, reduce};
use crate::oblivious::look_up;

/// Rounds, even. Luby and Rackoff need four for a domain too large to be enumerated; small ones need more, and ten are
/// what the FFX family of format-preserving encryption takes.
const ROUNDS: usize = 10;

/// A permutation of `0..size` by a generalised Feistel network (Black and Rogaway, "Ciphers with arbitrary finite
/// domains", 2002): numbers are pairs `(l, r)` with `l < rows` and `r < columns`, and rounds add to `l` a function of
/// `r` modulo `rows`, then to `r` a function of `l` modulo `columns`. A result beyond the domain is put in again until
/// one is within (cycle walking). There are `rows * columns - size` numbers beyond it, each of which a walk comes to once at
/// most, so that one step more than that is always enough; of the numbers from the root of `size` on to a quarter more,
/// `columns` is the first for which there are fewest.
///
/// The round functions are tables of uniform numbers, drawn from SHA-256 under the key: random functions as far as
/// anyone can tell, at the cost of `5 (rows + columns)` numbers, about `10 sqrt(size)`, when the permutation is made. In
/// constant time every look-up reads a whole table.
#[derive(Clone)]
pub(crate) struct Permutation {
    size: u32,
    columns: Divisor,
    rows: u32,
    /// Numbers beyond the domain.
    beyond: u32,
    /// Alternately of `columns` numbers below `rows` and of `rows` numbers below `columns`.
    tables: Vec<Vec<u32>>,
}

impl Permutation {
    /// The permutation of this name under the key of the hash.
    pub(crate) fn new(size: u32, hash: &KeyedHash, name: &[u8]) -> Self {
        // The root's successor at most, which has 17 bits.
        let root = (f64::from(size).sqrt().ceil() as u32).max(1);
        let beyond = |columns: u32| {
            let places = u64::from(size.div_ceil(columns)) * u64::from(columns);
            // Less than `columns`.
            (places - u64::from(size)) as u32
        };
        let columns = (root..=root + root / 4).min_by_key(|columns| beyond(*columns)).unwrap_or(root);
        let (rows, beyond) = (size.div_ceil(columns).max(1), beyond(columns));
        let mut words = hash.words(name);
        let mut table = |entries: u32, bound: u32| -> Vec<u32> {
            words.by_ref().filter_map(|word| reduce(word, bound)).take(entries as usize).collect()
        };
        let tables = (0..ROUNDS).map(|round| match round % 2 {
            0 => table(columns, rows),
            _ => table(rows, columns),
        });
        let tables = tables.collect();
        Self { size, columns: Divisor::new(columns), rows, beyond, tables }
    }

    /// Where `number` goes; a number beyond the domain stays. How long it takes, and which memory is read, depends on the
    /// number.
    pub(crate) fn forward_vartime(&self, number: u32) -> u32 {
        self.walk(number, Self::forward_once)
    }

    /// The same of a number within the domain, in constant time.
    pub(crate) fn forward(&self, number: u32) -> u32 {
        let mut walked = self.forward_once_constant(number.into());
        for _ in 0..self.beyond {
            let again = self.forward_once_constant(walked);
            // All ones if it is within; both have less than 34 bits.
            let within = (walked.wrapping_sub(self.size.into()) as i64 >> 63) as u64;
            walked = (walked & within) | (again & !within);
        }
        // Below `size`.
        walked as u32
    }

    fn forward_once_constant(&self, number: u64) -> u64 {
        let (mut l, mut r) = self.columns.divide(number);
        for (round, table) in self.tables.iter().enumerate() {
            match round % 2 {
                0 => l = add(l, look_up(table, r), self.rows),
                _ => r = add(r, look_up(table, l), self.columns.divisor),
            }
        }
        self.joined(l, r)
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
                _ => r = add(r, table[l as usize], self.columns.divisor),
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
                _ => r = add(r, self.columns.divisor - table[l as usize], self.columns.divisor),
            }
        }
        self.joined(l, r)
    }

    const fn split(&self, number: u64) -> (u32, u32) {
        // Below `rows * columns`, so both fit.
        ((number / self.columns.divisor as u64) as u32, (number % self.columns.divisor as u64) as u32)
    }

    const fn joined(&self, l: u32, r: u32) -> u64 {
        l as u64 * self.columns.divisor as u64 + r as u64
    }
}

/// Both below the bound, or the second equal to it; the bound has less than 18 bits.
const fn add(a: u32, b: u32, bound: u32) -> u32 {
    let less = (a + b).wrapping_sub(bound);
    // Negative if the sum is below the bound: without a branch.
    less.wrapping_add(bound & (less as i32 >> 31) as u32)
}

/// Divides by a public number in constant time, which the machine's own division does not on every processor.
#[derive(Clone, Copy)]
pub(crate) struct Divisor {
    divisor: u32,
    /// `floor(2^64 / divisor) + 1`.
    reciprocal: u128,
}

impl Divisor {
    /// The divisor is not 0.
    pub(crate) fn new(divisor: u32) -> Self {
        Self { divisor, reciprocal: (1 << 64) / u128::from(divisor.max(1)) + 1 }
    }

    /// Quotient and remainder of a number below `2^34`, if the divisor has at most 30 bits: the reciprocal times the divisor
    /// exceeds `2^64` by `e`, at most the divisor, and the quotient is exact as long as the number times `e` is below `2^64`.
    pub(crate) fn divide(self, number: u64) -> (u32, u32) {
        let quotient = ((u128::from(number) * self.reciprocal) >> 64) as u64;
        // Both have 32 bits for what is divided here.
        (quotient as u32, (number - quotient * u64::from(self.divisor)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{Divisor, Permutation};
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
                let image = permutation.forward_vartime(number);
                assert_eq!(permutation.forward(number), image);
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
                let image = permutation.forward_vartime(number);
                assert_eq!(permutation.forward(number), image);
                assert!(image < size);
                assert_eq!(permutation.backward(image), number);
            }
        }
        assert_eq!(permutation(10, b"one").forward_vartime(10), 10);
    }

    /// Few numbers are beyond the domain, for each of which constant time costs another pass; and the two halves are about as
    /// large, without which ten rounds would not be enough.
    #[test]
    fn the_domain_is_nearly_a_square() {
        let mut most = 0;
        for size in (1..20_000).chain([270_336, 3 * 270_336 / 36 * 12, 1 << 24, u32::MAX]) {
            let Permutation { columns, rows, beyond, .. } = permutation(size, b"one");
            let (columns, rows) = (columns.divisor, rows);
            assert_eq!(u64::from(columns) * u64::from(rows), u64::from(size) + u64::from(beyond));
            assert!(beyond < columns && f64::from(columns) <= 1.6 * f64::from(rows) + 2.0, "{size}");
            most = most.max(if size > 4_000 { beyond } else { 0 });
        }
        assert_eq!(most, 19);
    }

    #[test]
    fn division_by_a_reciprocal_is_exact() {
        for divisor in (1..300).chain([511, 512, 513, 65_535, 65_536, 131_071, 131_072, (1 << 30) - 1]) {
            let of = Divisor::new(divisor);
            let (end, divisor) = (1_u64 << 34, u64::from(divisor));
            for multiple in [0, 1, 2, 1000, 8191, (end - 1) / divisor] {
                for number in [-1, 0, 1].map(|step| (multiple * divisor).saturating_add_signed(step)) {
                    if number < end.min(divisor << 32) {
                        let expected = ((number / divisor) as u32, (number % divisor) as u32);
                        assert_eq!(of.divide(number), expected, "{number} / {divisor}");
                    }
                }
            }
        }
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
