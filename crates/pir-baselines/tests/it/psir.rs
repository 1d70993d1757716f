//! PSIR over each inner engine: a database that stays, with a state, and rounds that are new databases.

use mpir::{Contents, Engine, Form, Profile, Query, RoundSpec};
use pir_baselines::paillier::{INSECURE_PROFILE, Paillier2048, Paillier3072};
use pir_baselines::psir::{Client, Init, Inner, Server, Shape};
use pir_baselines::{Psir, Xpir};
use pir_core::{Error, PagePool, Scheme, SealPir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use crate::seam::World;

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut records = vec![0; bytes];
    ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut records);
    records
}

/// One Init, then queries until the blocks are used up, through a change of the database.
fn serve<I: Inner>(elements: usize, size: usize, blocks: usize, most: usize) {
    let shape = Shape::new(elements, size).unwrap();
    let mut records = random(elements * size, 1);
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let mut init = Init::new(&shape, blocks, &mut rng);
    records.chunks(7 * size).for_each(|piece| init.stream(piece).unwrap());
    let mut state = init.finish().unwrap();
    assert_eq!(state.bytes(), blocks * (32 + size));
    let client = Client::<I>::new(&shape, &[7; 32]).unwrap();
    let keys = I::decode_public_keys(&client.public_keys()).unwrap();
    let pool = PagePool::default();
    let mut queries = 0;
    while queries < most {
        // The ends, and now and then the same record again.
        let index = [0, elements - 1, elements / 2, rng.next_u32() as usize % elements][queries % 4];
        if queries == 3 {
            let difference = random(size, 3);
            state.update(index, &difference).unwrap();
            let record = &mut records[index * size..][..size];
            record.iter_mut().zip(&difference).for_each(|(record, byte)| *record ^= byte);
        }
        let Some((request, asked)) = client.query(&mut state, index, &mut rng).unwrap() else { break };
        let server = Server::<I>::new(&shape, &pool, &records).unwrap();
        let answer = server.answer(&keys, &request).unwrap();
        assert!(client.read(asked, &answer).unwrap() == records[index * size..][..size], "{index}");
        assert!(server.answer(&keys, &request[1..]).is_err());
        queries += 1;
    }
    assert_eq!(client.query(&mut state, elements, &mut rng).err(), Some(Error::Index));
    assert!(queries == most || state.blocks() == 0);
    assert!(queries > 0);
}

#[test]
fn blocks_of_a_database_that_stays_serve_queries_until_none_is_left() {
    serve::<Xpir<2>>(500, 40, 12, usize::MAX);
    serve::<Xpir<2>>(1, 3, 20, usize::MAX);
    serve::<SealPir>(2000, 288, 5, usize::MAX);
    serve::<SealPir>(60, 5000, 6, usize::MAX);
    // Five parts.
    serve::<Paillier2048>(49, 288, 5, 1);
    serve::<Paillier3072>(10, 400, 5, 1);
}

fn rounds(engine: &dyn Engine, profile: Option<Profile>, retrievals: &[(usize, usize, &[usize])]) {
    for (elements, element_bytes, targets) in retrievals {
        let form = Form { buckets: targets.len(), elements: *elements, element_bytes: *element_bytes };
        World::new(engine, form, 1, profile).retrieve(targets);
    }
}

#[test]
fn rounds_that_are_new_databases_give_every_bucket_its_record() {
    let shapes: [(usize, usize, &[usize]); 4] =
        [(1, 288, &[0]), (60, 288, &[59, 0, 7]), (2, 5000, &[1]), (3000, 1, &[2999])];
    rounds(&Psir::<Xpir<2>>::new(), None, &shapes);
    rounds(&Psir::<SealPir>::new(), None, &shapes);
    rounds(&Psir::<Paillier3072>::new(), None, &[(8, 288, &[7])]);
    rounds(&Psir::<Paillier2048>::new(), Some(Profile(INSECURE_PROFILE)), &[(12, 288, &[11, 0])]);
    let engine = Psir::<SealPir>::new();
    // Two buckets of one content.
    let form = Form { buckets: 4, elements: 60, element_bytes: 20 };
    World::new(&engine, form, 2, None).retrieve(&[0, 59, 7, 8]);
}

