//! SealPIR: the secret, its keys, queries, and what is read.

use pir_core::bfv::{Parameters, SecretKey};
use pir_core::ring::bits::BitReader;
use pir_core::ring::{Coefficient, Polynomial, sampling};
use pir_core::{Scheme, SealPir, sealpir};
use rand_core::Rng;
use sha2::{Digest, Sha256};

use super::heap::left_behind;
use super::{Secret, forms, rng, words};

const ELEMENTS: usize = 100;
const ELEMENT_BYTES: usize = 288;
const INDEX: usize = 57;

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
    let [signed, residues, slots] = forms(ntt, &sample(ntt.degree(), seed));
    let mut forms = names.into_iter().zip([words(seed), signed, residues, slots]);
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

pub(super) fn keys_and_retrievals() {
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
