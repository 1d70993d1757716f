//! The numbers of docs/PARAMETERS.md that belong to the lattices, as Markdown tables.
//!
//! ```sh
//! cargo run --release -p pir-core --example parameters                       # shapes, sizes, predicted noise
//! cargo run --release -p pir-core --example parameters -- 24947 98874        # the same for other sizes
//! cargo run --release -p pir-core --example parameters -- --measure 8192     # noise and cost of one size
//! ```
#![allow(clippy::print_stdout, reason = "a program that reports to people")]

use std::time::Instant;

use pir_core::bfv::{self, Ciphertext, GaloisKeys, Measurement, SecretKey};
use pir_core::ring::bits::BitReader;
use pir_core::ring::{Polynomial, sampling};
use pir_core::sealpir::{ClientKey, Parameters};
use pir_core::{Error, Scheme, SealPir, expand, noise};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

const ELEMENT_BYTES: usize = 288;
const SIZES: [usize; 7] = [400, 2048, 8192, 32_768, 131_072, 262_144, 1_048_576];
const SEED: [u8; 32] = [7; 32];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => predict(&SIZES)?,
        ["--measure", n] => {
            let n = n.parse()?;
            rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(|| measure(n))?;
        }
        _ => predict(&words.iter().map(|word| word.parse()).collect::<Result<Vec<_>, _>>()?)?,
    }
    Ok(())
}

fn predict(sizes: &[usize]) -> Result<(), Error> {
    let preset = bfv::Parameters::s2048();
    let [large, small] = [preset.large(), preset.small()];
    println!(
        "N {}, Q {}, q {}, least roots {} and {}, t 2^{}",
        preset.degree(),
        large.modulus().value(),
        small.modulus().value(),
        large.psi(),
        small.psi(),
        preset.plaintext_bits()
    );
    println!(
        "log2 Q {:.3}, log2 q {:.3}, security {} bits, public keys {} bytes, error deviation {:.4}\n",
        (large.modulus().value() as f64).log2(),
        (small.modulus().value() as f64).log2(),
        preset.security_bits(),
        SealPir::public_keys_bytes(),
        sampling::error_deviation()
    );
    println!("| level | digits | base | bits dropped | transforms | noise |\n|---|---|---|---|---|---|");
    for level in 0..preset.levels() {
        let (gadget, noise) = (preset.gadget(level), noise::substitution(preset, level));
        println!(
            "| {level} | {} | 2^{} | {} | {} | 2^{:.2} |",
            gadget.digits,
            gadget.base_bits,
            gadget.dropped_bits(large.modulus()),
            gadget.digits + 1,
            noise.log2()
        );
    }
    println!("\nA database that is asked many queries a round:");
    shapes(sizes.iter().map(|n| Parameters::choose(*n, ELEMENT_BYTES)))?;
    println!("\nA database that is asked one query a round:");
    shapes(sizes.iter().map(|n| SealPir::parameters_for_one_query(*n, ELEMENT_BYTES)))?;
    println!("\n| n | query | expanded | peak | selector | first | switched | second | answer | failure |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for &n in sizes {
        let p = Parameters::choose(n, ELEMENT_BYTES)?;
        let s = noise::stages(preset, &p.circuit());
        let all = [s.query, s.expanded, s.expanded_peak, s.selector, s.first, s.switched, s.second, s.answer];
        let cells: Vec<String> = all
            .iter()
            .map(|sd| if *sd > 0.0 { format!("2^{:.2}", sd.log2()) } else { "-".to_owned() })
            .collect();
        println!("| {n} | {} | 2^{:.1} |", cells.join(" | "), SealPir::failure_log2(&p));
    }
    Ok(())
}

fn shapes(shapes: impl Iterator<Item = Result<Parameters, Error>>) -> Result<(), Error> {
    println!(
        "\n| n | d | parts | plaintexts | rows | columns | key switches | transforms | query, bytes | answer, bytes | bits | failure |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for p in shapes {
        let p = p?;
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | 2^{:.1} |",
            p.elements(),
            p.dimensions(),
            p.parts(),
            p.plaintexts(),
            p.rows(),
            p.columns(),
            expand::substitutions(p.selectors(), p.levels()).sum::<usize>(),
            p.expand_transforms(),
            p.query_bytes(),
            p.answer_bytes(),
            p.answer_coefficient_bits(),
            SealPir::failure_log2(&p)
        );
    }
    Ok(())
}

fn measure(n: usize) -> Result<(), Error> {
    let p = Parameters::choose(n, ELEMENT_BYTES)?;
    let mut rng = ChaCha20Rng::seed_from_u64(n as u64);
    let mut elements = vec![0; n * ELEMENT_BYTES];
    rng.fill_bytes(&mut elements);
    let (key, index) = (SealPir::client_key(&SEED), n / 3);
    let encoded_keys = SealPir::encode_public_keys(&key);
    let keys = SealPir::decode_public_keys(&encoded_keys)?;
    let database = SealPir::setup(&p, &elements)?;
    let query = SealPir::queries(&key, &[(&p, index)], &mut rng)?.remove(0);
    let answer = SealPir::answer(&database, &keys, &query)?;
    let decoded = SealPir::extract(&p, &key, index, &answer)?;
    let correct = decoded == elements[index * ELEMENT_BYTES..(index + 1) * ELEMENT_BYTES];
    println!("n {n}: decodes to the right element: {correct}\n");

    let predicted = noise::stages(bfv::Parameters::s2048(), &p.circuit());
    println!("| stage | predicted sd | measured sd | largest |\n|---|---|---|---|");
    let row = |stage: &str, predicted: f64, measured: Measurement| {
        let Measurement { deviation, maximum } = measured;
        println!(
            "| {stage} | 2^{:.2} | 2^{:.2} | 2^{:.2} |",
            predicted.log2(),
            deviation.log2(),
            maximum.log2()
        );
    };
    let [leaves, selectors] = expanded(&p);
    row("expanded", predicted.expanded, leaves);
    row("selector", predicted.selector, selectors);
    let (switched, answered) = answer_noise(&p, &answer);
    if let Some(switched) = switched {
        row("switched", predicted.switched, switched);
    }
    row("answer", predicted.answer, answered);

    println!("\n| step | CPU time, ms |\n|---|---|");
    cost("keys, client", || SealPir::encode_public_keys(&key).len());
    cost("keys, server", || SealPir::decode_public_keys(&encoded_keys).is_ok());
    cost("setup", || SealPir::setup(&p, &elements).is_ok());
    cost("query", || SealPir::queries(&key, &[(&p, index)], &mut rng).is_ok());
    cost("answer", || SealPir::answer(&database, &keys, &query).is_ok());
    cost("extract", || extracts(&p, &key, index, &answer));
    Ok(())
}

