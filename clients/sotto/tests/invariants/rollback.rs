//! The server comes back with an older state: with round numbers that were used, and another history. No key serves
//! twice, the person is told, and everything arrives once the numbers are new again.

use sotto_protocol::Round;

use crate::lies::{Lie, Plan};
use crate::scene::{Scene, Secret};
use crate::world::Person;

/// Rounds by which the server is behind when it comes back.
const BACK: u64 = 10;

/// Whether the first person's program, too, is started again.
async fn roll_back(seed: u64, client_restarts: bool) {
    let mut scene = Scene::begin(seed, Secret::Talking).await;
    scene.say().await;
    scene.until(BACK + 4).await;
    scene.told();
    let used = scene.newest();
    let made = scene.world.liar.seen(|seen| seen.rounds.len());

    if client_restarts {
        let client = scene.alice.handle.stop().await.unwrap();
        scene.world.restart_server(Round(used - BACK)).await;
        scene.alice = Person::start(client, scene.world.watched()).await;
    } else {
        scene.world.restart_server(Round(used - BACK)).await;
    }
    scene.say().await;
    scene.until(used).await;
    let told = scene.told();
    assert!(told.contains("was already used"), "{told}");

    scene.until(used + 4).await;
    let told = told + &scene.settle().await;
    assert!(told.contains("a manifest of the server was refused"), "{told}");
    scene.check_keys();
    scene.world.liar.seen(|seen| {
        assert!(seen.rounds.len() > made);
        // Bob's program went on and knows the numbers it used; so did Alice's, or it sent what nobody can open.
        let again = seen.rounds[made..].iter().filter(|round| **round < used).count();
        let noise = if client_restarts { BACK as usize + 1 } else { 0 };
        assert!(again <= noise, "{again} deposits in rounds that were used");
    });
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_comes_back_older_makes_no_key_serve_twice() {
    let both = [false, true].map(|restarts| tokio::spawn(roll_back(600 + u64::from(restarts), restarts)));
    for world in both {
        world.await.unwrap();
    }
}

/// Rounds that were read are announced once more with seeds that put every box elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_older_round_under_a_new_seed_is_refused() {
    let mut scene = Scene::begin(610, Secret::Talking).await;
    scene.say().await;
    let start = scene.newest() + 1;
    let (lie, target) = (Lie::ReplaySeeds, Some(scene.account));
    scene.world.liar.plan(Plan { lie, rounds: start..start + 3, target });
    scene.until(start + 5).await;
    let told = scene.told() + &scene.settle().await;
    assert!(told.contains("the server has told another history before"), "{told}");
    let calls = scene.world.liar.seen(|seen| {
        let hers = seen.calls.iter().filter(|call| call.account == scene.account);
        hers.map(|call| (call.round, call.call)).collect::<Vec<_>>()
    });
    let mut once = calls.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(calls.len(), once.len(), "a round was retrieved twice");
    scene.check_keys();
    scene.world.end().await;
}
