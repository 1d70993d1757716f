//! The server announces rounds too early, too late, in the wrong order, again, or with times that are not true.

use crate::lies::{Lie, Plan};
use crate::scene::{Scene, Secret, Step, play};

const REFUSED: &str = "the deposit was not taken";

const TIMES: [Step; 4] = [
    // Deposits for a round that is not open yet are sent again when it is.
    Step::new(Lie::EarlyOpen).told(REFUSED),
    Step::new(Lie::LateNews).told(REFUSED),
    Step::new(Lie::Elapsed).rounds(6),
    Step::new(Lie::LongAgo),
];

const ORDER: [Step; 3] = [
    Step::new(Lie::WrongOrder).rounds(4).told("a manifest of the server was refused"),
    Step::new(Lie::OldEvents).told("was already used"),
    Step::new(Lie::ReadyFirst).told("the server has told another history before"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn seals_at_the_wrong_time_tell_nothing_and_lose_nothing() {
    let scenes = [(1, &TIMES[..]), (2, &ORDER)];
    let scenes = scenes.map(|(seed, steps)| tokio::spawn(play(500 + seed, steps)));
    for scene in scenes {
        scene.await.unwrap();
    }
}

/// Thousands of announcements neither pile up in the client nor keep it from its next deposit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flood_of_announcements_holds_up_nothing() {
    let mut scene = Scene::begin(510, Secret::Talking).await;
    let start = scene.newest() + 1;
    scene.world.liar.plan(Plan { lie: Lie::Flood, rounds: start..start + 3, target: None });
    scene.say().await;
    scene.until(start + 4).await;
    let told = scene.settle().await;
    assert!(!told.contains("composing the deposit took too long"), "{told}");
    assert!(told.matches("a manifest of the server was refused").count() < 100, "{told}");
    scene.check_keys();
    scene.world.end().await;
}
