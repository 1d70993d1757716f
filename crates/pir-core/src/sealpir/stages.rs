//! Noise measured at every stage of real answers, against the predictions of [`crate::noise`].

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::database::{Database, encode};
use super::server::{self, Progress, decode_query};
use super::{Parameters, SealPir, client};
use crate::bfv::{Ciphertext, Measurement};
use crate::noise::{self, CHUNK_BITS};
use crate::ring::bits::BitReader;
use crate::ring::{Coefficient, Polynomial};
use crate::{Scheme, bfv};

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

/// `Delta * message`, the message given by signed coefficients.
fn scaled(message: &[i64], plaintext_bits: u32) -> Polynomial<Coefficient> {
    let bfv = bfv::Parameters::s4096();
    let basis = bfv.ciphertext_basis();
    let residues = bfv.residues(bfv.delta(plaintext_bits));
    let factors: Vec<_> =
        basis.moduli().zip(residues).map(|(modulus, residue)| modulus.shoup(residue)).collect();
    let mut polynomial = Polynomial::from_signed(basis, message);
    polynomial.scale(basis, &factors);
    polynomial
}

/// The representative of a residue modulo `2^bits` in `[-2^(bits-1), 2^(bits-1))`.
fn centre(value: u64, bits: u32) -> i64 {
    ((value << (64 - bits)) as i64) >> (64 - bits)
}

/// The low and the high 18 bits of the coefficients of c0, then of c1, centred modulo 2^18.
fn chunks(ciphertext: &Ciphertext<Coefficient>) -> impl Iterator<Item = Vec<i64>> {
    [&ciphertext.c0, &ciphertext.c1].into_iter().flat_map(|half| {
        [0, CHUNK_BITS]
            .map(|shift| half.channel(0).iter().map(|value| centre(value >> shift, CHUNK_BITS)).collect())
    })
}

/// Runs one query through the stages of an answer and checks each.
fn check(elements: usize, columns: usize, fill: Option<u8>) {
    let bfv = bfv::Parameters::s4096();
    let basis = bfv.ciphertext_basis();
    let parameters = Parameters::with_columns(elements, 288, columns).unwrap();
    println!("{elements} elements in {columns} columns, {} levels", parameters.levels());
    let circuit = parameters.circuit();
    let predicted = noise::stages(bfv, &circuit);
    let mut data = vec![fill.unwrap_or(0); elements * 288];
    let mut rng = ChaCha20Rng::seed_from_u64(columns as u64);
    if fill.is_none() {
        rng.fill_bytes(&mut data);
    }
    let database = Database::new(&parameters, &data).unwrap();
    let key = SealPir::client_key(&[3; 32]);
    let keys = bfv::GaloisKeys::derive(bfv, &key.secret, &key.seed);
    let index = elements - 1;
    let (plaintext, row) = (parameters.plaintexts() - 1, (parameters.plaintexts() - 1) % parameters.rows());
    let column = plaintext / parameters.rows();
    let query = client::query(&key.secret, &parameters, index, &mut rng).unwrap();

    // EXPAND.
    let mut progress = Progress::default();
    progress.expand(&parameters, &keys, decode_query(&parameters, &query).unwrap()).unwrap();
    let (mut all, mut peak) = (Vec::new(), Vec::new());
    for (i, leaf) in progress.leaves().iter().enumerate() {
        let (bits, chosen) = if i < parameters.rows() {
            (bfv.plaintext_bits(), i == row)
        } else {
            (CHUNK_BITS, i - parameters.rows() == column)
        };
        let mut expected = vec![0; bfv.degree()];
        expected[0] = i64::from(chosen);
        let mut phase = key.secret.phase(basis, &leaf.clone().into_coefficient(basis));
        phase.sub_assign(basis, &scaled(&expected, bits));
        let modulus = basis.transforms()[0].modulus();
        // Noise is far below half of one prime, so one residue tells it.
        let noise: Vec<f64> = phase.channel(0).iter().map(|value| modulus.centre(*value) as f64).collect();
        peak.extend(noise.iter().copied().step_by(1 << parameters.levels()));
        all.extend(noise);
    }
    let all = Measurement::of(all.into_iter());
    let distance = (all.deviation / predicted.expanded).log2();
    println!("expanded: sd 2^{:.2}, predicted 2^{:.2}", all.deviation.log2(), predicted.expanded.log2());
    assert!(distance.abs() < 0.3 && all.maximum < EXTREME * predicted.expanded_peak, "{distance:+.2}");
    assert_predicted("expanded, peak", Measurement::of(peak.into_iter()), predicted.expanded_peak, 0.5);

    // First dimension.
    let message: Vec<i64> = {
        let encoded = encode(&parameters, &data, 0, plaintext).into_coefficient(basis);
        let modulus = basis.transforms()[0].modulus();
        encoded.channel(0).iter().map(|value| modulus.centre(*value)).collect()
    };
    server::first_dimension(&database, 0, &mut [&mut progress]);
    let first = progress.product(column).into_coefficient(basis);
    let expected = scaled(&message, bfv.plaintext_bits());
    assert_predicted("first", key.secret.noise(basis, &first, &expected), predicted.first, 0.5);

    // Switched to the first prime: expected q0 m / t.
    let switched = first.switch_to_first(bfv);
    let q0 = i128::from(bfv.first_modulus().value());
    let expected: Vec<i64> =
        message.iter().map(|m| ((i128::from(*m) * q0) >> bfv.plaintext_bits()) as i64).collect();
    let expected = Polynomial::from_signed(bfv.first_basis(), &expected);
    let measured = key.secret.noise(bfv.first_basis(), &switched, &expected);
    assert_predicted("switched", measured, predicted.switched, 0.3);

    // Second dimension and answer.
    let answer = server::answer(&database, &keys, &query).unwrap();
    let bits = parameters.answer_coefficient_bits();
    let mut reader = BitReader::new(&answer[4..]);
    let mut half = || (0..bfv.degree()).map(|_| reader.read(bits)).collect::<Vec<u64>>();
    let messages: Vec<Vec<i64>> =
        if columns == 1 { vec![message] } else { chunks(&switched).collect::<Vec<_>>() };
    if columns > 1 {
        for (ciphertext, chunk) in progress.second(&parameters).into_iter().zip(&messages) {
            let ciphertext = ciphertext.into_coefficient(basis);
            let measured = key.secret.noise(basis, &ciphertext, &scaled(chunk, CHUNK_BITS));
            assert_predicted("second", measured, predicted.second, 0.5);
        }
    }
    for message in messages {
        let (c0, c1) = (half(), half());
        let phase = key.secret.phase_power_of_two(bfv, &c0, &c1, bits);
        let scale = bits - parameters.answer_plaintext_bits();
        let noise =
            phase.iter().zip(message).map(|(phase, m)| centre(phase.wrapping_sub((m << scale) as u64), bits));
        let measured = Measurement::of(noise.map(|value| value as f64));
        assert_predicted("answer", measured, predicted.answer, 0.15);
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
    check(40 * 12, 3, None);
    check(40 * 230 * 2, 2, None);
    check(40 * 40 * 40, 40, None);
}

#[test]
fn no_uniform_database_makes_more_noise_than_a_random_one() {
    check(400, 1, Some(0));
    check(400, 1, Some(0xFF));
    check(1600, 5, Some(0xFF));
}
