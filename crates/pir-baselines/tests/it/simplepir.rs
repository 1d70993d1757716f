//! SimplePIR through the seam: SETUP, QUERY, ANSWER, EXTRACT together, its sizes and its formats.

use mpir::{Engine, Form, Profile, RoundSpec};
use pir_baselines::simplepir::{INSECURE_PROFILE, Parameters};
use pir_baselines::{Hinted, PAPER, SECURE, SimplePir, WithHint};
use pir_core::Error;

use crate::seam::World;

type Ours = WithHint<SimplePir<SECURE>>;
type Papers = WithHint<SimplePir<PAPER>>;

fn form(buckets: usize, elements: usize, element_bytes: usize) -> Form {
    Form { buckets, elements, element_bytes }
}

#[test]
fn awkward_shapes_lose_no_element_at_the_edges() {
    let engine = Ours::new();
    for (elements, bytes) in [(1, 288), (2, 1), (3, 5000), (17, 288), (257, 33), (1023, 7), (5000, 1)] {
        for target in [0, elements / 2, elements - 1] {
            World::new(&engine, form(1, elements, bytes), 1, None).retrieve(&[target]);
        }
    }
}

#[test]
fn elements_beside_and_below_each_other_come_back_whole() {
    let engine = Ours::new();
    for column_elements in [1, 2, 5, 99, 100] {
        let profile = SimplePir::profile(&Parameters::<SECURE>::new(100, 12, column_elements).unwrap());
        World::new(&engine, form(1, 100, 12), 1, Some(Profile(profile))).retrieve(&[99]);
    }
}

#[test]
fn every_bucket_is_a_database_of_its_own() {
    let engine = Ours::new();
    World::new(&engine, form(5, 60, 288), 1, None).retrieve(&[0, 59, 30, 30, 7]);
    // Buckets of the same content.
    World::new(&engine, form(6, 40, 20), 3, None).retrieve(&[0, 1, 39, 20, 20, 3]);
}

#[test]
fn the_papers_parameters_need_the_loud_door() {
    let (engine, form) = (Papers::new(), form(1, 3000, 16));
    let refused = Error::Security { bits: 120 };
    assert_eq!(engine.profile(form), Err(mpir::Error::Engine(refused)));
    let spec =
        |profile| RoundSpec { seed: [0; 32], whitening: [0; 32], round: 0, form, profile: Profile(profile) };
    for other in [[0; 16], *b"INSECURE, cube\0\0"] {
        assert!(engine.assurance(&spec(other)).is_err());
    }
    assert_eq!(engine.assurance(&spec(INSECURE_PROFILE)).unwrap().security_bits, 120);
    World::new(&engine, form, 1, Some(Profile(INSECURE_PROFILE))).retrieve(&[2999]);
    assert!(Ours::new().assurance(&spec(INSECURE_PROFILE)).is_err());
    assert_eq!([Ours::new().name(), engine.name()], ["simplepir", "simplepir-paper"]);
}

/// The paper's Table 8: of 2^30 bytes, 121 MB of hint and 242 KB a query, whose digits have 9.95 bits.
#[test]
fn a_square_is_the_papers_but_for_shorter_digits() {
    let parameters = Parameters::<PAPER>::square(1 << 30, 1).unwrap();
    assert_eq!((parameters.rows(), parameters.columns()), (1 << 15, 1 << 15));
    assert_eq!(parameters.hint_bytes(), 128 << 20);
    assert_eq!(parameters.query_bytes() + parameters.answer_bytes(), 256 << 10);
    let parameters = Parameters::<PAPER>::square(1 << 18, 288).unwrap();
    assert_eq!((parameters.rows(), parameters.columns()), (30 * 288, 8739));
}

#[test]
fn every_size_has_a_shape_within_the_failure_bound() {
    for elements in (0..=24).flat_map(|log2| [1usize << log2, (1 << log2) + 1, (3 << log2) / 2]) {
        for bytes in [1, 33, 288] {
            for databases in [1, 32] {
                let chosen = Parameters::<SECURE>::choose(databases, elements, bytes).unwrap();
                assert!(SimplePir::failure_log2(&chosen) <= -40.0, "{chosen:?}");
                assert!(chosen.columns() * chosen.column_elements() >= elements);
                assert_eq!((chosen.elements(), chosen.element_bytes()), (elements, bytes));
                let announced = SimplePir::profile(&chosen);
                assert_eq!(SimplePir::<SECURE>::with_profile(elements, bytes, &announced), Ok(chosen));
            }
        }
    }
    // As many columns as the noise of 8 bits allows, and the first number of them that it does not.
    let bits = |columns| Parameters::<SECURE>::new(columns, 1, 1).map(|shape| shape.plaintext_bits());
    assert_eq!([bits(1_800_000), bits(1_900_000)], [Ok(8), Ok(7)]);
}

#[test]
fn a_profile_of_no_arrangement_is_refused() {
    let announced = SimplePir::profile(&Parameters::<SECURE>::choose(1, 1000, 288).unwrap());
    let read = |profile| SimplePir::<SECURE>::with_profile(1000, 288, &profile);
    assert!(read(announced).is_ok());
    for place in [0, 1, 2, 3, 7, 8, 15] {
        let mut changed = announced;
        changed[place] ^= 0x40;
        assert!(read(changed).is_err(), "{place}");
    }
    assert!(read([0; 16]).is_err());
    for (elements, bytes) in [(0, 288), (10, 0), (usize::MAX, 288), (1 << 40, 1 << 40)] {
        assert!(Parameters::<SECURE>::choose(1, elements, bytes).is_err());
    }
}

/// A change here is a change of format, or of what clients derive from their seeds, and needs a new version.
#[test]
fn formats_stay_what_they_are() {
    let engine = Ours::new();
    let digests = World::new(&engine, form(2, 100, 33), 1, None).digests(&[57, 99]);
    assert_eq!(digests, ["82e2bb98dd631089", "ba25660f4e69162a", "f8f795027a06e090"]);
    let engine = Papers::new();
    let digests = World::new(&engine, form(1, 500, 5), 1, Some(Profile(INSECURE_PROFILE))).digests(&[321]);
    assert_eq!(digests, ["f554a4ede30a260a", "c8702c70b1a58ec8", "2de92f36233b7852"]);
}

#[test]
fn other_sizes_are_refused_without_a_panic() {
    World::new(&Ours::new(), form(2, 50, 9), 1, None).refuses_other_sizes();
}

#[test]
fn two_requests_share_neither_secret_nor_error() {
    let engine = Ours::new();
    let mut world = World::new(&engine, form(2, 64, 8), 1, None);
    let (first, second) = (world.request(), world.request());
    // The same A: what two masks differ by would be small if their secrets were the same.
    let words = |bytes: &[u8]| {
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect::<Vec<_>>()
    };
    let (first, second) = (words(&first), words(&second));
    let half = first.len() / 2;
    for (a, b) in [(&first[..], &second[..]), (&first[..half], &first[half..])] {
        let near = a.iter().zip(b).filter(|(a, b)| (a.wrapping_sub(**b) as i32).unsigned_abs() < 200);
        assert!(near.count() <= 1);
    }
}