/// Every bucket would be read where another one stands.
#[test]
fn buckets_of_different_sizes_are_refused_though_all_are_as_long_as_they_should_be() {
    let engine = Psir::<Xpir<2>>::new();
    let form = Form { buckets: 2, elements: 50, element_bytes: 4 };
    let spec = World::new(&engine, form, 1, None).spec;
    let different = [vec![1; 196], vec![2; 204]];
    assert!(engine.prepare(&spec, Contents { different: &different, copies: 1 }).is_err());
}

#[test]
fn a_state_of_other_records_reads_nothing() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let shapes = [(100, 8), (100, 4), (60, 8)].map(|(elements, size)| Shape::new(elements, size).unwrap());
    let client = Client::<Xpir<2>>::new(&shapes[0], &[7; 32]).unwrap();
    for shape in &shapes[1..] {
        let mut init = Init::new(shape, 5, &mut rng);
        init.stream(&vec![1; shape.elements() * shape.element_bytes()]).unwrap();
        let mut state = init.finish().unwrap();
        assert!(matches!(client.query(&mut state, 7, &mut rng), Err(Error::Shape(_))), "{shape:?}");
        assert_eq!(state.blocks(), 5);
    }
    // What one client asked, read by another whose records are shorter.
    let pool = PagePool::default();
    let asked = shapes[..2].iter().map(|shape| {
        let records = vec![1; shape.elements() * shape.element_bytes()];
        let mut init = Init::new(shape, 5, &mut rng);
        init.stream(&records).unwrap();
        let client = Client::<Xpir<2>>::new(shape, &[7; 32]).unwrap();
        let (request, asked) = client.query(&mut init.finish().unwrap(), 7, &mut rng).unwrap().unwrap();
        let keys = <Xpir<2>>::decode_public_keys(&client.public_keys()).unwrap();
        let answer = Server::<Xpir<2>>::new(shape, &pool, &records).unwrap().answer(&keys, &request).unwrap();
        (client, asked, answer)
    });
    let [(_, asked, _), (shorter, _, answer)] = asked.collect::<Vec<_>>().try_into().ok().unwrap();
    assert_eq!(shorter.read(asked, &answer), Err(Error::Malformed("answer")));
}

#[test]
fn other_sizes_are_refused_and_garbage_is_no_panic() {
    for engine in [&Psir::<Xpir<2>>::new() as &dyn Engine, &Psir::<SealPir>::new()] {
        let form = Form { buckets: 2, elements: 60, element_bytes: 20 };
        let mut world = World::new(engine, form, 1, None);
        let request = world.request();
        let keys = engine.public_keys(&world.client.public_keys()).unwrap();
        let answer = |request: &[u8]| world.prepared.answer(1, &[Query { keys: &keys, request }]).remove(0);
        let whole = answer(&request).unwrap();
        for wrong in [&[][..], &request[1..], &[&request[..], &[0]].concat()] {
            assert!(answer(wrong).is_err());
        }
        // A partition with a coefficient that is none.
        let second = request.len() / 2;
        let mut other = request.clone();
        other[second..second + 8].fill(0xFF);
        assert!(answer(&other).is_err());
        // Another partition: an answer for other sums.
        other[second..second + 8].fill(0);
        assert_eq!(answer(&other).unwrap().len(), whole.len());
        let query = Query { keys: &keys, request: &request };
        for unit in [2, usize::MAX] {
            assert!(world.prepared.answer(unit, &[query]).remove(0).is_err());
        }
        let answers = [world.prepared.answer(0, &[query]).remove(0).unwrap(), whole].concat();
        let hint = world.prepared.hint();
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let mut read = |hint: &[u8], answer: &[u8]| {
            world.client.cover(world.spec.clone(), &mut rng).unwrap().pending.read(hint, answer)
        };
        for wrong in [&answers[1..], &[], &[&answers[..], &[0]].concat()] {
            assert!(read(hint, wrong).iter().all(Result::is_err));
        }
        for wrong in [&hint[1..], &[], &[hint, &[0]].concat()] {
            assert!(read(wrong, &answers).iter().all(Result::is_err));
        }
        assert!(read(&vec![7; hint.len()], &answers).iter().flatten().all(|record| record.len() == 20));
        assert!(read(hint, &vec![7; answers.len()]).iter().all(Result::is_err));
        for few in [vec![], vec![Some(1)], vec![None; 3], vec![Some(60), None]] {
            let spec = RoundSpec { round: 100 + few.len() as u64, ..world.spec.clone() };
            assert!(world.client.ask(spec, &few, &mut rng).is_err());
        }
        assert!(world.client.ask(world.spec.clone(), &[None, None], &mut rng).is_ok());
        let again = world.client.ask(world.spec.clone(), &[None, None], &mut rng).err();
        assert_eq!(again, Some(mpir::Error::Asked));
    }
    for (elements, size) in [(0, 1), (1, 0), ((1 << 24) + 1, 1), (usize::MAX, 2)] {
        assert!(matches!(Shape::new(elements, size), Err(Error::Shape(_))), "{elements} of {size}");
    }
}

