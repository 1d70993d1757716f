//! Noise measured at every stage of real answers, against the predictions.

use pir_core::bfv::{Ciphertext, Measurement};
use pir_core::noise::MAXIMUM_FAILURE_LOG2;
use pir_core::ring::bits::BitReader;
use pir_core::ring::{Evaluation, Polynomial};
use pir_core::{PagePool, Scheme};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::batching::slot;
use super::client::{query, scaled};
use super::keys::ClientKey;
use super::lattice::{DEGREE, Lattice, PLACES};
use super::noise::{self, stages};
use super::server::{Columns, decode_query, first_dimension, whiten, write_answer};
use super::{Database, FastPir, Parameters};

/// Beyond this many standard deviations, a Gaussian value is met with probability 2^-57.
const EXTREME: f64 = 8.6;

fn assert_predicted(stage: &str, measured: Measurement, predicted: f64, tolerance: f64) {
    let distance = (measured.deviation / predicted).log2();
    println!("{stage}: sd 2^{:.2}, predicted 2^{:.2}", measured.deviation.log2(), predicted.log2());
    assert!(distance.abs() <= tolerance, "{stage}: {distance:+.2} bits off the prediction");
    assert!(
        measured.maximum <= EXTREME * predicted * tolerance.exp2(),
        "{stage}: maximum {}",
        measured.maximum
    );
}

/// `c0 + c1 s - round(q m / t)`, centred modulo q.
fn noise<const Q: u32>(
    key: &ClientKey,
    parameters: &Parameters<Q>,
    ciphertext: &[Ciphertext<Evaluation>],
    message: &[u64],
) -> Measurement {
    let lattice = Lattice::of::<Q>();
    let expected = scaled(lattice, parameters.batching(), message);
    let distances = lattice.data().iter().zip(ciphertext).zip(key.secret()).zip(expected).map(
        |(((ring, part), secret), expected)| {
            let mut phase = part.c1.clone();
            phase.mul_assign(ring.modulus(), secret);
            phase.add_assign(ring.modulus(), &part.c0);
            let mut phase = phase.into_coefficient(ring);
            phase.sub_assign(ring.modulus(), &expected);
            (ring.modulus(), phase)
        },
    );
    let distances: Vec<_> = distances.collect();
    // The number below q of these residues, prime by prime, as a multiple of the product of the primes before.
    Measurement::of((0..DEGREE).map(|i| {
        let (mut value, mut product) = (0i128, 1i128);
        for (modulus, distance) in &distances {
            let q = i128::from(modulus.value());
            let product_inverse = modulus.inverse(product.rem_euclid(q) as u64);
            let rest = (i128::from(distance.residues()[i]) - value).rem_euclid(q) as u64;
            value += product * i128::from(modulus.mul(rest, product_inverse));
            product *= q;
        }
        (if value > product / 2 { value - product } else { value }) as f64
    }))
}

/// The polynomial modulo t with the given values at all places of both rows.
fn encoded<const Q: u32>(parameters: &Parameters<Q>, value: impl Fn(usize, usize) -> u64) -> Vec<u64> {
    let mut values = vec![0; DEGREE];
    for (row, place) in (0..2).flat_map(|row| (0..PLACES).map(move |place| (row, place))) {
        values[slot(row, place)] = value(row, place);
    }
    parameters.batching().encode(&mut values);
    values
}

