//! Arithmetic modulo the paper's prime `q = 2^60 - 2^18 + 1`, in plain Rust and for this prime alone.
//!
//! Transforms are Harvey's lazy ones: values stay below 4q, which is below 2^62. Products are reduced by the shape of the
//! prime, `2^60 = 2^18 - 1` modulo q. No branch depends on a value.

use std::sync::LazyLock;

use pir_core::bfv::Ciphertext;
use pir_core::ring::{Coefficient, Evaluation, Form, Polynomial, bit_reverse};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// The prime.
pub(super) const Q: u64 = (1 << 60) - (1 << 18) + 1;

/// Bits of the prime.
pub(super) const Q_BITS: u32 = 60;

/// The degree N.
pub(super) const DEGREE: usize = 2048;

/// What `2^60` is modulo q.
const FOLD: u128 = (1 << 18) - 1;

/// Products of residues whose sum 128 bits hold together with one more residue.
const TERMS: usize = 128;

/// Slots that are multiplied together, so that their selectors stay in the cache while all columns meet them.
const BLOCK: usize = 64;

/// A factor `w` and `floor(w 2^64 / q)`.
#[derive(Clone, Copy, Default)]
struct Factor {
    value: u64,
    quotient: u64,
}

impl Factor {
    fn new(value: u64) -> Self {
        Self { value, quotient: ((u128::from(value) << 64) / u128::from(Q)) as u64 }
    }

    /// `x w` modulo q, in `[0, 2q)`, for any `x`.
    #[inline]
    fn mul_lazy(self, x: u64) -> u64 {
        let quotient = ((u128::from(x) * u128::from(self.quotient)) >> 64) as u64;
        x.wrapping_mul(self.value).wrapping_sub(quotient.wrapping_mul(Q))
    }
}

/// Roots of unity: entry i holds `psi^br(i)`, or its inverse.
struct Tables {
    forward: Vec<Factor>,
    inverse: Vec<Factor>,
    /// `N^-1`.
    scale: Factor,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let psi = primitive_root();
    let powers = |root: u64| {
        let mut table = vec![Factor::default(); DEGREE];
        let mut power = 1;
        for i in 0..DEGREE {
            table[bit_reverse(i, DEGREE.ilog2())] = Factor::new(power);
            power = mul(power, root);
        }
        table
    };
    Tables { forward: powers(psi), inverse: powers(inverse(psi)), scale: Factor::new(inverse(DEGREE as u64)) }
});

/// A primitive 2N-th root of unity.
fn primitive_root() -> u64 {
    let order = 2 * DEGREE as u64;
    // Its N-th power is a square root of 1 other than 1 exactly if the candidate is no square.
    let candidates = (2..).map(|base| pow(base, (Q - 1) / order));
    candidates.into_iter().find(|root| pow(*root, DEGREE as u64) == Q - 1).unwrap_or(1)
}

/// `x - q` if that is not negative, for `x < 2q`.
#[inline]
fn reduce_once(x: u64) -> u64 {
    x.min(x.wrapping_sub(Q))
}

/// `x mod q` for any `x`.
#[inline]
pub(super) fn reduce(x: u128) -> u64 {
    const LOW: u128 = (1 << Q_BITS) - 1;
    // Below 2^87, then below 2^46 + 2^60.
    let once = (x >> Q_BITS) * FOLD + (x & LOW);
    let twice = (once >> Q_BITS) * FOLD + (once & LOW);
    reduce_once(twice as u64)
}

/// `a + b mod q`.
#[inline]
pub(super) fn add(a: u64, b: u64) -> u64 {
    reduce_once(a + b)
}

/// `a - b mod q`.
#[inline]
pub(super) fn sub(a: u64, b: u64) -> u64 {
    reduce_once(a + Q - b)
}

/// `a b mod q`.
#[inline]
pub(super) fn mul(a: u64, b: u64) -> u64 {
    reduce(u128::from(a) * u128::from(b))
}

/// The residue of a signed integer above `-q`.
#[inline]
pub(super) fn from_signed(x: i64) -> u64 {
    (x + (Q as i64 & x >> 63)) as u64
}

/// The representative in `(-q/2, q/2)`.
#[inline]
pub(super) fn centre(x: u64) -> i64 {
    x as i64 - (Q as i64 & ((Q / 2) as i64 - x as i64) >> 63)
}

