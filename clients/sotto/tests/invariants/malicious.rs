//! A server that lies, in every way it can: the trace stays, no key serves twice, the person is told, nothing panics.
//!
//! The lies, all told by one relay (`hostile.rs`) that holds the manifest key, and where they are tested:
//!
//! | the server | test |
//! |---|---|
//! | corrupts, shortens or invents answers and mappings | here |
//! | breaks signatures, seeds, counts and chains of manifests | here |
//! | announces rounds again, far ahead, or as if long ago | here |
//! | refuses everybody deposits or retrievals | here |
//! | shows two people who talk different seeds or deposits, for one round or more | `equivocation.rs` |
//! | refuses or holds up one account's calls of one kind, in chosen rounds and for every reason | `refusal.rs` |
//! | puts boxes into other buckets or positions, under other labels, or one of them everywhere | `placement.rs` |
//! | gives everybody a mapping of their own: filters full, empty or of some labels, or of another manifest | `placement.rs` |
//! | opens and seals rounds early or late, announces them as ready before that, or in the wrong order | `seals.rs` |
//! | says wrong times, tells old events again, floods the client with announcements | `seals.rs` |
//! | comes back with older rounds and manifests, or seals an old round anew under another seed | `rollback.rs` |
//!
//! Those beside this file play each lie in two worlds that differ in what is secret (`scene.rs`).

use std::time::Duration;

use crate::lies::{FAR, Lie};
use crate::world::{Happened, Person, ROUND_MS, World};

/// Sizes of the messages of a round's calls, each with the 5 bytes before it.
const MAPPING: [usize; 1] = [41];
const DEPOSIT: [usize; 1] = [348];
const QUERY: [usize; 1] = [270];
/// The call for manifests that were missed.
const MANIFESTS: [usize; 1] = [43];

/// What the person must learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// A warning or a trouble.
    Something,
    /// Nothing: it cannot be noticed at once, or is nothing to worry about.
    Nothing,
}

async fn lied_to(lie: Lie, seed: u64) -> (Vec<Vec<usize>>, Happened, Happened, World) {
    let mut world = World::new(seed).await;
    let mut alice = world.client("Alice").await;
    let mut bob = world.client("Bob").await;
    let (at_alice, at_bob) = world.introduce(&mut alice, &mut bob);
    let mut alice = Person::start(alice, world.watched()).await;
    let mut bob = Person::start(bob, world.unwatched()).await;
    for number in 0..4 {
        alice.handle.queue_text(at_alice, &format!("from Alice {number}")).await.unwrap();
        bob.handle.queue_text(at_bob, &format!("from Bob {number}")).await.unwrap();
    }

    let mut before = alice.rounds(3).await;
    let first = world.calls().len();
    world.liar.tell(lie);
    let during = if lie == Lie::ImpossibleCounts {
        // Sizes that cannot be cannot be followed: what was announced shows that nothing is retrieved.
        tokio::time::sleep(Duration::from_millis(u64::from(ROUND_MS) * 4)).await;
        alice.happened()
    } else {
        alice.rounds(4).await
    };
    let calls = world.calls()[first..].iter().map(|call| call.messages.clone()).collect();
    world.liar.tell(Lie::Honest);
    // Who was not heard repeats in the next block of rounds.
    before.add(alice.rounds(28).await);
    let mut heard = bob.happened();
    heard.texts.sort();
    before.texts.extend(during.texts.iter().cloned());
    before.texts.sort();
    // Alice's texts are in `before`, Bob's in what `heard` returns.
    before.troubles = heard.texts;
    (calls, during, before, world)
}