fn extracts(p: &Parameters, key: &ClientKey, index: usize, answer: &[u8]) -> bool {
    SealPir::extract(p, key, index, answer).is_ok()
}

/// Noise of all leaves of an encryption of zero, before and after the switch to q.
fn expanded(p: &Parameters) -> [Measurement; 2] {
    let preset = bfv::Parameters::s2048();
    let (large, small, zero) = (preset.large(), preset.small(), Polynomial::zero(preset.degree()));
    let secret = SecretKey::derive(preset, &SEED);
    let keys = GaloisKeys::derive(preset, &secret, &SEED);
    let encrypted = secret.encrypt(preset, zero.clone(), [1; 32], &[2; 32]);
    let mut query = Ciphertext { c0: encrypted.c0, c1: sampling::uniform(large, &encrypted.seed, 0) };
    // What a client drops, and the server's guess at it.
    let dropped = p.circuit().query_dropped_bits;
    for value in query.c0.residues_mut() {
        *value = (*value >> dropped << dropped) + (1 << dropped >> 1);
    }
    let leaves = expand::expand(preset, &keys, query, p.selectors(), p.levels());
    let (mut noise, mut switched) = (Vec::new(), Vec::new());
    for leaf in leaves {
        let mut leaf = leaf.into_coefficient(large);
        noise.push(secret.noise(preset, large, &leaf, &zero));
        leaf.rescale(preset.to_small());
        switched.push(secret.noise(preset, small, &leaf, &zero));
    }
    [noise, switched].map(|all| {
        let squares: f64 = all.iter().map(|noise| noise.deviation.powi(2)).sum();
        Measurement {
            deviation: (squares / all.len() as f64).sqrt(),
            maximum: all.iter().map(|noise| noise.maximum).fold(0.0, f64::max),
        }
    })
}

/// Distances of the answer's phases from the nearest message, and for d = 2 those of the ciphertext it carries.
fn answer_noise(p: &Parameters, answer: &[u8]) -> (Option<Measurement>, Measurement) {
    let preset = bfv::Parameters::s2048();
    let secret = SecretKey::derive(preset, &SEED);
    let (bits, plaintext_bits) = (p.answer_coefficient_bits(), preset.plaintext_bits());
    let distances = |c0: &[u64], c1: &[u64], bits: u32| {
        let step = 1u64 << (bits - plaintext_bits);
        let phase = secret.phase_power_of_two(preset, c0, c1, bits);
        let distance = |value: &u64| ((value + step / 2) % step) as f64 - (step / 2) as f64;
        phase.iter().map(distance).collect::<Vec<f64>>()
    };
    let (mut reader, mut noise, mut chunks) = (BitReader::new(&answer[4..]), Vec::new(), Vec::new());
    for _ in 0..p.answer_ciphertexts() {
        let mut half = || (0..preset.degree()).map(|_| reader.read(bits)).collect::<Vec<u64>>();
        let (c0, c1) = (half(), half());
        noise.extend(distances(&c0, &c1, bits));
        chunks.push(secret.decrypt(preset, &c0, &c1, bits));
    }
    let answered = Measurement::of(noise.into_iter());
    let [low0, high0, low1, high1] = &chunks[..] else { return (None, answered) };
    let join = |low: &[u64], high: &[u64]| {
        low.iter().zip(high).map(|(low, high)| low | high << plaintext_bits).collect::<Vec<u64>>()
    };
    let carried = distances(&join(low0, high0), &join(low1, high1), 2 * plaintext_bits);
    (Some(Measurement::of(carried.into_iter())), answered)
}

/// Median over five batches, each of at least 200 ms, of the mean CPU time of this thread.
fn cost<T>(step: &str, mut work: impl FnMut() -> T) {
    let started = Instant::now();
    let mut repeats = 0u32;
    while repeats == 0 || started.elapsed().as_millis() < 200 {
        std::hint::black_box(work());
        repeats += 1;
    }
    let mut batch = || {
        let begun = cpu_ms();
        (0..repeats).for_each(|_| drop(std::hint::black_box(work())));
        (cpu_ms() - begun) / f64::from(repeats)
    };
    let mut batches: [f64; 5] = core::array::from_fn(|_| batch());
    batches.sort_by(f64::total_cmp);
    println!("| {step} | {:.2} |", batches[2]);
}

/// CPU time of this thread where Linux tells it, otherwise the time of day.
fn cpu_ms() -> f64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|told| told.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| START.elapsed().as_secs_f64() * 1e3, |nanoseconds| nanoseconds / 1e6)
}
