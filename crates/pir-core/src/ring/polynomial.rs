//! Polynomials modulo one prime, with the representation as a type.

use core::fmt;
use core::marker::PhantomData;

use zeroize::Zeroize;

use super::aligned::Aligned;
use super::kernel;
use super::modulus::{Modulus, ShoupFactor};
use super::ntt::Ntt;

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

/// N residues in `[0, q)`.
///
/// Operations take the modulus or the tables of the ring the polynomial was made over; another degree panics.
#[derive(Clone, PartialEq, Eq)]
pub struct Polynomial<F: Form> {
    residues: Aligned<u64>,
    form: PhantomData<F>,
}

impl<F: Form> fmt::Debug for Polynomial<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polynomial").field("degree", &self.residues.len()).finish_non_exhaustive()
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
    pub fn zero(degree: usize) -> Self {
        Self::of(Aligned::filled(0, degree))
    }

    /// From residues, each already below the prime.
    #[must_use]
    pub fn from_residues(residues: impl IntoIterator<Item = u64>) -> Self {
        Self::of(residues.into_iter().collect())
    }

    fn of(residues: Aligned<u64>) -> Self {
        Self { residues, form: PhantomData }
    }

    /// The N residues.
    #[must_use]
    pub fn residues(&self) -> &[u64] {
        &self.residues
    }

    /// The N residues; what is written must be below the prime.
    pub fn residues_mut(&mut self) -> &mut [u64] {
        &mut self.residues
    }

    /// `self + other`.
    pub fn add_assign(&mut self, modulus: &Modulus, other: &Self) {
        let other = other.of_degree(self.residues.len());
        kernel::add(modulus, &mut self.residues, other);
    }

    /// `self - other`.
    pub fn sub_assign(&mut self, modulus: &Modulus, other: &Self) {
        let other = other.of_degree(self.residues.len());
        kernel::subtract(modulus, &mut self.residues, other);
    }

    /// `factor * self`.
    pub fn scale(&mut self, modulus: &Modulus, factor: ShoupFactor) {
        kernel::scale(modulus, &mut self.residues, factor);
    }

    /// The same residues in the other form, for transforms that are not of this module.
    #[must_use]
    pub fn reinterpret<G: Form>(self) -> Polynomial<G> {
        Polynomial::of(self.residues)
    }

    fn of_degree(&self, degree: usize) -> &[u64] {
        assert_eq!(self.residues.len(), degree, "polynomials of one degree");
        &self.residues
    }
}

impl Polynomial<Coefficient> {
    /// From N signed coefficients.
    #[must_use]
    pub fn from_signed(modulus: &Modulus, coefficients: &[i64]) -> Self {
        Self::from_residues(coefficients.iter().map(|coefficient| modulus.from_signed(*coefficient)))
    }

    /// Transforms to evaluation form.
    #[must_use]
    pub fn into_evaluation(mut self, ntt: &Ntt) -> Polynomial<Evaluation> {
        ntt.forward(&mut self.residues);
        Polynomial::of(self.residues)
    }
}

impl Polynomial<Evaluation> {
    /// Transforms to coefficient form.
    #[must_use]
    pub fn into_coefficient(mut self, ntt: &Ntt) -> Polynomial<Coefficient> {
        ntt.inverse(&mut self.residues);
        Polynomial::of(self.residues)
    }

    /// `self * other`, slotwise.
    pub fn mul_assign(&mut self, modulus: &Modulus, other: &Self) {
        let other = other.of_degree(self.residues.len());
        kernel::multiply(modulus, &mut self.residues, other);
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroize as _;

    use super::{Coefficient, Polynomial};

    #[test]
    fn nothing_is_left_of_what_is_wiped() {
        let mut polynomial = Polynomial::<Coefficient>::from_residues(1..=16);
        polynomial.zeroize();
        assert_eq!(polynomial.residues(), [0; 16]);
    }
}
