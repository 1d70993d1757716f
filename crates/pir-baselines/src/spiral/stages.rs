//! Noise measured at every stage of real answers, against the predictions.

use pir_core::bfv::Measurement;
use pir_core::noise::MAXIMUM_FAILURE_LOG2;
use pir_core::{PagePool, Scheme};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::client::{phases, query, scale, weight};
use super::convert::{choose, pack};
use super::keys::{ClientKey, PublicKeys};
use super::lattice::{DEGREE, Ring, Words, zeros};
use super::noise::{self, stages};
use super::preset::NAMES;
use super::server::{Columns, encode, first_dimension, read_query, read_rows, write_answer};
use super::switch::Scratch;
use super::{
    AS_PUBLISHED, Database, ONIONPIR_AS_PUBLISHED, Parameters, SPIRAL, SPIRAL_PACK, SPIRAL_STREAM,
    SPIRAL_STREAM_PACK, Spiral,
};

/// Beyond this many standard deviations, a Gaussian value is met with probability 2^-57.
const EXTREME: f64 = 8.6;

fn assert_predicted(stage: &str, distances: &[f64], predicted: f64, tolerance: f64) -> Measurement {
    let measured = Measurement::of(distances.iter().copied());
    println!(
        "{stage}: sd 2^{:.2}, predicted 2^{:.2}, largest 2^{:.2}",
        measured.deviation.log2(),
        predicted.log2(),
        measured.maximum.log2()
    );
    let distance = (measured.deviation / predicted).log2();
    assert!(distance.abs() <= tolerance, "{stage}: {distance:+.2} bits off the prediction");
    measured
}

/// `b_j + a s_j` less what is expected, centred modulo q, for all rows of a column.
fn distances(
    ring: &Ring,
    secrets: &[Words],
    column: &[u64],
    expected: &dyn Fn(usize, usize) -> u64,
) -> Vec<f64> {
    let (a, b) = column.split_at(ring.words());
    let rows = b.chunks_exact(ring.words()).zip(secrets).enumerate().flat_map(|(row, (b, secret))| {
        let mut phase = secret.clone();
        ring.multiply(phase.residues_mut(), a);
        ring.add(phase.residues_mut(), b);
        ring.inverse(phase.residues_mut());
        let distance = move |at: usize| {
            let q = ring.modulus();
            let distance = (ring.compose(phase.residues(), at) + q - expected(row, at)) % q;
            if distance > q / 2 { -((q - distance) as f64) } else { distance as f64 }
        };
        (0..DEGREE).map(distance).collect::<Vec<_>>()
    });
    rows.collect()
}

/// `round(q m / p)` for m in `[0, p)`, centred.
fn scaled(ring: &Ring, parameters: &Parameters, m: u64) -> u64 {
    let p = 1u128 << parameters.plaintext_bits();
    let q = u128::from(ring.modulus());
    ((u128::from(m) * q + p / 2) / p % q) as u64
}

/// The polynomial of a plaintext's matrix at a row and column.
fn message(parameters: &Parameters, data: &[u8], plaintext: usize, [row, column]: [usize; 2]) -> Vec<u64> {
    let (width, pack) = (parameters.width(), parameters.pack());
    let (place, matrix) = if pack > 1 {
        ([plaintext % parameters.rows(), plaintext / parameters.rows()], column * pack + row)
    } else {
        let [of_row, of_column] = [plaintext % parameters.rows(), plaintext / parameters.rows()];
        ([of_row * width + row, of_column * width + column], 0)
    };
    let mut out = vec![0; DEGREE];
    encode(parameters, data, matrix, place, &mut Vec::new(), &mut out);
    out
}

/// Runs one query through the stages of an answer and checks each.
fn check<const P: usize>(elements: usize, size: usize, fill: Option<u8>) {
    check_of::<P>(elements, size, fill, |_| true);
}

