//! Noise measured at every stage of real answers, against the predictions of [`super::FreshCircuit`].

use pir_core::bfv::{Ciphertext, Measurement};
use pir_core::packing::{Encoder, Packing};
use pir_core::ring::bits::BitReader;
use pir_core::ring::{Coefficient, Evaluation, Ntt, Polynomial};
use pir_core::{Scheme, bfv, noise};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::server::{self, Progress, decode_query};
use super::{Database, Parameters, Xpir, client};

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

/// A client.
struct Run {
    key: client::ClientKey,
}

impl Run {
    /// Checks a ciphertext modulo q against its message.
    fn check(&self, stage: &str, ciphertext: &Ciphertext<Coefficient>, message: &[i64], predicted: f64) {
        let bfv = bfv::Parameters::s2048();
        let expected = scaled(bfv.small(), message);
        let measured = self.key.secret().noise(bfv, bfv.small(), ciphertext, &expected);
        assert_predicted(stage, measured, predicted, 0.2);
    }

    /// Switches a ciphertext to `t^2`, checks it, and gives its four chunks, the next dimension's messages.
    fn switch(
        &self,
        mut ciphertext: Ciphertext<Coefficient>,
        message: &[i64],
        predicted: f64,
    ) -> Vec<Vec<i64>> {
        let bfv = bfv::Parameters::s2048();
        let bits = 2 * bfv.plaintext_bits();
        ciphertext.rescale(bfv::Parameters::to_power_of_two(bfv.small(), bits));
        let (c0, c1) = (ciphertext.c0.residues(), ciphertext.c1.residues());
        let measured = distance(&self.key.secret().phase_power_of_two(bfv, c0, c1, bits), message, bits);
        assert_predicted("switched", measured, predicted, 0.2);
        assert_decodes(measured, bits);
        chunks(&ciphertext).collect()
    }
}

/// That no coefficient is off by half a step of the plaintext.
fn assert_decodes(measured: Measurement, bits: u32) {
    let step = f64::from(bits - bfv::Parameters::s2048().plaintext_bits()).exp2();
    assert!(measured.maximum < step / 2.0, "a wrong coefficient: {} of {step}", measured.maximum);
}

/// Runs one query through the stages of an answer and checks each.
fn check<const D: usize>(elements: usize, shape: [usize; D], fill: Option<u8>) {
    let bfv = bfv::Parameters::s2048();
    let small = bfv.small();
    let parameters = Parameters::with_shape(elements, 288, shape).unwrap();
    println!("{elements} elements, {shape:?}");
    let predicted = parameters.circuit().stages(bfv);
    let mut data = vec![fill.unwrap_or(0); elements * 288];
    let mut rng = ChaCha20Rng::seed_from_u64(shape[1] as u64);
    if fill.is_none() {
        rng.fill_bytes(&mut data);
    }
    let run = Run { key: Xpir::<D>::client_key(&[3; 32]) };
    let database = Database::new(&pir_core::PagePool::default(), &parameters, &data).unwrap();
    let last = parameters.plaintexts() - 1;
    let (plane, plaintext) = (last / (shape[0] * shape[1]), last % (shape[0] * shape[1]));
    let (row, column) = (plaintext % shape[0], plaintext / shape[0]);
    let mut chosen = vec![row, shape[0] + column];
    if D == 3 {
        chosen.push(shape[0] + shape[1] + plane);
    }
    let query = client::query(&run.key, &parameters, elements - 1, &mut rng).unwrap();

    // The query.
    let selectors = decode_query(&parameters, &query).unwrap();
    let errors = selectors.iter().enumerate().flat_map(|(i, selector)| {
        let mut phase = run.key.secret().phase(bfv, small, &selector.clone().into_coefficient(small));
        let mut message = Polynomial::zero(bfv.degree());
        message.residues_mut()[0] =
            if chosen.contains(&i) { small.modulus().value() >> bfv.plaintext_bits() } else { 0 };
        phase.sub_assign(small.modulus(), &message);
        phase.residues().iter().map(|value| small.modulus().centre(*value) as f64).collect::<Vec<_>>()
    });
    assert_predicted("selector", Measurement::of(errors), predicted.selector, 0.1);

    // Every dimension.
    let mut progress = [Progress::default()];
    let mut unsent = Vec::new();
    let mut product = Ciphertext::zero(bfv.degree());
    for number in 0..shape.get(2).copied().unwrap_or(1) {
        server::first_dimension(&database, number, 0, &[&selectors], &mut progress);
        if number == plane {
            product = progress[0].product(column).into_coefficient(small);
        }
        progress[0].second(&parameters, number, &selectors, &mut unsent);
    }
    let message: Vec<i64> = {
        let in_plane = shape[0] * shape[1] * parameters.packing().elements_per_plaintext();
        let start = plane * in_plane;
        let packing = Packing::new((elements - start).min(in_plane), 288).unwrap();
        let mut encoded = Polynomial::<Evaluation>::zero(bfv.degree());
        Encoder::default().encode(&packing, &data[start * 288..], 0, plaintext, encoded.residues_mut());
        let encoded = encoded.into_coefficient(small);
        encoded.residues().iter().map(|value| small.modulus().centre(*value)).collect()
    };
    run.check("first", &product, &message, predicted.dimensions[0]);
    let mut messages = run.switch(product, &message, predicted.switched[0]);
    if D == 3 {
        let kept = progress[0].kept(plane).map(|kept| kept.into_coefficient(small));
        let next = kept.into_iter().zip(&messages).flat_map(|(kept, message)| {
            run.check("second", &kept, message, predicted.dimensions[1]);
            run.switch(kept, message, predicted.switched[1])
        });
        messages = next.collect();
    }

    // The answer.
    let keys = Xpir::<D>::decode_public_keys(&Xpir::<D>::encode_public_keys(&run.key)).unwrap();
    let answer = Xpir::<D>::answer(&database, &keys, &query).unwrap();
    let bits = parameters.answer_coefficient_bits();
    let mut reader = BitReader::new(&answer[4..]);
    let mut half = || (0..bfv.degree()).map(|_| reader.read(bits)).collect::<Vec<u64>>();
    assert_eq!(messages.len(), 1 << (2 * D - 2));
    for message in messages {
        let (c0, c1) = (half(), half());
        let phase = run.key.secret().phase_power_of_two(bfv, &c0, &c1, bits);
        let measured = distance(&phase, &message, bits);
        assert_predicted("answer", measured, predicted.answer, 0.2);
        assert_decodes(measured, bits);
    }
    let element = Xpir::<D>::extract(&parameters, &run.key, elements - 1, &answer).unwrap();
    assert!(element == data[(elements - 1) * 288..]);
    assert!(parameters.circuit().failure_log2(bfv) <= noise::MAXIMUM_FAILURE_LOG2);
}

#[test]
fn no_answer_coefficient_is_wrong_in_two_dimensions() {
    check(1, [1, 1], None);
    check(8 * 12, [4, 3], None);
    check(8 * 64 * 64, [64, 64], None);
}

#[test]
fn no_answer_coefficient_is_wrong_in_three_dimensions() {
    check(1, [1, 1, 1], None);
    check(8 * 24 - 3, [2, 3, 4], None);
    check(8 * 16 * 16 * 16, [16, 16, 16], None);
}

#[test]
fn no_uniform_database_makes_more_noise_than_a_random_one() {
    check(600, [15, 5], Some(0));
    check(600, [5, 5, 3], Some(0xFF));
}
