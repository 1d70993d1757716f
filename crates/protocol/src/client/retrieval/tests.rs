//! What a client makes of mappings and answers that do not fit together.

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use zeroize::Zeroizing;

use super::{Assigned, Lookups, Plan};
use crate::client::addresses::Whereabouts;
use crate::client::world::{Fate, Published, World, answers};
use crate::client::{Notice, Want, Warning};
use crate::mapping::{BloomMapping, Lookup, Outcome, Sought};
use crate::seal::OpeningKey;
use crate::secret::Secret;
use crate::{CodeKind, ConversationId, Label, Round, SignedManifest, deposit};

/// A label that the mapping of a round shows, one that it does not, and one that stands there twice.
fn looked_up(labels: [Label; 3]) -> Lookup {
    let mut world = World::new(1, &["alice", "bob", "carol", "dave"], 1, 4);
    let mut deposits = world.deposits(&[Fate::default(); 4]);
    deposits[0].label = labels[0];
    deposits[1..3].iter_mut().for_each(|deposit| deposit.label = labels[2]);
    let seed = [9; 32];
    deposit::arrange(&mut deposits, &seed);
    let (manifest, mapping, _) = world.sealed(&deposits, seed);
    assert_eq!(manifest.mapping_bytes(), mapping.len() as u64);
    let bytes = mapping.len();
    let mapping = BloomMapping::decode(&mapping, &manifest).unwrap();
    assert!(mapping.filter_memory() > bytes / 2);
    Lookup::new(&*manifest.code().unwrap(), &mapping, &labels, &mut ChaCha20Rng::seed_from_u64(1))
}

/// A box that is read though the mapping hides it tells on the server; one that must be there, and does not open, on whoever wrote it.
/// With slots there is no mapping that could do either.
#[test]
fn a_mapping_is_believed_where_there_is_one() {
    let labels = [1, 2, 3].map(|byte| Label([byte; 16]));
    let mut lookup = looked_up(labels);
    let outcomes: Vec<Outcome> = lookup.readings().iter().map(super::Reading::outcome).collect();
    assert_eq!(outcomes, [Outcome::Found, Outcome::Absent, Outcome::Ambiguous]);
    let assigned = |number: usize, is_mapped| {
        let reading = lookup.readings()[number].clone();
        let assigned = Assigned { label: labels[number], reading, cell: None, is_mapped };
        [assigned.is_certain(), assigned.is_hidden()]
    };
    assert_eq!([0, 1, 2].map(|number| assigned(number, true)), [[true, false], [false, true], [false; 2]]);
    assert_eq!([0, 1, 2].map(|number| assigned(number, false)), [[false; 2]; 3]);
    let counts = Lookups::of(|outcome| lookup.count(outcome));
    assert_eq!(counts, Lookups { found: 1, absent: 1, ambiguous: 1, deferred: 0 });
    // Whoever watches what becomes of secrets is shown all of them: of each of the three its bucket and five numbers.
    let mut shown = Vec::new();
    lookup.each_secret(|numbers| shown.push(numbers.len()));
    assert_eq!(shown, [1; 3 * 6]);
}

/// A round of which the mapping shows none of the boxes.
fn hidden(world: &mut World) -> Published {
    let seed = [world.round as u8; 32];
    let mut deposits = world.deposits(&[Fate::default(); 2]);
    deposit::arrange(&mut deposits, &seed);
    let (mut manifest, _, buckets) = world.sealed(&deposits, seed);
    let code = manifest.code().unwrap();
    let keys: Vec<&[u8]> = deposits.iter().map(|deposit| deposit.label.0.as_slice()).collect();
    let others = [Label([0xaa; 16]), Label([0xbb; 16])];
    let mapping =
        BloomMapping::build(&seed, &*code, &code.encode(&keys), &others, manifest.bucket_size).unwrap();
    manifest.mapping_digest = BloomMapping::digest(&mapping);
    world.previous = manifest.digest();
    let manifest = SignedManifest::sign(&manifest, &world.key);
    Published { round: Round(world.round), manifest, mapping, buckets }
}

