//! Estimates of security.

/// Words of a secret for at least 128 bits of security.
pub const SECURE: usize = 1120;

/// Words of the secrets of the paper (section 4.2).
pub const PAPER: usize = 1024;

/// Estimated bits of a uniform secret of so many words modulo 2^32 under errors of deviation 6.4; 0 for a length without an
/// estimate. That of [`PAPER`] is the estimator's, that of [`SECURE`] is extrapolated: `docs/PARAMETERS.md` says how.
#[must_use]
pub(crate) const fn security_bits(degree: usize) -> u32 {
    match degree {
        PAPER => 120,
        SECURE => 132,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use core::f64::consts::{E, PI};

    use super::{PAPER, SECURE, security_bits};
    use crate::lwe::sampling::DEVIATION;

    /// By how much other attacks may be better than the one below: in docs/PARAMETERS.md, by 2.6 at most.
    const OTHERS: f64 = 3.0;

    /// log2 of the cost of the primal attack (usvp) by lattice-estimator's formulas: a basis as the geometric series
    /// assumption has it, the least block size that finds the secret, and MATZOV's cost of reducing by it, classical. `errors`
    /// and `secret` are deviations, and there are as many samples as one wants.
    fn usvp_log2(degree: f64, modulus_log2: f64, errors: f64, secret: f64) -> f64 {
        let (q, scaled) = (modulus_log2 * 2f64.ln(), (errors / secret).ln());
        let delta =
            |beta: f64| (beta / (2.0 * PI * E) * (PI * beta).powf(1.0 / beta)).ln() / (2.0 * (beta - 1.0));
        let finds = |beta: f64, dimension: f64| {
            let volume = (dimension - degree - 1.0) * q + degree * scaled;
            let shortest = (2.0 * beta - dimension - 1.0) * delta(beta) + volume / dimension;
            beta.sqrt().ln() + errors.ln() <= shortest
        };
        let cost = |beta: f64, dimension: f64| {
            let free = beta * (4f64 / 3.0).ln() / (beta / (2.0 * PI * E)).ln();
            let calls = 1.0 / (1.0 - (-0.292f64).exp2());
            2.0 * calls.log2() + (dimension - beta).log2() + 0.296_135_003 * (beta - free) + 20.387_886
        };
        let block = |beta: u32| {
            let beta = f64::from(beta);
            let best = (degree * (q - scaled) / delta(beta)).sqrt();
            let dimensions = (-60..=60).map(|step| (best + f64::from(step)).floor().max(degree + 2.0));
            dimensions
                .filter(|dimension| finds(beta, *dimension))
                .map(|dimension| cost(beta, dimension))
                .reduce(f64::min)
        };
        (60..1200).find_map(block).expect("some block size finds it")
    }

    /// The formulas above give what the estimator itself gave, and from them the bits of secrets that it was not asked for.
    #[test]
    fn security_is_that_of_the_primal_attack_less_what_others_are_better() {
        let (errors, secret) = (10.5f64.sqrt(), (2.0f64 / 3.0).sqrt());
        for (degree, modulus, estimated) in [
            (2048.0, 50.0, 138.3),
            (2048.0, 36.0, 197.7),
            (2048.0, 60.0, 113.9),
            (1024.0, 27.0, 128.8),
            (1024.0, 30.0, 115.3),
            (1024.0, 32.0, 107.9),
            (4096.0, 109.0, 125.6),
        ] {
            let bits = usvp_log2(degree, modulus, errors, secret);
            assert!((bits - estimated).abs() < 0.3, "{degree}, {modulus}: {bits}");
        }
        for degree in [PAPER, SECURE] {
            // A uniform secret is as good as one of the errors' distribution.
            let bits = usvp_log2(degree as f64, 32.0, DEVIATION, DEVIATION);
            println!("{degree} words: usvp {bits:.1}");
            assert_eq!((bits - OTHERS) as u32, security_bits(degree));
        }
    }
}
