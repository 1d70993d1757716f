//! The server shows two people who talk different rounds. Both go on as if nothing were; the first message that names
//! another manifest is delivered, with a warning.

use crate::forgery::Forgery;
use crate::lies::Lie;
use crate::scene::{Step, play};

const SPLIT: &str = "showing different worlds";

const SEED: [Step; 1] = [Step::new(Lie::Forge(Forgery::OnlyTheirOwn)).told(SPLIT)];

const DEPOSITS: [Step; 1] = [Step::new(Lie::Forge(Forgery::MoreDeposits)).told(SPLIT)];

/// Each sees what it deposited, and nothing from the other; once they hear of each other again, they are told.
const OWN_DEPOSITS: [Step; 1] = [Step::new(Lie::Forge(Forgery::OnlyTheirOwn)).everybody().told(SPLIT)];

/// Afterwards both get the same rounds again, each as the successors of what it was shown.
const ONE_ROUND: [Step; 2] = [
    Step::new(Lie::Forge(Forgery::OnlyTheirOwn)).rounds(1).told(SPLIT),
    Step::new(Lie::Honest).rounds(4).told(SPLIT),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_people_who_are_shown_different_rounds_are_told_and_lose_nothing() {
    let scenes = [(1, &SEED[..]), (2, &DEPOSITS), (3, &OWN_DEPOSITS), (4, &ONE_ROUND)];
    let scenes = scenes.map(|(seed, steps)| tokio::spawn(play(200 + seed, steps)));
    for scene in scenes {
        scene.await.unwrap();
    }
}