async fn check(lie: Lie, seed: u64, told: Told, recovers: bool) {
    let (calls, during, after, world) = lied_to(lie, seed).await;

    // A chain that does not hold has a gap, and manifests are fetched to close it: that follows from what was announced.
    let (fetches, calls): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| *call == MANIFESTS);
    let broken = [Lie::WrongSeed, Lie::WrongCounts, Lie::ForkedChain].contains(&lie);
    assert!(fetches.is_empty() || broken && fetches.len() <= 4, "{lie:?}: {} fetches", fetches.len());

    // Mapping, deposit, multi-query, again and again, each of its one size: what an honest server sees. Where nothing can
    // be retrieved, deposits; but a round whose retrieval began before the lie ends as it began.
    let first = calls.iter().position(|call| *call == MAPPING).unwrap_or(0);
    let expected: Vec<Vec<usize>> = if lie == Lie::ImpossibleCounts {
        let lied = calls.iter().rposition(|call| *call != DEPOSIT).map_or(0, |last| last + 1);
        assert!(lied <= 3 && calls.len() - lied >= 2, "{lie:?}: {calls:?}");
        vec![DEPOSIT.to_vec(); calls.len() - lied]
    } else {
        assert!(first <= 2 && calls.len() - first >= 9, "{lie:?}: {calls:?}");
        let round = [MAPPING.to_vec(), DEPOSIT.to_vec(), QUERY.to_vec()];
        round.iter().cycle().take(calls.len() - first).cloned().collect()
    };
    assert_eq!(calls[calls.len() - expected.len()..], expected, "{lie:?}");

    let learned = !during.warnings.is_empty() || !during.troubles.is_empty();
    assert_eq!(learned, told == Told::Something, "{lie:?}: {during:?}");

    world.liar.seen(|seen| {
        for boxes in seen.deposits.values() {
            assert_eq!(boxes.len(), 1, "{lie:?}: one label, and so one key, served {} boxes", boxes.len());
        }
        assert!(!seen.rounds.contains(&FAR.0), "{lie:?}: something was deposited in a round far ahead");
    });

    if recovers {
        let mine: Vec<_> = (0..4).map(|number| format!("from Bob {number}")).collect();
        let theirs: Vec<_> = (0..4).map(|number| format!("from Alice {number}")).collect();
        assert_eq!(after.texts, mine, "{lie:?}: Alice did not get everything once");
        assert_eq!(after.troubles, theirs, "{lie:?}: Bob did not get everything once");
    }
    world.end().await;
}

/// Every lie, what the person must learn of it, and whether everything arrives once it ends. A server that has signed
/// two histories is not believed again: that is for the person to settle.
const LIES: [(Lie, Told, bool); 16] = [
    (Lie::Honest, Told::Nothing, true),
    (Lie::CorruptElement, Told::Something, true),
    (Lie::ShortAnswer, Told::Something, true),
    (Lie::NoiseAnswer, Told::Something, true),
    (Lie::NoiseMapping, Told::Something, true),
    (Lie::ShortMapping, Told::Something, true),
    (Lie::UnsignedManifest, Told::Something, true),
    (Lie::WrongSeed, Told::Something, false),
    (Lie::WrongCounts, Told::Something, false),
    (Lie::ImpossibleCounts, Told::Something, true),
    (Lie::ForkedChain, Told::Something, false),
    (Lie::ReplayedRound, Told::Something, true),
    (Lie::FarRound, Told::Something, true),
    (Lie::LongAgo, Told::Nothing, true),
    (Lie::RefusedRetrieval, Told::Something, true),
    (Lie::RefusedDeposit, Told::Something, true),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_lie_changes_the_trace_or_makes_a_key_serve_twice() {
    let chosen = std::env::var("LIE").ok();
    let mut failures = Vec::new();
    for (number, batch) in (0_u64..).zip(LIES.chunks(8)) {
        let mut worlds = Vec::new();
        for (place, &(lie, told, recovers)) in (0_u64..).zip(batch) {
            let seed = 100 + 8 * number + place;
            if chosen.as_ref().is_none_or(|chosen| format!("{lie:?}") == *chosen) {
                worlds.push((lie, tokio::spawn(check(lie, seed, told, recovers))));
            }
        }
        for (lie, world) in worlds {
            if world.await.is_err() {
                failures.push(lie);
            }
        }
    }
    assert!(failures.is_empty(), "failed under {failures:?}; LIE=name runs one alone");
}
