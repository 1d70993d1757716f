//! DoublePIR through the seam: SETUP, QUERY, ANSWER, EXTRACT together, its sizes and its formats.

use mpir::{Engine, Form, Profile, RoundSpec};
use pir_baselines::doublepir::{INSECURE_PROFILE, Parameters};
use pir_baselines::{DoublePir, Hinted, PAPER, SECURE, SimplePir, WithHint};
use pir_core::Error;

use crate::seam::World;

type Ours = WithHint<DoublePir<SECURE>>;
type Papers = WithHint<DoublePir<PAPER>>;

fn form(buckets: usize, elements: usize, element_bytes: usize) -> Form {
    Form { buckets, elements, element_bytes }
}

#[test]
fn awkward_shapes_lose_no_element_at_the_edges() {
    let engine = Ours::new();
    for (elements, bytes) in [(1, 40), (2, 1), (19, 33), (257, 7), (5000, 1)] {
        let mut world = World::new(&engine, form(1, elements, bytes), 1, None);
        world.retrieve(&[elements - 1]);
    }
}

#[test]
fn digits_in_blocks_and_beside_each_other_come_back_whole() {
    let engine = Ours::new();
    for (row_elements, blocks) in [(1, 1), (10, 4), (100, 2)] {
        let parameters = Parameters::<SECURE>::new(100, 12, row_elements, blocks).unwrap();
        let profile = Profile(DoublePir::profile(&parameters));
        World::new(&engine, form(1, 100, 12), 1, Some(profile)).retrieve(&[98]);
    }
    // The last block has fewer digits than the others.
    let parameters = Parameters::<SECURE>::new(50, 11, 8, 3).unwrap();
    World::new(&engine, form(1, 50, 11), 1, Some(Profile(DoublePir::profile(&parameters)))).retrieve(&[49]);
}

#[test]
fn every_bucket_is_a_database_of_its_own() {
    let engine = Ours::new();
    World::new(&engine, form(2, 60, 9), 1, None).retrieve(&[0, 59]);
    // Buckets of the same content.
    World::new(&engine, form(2, 40, 3), 2, None).retrieve(&[39, 1]);
}

#[test]
fn the_papers_parameters_need_the_loud_door() {
    let (engine, form) = (Papers::new(), form(1, 1000, 3));
    let refused = Error::Security { bits: 120 };
    assert_eq!(engine.profile(form), Err(mpir::Error::Engine(refused)));
    let spec =
        |profile| RoundSpec { seed: [0; 32], whitening: [0; 32], round: 0, form, profile: Profile(profile) };
    for other in [[0; 16], *b"INSECURE, cube\0\0"] {
        assert!(engine.assurance(&spec(other)).is_err());
    }
    assert_eq!(engine.assurance(&spec(INSECURE_PROFILE)).unwrap().security_bits, 120);
    World::new(&engine, form, 1, Some(Profile(INSECURE_PROFILE))).retrieve(&[999]);
    assert!(Ours::new().assurance(&spec(INSECURE_PROFILE)).is_err());
    assert_eq!([Ours::new().name(), engine.name()], ["doublepir", "doublepir-paper"]);
}

/// The paper's Table 8: of 2^30 bytes, 16 MB of hint and 345 KB a query, whose answers have 33 KB of it or so.
#[test]
fn a_square_is_the_papers() {
    let parameters = Parameters::<PAPER>::square(1 << 30, 1).unwrap();
    assert_eq!((parameters.rows(), parameters.columns(), parameters.blocks()), (1 << 15, 1 << 15, 1));
    assert_eq!(parameters.hint_bytes(), 16 << 20);
    assert_eq!(parameters.query_bytes(), 256 << 10);
    assert_eq!(parameters.answer_bytes(), 4 * 4 * (1024 + 1025));
    // A hint of 4.8 GB.
    assert!(Parameters::<PAPER>::square(1 << 18, 288).is_err());
}

#[test]
fn every_size_has_a_shape_within_the_failure_bound() {
    for elements in (0..=24).step_by(2).flat_map(|log2| [1usize << log2, (3 << log2) / 2 + 1]) {
        for bytes in [1, 33, 288] {
            let chosen = Parameters::<SECURE>::choose(1, elements, bytes).unwrap();
            assert!(DoublePir::failure_log2(&chosen) <= -40.0, "{chosen:?}");
            assert!(chosen.rows() * chosen.row_elements() >= elements);
            assert!(chosen.blocks() * chosen.element_columns() >= chosen.digits());
            // What a client downloads at most.
            assert!(DoublePir::hint_bytes(&chosen) <= 64 << 20, "{chosen:?}");
            let announced = DoublePir::profile(&chosen);
            assert_eq!(DoublePir::<SECURE>::with_profile(elements, bytes, &announced), Ok(chosen));
        }
    }
}

/// Where the second level pays: hints of the first grow, this one does not.
#[test]
fn the_hint_does_not_grow_with_the_database() {
    let double = |elements| Parameters::<SECURE>::choose(1, elements, 1).unwrap().hint_bytes();
    assert_eq!([double(1 << 16), double(1 << 30)], [4 * 4 * 1120 * 1120; 2]);
    let simple = |elements| SimplePir::hint_bytes(&SimplePir::<SECURE>::choose(1, elements, 1).unwrap());
    assert!(simple(1 << 16) < double(1 << 16) && simple(1 << 30) > double(1 << 30));
}

#[test]
fn a_profile_of_no_arrangement_is_refused() {
    let announced = DoublePir::profile(&Parameters::<SECURE>::choose(1, 1000, 288).unwrap());
    let read = |profile| DoublePir::<SECURE>::with_profile(1000, 288, &profile);
    assert!(read(announced).is_ok());
    for place in [0, 1, 2, 3, 7, 11, 12, 15] {
        let mut changed = announced;
        changed[place] ^= 0x40;
        assert!(read(changed).is_err(), "{place}");
    }
    assert!(read([0; 16]).is_err());
    for (elements, bytes) in [(0, 288), (10, 0), (usize::MAX, 288), (1 << 40, 1 << 40)] {
        assert!(Parameters::<SECURE>::choose(1, elements, bytes).is_err());
    }
    for (row_elements, blocks) in [(0, 1), (11, 1), (1, 0), (1, 6), (1, 4)] {
        assert!(Parameters::<SECURE>::new(10, 5, row_elements, blocks).is_err(), "{row_elements}, {blocks}");
    }
}

/// A change here is a change of format, or of what clients derive from their seeds, and needs a new version.
#[test]
fn formats_stay_what_they_are() {
    let engine = Ours::new();
    let parameters = Parameters::<SECURE>::new(100, 6, 8, 2).unwrap();
    let profile = Profile(DoublePir::profile(&parameters));
    let digests = World::new(&engine, form(2, 100, 6), 1, Some(profile)).digests(&[57, 99]);
    assert_eq!(digests, ["32ee967065948a3f", "d1f1fa5ea786080f", "55378f9d5e26671c"]);
    let engine = Papers::new();
    let digests = World::new(&engine, form(1, 500, 1), 1, Some(Profile(INSECURE_PROFILE))).digests(&[321]);
    assert_eq!(digests, ["717871d8613853f8", "286185e6d5724758", "1611246c2431e459"]);
}

#[test]
fn other_sizes_are_refused_without_a_panic() {
    World::new(&Ours::new(), form(2, 50, 2), 1, None).refuses_other_sizes();
}
