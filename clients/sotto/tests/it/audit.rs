//! What a proof convinces a stranger of, over the real engine: of nothing about an honest server, whatever is changed in it
//! and whatever kernels served and check.
#![allow(clippy::print_stdout, reason = "what was measured, and progress of a quarter of an hour")]

mod kernels;
mod scene;

use bytes::Bytes;
use mpir::{Engines, voce_apart, voce_hint};
use scene::{BUCKETS, Scene};
use sotto_participant::audit::{Invalid, Proof, Verdict};
use sotto_wire::RootKey;

/// What a stranger finds.
fn judge(proof: &Proof, root: &RootKey) -> Verdict {
    sotto_participant::audit::judge(&Engines::default(), proof, root)
}

/// Boxes of a bucket.
const SIZE: usize = 100;

impl Scene {
    /// What a client holds after it asked.
    fn asked(&mut self, bucket: u16, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Proof {
        let served = self.serve(change);
        self.proof(bucket, &served)
    }
}

#[test]
fn a_wrong_answer_convicts_and_only_of_the_bucket_that_was_wrong() {
    let mut scene = Scene::new(1, SIZE);
    let wrong = scene.asked(2, |answers| answers[2][40] ^= 1);
    assert_eq!(judge(&wrong, &scene.root()), Verdict::Cheated);
    let again = Proof::decode(&wrong.encode().into()).unwrap();
    assert!(again == wrong);
    assert_eq!(judge(&again, &scene.root()), Verdict::Cheated);
    // The answer to somebody else's query, or of another bucket, is a wrong one.
    let other = scene.asked(1, |answers| answers.swap(0, 1));
    assert_eq!(judge(&other, &scene.root()), Verdict::Cheated);
    let elsewhere = scene.asked(1, |answers| answers[2][40] ^= 1);
    assert_eq!(judge(&elsewhere, &scene.root()), Verdict::Honest);
    // Another server's address.
    assert!(matches!(judge(&wrong, &RootKey([2; 32])), Verdict::Invalid(_)));
}

/// One hint for all buckets, and one for each.
#[test]
fn a_wrong_hint_convicts_of_its_unit_and_an_honest_one_nobody() {
    for engine in [voce_hint(), voce_apart()] {
        let name = engine.name();
        let mut scene = Scene::with(engine, 1, SIZE);
        let root = scene.root();
        let honest = scene.asked(0, |_| {});
        assert_eq!(judge(&honest, &root), Verdict::Honest, "{name}");
        let again = Proof::decode(&honest.encode().into()).unwrap();
        assert!(again == honest);
        // Of several units nobody knows the others' parts without being told.
        let single = name == voce_hint().name();
        let left_out = Proof { hints: None, ..honest.clone() };
        assert!(Proof::decode(&left_out.encode().into()).unwrap() == left_out);
        let unknown = if single { Verdict::Honest } else { Verdict::HonestAnswer };
        assert_eq!(judge(&left_out, &root), unknown, "{name}");
        // Whatever else is said to be the hint's is not what the server has signed.
        type Change = fn(&mut Vec<[u8; 32]>);
        let changes: [Change; 4] = [
            |hints| hints[0][0] ^= 1,
            |hints| hints.push([0; 32]),
            |hints| hints.clear(),
            |hints| hints.iter_mut().for_each(|hint| *hint = [0; 32]),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut bent = honest.clone();
            change(bent.hints.as_mut().unwrap());
            assert_eq!(judge(&bent, &root), Verdict::Invalid(Invalid::Hint), "{name} {number}");
        }
        let encoded = honest.encode();
        for length in (0..encoded.len()).step_by(997).chain(encoded.len() - 40..encoded.len()) {
            assert!(Proof::decode(&Bytes::copy_from_slice(&encoded[..length])).is_err());
        }
        assert!(Proof::decode(&[&encoded[..], &[0]].concat().into()).is_err());

        scene.publish(|hint| hint[5] ^= 1);
        let wrong = scene.asked(0, |_| {});
        assert_eq!(judge(&wrong, &root), Verdict::Cheated, "{name}");
        let left_out = Proof { hints: None, ..wrong.clone() };
        let unknown = if single { Verdict::Cheated } else { Verdict::HonestAnswer };
        assert_eq!(judge(&left_out, &root), unknown, "{name}");
        let other = Proof { hints: honest.hints.clone(), ..wrong };
        assert_eq!(judge(&other, &root), Verdict::Invalid(Invalid::Hint));
        if !single {
            assert_eq!(
                judge(&scene.asked(1, |_| {}), &root),
                Verdict::Honest,
                "another unit's part is right"
            );
        }
    }
}

#[test]
fn an_honest_server_is_convicted_by_no_change_of_a_proof() {
    let mut scene = Scene::new(1, SIZE);
    let root = scene.root();
    let honest = scene.asked(3, |_| {});
    let other = scene.asked(1, |_| {});
    assert_eq!(judge(&honest, &root), Verdict::Honest);
    let cheated = |proof: &Proof| judge(proof, &root) == Verdict::Cheated;
    let swaps: [fn(&mut Proof, &Proof); 10] = [
        |proof, other| proof.receipt = other.receipt,
        |proof, other| proof.unit = other.unit,
        |proof, other| proof.digests = other.digests.clone(),
        |proof, other| proof.digests.answers = other.digests.answers.clone(),
        |proof, other| proof.digests.queries = other.digests.queries.clone(),
        |proof, other| proof.query = other.query.clone(),
        |proof, other| proof.answer = other.answer.clone(),
        |proof, other| proof.boxes = other.boxes.clone(),
        |proof, _| proof.digests.buckets.swap(2, 3),
        |proof, _| proof.keys = mpir::sealpir().client(&[9; 32]).public_keys().into(),
    ];
    for (number, swap) in swaps.into_iter().enumerate() {
        let mut bent = honest.clone();
        swap(&mut bent, &other);
        assert!(bent != honest && !cheated(&bent), "{number}");
    }
    // Any bit: all of the head, and a sample of the rest.
    let encoded = honest.encode();
    let head = 12 + 153 + 64 + 268 + 64 + 64 + 4 + 3 * 32 * usize::from(BUCKETS) + 4;
    let places = (0..head).step_by(5).chain((head..encoded.len()).step_by(encoded.len() / 150));
    for place in places.chain(encoded.len() - 3..encoded.len()) {
        let mut bent = encoded.clone();
        bent[place] ^= 1 << (place % 8);
        if let Ok(bent) = Proof::decode(&bent.into()) {
            assert!(!cheated(&bent), "{place}");
        }
    }
    for length in (0..encoded.len()).step_by(997) {
        assert!(Proof::decode(&Bytes::copy_from_slice(&encoded[..length])).is_err());
    }
    assert!(Proof::decode(&[&encoded[..], &[0]].concat().into()).is_err());
}
