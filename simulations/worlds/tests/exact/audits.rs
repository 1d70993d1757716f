//! Checking answers: a server that gives wrong ones is convicted, and whether there are checks says nothing about people.

use bytes::Bytes;
use mpir::{Engines, noop, voce_hint};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sotto_participant::audit::{Proof, Verdict, judge};
use sotto_participant::{Event, Finding};
use sotto_protocol::audit::AUDITED_WHEN_ASKED;
use sotto_protocol::{RoundMode, ServerParameters};
use sotto_wire::{Refused, RootKey};

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

/// Somebody who asks for checks, in a world whose engine has a hint of one unit, or two.
async fn with_hint(buckets: u16) -> (World, Person) {
    let parameters = ServerParameters { buckets, ..parameters(&*voce_hint(), RoundMode::Deadline) };
    // With this seed there are checks in rounds 4, 7, 9 and 11. Rounds of this engine take much memory.
    let mut world = World::new(12, parameters, 2);
    let client = world.client("alice", 4);
    let alice = world.start(client, quick).await;
    alice.handle.audit(1000).unwrap();
    (world, alice)
}

/// Of what everybody reads answers with, a bit is wrong, and the manifest has its digest: answers are right, and nobody can read them.
/// Where the server shows it to nobody, either, that helps it nothing.
#[tokio::test(start_paused = true)]
async fn a_server_that_publishes_a_wrong_hint_is_convicted() {
    const WRONG: u64 = 6;
    for (buckets, shown) in [(12, true), (8, false)] {
        let (world, mut alice) = with_hint(buckets).await;
        world.server.plan(Lie::Forge(Forgery::WrongHint), &(WRONG..1000), None);
        if !shown {
            world.server.plan(Lie::Refuse(Call::Hint, Refused::RoundNotReady), &(WRONG..1000), None);
        }
        let (mut found, mut round) = (Vec::new(), 0);
        while !found.iter().any(|(_, _, finding)| matches!(finding, Finding::Cheated(_))) {
            round += 2;
            world.until(round * u64::from(ROUND_MS)).await;
            found.extend(findings(&mut alice));
            assert!(round < 14, "{found:?}");
        }
        let first = found.iter().position(|(_, _, finding)| *finding != Finding::Honest).unwrap();
        assert!(first > 0, "honest rounds come before: {found:?}");
        assert!(found[first].0 >= FIRST.0 + WRONG && matches!(found[first].2, Finding::Cheated(Ok(_))));

        let (_, proof) = alice.disk.proofs().swap_remove(0);
        let mut proof = Proof::decode(&Bytes::from(proof)).unwrap();
        let root = RootKey(world.server.root());
        assert_eq!(judge(&Engines::default(), &proof, &root), Verdict::Cheated);
        // It is the hint that is wrong, and not the answer.
        assert_eq!(proof.hints.take().is_some(), shown);
        let rest = if shown { Verdict::HonestAnswer } else { Verdict::Cheated };
        assert_eq!(judge(&Engines::default(), &proof, &root), rest);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_does_not_come_is_not_called_right() {
    const MISSING: u64 = 6;
    let (world, mut alice) = with_hint(12).await;
    world.server.plan(Lie::Refuse(Call::Hint, Refused::RoundNotReady), &(MISSING..1000), None);
    world.until((MISSING + 5) * u64::from(ROUND_MS)).await;
    let found = findings(&mut alice);
    let (before, after) =
        found.split_at(found.iter().filter(|(round, ..)| *round < FIRST.0 + MISSING).count());
    assert!(!before.is_empty() && !after.is_empty(), "{found:?}");
    assert!(before.iter().all(|(_, _, finding)| *finding == Finding::Honest), "{found:?}");
    let open = |finding: &Finding| matches!(finding, Finding::Open(why) if why.contains("nothing is shown"));
    assert!(after.iter().all(|(_, _, finding)| open(finding)), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_answer_is_found_whether_the_hint_comes_or_not() {
    const WRONG: u64 = 6;
    let (world, mut alice) = with_hint(12).await;
    world.server.tamper(Box::new(|round, answers| {
        if round >= FIRST.0 + WRONG {
            answers.iter_mut().for_each(|answer| answer[17] ^= 1);
        }
    }));
    world.server.plan(Lie::Withhold(Call::Hint), &(WRONG..WRONG + 4), None);
    world.until((WRONG + 6) * u64::from(ROUND_MS)).await;
    let found = findings(&mut alice);
    let in_time = |(round, _, finding): &(u64, u16, Finding)| {
        (WRONG..WRONG + 4).contains(&(round - FIRST.0)) && matches!(finding, Finding::Cheated(Ok(_)))
    };
    assert!(found.iter().any(in_time), "{found:?}");
}

/// When a hint comes shows in nothing that a client does: not in when it asks for the buckets of a unit, either.
#[tokio::test(start_paused = true)]
async fn a_late_hint_is_not_seen() {
    let mut traces = Vec::new();
    for late in [None, Some(3000)] {
        let (world, alice) = with_hint(12).await;
        if let Some(late) = late {
            world.server.plan(Lie::Delay(Call::Hint, late), &(0..1000), None);
        }
        world.until(10 * u64::from(ROUND_MS)).await;
        let seen = world.server.seen(&alice.account).into_iter();
        let trace: Vec<_> = seen.map(|seen| (seen.at, seen.call, seen.round, seen.bytes.len())).collect();
        assert!(trace.iter().any(|(_, call, ..)| *call == Call::Unit));
        traces.push(trace);
    }
    assert_eq!(traces[0], traces[1]);
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
