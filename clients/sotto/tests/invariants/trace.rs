//! The fixed trace: worlds that differ in everything secret look alike on the wire.

use std::time::Duration;

use sotto::host::Work;
use sotto_protocol::TEXT_MAX;

use crate::lies::Lie;
use crate::recorder::Call;
use crate::world::{DEPOSIT_MS, Happened, Person, QUERY_MS, ROUND_MS, World};

/// Rounds that are compared.
const ROUNDS: usize = 7;
/// How far a call may be from its time slot; slots are at least 250 ms apart.
const SLOT_MS: u128 = 120;

/// What is secret about a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secret {
    /// No contacts, nothing to say.
    Idle,
    /// Talks with Bob.
    Busy,
    /// Talks with Carol and Dave in a group, and has Bob as a silent contact.
    OtherPartners,
    /// Talks with Bob, whose messages come back corrupted.
    Corrupted,
    /// Talks with Bob, who has gone.
    Missing,
    /// Talks with Bob; the look-up takes longer than it may.
    SlowLookup,
    /// Talks with Bob; composing the deposit takes longer than it may.
    SlowCompose,
    /// Has said much more to Bob than rounds can carry, and goes on typing.
    Typing,
    /// Talks with Bob; the server announces everything as if it had been long ago.
    LongAgo,
}

const SECRETS: [Secret; 9] = [
    Secret::Idle,
    Secret::Busy,
    Secret::OtherPartners,
    Secret::Corrupted,
    Secret::Missing,
    Secret::SlowLookup,
    Secret::SlowCompose,
    Secret::Typing,
    Secret::LongAgo,
];

/// Alice's calls in such a world, and what she was told.
async fn observe(secret: Secret) -> (Vec<Call>, Happened) {
    let mut world = World::new(secret as u64).await;
    let mut alice = world.client("Alice").await;
    let mut others = Vec::new();
    let mut talks = None;
    match secret {
        Secret::Idle => {}
        Secret::OtherPartners => {
            let mut carol = world.client("Carol").await;
            let mut dave = world.client("Dave").await;
            let roster = [("Carol".to_owned(), carol.identity()), ("Dave".to_owned(), dave.identity())];
            let now = sotto::participant::now();
            let card = alice.create_group("desk", &roster, now, &mut world.rng).unwrap();
            carol.join_group(&card, now).unwrap();
            dave.join_group(&card, now).unwrap();
            talks = alice.find("desk");
            let mut bob = world.client("Bob").await;
            world.introduce(&mut alice, &mut bob);
            others.extend([carol, dave]);
        }
        _ => {
            let mut bob = world.client("Bob").await;
            let (at_alice, at_bob) = world.introduce(&mut alice, &mut bob);
            for number in 0..10 {
                bob.queue_text(at_bob, &format!("from Bob {number}")).unwrap();
            }
            talks = Some(at_alice);
            others.push(bob);
        }
    }
    if let Some(conversation) = talks {
        for number in 0..10 {
            let text = format!("from Alice {number} {}", "and more ".repeat(40 * number));
            alice.queue_text(conversation, &text).unwrap();
        }
    }
    if let (Secret::Typing, Some(conversation)) = (secret, talks) {
        let long = "and more ".repeat(TEXT_MAX / 9);
        while alice.queue_text(conversation, &long).is_ok() {}
    }

    let mut people = Vec::new();
    for client in others {
        people.push(Person::start(client, world.unwatched()).await);
    }
    let slow = match secret {
        Secret::SlowLookup => Some((Work::LookUp, 5000)),
        Secret::SlowCompose => Some((Work::Compose, DEPOSIT_MS + 300)),
        _ => None,
    };
    if secret == Secret::LongAgo {
        world.liar.tell(Lie::LongAgo);
    }
    if secret == Secret::Missing {
        for person in people.drain(..) {
            person.handle.stop().await.unwrap();
        }
    }
    if secret == Secret::Corrupted {
        world.liar.tell(Lie::CorruptElement);
    }
    let mut alice = Person::start_slowly(alice, world.watched(), slow).await;
    let typing = talks.filter(|_| secret == Secret::Typing).map(|conversation| {
        let handle = alice.handle.clone();
        tokio::spawn(async move {
            loop {
                // Refused or not, a person goes on typing.
                drop(handle.queue_text(conversation, "and one more").await);
                tokio::time::sleep(Duration::from_millis(7)).await;
            }
        })
    });
    let happened = alice.rounds(ROUNDS).await;
    typing.inspect(tokio::task::JoinHandle::abort);
    let calls = world.calls();
    world.end().await;
    (calls, happened)
}

