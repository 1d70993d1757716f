use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use super::common::{Key, key_seed};
use super::separation::Pair;
use super::server::Rows;
use super::{PublicKeys, Request, Secret, Unit};
use crate::Error;
use crate::ring::bits::BitWriter;
use crate::ring::sampling::ternary;
use crate::ring::{Coefficient, Evaluation, Polynomial, bit_reverse};
use crate::voce::noise::stages;
use crate::voce::ring::{COLUMN_BITS, DEGREE, PLAINTEXT_BITS, Ring, Round};
use crate::voce::shape::BLOCK;
use crate::voce::tests::{masked_by_definition, queries_by_definition, set_field};
use crate::voce::{Ending, Pools, Shape};

fn random(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut own = [0; 32];
    rng.fill_bytes(&mut own);
    own
}

#[test]
fn what_was_asked_for_comes_back() {
    let (mut rng, pools) = (ChaCha20Rng::seed_from_u64(1), Pools::default());
    for (count, bytes, columns, buckets) in [
        (70, 288, 8, 3),
        (100, 288, 4, 11),
        (300, 288, 16, 17),
        (64, 288, 64, 1),
        (100, 288, 12, 17),
        (301, 288, 24, 5),
        (50, 288, 3, 9),
        (7, 288, 6, 2),
        (9, 1, 2, 4),
        (20, 600, 4, 5),
        (20, 600, 6, 5),
        (12, 2_304, 3, 2),
        // Of the last, the seventh bucket's query is in two ciphertexts.
        (1_200, 288, 2, 9),
    ] {
        let shape = Shape::new(Ending::Selected, buckets, count, bytes, columns).unwrap();
        let element = |rng: &mut ChaCha20Rng| {
            let mut content = vec![0; count * bytes];
            rng.fill_bytes(&mut content);
            content
        };
        let contents: Vec<Vec<u8>> = (0..buckets).map(|_| element(&mut rng)).collect();
        let seed = random(&mut rng);
        let targets: Vec<usize> = (0..buckets).map(|_| rng.next_u64() as usize % count).collect();
        let mut secrets: Vec<_> = (0..3).map(|_| Secret::new(&random(&mut rng))).collect();
        let keys: Vec<_> =
            secrets.iter().map(|secret| PublicKeys::read(&secret.public_keys()).unwrap()).collect();
        let asked: Vec<_> = secrets
            .iter_mut()
            .map(|secret| secret.request(&shape, &seed, &targets, &random(&mut rng)).unwrap())
            .collect();
        let requests: Vec<_> = asked
            .iter()
            .zip(&keys)
            .map(|((bytes, _), keys)| Request::new(&shape, buckets, keys, bytes).unwrap())
            .collect();
        for (number, contents) in contents.chunks(shape.unit_buckets()).enumerate() {
            let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
            let unit = Unit::new(&pools, &shape, &seed.into(), number, &contents).unwrap();
            assert!(unit.memory_bytes() == shape.memory_bytes() || contents.len() < shape.unit_buckets());
            let first = number * shape.unit_buckets();
            let answers = unit.answer(first, &requests.iter().collect::<Vec<_>>());
            for ((_, asked), answer) in asked.iter().zip(&answers) {
                let read = asked.read(&seed, number, answer).unwrap();
                assert_eq!(read.len(), contents.len());
                for (at, element) in read.iter().enumerate() {
                    let target = targets[first + at] * bytes;
                    assert_eq!(element, &contents[at][target..target + bytes], "{shape:?} {at}");
                }
            }
        }
    }
}

#[test]
fn a_secret_asks_once_under_a_seed() {
    let shape = Shape::new(Ending::Selected, 1, 20, 288, 8).unwrap();
    let mut secret = Secret::new(&[1; 32]);
    assert!(secret.request(&shape, &[2; 32], &[3], &[4; 32]).is_ok());
    assert_eq!(secret.request(&shape, &[2; 32], &[4], &[5; 32]).err(), Some(Error::Repeated));
    assert!(secret.request(&shape, &[3; 32], &[4], &[6; 32]).is_ok());
}

