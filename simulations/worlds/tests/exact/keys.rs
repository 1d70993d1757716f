//! The secrets of private retrieval: not in any state file, and replaced on a schedule that anybody can tell.

use std::time::Duration;

use mpir::{noop, sealpir};
use pir_core::{Scheme as _, SealPir};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Round, RoundMode, ServerParameters};
use sotto_wire::Refused;

use crate::lies::{Call, Lie};
use crate::server::Seen;
use crate::world::{DEPOSIT_MS, FIRST, ROUND_MS, World, parameters, quick};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

/// Whether what a state file holds decodes a recorded answer: with the right secret it is one of the round's boxes.
fn opens(state: &[u8], answers: &[&[u8]], boxes: &[u8]) -> bool {
    let elements = boxes.len() / BOX_BYTES;
    let parameters = SealPir::parameters(elements, BOX_BYTES).unwrap();
    state.windows(32).any(|window| {
        let key = SealPir::client_key(window.try_into().unwrap());
        answers.iter().any(|answer| {
            let read = SealPir::extract(&parameters, &key, 0, answer).unwrap();
            boxes.chunks(BOX_BYTES).any(|element| element == read)
        })
    })
}

/// Whoever records the wire today and gets the file tomorrow reads off which boxes were fetched, if the file holds the
/// secret of the queries, or anything from which it follows.
#[test]
fn attack_h2_a_seized_state_opens_no_recorded_query() {
    block_on(async {
        let mut world = World::new(1, parameters(&*sealpir(), RoundMode::Deadline), 2);
        let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 1));
        let [at_alice, _] = world.introduce(&mut alice, &mut bob);
        alice.queue_text(at_alice, "a text").unwrap();
        let alice = world.start(alice, quick).await;
        world.until(u64::from(ROUND_MS) * 3 + 500).await;

        let seen = world.server.seen(&alice.account);
        let queries = seen.iter().filter(|seen| seen.call == Call::Retrieve).count();
        assert!(queries >= 2, "{seen:?}");
        let (answers, boxes) = world.server.answered(Round(FIRST.0 + 1));
        let size = SealPir::answer_bytes(&SealPir::parameters(1, BOX_BYTES).unwrap());
        assert_eq!((answers.len(), boxes.len(), answers[0].len()), (1, BOX_BYTES, 8 * size));
        let answers: Vec<&[u8]> = answers[0].chunks(size).collect();

        // With the secret in the file, as it once was, the attack succeeds.
        let secret = alice.machine.drawn()[0];
        let keys = sealpir().client(&secret).public_keys();
        let upload = seen.iter().find(|seen| seen.call == Call::Upload).unwrap();
        assert!(upload.bytes == keys, "it is the secret of the uploaded keys");
        assert!(opens(&[b"before".as_slice(), &secret, b"behind"].concat(), &answers, &boxes));

        let (_, state) = alice.disk.snapshots().pop().unwrap();
        for snapshot in [state, alice.handle.stop().await.unwrap().snapshot().to_vec()] {
            assert!(snapshot.len() > 500 && !snapshot.windows(32).any(|window| window == secret));
            assert!(!opens(&snapshot, &answers, &boxes), "the state file opens a recorded answer");
        }
    });
}

/// Of every secret of retrieval that served in many rounds, and of everything else that the machine drew, no window of
/// any state that was ever stored is one.
#[test]
fn nothing_that_the_machine_drew_is_in_any_state_that_was_stored() {
    block_on(async {
        let server =
            ServerParameters { retrieve: 2, buckets: 4, ..parameters(&*noop(), RoundMode::Deadline) };
        let mut world = World::new(2, server, 2);
        let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 1));
        let [at_alice, _] = world.introduce(&mut alice, &mut bob);
        alice.queue_text(at_alice, &"from Alice ".repeat(500)).unwrap();
        let kept = *alice.account_seed();
        let _bob = world.start(bob, quick).await;
        let alice = world.start(alice, quick).await;
        world.until(u64::from(ROUND_MS) * 140).await;

        let drawn: std::collections::HashSet<[u8; 32]> = alice.machine.drawn().into_iter().collect();
        let holds = |state: &[u8], secrets: &dyn Fn(&[u8; 32]) -> bool| {
            state.windows(32).any(|window| secrets(window.try_into().unwrap()))
        };
        let seen = world.server.seen(&alice.account);
        let uploads: Vec<_> = seen.iter().filter(|seen| seen.call == Call::Upload).collect();
        assert!(uploads.len() >= 3 && drawn.len() > 300, "{}", drawn.len());
        for upload in uploads {
            let made = |seed: &[u8; 32]| noop().client(seed).public_keys() == upload.bytes;
            assert!(drawn.iter().any(made), "the secret of an upload is among what was drawn");
        }
        let snapshots = alice.disk.snapshots();
        assert!(snapshots.len() > 200);
        for (at, state) in &snapshots {
            assert!(holds(state, &|window| *window == kept), "the account's seed must be found");
            assert!(!holds(state, &|window| drawn.contains(window)), "{at:?}");
        }
    });
}

