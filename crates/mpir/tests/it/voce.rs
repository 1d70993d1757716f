//! Voce through the seam: whole rounds, of all codes' forms.

use mpir::{
    Contents, Engine, EngineClient, Error, Form, PreparedRound, PublicKeys, Query, Request, RoundSpec, voce,
    voce_apart, voce_hint,
};
use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

struct Scene {
    engine: Arc<dyn Engine>,
    spec: RoundSpec,
    different: Vec<Vec<u8>>,
    copies: usize,
    rng: ChaCha20Rng,
}

struct Person {
    half: Box<dyn EngineClient>,
    keys: PublicKeys,
    encoded: Vec<u8>,
}

impl Scene {
    fn new(engine: Arc<dyn Engine>, [buckets, copies, elements, element_bytes]: [usize; 4]) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64((buckets * elements) as u64);
        let form = Form { buckets, elements, element_bytes };
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let spec =
            RoundSpec { seed, whitening: seed, round: 5, form, profile: engine.profile(form).unwrap() };
        let content = |_| {
            let mut bytes = vec![0; elements * element_bytes];
            rng.fill_bytes(&mut bytes);
            bytes
        };
        let different = (0..buckets / copies).map(content).collect();
        Self { engine, spec, different, copies, rng }
    }

    fn prepared(&self) -> Box<dyn PreparedRound> {
        self.engine.prepare(&self.spec, Contents { different: &self.different, copies: self.copies }).unwrap()
    }

    fn person(&mut self) -> Person {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let half = self.engine.client(&seed);
        let encoded = half.public_keys();
        Person { keys: self.engine.public_keys(&encoded).unwrap(), half, encoded }
    }

    fn targets(&mut self) -> Vec<Option<usize>> {
        let Form { buckets, elements, .. } = self.spec.form;
        let mut target =
            || (!self.rng.next_u32().is_multiple_of(4)).then(|| self.rng.next_u32() as usize % elements);
        (0..buckets).map(|_| target()).collect()
    }

    fn element(&self, bucket: usize, target: usize) -> &[u8] {
        let bytes = self.spec.form.element_bytes;
        &self.different[bucket / self.copies][target * bytes..][..bytes]
    }

    fn unit(&self, prepared: &dyn PreparedRound, unit: usize) -> Vec<u8> {
        let content = |bucket: usize| self.different[bucket / self.copies].as_slice();
        prepared.sizes().units.range(unit).map(content).collect::<Vec<_>>().concat()
    }
}

/// One database; several in a unit, of which the last is shorter; several packs in a unit; copies; elements that fill no whole
/// number of fields.
const FORMS: [[usize; 4]; 6] =
    [[1, 1, 40, 288], [11, 1, 30, 288], [12, 3, 9, 288], [1, 1, 5_000, 288], [3, 1, 700, 304], [9, 1, 1, 7]];

fn everybody_reads_what_was_asked_for(engine: fn() -> Arc<dyn Engine>, forms: &[[usize; 4]]) {
    for form in forms {
        let engine = engine();
        let [buckets, _, elements, _] = *form;
        let mut scene = Scene::new(engine, *form);
        let (prepared, again) = (scene.prepared(), scene.prepared());
        let sizes = prepared.sizes();
        assert_eq!(sizes, scene.engine.sizes(&scene.spec).unwrap());
        assert!(prepared.hint() == again.hint() && prepared.hint().len() == sizes.hint.bytes());
        let mut people: Vec<(Person, Vec<Option<usize>>, Request)> = (0..5)
            .map(|_| {
                let (mut person, targets) = (scene.person(), scene.targets());
                let request = person.half.ask(scene.spec.clone(), &targets, &mut scene.rng).unwrap();
                assert_eq!(request.bytes.len(), sizes.request.bytes());
                (person, targets, request)
            })
            .collect();
        let mut answers = vec![Vec::new(); people.len()];
        for unit in 0..sizes.units.count() {
            let tile: Vec<_> = people
                .iter()
                .map(|(person, _, request)| Query { keys: &person.keys, request: &request.bytes })
                .collect();
            let content = scene.unit(&*prepared, unit);
            let whole = prepared.answer(unit, &tile);
            for ((answer, query), (person, ..)) in whole.into_iter().zip(&tile).zip(&people) {
                let answer = answer.unwrap();
                let alone = again.answer(unit, &[*query]).remove(0).unwrap();
                let keys = &person.encoded;
                let request = sizes.request.part("a request", query.request, unit).unwrap();
                let recomputed = scene.engine.recompute(&scene.spec, unit, &content, keys, request).unwrap();
                assert!(
                    answer == alone
                        && answer == recomputed.answer
                        && sizes.hint.part("hint", prepared.hint(), unit) == Ok(&recomputed.hint[..])
                        && answer.len() * sizes.units.count() == sizes.answer.bytes()
                );
            }
            for (answers, answer) in answers.iter_mut().zip(prepared.answer(unit, &tile)) {
                answers.extend(answer.unwrap());
            }
        }
        for ((_, targets, request), answer) in people.drain(..).zip(&answers) {
            let read = request.pending.read(prepared.hint(), answer);
            assert_eq!(read.len(), buckets);
            for (bucket, (element, target)) in read.into_iter().zip(targets).enumerate() {
                let element = element.unwrap();
                let Some(target) = target else { continue };
                assert_eq!(element, scene.element(bucket, target), "{buckets} {elements}: bucket {bucket}");
            }
        }
    }
}