/// What selects the columns of a unit by its definition, see [`queries_by_definition`]: of each bucket, by its leaves, the digits
/// of the column that is asked for.
fn columns_by_definition(
    shape: &Shape,
    seed: &[u8; 32],
    secret: &Polynomial<Evaluation>,
    unit: usize,
    targets: &[usize],
    own: &[u8; 32],
) -> Vec<u8> {
    let (ring, rows, mut out) = (Ring::get(), Rows::new(shape), Vec::new());
    let leaves = targets.len() * shape.leaves();
    for first in (0..leaves).step_by(256) {
        let number = (unit * shape.column_ciphertexts(shape.unit_buckets()) + first / 256) as u64;
        let mut values = masked_by_definition(("columns", seed, number), (own, (1 << 32) + number), secret);
        for leaf in first..leaves.min(first + 256) {
            let (bucket, first_column, digit) = rows.meaning(leaf / rows.columns);
            if first_column + leaf % rows.columns == targets[bucket] % shape.columns() {
                // 2^6j q / 2^18.
                let message = [1 << 32, (1 << 38) - 4, (1 << 44) - 256][digit];
                let place = &mut values[bit_reverse(leaf - first, 8)];
                *place = ring.modulus().add(*place, message);
            }
        }
        ring.to_column.apply_all(&mut values);
        let mut writer = BitWriter::new(&mut out);
        values.iter().for_each(|value| writer.write(*value, COLUMN_BITS));
        writer.finish();
    }
    out
}

#[test]
fn requests_are_those_of_their_definition() {
    let shape = Shape::new(Ending::Selected, 40, 4_200, 288, 16).unwrap();
    assert_eq!((shape.unit_buckets(), shape.ciphertexts(), shape.column_ciphertexts(16)), (16, 2, 3));
    let (seed, own) = ([1; 32], [2; 32]);
    let targets: Vec<usize> = (0..40).map(|bucket| bucket * 1_009 % 4_200).collect();
    let mut asking = Secret::new(&[3; 32]);
    let (bytes, _) = asking.request(&shape, &seed, &targets, &own).unwrap();
    let (ring, round) = (Ring::get(), Round::with_keys(&seed, &key_seed()));
    let secret = Polynomial::<Coefficient>::from_signed(ring.modulus(), &ternary(DEGREE, &[3; 32], 0));
    let secret = secret.into_evaluation(&ring.ntt);
    let mut defined = queries_by_definition(&shape, &seed, &secret, &targets, (&own, 0));
    for (unit, targets) in targets.chunks(16).enumerate() {
        defined.extend(columns_by_definition(&shape, &seed, &secret, unit, targets, &own));
    }
    assert!(bytes == defined);
    // An error is far smaller than what is rounded off, and shows in one of a hundred thousand coefficients.
    for unit in 3..1_000 {
        let mut columns = Vec::new();
        asking.ask_columns(&mut columns, &shape, &round, unit, &[unit], &own);
        assert!(columns == columns_by_definition(&shape, &seed, &secret, unit, &[unit], &own), "{unit}");
    }
}

/// The differences between phases and scaled messages of a reply, in units of the modulus, before anything is rounded for the wire.
pub(in crate::voce) fn noise(
    shape: &Shape,
    unit: &Unit,
    targets: &[usize],
    secret: &Secret,
    reply: &Pair,
) -> Vec<f64> {
    let (ring, modulus) = (Ring::get(), Ring::get().modulus());
    let slots = reply.a.iter().zip(secret.slots()).zip(&reply.b);
    let mut phase: Vec<u64> = slots.map(|((a, s), b)| modulus.add(*b, modulus.mul(*a, *s))).collect();
    ring.ntt.inverse(&mut phase);
    let scale = ((modulus.value() + (1 << (PLAINTEXT_BITS - 1))) >> PLAINTEXT_BITS) as i64;
    let mut noise = Vec::with_capacity(DEGREE);
    for (bucket, target) in targets.iter().enumerate() {
        let (row, column) = (target / shape.columns(), target % shape.columns());
        for field in 0..shape.element_outputs() {
            let output = shape.output(column, field);
            let pair = unit.dense().buckets[bucket].block(shape.positions(), output / BLOCK)[row / 2];
            let [even, odd] = [0, 1].map(|parity| i64::from(pair[2 * (output % BLOCK) + parity]));
            // What the other row of the position adds is no noise, but known.
            let other = if row % 2 == 1 { even * (scale >> 13) } else { 0 };
            let message = if row % 2 == 1 { odd } else { even } * scale;
            let expected = modulus.add(modulus.from_signed(message), modulus.from_signed(other));
            let at = field * (DEGREE / shape.element_outputs()) + bucket;
            noise.push(modulus.centre(modulus.sub(phase[at], expected)) as f64);
        }
    }
    noise
}

