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
    let preset = bfv::Parameters::s4096();
    let primes: Vec<u64> = preset.key_basis().moduli().map(|modulus| modulus.value()).collect();
    let roots: Vec<u64> = preset.key_basis().transforms().iter().map(|ntt| ntt.psi()).collect();
    println!("N {}, primes {primes:?}, least roots {roots:?}", preset.degree());
    println!(
        "log2 q {:.3}, log2 qP {:.3}, t 2^{}, security {} bits, public keys {} bytes",
        preset.ciphertext_basis().log2(),
        preset.key_basis().log2(),
        preset.plaintext_bits(),
        preset.security_bits(),
        SealPir::public_keys_bytes()
    );
    println!("error deviation {:.4}\n", sampling::error_deviation());
    println!(
        "| n | d | plaintexts | rows | columns | levels | key switches | query, bytes | answer, bytes | bits |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for &n in sizes {
        let p = Parameters::choose(n, ELEMENT_BYTES)?;
        println!(
            "| {n} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            p.dimensions(),
            p.plaintexts(),
            p.rows(),
            p.columns(),
            p.levels(),
            expand::substitutions(p.selectors(), p.levels()),
            p.query_bytes(),
            p.answer_bytes(),
            p.answer_coefficient_bits()
        );
    }
    println!("\n| n | fresh | key switch | expanded | peak | first | switched | second | answer | failure |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for &n in sizes {
        let p = Parameters::choose(n, ELEMENT_BYTES)?;
        let s = noise::stages(preset, &p.circuit());
        let all =
            [s.fresh, s.substitution, s.expanded, s.expanded_peak, s.first, s.switched, s.second, s.answer];
        let cells: Vec<String> = all
            .iter()
            .map(|sd| if *sd > 0.0 { format!("2^{:.2}", sd.log2()) } else { "-".to_owned() })
            .collect();
        println!("| {n} | {} | 2^{:.1} |", cells.join(" | "), SealPir::failure_log2(&p));
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

    let predicted = noise::stages(bfv::Parameters::s4096(), &p.circuit());
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
    row("expanded", predicted.expanded, expanded(&p));
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

/// Noise of all leaves of an encryption of zero.
fn expanded(p: &Parameters) -> Measurement {
    let preset = bfv::Parameters::s4096();
    let basis = preset.ciphertext_basis();
    let secret = SecretKey::derive(preset, &SEED);
    let keys = GaloisKeys::derive(preset, &secret, &SEED);
    let zero = secret.encrypt(preset, Polynomial::zero(basis), [1; 32], &[2; 32]);
    let query = Ciphertext { c0: zero.c0, c1: sampling::uniform(basis, &zero.seed, 0) };
    let leaves = expand::expand(preset, &keys, query, p.selectors(), p.levels());
    let (mut squares, mut maximum, count) = (0.0, 0.0f64, leaves.len() as f64);
    for leaf in leaves {
        let noise = secret.noise(basis, &leaf.into_coefficient(basis), &Polynomial::zero(basis));
        squares += noise.deviation.powi(2);
        maximum = maximum.max(noise.maximum);
    }
    Measurement { deviation: (squares / count).sqrt(), maximum }
}

/// Distances of the answer's phases from the nearest message, and for d = 2 those of the ciphertext it carries.
fn answer_noise(p: &Parameters, answer: &[u8]) -> (Option<Measurement>, Measurement) {
    let preset = bfv::Parameters::s4096();
    let secret = SecretKey::derive(preset, &SEED);
    let (bits, plaintext_bits) = (p.answer_coefficient_bits(), p.answer_plaintext_bits());
    let step = 1u64 << (bits - plaintext_bits);
    let (mut reader, mut noise, mut chunks) = (BitReader::new(&answer[4..]), Vec::new(), Vec::new());
    for _ in 0..p.answer_ciphertexts() {
        let mut half = || (0..preset.degree()).map(|_| reader.read(bits)).collect::<Vec<u64>>();
        let (c0, c1) = (half(), half());
        let phase = secret.phase_power_of_two(preset, &c0, &c1, bits);
        noise.extend(phase.iter().map(|value| ((value + step / 2) % step) as f64 - (step / 2) as f64));
        chunks.push(secret.decrypt_power_of_two(preset, &c0, &c1, bits, plaintext_bits));
    }
    let answered = Measurement::of(noise.into_iter());
    let [low0, high0, low1, high1] = &chunks[..] else { return (None, answered) };
    let join = |low: &[u64], high: &[u64]| {
        let joined = low.iter().zip(high).map(|(low, high)| low | high << noise::CHUNK_BITS).collect();
        Polynomial::from_residues(preset.first_basis(), joined)
    };
    let carried = Ciphertext { c0: join(low0, high0), c1: join(low1, high1) };
    let q0 = preset.first_modulus().value() as f64;
    let unit = q0 / f64::from(preset.plaintext_bits()).exp2();
    let phase = secret.phase(preset.first_basis(), &carried);
    let distance = |value: &u64| *value as f64 - (*value as f64 / unit).round() * unit;
    (Some(Measurement::of(phase.channel(0).iter().map(distance))), answered)
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
