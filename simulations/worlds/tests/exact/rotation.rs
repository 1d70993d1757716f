//! Another manifest key while people talk: nobody misses anything, and nothing on the wire follows from it.

use bytes::Bytes;
use mpir::{Engines, noop};
use sotto_participant::audit::{Proof, Verdict, judge};
use sotto_protocol::error::ManifestError;
use sotto_protocol::{Error, RoundMode, Warning};
use sotto_wire::RootKey;

use crate::lies::Call;
use crate::machine::Line;
use crate::server::Seen;
use crate::traces::difference;
use crate::world::{ROUND_MS, Told, World, parameters, quick};

/// When another key is announced, and from which round on it signs, both in rounds.
const ANNOUNCED: u64 = 6;
const FIRST_SIGNED: u64 = 20;
const ROUNDS: u64 = 60;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    One,
    /// Another one follows.
    Rotated,
    /// Another one follows, and whoever has stolen the former one signs on with it.
    Stolen,
}

struct Observed {
    tape: Vec<Line>,
    seen: Vec<Seen>,
    alice: Told,
    bob: Told,
    /// Number of the announcement with which Alice is stored.
    serial: u64,
}

fn observe(seed: u64, talks: bool, keys: Keys) -> Observed {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed, parameters(&*noop(), RoundMode::Deadline), 2);
        let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 2));
        let [at_alice, at_bob] = world.introduce(&mut alice, &mut bob);
        let mut bob = world.start(bob, quick).await;
        let mut alice = world.start(alice, quick).await;
        for round in 1..ROUNDS {
            if talks && round % 4 == 0 && round < ROUNDS - 20 {
                alice.handle.queue_text(at_alice, &format!("text {round}")).await.unwrap();
                bob.handle.queue_text(at_bob, &format!("text {round}")).await.unwrap();
            }
            if round == ANNOUNCED && keys != Keys::One {
                world.server.rotate(FIRST_SIGNED);
            }
            if round == FIRST_SIGNED && keys == Keys::Stolen {
                world.server.steal();
            }
            world.until(u64::from(ROUND_MS) * round + 333).await;
        }
        let seen = world.server.seen(&alice.account);
        let tape = alice.machine.tape.lines();
        let (alice_told, bob_told) = (alice.told(), bob.told());
        let serial = alice.handle.stop().await.unwrap().server().serial;
        Observed { tape, seen, alice: alice_told, bob: bob_told, serial }
    })
}

#[test]
fn people_talk_across_a_change_of_keys_without_a_new_connection_and_miss_nothing() {
    for seed in 0..2 {
        let observed = observe(seed, true, Keys::Rotated);
        let expected: Vec<String> =
            (1..ROUNDS - 20).filter(|round| round % 4 == 0).map(|round| format!("text {round}")).collect();
        assert_eq!((&observed.alice.texts, &observed.bob.texts), (&expected, &expected), "seed {seed}");
        let troubles = observed.alice.troubles.iter().chain(&observed.bob.troubles);
        assert_eq!(troubles.collect::<Vec<_>>(), Vec::<&String>::new(), "seed {seed}");
        let registrations = observed.seen.iter().filter(|seen| seen.call == Call::Register).count();
        assert_eq!((registrations, observed.serial), (1, 2), "seed {seed}");
    }
}

/// Neither when it is stored nor what it says afterwards shows on the wire.
#[test]
fn whether_people_talk_across_a_change_of_keys_does_not_show() {
    let [talks, keeps_silent] = [true, false].map(|talks| observe(3, talks, Keys::Rotated));
    assert_eq!((talks.bob.texts.is_empty(), keeps_silent.bob.texts.is_empty()), (false, true));
    assert_eq!(difference(&talks.tape, &keeps_silent.tape), None);
}

#[test]
fn a_thief_of_the_former_key_signs_no_round_that_anybody_believes() {
    let honest = observe(4, true, Keys::One);
    let stolen = observe(4, true, Keys::Stolen);
    assert!(honest.alice.warnings.is_empty() && honest.alice.troubles.is_empty());
    let unsigned = Warning::BadManifest(Error::Manifest(ManifestError::Unsigned)).to_string();
    assert!(!stolen.alice.warnings.is_empty());
    assert!(stolen.alice.warnings.iter().all(|warning| *warning == unsigned), "{:?}", stolen.alice.warnings);
    // What came before is there, and nothing that was said later arrives.
    assert!(stolen.alice.texts.len() < honest.alice.texts.len());
    assert_eq!(stolen.alice.texts, honest.alice.texts[..stolen.alice.texts.len()]);
    // Whoever watches the wire learns nothing of what is believed.
    assert_eq!(stolen.seen.len(), honest.seen.len());
}

/// Or a proof would stand beside an announcement under which its receipt is nobody's.
#[test]
fn a_server_that_says_again_what_it_was_is_convicted_of_what_it_does_now() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(5, parameters(&*noop(), RoundMode::Deadline), 2);
        let client = world.client("Alice", 2);
        let mut alice = world.start(client, quick).await;
        world.until(u64::from(ROUND_MS) * 2).await;
        world.server.rotate(6);
        world.until(u64::from(ROUND_MS) * 10).await;
        world.server.replay();
        world.server.tamper(Box::new(|_, answers| answers.iter_mut().for_each(|answer| answer[17] ^= 1)));
        alice.handle.audit(1).unwrap();
        world.until(u64::from(ROUND_MS) * 60).await;
        let (_, proof) = alice.disk.proofs().pop().expect("a proof");
        let proof = Proof::decode(&Bytes::from(proof)).unwrap();
        assert_eq!(judge(&Engines::default(), &proof, &RootKey(world.server.root())), Verdict::Cheated);
        let downgrades = alice.told().troubles.iter().filter(|told| told.contains("downgrade")).count();
        assert_eq!(downgrades, 1);
    });
}

/// Each of them costs a client two signatures to verify, and the server nothing.
#[test]
fn whoever_announces_keys_without_end_is_left_after_eight_and_a_real_change_is_heard_later() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(6, parameters(&*noop(), RoundMode::Deadline), 2);
        let client = world.client("Alice", 2);
        let mut alice = world.start(client, quick).await;
        let account = alice.account;
        let watches = |world: &World| {
            let seen = world.server.seen(&account);
            seen.iter().filter(|seen| seen.call == Call::Watch).count()
        };
        world.until(u64::from(ROUND_MS) * 2).await;
        // One was told when it began to follow the rounds.
        world.server.flood(7);
        world.until(u64::from(ROUND_MS) * 4).await;
        assert_eq!(watches(&world), 1, "a server that is clumsy is put up with");
        world.server.flood(10_000);
        world.until(u64::from(ROUND_MS) * 10).await;
        assert_eq!(watches(&world), 2);
        let lost = alice.told().lost;
        assert!(lost.len() == 1 && lost[0].contains("again and again"), "{lost:?}");
        world.server.rotate(20);
        world.until(u64::from(ROUND_MS) * 30).await;
        assert_eq!(watches(&world), 2);
        assert_eq!(alice.handle.stop().await.unwrap().server().serial, 2);
    });
}