#[test]
fn answers_are_read_and_are_computed_again_byte_for_byte() {
    everybody_reads_what_was_asked_for(voce, &FORMS);
}

#[test]
fn answers_with_a_hint_are_read_and_are_computed_again_byte_for_byte() {
    everybody_reads_what_was_asked_for(voce_hint, &FORMS);
}

/// Every bucket is prepared as one by itself, which takes as long as all of them take the others: of small ones, every other one, on
/// two processors.
fn everybody_reads_under_a_secret_for_every_bucket(first: usize) {
    let small = FORMS.into_iter().filter(|[_, _, elements, _]| *elements < 100);
    let some: Vec<_> = small.skip(first).step_by(2).collect();
    assert!(!some.is_empty());
    everybody_reads_what_was_asked_for(voce_apart, &some);
}

#[test]
fn answers_under_a_secret_for_every_bucket_are_read_and_are_computed_again_byte_for_byte() {
    everybody_reads_under_a_secret_for_every_bucket(0);
}

#[test]
fn answers_under_a_secret_for_every_bucket_of_other_forms_are_read_and_are_computed_again_byte_for_byte() {
    everybody_reads_under_a_secret_for_every_bucket(1);
}

#[test]
fn a_malformed_request_spoils_no_other_and_a_malformed_answer_no_other_unit() {
    let mut scene = Scene::new(voce_hint(), [20, 1, 30, 288]);
    let prepared = scene.prepared();
    let mut person = scene.person();
    let targets = scene.targets();
    let Request { bytes, pending } = person.half.ask(scene.spec.clone(), &targets, &mut scene.rng).unwrap();
    let units = prepared.sizes().units;
    assert!(units.count() > 2, "this is about several units");
    let short = &bytes[..bytes.len() - 1];
    // Residues that are none.
    let mut wild = bytes.clone();
    wild[..64].fill(0xff);
    let tile = [short, &bytes, &wild, &[]].map(|request| Query { keys: &person.keys, request });
    let mut answers = Vec::new();
    for unit in 0..units.count() {
        let [first, second, third, fourth] = prepared.answer(unit, &tile).try_into().unwrap();
        assert!([first, third, fourth].iter().all(|answer| matches!(answer, Err(Error::Engine(_)))));
        answers.extend(second.unwrap());
    }
    assert!(prepared.answer(units.count(), &tile).iter().all(|answer| *answer == Err(Error::Bucket)));
    let content = scene.unit(&*prepared, 0);
    let recompute = |unit, content: &[u8], keys: &[u8], request: &[u8]| {
        scene.engine.recompute(&scene.spec, unit, content, keys, request)
    };
    assert!(recompute(0, &content, &person.encoded, short).is_err());
    assert!(recompute(0, &content, &person.encoded[1..], &bytes).is_err());
    assert!(recompute(0, &content[1..], &person.encoded, &bytes).is_err());
    assert_eq!(recompute(units.count(), &content, &person.encoded, &bytes), Err(Error::Bucket));
    let read = pending.read(&prepared.hint()[1..], &answers);
    assert!(read.len() == 20 && read.iter().all(Result::is_err), "a hint of another size");
}

