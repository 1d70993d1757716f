//! Costs of the server's work; names hold the number of elements and the kernel in use.

use criterion::{Criterion, criterion_group, criterion_main};
use pir_core::bfv::{GaloisKeys, Parameters, SecretKey, Workspace};
use pir_core::expand::expand;
use pir_core::ring::{Backend, Ntt, Polynomial, sampling};
use pir_core::{Scheme, SealPir, bfv};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

fn name(what: &str, n: usize) -> String {
    format!("{what}/{n}/{}", Backend::active().name())
}

fn transforms(criterion: &mut Criterion) {
    let preset = Parameters::s2048();
    for modulus in [preset.large(), preset.small()].map(|ntt| *ntt.modulus()) {
        for degree in [2048, 4096, 8192] {
            let ntt = Ntt::new(modulus, degree).expect("the preset's primes are 1 modulo 2^14");
            let mut values: Vec<u64> = (0..degree as u64).collect();
            let of = |what| name(&format!("{what}/{}-bits", modulus.bits()), degree);
            criterion.bench_function(&of("ntt-forward"), |b| b.iter(|| ntt.forward(&mut values)));
            criterion.bench_function(&of("ntt-inverse"), |b| b.iter(|| ntt.inverse(&mut values)));
        }
    }
}

fn substitution(criterion: &mut Criterion) {
    let parameters = Parameters::s2048();
    let ntt = parameters.large();
    let keys = GaloisKeys::derive(parameters, &SecretKey::derive(parameters, &[1; 32]), &[1; 32]);
    let half = |stream| -> Polynomial<_> { sampling::uniform(ntt, &[2; 32], stream) };
    let ciphertext = bfv::Ciphertext { c0: half(0), c1: half(1) };
    let mut workspace = Workspace::new(parameters);
    let query = bfv::Ciphertext { c0: half(0).into_coefficient(ntt), c1: half(1).into_coefficient(ntt) };
    for level in [0, parameters.levels() - 1] {
        let of = format!("key-switch/{}-digits", parameters.gadget(level).digits);
        criterion.bench_function(&name(&of, parameters.degree()), |b| {
            b.iter(|| keys.substitute(parameters, level, &ciphertext, &mut workspace));
        });
    }
    for elements in [2048, 32_768] {
        let shape = SealPir::parameters(elements, 288).expect("a shape for every size to 2^20");
        criterion.bench_function(&name("expand", elements), |b| {
            b.iter(|| expand(parameters, &keys, query.clone(), shape.selectors(), shape.levels()));
        });
    }
}

fn answer(criterion: &mut Criterion) {
    let key = SealPir::client_key(&[1; 32]);
    let encoded = SealPir::encode_public_keys(&key);
    criterion.bench_function(&name("decode-keys", 1), |b| b.iter(|| SealPir::decode_public_keys(&encoded)));
    let keys = SealPir::decode_public_keys(&encoded).expect("just encoded");
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for elements in [2048, 32_768] {
        let shape = SealPir::parameters(elements, 288).expect("a shape for every size to 2^20");
        let mut data = vec![0; elements * 288];
        rng.fill_bytes(&mut data);
        let database = SealPir::setup(&shape, &data).expect("data of the right size");
        criterion.bench_function(&name("setup", elements), |b| b.iter(|| SealPir::setup(&shape, &data)));
        criterion.bench_function(&name("query", elements), |b| {
            b.iter(|| SealPir::queries(&key, &[(&shape, 77)], &mut rng));
        });
        let query = SealPir::queries(&key, &[(&shape, 77)], &mut rng).expect("an index in range").remove(0);
        criterion.bench_function(&name("answer", elements), |b| {
            b.iter(|| SealPir::answer(&database, &keys, &query));
        });
        let tile = vec![(&keys, &query[..]); 16];
        criterion.bench_function(&name("answer-16-clients", elements), |b| {
            b.iter(|| SealPir::answer_tile(&database, &tile));
        });
        let answer = SealPir::answer(&database, &keys, &query).expect("a query of the right shape");
        criterion.bench_function(&name("extract", elements), |b| {
            b.iter(|| SealPir::extract(&shape, &key, 77, &answer));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(core::time::Duration::from_millis(300))
        .measurement_time(core::time::Duration::from_secs(1));
    targets = transforms, substitution, answer
}
criterion_main!(benches);
