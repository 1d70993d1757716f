//! QUERY, ANSWER, EXTRACT together.

use std::sync::LazyLock;

use pir_core::noise::Circuit;
use pir_core::sealpir::{ClientKey, Parameters, PublicKeys};
use pir_core::{Error, Scheme, SealPir, bfv, noise};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

static CLIENT: LazyLock<(ClientKey, PublicKeys)> = LazyLock::new(|| {
    let key = SealPir::client_key(&[7; 32]);
    let keys = SealPir::decode_public_keys(&SealPir::encode_public_keys(&key)).unwrap();
    (key, keys)
});

/// Fetches the elements at `indices` and compares them.
fn fetch(parameters: &Parameters, elements: &[u8], indices: &[usize]) {
    let database = SealPir::setup(parameters, elements).unwrap();
    assert_eq!(database.bytes(), parameters.database_bytes(), "what an operator plans with");
    let mut rng = ChaCha20Rng::seed_from_u64(parameters.elements() as u64);
    let items: Vec<_> = indices.iter().map(|index| (parameters, *index)).collect();
    let queries = SealPir::queries(&CLIENT.0, &items, &mut rng).unwrap();
    for (query, index) in queries.iter().zip(indices) {
        assert_eq!(query.len(), SealPir::query_bytes(parameters));
        assert!(query.len() <= 4096);
        let answer = SealPir::answer(&database, &CLIENT.1, query).unwrap();
        assert_eq!(answer.len(), SealPir::answer_bytes(parameters));
        let size = parameters.element_bytes();
        let element = SealPir::extract(parameters, &CLIENT.0, *index, &answer).unwrap();
        assert!(element == elements[index * size..(index + 1) * size], "{parameters:?} at {index}");
    }
}

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut elements = vec![0; bytes];
    ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut elements);
    elements
}

#[test]
fn awkward_numbers_of_elements_lose_none_at_the_edges() {
    for n in [1, 2, 7, 8, 9, 17, 200, 1000, 1023] {
        let parameters = SealPir::parameters(n, 288).unwrap();
        fetch(&parameters, &random(n * 288, n as u64), &[0, n / 2, n - 1]);
    }
}

#[test]
fn the_second_dimension_loses_nothing_even_where_one_would_do() {
    for (n, columns) in [(1, 2), (8, 2), (9, 2), (17, 2), (17, 3), (8 * 12 + 1, 5), (8 * 30, 6)] {
        let parameters = Parameters::with_columns(n, 288, columns).unwrap();
        assert_eq!((parameters.dimensions(), parameters.columns()), (2, columns));
        fetch(&parameters, &random(n * 288, n as u64), &[0, n / 2, n - 1]);
    }
}

#[test]
fn a_large_database_is_served_in_two_dimensions() {
    let n = 32_768 - 7;
    let parameters = SealPir::parameters(n, 288).unwrap();
    assert_eq!(parameters.dimensions(), 2);
    fetch(&parameters, &random(n * 288, 9), &[0, 12_345, n - 1]);
}

#[test]
fn elements_far_smaller_and_larger_than_a_plaintext_come_back_whole() {
    for (n, size) in [(1, 1), (50_000, 1), (3, 2304), (3, 2305), (7, 4000), (1, 60_000)] {
        let parameters = SealPir::parameters(n, size).unwrap();
        fetch(&parameters, &random(n * size, size as u64), &[0, n / 2, n - 1]);
    }
    let parameters = Parameters::with_columns(5, 4000, 2).unwrap();
    assert_eq!(parameters.groups(), 2);
    fetch(&parameters, &random(20_000, 1), &[0, 2, 4]);
}

#[test]
fn extreme_databases_decode_like_any_other() {
    for byte in [0, 0xFF] {
        for columns in [1, 4] {
            let parameters = Parameters::with_columns(600, 288, columns).unwrap();
            fetch(&parameters, &vec![byte; 600 * 288], &[0, 599]);
        }
    }
}

/// Keys stay for many rounds, and their errors colour the noise: what shapes were chosen by must hold all the same. Above
/// 2^18 elements it does not for every key; `docs/PARAMETERS.md` says what does.
#[test]
fn shapes_keep_the_failure_bound_for_keys_that_stay() {
    let bfv = bfv::Parameters::s2048();
    let for_all = |shape: &Parameters| {
        noise::failure_for_keys_log2(bfv, &shape.circuit(), |level| noise::key_spread(bfv, level))
    };
    let for_seen = |shape: &Parameters| noise::failure_for_keys_log2(bfv, &shape.circuit(), |_| 2.06);
    let small = (0..=18).flat_map(|log2| [1usize << log2, (1 << log2) + 1, (3 << log2) / 2]);
    let large = (9..=32).map(|i| i << 15);
    for n in small.filter(|n| *n <= 1 << 18).chain(large) {
        let [many, one] =
            [SealPir::parameters, SealPir::parameters_for_one_query].map(|f| f(n, 288).unwrap());
        let (all, seen, single) = (for_all(&many), for_seen(&many), for_all(&one));
        if n.is_power_of_two() {
            let Circuit { rows, columns, .. } = many.circuit();
            println!(
                "{n}: {rows} x {columns}, all keys 2^{all:.1}, seen 2^{seen:.1}; k = 1, all keys 2^{single:.1}"
            );
        }
        assert!(n > 1 << 18 || all <= -40.0, "{n}: 2^{all:.2}");
        assert!(seen <= if n <= 750_000 { -40.0 } else { -38.0 }, "{n}: 2^{seen:.2}");
        assert!(single <= -40.0, "{n}: 2^{single:.2}");
    }
}

