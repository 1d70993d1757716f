//! FastPIR with both presets: QUERY, ANSWER, EXTRACT together, and its formats.

use pir_baselines::FastPir;
use pir_baselines::fastpir::{ClientKey, INSECURE_PROFILE, Parameters, PublicKeys};
use pir_core::{Error, Scheme};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

struct Client<const Q: u32> {
    key: ClientKey,
    keys: PublicKeys<Q>,
}

impl<const Q: u32> Client<Q> {
    fn new() -> Self {
        let key = FastPir::<Q>::client_key(&[7; 32]);
        let encoded = FastPir::<Q>::encode_public_keys(&key);
        assert_eq!(encoded.len(), FastPir::<Q>::public_keys_bytes());
        let keys = FastPir::<Q>::decode_public_keys(&encoded).unwrap();
        Self { key, keys }
    }

    /// Fetches elements at both ends and in the middle and compares them.
    fn fetch(&self, n: usize, size: usize) {
        let parameters = parameters::<Q>(n, size);
        let mut elements = vec![0; n * size];
        ChaCha20Rng::seed_from_u64(n as u64).fill_bytes(&mut elements);
        let database = FastPir::<Q>::setup(&parameters, &elements).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut indices = vec![0, n / 2, n - 1];
        indices.dedup();
        let items: Vec<_> = indices.iter().map(|index| (&parameters, *index)).collect();
        let queries = FastPir::<Q>::queries(&self.key, &items, &mut rng).unwrap();
        let tile: Vec<_> = queries.iter().map(|query| (&self.keys, &query[..])).collect();
        let answers = FastPir::<Q>::answer_tile(&database, &tile);
        for ((index, query), answer) in indices.iter().zip(&queries).zip(answers) {
            let answer = answer.unwrap();
            assert_eq!(query.len(), FastPir::<Q>::query_bytes(&parameters));
            assert_eq!(answer.len(), FastPir::<Q>::answer_bytes(&parameters));
            if *index == 0 {
                let alone = FastPir::<Q>::answer(&database, &self.keys, query).unwrap();
                assert!(answer == alone, "alone or in a tile");
            }
            let element = FastPir::<Q>::extract(&parameters, &self.key, *index, &answer).unwrap();
            assert!(element == elements[index * size..(index + 1) * size], "{parameters:?} at {index}");
        }
    }
}

fn parameters<const Q: u32>(elements: usize, element_bytes: usize) -> Parameters<Q> {
    Parameters::new_allowing_insecure_parameters(elements, element_bytes).unwrap()
}

#[test]
fn awkward_numbers_of_elements_lose_none_at_the_edges() {
    let (own, paper) = (Client::<100>::new(), Client::<109>::new());
    for n in [1, 2, 1000, 2047, 2048, 2049, 5000] {
        own.fetch(n, 288);
        paper.fetch(n, 288);
    }
}

#[test]
fn elements_far_smaller_and_larger_than_a_plaintext_come_back_whole() {
    let (own, paper) = (Client::<100>::new(), Client::<109>::new());
    for (n, size) in [(9000, 1), (3, 3), (2100, 5)] {
        own.fetch(n, size);
        paper.fetch(n, size);
    }
    // Just more than 4096 values of 18 and of 20 bits: two ciphertexts in an answer.
    assert_eq!((parameters::<100>(1, 9217).groups(), parameters::<100>(1, 8192).groups()), (2, 1));
    own.fetch(1, 9217);
    paper.fetch(1, 10_241);
}

#[test]
fn the_papers_primes_need_the_loud_door() {
    let refused = Some(Error::Security { bits: 125 });
    assert_eq!(FastPir::<109>::parameters(1000, 288).err(), refused);
    assert_eq!(FastPir::<109>::security_bits(&parameters(1000, 288)), 125);
    assert_eq!(FastPir::<100>::security_bits(&parameters(1000, 288)), 128);
    // In a round, the door is a profile that says so, and no other one.
    assert_eq!(FastPir::<109>::with_profile(1000, 288, &INSECURE_PROFILE), Ok(parameters(1000, 288)));
    assert_eq!(FastPir::<109>::with_profile(1000, 288, &[0; 16]).err(), refused);
    assert!(FastPir::<109>::with_profile(1000, 288, &[1; 16]).is_err());
    assert!(FastPir::<100>::with_profile(1000, 288, &INSECURE_PROFILE).is_err());
    assert_eq!(FastPir::<100>::with_profile(1000, 288, &[0; 16]), Ok(parameters(1000, 288)));
    assert_eq!([FastPir::<100>::NAME, FastPir::<109>::NAME], ["fastpir", "fastpir-paper"]);
}
