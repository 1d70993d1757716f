//! What clients do with secrets. Every case runs twice, with secrets marked and without, and both must come to the same.

use core::convert::Infallible;

use mpir::{Form, MultiClient, MultiQuery, Pending, RoundSpec};
use pir_baselines::Xpir;
use pir_core::ring::sampling;
use pir_core::sealpir::Parameters;
use pir_core::{Scheme, SealPir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng, TryCryptoRng, TryRng};

use crate::memcheck::{is_secret, make_public, make_secret, secret};

const SEED: [u8; 32] = [42; 32];
const ELEMENT_BYTES: usize = 288;

/// A generator whose output counts as secret.
pub(crate) struct SecretRng(ChaCha20Rng);

impl SecretRng {
    pub(crate) fn new() -> Self {
        Self(rng())
    }
}

impl TryRng for SecretRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(secret(self.0.next_u32()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(secret(self.0.next_u64()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill_bytes(bytes);
        make_secret(bytes);
        Ok(())
    }
}

impl TryCryptoRng for SecretRng {}

pub(crate) fn rng() -> ChaCha20Rng {
    ChaCha20Rng::from_seed([43; 32])
}

/// What was made of secrets, and is now looked at: that it does depend on them shows that the marks are not lost on the
/// way.
pub(crate) fn opened<T: Copy>(mut values: Vec<T>) -> Vec<T> {
    assert!(is_secret(&values));
    make_public(&mut values);
    values
}

fn elements(count: usize) -> Vec<u8> {
    (0..(count * ELEMENT_BYTES) as u32).map(|i| ((i * i) >> 7) as u8).collect()
}

/// Secrets and errors are drawn from a secret seed.
pub(crate) fn sampling() {
    let seed = secret(SEED);
    assert_eq!(opened(sampling::ternary(2048, &seed, 0).to_vec()), *sampling::ternary(2048, &SEED, 0));
    assert_eq!(opened(sampling::errors(2048, &seed, 3).to_vec()), *sampling::errors(2048, &SEED, 3));
}

/// A client's key and its public keys, from a secret seed.
pub(crate) fn keys() {
    let key = SealPir::client_key(&secret(SEED));
    // What is uploaded is public.
    let encoded = opened(SealPir::encode_public_keys(&key));
    assert!(encoded == SealPir::encode_public_keys(&SealPir::client_key(&SEED)));
}

/// A query for a secret index, and the answer read, with a secret key.
fn retrieval<S: Scheme>(parameters: &S::Parameters, count: usize) {
    let elements = elements(count);
    let database = S::setup(parameters, &elements).expect("as many elements as the parameters say");
    let (plain, key) = (S::client_key(&SEED), S::client_key(&secret(SEED)));
    let keys = S::decode_public_keys(&S::encode_public_keys(&plain)).expect("just encoded");
    for index in [0, count / 2, count - 1] {
        let items = [(parameters, secret(index))];
        let query =
            S::queries(&key, &items, &mut SecretRng::new()).expect("an index below the count").remove(0);
        // What is sent is public.
        let query = opened(query);
        let expected =
            S::queries(&plain, &[(parameters, index)], &mut rng()).expect("an index below the count");
        assert!(query == expected[0]);
        let answer = S::answer(&database, &keys, &query).expect("a query for this database");
        let element =
            S::extract(parameters, &key, secret(index), &answer).expect("an answer of this database");
        assert_eq!(opened(element), elements[index * ELEMENT_BYTES..(index + 1) * ELEMENT_BYTES]);
    }
}

/// Of one dimension.
pub(crate) fn one_dimension() {
    retrieval::<SealPir>(&Parameters::with_columns(20, ELEMENT_BYTES, 1).expect("3 plaintexts"), 20);
}

/// Of two dimensions.
pub(crate) fn two_dimensions() {
    retrieval::<SealPir>(&Parameters::with_columns(40, ELEMENT_BYTES, 2).expect("5 plaintexts"), 40);
}

/// With an answer of several parts, one of which is the right one.
pub(crate) fn parts() {
    let parameters = SealPir::parameters_for_one_query(40, ELEMENT_BYTES).expect("a small database");
    assert!(parameters.parts() > 1);
    retrieval::<SealPir>(&parameters, 40);
}

/// The engine that sends every selector by itself.
pub(crate) fn xpir() {
    retrieval::<Xpir<2>>(&Xpir::<2>::parameters(40, ELEMENT_BYTES).expect("a small database"), 40);
    retrieval::<Xpir<3>>(&Xpir::<3>::parameters(100, ELEMENT_BYTES).expect("a small database"), 100);
}

/// A query for every bucket, of which some are wanted: which, and what, is secret. All answers are read.
pub(crate) fn buckets() {
    const BUCKETS: usize = 4;
    let count = 20;
    let parameters = mpir::parameters::<SealPir>(BUCKETS, count, ELEMENT_BYTES).expect("a small database");
    let elements = elements(count);
    let database = SealPir::setup(&parameters, &elements).expect("as many elements as the parameters say");
    let client = MultiClient::<SealPir>::new(&secret(SEED));
    let plain = MultiClient::<SealPir>::new(&SEED);
    let keys = SealPir::decode_public_keys(&plain.public_keys()).expect("just encoded");

    let wanted = [Some(7), None, Some(19), None];
    let mut targets = wanted.to_vec();
    make_secret(&mut targets);
    let query =
        client.multi_query(&parameters, &targets, &mut SecretRng::new()).expect("targets below the count");
    let expected = plain.multi_query(&parameters, &wanted, &mut rng()).expect("targets below the count");
    // What is sent is public.
    let encoded: Vec<Vec<u8>> = query.encoded().iter().cloned().map(opened).collect();
    assert!(encoded == expected.encoded());

    let answers = encoded.iter().map(|query| SealPir::answer(&database, &keys, query));
    let answers: Vec<Vec<u8>> = answers.collect::<Result<_, _>>().expect("queries for this database");
    let read = |client: &MultiClient<SealPir>, query: &MultiQuery| {
        let codewords = client.multi_extract(&parameters, query, &answers);
        codewords.into_iter().collect::<Result<Vec<_>, _>>().expect("answers of this database")
    };
    let codewords: Vec<Vec<u8>> = read(&client, &query).into_iter().map(opened).collect();
    assert!(codewords == read(&plain, &expected));
    assert_eq!(codewords[0], elements[7 * ELEMENT_BYTES..8 * ELEMENT_BYTES]);
    assert_eq!(codewords[2], elements[19 * ELEMENT_BYTES..20 * ELEMENT_BYTES]);
}

/// The same by an engine that asks of a whole round at once, under a secret that is drawn for the request.
pub(crate) fn voce() {
    for engine in [mpir::voce(), mpir::voce_hint(), mpir::voce_apart()] {
        ask_and_read(&*engine);
    }
}

fn ask_and_read(engine: &dyn mpir::Engine) {
    const BUCKETS: usize = 2;
    let count = 20;
    let form = Form { buckets: BUCKETS, elements: count, element_bytes: ELEMENT_BYTES };
    let profile = engine.profile(form).expect("a small database");
    let spec = RoundSpec { seed: [44; 32], whitening: [44; 32], round: 1, form, profile };
    let sizes = engine.sizes(&spec).expect("the engine's own arrangement");

    let wanted = [Some(7), None];
    let mut targets = wanted.to_vec();
    make_secret(&mut targets);
    let (mut client, mut plain) = (engine.client(&secret(SEED)), engine.client(&SEED));
    let asked = client.ask(spec.clone(), &targets, &mut SecretRng::new()).expect("targets below the count");
    let expected = plain.ask(spec, &wanted, &mut rng()).expect("targets below the count");
    let request = opened(asked.bytes);
    assert!(request == expected.bytes);

    // Whatever a server sends is read in the same way, and preparing a round takes long here.
    let sent = |bytes: usize| -> Vec<u8> { (0..bytes).map(|at| ((at * at) >> 5) as u8).collect() };
    let (hint, answer) = (sent(sizes.hint.bytes()), sent(sizes.answer.bytes()));
    let read = |pending: Box<dyn Pending>| {
        let codewords = pending.read(&hint, &answer).into_iter().collect::<Result<Vec<_>, _>>();
        codewords.expect("bytes of the right number")
    };
    let codewords: Vec<Vec<u8>> = read(asked.pending).into_iter().map(opened).collect();
    assert!(codewords == read(expected.pending));
}
