//! EXPAND, and the noise measured at every stage of real answers, against the predictions.

use pir_core::bfv::{Ciphertext, Measurement};
use pir_core::noise::MAXIMUM_FAILURE_LOG2;
use pir_core::ring::{Coefficient, Polynomial};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::kernel::{
    DEGREE, Q, backward_ciphertext, centre, forward, from_signed, inner_products, sub, uniform, zip,
};
use super::keys::{ClientKey, PublicKeys};
use super::noise::{self, stages};
use super::server::{encode_answer, encode_part, second_dimension, selectors, split};
use super::shape::Parameters;
use super::{client, expand};

/// Distance of a ciphertext's phase from `q m / t'`.
fn noise(key: &ClientKey, ciphertext: &Ciphertext<Coefficient>, message: &[i64], bits: u32) -> Measurement {
    let scaled = message.iter().map(|m| {
        let scaled = (i128::from(*m) * i128::from(Q) + (1 << (bits - 1))) >> bits;
        from_signed(scaled as i64)
    });
    let distance = zip(&key.phase(ciphertext), &Polynomial::from_residues(scaled), sub);
    Measurement::of(distance.residues().iter().map(|value| centre(*value) as f64))
}

/// That the deviation is the predicted one within `tolerance` bits.
fn assert_predicted(stage: &str, measured: Measurement, predicted: f64, tolerance: f64) {
    let distance = (measured.deviation / predicted).log2();
    println!("{stage}: sd 2^{:.2}, predicted 2^{:.2}", measured.deviation.log2(), predicted.log2());
    assert!(distance.abs() <= tolerance, "{stage}: {distance:+.2} bits off the prediction");
}

/// That every coefficient decrypts, with as many bits to spare as the failure bound demands.
fn assert_within_budget(stage: &str, measured: Measurement, budget: f64) {
    let left = (budget / measured.maximum).log2();
    println!("{stage}: largest 2^{:.2}, {left:.2} bits of the budget left", measured.maximum.log2());
    assert!(left > 0.5, "{stage}: {left:+.2} bits of the noise budget left");
}

fn signed(polynomial: &Polynomial<Coefficient>) -> Vec<i64> {
    polynomial.residues().iter().map(|value| centre(*value)).collect()
}