/// Runs one query through the stages of an answer and checks each.
fn check<const Q: u32>(elements: usize, size: usize, fill: Option<u8>) {
    let parameters = Parameters::<Q>::new_allowing_insecure_parameters(elements, size).unwrap();
    let (rows, columns) = (parameters.rows(), parameters.columns());
    println!(
        "{elements} elements of {size} bytes, {} bits, {rows} rows, {columns} columns",
        parameters.value_bits()
    );
    let predicted = stages(&parameters);
    let mut rng = ChaCha20Rng::seed_from_u64(elements as u64);
    let mut data = vec![fill.unwrap_or(0); elements * size];
    if fill.is_none() {
        rng.fill_bytes(&mut data);
    }
    let database = Database::new(&PagePool::default(), &parameters, &data).unwrap();
    let key = FastPir::<Q>::client_key(&[3; 32]);
    let keys = FastPir::<Q>::decode_public_keys(&FastPir::<Q>::encode_public_keys(&key)).unwrap();
    let index = elements / 2;
    let (row, place) = (index / PLACES, index % PLACES);
    let sent = query(&key, &parameters, index, &mut rng).unwrap();

    // The query.
    let selectors = decode_query(&parameters, &sent).unwrap();
    let one = encoded(&parameters, |_, at| u64::from(at == place));
    let mut squares = 0.0;
    for i in 0..rows {
        let ciphertext: Vec<_> = selectors.iter().map(|selectors| selectors[i].clone()).collect();
        let message = if i == row { &one[..] } else { &[0; DEGREE] };
        let measured = noise(&key, &parameters, &ciphertext, message);
        assert!(measured.maximum <= EXTREME * predicted.query, "ciphertext {i}");
        squares += measured.deviation.powi(2);
    }
    let measured = Measurement { deviation: (squares / rows as f64).sqrt(), maximum: 0.0 };
    assert_predicted("query", measured, predicted.query, 0.1);

    // What the columns are to hold: the values of the whitened element.
    let mut element = data[index * size..(index + 1) * size].to_vec();
    element.resize(parameters.padded_bytes(), 0);
    whiten(&mut element, index);
    let mut reader = BitReader::new(&element);
    let values: Vec<u64> =
        (0..2 * parameters.groups() * columns).map(|_| reader.read(parameters.value_bits())).collect();
    let value = |half: usize, column: usize| values[parameters.value_at(0, half, column)];

    // Columns.
    let mut results = [Columns::new(&database)];
    first_dimension(&database, 0, &[&selectors], &mut results);
    for column in [0, columns / 2, columns - 1] {
        let message = encoded(&parameters, |half, at| if at == place { value(half, column) } else { 0 });
        let measured = noise(&key, &parameters, &results[0].column(column), &message);
        assert_predicted("column", measured, predicted.column, 0.2);
    }

    // A rotation of what has no noise.
    let mut rotated: Vec<Ciphertext<Evaluation>> = Lattice::of::<Q>()
        .data()
        .iter()
        .zip(key.secret())
        .map(|(ring, secret)| {
            let c1: Polynomial<Evaluation> = pir_core::ring::sampling::uniform(ring, &[8; 32], 0);
            let mut c0 = c1.clone();
            c0.mul_assign(ring.modulus(), secret);
            c0.scale(ring.modulus(), ring.modulus().shoup(ring.modulus().value() - 1));
            Ciphertext { c0, c1 }
        })
        .collect();
    keys.rotate(5, &mut rotated);
    let measured = noise(&key, &parameters, &rotated, &[0; DEGREE]);
    assert_predicted("rotation", measured, predicted.rotation, 0.1);

    // All columns.
    let combined = results[0].combined(&keys, 0..columns);
    let message = encoded(&parameters, |half, at| {
        let column = (place + PLACES - at) % PLACES;
        if column < columns { value(half, column) } else { 0 }
    });
    let measured = noise(&key, &parameters, &combined, &message);
    assert_predicted("combined", measured, predicted.combined, 0.2);

    // The answer.
    let mut answer = Vec::new();
    write_answer(&parameters, combined, &mut answer);
    let bits = parameters.answer_coefficient_bits();
    let mut reader = BitReader::new(&answer);
    let mut half = || (0..DEGREE).map(|_| reader.read(bits)).collect::<Vec<u64>>();
    let (c0, c1) = (half(), half());
    let phase = key.phase(Lattice::of::<Q>(), [&c0, &c1], bits);
    let t = parameters.plaintext_modulus() as f64;
    let modulus = f64::from(bits).exp2();
    let measured = Measurement::of(phase.iter().zip(&message).map(|(phase, m)| {
        let distance = (*phase as f64 - *m as f64 * modulus / t).rem_euclid(modulus);
        if distance > modulus / 2.0 { distance - modulus } else { distance }
    }));
    assert_predicted("answer", measured, predicted.answer, 0.2);
    assert!(measured.maximum < predicted.budget, "a wrong coefficient");
    let whole = FastPir::<Q>::answer(&database, &keys, &sent).unwrap();
    assert!(whole[4..][..answer.len()] == answer, "other stages");
    assert!(noise::failure_log2(&parameters) <= MAXIMUM_FAILURE_LOG2);
    println!("budget: 2^{:.2}, largest 2^{:.2}", predicted.budget.log2(), measured.maximum.log2());
}

#[test]
fn no_coefficient_of_an_answer_is_wrong() {
    check::<100>(1, 3, None);
    check::<100>(2100, 288, None);
    check::<100>(1 << 15, 100, None);
}

#[test]
fn no_coefficient_of_an_answer_is_wrong_with_the_papers_primes() {
    check::<109>(1, 3, None);
    check::<109>(2100, 288, None);
    check::<109>(1 << 15, 100, None);
}

#[test]
fn no_uniform_database_makes_more_noise_than_a_random_one() {
    check::<100>(5000, 64, Some(0));
    check::<109>(5000, 64, Some(0xFF));
}

/// The shapes of the measurements in the documents.
#[test]
#[ignore = "takes 1 GB of memory and half a minute"]
fn no_coefficient_of_an_answer_is_wrong_in_the_shapes_that_are_compared() {
    check::<100>(1 << 18, 288, None);
    check::<109>(1 << 18, 288, None);
}
