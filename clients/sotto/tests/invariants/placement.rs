//! The server puts boxes where the batch code does not, or gives one person a mapping of its own, to see by what that
//! person does next which labels it wanted. Nothing shows; a box under another's label is not accepted; and who was shown
//! a mapping that fits to no manifest, or a manifest that nobody else has, is told.

use crate::forgery::Forgery;
use crate::lies::Lie;
use crate::scene::{Step, play};

const SPLIT: &str = "showing different worlds";
const DAMAGED: &str = "could not be opened";

const PLACES: [Step; 4] = [
    Step::new(Lie::Forge(Forgery::OtherBuckets)).told(SPLIT),
    Step::new(Lie::Forge(Forgery::OtherPositions)).told(SPLIT),
    Step::new(Lie::Forge(Forgery::SwappedBoxes)).told(DAMAGED),
    Step::new(Lie::Forge(Forgery::OneBoxEverywhere)).told(SPLIT),
];

const TAGS: [Step; 4] = [
    // One that fits to no manifest is refused at once.
    Step::new(Lie::Forge(Forgery::OtherMapping)).told("the mapping of round"),
    Step::new(Lie::Forge(Forgery::AllOnes)).told(SPLIT),
    Step::new(Lie::Forge(Forgery::AllZeros)).told(SPLIT),
    Step::new(Lie::Forge(Forgery::SomeLabels)).told(SPLIT),
];

/// Every person has a mapping of its own.
const TAGS_FOR_ALL: [Step; 2] = [
    Step::new(Lie::Forge(Forgery::SomeLabels)).everybody().told(SPLIT),
    Step::new(Lie::Forge(Forgery::AllOnes)).everybody().told(SPLIT),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn chosen_places_and_mappings_of_ones_own_do_not_tell_what_was_wanted() {
    let scenes = [(1, &PLACES[..]), (2, &TAGS), (3, &TAGS_FOR_ALL)];
    let scenes = scenes.map(|(seed, steps)| tokio::spawn(play(400 + seed, steps)));
    for scene in scenes {
        scene.await.unwrap();
    }
}
