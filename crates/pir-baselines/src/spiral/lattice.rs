//! Rings `Z_q[X]/(X^N + 1)` with q one prime or a product of two, and what is precomputed of them.
//!
//! A polynomial is a slice of `L N` residues, those of the first of the L primes first; several stand one behind the other.

use pir_core::bfv::Gadget;
use pir_core::ring::{
    Automorphism, Coefficient, Evaluation, Modulus, Ntt, Polynomial, Rescale, ShoupFactor, sampling, slots,
};

/// The degree N, the paper's.
pub(super) const DEGREE: usize = 2048;

/// Substitutions that expansions may need, log2 N.
pub(super) const LEVELS: usize = DEGREE.ilog2() as usize;

/// Several polynomials, or one, that begin at a cache line.
pub(super) type Words = Polynomial<Evaluation>;

/// Room for so many words.
pub(super) fn zeros(words: usize) -> Words {
    Polynomial::zero(words)
}

/// The ring of one modulus q.
pub(super) struct Ring {
    primes: Vec<Ntt>,
    /// q, at most 2^60.
    modulus: u64,
    /// The inverse of the first prime modulo the second, if there are two.
    inverse: Option<ShoupFactor>,
    automorphisms: Vec<Automorphism>,
    /// Prime by prime and level by level the slots of `X^-(2^level)`, or every eighth of them where eight neighbours agree.
    monomials: Vec<Vec<Vec<ShoupFactor>>>,
}

/// Scratch for sums of products, zeros between two uses.
pub(super) struct Sums([Words; 2]);

impl Default for Sums {
    fn default() -> Self {
        Self([zeros(DEGREE), zeros(DEGREE)])
    }
}

impl Sums {
    /// `out = sum of a b` modulo a prime.
    pub(super) fn sum(&mut self, modulus: &Modulus, out: &mut [u64], terms: &[(&[u64], &[u64])]) {
        let [low, high] = &mut self.0;
        slots::sum_of_products(modulus, out, [low.residues_mut(), high.residues_mut()], terms);
    }
}

impl Ring {
    fn new(primes: &[u64]) -> Self {
        let ring = |prime: &u64| {
            let ring = Modulus::new(*prime).and_then(|modulus| Ntt::new(modulus, DEGREE));
            ring.expect("the constants are primes 1 mod 2N")
        };
        let rings: Vec<Ntt> = primes.iter().map(ring).collect();
        let inverse = rings.get(1).map(|second| {
            let modulus = second.modulus();
            modulus.shoup(modulus.inverse(modulus.reduce(u128::from(primes[0]))))
        });
        Self {
            modulus: primes.iter().product(),
            inverse,
            automorphisms: (0..LEVELS).map(|j| Automorphism::new(DEGREE, (DEGREE >> j) + 1)).collect(),
            monomials: rings
                .iter()
                .map(|ring| (0..LEVELS).map(|j| inverse_monomial(ring, j)).collect())
                .collect(),
            primes: rings,
        }
    }

    /// The primes of q.
    pub(super) fn primes(&self) -> &[Ntt] {
        &self.primes
    }

    /// Words of a polynomial, L N.
    pub(super) fn words(&self) -> usize {
        self.primes.len() * DEGREE
    }

    /// q.
    pub(super) fn modulus(&self) -> u64 {
        self.modulus
    }

    /// Bits of q.
    pub(super) fn bits(&self) -> u32 {
        u64::BITS - self.modulus.leading_zeros()
    }

    /// Bits that a gadget drops of residues modulo q.
    pub(super) fn dropped_bits(&self, gadget: Gadget) -> u32 {
        self.bits().saturating_sub(gadget.digits * gadget.base_bits)
    }

    /// The weight of a gadget's digit.
    pub(super) fn weight(&self, gadget: Gadget, digit: u32) -> u64 {
        1 << (self.dropped_bits(gadget) + digit * gadget.base_bits)
    }

    /// Coefficients to evaluations, of one polynomial or of several.
    pub(super) fn forward(&self, words: &mut [u64]) {
        self.each(words, |ring, part| ring.forward(part));
    }

    /// Evaluations to coefficients.
    pub(super) fn inverse(&self, words: &mut [u64]) {
        self.each(words, |ring, part| ring.inverse(part));
    }

    fn each(&self, words: &mut [u64], apply: impl Fn(&Ntt, &mut [u64])) {
        let primes = self.primes.iter().cycle();
        words.chunks_exact_mut(DEGREE).zip(primes).for_each(|(part, ring)| apply(ring, part));
    }