/// A server that answers one bucket by what it was asked of another, or mixes the two, finds nothing in common: there is
/// no key under which both are asked, and what comes of it says nothing to the client either.
#[test]
fn with_a_secret_for_every_bucket_no_answer_depends_on_what_another_was_asked() {
    let mut scene = Scene::new(voce_apart(), [3, 1, 30, 288]);
    let prepared = scene.prepared();
    let sizes = prepared.sizes();
    assert_eq!((sizes.units.count(), sizes.request.bytes() % 3), (3, 0));
    let keys_bytes = pir_core::voce::Shape::keys_bytes();
    let part_bytes = sizes.request.bytes() / 3;
    let mut person = scene.person();
    let targets = vec![Some(4); 3];
    let generator = || ChaCha20Rng::seed_from_u64(9);
    let Request { bytes, pending } = person.half.ask(scene.spec.clone(), &targets, &mut generator()).unwrap();
    assert!(matches!(person.half.ask(scene.spec.clone(), &targets, &mut generator()), Err(Error::Asked)));
    let mut spec = scene.spec.clone();
    spec.round += 1;
    let next = person.half.ask(spec.clone(), &targets, &mut generator()).unwrap();
    let cover = person.half.cover(scene.spec.clone(), &mut generator()).unwrap();
    let of_all = [&bytes, &next.bytes, &cover.bytes];
    let keys: Vec<&[u8]> =
        of_all.iter().flat_map(|bytes| bytes.chunks(part_bytes).map(|part| &part[..keys_bytes])).collect();
    for (at, one) in keys.iter().enumerate() {
        for two in &keys[..at] {
            let same = one.iter().zip(*two).filter(|(one, two)| one == two).count();
            assert!(same < 200, "{same} bytes are the same");
        }
    }
    let answer = |unit: usize, request: &[u8]| {
        prepared.answer(unit, &[Query { keys: &person.keys, request }]).remove(0).unwrap()
    };
    // The first two parts change places, and the others are as they were.
    let swapped =
        [&bytes[part_bytes..2 * part_bytes], &bytes[..part_bytes], &bytes[2 * part_bytes..]].concat();
    assert_eq!(answer(2, &swapped), answer(2, &bytes));
    let answers = [answer(0, &swapped), answer(1, &bytes), answer(2, &bytes)].concat();
    let read = pending.read(prepared.hint(), &answers);
    assert_eq!(read.len(), 3);
    for (bucket, element) in read.into_iter().enumerate() {
        assert_eq!(element.is_ok_and(|element| element == scene.element(bucket, 4)), bucket > 0);
    }
    assert!(next.pending.serves(&spec) && !next.pending.serves(&scene.spec));
    // Neither is a part of another request spoiled by one that is none, nor the other way round.
    let wild = [&vec![0xff; part_bytes][..], &bytes[part_bytes..]].concat();
    let tile = [&bytes[1..], &bytes, &wild].map(|request| Query { keys: &person.keys, request });
    let first = prepared.answer(0, &tile);
    assert!(first[0].is_err() && first[1].is_ok() && first[2].is_err());
    let last = prepared.answer(2, &tile);
    assert!(last[0].is_err() && last[1] == last[2] && last[1].is_ok());
    assert!(prepared.answer(3, &tile).iter().all(|answer| *answer == Err(Error::Bucket)));
}