/// The same in the cheapest of those shapes that are wanted.
fn check_of<const P: usize>(
    elements: usize,
    size: usize,
    fill: Option<u8>,
    wanted: impl Fn(&Parameters) -> bool,
) {
    let parameters = Parameters::cheapest(P, elements, size, wanted).unwrap();
    println!("{}: {parameters:?}", NAMES[P]);
    let (predicted, lattice) = (stages(&parameters), &parameters.preset().lattice);
    let (key_ring, ring, width) = (&lattice.key, &lattice.data, parameters.width());
    let mut rng = ChaCha20Rng::seed_from_u64(elements as u64);
    let mut data = vec![fill.unwrap_or(0); elements * size];
    if fill.is_none() {
        rng.fill_bytes(&mut data);
    }
    let database = Database::new(&PagePool::default(), &parameters, &data).unwrap();
    let key = ClientKey::derive(P, &[3; 32]);
    let keys = PublicKeys::decode(P, &key.public_keys()).unwrap();
    let index = elements - 1 - elements / 3;
    let place = parameters.place(index).unwrap();
    let sent = query(&key, &parameters, index, &mut rng).unwrap();
    let mut scratch = Scratch::default();

    // Rows as they are expanded or sent: Delta at the one that is asked for, at its coefficient 0.
    let leaves = read_rows(&parameters, &keys, &sent, &mut scratch).unwrap();
    let all = leaves.iter().enumerate().flat_map(|(row, leaf)| {
        let expected = |_: usize, at: usize| if row == place.row && at == 0 { scale(&parameters) } else { 0 };
        let mut column = zeros(2 * key_ring.words());
        let (a, b) = column.residues_mut().split_at_mut(key_ring.words());
        a.copy_from_slice(leaf.a.residues());
        b.copy_from_slice(leaf.b.residues());
        distances(key_ring, key.secrets(), column.residues(), &expected)
    });
    assert_predicted("leaf", &all.collect::<Vec<_>>(), predicted.leaf, 0.3);

    // Rows as they are multiplied.
    let selectors = read_query(&parameters, &keys, &sent).unwrap();
    let pairs = (1 + width).div_ceil(2);
    let one = scaled(ring, &parameters, 1);
    let all = (0..parameters.rows() * width).flat_map(|at| {
        let mut column = zeros(2 * pairs * ring.words());
        for (i, of) in selectors.rows.iter().enumerate() {
            let (prime, pair) = (i / pairs, i % pairs);
            for (half, polynomial) in [&of[at].c0, &of[at].c1].into_iter().enumerate() {
                let start = (2 * pair + half) * ring.words() + prime * DEGREE;
                column.residues_mut()[start..start + DEGREE].copy_from_slice(polynomial.residues());
            }
        }
        let expected = |row: usize, coefficient: usize| {
            if at / width == place.row && at % width == row && coefficient == 0 { one } else { 0 }
        };
        let column = &column.residues()[..(1 + width) * ring.words()];
        distances(ring, key.data_secrets(), column, &expected)
    });
    assert_predicted("row", &all.collect::<Vec<_>>(), predicted.row, 0.3);

    // Folding bits.
    let digits = parameters.folding().digits as usize;
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for (fold, bit) in selectors.bits.iter().enumerate() {
        let set = place.column >> fold & 1 == 1;
        for at in 0..(1 + width) * digits {
            let (source, digit) = (at / digits, (at % digits) as u32);
            let weight = if set { ring.weight(parameters.folding(), digit) } else { 0 };
            let target = |row: usize| {
                let mut target = zeros(ring.words());
                if source == 0 {
                    target.residues_mut().copy_from_slice(key.data_secrets()[row].residues());
                    ring.inverse(target.residues_mut());
                    ring.scale(target.residues_mut(), weight);
                } else if source == row + 1 {
                    ring.put(target.residues_mut(), 0, weight);
                }
                target
            };
            let targets: Vec<Words> = (0..width).map(target).collect();
            let expected = |row: usize, at: usize| ring.compose(targets[row].residues(), at);
            let column = bit.column(ring, at);
            let list = if source == 0 { &mut of_a } else { &mut of_b };
            list.extend(distances(ring, key.data_secrets(), column.residues(), &expected));
        }
    }
    if parameters.folds() > 0 {
        assert!(weight(&parameters, 0) > 0, "the weight of a digit");
        assert_predicted("bit", &of_b, predicted.bit, 0.3);
        assert_predicted("bit, of a", &of_a, predicted.bit_of_a, 0.3);
    }

    // What a fold adds: of two ciphertexts without noise, the second is a random encryption of 0.
    for (fold, bit) in selectors.bits.iter().enumerate() {
        let set = place.column >> fold & 1 == 1;
        let mut left = zeros(width * (1 + width) * ring.words());
        let mut right = left.clone();
        for (number, column) in right.residues_mut().chunks_exact_mut((1 + width) * ring.words()).enumerate()
        {
            let (a, b) = column.split_at_mut(ring.words());
            ring.uniform(&[8; 32], number as u64, a);
            for (b, secret) in b.chunks_exact_mut(ring.words()).zip(key.data_secrets()) {
                let mut product = secret.clone();
                ring.multiply(product.residues_mut(), a);
                ring.subtract(b, product.residues());
            }
        }
        choose(&parameters, bit, left.residues_mut(), right.residues_mut(), &mut scratch);
        let columns = left.residues().chunks_exact((1 + width) * ring.words());
        let all = columns.flat_map(|column| distances(ring, key.data_secrets(), column, &|_, _| 0));
        // If the bit is not set, digits are multiplied by encryptions of 0, and nothing is dropped of them.
        let (all, tolerance) = (all.collect::<Vec<_>>(), 0.4);
        if set {
            assert_predicted("fold", &all, predicted.fold, tolerance);
        } else {
            assert!(Measurement::of(all.into_iter()).deviation <= predicted.fold * 0.4f64.exp2(), "{fold}");
        }
    }

    // Columns, folded.
    let matrices = parameters.pack().pow(2);
    let mut folded = Vec::new();
    let (mut of_columns, mut of_folded) = (Vec::new(), Vec::new());
    for matrix in 0..matrices {
        let mut columns = [Columns::default()];
        first_dimension(&database, matrix, &[&selectors], &mut columns);
        // The polynomial at a row and a column of the matrix of the plaintext in a column of the database.
        let of = |column: usize| {
            let plaintext = column * parameters.rows() + place.row;
            move |row: usize, within: usize| {
                let at = if matrices > 1 {
                    [matrix % parameters.pack(), matrix / parameters.pack()]
                } else {
                    [row, within]
                };
                (plaintext, at)
            }
        };
        let check = |matrix: &Words, column: usize, list: &mut Vec<f64>| {
            for (within, words) in matrix.residues().chunks_exact((1 + width) * ring.words()).enumerate() {
                let rows: Vec<Vec<u64>> = (0..width)
                    .map(|row| {
                        let (plaintext, at) = of(column)(row, within);
                        message(&parameters, &data, plaintext, at)
                    })
                    .collect();
                let expected = |row: usize, at: usize| scaled(ring, &parameters, rows[row][at]);
                list.extend(distances(ring, key.data_secrets(), words, &expected));
            }
        };
        for column in [0, parameters.columns() - 1] {
            check(&columns[0].read(&parameters, column..column + 1), column, &mut of_columns);
        }
        let all = 0..parameters.columns();
        folded.push(columns[0].fold(&parameters, &selectors.bits, all, &mut scratch));
        check(&folded[matrix], place.column, &mut of_folded);
    }
    assert_predicted("column", &of_columns, predicted.column, 0.4);
    assert_predicted("folded", &of_folded, predicted.folded, 0.5);

    // Packed, and the answer.
    let dimension = parameters.dimension();
    let expected: Vec<Vec<u64>> = (0..parameters.polynomials())
        .map(|number| message(&parameters, &data, place.plaintext, [number % dimension, number / dimension]))
        .collect();
    let packed =
        if matrices > 1 { pack(&parameters, &keys, &folded, &mut scratch) } else { folded.remove(0) };
    let columns = packed.residues().chunks_exact((1 + dimension) * ring.words()).enumerate();
    let all = columns.flat_map(|(column, words)| {
        let expected =
            |row: usize, at: usize| scaled(ring, &parameters, expected[column * dimension + row][at]);
        distances(ring, key.data_secrets(), words, &expected)
    });
    assert_predicted("packed", &all.collect::<Vec<_>>(), predicted.packed, 0.5);
    let mut answer = Vec::new();
    write_answer(&parameters, packed, &mut answer);
    let [short, long] = parameters.answer_bits();
    let modulus = f64::from(long).exp2();
    let phases = phases(&key, &parameters, &answer);
    let all = phases.iter().zip(&expected).flat_map(|(phase, m)| {
        phase.iter().zip(m).map(|(phase, m)| {
            let step = f64::from(long - parameters.plaintext_bits()).exp2();
            let distance = (*phase as f64 - *m as f64 * step).rem_euclid(modulus);
            if distance > modulus / 2.0 { distance - modulus } else { distance }
        })
    });
    // With what the rounding of the parts with a message adds, uniform in half a unit to both sides.
    let short_step = f64::from(long - short).exp2();
    let both = (predicted.answer.powi(2) + short_step.powi(2) / 12.0).sqrt();
    let measured = assert_predicted("answer", &all.collect::<Vec<_>>(), both, 0.5);
    assert!(measured.maximum < predicted.budget + short_step / 2.0, "a wrong coefficient");
    assert!(measured.maximum <= EXTREME * predicted.answer * 0.5f64.exp2() + short_step / 2.0, "too large");
    let whole = Spiral::<P>::answer(&database, &keys, &sent).unwrap();
    assert!(whole[4..][..answer.len()] == answer, "other stages");
    assert!(noise::failure_log2(&parameters) <= MAXIMUM_FAILURE_LOG2);
}

