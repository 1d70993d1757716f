//! Noise measured at every stage of real answers, against the predictions of [`crate::noise`].

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::database::Database;
use super::format::{QUERY_DROPPED_BITS, SEED_BYTES};
use super::progress::Progress;
use super::server::{self, decode_query};
use super::shape::query_coefficient_bits;
use super::{Parameters, SealPir, client};
use crate::bfv::{Ciphertext, Measurement};
use crate::expand::position;
use crate::noise;
use crate::packing::Encoder;
use crate::ring::bits::{BitReader, BitWriter};
use crate::ring::{Coefficient, Evaluation, Ntt, Polynomial};
use crate::{Scheme, bfv};

/// Beyond this many standard deviations, a Gaussian value is met with probability 2^-57.
const EXTREME: f64 = 8.6;

/// How far, in bits, the energy of so many leaves may be from its mean: much of it sits in one coefficient of each.
fn fluctuation(leaves: usize) -> f64 {
    0.1 + 1.5 / (leaves as f64).sqrt()
}

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

/// The same for a handful of Gaussian values, where only many tell the deviation.
fn assert_few_predicted(stage: &str, measured: Measurement, predicted: f64, count: usize) {
    println!("{stage}: sd 2^{:.2}, predicted 2^{:.2}", measured.deviation.log2(), predicted.log2());
    let distance = (measured.deviation / predicted).log2();
    let tolerance = 0.1 + 4.0 / (2.0 * count as f64).sqrt();
    assert!(distance <= tolerance, "{stage}: {distance:+.2} bits off the prediction");
    assert!(count < 32 || distance >= -tolerance, "{stage}: {distance:+.2} bits off the prediction");
}

/// `round(q m / t)` modulo the prime q of the ring.
fn scaled(ntt: &Ntt, message: &[i64]) -> Polynomial<Coefficient> {
    let bits = bfv::Parameters::s2048().plaintext_bits();
    let (q, half) = (i128::from(ntt.modulus().value()), 1 << (bits - 1));
    let scaled: Vec<i64> = message.iter().map(|m| ((i128::from(*m) * q + half) >> bits) as i64).collect();
    Polynomial::from_signed(ntt.modulus(), &scaled)
}

/// The representative of a residue modulo `2^bits` in `[-2^(bits-1), 2^(bits-1))`.
fn centre(value: u64, bits: u32) -> i64 {
    ((value << (64 - bits)) as i64) >> (64 - bits)
}

/// The low and the high halves of the coefficients of c0, then of c1, centred modulo t.
fn chunks(ciphertext: &Ciphertext<Coefficient>) -> impl Iterator<Item = Vec<i64>> {
    let bits = bfv::Parameters::s2048().plaintext_bits();
    [&ciphertext.c0, &ciphertext.c1].into_iter().flat_map(move |half| {
        [0, bits].map(|shift| half.residues().iter().map(|value| centre(value >> shift, bits)).collect())
    })
}

/// Noise of a phase modulo `2^bits` whose message, scaled, is `message 2^(bits - log2 t)`.
fn distance(phase: &[u64], message: &[i64], bits: u32) -> Measurement {
    let scale = bits - bfv::Parameters::s2048().plaintext_bits();
    let noise = phase.iter().zip(message);
    Measurement::of(noise.map(|(phase, m)| centre(phase.wrapping_sub((m << scale) as u64), bits) as f64))
}

