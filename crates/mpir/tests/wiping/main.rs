//! What a client gives back to the heap holds no secret.
//!
//! One test, since the allocator watches the whole process. It sees neither the stack nor registers.
#![allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]

mod heap;

use heap::left_behind;
use mpir::MultiClient;
use pir_core::bfv::{Parameters, SecretKey};
use pir_core::ring::bits::BitReader;
use pir_core::ring::{Coefficient, Modulus, Polynomial, sampling};
use pir_core::{NoOp, Scheme, SealPir, sealpir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

const ELEMENTS: usize = 100;
const ELEMENT_BYTES: usize = 288;
const INDEX: usize = 57;

type Secret = (&'static str, Vec<u64>);

fn rng(number: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([number; 32])
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn signed(values: &[i64]) -> Vec<u64> {
    values.iter().map(|value| *value as u64).collect()
}

fn residues(modulus: &Modulus, values: &[i64]) -> Vec<u64> {
    values.iter().map(|value| modulus.from_signed(*value)).collect()
}

/// D of the protocol.
fn derived(name: &str, seed: &[u8; 32]) -> [u8; 32] {
    let hash = Sha256::new().chain_update(b"sotto bfv v1\0").chain_update(name).chain_update([0]);
    hash.chain_update(Parameters::s2048().identity()).chain_update(seed).finalize().into()
}

/// A small polynomial with a secret seed, in all the forms that it takes.
fn small(
    names: [&'static str; 4],
    seed: &[u8; 32],
    sample: impl Fn(usize, &[u8; 32]) -> Vec<i64>,
) -> [Secret; 4] {
    let ntt = Parameters::s2048().large();
    let values = sample(ntt.degree(), seed);
    let evaluation = Polynomial::from_signed(ntt.modulus(), &values).into_evaluation(ntt).residues().to_vec();
    let forms = [words(seed), signed(&values), residues(ntt.modulus(), &values), evaluation];
    let mut forms = names.into_iter().zip(forms);
    core::array::from_fn(|_| forms.next().unwrap())
}

/// The coefficients of four ciphertexts, decrypted: what carries the inner ciphertext, its halves, and the same around 0.
fn inner(secret: &SecretKey, parameters: &sealpir::Parameters, answer: &[u8]) -> [Secret; 4] {
    let bfv = Parameters::s2048();
    let bits = parameters.answer_coefficient_bits();
    let mut reader = BitReader::new(&answer[4..]);
    let mut half = || (0..bfv.degree()).map(|_| reader.read(bits)).collect::<Vec<u64>>();
    let chunks: [Vec<u64>; 4] = core::array::from_fn(|_| {
        let (c0, c1) = (half(), half());
        secret.decrypt(bfv, &c0, &c1, bits).to_vec()
    });
    let [c0, c1] = [0, 2].map(|first| {
        let pairs = chunks[first].iter().zip(&chunks[first + 1]);
        pairs.map(|(low, high)| low | high << 9).collect::<Vec<u64>>()
    });
    let centred = c1.iter().map(|value| ((value << 46) as i64 >> 46) as u64).collect();
    let [_, _, _, chunk] = chunks;
    [("a chunk", chunk), ("inner c0", c0), ("inner c1", c1), ("inner c1, centred", centred)]
}

#[test]
fn what_a_client_gives_back_holds_no_secret() {
    let control =
        [("control", (1..=4).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect::<Vec<_>>())];
    assert_eq!(
        left_behind(&control, || drop(control[0].1.clone())),
        ["control"],
        "the allocator sees secrets"
    );

    keys_and_retrievals();
    targets();
}

fn keys_and_retrievals() {
    let bfv = Parameters::s2048();
    let seed: [u8; 32] = core::array::from_fn(|i| (i * i) as u8 ^ 0xA7);
    let secret = SecretKey::derive(bfv, &seed);
    let parameters = sealpir::Parameters::with_columns(ELEMENTS, ELEMENT_BYTES, 2).unwrap();
    let elements: Vec<u8> = (0..(ELEMENTS * ELEMENT_BYTES) as u32).map(|i| ((i * i) >> 7) as u8).collect();
    let database = SealPir::setup(&parameters, &elements).unwrap();
    let plain = SealPir::client_key(&seed);
    let keys = SealPir::decode_public_keys(&SealPir::encode_public_keys(&plain)).unwrap();
    let query = SealPir::queries(&plain, &[(&parameters, INDEX)], &mut rng(1)).unwrap().remove(0);
    let answer = SealPir::answer(&database, &keys, &query).unwrap();

    // A query's seeds, the second of which is secret, and what they make.
    let (mut uniform_seed, mut error_seed) = ([0; 32], [0; 32]);
    let mut drawn = rng(1);
    drawn.fill_bytes(&mut uniform_seed);
    drawn.fill_bytes(&mut error_seed);
    assert_eq!(query[4..36], uniform_seed);
    let zero = secret.encrypt(bfv, Polynomial::<Coefficient>::zero(bfv.degree()), uniform_seed, &error_seed);
    let errors = sampling::errors(bfv.degree(), &error_seed, 0);
    let mut product = Polynomial::from_signed(bfv.large().modulus(), &errors);
    product.sub_assign(bfv.large().modulus(), &zero.c0);

    let mut secrets = vec![("seed", words(&seed)), ("c1 s", product.residues().to_vec())];
    let ternary = |count: usize, seed: &[u8; 32]| sampling::ternary(count, seed, 0).to_vec();
    let names = ["seed of s", "s, signed", "s, residues", "s, slots"];
    secrets.extend(small(names, &derived("secret key", &seed), ternary));
    let of_stream =
        |stream| move |count: usize, seed: &[u8; 32]| sampling::errors(count, seed, stream).to_vec();
    let names = ["seed of key errors", "key errors, signed", "key errors, residues", "key errors, slots"];
    secrets.extend(small(names, &derived("galois errors", &seed), of_stream(58)));
    let names = ["seed of errors", "errors, signed", "errors, residues", "errors, slots"];
    secrets.extend(small(names, &error_seed, of_stream(0)));
    secrets.extend(inner(&secret, &parameters, &answer));
    // In the same plaintext as the one wanted: who has it knows where that is.
    let neighbour = (INDEX ^ 1) * ELEMENT_BYTES;
    secrets.push(("neighbour", words(&elements[neighbour..neighbour + ELEMENT_BYTES])));

    let left = left_behind(&secrets, || {
        let key = SealPir::client_key(&seed);
        let encoded = SealPir::encode_public_keys(&key);
        let queries = SealPir::queries(&key, &[(&parameters, INDEX)], &mut rng(1)).unwrap();
        assert!(queries[0] == query);
        let element = SealPir::extract(&parameters, &key, INDEX, &answer).unwrap();
        assert_eq!(element, elements[INDEX * ELEMENT_BYTES..(INDEX + 1) * ELEMENT_BYTES]);
        drop((key, encoded));
    });
    assert!(left.is_empty(), "{left:?}");
}

fn targets() {
    let parameters = NoOp::parameters(1 << 20, ELEMENT_BYTES).unwrap();
    let wanted: [usize; 4] = [0x7_1234, 0x3_4567, 0xA_89AB, 0x5_CDEF];
    let targets = wanted.map(Some);
    let indices: Vec<u64> = wanted.iter().map(|index| *index as u64).collect();
    let address = &raw const parameters as u64;
    let items = vec![indices[0], address, indices[1], address, indices[2]];
    let left = left_behind(&[("indices", indices), ("items", items)], || {
        let client = MultiClient::<NoOp>::new(&[3; 32]);
        drop(client.multi_query(&parameters, &targets, &mut rng(2)).unwrap());
    });
    assert!(left.is_empty(), "{left:?}");
}