/// Runs one query through the stages of an answer and checks each.
///
/// Of the database, only the column that is asked for exists. The first dimension's results for the others are uniform
/// ciphertexts, which is what they look like to whoever has no key: the second dimension, on as many columns as the shape
/// has, meets the same noise.
fn check<const T: u32>(elements: usize) {
    let parameters = Parameters::<T>::new_allowing_insecure_parameters(elements, 288, 2).unwrap();
    let (rows, columns, bits) = (parameters.rows(), parameters.columns(), parameters.plaintext_bits());
    println!("{elements} elements, log t {T}, log t' {bits}, {rows} rows, {columns} columns");
    let predicted = stages(&parameters);
    let key = ClientKey::derive::<T>(&[3; 32]);
    let keys = PublicKeys::<T>::decode(&key.public_keys::<T>().encode()).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(elements as u64);
    // A full column, and neither its first row nor its last.
    let (row, column) = (rows / 2, columns / 2);
    let (alpha, plaintext) = (parameters.elements_per_plaintext(), column * rows + row);
    let index = plaintext * alpha + alpha / 2;
    let query = client::query(&key, &parameters, index, &mut rng).unwrap();

    // EXPAND.
    let expanded = selectors(&parameters, &keys, &query).unwrap();
    for (dimension, (selectors, chosen)) in expanded.iter().zip([row, column]).enumerate() {
        let (mut squares, count) = (0.0, selectors.len());
        for (i, selector) in selectors.iter().enumerate() {
            let mut message = vec![0; DEGREE];
            message[0] = i64::from(i == chosen);
            let measured = noise(&key, &backward_ciphertext(selector.clone()), &message, bits);
            assert!(measured.maximum < predicted.budget, "selector {i} of dimension {dimension}");
            squares += measured.deviation.powi(2);
        }
        let measured = Measurement { deviation: (squares / count as f64).sqrt(), maximum: 0.0 };
        let tolerance = 0.1 + 1.5 / (count as f64).sqrt();
        assert_predicted("selectors", measured, predicted.selectors[dimension], tolerance);
    }

    // First dimension.
    let mut data = vec![vec![0; alpha * 288]; rows];
    data.iter_mut().for_each(|part| rng.fill_bytes(part));
    let plaintexts =
        data.iter().enumerate().map(|(i, part)| encode_part(&parameters, part, column * rows + i));
    let plaintexts: Vec<_> = plaintexts.collect();
    let message = signed(&plaintexts[row]);
    let transformed: Vec<_> = plaintexts.into_iter().map(forward).collect();
    let result = inner_products(&expanded[0], &[&transformed]).remove(0);
    let measured = noise(&key, &backward_ciphertext(result.clone()), &message, bits);
    assert_predicted("first", measured, predicted.dimensions[0], 0.25);
    assert_within_budget("first", measured, predicted.budget);

    // Second dimension.
    let random = |i: usize| uniform(&[9; 32], i as u64);
    let mut results: Vec<_> =
        (0..columns).map(|i| Ciphertext { c0: random(2 * i), c1: random(2 * i + 1) }).collect();
    results[column] = result.clone();
    let answer = second_dimension(&parameters, &expanded[1], results);
    assert_eq!(answer.len(), 2 * 60usize.div_ceil(bits as usize));
    let chunks: Vec<_> = split(&backward_ciphertext(result), bits).collect();
    assert_eq!(chunks.len(), answer.len());
    let per_half = chunks.len() / 2;
    for (i, (ciphertext, chunk)) in answer.iter().zip(&chunks).enumerate() {
        let measured = noise(&key, &backward_ciphertext(ciphertext.clone()), &signed(chunk), bits);
        assert_within_budget("second", measured, predicted.budget);
        // The highest chunk of a half has what is left of 60 bits.
        if i % per_half + 1 < per_half || 60 % bits == 0 {
            assert_predicted("second", measured, predicted.dimensions[1], 0.25);
        } else {
            assert!(measured.deviation < predicted.dimensions[1], "second: {}", measured.deviation);
        }
    }

    // The client's view.
    let answer = encode_answer(&parameters, answer);
    let element = client::extract(&key, &parameters, index, &answer).unwrap();
    assert!(element == data[row][alpha / 2 * 288..][..288], "another element");
    assert!(noise::failure_log2(&parameters) <= MAXIMUM_FAILURE_LOG2);
}

#[test]
fn no_coefficient_is_wrong_at_a_thousand_elements() {
    check::<20>(1000);
    check::<23>(1000);
}

#[test]
fn no_coefficient_is_wrong_in_the_shapes_of_the_papers_databases() {
    check::<20>(1 << 16);
    check::<23>(1 << 16);
    check::<20>(1 << 20);
    check::<23>(1 << 20);
}

/// The order of Figure 3 is not that of [`pir_core::expand`]: a selector in another's place would fetch another element.
#[test]
fn every_index_expands_to_its_own_selector() {
    let key = ClientKey::derive::<20>(&[4; 32]);
    let keys = key.public_keys::<20>();
    for (levels, count) in [(0, 1), (1, 2), (2, 3), (3, 8), (4, 11)] {
        for index in 0..count {
            let mut message = Polynomial::zero(DEGREE);
            message.residues_mut()[index] = Q >> (12 + levels);
            let query = key.encrypt(&message, uniform(&[5; 32], index as u64), &[6; 32], index as u64);
            let expanded = expand::expand(&keys, query, count, levels);
            assert_eq!(expanded.len(), count);
            for (i, selector) in expanded.iter().enumerate() {
                let mut expected = vec![0; DEGREE];
                expected[0] = u64::from(i == index);
                assert!(
                    *key.decrypt(selector, 12) == expected,
                    "{i} for {index} of {count}, {levels} levels"
                );
            }
        }
    }
}
