//! SimplePIR and DoublePIR against the memory they read: the numbers of docs/BENCHMARKS.md, as a Markdown table.
//!
//! ```sh
//! cargo run --release -p pir-baselines --example hinted                              # the sizes of the document
//! cargo run --release -p pir-baselines --example hinted -- simplepir:262144:288     # ENGINE:ELEMENTS:BYTES, as many as you like
//! ```
//!
//! CPU time of one thread; the least of several runs, in turns with as many of a plain sum over as many bytes as the
//! database has, which is what memory gives.
#![allow(clippy::print_stdout, reason = "a program that reports to people")]

use std::error::Error;
use std::hint::black_box;

use mpir::{Contents, Engine, Form, Profile, Query, RoundSpec};
use pir_baselines::{DoublePir, PAPER, SECURE, SimplePir, WithHint, doublepir, simplepir};
use pir_core::PagePool;
use pulp::Arch;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rustix::time::{ClockId, clock_gettime};

const RUNS: usize = 9;

const SIZES: [&str; 8] = [
    "simplepir:262144:288",
    "simplepir-paper:262144:288",
    "doublepir:262144:288",
    "simplepir:1000000:288",
    "simplepir-paper:3500000:288",
    "doublepir:268435456:1",
    "doublepir-paper:268435456:1",
    "doublepir-paper:1073741824:1",
];

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let sizes = if given.is_empty() { SIZES.map(String::from).to_vec() } else { given };
    println!(
        "| engine | elements | query, bytes | answer | hint | set-up, ms | query | answer | extract | GB/s | memory, GB/s | of it |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    for size in &sizes {
        pool.install(|| measure(size).map_err(|error| error.to_string()))?;
    }
    Ok(())
}

fn measure(size: &str) -> Result<(), Box<dyn Error>> {
    let mut words = size.split(':');
    let (name, mut number) = (words.next().unwrap_or_default(), || words.next().unwrap_or_default().parse());
    let (elements, element_bytes): (usize, usize) = (number()?, number()?);
    let (engine, profile): (Box<dyn Engine>, _) = match name {
        "simplepir" => (Box::new(WithHint::<SimplePir<SECURE>>::new()), None),
        "simplepir-paper" => {
            (Box::new(WithHint::<SimplePir<PAPER>>::new()), Some(Profile(simplepir::INSECURE_PROFILE)))
        }
        "doublepir" => (Box::new(WithHint::<DoublePir<SECURE>>::new()), None),
        "doublepir-paper" => {
            (Box::new(WithHint::<DoublePir<PAPER>>::new()), Some(Profile(doublepir::INSECURE_PROFILE)))
        }
        _ => return Err("ENGINE is simplepir, doublepir, or one of them with -paper".into()),
    };
    let form = Form { buckets: 1, elements, element_bytes };
    let profile = profile.map_or_else(|| engine.profile(form), Ok)?;
    let spec = RoundSpec { seed: [1; 32], round: 0, form, profile };
    let sizes = engine.sizes(&spec)?;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut content = vec![vec![0; elements * element_bytes]];
    rng.fill_bytes(&mut content[0]);
    let (prepared, setup) = timed(|| engine.prepare(&spec, Contents { different: &content, copies: 1 }));
    let prepared = prepared?;
    let mut client = engine.client(&[2; 32]);
    let keys = engine.public_keys(&client.public_keys())?;
    let wanted = elements - 1;
    let (request, query) = timed(|| client.ask(spec.clone(), &[Some(wanted)], &mut rng));
    let request = request?;

    let mut memory = PagePool::default().vector::<u64>(content[0].len() / 8)?;
    memory.fill(1);
    let (mut answers, mut sums, mut answer) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let tile = [Query { keys: &keys, request: &request.bytes }];
        let (mut result, time) = timed(|| prepared.answer(0, &tile));
        answer = result.remove(0)?;
        answers.push(time);
        let sum = || {
            Arch::new()
                .dispatch(|| black_box(&memory[..]).iter().fold(0u64, |sum, word| sum.wrapping_add(*word)))
        };
        sums.push(timed(|| black_box(sum())).1);
    }
    let (read, extract) = timed(|| request.pending.read(prepared.hint(), &answer));
    let right = read[0].as_ref().is_ok_and(|element| *element == content[0][wanted * element_bytes..]);
    if !right {
        return Err("the element is not the database's".into());
    }
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let speed = |milliseconds: f64| content[0].len() as f64 / 1e6 / milliseconds;
    let (answer, sum) = (least(&answers), least(&sums));
    println!(
        "| {name} | {elements} x {element_bytes} | {} | {} | {} | {setup:.0} | {query:.1} | {answer:.2} | {extract:.1} | {:.1} | {:.1} | {:.0} % |",
        sizes.request.bytes(),
        sizes.answer.bytes(),
        sizes.hint.bytes(),
        speed(answer),
        speed(sum),
        100.0 * sum / answer
    );
    Ok(())
}

/// Milliseconds of this thread on a processor.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let spent = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
    };
    let before = spent();
    let result = work();
    (result, spent() - before)
}