    fn each_pair(&self, a: &mut [u64], b: &[u64], apply: impl Fn(&Modulus, &mut [u64], &[u64])) {
        assert_eq!(a.len(), b.len(), "as many polynomials");
        let parts = a.chunks_exact_mut(DEGREE).zip(b.chunks_exact(DEGREE));
        parts.zip(self.primes.iter().cycle()).for_each(|((a, b), ring)| apply(ring.modulus(), a, b));
    }

    /// `a = a + b`.
    pub(super) fn add(&self, a: &mut [u64], b: &[u64]) {
        self.each_pair(a, b, slots::add_assign);
    }

    /// `a = a - b`.
    pub(super) fn subtract(&self, a: &mut [u64], b: &[u64]) {
        self.each_pair(a, b, slots::sub_assign);
    }

    /// `a = a b`, slot by slot.
    pub(super) fn multiply(&self, a: &mut [u64], b: &[u64]) {
        self.each_pair(a, b, slots::mul_assign);
    }

    /// Multiplies by an integer.
    pub(super) fn scale(&self, words: &mut [u64], factor: u64) {
        self.each(words, |ring, part| {
            let modulus = ring.modulus();
            slots::scale_assign(modulus, part, modulus.shoup(modulus.reduce(u128::from(factor))));
        });
    }

    /// Multiplies by `2^-exponent` modulo q.
    pub(super) fn divide_by_power_of_two(&self, words: &mut [u64], exponent: u32) {
        self.each(words, |ring, part| {
            let modulus = ring.modulus();
            let inverse = modulus.inverse(modulus.pow_vartime(2, u64::from(exponent)));
            slots::scale_assign(modulus, part, modulus.shoup(inverse));
        });
    }

    /// A polynomial of small coefficients, in evaluation form.
    pub(super) fn small(&self, coefficients: &[i64]) -> Words {
        let mut words = zeros(self.words());
        for (ring, part) in self.primes.iter().zip(words.residues_mut().chunks_exact_mut(DEGREE)) {
            part.iter_mut().zip(coefficients).for_each(|(word, c)| *word = ring.modulus().from_signed(*c));
        }
        self.forward(words.residues_mut());
        words
    }

    /// A uniform polynomial, in the form in which it is taken to be: streams are numbered by polynomial and prime.
    pub(super) fn uniform(&self, seed: &[u8; 32], number: u64, words: &mut [u64]) {
        for (stream, (ring, part)) in
            (number * self.primes.len() as u64..).zip(self.primes.iter().zip(words.chunks_exact_mut(DEGREE)))
        {
            let polynomial: Polynomial<Coefficient> = sampling::uniform(ring, seed, stream);
            part.copy_from_slice(polynomial.residues());
        }
    }

    /// `X -> X^(N/2^level + 1)`, in evaluation form.
    pub(super) fn substitute(&self, level: usize, source: &[u64], out: &mut [u64]) {
        for (source, out) in source.chunks_exact(DEGREE).zip(out.chunks_exact_mut(DEGREE)) {
            self.automorphisms[level].slots_into(source, out);
        }
    }

    /// `odd = (a - b) X^-(2^level)`, then `a = a + b`.
    pub(super) fn halves(&self, level: usize, a: &mut [u64], odd: &mut [u64], b: &[u64]) {
        let parts = a.chunks_exact_mut(DEGREE).zip(odd.chunks_exact_mut(DEGREE)).zip(b.chunks_exact(DEGREE));
        for (((a, odd), b), (ring, monomials)) in parts.zip(self.primes.iter().zip(&self.monomials)) {
            slots::split_halves(ring.modulus(), a, odd, b, &monomials[level]);
        }
    }

    /// The residue modulo q of a coefficient.
    pub(super) fn compose(&self, polynomial: &[u64], at: usize) -> u64 {
        let first = polynomial[at];
        let (Some(ring), Some(inverse)) = (self.primes.get(1), self.inverse) else { return first };
        let modulus = ring.modulus();
        let rest = modulus.sub(polynomial[DEGREE + at], modulus.reduce(u128::from(first)));
        first + self.primes[0].modulus().value() * modulus.mul_shoup(rest, inverse)
    }

    /// Writes a residue modulo q to a coefficient.
    pub(super) fn put(&self, polynomial: &mut [u64], at: usize, value: u64) {
        for (ring, part) in self.primes.iter().zip(polynomial.chunks_exact_mut(DEGREE)) {
            part[at] = if self.inverse.is_some() { ring.modulus().reduce(u128::from(value)) } else { value };
        }
    }