#[test]
fn every_size_up_to_a_million_has_a_shape_within_the_failure_bound_and_the_query_size() {
    for n in
        (0..=20).flat_map(|log2| [1usize << log2, (1 << log2) + 1, (3 << log2) / 2]).filter(|n| *n <= 1 << 20)
    {
        let parameters = SealPir::parameters(n, 288).unwrap();
        assert!(SealPir::failure_log2(&parameters) <= -40.0, "{parameters:?}");
        assert!(SealPir::query_bytes(&parameters) <= 4096);
        assert!(parameters.rows() * parameters.columns() >= parameters.plaintexts());
        assert_eq!(SealPir::security_bits(&parameters), 137);
        let ciphertexts = if parameters.dimensions() == 1 { 1 } else { 4 };
        let bits = parameters.answer_coefficient_bits();
        assert_eq!(SealPir::answer_bytes(&parameters), 4 + ciphertexts * 512 * bits as usize);
        assert!((17..=18).contains(&bits), "{parameters:?}");
    }
    assert_eq!(SealPir::parameters(1, 288).map(|p| SealPir::answer_bytes(&p)), Ok(8704 + 4));
    assert_eq!(SealPir::parameters(32_768, 288).map(|p| SealPir::answer_bytes(&p)), Ok(34_816 + 4));
}

#[test]
fn longer_answers_lose_no_part_of_the_database() {
    for (n, size) in [(96, 288), (97, 288), (500, 288), (2048, 288), (8192 - 5, 288), (300, 4000)] {
        for answer_bytes in [40_000, 110_592] {
            let parameters = Parameters::choose_within(n, size, answer_bytes).unwrap();
            assert!(parameters.answer_bytes() <= answer_bytes);
            let in_part = parameters.elements_per_plaintext() * parameters.rows() * parameters.columns();
            let of_each_part = (0..parameters.parts()).map(|part| (part * in_part + part).min(n - 1));
            let indices: Vec<usize> = of_each_part.chain([n / 2, n - 1]).collect();
            fetch(&parameters, &random(n * size, n as u64), &indices);
        }
    }
    let one_dimension = Parameters::choose_within(2048, 288, 110_592).unwrap();
    assert_eq!((one_dimension.dimensions(), one_dimension.parts()), (1, 12));
    let two_dimensions = Parameters::choose_within(8192, 288, 110_592).unwrap();
    assert_eq!((two_dimensions.dimensions(), two_dimensions.parts()), (2, 3));
}

#[test]
fn longer_answers_make_shorter_queries_within_the_same_bounds() {
    for n in (0..=20).map(|log2| 1usize << log2) {
        let (short, long) =
            (SealPir::parameters(n, 288).unwrap(), SealPir::parameters_for_one_query(n, 288).unwrap());
        assert!(long.selectors() <= short.selectors(), "{n} elements");
        assert!(long.answer_bytes() <= 110_592, "{n} elements");
        assert!(SealPir::failure_log2(&long) <= -40.0, "{n} elements");
        assert!(long.rows() * long.all_columns() >= long.plaintexts());
    }
    // Elements whose shortest answer is longer than that still have one.
    let large = SealPir::parameters_for_one_query(4, 60_000).unwrap();
    assert!(large.answer_bytes() > 110_592);
    assert!(matches!(Parameters::choose_within(4, 288, 8000), Err(Error::Shape(_))));
}

#[test]
fn databases_without_a_shape_are_refused() {
    for (n, size) in [(0, 288), (1, 0), (usize::MAX, 2), (1 << 30, 288)] {
        assert!(matches!(SealPir::parameters(n, size), Err(Error::Shape(_))), "{n} of {size}");
    }
    let parameters = SealPir::parameters(10, 288).unwrap();
    assert!(matches!(SealPir::setup(&parameters, &[0; 2879]), Err(Error::Shape(_))));
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    assert_eq!(SealPir::queries(&CLIENT.0, &[(&parameters, 10)], &mut rng), Err(Error::Index));
    let answer = vec![0; SealPir::answer_bytes(&parameters)];
    assert_eq!(SealPir::extract(&parameters, &CLIENT.0, 10, &answer), Err(Error::Index));
}
