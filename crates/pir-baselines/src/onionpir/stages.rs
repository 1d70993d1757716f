//! Noise measured at every stage of real answers, against the predictions.

use pir_core::bfv::{Ciphertext, Measurement};
use pir_core::dimensions::Products;
use pir_core::noise::MAXIMUM_FAILURE_LOG2;
use pir_core::packing::Encoder;
use pir_core::ring::bits::BitReader;
use pir_core::ring::{Aligned, Coefficient, Evaluation, Ntt, Polynomial};
use pir_core::{PagePool, Scheme, bfv};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::client::query;
use super::encoding::HEADER_BYTES;
use super::keys::ClientKey;
use super::noise::{self, stages};
use super::selectors::{Buffers, PRODUCT, Query, Rgsw};
use super::server::{choose, first_dimension, lifted};
use super::{Database, OnionPir, Parameters};

/// Beyond this many standard deviations, a Gaussian value is met with probability 2^-57.
const EXTREME: f64 = 8.6;

fn assert_predicted(stage: &str, measured: Measurement, predicted: f64, tolerance: f64) {
    let distance = (measured.deviation / predicted).log2();
    println!("{stage}: sd 2^{:.2}, predicted 2^{:.2}", measured.deviation.log2(), predicted.log2());
    assert!(distance.abs() <= tolerance, "{stage}: {distance:+.2} bits off the prediction");
}

/// The same, and no coefficient is off by more than happens.
fn assert_gaussian(stage: &str, measured: Measurement, predicted: f64, tolerance: f64) {
    assert_predicted(stage, measured, predicted, tolerance);
    let most = EXTREME * predicted * tolerance.exp2();
    assert!(measured.maximum <= most, "{stage}: maximum {}", measured.maximum);
}

/// Of several measurements of as many values each.
fn mean(measured: &[Measurement]) -> Measurement {
    let squares: f64 = measured.iter().map(|measured| measured.deviation.powi(2)).sum();
    let maximum = measured.iter().map(|measured| measured.maximum).fold(0.0, f64::max);
    Measurement { deviation: (squares / measured.len() as f64).sqrt(), maximum }
}

/// `round(q m / t)` modulo the prime q of the ring.
fn scaled(ntt: &Ntt, message: &[i64]) -> Polynomial<Coefficient> {
    let bits = bfv::Parameters::s2048().plaintext_bits();
    let (q, half) = (i128::from(ntt.modulus().value()), 1 << (bits - 1));
    let scaled: Vec<i64> = message.iter().map(|m| ((i128::from(*m) * q + half) >> bits) as i64).collect();
    Polynomial::from_signed(ntt.modulus(), &scaled)
}

/// The same at a constant term alone.
fn constant(ntt: &Ntt, value: u64) -> Polynomial<Coefficient> {
    Polynomial::from_residues((0..ntt.degree()).map(|i| if i == 0 { value } else { 0 }))
}

fn of_halves(halves: &[Aligned<u64>; 2]) -> Ciphertext<Coefficient> {
    let [c0, c1] = halves.each_ref().map(|half| Polynomial::from_residues(half.iter().copied()));
    Ciphertext { c0, c1 }
}

fn noise_of(
    key: &ClientKey,
    ntt: &Ntt,
    ciphertext: &Ciphertext<Coefficient>,
    expected: &Polynomial<Coefficient>,
) -> Measurement {
    key.secret().noise(bfv::Parameters::s2048(), ntt, ciphertext, expected)
}