/// Runs one query through the stages of an answer and checks each.
fn check(elements: usize, columns: usize, fill: Option<u8>) {
    let bfv = bfv::Parameters::s2048();
    let (large, small) = (bfv.large(), bfv.small());
    let parameters = Parameters::with_columns(elements, 288, columns).unwrap();
    println!("{elements} elements, {} rows, {columns} columns", parameters.rows());
    let circuit = parameters.circuit();
    let predicted = noise::stages(bfv, &circuit);
    let mut data = vec![fill.unwrap_or(0); elements * 288];
    let mut rng = ChaCha20Rng::seed_from_u64(columns as u64);
    if fill.is_none() {
        rng.fill_bytes(&mut data);
    }
    let database = Database::new(&crate::PagePool::default(), &parameters, &data).unwrap();
    let key = SealPir::client_key(&[3; 32]);
    let keys = bfv::GaloisKeys::derive(bfv, &key.secret, &key.seed);
    let index = elements - 1;
    let (plaintext, row) = (parameters.plaintexts() - 1, (parameters.plaintexts() - 1) % parameters.rows());
    let column = plaintext / parameters.rows();
    let is_chosen = |selector: usize| {
        selector == row || parameters.dimensions() == 2 && selector == parameters.rows() + column
    };
    let query = client::query(&key.secret, &parameters, index, &mut rng).unwrap();

    // The query, at what was sent of it.
    let phase = key.secret.phase(bfv, large, &decode_query(&parameters, &query).unwrap());
    let noise = (0..parameters.selectors()).map(|i| {
        let expected = if is_chosen(i) { bfv.delta() } else { 0 };
        let value = phase.residues()[position(i, parameters.levels())];
        large.modulus().centre(large.modulus().sub(value, expected)) as f64
    });
    assert_few_predicted("query", Measurement::of(noise), predicted.query, parameters.selectors());

    // EXPAND.
    let mut progress = Progress::default();
    let mut expand = |switched: usize| {
        let mut noise = [Vec::new(), Vec::new()];
        let query = decode_query(&parameters, &query).unwrap();
        progress.expand(&parameters, &keys, query, switched).unwrap();
        let (ntt, count) = if switched > 0 { (small, switched) } else { (large, parameters.selectors()) };
        for (i, leaf) in progress.leaves().iter().take(count).enumerate() {
            let mut expected = vec![0; bfv.degree()];
            expected[0] = i64::from(is_chosen(i));
            let mut phase = key.secret.phase(bfv, ntt, &leaf.clone().into_coefficient(ntt));
            phase.sub_assign(ntt.modulus(), &scaled(ntt, &expected));
            let leaf = phase.residues().iter().map(|value| ntt.modulus().centre(*value) as f64);
            noise[0].extend(leaf.clone());
            noise[1].extend(leaf.step_by(1 << parameters.levels()));
        }
        noise.map(|noise| Measurement::of(noise.into_iter()))
    };
    let ([all, peak], [selectors, _]) = (expand(0), expand(parameters.rows()));
    let (selector_count, excess) = (parameters.rows(), predicted.expanded_peak / predicted.expanded);
    for (stage, measured, predicted) in
        [("expanded", all, predicted.expanded), ("selector", selectors, predicted.selector)]
    {
        let distance = (measured.deviation / predicted).log2();
        println!("{stage}: sd 2^{:.2}, predicted 2^{:.2}", measured.deviation.log2(), predicted.log2());
        assert!(distance.abs() < fluctuation(selector_count), "{stage}: {distance:+.2} bits off");
        assert!(measured.maximum < EXTREME * predicted * excess, "{stage}: maximum {}", measured.maximum);
    }
    assert_few_predicted("peak", peak, predicted.expanded_peak, parameters.selectors());

    // First dimension.
    let message: Vec<i64> = {
        let mut encoded = Polynomial::<Evaluation>::zero(bfv.degree());
        Encoder::default().encode(parameters.packing(), &data, 0, plaintext, encoded.residues_mut());
        let encoded = encoded.into_coefficient(small);
        encoded.residues().iter().map(|value| small.modulus().centre(*value)).collect()
    };
    server::first_dimension(&database, 0, &mut [&mut progress]);
    let mut first = progress.product(column).into_coefficient(small);
    let measured = key.secret.noise(bfv, small, &first, &scaled(small, &message));
    assert_predicted("first", measured, predicted.first, fluctuation(parameters.rows()));

    // Second dimension, on chunks of what is switched to t^2.
    let mut messages = vec![message];
    if parameters.dimensions() == 2 {
        let bits = 2 * bfv.plaintext_bits();
        first.rescale(bfv::Parameters::to_power_of_two(small, bits));
        let phase = key.secret.phase_power_of_two(bfv, first.c0.residues(), first.c1.residues(), bits);
        let measured = distance(&phase, &messages[0], bits);
        assert_predicted("switched", measured, predicted.switched, fluctuation(parameters.rows()));
        messages = chunks(&first).collect();
        for (ciphertext, chunk) in progress.second(&parameters).into_iter().zip(&messages) {
            let ciphertext = ciphertext.into_coefficient(large);
            let measured = key.secret.noise(bfv, large, &ciphertext, &scaled(large, chunk));
            assert_predicted("second", measured, predicted.second, fluctuation(parameters.columns()));
        }
    }

    // The answer.
    let answer = server::answer(&database, &keys, &query).unwrap();
    let bits = parameters.answer_coefficient_bits();
    let mut reader = BitReader::new(&answer[4..]);
    let mut half = || (0..bfv.degree()).map(|_| reader.read(bits)).collect::<Vec<u64>>();
    for message in messages {
        let (c0, c1) = (half(), half());
        let phase = key.secret.phase_power_of_two(bfv, &c0, &c1, bits);
        assert_predicted("answer", distance(&phase, &message, bits), predicted.answer, 0.15);
    }
    assert!(noise::failure_log2(bfv, &circuit) <= noise::MAXIMUM_FAILURE_LOG2);
}

#[test]
fn noise_stays_where_the_failure_bound_puts_it_in_one_dimension() {
    check(1, 1, None);
    check(400, 1, None);
    check(4000, 1, None);
}

#[test]
fn noise_stays_where_the_failure_bound_puts_it_in_two_dimensions() {
    check(8 * 12, 3, None);
    check(8 * 230 * 2, 2, None);
    check(8 * 64 * 64, 64, None);
}

#[test]
fn no_uniform_database_makes_more_noise_than_a_random_one() {
    check(400, 1, Some(0));
    check(400, 1, Some(0xFF));
    check(1600, 5, Some(0xFF));
}

#[test]
fn no_field_of_a_query_leaves_the_range_of_its_prime() {
    let parameters = Parameters::with_columns(400, 288, 3).unwrap();
    let (bits, q) = (query_coefficient_bits(), bfv::Parameters::s2048().large().modulus().value());
    for field in [0, 1, (1 << bits) - 2, (1 << bits) - 1] {
        let mut query = super::encoding::query_header(&parameters).to_vec();
        query.extend([9; SEED_BYTES]);
        let mut writer = BitWriter::new(&mut query);
        (0..parameters.selectors()).for_each(|_| writer.write(field, bits));
        writer.finish();
        let decoded = decode_query(&parameters, &query).unwrap();
        let sent: Vec<usize> =
            (0..parameters.selectors()).map(|i| position(i, parameters.levels())).collect();
        for (coefficient, value) in decoded.c0.residues().iter().enumerate() {
            assert!(*value < q);
            let middle = (field << QUERY_DROPPED_BITS) + (1 << (QUERY_DROPPED_BITS - 1));
            assert_eq!(*value, if sent.contains(&coefficient) { middle } else { 0 });
        }
    }
    // What a client drops is less than half a step away from the middle, up to the last residue.
    let last = q - 1;
    assert!(last.abs_diff((last >> QUERY_DROPPED_BITS << QUERY_DROPPED_BITS) + (1 << 19)) <= 1 << 19);
}
