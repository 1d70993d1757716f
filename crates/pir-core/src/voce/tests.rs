use std::collections::BTreeMap;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use super::noise::stages;
use super::ring::{DEGREE, PLAINTEXT_BITS, QUERY_BITS, Ring, Round, derive};
use super::shape::BLOCK;
use super::{Asked, Ending, Pools, Request, Shape, Unit, request};
use crate::Error;
use crate::ring::bits::{BitReader, BitWriter};
use crate::ring::{Evaluation, Polynomial, sampling};

fn elements(rng: &mut ChaCha20Rng, shape: &Shape) -> Vec<u8> {
    let mut bytes = vec![0; shape.elements() * shape.element_bytes()];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn secret(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut own = [0; 32];
    rng.fill_bytes(&mut own);
    own
}

#[test]
fn what_was_asked_for_comes_back() {
    let (mut rng, pools) = (ChaCha20Rng::seed_from_u64(1), Pools::default());
    for (count, bytes, columns, buckets) in
        // Of the last, the seventh bucket's query is in two ciphertexts.
        [(100, 288, 4, 3), (2_000, 288, 8, 1), (5, 1, 1, 4), (70, 400, 2, 5), (600, 288, 1, 9)]
    {
        let shape = Shape::new(Ending::Hint, buckets, count, bytes, columns).unwrap();
        let contents: Vec<Vec<u8>> = (0..buckets).map(|_| elements(&mut rng, &shape)).collect();
        let seed = [9; 32];
        let targets: Vec<usize> = (0..buckets).map(|_| rng.next_u64() as usize % count).collect();
        let asked: Vec<_> =
            (0..3).map(|_| request(&shape, &seed, &targets, &secret(&mut rng)).unwrap()).collect();
        let requests: Vec<_> =
            asked.iter().map(|(bytes, _)| Request::new(&shape, buckets, bytes).unwrap()).collect();
        for (number, contents) in contents.chunks(shape.unit_buckets()).enumerate() {
            let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
            let unit = Unit::new(&pools, &shape, &seed.into(), number, &contents).unwrap();
            assert!(unit.memory_bytes() == shape.memory_bytes() || contents.len() < shape.unit_buckets());
            let first = number * shape.unit_buckets();
            let answers = unit.answer(first, &requests.iter().collect::<Vec<_>>());
            for ((_, asked), answer) in asked.iter().zip(&answers) {
                let read = asked.read(&seed, number, unit.hint(), answer).unwrap();
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
fn a_request_has_one_encoding() {
    let shape = Shape::new(Ending::Hint, 3, 11, 288, 2).unwrap();
    let (bytes, _) = request(&shape, &[1; 32], &[3, 10, 0], &[2; 32]).unwrap();
    assert!(Request::new(&shape, 3, &bytes).is_ok());
    // Three coefficients of 39 bits leave three bits of a query's last byte.
    for (bucket, bit) in (0..3).flat_map(|bucket| (0..8).map(move |bit| (bucket, bit))) {
        let mut changed = bytes.clone();
        changed[Shape::keys_bytes() + (bucket + 1) * shape.query_bytes() - 1] ^= 1 << bit;
        assert_eq!(Request::new(&shape, 3, &changed).is_ok(), bit < 5, "bit {bit} of bucket {bucket}");
    }
}

/// A server must survive whatever it is sent, and what is no residue has more than one encoding.
#[test]
fn keys_with_what_is_no_residue_are_refused() {
    let shape = Shape::new(Ending::Hint, 1, 11, 288, 2).unwrap();
    let (bytes, _) = request(&shape, &[1; 32], &[3], &[2; 32]).unwrap();
    let q = Ring::get().modulus().value();
    // The first and the last field of both keys, of 50 bits each.
    for at in [0, DEGREE - 1, DEGREE, 2 * DEGREE - 1] {
        for (value, taken) in [(0, true), (q - 1, true), (q, false), ((1 << 50) - 1, false)] {
            let mut changed = bytes.clone();
            set_field(&mut changed, at, value);
            assert_eq!(Request::new(&shape, 1, &changed).is_ok(), taken, "{value} at {at}");
        }
    }
}

/// Writes a field of a key, 50 bits.
pub(super) fn set_field(bytes: &mut [u8], at: usize, value: u64) {
    for bit in 0..50 {
        let place = 50 * at + bit;
        bytes[place / 8] &= !(1 << (place % 8));
        bytes[place / 8] |= (value >> bit & 1) as u8 * (1 << (place % 8));
    }
}

#[test]
fn what_is_of_another_size_or_form_is_refused() {
    let shape = Shape::new(Ending::Hint, 2, 40, 288, 4).unwrap();
    let other = Shape::new(Ending::Selected, 2, 40, 288, 4).unwrap();
    let (seed, own, pools) = ([1; 32], [2; 32], Pools::default());
    // Targets, and arrangements without a hint.
    assert_eq!(request(&shape, &seed, &[39, 40], &own).err(), Some(Error::Index));
    assert_eq!(request(&shape, &seed, &[40, 39], &own).err(), Some(Error::Index));
    assert!(matches!(request(&other, &seed, &[1, 2], &own), Err(Error::Shape(_))));
    let (bytes, asked) = request(&shape, &seed, &[39, 0], &own).unwrap();
    assert_eq!(asked.shape(), &shape);
    // Requests.
    assert!(Request::new(&shape, 2, &bytes).is_ok());
    assert!(Request::new(&shape, 1, &bytes).is_err() && Request::new(&shape, 3, &bytes).is_err());
    assert!(Request::new(&shape, 2, &bytes[..bytes.len() - 1]).is_err());
    let long = vec![0; other.request_bytes(2).unwrap()];
    assert!(matches!(Request::new(&other, 2, &long), Err(Error::Malformed(_))));
    // Buckets.
    let content = vec![7; 40 * 288];
    let unit = |shape: &Shape, contents: &[&[u8]]| Unit::new(&pools, shape, &seed.into(), 0, contents);
    assert!(shape.unit_buckets() == 2);
    let refused = |contents: &[&[u8]]| matches!(unit(&shape, contents), Err(Error::Shape(_)));
    assert!(refused(&[]) && refused(&[&*content; 3]));
    assert!(refused(&[&content, &content[1..]]) && refused(&[&[&*content, &[0]].concat()]));
    assert!(matches!(unit(&other, &[&content, &content]), Err(Error::Shape(_))));
    // Hints and answers: each of its own size.
    let unit = unit(&shape, &[&content, &content]).unwrap();
    let answer = unit.answer(0, &[&Request::new(&shape, 2, &bytes).unwrap()]).remove(0);
    let hint = unit.hint();
    assert_eq!(asked.read(&seed, 0, hint, &answer).unwrap(), [&content[..288], &content[..288]]);
    for (hint, answer) in [(&hint[1..], &*answer), (hint, &answer[1..]), (hint, &[&*answer, &[0]].concat())] {
        assert!(matches!(asked.read(&seed, 0, hint, answer), Err(Error::Malformed(_))));
    }
}

/// `e - a s`, coefficients: a is public, of a purpose in a round, and e of a stream of the request's own seed.
pub(super) fn masked_by_definition(
    (purpose, seed, number): (&str, &[u8; 32], u64),
    (own, stream): (&[u8; 32], u64),
    secret: &Polynomial<Evaluation>,
) -> Vec<u64> {
    let (ring, modulus) = (Ring::get(), Ring::get().modulus());
    let mut product: Polynomial<Evaluation> = sampling::uniform(&ring.ntt, &derive(purpose, seed), number);
    product.mul_assign(modulus, secret);
    let product = product.into_coefficient(&ring.ntt);
    let errors = sampling::errors(DEGREE, own, stream);
    let of = |(error, product): (&i64, &u64)| modulus.sub(modulus.from_signed(*error), *product);
    errors.iter().zip(product.residues()).map(of).collect()
}

/// The queries of a request by their definition: each ciphertext of each unit has a number, and by it a public half and errors of its
/// own. With those of another one, differences of secrets and of what was asked for would show.
pub(super) fn queries_by_definition(
    shape: &Shape,
    seed: &[u8; 32],
    secret: &Polynomial<Evaluation>,
    targets: &[usize],
    (own, first_stream): (&[u8; 32], u64),
) -> Vec<u8> {
    let (ring, mut out) = (Ring::get(), Vec::new());
    let mut ciphertexts = BTreeMap::new();
    for (bucket, target) in targets.iter().enumerate() {
        let (unit, at) = (bucket / shape.unit_buckets(), bucket % shape.unit_buckets());
        let row = target / shape.columns();
        let mut writer = BitWriter::new(&mut out);
        for position in 0..shape.positions() {
            let coefficient = at * shape.positions() + position;
            let number = (unit * shape.ciphertexts() + coefficient / DEGREE) as u64;
            let ciphertext = ciphertexts.entry(number).or_insert_with(|| {
                masked_by_definition(("queries", seed, number), (own, first_stream + number), secret)
            });
            // An odd row is selected by 2^-13 of what selects an even one.
            let message = if position == row / 2 { [(1 << 41) - 32, 1 << 28][row % 2] } else { 0 };
            let mut value = [ring.modulus().add(ciphertext[coefficient % DEGREE], message)];
            ring.to_query.apply_all(&mut value);
            writer.write(value[0], QUERY_BITS);
        }
        writer.finish();
    }
    out
}

#[test]
fn queries_are_those_of_their_definition() {
    let shape = Shape::new(Ending::Hint, 17, 600, 288, 1).unwrap();
    assert_eq!((shape.unit_buckets(), shape.ciphertexts(), shape.positions()), (8, 2, 300));
    let (seed, own) = ([1; 32], [2; 32]);
    let targets: Vec<usize> = (0..17).map(|bucket| bucket * 37 % 600).collect();
    let (bytes, asked) = request(&shape, &seed, &targets, &own).unwrap();
    let defined = queries_by_definition(&shape, &seed, asked.secret(), &targets, (&own, 3));
    assert!(bytes[Shape::keys_bytes()..] == defined);
}

/// Under a public half that served before, what was asked for would show.
#[test]
fn no_two_ciphertexts_of_a_round_have_the_same_public_half() {
    let shape = Shape::new(Ending::Hint, 17, 600, 288, 1).unwrap();
    assert_eq!((shape.unit_buckets(), shape.ciphertexts(), shape.positions()), (8, 2, 300));
    let (seed, targets) = ([1; 32], [7; 17]);
    let (bytes, asked) = request(&shape, &seed, &targets, &[2; 32]).unwrap();
    let (ring, round) = (Ring::get(), Round::new(&seed));
    let modulus = ring.modulus();
    for (bucket, query) in bytes[Shape::keys_bytes()..].chunks_exact(shape.query_bytes()).enumerate() {
        let at = bucket % 8 * 300;
        let mut phase = round.query((bucket / 8 * 2 + at / DEGREE) as u64);
        phase.mul_assign(modulus, asked.secret());
        let phase = phase.into_coefficient(&ring.ntt);
        let mut reader = BitReader::new(query);
        let field = ring.raise(reader.read(QUERY_BITS), QUERY_BITS);
        // The first position is of the rows 0 and 1, of which nothing was asked for.
        let noise = modulus.centre(modulus.add(field, phase.residues()[at % DEGREE]));
        assert!(noise.abs() < 1 << 12, "{noise} in bucket {bucket}");
    }
}

/// Of a large bucket a unit has many packs, each of 33.5 MB, and a server may announce more of them than it needs to.
#[test]
fn an_answer_to_one_request_is_computed_with_a_pack_for_each_thread() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let shape = Shape::new(Ending::Hint, 2, 80, 288, 64).unwrap();
    assert!(shape.packs() == 8 && shape.unit_buckets() == 1);
    let (content, seed) = (elements(&mut rng, &shape), secret(&mut rng));
    let (bytes, _) = request(&shape, &seed, &[3, 70], &secret(&mut rng)).unwrap();
    let asked = Request::new(&shape, 2, &bytes).unwrap();
    let prepared = Unit::new(&Pools::default(), &shape, &seed.into(), 1, &[&content]).unwrap();
    let pools = Pools::default();
    let threads = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let once = threads.install(|| Unit::answer_once(&pools, &shape, &seed.into(), 1, &[&content], &asked));
    let (answer, hint) = once.unwrap();
    assert!(answer == prepared.answer(1, &[&asked])[0] && hint == prepared.hint());
    assert!((1..=2).contains(&pools.packs_left()), "{} packs at once", pools.packs_left());
}

/// The differences between phases and scaled messages of a unit's outputs, in units of the modulus, before anything is rounded for
/// the wire.
pub(super) fn noise(
    shape: &Shape,
    unit: &Unit,
    targets: &[usize],
    asked: &Asked,
    packed: &[u64],
) -> Vec<f64> {
    let (ring, modulus) = (Ring::get(), Ring::get().modulus());
    let mut outputs = packed.to_vec();
    for (rest, outputs) in
        unit.dense().packs.iter().map(|pack| &*pack.rest).zip(outputs.chunks_exact_mut(DEGREE))
    {
        let products = rest.iter().zip(asked.secret().residues()).map(|(a, s)| modulus.mul(*a, *s));
        let mut phase: Vec<u64> = products.collect();
        ring.ntt.inverse(&mut phase);
        outputs.iter_mut().zip(phase).for_each(|(output, phase)| *output = modulus.add(*output, phase));
    }
    let scale = ((modulus.value() + (1 << (PLAINTEXT_BITS - 1))) >> PLAINTEXT_BITS) as i64;
    let mut noise = Vec::with_capacity(outputs.len());
    let buckets = unit.dense().buckets.iter().zip(targets).zip(outputs.chunks_exact(shape.bucket_outputs()));
    for ((bucket, target), outputs) in buckets {
        let row = target / shape.columns();
        for (at, output) in outputs.iter().enumerate() {
            let pair = bucket.block(shape.positions(), at / BLOCK)[row / 2];
            let [even, odd] = [0, 1].map(|parity| i64::from(pair[2 * (at % BLOCK) + parity]));
            // What the other row of the position adds is no noise, but known.
            let other = if row % 2 == 1 { modulus.from_signed(even * (scale >> 13)) } else { 0 };
            let message = modulus.from_signed(if row % 2 == 1 { odd } else { even } * scale);
            noise.push(modulus.centre(modulus.sub(*output, modulus.add(message, other))) as f64);
        }
    }
    noise
}

/// With two rows, nearly all of it is packing's; with 4,096, the first dimension adds its share. Clients differ by some percent.
#[test]
fn noise_is_what_the_calculator_says() {
    let (mut rng, pools) = (ChaCha20Rng::seed_from_u64(3), Pools::default());
    for (count, columns) in [(16, 8), (2_048, 8), (8_192, 4), (16_384, 4)] {
        let shape = Shape::new(Ending::Hint, 8, count, 288, columns).unwrap();
        let contents: Vec<Vec<u8>> = (0..shape.unit_buckets()).map(|_| elements(&mut rng, &shape)).collect();
        let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        let seed = secret(&mut rng);
        let unit = Unit::new(&pools, &shape, &seed.into(), 0, &contents).unwrap();
        let targets: Vec<usize> = contents.iter().map(|_| rng.next_u64() as usize % count).collect();
        let asked: Vec<_> =
            (0..32).map(|_| request(&shape, &seed, &targets, &secret(&mut rng)).unwrap()).collect();
        let read = |bytes| Request::new(&shape, contents.len(), bytes).unwrap();
        let requests: Vec<_> = asked.iter().map(|(bytes, _)| read(bytes)).collect();
        let packed = unit.packed(0, &requests.iter().collect::<Vec<_>>());
        let (mut squares, mut samples, mut largest) = (0.0, 0, 0.0f64);
        for ((_, asked), packed) in asked.iter().zip(&packed) {
            for noise in noise(&shape, &unit, &targets, asked, packed) {
                (squares, samples, largest) =
                    (squares + noise * noise, samples + 1, largest.max(noise.abs()));
            }
        }
        let (measured, stages) = ((squares / f64::from(samples)).sqrt(), stages(&shape));
        let predicted = stages.packing.hypot(stages.first_dimension);
        let ratio = measured / predicted;
        println!("{count} in {columns}: 2^{:.2}, {ratio:.4} of what was predicted", measured.log2());
        assert!((0.97..1.03).contains(&ratio), "{count} in {columns}: {ratio}");
        assert!(largest < 6.5 * measured, "{count} in {columns}: {largest}");
    }
}

/// Every byte that is sent, or published, follows from seeds: on every machine, with every kernel, and in other programs.
#[test]
fn requests_hints_and_answers_are_the_golden_ones() {
    let digest = |bytes: &[u8]| -> String {
        Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    };
    let shape = Shape::new(Ending::Hint, 3, 70, 288, 4).unwrap();
    let content: Vec<u8> = (0..70 * 288).map(|at| (at * at % 251) as u8).collect();
    let unit = Unit::new(&Pools::default(), &shape, &[1; 32].into(), 1, &[&content]).unwrap();
    let (bytes, _) = request(&shape, &[1; 32], &[3, 33, 69], &[2; 32]).unwrap();
    let answer = unit.answer(2, &[&Request::new(&shape, 3, &bytes).unwrap()]).remove(0);
    let found = [&*bytes, unit.hint(), &answer].map(digest);
    let golden = ["7566f4529101ea2a", "ca852718d4d8a314", "a161ca843d413375"];
    assert_eq!(found, golden, "first bytes of the digests of request, hint and answer");
}