/// Both rows of an RGSW ciphertext for each weight, against what they encrypt.
fn rgsw_noise(key: &ClientKey, rgsw: &Rgsw, bit: u64) -> [Vec<Measurement>; 2] {
    let bfv = bfv::Parameters::s2048();
    let ntt = bfv.large();
    let secret: Polynomial<Evaluation> = key.secret().over(bfv, ntt);
    let rows = rgsw.halves.chunks_exact(2 * bfv.degree()).enumerate().map(|(row, halves)| {
        let [c0, c1] = [0, 1].map(|half| {
            Polynomial::<Evaluation>::from_residues(
                halves[half * bfv.degree()..][..bfv.degree()].iter().copied(),
            )
        });
        let ciphertext = Ciphertext { c0, c1 }.into_coefficient(ntt);
        let digits = PRODUCT.digits as usize;
        let weight = bit * PRODUCT.weight(ntt.modulus(), (row % digits) as u32);
        let mut expected = constant(ntt, weight).into_evaluation(ntt);
        if row >= digits {
            expected.mul_assign(ntt.modulus(), &secret);
        }
        noise_of(key, ntt, &ciphertext, &expected.into_coefficient(ntt))
    });
    let mut rows: Vec<Measurement> = rows.collect();
    let second = rows.split_off(PRODUCT.digits as usize);
    [rows, second]
}