/// `base^exponent mod q`; the time depends on the exponent.
fn pow(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1;
    while exponent != 0 {
        if exponent & 1 == 1 {
            result = mul(result, base);
        }
        base = mul(base, base);
        exponent >>= 1;
    }
    result
}

fn inverse(x: u64) -> u64 {
    pow(x, Q - 2)
}

/// To evaluation form, from values below 4q.
pub(super) fn forward(mut polynomial: Polynomial<Coefficient>) -> Polynomial<Evaluation> {
    let values = polynomial.residues_mut();
    let (mut groups, mut half) = (1, DEGREE / 2);
    while half > 0 {
        for (group, factor) in values.chunks_exact_mut(2 * half).zip(&TABLES.forward[groups..]) {
            let (low, high) = group.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                let (x, y) = ((*a).min(a.wrapping_sub(2 * Q)), factor.mul_lazy(*b));
                (*a, *b) = (x + y, x + 2 * Q - y);
            }
        }
        (groups, half) = (2 * groups, half / 2);
    }
    values.iter_mut().for_each(|x| *x = reduce_once((*x).min(x.wrapping_sub(2 * Q))));
    polynomial.reinterpret()
}

/// To coefficient form.
pub(super) fn backward(mut polynomial: Polynomial<Evaluation>) -> Polynomial<Coefficient> {
    let values = polynomial.residues_mut();
    let (mut groups, mut half) = (DEGREE / 2, 1);
    while groups > 0 {
        for (group, factor) in values.chunks_exact_mut(2 * half).zip(&TABLES.inverse[groups..]) {
            let (low, high) = group.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                let (x, y) = (*a, *b);
                let sum = x + y;
                (*a, *b) = (sum.min(sum.wrapping_sub(2 * Q)), factor.mul_lazy(x + 2 * Q - y));
            }
        }
        (groups, half) = (groups / 2, 2 * half);
    }
    values.iter_mut().for_each(|x| *x = reduce_once(TABLES.scale.mul_lazy(*x)));
    polynomial.reinterpret()
}

/// Both halves to evaluation form.
pub(super) fn forward_ciphertext(ciphertext: Ciphertext<Coefficient>) -> Ciphertext<Evaluation> {
    Ciphertext { c0: forward(ciphertext.c0), c1: forward(ciphertext.c1) }
}

/// Both halves to coefficient form.
pub(super) fn backward_ciphertext(ciphertext: Ciphertext<Evaluation>) -> Ciphertext<Coefficient> {
    Ciphertext { c0: backward(ciphertext.c0), c1: backward(ciphertext.c1) }
}

/// Combines two polynomials slot by slot, or coefficient by coefficient.
pub(super) fn zip<F: Form>(
    a: &Polynomial<F>,
    b: &Polynomial<F>,
    operation: fn(u64, u64) -> u64,
) -> Polynomial<F> {
    let pairs = a.residues().iter().zip(b.residues());
    Polynomial::from_residues(pairs.map(|(a, b)| operation(*a, *b)))
}

/// For every column, `sum_r selectors[r] * column[r]`, for both halves of the selectors.
pub(super) fn inner_products(
    selectors: &[Ciphertext<Evaluation>],
    columns: &[&[Polynomial<Evaluation>]],
) -> Vec<Ciphertext<Evaluation>> {
    let mut results = vec![Ciphertext::zero(DEGREE); columns.len()];
    for start in (0..DEGREE).step_by(BLOCK) {
        let block = start..start + BLOCK;
        for (column, result) in columns.iter().zip(&mut results) {
            let mut sums = [[0u128; BLOCK]; 2];
            for (selectors, plaintexts) in selectors.chunks(TERMS).zip(column.chunks(TERMS)) {
                for (selector, plaintext) in selectors.iter().zip(plaintexts) {
                    let plaintext = &plaintext.residues()[block.clone()];
                    for (sums, half) in sums.iter_mut().zip([&selector.c0, &selector.c1]) {
                        let terms = half.residues()[block.clone()].iter().zip(plaintext);
                        for (sum, (a, b)) in sums.iter_mut().zip(terms) {
                            *sum += u128::from(*a) * u128::from(*b);
                        }
                    }
                }
                sums.iter_mut().flatten().for_each(|sum| *sum = u128::from(reduce(*sum)));
            }
            for (sums, half) in sums.iter().zip([&mut result.c0, &mut result.c1]) {
                let places = half.residues_mut()[block.clone()].iter_mut();
                places.zip(sums).for_each(|(place, sum)| *place = *sum as u64);
            }
        }
    }
    results
}

