//! The server refuses one account one kind of call in rounds of its choice. What the account does next must not tell
//! whether it lost a message or cover, or anything that it wanted; and what was lost comes when the refusal ends.

use sotto_wire::Refused;

use crate::lies::{Call, Lie};
use crate::scene::{Step, play};

const DEPOSITS: [Step; 4] = [
    Step::new(Lie::Refuse(Call::Deposit, Refused::Quota)).told("the deposit was not taken"),
    Step::new(Lie::Refuse(Call::Deposit, Refused::RoundClosed)).told("the deposit was not taken"),
    // Asked again while the round lasts.
    Step::new(Lie::Refuse(Call::Deposit, Refused::Busy)).told("the deposit was not taken"),
    // Registers again and again.
    Step::new(Lie::Refuse(Call::Deposit, Refused::UnknownSession)).trail(4).sizes(),
];

const MAPPINGS: [Step; 4] = [
    Step::new(Lie::Refuse(Call::Mapping, Refused::Quota)).told("no mapping came"),
    Step::new(Lie::Refuse(Call::Mapping, Refused::Busy)).told("no mapping came"),
    Step::new(Lie::Refuse(Call::Mapping, Refused::Internal)).told("no mapping came"),
    // Not refused, but too late for the look-up.
    Step::new(Lie::Delay(Call::Mapping, 700)).told("no mapping came"),
];

const RETRIEVALS: [Step; 4] = [
    Step::new(Lie::Refuse(Call::Retrieve, Refused::RoundClosed)).told("no answer came"),
    Step::new(Lie::Refuse(Call::Retrieve, Refused::Busy)).trail(5).told("no answer came"),
    // Uploads its keys again and again.
    Step::new(Lie::Refuse(Call::Retrieve, Refused::UnknownKeys)).trail(5).told("no answer came"),
    Step::new(Lie::Delay(Call::Retrieve, 2000)).trail(5),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn refusing_one_account_tells_nothing_about_it_and_loses_nothing() {
    let scenes = [(1, &DEPOSITS), (2, &MAPPINGS), (3, &RETRIEVALS)];
    let scenes = scenes.map(|(seed, steps)| tokio::spawn(play(300 + seed, steps)));
    for scene in scenes {
        scene.await.unwrap();
    }
}
