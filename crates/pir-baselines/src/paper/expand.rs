//! EXPAND as in Figure 3 of the paper.
//!
//! `Enc(X^i)` becomes `2^h` ciphertexts of which number i encrypts `2^h` and all others 0. The paper's *inverse* at the end
//! is its optimisation of section 6: an encryption of `2^h` modulo `t = 2^h t'` is one of 1 modulo t', so only the modulus
//! that the rest is done with changes.
//!
//! Lines 10 and 11 substitute in `c` and in `c X^-(2^j)`. As `Sub(c X^-(2^j)) = -Sub(c) X^-(2^j)`, one substitution serves
//! both.

use pir_core::bfv::Ciphertext;
use pir_core::ring::{Coefficient, Polynomial};

use super::kernel::{DEGREE, add, sub, zip};
use super::keys::PublicKeys;

/// The first `selectors` of the ciphertexts, in order.
pub(super) fn expand<const T: u32>(
    keys: &PublicKeys<T>,
    query: Ciphertext<Coefficient>,
    selectors: usize,
    levels: u32,
) -> Vec<Ciphertext<Coefficient>> {
    let mut ciphertexts = vec![query];
    for level in 0..levels as usize {
        let mut odd = Vec::with_capacity(ciphertexts.len());
        for ciphertext in &mut ciphertexts {
            let substituted = keys.substitute(level, ciphertext);
            odd.push(Ciphertext {
                c0: divide_by_monomial(&zip(&ciphertext.c0, &substituted.c0, sub), 1 << level),
                c1: divide_by_monomial(&zip(&ciphertext.c1, &substituted.c1, sub), 1 << level),
            });
            ciphertext.c0 = zip(&ciphertext.c0, &substituted.c0, add);
            ciphertext.c1 = zip(&ciphertext.c1, &substituted.c1, add);
        }
        ciphertexts.append(&mut odd);
    }
    ciphertexts.truncate(selectors);
    ciphertexts
}

/// `p X^-power`: what wraps around is negated.
fn divide_by_monomial(polynomial: &Polynomial<Coefficient>, power: usize) -> Polynomial<Coefficient> {
    let (low, high) = polynomial.residues().split_at(power.min(DEGREE));
    Polynomial::from_residues(high.iter().copied().chain(low.iter().map(|value| sub(0, *value))))
}
