//! Whether the time that a client takes tells what it asks for: Welch's t-test on two classes of inputs, in the manner of
//! dudect (Reparaz, Balasch, Verbauwhede, "Dude, is my code constant time?", 2017).
//!
//! ```sh
//! cargo run --release -p mpir --example timing              # 50,000 measurements of each function, or as many as given
//! ```
//!
//! Each measurement belongs to a class drawn at random. Times are compared as they are and with the slowest cut off, at
//! a hundred limits that the first tenth of the measurements sets; the largest |t| of these tests counts. Below 10
//! there is no evidence of a leak, which is no proof of constant time: `constant_time` next door looks at every branch
//! and address instead. Two controls with a leak must come out above.
#![allow(clippy::print_stdout, reason = "a program for people")]

#[path = "common/round.rs"]
mod round;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use mpir::MultiClient;
use pbc::PartitionedCode;
use pir_core::ring::{Backend, sampling};
use pir_core::{Scheme, SealPir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_protocol::mapping::{Lookup, Sought};
use sotto_protocol::{CodeKind, Label};

/// What |t| must stay below.
const LIMIT: f64 = 10.0;
/// Limits at which the slowest measurements are cut off.
const CROPS: usize = 100;
/// A test of fewer measurements of a class says nothing.
const ENOUGH: f64 = 500.0;

const ELEMENTS: usize = 8_192;
const ELEMENT_BYTES: usize = 288;
const BUCKETS: usize = 4;

/// Mean and sum of squared distances from it, of one class.
#[derive(Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn push(&mut self, value: f64) {
        self.count += 1.0;
        let distance = value - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (value - self.mean);
    }

    fn variance_of_mean(&self) -> f64 {
        self.squares / (self.count - 1.0) / self.count
    }
}

/// Welch's t, or 0 of too few measurements.
fn welch([a, b]: [Moments; 2]) -> f64 {
    if a.count < ENOUGH || b.count < ENOUGH {
        return 0.0;
    }
    (a.mean - b.mean) / (a.variance_of_mean() + b.variance_of_mean()).sqrt()
}

/// The largest |t| over all limits, of measurements `(class, time)`, and the medians of both classes.
fn largest_t(measured: &[(usize, f64)]) -> (f64, [f64; 2]) {
    let (first, rest) = measured.split_at(measured.len() / 10);
    let sorted = |values: &mut Vec<f64>| values.sort_by(f64::total_cmp);
    let mut times: Vec<f64> = first.iter().map(|(_, time)| *time).collect();
    sorted(&mut times);
    // As in dudect, close together where times are short: 1 - 2^(-10 i / CROPS) of the measurements are kept.
    let kept = |i: usize| 1.0 - (-10.0 * i as f64 / CROPS as f64).exp2();
    let limits = (1..=CROPS).map(|i| times[(kept(i) * (times.len() - 1) as f64) as usize]);
    let limits: Vec<f64> = limits.chain([f64::INFINITY]).collect();

    let mut tests = vec![[Moments::default(); 2]; limits.len()];
    for (class, time) in rest {
        for (test, _) in tests.iter_mut().zip(&limits).filter(|(_, limit)| time <= limit) {
            test[*class].push(*time);
        }
    }
    let medians = [0, 1].map(|class| {
        let mut times: Vec<f64> = rest.iter().filter(|(of, _)| *of == class).map(|(_, time)| *time).collect();
        sorted(&mut times);
        times[times.len() / 2]
    });
    (tests.into_iter().map(|test| welch(test).abs()).fold(0.0, f64::max), medians)
}

/// Measures `work` on inputs that `input` makes of a class, and says what came of it.
fn compare<T>(
    name: &str,
    leaks: bool,
    count: usize,
    mut input: impl FnMut(usize, &mut ChaCha20Rng) -> T,
    mut work: impl FnMut(&T),
) -> bool {
    let mut rng = ChaCha20Rng::from_seed([7; 32]);
    let mut measure = || {
        let class = (rng.next_u32() & 1) as usize;
        let input = black_box(input(class, &mut rng));
        let started = Instant::now();
        work(&input);
        (class, started.elapsed().as_nanos() as f64)
    };
    (0..count / 20).for_each(|_| {
        measure();
    });
    let measured: Vec<_> = (0..count).map(|_| measure()).collect();
    let (t, [fixed, other]) = largest_t(&measured);
    let right = (t > LIMIT) == leaks;
    println!(
        "{:5} {name}: |t| {t:.1}, medians {:.2} and {:.2} us, {count} measurements",
        if right { "ok" } else { "WRONG" },
        fixed / 1e3,
        other / 1e3
    );
    right
}

fn below(bound: usize, rng: &mut ChaCha20Rng) -> usize {
    rng.next_u32() as usize % bound
}