/// A uniform polynomial: 8 bytes of the ChaCha20 keystream of (`seed`, `stream`) for each value, little-endian, their lowest
/// 60 bits kept, rejected unless below q.
pub(super) fn uniform<F: Form>(seed: &[u8; 32], stream: u64) -> Polynomial<F> {
    let mut generator = ChaCha20Rng::from_seed(*seed);
    generator.set_stream(stream);
    let candidates = core::iter::repeat_with(|| generator.next_u64() >> 4);
    Polynomial::from_residues(candidates.filter(|value| *value < Q).take(DEGREE))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    use super::{
        Ciphertext, Coefficient, DEGREE, Evaluation, Polynomial, Q, TABLES, add, backward, centre, forward,
        from_signed, inner_products, mul, pow, reduce, sub, uniform, zip,
    };

    proptest! {
        #[test]
        fn lazy_arithmetic_is_never_off_by_a_multiple_of_the_modulus(x in any::<u128>(), a in any::<u64>(), b in any::<u64>()) {
            let q = u128::from(Q);
            for x in [x, x >> 8, x % q, q, q - 1, 2 * q, q * q, u128::MAX, x / q * q, (x / q * q).wrapping_sub(1)] {
                prop_assert_eq!(u128::from(reduce(x)), x % q);
            }
            let (a, b) = (a % Q, b % Q);
            prop_assert_eq!(u128::from(add(a, b)), (u128::from(a) + u128::from(b)) % q);
            prop_assert_eq!(u128::from(sub(a, b)), (u128::from(a) + q - u128::from(b)) % q);
            prop_assert_eq!(u128::from(mul(a, b)), u128::from(a) * u128::from(b) % q);
            prop_assert_eq!(from_signed(centre(a)), a);
            prop_assert_eq!(centre(a).unsigned_abs() <= Q / 2, true);
        }
    }

    #[test]
    fn the_prime_is_the_papers_and_its_root_has_the_full_order() {
        assert_eq!(Q, 1_152_921_504_606_584_833);
        let psi = TABLES.forward[DEGREE / 2].value;
        assert_eq!(mul(psi, psi), TABLES.forward[DEGREE / 4].value);
        assert_eq!(pow(TABLES.forward[1].value, 2), Q - 1);
        // Fermat and, since 2^18 divides q - 1 and nothing here depends on more, an inverse for each of some residues.
        for x in [2, 3, 5, 7, Q - 1, Q / 3] {
            assert_eq!(mul(x, super::inverse(x)), 1);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn slotwise_products_are_negacyclic_products(seed in any::<[u8; 32]>(), shift in 0usize..DEGREE) {
            let a: Polynomial<Coefficient> = uniform(&seed, 0);
            prop_assert_eq!(backward(forward(a.clone())), a.clone());
            let mut lazy = a.clone();
            lazy.residues_mut().iter_mut().for_each(|x| *x += 3 * Q);
            prop_assert_eq!(forward(lazy), forward(a.clone()));
            // (2 + X^shift) a.
            let mut b = Polynomial::zero(DEGREE);
            b.residues_mut()[0] = 2;
            b.residues_mut()[shift] += 1;
            let product = backward(zip(&forward(a.clone()), &forward(b), mul));
            for (i, value) in product.residues().iter().enumerate() {
                let x = a.residues()[(i + DEGREE - shift) % DEGREE];
                let shifted = if i < shift { sub(0, x) } else { x };
                prop_assert_eq!(*value, add(mul(2, a.residues()[i]), shifted));
            }
        }
    }

    /// Sums that wrap around would go unseen with few rows.
    #[test]
    fn sums_of_the_largest_products_do_not_overflow() {
        let largest = Polynomial::<Evaluation>::from_residues([Q - 1; DEGREE]);
        let selectors = vec![Ciphertext { c0: largest.clone(), c1: largest.clone() }; 400];
        let column = vec![largest; 400];
        let results = inner_products(&selectors, &[&column, &column[..129]]);
        for (result, count) in results.iter().zip([400, 129]) {
            assert!([&result.c0, &result.c1].iter().all(|half| half.residues().iter().all(|x| *x == count)));
        }
    }
}