const PAPER: usize = SPIRAL + AS_PUBLISHED;

#[test]
fn no_coefficient_of_an_answer_is_wrong() {
    check::<SPIRAL>(1, 3, None);
    check::<SPIRAL>(3000, 288, None);
    // Matrices of two columns; columns that are no power of two; several digits.
    check_of::<SPIRAL>(3000, 288, None, |shape| shape.width() == 2 && shape.folds() >= 3);
    check_of::<SPIRAL>(3000, 288, None, |shape| {
        shape.folds() == 4 && !shape.columns().is_power_of_two() && shape.folding().digits == 3
    });
}

#[test]
fn no_coefficient_of_a_packed_answer_is_wrong() {
    check::<SPIRAL_PACK>(3000, 288, None);
    check::<SPIRAL_STREAM_PACK>(3000, 288, None);
    check_of::<SPIRAL_PACK>(3000, 288, None, |shape| shape.pack() == 2 && shape.folds() >= 3);
}

#[test]
fn no_coefficient_of_a_streams_answer_is_wrong() {
    check::<SPIRAL_STREAM>(3000, 288, None);
    check_of::<SPIRAL_STREAM>(3000, 288, None, |shape| shape.width() == 2 && shape.folds() >= 3);
}

#[test]
fn no_coefficient_of_an_answer_is_wrong_with_the_papers_modulus() {
    let folds = |shape: &Parameters| shape.folds() >= 2;
    check_of::<PAPER>(1500, 288, None, folds);
    check_of::<{ SPIRAL_PACK + AS_PUBLISHED }>(1500, 288, None, folds);
    check_of::<{ SPIRAL_STREAM + AS_PUBLISHED }>(1500, 288, None, folds);
    check_of::<{ SPIRAL_STREAM_PACK + AS_PUBLISHED }>(1500, 288, None, folds);
    check_of::<ONIONPIR_AS_PUBLISHED>(1500, 288, None, folds);
}

#[test]
fn no_uniform_database_makes_more_noise_than_a_random_one() {
    check::<SPIRAL>(2000, 64, Some(0));
    check::<SPIRAL_STREAM>(2000, 64, Some(0xFF));
}

/// The shapes of the measurements in the documents.
#[test]
#[ignore = "takes 1 GB of memory and half a minute"]
fn no_coefficient_of_an_answer_is_wrong_in_the_shapes_that_are_compared() {
    check::<SPIRAL>(1 << 18, 288, None);
    check::<SPIRAL_PACK>(1 << 18, 288, None);
    check::<SPIRAL_STREAM>(1 << 18, 288, None);
    check::<SPIRAL_STREAM_PACK>(1 << 18, 288, None);
    check::<PAPER>(1 << 18, 288, None);
    check::<ONIONPIR_AS_PUBLISHED>(1 << 18, 288, None);
}
