//! Checking answers: a server that gives wrong ones is convicted, and whether there are checks says nothing about people.

use bytes::Bytes;
use mpir::{Engines, noop, voce_hint};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sotto::audit::{Proof, Verdict, judge};
use sotto::{Event, Finding};
use sotto_protocol::RoundMode;
use sotto_protocol::audit::AUDITED_WHEN_ASKED;
use sotto_wire::RootKey;

use crate::lies::{Call, Forgery, Lie};
use crate::world::{FIRST, Person, ROUND_MS, World, parameters, quick};

/// What the checks of one stay have found.
fn findings(person: &mut Person) -> Vec<(u64, u16, Finding)> {
    let mut findings = Vec::new();
    while let Ok(event) = person.events.try_recv() {
        if let Event::Audited { round, unit, finding } = event {
            findings.push((round.0, unit, finding));
        }
    }
    findings
}

/// Of every hundred answers one is wrong: of so many checks, 95 % find one, `1 - 0.99^298`.
const CHECKS: u32 = 298;

#[tokio::test(start_paused = true)]
async fn a_server_that_spoils_one_answer_in_a_hundred_is_convicted() {
    let mut world = World::new(7, parameters(&*noop(), RoundMode::Deadline), 2);
    let mut alice = {
        let client = world.client("alice", 4);
        world.start(client, quick).await
    };
    let mut dice = ChaCha20Rng::from_seed([9; 32]);
    world.server.tamper(Box::new(move |_, answers| {
        for answer in answers {
            if dice.next_u64() % 100 == 0 {
                answer[17] ^= 1;
            }
        }
    }));
    alice.handle.audit(CHECKS).unwrap();
    let (mut found, mut round) = (Vec::new(), 0);
    while found.len() < CHECKS as usize {
        round += 64;
        world.until(round * u64::from(ROUND_MS)).await;
        found.extend(findings(&mut alice));
        assert!(round < 2 * AUDITED_WHEN_ASKED * u64::from(CHECKS));
        if let Some(first) = found.iter().position(|(_, _, finding)| matches!(finding, Finding::Cheated(_))) {
            found.truncate(first + 1);
            break;
        }
    }
    let last = found.last().unwrap();
    assert_eq!(last.2, Finding::Cheated(Ok(format!("proof-{}", last.0))));
    assert!(found[..found.len() - 1].iter().all(|(_, _, finding)| *finding == Finding::Honest));

    // A stranger with the server's address.
    let (of, proof) = alice.disk.proofs().swap_remove(0);
    let proof = Proof::decode(&Bytes::from(proof)).unwrap();
    assert_eq!((of.0, proof.unit), (last.0, last.1));
    assert_eq!(judge(&Engines::default(), &proof, &RootKey(world.server.root())), Verdict::Cheated);
    assert!(matches!(judge(&Engines::default(), &proof, &RootKey([2; 32])), Verdict::Invalid(_)));
}

/// Of what everybody reads answers with, a bit is wrong, and the manifest has its digest: answers are right, and nobody can read them.
#[tokio::test(start_paused = true)]
async fn a_server_that_publishes_a_wrong_hint_is_convicted() {
    let mut world = World::new(9, parameters(&*voce_hint(), RoundMode::Deadline), 2);
    let mut alice = {
        let client = world.client("alice", 4);
        world.start(client, quick).await
    };
    const WRONG: u64 = 40;
    world.server.plan(Lie::Forge(Forgery::WrongHint), &(WRONG..1000), None);
    alice.handle.audit(1000).unwrap();
    let (mut found, mut round) = (Vec::new(), 0);
    while !found.iter().any(|(_, _, finding)| matches!(finding, Finding::Cheated(_))) {
        round += 8;
        world.until(round * u64::from(ROUND_MS)).await;
        found.extend(findings(&mut alice));
        assert!(round < 200, "{found:?}");
    }
    let first = found.iter().position(|(_, _, finding)| *finding != Finding::Honest).unwrap();
    assert!(first > 0, "honest rounds come before: {found:?}");
    assert!(
        found[first].0 >= FIRST.0 + WRONG && matches!(found[first].2, Finding::Cheated(Ok(_))),
        "{found:?}"
    );

    let (_, proof) = alice.disk.proofs().swap_remove(0);
    let mut proof = Proof::decode(&Bytes::from(proof)).unwrap();
    let root = RootKey(world.server.root());
    assert_eq!(judge(&Engines::default(), &proof, &root), Verdict::Cheated);
    // It is the hint that is wrong, and not the answer.
    proof.hint = None;
    assert_eq!(judge(&Engines::default(), &proof, &root), Verdict::Honest);
}

/// Who checks is drawn by a coin of the account's: the server sees it when it is over.
#[tokio::test(start_paused = true)]
async fn an_honest_server_is_never_accused_and_sees_checks_after_answers_only() {
    let mut world = World::new(8, parameters(&*noop(), RoundMode::Deadline), 2);
    let mut alice = {
        let client = world.client("alice", 4);
        world.start(client, quick).await
    };
    alice.handle.audit(12).unwrap();
    world.until(160 * u64::from(ROUND_MS)).await;
    let found = findings(&mut alice);
    assert!(found.len() >= 12, "{}", found.len());
    assert!(found.iter().all(|(_, _, finding)| *finding == Finding::Honest), "{found:?}");
    assert!(alice.disk.proofs().is_empty());

    let seen = world.server.seen(&alice.account);
    let asked: Vec<(u64, u16)> = seen
        .iter()
        .filter(|seen| seen.call == Call::Unit)
        .map(|seen| (seen.round, u16::from_le_bytes([seen.bytes[0], seen.bytes[1]])))
        .collect();
    assert_eq!(asked, found.iter().map(|(round, bucket, _)| (*round, *bucket)).collect::<Vec<_>>());
    for (at, bucket) in seen.iter().enumerate().filter(|(_, seen)| seen.call == Call::Unit) {
        let retrieved = seen[..at].iter().rfind(|seen| seen.call == Call::Retrieve).unwrap();
        assert_eq!(retrieved.round, bucket.round);
        assert!(bucket.round > FIRST.0);
    }
}