/// Whatever a client asks for, and however often the same generator begins anew, its requests have nothing in common.
#[test]
fn no_two_requests_with_a_hint_are_made_under_one_secret() {
    let mut scene = Scene::new(voce_hint(), [4, 1, 30, 288]);
    let keys_bytes = pir_core::voce::Shape::keys_bytes();
    let mut person = scene.person();
    let targets = scene.targets();
    let generator = || ChaCha20Rng::seed_from_u64(9);
    let asked = person.half.ask(scene.spec.clone(), &targets, &mut generator()).unwrap();
    assert!(matches!(person.half.ask(scene.spec.clone(), &targets, &mut generator()), Err(Error::Asked)));
    let mut spec = scene.spec.clone();
    spec.round += 1;
    let next = person.half.ask(spec.clone(), &targets, &mut generator()).unwrap();
    let mut other = scene.person();
    let others = other.half.ask(scene.spec.clone(), &targets, &mut generator()).unwrap();
    let cover = person.half.cover(scene.spec.clone(), &mut scene.rng).unwrap();
    // As if the machine had been put back to where it was, and something else were asked for.
    let again = scene.engine.client(&[7; 32]);
    let [one, two] = [&targets, &scene.targets()].map(|targets| {
        let mut half = scene.engine.client(&[7; 32]);
        half.ask(scene.spec.clone(), targets, &mut generator()).unwrap()
    });
    let dummy = again.cover(scene.spec.clone(), &mut generator()).unwrap();
    let keys: Vec<&[u8]> = [&asked, &next, &others, &cover, &one, &two, &dummy]
        .map(|request| &request.bytes[..keys_bytes])
        .into();
    for (at, one) in keys.iter().enumerate() {
        for two in &keys[..at] {
            // Two uniform strings of 25,600 bytes agree in a hundred of them, give or take ten.
            let same = one.iter().zip(*two).filter(|(one, two)| one == two).count();
            assert!(same < 200, "{same} bytes are the same");
        }
    }
    assert!(asked.pending.serves(&scene.spec) && !asked.pending.serves(&spec));
}

/// A request of another size is refused; whatever stands in for the ciphertexts that select columns is some request; keys are checked
/// when they are uploaded.
#[test]
fn without_a_hint_malformed_requests_and_keys_are_refused_and_spoil_no_other() {
    let mut scene = Scene::new(voce(), [20, 1, 30, 288]);
    let prepared = scene.prepared();
    let (mut person, other) = (scene.person(), scene.person());
    let targets = scene.targets();
    let Request { bytes, pending } = person.half.ask(scene.spec.clone(), &targets, &mut scene.rng).unwrap();
    let (short, mut wild) = (&bytes[..bytes.len() - 1], bytes.clone());
    wild[bytes.len() / 2..].reverse();
    wild[bytes.len() - 100..].fill(0xff);
    let mut answers = Vec::new();
    for unit in 0..prepared.sizes().units.count() {
        let tile = [short, &bytes, &wild, &[]].map(|request| Query { keys: &person.keys, request });
        let [first, second, third, fourth] = prepared.answer(unit, &tile).try_into().unwrap();
        assert!(
            [first, fourth].iter().all(|answer| matches!(answer, Err(Error::Engine(_)))) && third.is_ok()
        );
        let answer = second.unwrap();
        // What was asked with other keys is not what they open.
        let strange = Query { keys: &other.keys, request: &bytes };
        assert_ne!(prepared.answer(unit, &[strange])[0].as_ref(), Ok(&answer));
        answers.extend(answer);
    }
    let mut keys = person.encoded.clone();
    keys[..64].fill(0xff);
    assert!(scene.engine.public_keys(&keys).is_err() && scene.engine.public_keys(&keys[1..]).is_err());
    let strange = Query { keys: &PublicKeys::new(()), request: &bytes };
    assert!(prepared.answer(0, &[strange])[0].is_err());
    for (element, (bucket, target)) in pending.read(&[], &answers).into_iter().zip(targets.iter().enumerate())
    {
        let Some(target) = target else { continue };
        assert_eq!(element.unwrap(), scene.element(bucket, *target));
    }
}

/// Packing takes as long as there are columns, for whoever computes an answer again, and their hint is everybody's to download.
/// Nothing is begun with an arrangement that nobody would choose.
#[test]
fn a_server_that_announces_far_more_columns_than_it_needs_is_refused_before_any_work() {
    for engine in [voce(), voce_hint(), voce_apart()] {
        let mut scene = Scene::new(engine, [2, 1, 600, 288]);
        let prepared = scene.prepared();
        let (mut person, targets) = (scene.person(), scene.targets());
        let request = person.half.ask(scene.spec.clone(), &targets, &mut scene.rng).unwrap();
        let content = scene.unit(&*prepared, 0);
        let honest = u16::from_le_bytes([scene.spec.profile.0[1], scene.spec.profile.0[2]]);
        for columns in (4 * honest + 1..=2048).chain([3 << 10, 1 << 12, 1 << 15, u16::MAX]) {
            let mut spec = scene.spec.clone();
            spec.round += u64::from(columns);
            spec.profile.0[1..3].copy_from_slice(&columns.to_le_bytes());
            let recomputed = scene.engine.recompute(&spec, 0, &content, &person.encoded, &request.bytes);
            let refused =
                |error: Option<Error>| matches!(error, Some(Error::Engine(pir_core::Error::Shape(_))));
            assert!(refused(recomputed.err()), "{} with {columns} columns", scene.engine.name());
            assert!(refused(scene.engine.sizes(&spec).err()));
            assert!(refused(scene.engine.assurance(&spec).err()));
            assert!(refused(person.half.ask(spec.clone(), &targets, &mut scene.rng).err()));
            assert!(refused(person.half.cover(spec, &mut scene.rng).err()));
        }
    }
}

