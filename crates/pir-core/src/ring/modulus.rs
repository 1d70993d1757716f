//! Arithmetic modulo a prime below 2^50.

use crate::Error;

/// Every modulus is below `2^MAXIMUM_BITS`.
pub const MAXIMUM_BITS: u32 = 50;

/// A prime `q` with `2^(bits-1) < q < 2^bits`, `bits <= 50`, and its Barrett constant.
///
/// Operands and results are residues in `[0, q)` unless a method says otherwise. Nothing here branches on an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulus {
    value: u64,
    bits: u32,
    /// `floor(2^(64 + bits - 1) / q)`, below 2^64 since `q > 2^(bits-1)`.
    barrett: u64,
    /// 1, 2^52 and 2^104 modulo q: the weights of the parts of a sum that is kept in 52-bit words.
    powers: [ShoupFactor; 3],
}

/// A fixed factor `w` and `floor(w 2^64 / q)`: multiplication by it costs one high and two low products (Shoup).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ShoupFactor {
    /// The factor, in `[0, q)`.
    pub value: u64,
    /// `floor(value * 2^64 / q)`.
    pub quotient: u64,
}

impl ShoupFactor {
    fn new(value: u64, modulus: u128) -> Self {
        Self { value, quotient: ((u128::from(value) << 64) / modulus) as u64 }
    }
}

impl Modulus {
    /// Accepts an odd prime below 2^50.
    ///
    /// # Errors
    /// [`Error::Shape`] for anything else.
    pub fn new(value: u64) -> Result<Self, Error> {
        if !(3..1 << MAXIMUM_BITS).contains(&value) || !is_prime(value) {
            return Err(Error::Shape("modulus is not an odd prime below 2^50"));
        }
        let bits = u64::BITS - value.leading_zeros();
        let barrett = ((1u128 << (64 + bits - 1)) / u128::from(value)) as u64;
        let modulus = u128::from(value);
        let powers = [1, 1 << 52, 1 << 104].map(|x: u128| ShoupFactor::new((x % modulus) as u64, modulus));
        Ok(Self { value, bits, barrett, powers })
    }

    /// The prime.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Its length in bits.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    pub(super) fn powers(&self) -> [ShoupFactor; 3] {
        self.powers
    }

    /// `a + b mod q`.
    #[inline]
    #[must_use]
    pub fn add(&self, a: u64, b: u64) -> u64 {
        self.reduce_once(a.wrapping_add(b))
    }

    /// `a - b mod q`.
    #[inline]
    #[must_use]
    pub fn sub(&self, a: u64, b: u64) -> u64 {
        self.reduce_once(a.wrapping_add(self.value).wrapping_sub(b))
    }

    /// `-a mod q`.
    #[inline]
    #[must_use]
    pub fn neg(&self, a: u64) -> u64 {
        self.reduce_once(self.value.wrapping_sub(a))
    }

    /// `a * b mod q`.
    #[inline]
    #[must_use]
    pub fn mul(&self, a: u64, b: u64) -> u64 {
        self.reduce(u128::from(a) * u128::from(b))
    }

    /// `x mod q` for `x < 2q`.
    #[inline]
    #[must_use]
    pub fn reduce_once(&self, x: u64) -> u64 {
        x.min(x.wrapping_sub(self.value))
    }

    /// `x mod q` for `x < 2^(63 + bits)`, that is for sums of up to `2^(63 - bits)` products of residues.
    ///
    /// With `s = bits - 1`, `y = floor(x / 2^s)` and `mu = floor(2^(64+s) / q)`, the estimate `floor(y mu / 2^64)` of
    /// `floor(x / q)` is at most 2 too small: truncating `y`, `mu` and the product loses less than 1 each.
    #[inline]
    #[must_use]
    pub fn reduce(&self, x: u128) -> u64 {
        let shifted = (x >> (self.bits - 1)) as u64;
        let quotient = high_product(shifted, self.barrett);
        let remainder = (x as u64).wrapping_sub(quotient.wrapping_mul(self.value));
        self.reduce_once(self.reduce_once_by(remainder, self.value << 1))
    }

    #[inline]
    fn reduce_once_by(&self, x: u64, multiple: u64) -> u64 {
        x.min(x.wrapping_sub(multiple))
    }

    /// The residue of a signed integer of any size.
    #[inline]
    #[must_use]
    pub fn from_signed(&self, x: i64) -> u64 {
        let magnitude = self.reduce(u128::from(x.unsigned_abs()));
        let mask = (x >> 63) as u64;
        (magnitude & !mask) | (self.neg(magnitude) & mask)
    }

    /// The representative of a residue in `(-q/2, q/2)`.
    #[inline]
    #[must_use]
    pub fn centre(&self, x: u64) -> i64 {
        let above = (self.value >> 1).wrapping_sub(x) as i64 >> 63;
        (x as i64) - (self.value as i64 & above)
    }

    /// `base^exponent mod q`; the time depends on the exponent.
    #[must_use]
    pub fn pow_vartime(&self, base: u64, mut exponent: u64) -> u64 {
        let (mut result, mut square) = (1, base);
        while exponent != 0 {
            if exponent & 1 == 1 {
                result = self.mul(result, square);
            }
            square = self.mul(square, square);
            exponent >>= 1;
        }
        result
    }

    /// The inverse of a non-zero residue (and 0 for 0), by Fermat's theorem.
    #[must_use]
    pub fn inverse(&self, x: u64) -> u64 {
        self.pow_vartime(x, self.value - 2)
    }

    /// Prepares a residue for repeated multiplication.
    #[must_use]
    pub fn shoup(&self, value: u64) -> ShoupFactor {
        ShoupFactor::new(value, u128::from(self.value))
    }

    /// `x * factor mod q` in `[0, 2q)`, for any `x`.
    #[inline]
    #[must_use]
    pub fn mul_shoup_lazy(&self, x: u64, factor: ShoupFactor) -> u64 {
        let quotient = high_product(x, factor.quotient);
        x.wrapping_mul(factor.value).wrapping_sub(quotient.wrapping_mul(self.value))
    }

    /// `x * factor mod q`, for any `x`.
    #[inline]
    #[must_use]
    pub fn mul_shoup(&self, x: u64, factor: ShoupFactor) -> u64 {
        self.reduce_once(self.mul_shoup_lazy(x, factor))
    }
}