/// Of all that a reply has before it is rounded, for shapes in which the selection has a small and a large part.
#[test]
fn noise_is_what_the_calculator_says() {
    let (mut rng, pools) = (ChaCha20Rng::seed_from_u64(5), Pools::default());
    for (count, columns, buckets) in
        [(16, 8, 8), (1_024, 8, 8), (1_024, 64, 1), (2_048, 4, 8), (1_500, 12, 8)]
    {
        let shape = Shape::new(Ending::Selected, buckets, count, 288, columns).unwrap();
        let mut content = vec![0; count * 288];
        rng.fill_bytes(&mut content);
        let (seed, contents) = (random(&mut rng), vec![&*content; buckets]);
        let unit = Unit::new(&pools, &shape, &seed.into(), 0, &contents).unwrap();
        let (mut squares, mut samples, mut largest) = (0.0, 0, 0.0f64);
        for _ in 0..24 {
            let targets: Vec<usize> = (0..buckets).map(|_| rng.next_u64() as usize % count).collect();
            let mut secret = Secret::new(&random(&mut rng));
            let keys = PublicKeys::read(&secret.public_keys()).unwrap();
            let (bytes, _) = secret.request(&shape, &seed, &targets, &random(&mut rng)).unwrap();
            let request = Request::new(&shape, buckets, &keys, &bytes).unwrap();
            let reply = unit.replies(0, &[&request]).remove(0).remove(0);
            for noise in noise(&shape, &unit, &targets, &secret, &reply) {
                (squares, samples, largest) =
                    (squares + noise * noise, samples + 1, largest.max(noise.abs()));
            }
        }
        let measured = (squares / f64::from(samples)).sqrt();
        let mut stages = stages(&shape);
        stages.reply = 0.0;
        let ratio = measured / stages.total();
        println!("{count} in {columns}: 2^{:.2}, {ratio:.4} of what was predicted", measured.log2());
        assert!((0.97..1.03).contains(&ratio), "{count} in {columns}: {ratio} {stages:?}");
        assert!(largest < 6.5 * measured, "{count} in {columns}: {largest}");
    }
}

/// Every byte that is sent follows from seeds: on every machine, with every kernel, and in other programs.
#[test]
fn keys_requests_and_answers_are_the_golden_ones() {
    let digest = |bytes: &[u8]| -> String {
        Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    };
    for (columns, golden) in [
        (4, ["4e5ad47894adabb5", "0a3c0f9409d91576", "e8e508d523c6d538"]),
        (12, ["4e5ad47894adabb5", "520fc64b19cb9331", "276dec79d9c0c61d"]),
    ] {
        let shape = Shape::new(Ending::Selected, 9, 70, 288, columns).unwrap();
        let content: Vec<u8> = (0..70 * 288).map(|at| (at * at % 251) as u8).collect();
        let contents = vec![&*content; shape.unit_buckets()];
        let unit = Unit::new(&Pools::default(), &shape, &[1; 32].into(), 0, &contents).unwrap();
        let mut secret = Secret::new(&[2; 32]);
        let (keys, targets) = (secret.public_keys(), [3, 33, 69, 0, 1, 2, 68, 40, 7]);
        let (bytes, _) = secret.request(&shape, &[1; 32], &targets, &[3; 32]).unwrap();
        let public = PublicKeys::read(&keys).unwrap();
        let answer = unit.answer(0, &[&Request::new(&shape, 9, &public, &bytes).unwrap()]).remove(0);
        let found = [&*keys, &bytes, &answer].map(digest);
        assert_eq!(
            found, golden,
            "first bytes of the digests of keys, request and answer: {columns} columns"
        );
    }
}

/// A server must survive whatever it is sent, and what is no residue has more than one encoding.
#[test]
fn keys_with_what_is_no_residue_are_refused() {
    let bytes = Secret::new(&[1; 32]).public_keys();
    assert_eq!((bytes.len(), PublicKeys::BYTES), (62 * 12_800, 62 * 12_800));
    let q = Ring::get().modulus().value();
    // The first and the last field of the first key in slots, and of the last.
    for at in [2 * DEGREE, 3 * DEGREE - 1, 61 * DEGREE, 62 * DEGREE - 1] {
        for (value, taken) in [(0, true), (q - 1, true), (q, false), ((1 << 50) - 1, false)] {
            let mut changed = bytes.clone();
            set_field(&mut changed, at, value);
            assert_eq!(PublicKeys::read(&changed).is_ok(), taken, "{value} at {at}");
        }
    }
    let mut changed = bytes.clone();
    set_field(&mut changed, 0, q);
    assert!(PublicKeys::read(&changed).is_err());
    assert!(PublicKeys::read(&bytes[1..]).is_err() && PublicKeys::read(&[&*bytes, &[0]].concat()).is_err());
}

