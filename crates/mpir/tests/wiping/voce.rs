//! Voce: the secret of a request or of a session, its keys, queries, and what is read.

use std::sync::Arc;

use mpir::{Contents, Engine, Form, Preference, Query, RoundSpec, VoceHint, voce};
use pir_core::bfv::Parameters;
use pir_core::ring::bits::{BitReader, packed_bytes};
use pir_core::ring::{Coefficient, Evaluation, Ntt, Polynomial, Rescale, bit_reverse, sampling};
use pir_core::voce::{ANSWER_BITS, DEGREE, HINT_BITS, MODULUS_BITS, PLAINTEXT_BITS};
use rand_core::Rng;
use sha2::{Digest, Sha256};

use super::heap::left_behind;
use super::{Secret, forms, rng, signed, words};

/// Elements so long that a bucket takes several packs.
const LONG: Form = Form { buckets: 3, elements: 9_000, element_bytes: 2_304 };
/// Elements of which eight share a reply.
const SHORT: Form = Form { buckets: 3, elements: 700, element_bytes: 288 };
/// Numbers that together nothing else happens to be.
const TARGETS: [usize; 3] = [421, 617, 333];

const PUBLIC_BITS: u32 = 19;
const PRIVATE_BITS: u32 = 12;

/// A round and a client's part in it.
struct Scene {
    engine: Arc<dyn Engine>,
    spec: RoundSpec,
    different: Vec<Vec<u8>>,
    seed: [u8; 32],
    hint: Vec<u8>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Scene {
    fn new(engine: Arc<dyn Engine>, form: Form) -> Self {
        let (seed, whitening) = ([0x31; 32], [0x32; 32]);
        let profile = engine.profile(form).unwrap();
        let spec = RoundSpec { seed, whitening, round: 77, form, profile };
        let content = |bucket: u8| {
            let mut bytes = vec![0; form.elements * form.element_bytes];
            rng(100 + bucket).fill_bytes(&mut bytes);
            bytes
        };
        let different: Vec<_> = (0..form.buckets as u8).map(content).collect();
        let contents = Contents { different: &different, copies: 1 };
        let prepared = engine.prepare(&spec, contents).unwrap();
        let seed = core::array::from_fn(|i| (i * i) as u8 ^ 0x5B);
        let mut client = engine.client(&seed);
        let keys = engine.public_keys(&client.public_keys()).unwrap();
        let request = client.ask(spec.clone(), &TARGETS.map(Some), &mut rng(1)).unwrap();
        let query = Query { keys: &keys, request: &request.bytes };
        let units = 0..prepared.sizes().units.count();
        let answer = units.flat_map(|unit| prepared.answer(unit, &[query]).remove(0).unwrap()).collect();
        let hint = prepared.hint().to_vec();
        Self { spec, different, seed, hint, request: request.bytes, answer, engine }
    }

    /// All that a client does in the round, asking twice, and a third time for nothing.
    fn play(&self) {
        let mut client = self.engine.client(&self.seed);
        drop(client.public_keys());
        let targets = TARGETS.map(Some);
        let request = client.ask(self.spec.clone(), &targets, &mut rng(1)).unwrap();
        assert!(request.bytes == self.request, "what was drawn is not what is looked for");
        assert!(client.ask(self.spec.clone(), &targets, &mut rng(1)).is_err());
        drop(client.cover(self.spec.clone(), &mut rng(1)).unwrap());
        let again = request.pending.again(&self.spec).unwrap();
        assert!(again.read(&[], &self.answer[1..]).iter().all(Result::is_err));
        let read = request.pending.read(&self.hint, &self.answer);
        let bytes = self.spec.form.element_bytes;
        for ((target, content), element) in TARGETS.iter().zip(&self.different).zip(read) {
            assert_eq!(element.unwrap(), content[target * bytes..][..bytes]);
        }
    }

    fn leaves_nothing(&self, secrets: &[Secret]) {
        let left = left_behind(secrets, || self.play());
        assert!(left.is_empty(), "{}: {left:?}", self.engine.name());
    }
}

fn ntt() -> Ntt {
    Ntt::in_orbit_order(*Parameters::s2048().large().modulus(), DEGREE).unwrap()
}

/// A seed of the round, and the public half that is drawn from it.
fn public(purpose: &str, seed: &[u8; 32], number: u64) -> Polynomial<Evaluation> {
    let hash = Sha256::new().chain_update(b"sotto voce v1\0").chain_update(purpose).chain_update([0]);
    sampling::uniform(&ntt(), &hash.chain_update(seed).finalize().into(), number)
}

/// `a s`, coefficients.
fn product(mut a: Polynomial<Evaluation>, s: &[u64]) -> Vec<u64> {
    let ntt = ntt();
    let slots = a.residues_mut().iter_mut().zip(s);
    slots.for_each(|(a, s)| *a = ntt.modulus().mul(*a, *s));
    a.into_coefficient(&ntt).residues().to_vec()
}

/// What a query is before anything is asked with it, `e - a s`, and the product alone.
fn masked(a: Polynomial<Evaluation>, s: &[u64], errors: &[i64]) -> [Vec<u64>; 2] {
    let modulus = *ntt().modulus();
    let product = product(a, s);
    let pairs = errors.iter().zip(&product);
    let sum = pairs.map(|(error, product)| modulus.sub(modulus.from_signed(*error), *product)).collect();
    [sum, product]
}

/// What so many bits of a residue stand for.
fn raise(value: u64, bits: u32) -> u64 {
    let modulus = *ntt().modulus();
    let scaled = u128::from(value) * u128::from(modulus.value()) + (1 << (bits - 1));
    modulus.reduce_once((scaled >> bits) as u64)
}

/// `a s` where a was rounded to so many bits.
fn read_product(reader: &mut BitReader<'_>, bits: u32, s: &[u64]) -> Vec<u64> {
    let a = (0..DEGREE).map(|_| raise(reader.read(bits), bits));
    product(Polynomial::<Coefficient>::from_residues(a).into_evaluation(&ntt()), s)
}

/// What is read before its whitening is taken off: rounded as it stands there, and as fields of an element.
fn fields(phase: &[u64]) -> [Vec<u64>; 2] {
    let mut rounded = phase.to_vec();
    Rescale::new(ntt().modulus(), 1 << PLAINTEXT_BITS).apply_all(&mut rounded);
    let half = 1 << (PLAINTEXT_BITS - 1);
    let fields = rounded.iter().map(|value| (value + half) & ((1 << PLAINTEXT_BITS) - 1)).collect();
    [rounded, fields]
}

fn targets() -> Vec<u64> {
    TARGETS.iter().map(|target| *target as u64).collect()
}

/// A secret of its own for every request.
pub(super) fn with_a_hint() {
    let scene = Scene::new(Arc::new(VoceHint::preferring(Preference::Bytes)), LONG);
    let (ntt, spec) = (ntt(), &scene.spec);
    let mut drawn = [0; 32];
    rng(1).fill_bytes(&mut drawn);
    let mut own = Sha256::new().chain_update(b"sotto voce secret v1\0").chain_update(scene.seed);
    own.update(spec.seed);
    own.update(spec.round.to_le_bytes());
    own.update((LONG.elements as u64).to_le_bytes());
    own.update(spec.profile.0);
    own.update(drawn);
    TARGETS.iter().for_each(|target| own.update((*target as u64).to_le_bytes()));
    let own: [u8; 32] = own.finalize().into();

    let [s, s_residues, s_slots] = forms(&ntt, &sampling::ternary(DEGREE, &own, 0));
    let errors = [1, 2, 3].map(|stream| sampling::errors(DEGREE, &own, stream));
    let [step, step_residues, step_slots] = forms(&ntt, &errors[0]);
    let [conjugation, conjugation_residues, conjugation_slots] = forms(&ntt, &errors[1]);
    let [sum, product] = masked(public("queries", &spec.seed, 0), &s_slots, &errors[2]);

    let mut phase = read_product(&mut BitReader::new(&scene.hint), HINT_BITS, &s_slots);
    let unread = phase.clone();
    let mut answer = BitReader::new(&scene.answer);
    phase.iter_mut().for_each(|value| {
        *value = ntt.modulus().add(*value, raise(answer.read(ANSWER_BITS), ANSWER_BITS));
    });
    let [rounded, fields] = fields(&phase);
    scene.leaves_nothing(&[
        ("seed of the session", words(&scene.seed)),
        ("what is drawn", words(&drawn)),
        ("seed of the request", words(&own)),
        ("s, signed", s),
        ("s, residues", s_residues),
        ("s, slots", s_slots),
        ("errors of the key of a step, signed", step),
        ("errors of the key of a step, residues", step_residues),
        ("errors of the key of a step, slots", step_slots),
        ("errors of the key of the conjugation, signed", conjugation),
        ("errors of the key of the conjugation, residues", conjugation_residues),
        ("errors of the key of the conjugation, slots", conjugation_slots),
        ("errors of a query, signed", signed(&errors[2])),
        ("e - a s", sum),
        ("a s", product),
        ("targets", targets()),
        ("hint times s", unread),
        ("phase", phase),
        ("phase, rounded", rounded),
        ("fields", fields),
    ]);
}

/// A secret for all requests of a session.
pub(super) fn without_one() {
    let scene = Scene::new(voce(), SHORT);
    let (ntt, spec) = (ntt(), &scene.spec);
    let mut own = [0; 32];
    rng(1).fill_bytes(&mut own);
    let lasting: [u8; 32] = Sha256::new()
        .chain_update(b"sotto voce lasting secret v1\0")
        .chain_update(scene.seed)
        .finalize()
        .into();
    let [s, s_residues, s_slots] = forms(&ntt, &sampling::ternary(DEGREE, &lasting, 0));
    let squares: Vec<u64> = s_slots.iter().map(|s| ntt.modulus().mul(*s, *s)).collect();
    // Of a half, what comes next along the orbit, in places and in slots.
    let half = DEGREE / 2;
    let slot = |place: usize| place & half | bit_reverse(place % half, half.ilog2());
    let step = |at: usize| s_slots[slot(slot(at) & half | ((slot(at) + 1) % half))];
    let stepped = (0..DEGREE).map(step).collect();
    let keys = scene.engine.public_keys_bytes() / packed_bytes(DEGREE, MODULUS_BITS);
    // The last key is that of the last substitution, `X -> X^(N/2^7 + 1)`.
    let (last, mut substituted) = (DEGREE / (1 << 7) + 1, vec![0; DEGREE]);
    for (at, value) in s.iter().enumerate() {
        let to = at * last % (2 * DEGREE);
        let value = *value as i64;
        substituted[to % DEGREE] = if to < DEGREE { value } else { -value };
    }
    let [_, _, substituted] = forms(&ntt, &substituted);
    let [key, key_residues, key_slots] = forms(&ntt, &sampling::errors(DEGREE, &lasting, 1));
    let [last, last_residues, last_slots] = forms(&ntt, &sampling::errors(DEGREE, &lasting, keys as u64));
    let query = sampling::errors(DEGREE, &own, 0);
    let columns = sampling::errors(DEGREE, &own, 1 << 32);
    let [sum, product] = masked(public("queries", &spec.seed, 0), &s_slots, &query);
    let [columns_sum, columns_product] = masked(public("columns", &spec.seed, 0), &s_slots, &columns);

    let reply = &scene.answer;
    let read = read_product(&mut BitReader::new(reply), PUBLIC_BITS, &s_slots);
    let mut private = BitReader::new(&reply[DEGREE * PUBLIC_BITS as usize / 8..]);
    // The first bucket's fields are eight apart.
    let phase = read.iter().step_by(8);
    let phase = phase.map(|value| ntt.modulus().add(*value, raise(private.read(PRIVATE_BITS), PRIVATE_BITS)));
    let phase: Vec<u64> = phase.collect();
    let [rounded, fields] = fields(&phase);
    scene.leaves_nothing(&[
        ("seed of the session", words(&scene.seed)),
        ("seed of the secret", words(&lasting)),
        ("seed of the request", words(&own)),
        ("s, signed", s),
        ("s, residues", s_residues),
        ("s, slots", s_slots),
        ("s^2, slots", squares),
        ("s(X^5), slots", stepped),
        ("s(X^17), slots", substituted),
        ("errors of a key, signed", key),
        ("errors of a key, residues", key_residues),
        ("errors of a key, slots", key_slots),
        ("errors of the last key, signed", last),
        ("errors of the last key, residues", last_residues),
        ("errors of the last key, slots", last_slots),
        ("errors of a query, signed", signed(&query)),
        ("errors of a query for columns, signed", signed(&columns)),
        ("e - a s", sum),
        ("a s", product),
        ("e - a s of columns", columns_sum),
        ("a s of columns", columns_product),
        ("targets", targets()),
        ("reply times s", read),
        ("phase", phase),
        ("phase, rounded", rounded),
        ("fields", fields),
    ]);
}