    /// Digits of a polynomial in coefficient form, which is left with any content: prime by prime, those of `all` digits that
    /// stand there from `first` on, in evaluation form.
    pub(super) fn decompose(
        &self,
        gadget: Gadget,
        coefficients: &mut [u64],
        digits: &mut [u64],
        [first, all]: [usize; 2],
    ) {
        let count = gadget.digits as usize;
        if let [ring] = &self.primes[..] {
            gadget.decompose(ring, coefficients, &mut digits[first * DEGREE..(first + count) * DEGREE]);
            return;
        }
        let dropped = self.dropped_bits(gadget);
        let half_base = 1i64 << (gadget.base_bits - 1);
        let halves: i64 = (0..gadget.digits).map(|i| half_base << (dropped + i * gadget.base_bits)).sum();
        let offset = halves + (1i64 << dropped >> 1);
        let mask = (1i64 << gadget.base_bits) - 1;
        for at in 0..DEGREE {
            let residue = self.compose(coefficients, at);
            let above = ((self.modulus / 2).wrapping_sub(residue) as i64 >> 63) as u64;
            let raised = residue.wrapping_sub(self.modulus & above) as i64 + offset;
            for i in 0..count {
                let shifted = raised >> (dropped + i as u32 * gadget.base_bits);
                let digit = if i + 1 == count { shifted } else { shifted & mask } - half_base;
                for (prime, ring) in self.primes.iter().enumerate() {
                    // A digit is below the prime.
                    let residue = digit as u64;
                    let negative = ring.modulus().value() & (digit >> 63) as u64;
                    digits[(prime * all + first + i) * DEGREE + at] = residue.wrapping_add(negative);
                }
            }
        }
        for (prime, ring) in self.primes.iter().enumerate() {
            let here = (prime * all + first) * DEGREE..(prime * all + first + count) * DEGREE;
            digits[here].chunks_exact_mut(DEGREE).for_each(|digit| ring.forward(digit));
        }
    }

    /// `round(2^bits c / q) mod 2^bits` for every coefficient c, in the first N words.
    pub(super) fn round(&self, bits: u32, coefficients: &mut [u64]) {
        if let [ring] = &self.primes[..] {
            Rescale::new(ring.modulus(), 1 << bits).apply_all(coefficients);
            return;
        }
        let (q, mask) = (u128::from(self.modulus), (1 << bits) - 1);
        for at in 0..DEGREE {
            let scaled = (u128::from(self.compose(coefficients, at)) << bits) + q / 2;
            coefficients[at] = (scaled / q) as u64 & mask;
        }
    }
}

/// Slots of `X^-(2^level) = -X^(N - 2^level)`, or every eighth.
fn inverse_monomial(ring: &Ntt, level: usize) -> Vec<ShoupFactor> {
    let step = if level < 3 { 1 } else { 8 };
    let mut slots = vec![0; DEGREE];
    slots[DEGREE - (1 << level)] = ring.modulus().value() - 1;
    ring.forward(&mut slots);
    slots.into_iter().step_by(step).map(|slot| ring.modulus().shoup(slot)).collect()
}

/// The rings of a preset.
pub(super) struct Lattice {
    /// Modulo Q: what is encrypted, but for what is multiplied modulo q alone.
    pub(super) key: Ring,
    /// Modulo q: the database, what it is multiplied with, and folding. Of one prime below Q, or that of Q.
    pub(super) data: Ring,
    /// From Q to q.
    rescale: Option<Rescale>,
    /// A prime far above the coefficients of an answer times N.
    pub(super) exact: Ntt,
}

/// Of 50 and of 36 bits, both 1 modulo 2^14: those of [`pir_core::bfv::Parameters::s2048`].
const Q50: u64 = 1_125_899_906_826_241;
const Q36: u64 = 68_719_230_977;

/// The paper's, `2^28 - 2^16 + 1` and `2^28 - 2^24 - 2^21 + 1`.
const PAPER: [u64; 2] = [268_369_921, 249_561_089];

/// Of 30 bits, both 1 modulo 2^14, in place of one of 60, as in the second paper of OnionPIR.
const ONIONPIR: [u64; 2] = [1_073_692_673, 1_073_643_521];

impl Lattice {
    /// Q of 50 bits, and q of 36.
    pub(super) fn switching() -> Self {
        Self::new(&[Q50], &[Q36])
    }

    /// One prime of 50 bits.
    pub(super) fn of_one_prime() -> Self {
        Self::new(&[Q50], &[Q50])
    }

