//! Failure probability of the cuckoo code by Monte Carlo: how often not all of k random keys can be scheduled.
//!
//! ```sh
//! cargo run --release -p pbc --example failure -- 16 32 3 10000000
//! ```
//! takes k, b, w, the number of trials and, as an optional fifth, the number of the first seed.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports to people")]

use std::process::ExitCode;

use pbc::{BatchCode, CuckooCode};
use rayon::prelude::*;

/// Trials that share one round seed: a fresh code costs more than a fresh set of keys.
const TRIALS_PER_SEED: u64 = 1_000;

fn main() -> ExitCode {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    let Some([k, b, w, trials, first_seed @ ..]) = numbers.as_deref() else {
        eprintln!("usage: failure K B W TRIALS [SEED]");
        return ExitCode::from(2);
    };
    let (k, b, w) = (*k as usize, *b as usize, *w as usize);
    let first_seed = first_seed.first().copied().unwrap_or(0);
    if CuckooCode::new(k, b, w, [0; 32]).is_err() {
        eprintln!("a cuckoo code needs 1 <= w <= 8, b >= w and b >= k");
        return ExitCode::from(2);
    }
    let seeds = trials.div_ceil(TRIALS_PER_SEED);
    let failures: u64 = (first_seed..first_seed + seeds).into_par_iter().map(|seed| failures(k, b, w, seed)).sum();
    let trials = seeds * TRIALS_PER_SEED;
    let rate = failures as f64 / trials as f64;
    // 95 % by the normal approximation to the Poisson count, and the rule of three when nothing failed.
    let (low, high) = if failures == 0 {
        (0.0, 3.0 / trials as f64)
    } else {
        let half = 1.96 * (failures as f64).sqrt() / trials as f64;
        ((rate - half).max(0.0), rate + half)
    };
    println!(
        "k {k}, b {b}, w {w}: {failures} of {trials} trials failed, {rate:.2e} (95 %: {low:.1e} to {high:.1e}), \
         log2 {:.1}, seeds {first_seed} to {}",
        rate.log2(),
        first_seed + seeds - 1
    );
    ExitCode::SUCCESS
}

fn failures(k: usize, b: usize, w: usize, seed: u64) -> u64 {
    let mut round_seed = [0; 32];
    round_seed[..8].copy_from_slice(&seed.to_le_bytes());
    let Ok(code) = CuckooCode::new(k, b, w, round_seed) else { return 0 };
    let failed = |trial: &u64| {
        let keys: Vec<_> = (0..k as u64).map(|key| (trial * k as u64 + key).to_le_bytes()).collect();
        let keys: Vec<_> = keys.iter().map(|key| key.as_slice()).collect();
        !code.schedule(&keys, &|_, _| true).is_complete()
    };
    (0..TRIALS_PER_SEED).filter(failed).count() as u64
}
