//! Polynomials in residue-number form, with the representation as a type.

use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

use zeroize::Zeroize;

use super::kernel;
use super::modulus::{Modulus, ShoupFactor};
use super::ntt::Ntt;
use crate::Error;

/// How a polynomial is represented: [`Coefficient`] or [`Evaluation`].
pub trait Form: private::Sealed + Copy + fmt::Debug + Send + Sync + 'static {}

/// By its N coefficients, lowest power first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coefficient {}

/// By its N values in the order documented at [`Ntt`]; products are slotwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {}

impl Form for Coefficient {}
impl Form for Evaluation {}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Coefficient {}
    impl Sealed for super::Evaluation {}
}

/// Distinct primes `q_0, q_1, ...` and their transforms; the modulus is their product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    degree: usize,
    transforms: Vec<Arc<Ntt>>,
}

impl Basis {
    /// The basis of the given primes for degree `degree`.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no prime, a prime is repeated, or [`Ntt::new`] refuses one.
    pub fn new(degree: usize, primes: &[u64]) -> Result<Self, Error> {
        if primes.is_empty() || (1..primes.len()).any(|i| primes[..i].contains(&primes[i])) {
            return Err(Error::Shape("primes of a basis are not distinct"));
        }
        let transforms = primes
            .iter()
            .map(|prime| Ok(Arc::new(Ntt::new(Modulus::new(*prime)?, degree)?)))
            .collect::<Result<_, Error>>()?;
        Ok(Self { degree, transforms })
    }

    /// The basis of the first `count` primes, sharing their tables.
    ///
    /// # Panics
    /// If `count` is 0 or above the number of primes.
    #[must_use]
    pub fn prefix(&self, count: usize) -> Self {
        assert!(count > 0, "a basis has a prime");
        Self { degree: self.degree, transforms: self.transforms[..count].to_vec() }
    }

    /// The degree N.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// The transforms, one per prime.
    #[must_use]
    pub fn transforms(&self) -> &[Arc<Ntt>] {
        &self.transforms
    }

    /// The primes.
    pub fn moduli(&self) -> impl ExactSizeIterator<Item = &Modulus> + Clone {
        self.transforms.iter().map(|ntt| ntt.modulus())
    }

    /// Length of the product of the primes, bits (not rounded up).
    #[must_use]
    pub fn log2(&self) -> f64 {
        self.moduli().map(|modulus| (modulus.value() as f64).log2()).sum()
    }
}

/// One polynomial: for each prime, N residues in `[0, q_i)`.
///
/// Operations take the basis the polynomial was made over; another number of primes or degree panics.
#[derive(Clone, PartialEq, Eq)]
pub struct Polynomial<F: Form> {
    degree: usize,
    residues: Vec<u64>,
    form: PhantomData<F>,
}

impl<F: Form> fmt::Debug for Polynomial<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polynomial")
            .field("degree", &self.degree)
            .field("primes", &(self.residues.len() / self.degree))
            .finish_non_exhaustive()
    }
}

impl<F: Form> Zeroize for Polynomial<F> {
    fn zeroize(&mut self) {
        self.residues.zeroize();
    }
}

impl<F: Form> Polynomial<F> {
    /// The zero polynomial.
    #[must_use]
    pub fn zero(basis: &Basis) -> Self {
        Self::from_residues(basis, vec![0; basis.degree * basis.transforms.len()])
    }

    /// From residues, prime by prime, each already below its prime.
    ///
    /// # Panics
    /// If there are not N residues per prime.
    #[must_use]
    pub fn from_residues(basis: &Basis, residues: Vec<u64>) -> Self {
        assert_eq!(residues.len(), basis.degree * basis.transforms.len(), "N residues per prime");
        Self { degree: basis.degree, residues, form: PhantomData }
    }

    /// All residues, prime by prime.
    #[must_use]
    pub fn residues(&self) -> &[u64] {
        &self.residues
    }

    /// The N residues modulo prime `i`.
    #[must_use]
    pub fn channel(&self, i: usize) -> &[u64] {
        &self.residues[i * self.degree..(i + 1) * self.degree]
    }

    /// The N residues modulo prime `i`; what is written must be below the prime.
    pub fn channel_mut(&mut self, i: usize) -> &mut [u64] {
        &mut self.residues[i * self.degree..(i + 1) * self.degree]
    }

    /// `self + other`.
    pub fn add_assign(&mut self, basis: &Basis, other: &Self) {
        self.each(basis, |ntt, i, channel| kernel::add(ntt.modulus(), channel, other.channel(i)));
    }

    /// `self - other`.
    pub fn sub_assign(&mut self, basis: &Basis, other: &Self) {
        self.each(basis, |ntt, i, channel| kernel::subtract(ntt.modulus(), channel, other.channel(i)));
    }

    /// `factor * self`, the factor given by its residues.
    pub fn scale(&mut self, basis: &Basis, factors: &[ShoupFactor]) {
        assert_eq!(factors.len(), basis.transforms.len(), "one factor per prime");
        self.each(basis, |ntt, i, channel| kernel::scale(ntt.modulus(), channel, factors[i]));
    }

    fn each(&mut self, basis: &Basis, mut operation: impl FnMut(&Ntt, usize, &mut [u64])) {
        assert_eq!(self.residues.len(), basis.degree * basis.transforms.len(), "polynomial of another basis");
        for (i, (channel, ntt)) in
            self.residues.chunks_exact_mut(self.degree).zip(&basis.transforms).enumerate()
        {
            operation(ntt, i, channel);
        }
    }

    fn with_form<G: Form>(self) -> Polynomial<G> {
        Polynomial { degree: self.degree, residues: self.residues, form: PhantomData }
    }
}

impl Polynomial<Coefficient> {
    /// From N signed coefficients.
    ///
    /// # Panics
    /// If there are not N.
    #[must_use]
    pub fn from_signed(basis: &Basis, coefficients: &[i64]) -> Self {
        let residues = basis
            .moduli()
            .flat_map(|modulus| coefficients.iter().map(|coefficient| modulus.from_signed(*coefficient)))
            .collect();
        Self::from_residues(basis, residues)
    }

    /// Transforms to evaluation form.
    #[must_use]
    pub fn into_evaluation(mut self, basis: &Basis) -> Polynomial<Evaluation> {
        self.each(basis, |ntt, _, channel| ntt.forward(channel));
        self.with_form()
    }
}

impl Polynomial<Evaluation> {
    /// Transforms to coefficient form.
    #[must_use]
    pub fn into_coefficient(mut self, basis: &Basis) -> Polynomial<Coefficient> {
        self.each(basis, |ntt, _, channel| ntt.inverse(channel));
        self.with_form()
    }

    /// `self * other`, slotwise.
    pub fn mul_assign(&mut self, basis: &Basis, other: &Self) {
        self.each(basis, |ntt, i, channel| kernel::multiply(ntt.modulus(), channel, other.channel(i)));
    }
}