/// Whoever hides a box in some of its buckets sees by its being read in which of them it was. So few stand in each bucket here that
/// any position is that of the box.
#[test]
fn a_box_that_is_read_though_the_mapping_hides_it_is_told() {
    let mut world = World::new(1, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    world.run(40);
    world.say(0, "bob", "hidden");
    let mut heard = 0;
    for _ in 0..8 {
        let published = hidden(&mut world);
        let round = published.round;
        assert!(world.ready(1, &published.manifest).is_empty());
        let retrieval = world.lookup(1, &published);
        let answers = answers(&retrieval, &published.buckets);
        let notices = world.clients[1].received(retrieval, answers);
        let is_heard = notices.iter().any(|notice| matches!(notice, Notice::Text { .. }));
        let warned = notices.contains(&Notice::Warning(Warning::FalseMapping { round }));
        heard += u32::from(is_heard);
        assert!(warned || !is_heard, "{notices:?}");
        world.round += 1;
    }
    assert_eq!(heard, 1);
    world.run(1);
    assert!(!world.notices[1].iter().any(|notice| matches!(notice, Notice::Warning(_))), "an honest round");
}

/// What stands is read for whom it was planned, also if it was planned for two boxes of one contact that lie in one place.
#[test]
fn a_plan_serves_those_for_whom_it_was_made_and_nobody_else() {
    let mut world = World::with_code(1, 1, &["alice"], 1, 4, CodeKind::Standing);
    let manifest = world.sealed_table(&[], [0; 32]).0;
    let code = manifest.slot_code().unwrap();
    let places = Lookup::in_table(&code, &[], &mut ChaCha20Rng::seed_from_u64(1)).places().unwrap().clone();
    // Conversation, member, whether it is a knock; where, and whether that was known.
    let readers = vec![[1, 0, 0, 7, 1], [1, 0, 0, 7, 1], [1, 0, 1, 30, 1], [2, 3, 0, 9, 1], [2, 4, 0, 0, 0]];
    let plan = Plan { places, readers: Zeroizing::new(readers) };
    let want = |(conversation, member)| Want {
        conversation: ConversationId(conversation),
        epoch: 1,
        member,
        key: OpeningKey::new(Round(1), Label([0; 16]), Secret::new([0; 32])),
    };
    let wants = [(1, 0), (1, 0), (2, 3), (2, 4), (2, 5), (3, 0)].map(want);
    let found = |cell| Some(Whereabouts { place: 99, cell });
    let mut wanted: Vec<_> = wants.iter().map(|want| (want, found(None))).collect();
    wanted[1].1 = found(Some(8..16));
    wanted[5].1 = None;
    let sought: Vec<_> =
        plan.sought(&wanted).into_iter().map(|Sought { place, is_known }| (place, is_known)).collect();
    let none = (0, false);
    assert_eq!(sought, [(7, true), (30, true), (9, true), none, none, none]);
}

/// A round whose manifest was spoilt in the state is told where queries stand, too, and nothing is read of it.
#[test]
fn a_round_that_cannot_be_read_where_queries_stand_is_told() {
    let mut world = World::with_code(1, 1, &["alice"], 1, 4, CodeKind::Standing);
    let (manifest, ..) = world.sealed_table(&[], [0; 32]);
    let code = manifest.slot_code().unwrap();
    let places = Lookup::in_table(&code, &[], &mut ChaCha20Rng::seed_from_u64(1)).places().unwrap().clone();
    let plan = Plan { places, readers: Zeroizing::new(Vec::new()) };
    let (round, buckets) = (Round(world.round), world.parameters.buckets.into());
    for is_spoilt in [false, true] {
        let state = &mut world.clients[0].state;
        let mut bytes = manifest.encode().to_vec();
        bytes.truncate(bytes.len() - usize::from(is_spoilt));
        state.ready.insert(round, bytes);
        state.wants.insert(round, Vec::new());
        let retrieval = world.clients[0].look_again(round, &plan);
        let notices = world.clients[0].received(retrieval, vec![None; buckets]);
        assert_eq!(
            notices.contains(&Notice::Warning(Warning::BadMapping { round })),
            is_spoilt,
            "{notices:?}"
        );
    }
}
