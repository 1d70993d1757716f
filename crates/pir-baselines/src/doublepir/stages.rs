//! Noise of both levels measured in real answers, against the predictions of [`super::Noise`].

use pir_core::PagePool;
use pir_core::bfv::Measurement;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::server::PUBLIC;
use super::{Parameters, client, server};
use crate::lwe::{
    Ask, Halves, SECURE, WORD_BYTES, encrypt, join_word, mask, multiply, public_seed, read_words, rounded,
    split_digits, times_public,
};

/// Beyond this many standard deviations, a Gaussian value is met with probability 2^-57.
const EXTREME: f64 = 8.6;

const SEED: [u8; 32] = [5; 32];

fn assert_predicted(stage: &str, measured: Measurement, predicted: f64, margin: f64) {
    println!("{stage}: sd 2^{:.2}, predicted 2^{:.2}", measured.deviation.log2(), predicted.log2());
    let distance = (measured.deviation / predicted).log2();
    assert!(distance.abs() <= 0.2, "{stage}: {distance:+.2} bits off the prediction");
    assert!(measured.maximum <= EXTREME * predicted, "{stage}: maximum {}", measured.maximum);
    assert!(measured.maximum < margin, "{stage}: a wrong digit");
}

/// What a word is off the next multiple of the step of digits of so many bits.
fn off(word: u32, bits: u32) -> f64 {
    let step = 1u32 << (32 - bits);
    f64::from(word.wrapping_add(step / 2) % step) - f64::from(step / 2)
}

/// One query through a whole database of one-byte elements, or of long ones in blocks.
fn check(elements: usize, element_bytes: usize, row_elements: usize, blocks: usize) {
    let parameters = Parameters::<SECURE>::new(elements, element_bytes, row_elements, blocks).unwrap();
    let (bits, digits) = (parameters.plaintext_bits(), parameters.word_digits());
    println!("{elements} x {element_bytes}: {} rows, {} columns", parameters.rows(), parameters.columns());
    let mut data = vec![0; elements * element_bytes];
    ChaCha20Rng::seed_from_u64(7).fill_bytes(&mut data);
    let (database, hint) =
        server::setup(&PagePool::default(), &parameters, &SEED, &[&data]).unwrap().remove(0);
    let index = elements - 1;
    let (query, asked) = client::queries(&parameters, &SEED, &[index], &[9; 32]).unwrap();
    let [first, second] = asked[0].secrets();
    let predicted = parameters.noise().stages();

    // The second level: of words, the nearest digits are the right ones if the element is.
    let answer = server::answer(&database, &[&query], &mut |_| ()).remove(0).unwrap();
    let element = client::extract(&parameters, &asked[0], &hint, &answer).unwrap();
    assert!(element == data[index * element_bytes..]);
    let masked = read_words(&answer[..WORD_BYTES * digits * SECURE]);
    let rows = hint.chunks_exact(WORD_BYTES * SECURE);
    let unmasked: Vec<u32> =
        masked.iter().zip(rows).map(|(word, row)| word.wrapping_sub(mask(row, second))).collect();
    let noise = Measurement::of(unmasked.iter().map(|word| off(*word, bits[1])));
    assert_predicted("second", noise, predicted.answer[1], predicted.margin[1]);

    // What the second level gives is the row of D A1.
    let products = times_public(&public_seed(PUBLIC[0], &SEED), SECURE, &[database.matrix()]).remove(0);
    let row = index / row_elements;
    let expected = read_words(&products[WORD_BYTES * SECURE * row..][..WORD_BYTES * SECURE]);
    let words = unmasked
        .chunks_exact(digits)
        .map(|word| join_word(word.iter().map(|digit| rounded(*digit, bits[1])), bits[1]));
    assert!(words.eq(expected), "the first level's hint");

    // The first level, all rows of the matrix.
    let columns = parameters.columns();
    let query = read_words(&query)[..columns].to_vec();
    let (none, own) = (vec![0; columns], public_seed(PUBLIC[0], &SEED));
    let masks = encrypt(&own, 0, &[Ask { secret: first, errors: &none, chosen: columns }]);
    let unmasked: Vec<u32> =
        query.iter().zip(masks[0].iter()).map(|(word, mask)| word.wrapping_sub(*mask)).collect();
    let matrix = database.matrix();
    let mut words = vec![0; matrix.rows()];
    multiply(matrix, 0..matrix.rows(), &Halves::new(columns, [&unmasked[..]]), &mut words);
    let noise = Measurement::of(words.iter().map(|word| off(*word, bits[0])));
    assert_predicted("first", noise, predicted.answer[0], predicted.margin[0]);
    let mut split = vec![0; parameters.digits()];
    split_digits(&data[index * element_bytes..], bits[0], &mut split);
    assert_eq!(rounded(words[row], bits[0]) as i32 - (1 << (bits[0] - 1)), i32::from(split[0]));
    assert!(parameters.noise().failure_log2() <= -40.0);
}

#[test]
fn noise_of_both_levels_is_what_was_predicted() {
    check(1 << 18, 1, 512, 1);
    check(20_000, 12, 80, 3);
}
