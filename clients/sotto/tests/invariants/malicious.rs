//! A server that lies, in every way it can: the trace stays, no key serves twice, the person is told, nothing panics.

use crate::hostile::{FAR, Lie};
use crate::world::{Happened, Person, World};

/// What the person must learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// A warning or a trouble.
    Something,
    /// Nothing: it cannot be noticed at once, or is nothing to worry about.
    Nothing,
}

async fn lied_to(lie: Lie) -> (Vec<Vec<usize>>, Happened, Happened, World) {
    let mut world = World::new(100 + lie as u64).await;
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
    let during = alice.rounds(4).await;
    let calls = world.calls()[first..].iter().map(|call| call.messages.clone()).collect();
    world.liar.tell(Lie::Honest);
    before.add(alice.rounds(12).await);
    let mut heard = bob.happened();
    heard.texts.sort();
    before.texts.extend(during.texts.iter().cloned());
    before.texts.sort();
    // Alice's texts are in `before`, Bob's in what `heard` returns.
    before.troubles = heard.texts;
    (calls, during, before, world)
}

async fn check(lie: Lie, told: Told, recovers: bool) {
    let (calls, during, after, world) = lied_to(lie).await;

    // The same three calls a round, of the same sizes: what an honest server sees.
    let mut kinds: Vec<_> = calls.clone();
    kinds.sort();
    kinds.dedup();
    assert!(kinds.len() <= 4, "{lie:?}: unusual calls {kinds:?}");
    assert!((10..=16).contains(&calls.len()), "{lie:?}: {} calls in four rounds", calls.len());

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

macro_rules! lies {
    ($($test:ident: $lie:ident, $told:ident, $recovers:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            check(Lie::$lie, Told::$told, $recovers).await;
        }
    )*};
}

lies! {
    an_honest_server_is_no_reason_to_warn: Honest, Nothing, true;
    corrupted_elements_change_nothing_on_the_wire: CorruptElement, Something, true;
    short_answers_change_nothing_on_the_wire: ShortAnswer, Something, true;
    noise_for_answers_changes_nothing_on_the_wire: NoiseAnswer, Something, true;
    noise_for_a_mapping_changes_nothing_on_the_wire: NoiseMapping, Something, true;
    a_short_mapping_changes_nothing_on_the_wire: ShortMapping, Something, true;
    an_unsigned_manifest_changes_nothing_on_the_wire: UnsignedManifest, Something, true;
    a_false_seed_changes_nothing_on_the_wire: WrongSeed, Something, false;
    false_counts_change_nothing_but_public_sizes: WrongCounts, Something, false;
    a_forked_chain_changes_nothing_on_the_wire: ForkedChain, Something, false;
    a_replayed_round_uses_no_key_twice: ReplayedRound, Something, true;
    a_round_far_ahead_uses_no_key: FarRound, Something, true;
    refused_retrievals_change_nothing_on_the_wire: RefusedRetrieval, Something, true;
    refused_deposits_change_nothing_on_the_wire: RefusedDeposit, Something, true;
}