/// Runs one query through the stages of an answer and checks each.
fn check(elements: usize, columns: Option<usize>, fill: Option<u8>) {
    let bfv = bfv::Parameters::s2048();
    let (large, small) = (bfv.large(), bfv.small());
    let parameters = match columns {
        Some(columns) => Parameters::with_columns(elements, 288, columns),
        None => Parameters::choose(elements, 288),
    };
    let parameters = parameters.unwrap();
    println!("{elements} elements, {} rows, {} columns", parameters.rows(), parameters.columns());
    let predicted = stages(&parameters);
    let mut rng = ChaCha20Rng::seed_from_u64(elements as u64);
    let mut data = vec![fill.unwrap_or(0); elements * 288];
    if fill.is_none() {
        rng.fill_bytes(&mut data);
    }
    let database = Database::new(&PagePool::default(), &parameters, &data).unwrap();
    let key = OnionPir::client_key(&[3; 32]);
    let keys = OnionPir::decode_public_keys(&OnionPir::encode_public_keys(&key)).unwrap();
    let index = elements - 1;
    let plaintext = index / parameters.packing().elements_per_plaintext();
    let (row, column) = (plaintext % parameters.rows(), plaintext / parameters.rows());
    let sent = query(&key, &parameters, index, &mut rng).unwrap();
    let selectors = Query::decode(&parameters, &sent).unwrap().expand(&parameters, &keys);

    // Much of a leaf's noise sits in few of its coefficients.
    let fluctuation = |leaves: usize| 0.1 + 1.5 / (leaves as f64).sqrt();
    let rows: Vec<Measurement> = selectors
        .rows
        .iter()
        .enumerate()
        .map(|(i, selector)| {
            let mut message = vec![0; bfv.degree()];
            message[0] = i64::from(i == row);
            noise_of(&key, small, &selector.clone().into_coefficient(small), &scaled(small, &message))
        })
        .collect();
    assert_predicted("row", mean(&rows), predicted.row, fluctuation(parameters.rows()));

    let (mut values, mut times_secret) = (Vec::new(), Vec::new());
    for (k, rgsw) in selectors.bits.iter().enumerate() {
        let [first, second] = rgsw_noise(&key, rgsw, (column >> k & 1) as u64);
        values.extend(first);
        times_secret.extend(second);
    }
    let tolerance = fluctuation(parameters.values().max(1));
    if columns != Some(1) {
        assert_predicted("value", mean(&values), predicted.value, tolerance);
        assert_predicted("times s", mean(&times_secret), predicted.times_secret, tolerance);
    }

    // What a choice adds to ciphertexts of random messages without noise.
    let messages = [0, 1].map(|_| (0..bfv.degree()).map(|_| i64::from(rng.next_u32() as u8)).collect());
    let secret = key.secret().over(bfv, large);
    let exact = messages.each_ref().map(|message: &Vec<i64>| {
        let c1: Polynomial<Evaluation> =
            Polynomial::from_residues((0..bfv.degree()).map(|_| rng.next_u64() >> 15));
        let mut product = c1.clone();
        product.mul_assign(large.modulus(), &secret);
        let mut c0 = scaled(large, message);
        c0.sub_assign(large.modulus(), &product.into_coefficient(large));
        let c1 = c1.into_coefficient(large);
        [c0, c1].map(|half| half.residues().iter().copied().collect::<Aligned<u64>>())
    });
    let added = selectors.bits.iter().enumerate().map(|(k, rgsw)| {
        let mut chosen = exact[0].clone();
        rgsw.choose(&mut chosen, &exact[1], &mut Buffers::default());
        noise_of(&key, large, &of_halves(&chosen), &scaled(large, &messages[column >> k & 1]))
    });
    let added: Vec<Measurement> = added.collect();
    if columns != Some(1) {
        assert_predicted("choice", mean(&added), predicted.choice, tolerance);
    }

    // First dimension, and choices.
    let message: Vec<i64> = {
        let mut encoded = Polynomial::<Evaluation>::zero(bfv.degree());
        Encoder::default().encode(parameters.packing(), &data, 0, plaintext, encoded.residues_mut());
        let encoded = encoded.into_coefficient(small);
        encoded.residues().iter().map(|value| small.modulus().centre(*value)).collect()
    };
    let mut products = [Products::default()];
    first_dimension(&database, 0, &[&selectors], &mut products);
    let raised = lifted(&products[0], column);
    let measured = noise_of(&key, large, &of_halves(&raised), &scaled(large, &message));
    let ratio = large.modulus().value() as f64 / small.modulus().value() as f64;
    assert_gaussian("column", measured, predicted.column * ratio, fluctuation(parameters.rows()));
    let chosen = choose(&products[0], &selectors.bits, 0..parameters.columns(), &mut Buffers::default());
    let measured = noise_of(&key, large, &of_halves(&chosen), &scaled(large, &message));
    assert_gaussian("chosen", measured, predicted.chosen, fluctuation(parameters.rows()));

    // The answer.
    let answer = OnionPir::answer(&database, &keys, &sent).unwrap();
    let bits = parameters.answer_coefficient_bits();
    let mut reader = BitReader::new(&answer[HEADER_BYTES..]);
    let mut half = || (0..bfv.degree()).map(|_| reader.read(bits)).collect::<Vec<u64>>();
    let (c0, c1) = (half(), half());
    let phase = key.secret().phase_power_of_two(bfv, &c0, &c1, bits);
    let step = bits - bfv.plaintext_bits();
    let measured = Measurement::of(phase.iter().zip(&message).map(|(phase, m)| {
        let distance = phase.wrapping_sub((m << step) as u64) << (64 - bits);
        ((distance as i64) >> (64 - bits)) as f64
    }));
    assert_gaussian("answer", measured, predicted.answer, 0.2);
    let budget = f64::from(step).exp2() / 2.0;
    assert!(measured.maximum < budget, "a wrong coefficient");
    assert!(noise::failure_log2(&parameters) <= MAXIMUM_FAILURE_LOG2);
    println!("budget: 2^{:.2}, largest 2^{:.2}", budget.log2(), measured.maximum.log2());
}

#[test]
fn no_coefficient_of_an_answer_is_wrong() {
    check(1, Some(1), None);
    check(400, None, None);
    check(8 * 30 * 37, Some(37), None);
    check(8 * 230 * 2, Some(2), None);
}

#[test]
fn no_uniform_database_makes_more_noise_than_a_random_one() {
    check(1600, Some(5), Some(0));
    check(1600, Some(5), Some(0xFF));
}

/// The shape of the measurements in the documents.
#[test]
#[ignore = "takes half a minute in a debug build"]
fn no_coefficient_of_an_answer_is_wrong_in_the_shape_that_is_compared() {
    check(1 << 18, None, None);
}