/// Alice's uploads and retrievals over many rounds.
fn watch_keys(seed: u64, talks: bool, generations: usize, refused: bool) -> Vec<Seen> {
    block_on(async {
        let server =
            ServerParameters { retrieve: 2, buckets: 4, ..parameters(&*noop(), RoundMode::Deadline) };
        let mut world = World::new(seed, server, generations);
        let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 1));
        if talks {
            let [at_alice, at_bob] = world.introduce(&mut alice, &mut bob);
            alice.queue_text(at_alice, &"from Alice ".repeat(500)).unwrap();
            bob.queue_text(at_bob, &"from Bob ".repeat(500)).unwrap();
        }
        let _bob = world.start(bob, quick).await;
        let alice = world.start(alice, quick).await;
        if refused {
            // Once in a while no upload is taken for a whole round.
            for turn in 0..3 {
                let rounds = 24 + 64 * turn..56 + 64 * turn;
                let lie = Lie::Refuse(Call::Upload, Refused::Quota);
                world.server.plan(lie, &rounds, Some(alice.account));
            }
        }
        world.until(u64::from(ROUND_MS) * 200).await;
        world.server.seen(&alice.account)
    })
}

/// Rounds after the opening of which keys were uploaded, and the digests with which each round was asked for.
fn changes(seen: &[Seen]) -> (Vec<u64>, Vec<(u64, [u8; 32])>) {
    let uploads = seen.iter().filter(|seen| seen.call == Call::Upload).map(|seen| seen.round).collect();
    let asked = seen.iter().filter(|seen| seen.call == Call::Retrieve);
    (uploads, asked.map(|seen| (seen.round, seen.keys)).collect())
}

#[test]
fn keys_are_replaced_when_it_is_their_turn_whatever_is_said() {
    for seed in 0..3 {
        let silent = watch_keys(seed, false, 2, false);
        let (uploads, asked) = changes(&silent);
        assert_eq!(uploads, changes(&watch_keys(seed, true, 2, false)).0);
        // The first when the session begins, and three more.
        assert!(uploads.len() == 4 && uploads[0] == FIRST.0, "{uploads:?}");
        assert!(uploads[1..].windows(2).all(|pair| pair[1] - pair[0] == 64) && uploads[1] - uploads[0] <= 64);
        let slot = Duration::from_millis(u64::from(DEPOSIT_MS + (ROUND_MS - DEPOSIT_MS) / 2));
        for upload in silent.iter().filter(|seen| seen.call == Call::Upload).skip(1) {
            let opened = Duration::from_millis((upload.round - FIRST.0) * u64::from(ROUND_MS));
            assert_eq!(upload.at, opened + slot, "{}", upload.round);
        }
        // Each serves the rounds that open after its upload, and never again after the next one's.
        let mut digests: Vec<[u8; 32]> = Vec::new();
        for (place, (round, digest)) in asked.iter().enumerate() {
            if place == 0 || asked[place - 1].1 != *digest {
                assert!(!digests.contains(digest), "an old secret is used again in {round}");
                let upload = uploads[digests.len()];
                assert!(digests.is_empty() || *round == upload + 1, "{round} {uploads:?}");
                digests.push(*digest);
            }
        }
        assert_eq!(digests.len(), 4);
    }
}

/// A server that keeps one set of keys an account asks for those that it has dropped.
#[test]
fn a_server_that_holds_one_set_of_keys_gets_all_retrievals() {
    for talks in [false, true] {
        let seen = watch_keys(1, talks, 1, false);
        let rounds: std::collections::BTreeSet<u64> =
            seen.iter().filter(|seen| seen.call == Call::Retrieve).map(|seen| seen.round).collect();
        assert_eq!(rounds.len() as u64, rounds.last().unwrap() - rounds.first().unwrap() + 1);
        assert!(rounds.len() > 190);
    }
    let shapes = |seen: Vec<Seen>| -> Vec<_> {
        seen.into_iter().map(|seen| (seen.at, seen.call, seen.round, seen.bytes.len())).collect()
    };
    assert_eq!(shapes(watch_keys(1, false, 1, false)), shapes(watch_keys(1, true, 1, false)));
}

/// The old keys serve until the server takes new ones; it is tried in every round until then, with the same bytes.
#[test]
fn an_upload_that_fails_is_made_again_in_the_next_round() {
    let mut failed = 0;
    for seed in 0..4 {
        let [silent, talking] = [false, true].map(|talks| watch_keys(seed, talks, 2, true));
        assert_eq!(changes(&silent).0, changes(&talking).0);
        for seen in [silent, talking] {
            let uploads: Vec<&Seen> = seen.iter().filter(|seen| seen.call == Call::Upload).collect();
            for pair in uploads.windows(2).filter(|pair| pair[0].round > FIRST.0 && pair[0].round % 64 < 32) {
                assert_eq!((pair[1].round, &pair[1].bytes), (pair[0].round + 1, &pair[0].bytes));
                failed += 1;
            }
            assert!(seen.iter().filter(|seen| seen.call == Call::Retrieve).count() > 190);
        }
    }
    assert!(failed > 0);
}