#[inline]
fn high_product(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// Miller-Rabin with the first twelve primes as bases, exact below 3.3 * 10^24; on public values only.
fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    if let Some(base) = BASES.into_iter().find(|base| n.is_multiple_of(*base)) {
        return n == base;
    }
    let mul = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(n)) as u64;
    let twos = (n - 1).trailing_zeros();
    BASES.into_iter().all(|base| {
        let (mut power, mut square, mut exponent) = (1, base, (n - 1) >> twos);
        while exponent != 0 {
            if exponent & 1 == 1 {
                power = mul(power, square);
            }
            square = mul(square, square);
            exponent >>= 1;
        }
        let mut witness = power != 1 && power != n - 1;
        for _ in 1..twos {
            power = mul(power, power);
            witness &= power != n - 1;
        }
        !witness
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Modulus, is_prime};

    const PRIMES: [u64; 5] = [3, 40961, 68_718_428_161, 137_438_691_329, 1_125_899_906_629_633];

    fn moduli() -> impl Iterator<Item = Modulus> {
        PRIMES.into_iter().filter(|value| is_prime(*value)).map(|value| Modulus::new(value).unwrap())
    }

    #[test]
    fn composites_and_long_primes_are_refused() {
        // 252,601 is 41 * 61 * 101, and passes Fermat's test with every base that has none of these factors.
        for value in [0, 1, 2, 4, 9, 561, 252_601, 3_215_031_751, (1 << 50) - 1, (1 << 61) - 1, u64::MAX] {
            assert!(Modulus::new(value).is_err(), "{value}");
        }
        let sieve: Vec<u64> = (2..1000u64).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
        assert_eq!(sieve, (0..1000).filter(|n| is_prime(*n)).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn lazy_arithmetic_is_never_off_by_a_multiple_of_the_modulus(a in any::<u64>(), b in any::<u64>(), wide in any::<u128>()) {
            for modulus in moduli() {
                let q = modulus.value();
                let (x, y) = (a % q, b % q);
                let exact = |value: u128| (value % u128::from(q)) as u64;
                prop_assert_eq!(modulus.add(x, y), exact(u128::from(x) + u128::from(y)));
                prop_assert_eq!(modulus.sub(x, y), exact(u128::from(x) + u128::from(q) - u128::from(y)));
                prop_assert_eq!(modulus.mul(x, y), exact(u128::from(x) * u128::from(y)));
                prop_assert_eq!(modulus.neg(x), exact(u128::from(q) - u128::from(x)));
                let wide = wide >> (128 - 63 - modulus.bits());
                prop_assert_eq!(modulus.reduce(wide), exact(wide));
                prop_assert_eq!(modulus.mul_shoup(a, modulus.shoup(y)), exact(u128::from(a) * u128::from(y)));
                prop_assert_eq!(modulus.from_signed(modulus.centre(x)), x);
                prop_assert_eq!(i128::from(modulus.from_signed(a as i64)), i128::from(a as i64).rem_euclid(i128::from(q)));
                if x != 0 {
                    prop_assert_eq!(modulus.mul(x, modulus.inverse(x)), 1);
                }
            }
        }
    }

    #[test]
    fn reduction_holds_at_the_edges_of_its_range() {
        for modulus in moduli() {
            let q = u128::from(modulus.value());
            let top = (1u128 << (63 + modulus.bits())) - 1;
            for x in [
                0,
                1,
                q - 1,
                q,
                q + 1,
                2 * q - 1,
                2 * q,
                3 * q,
                q * q - 1,
                top - 1,
                top,
                top / q * q,
                top / q * q - 1,
            ] {
                assert_eq!(u128::from(modulus.reduce(x)), x % q);
            }
        }
    }
}
