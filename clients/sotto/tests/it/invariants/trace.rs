//! The smoke test over real sockets: with a real server and real work, the calls of one who talks have the shapes of those
//! of one who does not. When they leave is shown exactly, in simulated time, by the test `exact`.

use std::collections::BTreeSet;

use sotto_participant::host::Work;

use super::world::{DEPOSIT_MS, Person, World};

/// Rounds that are watched.
const ROUNDS: usize = 5;

/// Sizes of the messages of every call of Alice, who talks with Bob or with nobody, fast or too slowly.
async fn observe(talks: bool, slow: Option<(Work, u32)>) -> Vec<Vec<usize>> {
    let mut world = World::new(u64::from(talks)).await;
    let [mut alice, mut bob] = [world.client("Alice").await, world.client("Bob").await];
    if talks {
        let (at_alice, at_bob) = world.introduce(&mut alice, &mut bob);
        alice.queue_text(at_alice, &"from Alice ".repeat(100)).unwrap();
        bob.queue_text(at_bob, "from Bob").unwrap();
    }
    let _bob = Person::start(bob, world.unwatched()).await;
    let mut alice = Person::start_slowly(alice, world.watched(), slow).await;
    let troubles = alice.rounds(ROUNDS).await;
    let late = troubles.iter().any(|trouble| trouble.contains("took too long"));
    assert!(late || slow.is_none(), "{troubles:?}");
    let calls = world.calls().into_iter().map(|call| call.messages).filter(|call| !call.is_empty()).collect();
    world.end().await;
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn over_real_sockets_calls_have_the_same_shapes_whatever_is_said() {
    let worlds = [
        (false, None),
        (true, None),
        (true, Some((Work::LookUp, 5000))),
        (true, Some((Work::Compose, DEPOSIT_MS + 300))),
        (true, Some((Work::Query, 5000))),
    ];
    let tasks = worlds.map(|(talks, slow)| tokio::spawn(observe(talks, slow)));
    let mut shapes = Vec::new();
    for task in tasks {
        let calls = task.await.unwrap();
        // Five calls begin a session; a round has three.
        assert!(calls.len() >= 5 + 3 * (ROUNDS - 1), "{calls:?}");
        shapes.push(calls.into_iter().collect::<BTreeSet<_>>());
    }
    assert!(shapes.windows(2).all(|pair| pair[0] == pair[1]), "{shapes:?}");
}
