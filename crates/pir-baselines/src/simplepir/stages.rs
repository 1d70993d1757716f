//! Noise measured in real queries and answers, against the predictions of [`super::Noise`].

use pir_core::PagePool;
use pir_core::bfv::Measurement;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::server::PUBLIC;
use super::{Parameters, client, server};
use crate::lwe::{Ask, SECURE, WORD_BYTES, encrypt, mask, public_seed, read_words, split_digits};

/// Beyond this many standard deviations, a Gaussian value is met with probability 2^-57.
const EXTREME: f64 = 8.6;

const SEED: [u8; 32] = [5; 32];

fn assert_predicted(stage: &str, measured: Measurement, predicted: f64) {
    println!("{stage}: sd 2^{:.2}, predicted 2^{:.2}", measured.deviation.log2(), predicted.log2());
    let distance = (measured.deviation / predicted).log2();
    assert!(distance.abs() <= 0.2, "{stage}: {distance:+.2} bits off the prediction");
    assert!(measured.maximum <= EXTREME * predicted, "{stage}: maximum {}", measured.maximum);
}

/// What words differ by from the multiples of delta that they should be.
fn noise(words: &[u32], digits: impl Iterator<Item = i32>, bits: u32) -> Measurement {
    let of = |(word, digit): (&u32, i32)| f64::from(word.wrapping_sub((digit as u32) << (32 - bits)) as i32);
    Measurement::of(words.iter().zip(digits).map(of))
}

/// One query through a whole database, filled at random or with one byte.
fn check(elements: usize, element_bytes: usize, column_elements: usize, fill: Option<u8>) {
    let parameters = Parameters::<SECURE>::new(elements, element_bytes, column_elements).unwrap();
    let (bits, columns) = (parameters.plaintext_bits(), parameters.columns());
    println!("{elements} x {element_bytes}: {} rows, {columns} columns of {bits} bits", parameters.rows());
    let mut data = vec![fill.unwrap_or(0); elements * element_bytes];
    if fill.is_none() {
        ChaCha20Rng::seed_from_u64(7).fill_bytes(&mut data);
    }
    let (database, hint) =
        server::setup(&PagePool::default(), &parameters, &SEED, &[&data]).unwrap().remove(0);
    let index = elements - 1;
    let (query, asked) = client::queries(&parameters, &SEED, &[index], &[9; 32]).unwrap();
    let predicted = parameters.noise().stages();

    // The query, less its mask, is the error and the chosen column's delta.
    let none = vec![0; columns];
    let ask = Ask { secret: asked[0].secret(), errors: &none, chosen: columns };
    let masks = encrypt(&public_seed(PUBLIC, &SEED), 0, &[ask]);
    let words: Vec<u32> =
        read_words(&query).iter().zip(masks[0].iter()).map(|(word, mask)| word.wrapping_sub(*mask)).collect();
    let chosen = (0..columns).map(|column| i32::from(column == index / column_elements));
    assert_predicted("query", noise(&words, chosen, bits), predicted.query);

    // The answer, less its mask, is the column's digits and noise.
    let answer = server::answer(&database, &[&query], &mut |_| ()).remove(0).unwrap();
    let hints = hint.chunks_exact(WORD_BYTES * SECURE);
    let words: Vec<u32> = read_words(&answer)
        .iter()
        .zip(hints)
        .map(|(word, hint)| word.wrapping_sub(mask(hint, asked[0].secret())))
        .collect();
    let column = data.chunks_exact(element_bytes * column_elements).nth(index / column_elements);
    let column = column.expect("a last column that is full").chunks_exact(element_bytes);
    let digits = column.flat_map(|element| {
        let mut digits = vec![0; parameters.digits()];
        split_digits(element, bits, &mut digits);
        digits.into_iter().map(i32::from)
    });
    let measured = noise(&words, digits, bits);
    assert!(measured.maximum < predicted.margin, "a wrong digit");
    match fill {
        None => assert_predicted("answer", measured, predicted.answer),
        // All rows are the same, and so are their sums: one draw.
        Some(_) => assert!(measured.maximum <= EXTREME * predicted.worst, "{}", measured.maximum),
    }
    let element = client::extract(&parameters, &asked[0], &hint, &answer).unwrap();
    assert!(element == data[index * element_bytes..]);
    assert!(parameters.noise().failure_log2() <= -40.0);
}

#[test]
fn noise_is_what_was_predicted() {
    check(600, 288, 1, None);
    check(4096, 32, 16, None);
    check(1 << 16, 3, 64, None);
}

#[test]
fn no_uniform_database_makes_more_noise_than_the_bound() {
    check(2000, 32, 4, Some(0));
    check(2000, 32, 4, Some(0xFF));
}