/// A change here is a change of format, or of what clients derive from their seeds.
#[test]
fn requests_and_answers_are_those_of_before() {
    let form = Form { buckets: 2, elements: 60, element_bytes: 20 };
    let digests = |engine: &dyn Engine, profile| World::new(engine, form, 1, profile).digests(&[7, 59]);
    let all = [
        digests(&Psir::<Xpir<2>>::new(), None),
        digests(&Psir::<SealPir>::new(), None),
        digests(&Psir::<Paillier2048>::new(), Some(Profile(INSECURE_PROFILE))),
        digests(&Psir::<Paillier3072>::new(), None),
    ];
    let hint = "f3fe532e688bf55a";
    assert_eq!(
        all,
        [
            ["772163febff394bd", "9c3d7319c8f0bd22", hint],
            ["859ef9ed3c867b0b", "ce87e9c2b442172a", hint],
            ["ba66122ce858e7b5", "395a40461c3a60d5", hint],
            ["99a348f93f848e23", "d8bd8fb239dd3b16", hint]
        ]
    );
}

#[test]
fn a_modulus_of_2048_bits_needs_the_loud_door() {
    let refused = Some(Error::Security { bits: 112 });
    assert_eq!(Paillier2048::parameters(10, 288).err(), refused);
    assert_eq!(Paillier2048::with_profile(10, 288, &[0; 16]).err(), refused);
    let engine = Psir::<Paillier2048>::new();
    let form = Form { buckets: 1, elements: 60, element_bytes: 20 };
    assert!(engine.profile(form).is_err());
    let other = Paillier3072::with_profile(10, 288, &INSECURE_PROFILE);
    assert!(matches!(other, Err(Error::Shape(_))), "a door that leads nowhere else");
    let parameters = Paillier3072::parameters(10, 288).unwrap();
    assert_eq!(
        (Paillier3072::security_bits(&parameters), Paillier3072::profile(&parameters)),
        (128, [0; 16])
    );
    let secure = Psir::<Paillier3072>::new();
    let all = [Psir::<Xpir<2>>::new().name(), Psir::<SealPir>::new().name(), secure.name(), engine.name()];
    assert_eq!(all, ["xpsir", "sealpsir", "paillierpsir", "paillierpsir-paper"]);
}

/// The sizes that the documents name.
#[test]
fn partitions_are_as_short_as_the_documents_say() {
    for (n, parts, bytes) in [(1 << 16, 131, 16_032), (1 << 18, 257, 36_756), (1 << 20, 521, 80_520)] {
        let shape = Shape::new(n, 288).unwrap();
        assert_eq!((shape.parts(), shape.partition_bytes()), (parts, bytes));
    }
}