#[test]
fn what_is_of_another_size_or_form_is_refused() {
    let shape = Shape::new(Ending::Selected, 9, 40, 288, 4).unwrap();
    let other = Shape::new(Ending::Hint, 9, 40, 288, 4).unwrap();
    let (seed, own, pools) = ([1; 32], [2; 32], Pools::default());
    let mut secret = Secret::new(&[3; 32]);
    let keys = PublicKeys::read(&secret.public_keys()).unwrap();
    // An arrangement with a hint is refused before anything counts as asked under the seed.
    assert!(matches!(secret.request(&other, &seed, &[0; 9], &own), Err(Error::Shape(_))));
    let targets = [39, 0, 1, 2, 3, 4, 5, 6, 39];
    let (bytes, asked) = secret.request(&shape, &seed, &targets, &own).unwrap();
    let beyond = [0, 0, 0, 0, 0, 0, 0, 0, 40];
    assert_eq!(secret.request(&shape, &[4; 32], &beyond, &own).err(), Some(Error::Index));
    // Requests.
    let read = |buckets, bytes| Request::new(&shape, buckets, &keys, bytes);
    assert!(read(9, &bytes).is_ok() && read(8, &bytes).is_err() && read(9, &bytes[1..]).is_err());
    let long = vec![0; other.request_bytes(9).unwrap()];
    assert!(matches!(Request::new(&other, 9, &keys, &long), Err(Error::Malformed(_))));
    // Five coefficients of 39 bits leave five bits of a query's last byte.
    assert_eq!((shape.positions(), shape.query_bytes()), (5, 25));
    for bit in 0..8 {
        let mut changed = bytes.clone();
        changed[9 * 25 - 1] ^= 1 << bit;
        assert_eq!(Request::new(&shape, 9, &keys, &changed).is_ok(), bit < 3, "bit {bit}");
    }
    // Buckets.
    let content = vec![7; 40 * 288];
    let unit = |shape: &Shape, contents: &[&[u8]]| Unit::new(&pools, shape, &seed.into(), 0, contents);
    let refused = |contents: &[&[u8]]| matches!(unit(&shape, contents), Err(Error::Shape(_)));
    assert_eq!(shape.unit_buckets(), 9);
    assert!(refused(&[]) && refused(&[&*content; 10]) && refused(&[&content[1..]]));
    assert!(matches!(unit(&other, &[&content]), Err(Error::Shape(_))));
    // Answers.
    let unit = unit(&shape, &[&*content; 9]).unwrap();
    let answer = unit.answer(0, &[&read(9, &bytes).unwrap()]).remove(0);
    let elements = asked.read(&seed, 0, &answer).unwrap();
    assert!(elements.len() == 9 && elements.iter().all(|element| *element == content[..288]));
    for answer in [&answer[1..], &[&*answer, &[0]].concat()] {
        assert!(matches!(asked.read(&seed, 0, answer), Err(Error::Malformed(_))));
    }
}

/// One who computes an answer again comes to the same bytes, with a pack for each thread in memory; and a client is answered
/// alike whoever is answered with it.
#[test]
fn an_answer_to_one_request_is_that_of_a_unit_to_several() {
    let shape = Shape::new(Ending::Selected, 2, 40, 288, 4).unwrap();
    assert_eq!((shape.unit_buckets(), shape.packs()), (2, 1));
    let content: Vec<u8> = (0..40 * 288).map(|at| (at * at % 251) as u8).collect();
    let (contents, seed, pools) = ([&*content, &content], [1; 32], Pools::default());
    let mut secrets = [2, 3, 4].map(|own| Secret::new(&[own; 32]));
    let keys = secrets.each_ref().map(|secret| PublicKeys::read(&secret.public_keys()).unwrap());
    let asked = secrets.each_mut().map(|secret| secret.request(&shape, &seed, &[3, 39], &[3; 32]).unwrap());
    let requests: Vec<Request<'_>> = asked
        .iter()
        .zip(&keys)
        .map(|((bytes, _), keys)| Request::new(&shape, 2, keys, bytes).unwrap())
        .collect();
    let unit = Unit::new(&pools, &shape, &seed.into(), 0, &contents).unwrap();
    assert_eq!(unit.memory_bytes(), shape.memory_bytes());
    let answers = unit.answer(0, &requests.iter().collect::<Vec<_>>());
    for (answer, (_, asked)) in answers.iter().zip(&asked) {
        let expected = [3, 39].map(|target| &content[288 * target..][..288]);
        assert_eq!(asked.read(&seed, 0, answer).unwrap(), expected);
    }
    let once = Unit::answer_once(&pools, &shape, &seed.into(), 0, &contents, &requests[2]).unwrap();
    assert!(answers.len() == 3 && once == answers[2]);
}

/// Key after key, as they stand in what a client uploads.
#[test]
fn keys_are_numbered_without_gaps() {
    let numbers: Vec<usize> = Key::all().map(Key::number).collect();
    assert!(numbers.into_iter().eq(0..62));
    assert_eq!(
        [Key::Separation(0), Key::Tree(0, 0), Key::Tree(1, 0), Key::Tree(7, 6)].map(Key::number),
        [3, 6, 13, 61]
    );
}