    /// The paper's 56 bits.
    pub(super) fn of_the_paper() -> Self {
        Self::new(&PAPER, &PAPER)
    }

    /// OnionPIR's 60 bits.
    pub(super) fn of_onionpir() -> Self {
        Self::new(&ONIONPIR, &ONIONPIR)
    }

    fn new(key: &[u64], data: &[u64]) -> Self {
        let (key_ring, data_ring, exact) = (Ring::new(key), Ring::new(data), Ring::new(&[Q50]));
        let rescale = (key != data).then(|| Rescale::new(key_ring.primes[0].modulus(), data_ring.modulus));
        Self { key: key_ring, data: data_ring, rescale, exact: exact.primes[0].clone() }
    }

    /// Whether q is another modulus than Q.
    pub(super) fn switches(&self) -> bool {
        self.rescale.is_some()
    }

    /// Polynomials modulo Q to ones modulo q, both in evaluation form.
    pub(super) fn switch(&self, words: &mut [u64]) {
        if let Some(rescale) = &self.rescale {
            self.key.inverse(words);
            rescale.apply_all(words);
            self.data.forward(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use pir_core::bfv::Gadget;

    use super::{DEGREE, Lattice, zeros};

    /// Digits that do not make up the residue would be noise that the measured one hides in places.
    #[test]
    fn digits_make_up_the_residue_but_for_what_is_dropped() {
        let all = [Lattice::switching, Lattice::of_one_prime, Lattice::of_the_paper, Lattice::of_onionpir];
        for lattice in all.map(|new| new()) {
            for ring in [&lattice.key, &lattice.data] {
                for gadget in [(2, 10), (3, 12), (12, 3), (10, 6), (4, 14), (28, 2), (56, 1), (7, 9), (9, 7)]
                {
                    let gadget = Gadget { digits: gadget.0, base_bits: gadget.1 };
                    // The highest digit may reach beyond the modulus, but not where one prime is split by itself.
                    let longest = if ring.primes().len() == 1 { ring.bits() } else { u64::BITS - 1 };
                    if gadget.digits * gadget.base_bits > longest
                        || (gadget.digits - 1) * gadget.base_bits >= ring.bits()
                        || (gadget.digits > 12 && ring.primes().len() == 1)
                    {
                        continue;
                    }
                    let (mut source, mut sum) = (zeros(ring.words()), zeros(ring.words()));
                    ring.uniform(&[3; 32], 5, source.residues_mut());
                    let count = gadget.digits as usize;
                    let mut digits = zeros((count + 2) * ring.words());
                    ring.decompose(
                        gadget,
                        source.clone().residues_mut(),
                        digits.residues_mut(),
                        [1, count + 2],
                    );
                    for digit in 0..count {
                        let mut term = zeros(ring.words());
                        for prime in 0..ring.primes().len() {
                            let at = (prime * (count + 2) + 1 + digit) * DEGREE;
                            term.residues_mut()[prime * DEGREE..][..DEGREE]
                                .copy_from_slice(&digits.residues()[at..at + DEGREE]);
                        }
                        ring.scale(term.residues_mut(), ring.weight(gadget, digit as u32));
                        ring.add(sum.residues_mut(), term.residues());
                    }
                    ring.inverse(sum.residues_mut());
                    ring.subtract(sum.residues_mut(), source.residues());
                    let most = 1u64 << ring.dropped_bits(gadget) >> 1;
                    for at in 0..DEGREE {
                        let error = ring.compose(sum.residues(), at);
                        assert!(error.min(ring.modulus() - error) <= most, "{gadget:?}: {error}");
                    }
                }
            }
        }
    }

    #[test]
    fn residues_of_two_primes_are_put_together_again() {
        for (ring, bits, modulus) in [
            // Just below 2^56 and 2^60.
            (Lattice::of_the_paper().key, 56, 268_369_921 * 249_561_089),
            (Lattice::of_onionpir().key, 60, 1_073_692_673 * 1_073_643_521),
        ] {
            assert_eq!((ring.bits(), ring.modulus()), (bits, modulus));
            let mut polynomial = zeros(ring.words());
            let first = ring.primes()[0].modulus().value();
            for (at, value) in
                [0, 1, modulus - 1, modulus / 2, first, 1 << (bits - 1)].into_iter().enumerate()
            {
                ring.put(polynomial.residues_mut(), at, value);
                assert_eq!(ring.compose(polynomial.residues(), at), value);
            }
            ring.round(4, polynomial.residues_mut());
            assert_eq!(polynomial.residues()[..4], [0, 0, 0, 8]);
        }
    }
}