fn main() -> ExitCode {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(50_000);
    let parameters =
        SealPir::parameters(ELEMENTS, ELEMENT_BYTES).expect("a database of that size has a shape");
    let key = SealPir::client_key(&[1; 32]);
    let client = MultiClient::<SealPir>::new(&[1; 32]);
    let mut rng = ChaCha20Rng::from_seed([2; 32]);
    // Extraction does the same whatever an answer holds: of what it is an encryption shows to nobody.
    let mut answer = vec![0; SealPir::answer_bytes(&parameters)];
    rng.fill_bytes(&mut answer);
    let query = SealPir::queries(&key, &[(&parameters, 0)], &mut rng).expect("an index below the count");
    let header = [3, query[0][1], query[0][2], ((answer.len() - 4) / (4 * 512)) as u8];
    answer[..4].copy_from_slice(&header);
    SealPir::extract(&parameters, &key, 0, &answer).expect("an answer of the right size and header");
    println!("kernel {}, two classes: fixed and random, dummy and real", Backend::active().name());

    let index = |class: usize, rng: &mut ChaCha20Rng| {
        let random = below(ELEMENTS, rng);
        if class == 0 { 0 } else { random }
    };
    let targets = |class: usize, rng: &mut ChaCha20Rng| -> [Option<usize>; BUCKETS] {
        core::array::from_fn(|_| {
            let random = below(ELEMENTS, rng);
            (class == 1).then_some(random)
        })
    };
    let mut queries = rng.clone();
    let mut query = |index: usize| {
        drop(black_box(SealPir::queries(&key, &[(&parameters, index)], &mut queries)));
    };
    let mut dummies = rng.clone();
    let mut multi_query = |targets: &[Option<usize>]| {
        drop(black_box(client.multi_query(&parameters, targets, &mut dummies)));
    };

    let mut right = compare("query, index 0 or a random one", false, count, index, |index| query(*index));
    right &= compare("extraction, index 0 or a random one", false, count, index, |index| {
        drop(black_box(SealPir::extract(&parameters, &key, *index, &answer)));
    });
    right &= compare("queries, dummies or real ones", false, count, targets, |targets| multi_query(targets));
    right &= compare("control: a fiftieth more work for another index", true, count, index, |index| {
        query(*index);
        if *index != 0 {
            black_box(sampling::errors(20, &[3; 32], 0));
        }
    });
    right &= compare("control: a fiftieth more work for real queries", true, count, targets, |targets| {
        multi_query(targets);
        if targets[0].is_some() {
            black_box(sampling::errors(320, &[3; 32], 0));
        }
    });
    right &= lookups(count);
    right &= lookups_of_labels(count);
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Which places of a table are wanted: always the same or random ones, a whole batch or almost nothing.
fn lookups(count: usize) -> bool {
    const RETRIEVE: usize = 16;
    const PLACES: usize = 33 * 1_024;
    let code = PartitionedCode::new(RETRIEVE, 36, 3, PLACES, [5; 32]).expect("a code of this shape");
    let mut coins = ChaCha20Rng::from_seed([6; 32]);
    let mut look_up =
        |sought: &[Sought; RETRIEVE]| drop(black_box(Lookup::in_table(&code, sought, &mut coins)));
    let random = |rng: &mut ChaCha20Rng| Sought { place: below(PLACES, rng) as u32, is_known: true };
    let places = |class: usize, rng: &mut ChaCha20Rng| -> [Sought; RETRIEVE] {
        let random = core::array::from_fn(|_| random(rng));
        if class == 0 { core::array::from_fn(|_| Sought { place: 7, is_known: true }) } else { random }
    };
    let known = |class: usize, rng: &mut ChaCha20Rng| -> [Sought; RETRIEVE] {
        core::array::from_fn(|number| Sought { is_known: class == 1 || number == 0, ..random(rng) })
    };
    let mut right =
        compare("look-up, one place 16 times or random ones", false, count, places, |sought| look_up(sought));
    right &= compare("look-up, one place or 16 of them", false, count, known, |sought| look_up(sought));
    right
        & compare("control: a little more work for 16 places", true, count, known, |sought| {
            look_up(sought);
            if sought[1].is_known {
                black_box(sampling::errors(20, &[3; 32], 0));
            }
        })
}

/// Which labels are wanted: always the same one or random ones, of which nobody has any or which are in the round.
fn lookups_of_labels(count: usize) -> bool {
    const RETRIEVE: usize = 16;
    let mut rng = ChaCha20Rng::from_seed([7; 32]);
    let label = |rng: &mut ChaCha20Rng| {
        let mut label = Label([0; 16]);
        rng.fill_bytes(&mut label.0);
        label
    };
    let labels: Vec<Label> = (0..4_096).map(|_| label(&mut rng)).collect();
    let (manifest, mapping) = round::published([5; 32], CodeKind::Cuckoo, [RETRIEVE as u16, 32, 3], &labels);
    let code = manifest.code().expect("a code of this shape");
    let mut coins = ChaCha20Rng::from_seed([6; 32]);
    let mut look_up =
        |wanted: &[Label; RETRIEVE]| drop(black_box(Lookup::new(&*code, &mapping, wanted, &mut coins)));
    let same = |class: usize, rng: &mut ChaCha20Rng| -> [Label; RETRIEVE] {
        let random = core::array::from_fn(|_| labels[below(labels.len(), rng)]);
        if class == 0 { [labels[0]; RETRIEVE] } else { random }
    };
    let there = |class: usize, rng: &mut ChaCha20Rng| -> [Label; RETRIEVE] {
        core::array::from_fn(|_| {
            let (absent, present) = (label(rng), labels[below(labels.len(), rng)]);
            if class == 0 { absent } else { present }
        })
    };
    let mut right =
        compare("look-up, one label 16 times or random ones", false, count, same, |wanted| look_up(wanted));
    right &=
        compare("look-up, labels of nobody or of the round", false, count, there, |wanted| look_up(wanted));
    right
}
