//! How often noise is large: what is sampled is what the server computes, for clients with secrets and keys of their own.
//!
//! `SOTTO_TAILS=N` takes N samples of all that a hint's answer has before it is rounded, and a tenth as many of replies; the gate
//! takes a few.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::{IntoParallelIterator, ParallelIterator};

use super::noise::{self, CLIENT};
use super::ring::DEGREE;
use super::select::{self, PublicKeys, Secret};
use super::{Ending, Pools, Request, Shape, Unit, request, select::tests as selected, tests as packed};
use crate::noise::tail_log2;

/// Deviations of a mean client.
const THRESHOLDS: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];

/// Clients for whom a unit is prepared.
const CLIENTS: usize = 128;

#[derive(Clone, Copy, Default)]
struct Tails {
    samples: u64,
    /// Samples beyond each of the thresholds.
    beyond: [u64; THRESHOLDS.len()],
    squares: f64,
    largest: f64,
}

impl Tails {
    fn of(noise: &[f64], deviation: f64) -> Self {
        noise.iter().map(|noise| noise.abs() / deviation).fold(Self::default(), |tails, noise| Self {
            samples: tails.samples + 1,
            beyond: core::array::from_fn(|at| tails.beyond[at] + u64::from(noise > THRESHOLDS[at])),
            squares: tails.squares + noise * noise,
            largest: tails.largest.max(noise),
        })
    }

    fn and(self, other: Self) -> Self {
        Self {
            samples: self.samples + other.samples,
            beyond: core::array::from_fn(|at| self.beyond[at] + other.beyond[at]),
            squares: self.squares + other.squares,
            largest: self.largest.max(other.largest),
        }
    }

    /// The bound is the tail of a Gaussian of a tenth more than the mean client's deviation, from which the calculator has its
    /// probability of failure. Of three deviations and less there are enough samples to see that it is not far too large.
    fn check(&self, what: &str) {
        let samples = self.samples as f64;
        let deviation = (self.squares / samples).sqrt();
        println!(
            "{what}: {samples} samples, {deviation:.4} of what was predicted, at most {:.2}",
            self.largest
        );
        for (threshold, beyond) in THRESHOLDS.into_iter().zip(self.beyond) {
            let [mean, bound] = [threshold, threshold / CLIENT].map(|x| samples * tail_log2(x).exp2());
            println!("  beyond {threshold}: {beyond}, Gaussian below {mean:.1}, bound {bound:.1}");
            // Samples of one client have its deviation in common: their number varies more than that of independent ones.
            assert!(
                (beyond as f64) < bound + 6.0 * bound.sqrt() + 3.0,
                "{beyond} beyond {threshold} in {what}"
            );
        }
        assert!((0.97..1.03).contains(&deviation), "{deviation} in {what}");
        assert!(self.beyond[2] as f64 > samples * 0.0022, "a Gaussian has 0.27 % beyond 3: {what}");
    }
}

fn bytes(rng: &mut ChaCha20Rng, many: usize) -> Vec<u8> {
    let mut bytes = vec![0; many];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn seed(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    seed
}

fn number() -> u64 {
    std::env::var("SOTTO_TAILS").ok().and_then(|number| number.parse().ok()).unwrap_or(1 << 20)
}

/// The sum over as many units as it takes, on all cores.
fn sampled(samples: u64, one: impl Fn(u64) -> Tails + Send + Sync) -> Tails {
    let units = samples.div_ceil((CLIENTS * DEGREE) as u64).max(1);
    (0..units).into_par_iter().map(one).reduce(Tails::default, Tails::and)
}

/// Of the first dimension and packing, which both endings have.
#[test]
fn noise_of_a_packed_ciphertext_is_no_more_often_large_than_the_calculator_says() {
    for (count, columns) in [(2_048, 1), (16_384, 4)] {
        let shape = Shape::new(Ending::Hint, 8, count, 288, columns).unwrap();
        let stages = noise::stages(&shape);
        let pools = Pools::default();
        let tails = sampled(number() / 2, |unit| {
            let mut rng = ChaCha20Rng::seed_from_u64(unit);
            let (seed_of_round, content) = (seed(&mut rng), bytes(&mut rng, count * 288));
            let contents = vec![&*content; shape.unit_buckets()];
            let unit = Unit::new(&pools, &shape, &seed_of_round.into(), 0, &contents).unwrap();
            let targets: Vec<usize> = contents.iter().map(|_| rng.next_u64() as usize % count).collect();
            let mut tails = Tails::default();
            for _ in 0..CLIENTS / 16 {
                let asked: Vec<_> = (0..16)
                    .map(|_| request(&shape, &seed_of_round, &targets, &seed(&mut rng)).unwrap())
                    .collect();
                let read = |bytes| Request::new(&shape, contents.len(), bytes).unwrap();
                let requests: Vec<_> = asked.iter().map(|(bytes, _)| read(bytes)).collect();
                let all = unit.packed(0, &requests.iter().collect::<Vec<_>>());
                for ((_, asked), one) in asked.iter().zip(&all) {
                    let noise = packed::noise(&shape, &unit, &targets, asked, one);
                    tails = tails.and(Tails::of(&noise, stages.packing.hypot(stages.first_dimension)));
                }
            }
            tails
        });
        tails.check(&format!("{count} in {columns} columns"));
    }
}

/// Of all stages of a reply but its rounding.
#[test]
fn noise_of_a_reply_is_no_more_often_large_than_the_calculator_says() {
    let (count, columns) = (2_048, 4);
    let shape = Shape::new(Ending::Selected, 8, count, 288, columns).unwrap();
    let stages = noise::Stages { reply: 0.0, ..noise::stages(&shape) };
    let pools = Pools::default();
    let tails = sampled(number() / 10, |unit| {
        let mut rng = ChaCha20Rng::seed_from_u64(unit);
        let (seed_of_round, content) = (seed(&mut rng), bytes(&mut rng, count * 288));
        let contents = vec![&*content; shape.unit_buckets()];
        let unit = select::Unit::new(&pools, &shape, &seed_of_round.into(), 0, &contents).unwrap();
        let targets: Vec<usize> = contents.iter().map(|_| rng.next_u64() as usize % count).collect();
        let mut tails = Tails::default();
        for _ in 0..CLIENTS / 16 {
            let mut secrets: Vec<_> = (0..16).map(|_| Secret::new(&seed(&mut rng))).collect();
            let keys: Vec<_> =
                secrets.iter().map(|secret| PublicKeys::read(&secret.public_keys()).unwrap()).collect();
            let asked: Vec<_> = secrets
                .iter_mut()
                .map(|secret| secret.request(&shape, &seed_of_round, &targets, &seed(&mut rng)).unwrap().0)
                .collect();
            let requests: Vec<_> = asked
                .iter()
                .zip(&keys)
                .map(|(bytes, keys)| select::Request::new(&shape, contents.len(), keys, bytes).unwrap())
                .collect();
            let replies = unit.replies(0, &requests.iter().collect::<Vec<_>>());
            for (secret, reply) in secrets.iter().zip(replies.iter().flatten()) {
                let noise = selected::noise(&shape, &unit, &targets, secret, reply);
                tails = tails.and(Tails::of(&noise, stages.total()));
            }
        }
        tails
    });
    tails.check("replies");
}
