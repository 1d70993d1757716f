//! The engine without privacy behaves like the others at its boundary.

use pir_core::{Error, NoOp, Scheme};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

#[test]
fn it_serves_elements_and_admits_to_no_security() {
    let parameters = NoOp::parameters(3, 2).unwrap();
    assert_eq!(NoOp::security_bits(&parameters), 0);
    assert_eq!(NoOp::failure_log2(&parameters), f64::NEG_INFINITY);
    assert_eq!(NoOp::elements(&parameters), 3);
    let key = NoOp::client_key(&[1; 32]);
    let keys = NoOp::encode_public_keys(&key);
    assert_eq!(keys.len(), NoOp::public_keys_bytes());
    let keys = NoOp::decode_public_keys(&keys).unwrap();
    let database = NoOp::setup(&parameters, &[1, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!(NoOp::database_bytes(&database), 6);
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    let queries = NoOp::queries(&key, &[(&parameters, 2), (&parameters, 0)], &mut rng).unwrap();
    for (query, expected) in queries.iter().zip([[5, 6], [1, 2]]) {
        assert_eq!(query.len(), NoOp::query_bytes(&parameters));
        let answer = NoOp::answer(&database, &keys, query).unwrap();
        assert_eq!(answer.len(), NoOp::answer_bytes(&parameters));
        assert_eq!(NoOp::extract(&parameters, &key, 0, &answer).unwrap(), expected);
    }
}

#[test]
fn malformed_input_is_refused_without_a_panic() {
    assert!(NoOp::parameters(0, 1).is_err() && NoOp::parameters(1, 0).is_err());
    assert!(NoOp::parameters(usize::MAX, 2).is_err());
    assert!(NoOp::decode_public_keys(&[0; 7]).is_err());
    let parameters = NoOp::parameters(2, 1).unwrap();
    let database = NoOp::setup(&parameters, &[1, 2]).unwrap();
    assert!(NoOp::setup(&parameters, &[1]).is_err());
    let keys = NoOp::decode_public_keys(&[0; 8]).unwrap();
    for query in [&[0; 15][..], &[0; 17], &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0xFF; 16]] {
        assert_eq!(NoOp::answer(&database, &keys, query), Err(Error::Malformed("query")));
    }
    let key = NoOp::client_key(&[0; 32]);
    assert_eq!(NoOp::extract(&parameters, &key, 2, &[0]), Err(Error::Index));
    assert!(NoOp::extract(&parameters, &key, 0, &[]).is_err());
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    assert_eq!(NoOp::queries(&key, &[(&parameters, 2)], &mut rng), Err(Error::Index));
}

#[test]
fn an_index_of_more_than_a_byte_is_read_and_a_profile_is_zeros() {
    let parameters = NoOp::parameters(600, 1).unwrap();
    let elements: Vec<u8> = (0..600).map(|at| (at % 251) as u8).collect();
    let database = NoOp::setup(&parameters, &elements).unwrap();
    let (key, mut rng) = (NoOp::client_key(&[1; 32]), ChaCha20Rng::seed_from_u64(0));
    let keys = NoOp::decode_public_keys(&NoOp::encode_public_keys(&key)).unwrap();
    let query = NoOp::queries(&key, &[(&parameters, 515)], &mut rng).unwrap().remove(0);
    assert_eq!(query, [3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(NoOp::answer(&database, &keys, &query), Ok(vec![13]));
    let profile = NoOp::profile(&parameters);
    assert_eq!(profile, [0; 16]);
    assert_eq!(NoOp::with_profile(600, 1, &profile), Ok(parameters));
    for at in 0..16 {
        let mut other = profile;
        other[at] = 1;
        assert!(NoOp::with_profile(600, 1, &other).is_err(), "byte {at}");
    }
}
