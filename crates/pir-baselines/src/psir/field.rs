//! Arithmetic modulo a prime below 2^16.

use rand_core::Rng;

/// A prime p below 2^16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    p: u32,
    /// `floor(2^32 / p)`.
    inverse: u64,
}

impl Field {
    /// The field of the least prime that is not below `least`, at least 2.
    ///
    /// # Panics
    /// If that is not below 2^16.
    pub(super) fn from(least: usize) -> Self {
        let is_prime = |n: &u32| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
        let least = u32::try_from(least.max(2)).expect("below 2^16");
        let p = (least..1 << 16).find(is_prime).expect("a prime below 2^16");
        Self { p, inverse: (1 << 32) / u64::from(p) }
    }

    pub(super) fn p(&self) -> u32 {
        self.p
    }

    /// Bits of an element.
    pub(super) fn bits(&self) -> u32 {
        u32::BITS - (self.p - 1).leading_zeros()
    }

    /// `x mod p`: the estimate of the quotient is at most 1 too small.
    #[inline]
    fn reduce(&self, x: u32) -> u32 {
        let quotient = ((u64::from(x) * self.inverse) >> 32) as u32;
        let rest = x - quotient * self.p;
        rest.min(rest.wrapping_sub(self.p))
    }

    /// `a b + c` for a, b and c below p.
    #[inline]
    pub(super) fn multiply_add(&self, a: u32, b: u32, c: u32) -> u32 {
        self.reduce(a * b + c)
    }

    /// `-a` for a below p.
    pub(super) fn negative(&self, a: u32) -> u32 {
        self.reduce(self.p - a)
    }

    /// The values of polynomials, the constant term first, at 0, 1, ...: as many as there is room for.
    pub(super) fn evaluate(&self, coefficients: &[u32], values: &mut [u32]) {
        const LANES: usize = 16;
        for (block, values) in values.chunks_mut(LANES).enumerate() {
            let mut sums = [0; LANES];
            let points: [u32; LANES] =
                core::array::from_fn(|lane| self.reduce((block * LANES + lane) as u32));
            for coefficient in coefficients.iter().rev() {
                for (sum, point) in sums.iter_mut().zip(&points) {
                    *sum = self.multiply_add(*sum, *point, *coefficient);
                }
            }
            values.copy_from_slice(&sums[..values.len()]);
        }
    }

    /// An element drawn at random.
    pub(super) fn random(&self, rng: &mut impl Rng) -> u32 {
        let mask = u32::MAX >> (u32::BITS - self.bits());
        loop {
            let candidate = rng.next_u32() & mask;
            if candidate < self.p {
                return candidate;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Field;

    #[test]
    fn the_field_is_that_of_the_least_prime() {
        for (least, p) in [(0, 2), (2, 2), (4, 5), (128, 131), (256, 257), (512, 521), (65_521, 65_521)] {
            assert_eq!(Field::from(least).p(), p);
        }
        assert_eq!([2, 3, 257, 65_521].map(|p| Field::from(p).bits()), [1, 2, 9, 16]);
    }

    #[test]
    fn arithmetic_is_never_off_by_the_prime() {
        for field in [2, 3, 131, 257, 65_521].map(Field::from) {
            let p = field.p();
            let some = [0, 1, p / 2, p - 2, p - 1];
            for (a, b, c) in
                some.iter().flat_map(|a| some.iter().flat_map(move |b| some.map(|c| (*a, *b, c))))
            {
                let exact = (u64::from(a) * u64::from(b) + u64::from(c)) % u64::from(p);
                assert_eq!(u64::from(field.multiply_add(a, b, c)), exact);
            }
            assert!(some.iter().all(|a| (field.negative(*a) + a).is_multiple_of(p)));
        }
    }

    #[test]
    fn values_are_those_of_the_polynomial() {
        let field = Field::from(131);
        let coefficients: Vec<u32> = (0..24).map(|i| i * i * 37 % 131).collect();
        let mut values = vec![0; 131];
        field.evaluate(&coefficients, &mut values);
        for (x, value) in (0..).zip(values) {
            let powers = core::iter::successors(Some(1u64), |power| Some(power * x % 131));
            let sum: u64 = coefficients.iter().zip(powers).map(|(c, power)| u64::from(*c) * power).sum();
            assert_eq!(u64::from(value), sum % 131);
        }
    }
}