/// A round, and a seed, is asked for once by a client; what stands in for a late request is made under another secret.
#[test]
fn without_a_hint_a_secret_asks_once_under_a_seed() {
    let mut scene = Scene::new(voce(), [4, 1, 30, 288]);
    let prepared = scene.prepared();
    let mut person = scene.person();
    let targets = scene.targets();
    let spec = scene.spec.clone();
    assert!(person.half.ask(spec.clone(), &targets, &mut scene.rng).is_ok());
    assert!(matches!(person.half.ask(spec.clone(), &targets, &mut scene.rng), Err(Error::Asked)));
    // Another round of which the server says that it has the same seed.
    let again = RoundSpec { round: spec.round + 1, ..spec.clone() };
    let repeated = person.half.ask(again, &targets, &mut scene.rng);
    assert!(matches!(repeated, Err(Error::Engine(pir_core::Error::Repeated))));
    // The client's keys open no cover: the answer is of another secret, and reads as nothing that is in the database.
    let cover = person.half.cover(spec, &mut scene.rng).unwrap();
    let answer =
        prepared.answer(0, &[Query { keys: &person.keys, request: &cover.bytes }]).remove(0).unwrap();
    for (bucket, element) in cover.pending.read(&[], &answer).into_iter().enumerate() {
        let element = element.unwrap();
        assert!((0..30).all(|target| element != scene.element(bucket, target)));
    }
}

/// Where queries stand, the same bytes are answered in rounds with other databases, whitened anew, and read in each.
#[test]
fn a_request_that_stands_is_answered_in_every_round_of_its_epoch_and_in_no_other() {
    for engine in [voce(), voce_hint(), voce_apart(), mpir::sealpir()] {
        let mut scene = Scene::new(engine, [4, 1, 30, 288]);
        let mut person = scene.person();
        let targets = scene.targets();
        let first = scene.spec.clone();
        let request = person.half.ask(first.clone(), &targets, &mut scene.rng).unwrap();
        for round in 0..3_u8 {
            scene.spec.round = first.round + u64::from(round);
            scene.spec.whitening = [round; 32];
            scene.different.iter_mut().for_each(|bucket| scene.rng.fill_bytes(bucket));
            let prepared = scene.prepared();
            let query = [Query { keys: &person.keys, request: &request.bytes }];
            let units = prepared.sizes().units.count();
            let answers: Vec<u8> =
                (0..units).flat_map(|unit| prepared.answer(unit, &query).remove(0).unwrap()).collect();
            let pending = request.pending.again(&scene.spec).unwrap();
            let read = pending.read(prepared.hint(), &answers);
            for (bucket, (element, target)) in read.into_iter().zip(&targets).enumerate() {
                let element = element.unwrap();
                assert!(target.is_none_or(|target| element == scene.element(bucket, target)), "{bucket}");
            }
            // Who checks an answer takes the round's own whitening.
            let content = scene.unit(&*prepared, 0);
            let sizes = prepared.sizes();
            let part = sizes.request.part("request", &request.bytes, 0).unwrap();
            let again = scene.engine.recompute(&scene.spec, 0, &content, &person.encoded, part).unwrap();
            assert_eq!(again.answer, answers[sizes.answer.range(0)]);
            assert_eq!(again.hint, prepared.hint()[sizes.hint.range(0)]);
        }
        let elsewhere = RoundSpec { seed: [9; 32], ..scene.spec.clone() };
        let asks = scene.engine.name() == mpir::sealpir().name();
        assert_eq!(request.pending.again(&elsewhere).is_some(), asks, "SealPIR asks under no seed");
        let larger = RoundSpec { form: Form { elements: 31_000, ..first.form }, ..scene.spec.clone() };
        assert!(request.pending.again(&larger).is_none());
    }
}