/// A call with all that an eavesdropper can tell of it but the time. The first header blocks of a connection spell out
/// the address, which has the recorder's port in it, so header sizes are compared once the header table is warm.
fn looks(calls: &[Call]) -> Vec<(Option<usize>, Vec<usize>, bool)> {
    let warm = |place: usize| place >= 9;
    calls
        .iter()
        .enumerate()
        .map(|(place, call)| (warm(place).then_some(call.headers), call.messages.clone(), call.reset))
        .collect()
}

/// Times between the rounds' calls, ms. The set-up calls before the first deposit depend on when in a round Alice came.
fn gaps(calls: &[Call]) -> Vec<u128> {
    calls.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at).as_millis()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn worlds_that_differ_in_secrets_have_the_same_trace() {
    let mut traces = Vec::new();
    for some in SECRETS.chunks(5) {
        let tasks: Vec<_> = some.iter().map(|&secret| (secret, tokio::spawn(observe(secret)))).collect();
        for (secret, task) in tasks {
            let (calls, happened) = task.await.unwrap();
            traces.push((secret, calls, happened));
        }
    }

    // The worlds are what they claim to be.
    for (secret, _, happened) in &traces {
        let talked = !happened.texts.is_empty();
        let talks = matches!(secret, Secret::Busy | Secret::Typing | Secret::LongAgo);
        assert_eq!(talked, talks, "{secret:?}: {happened:?}");
        let composed = happened.troubles.iter().any(|trouble| trouble.contains("composing"));
        assert_eq!(composed, *secret == Secret::SlowCompose, "{secret:?}: {happened:?}");
        let late = happened.troubles.iter().any(|trouble| trouble.contains("took too long"));
        // The look-up waits for the client, which is at the next deposit.
        let slow = matches!(secret, Secret::SlowLookup | Secret::SlowCompose);
        assert_eq!(late, slow, "{secret:?}: {happened:?}");
        let corrupted = !happened.warnings.is_empty();
        assert_eq!(corrupted, *secret == Secret::Corrupted, "{secret:?}: {happened:?}");
    }

    // Alice comes at some moment of a round, so each trace is compared from its first whole round on: it begins with
    // the mapping, 250 ms before the deposit of the next round and 900 ms before the multi-query.
    let (_, idle, _) = &traces[0];
    let idle = whole_rounds(idle);
    for (secret, calls, _) in &traces {
        let calls = whole_rounds(calls);
        let shared = idle.len().min(calls.len());
        assert!(
            shared >= 3 * (ROUNDS - 3),
            "{secret:?}: {shared} calls are too few to compare: {:?}",
            looks(&calls)
        );
        assert_eq!(looks(&idle[..shared]), looks(&calls[..shared]), "{secret:?}");
        let expected = [DEPOSIT_MS, QUERY_MS - DEPOSIT_MS, ROUND_MS - QUERY_MS].map(u128::from);
        for (place, gap) in gaps(&calls[..shared]).into_iter().enumerate() {
            let slot = expected[place % 3];
            assert!(
                gap.abs_diff(slot) <= SLOT_MS,
                "{secret:?}: call {place} after {gap} ms instead of {slot} ms"
            );
        }
    }
}

/// From the first mapping that is followed by a deposit and a multi-query.
fn whole_rounds(calls: &[Call]) -> Vec<Call> {
    let is_query = |call: &Call| (150..300).contains(&call.messages.iter().sum::<usize>());
    let is_deposit = |call: &Call| call.messages.iter().sum::<usize>() > 300;
    let begin = calls
        .windows(3)
        .position(|three| {
            !is_deposit(&three[0]) && !is_query(&three[0]) && is_deposit(&three[1]) && is_query(&three[2])
        })
        .unwrap_or(calls.len());
    calls[begin..].to_vec()
}
