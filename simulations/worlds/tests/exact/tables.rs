//! The attacks of `attacks` on what lies in a round, at a server with slots: where nothing is downloaded to find a box, two
//! worlds that differ in who talks with whom look the same all the same.

use mpir::noop;
use sotto_protocol::client::Client;
use sotto_protocol::{CodeKind, RoundMode, ServerParameters};
use sotto_wire::Refused;

use crate::lies::{Act, Call, Change, Forgery, Lie, Pretence, Told, Who};
use crate::machine::{Machine, Memory};
use crate::stage::{HONEST, Scenario, Secret, at, compare, play};
use crate::world::{LOOKUP_MS, QUERY_MS, World, parameters, quick};

const SLOTS: Scenario = Scenario {
    parameters: |parameters| ServerParameters { code: CodeKind::Partitioned, buckets: 15, ..parameters },
    says: &[2, 70, 74, 78],
    rounds: 150,
    ..HONEST
};

/// The same where queries stand, and people take longer to meet.
const STANDING: Scenario = Scenario {
    parameters: |parameters| ServerParameters { code: CodeKind::Standing, buckets: 15, ..parameters },
    says: &[2, 130, 134, 138],
    rounds: 230,
    ..HONEST
};

/// Worlds of as many seeds as were asked for, or one.
fn seeds() -> core::ops::Range<u64> {
    if crate::more_seeds() { crate::seeds() } else { 0..1 }
}

fn attack(what: &str, scenario: Scenario) {
    compare(&*noop(), &format!("slots, {what}"), seeds(), [Secret::Idle, Secret::Talking], scenario);
}

const fn alice(lie: Lie, from: u64, to: u64) -> Told {
    (lie, from..to, Who::Alice)
}

const fn all(lie: Lie, from: u64, to: u64) -> Told {
    (lie, from..to, Who::Everybody)
}

#[test]
fn an_honest_server_with_slots() {
    const LONG: Scenario = Scenario { rounds: 230, ..SLOTS };
    attack("honest", LONG);
    let played = play(&*noop(), 1, Secret::Talking, LONG);
    assert!(played.seen.iter().flatten().all(|seen| seen.call != Call::Mapping));
    let heard =
        |person: usize, words: &str| played.told[person].texts.iter().any(|text| text.starts_with(words));
    assert!(heard(0, "much to say") && heard(2, "much to say to Carol"));
    assert!(heard(1, "to all") && heard(2, "to all"));
}

/// Whether somebody meets somebody does not show, whatever becomes of the knocks.
#[test]
fn boxes_and_knocks_are_displaced_while_people_meet() {
    const EARLY: &[Told] = &[
        all(Lie::Forge(Forgery::OtherBuckets), 4, 8),
        alice(Lie::Forge(Forgery::OtherPositions), 8, 12),
        alice(Lie::Forge(Forgery::OneBoxEverywhere), 12, 16),
        alice(Lie::Forge(Forgery::OnlyTheirOwn), 16, 20),
        alice(Lie::Forge(Forgery::SwappedBoxes), 20, 24),
        alice(Lie::Forge(Forgery::Empty), 24, 26),
        alice(Lie::Answer(Change::FlipSome), 28, 32),
    ];
    attack("meeting", Scenario { lies: EARLY, says: &[2, 90, 94], rounds: 170, ..SLOTS });
}

#[test]
fn boxes_stand_in_other_places() {
    const LIES: &[Told] = &[
        alice(Lie::Forge(Forgery::OtherBuckets), 70, 73),
        alice(Lie::Forge(Forgery::OtherPositions), 76, 79),
        alice(Lie::Forge(Forgery::OneBoxEverywhere), 82, 85),
        alice(Lie::Forge(Forgery::SwappedBoxes), 88, 91),
        alice(Lie::Forge(Forgery::MoreDeposits), 94, 97),
        alice(Lie::Forge(Forgery::OnlyTheirOwn), 100, 103),
        all(Lie::Forge(Forgery::Empty), 106, 110),
    ];
    attack("places", Scenario { lies: LIES, told: &["showing different worlds"], rounds: 190, ..SLOTS });
}

#[test]
fn what_is_announced_of_a_table_cannot_be() {
    const LIES: &[Told] = &[
        alice(Lie::Forge(Forgery::Counts(33, 8)), 70, 72),
        alice(Lie::Forge(Forgery::Counts(34, 7)), 74, 76),
        alice(Lie::Forge(Forgery::Counts(1 << 24, 1 << 22)), 78, 80),
        alice(Lie::Forge(Forgery::Counts(33 << 18, 1 << 20)), 82, 84),
        alice(Lie::Forge(Forgery::Counts(0, 0)), 86, 87),
        alice(Lie::Forge(Forgery::Profile), 90, 92),
        alice(Lie::Forge(Forgery::Hint), 94, 96),
    ];
    let told = &["size of the buckets", "impossible sizes"];
    attack("counts", Scenario { lies: LIES, told, arrives: false, rounds: 160, ..SLOTS });
    const SEED: &[Told] = &[alice(Lie::Forge(Forgery::OtherSeed), 80, 83)];
    attack("a ground seed", Scenario { lies: SEED, told: &["fixed beforehand"], arrives: false, ..SLOTS });
}

#[test]
fn answers_are_wrong_late_or_none_and_sessions_are_lost() {
    const LIES: &[Told] = &[
        alice(Lie::Answer(Change::Flip), 6, 12),
        alice(Lie::Answer(Change::Short), 66, 70),
        alice(Lie::Delay(Call::Retrieve, LOOKUP_MS as u64 + QUERY_MS as u64), 74, 78),
        alice(Lie::Withhold(Call::Retrieve), 80, 83),
        alice(Lie::Refuse(Call::Deposit, Refused::Quota), 84, 88),
        alice(Lie::Refuse(Call::Retrieve, Refused::UnknownSession), 90, 92),
        alice(Lie::Refuse(Call::Register, Refused::Slot), 90, 91),
        alice(Lie::Refuse(Call::Retrieve, Refused::UnknownKeys), 94, 97),
    ];
    attack("answers", Scenario { lies: LIES, rounds: 190, ..SLOTS });
}

/// Whatever a server does to a query that stands, it sees nothing but that and the next one, which is due at the same time.
#[test]
fn queries_that_stand_are_forgotten_unanswered_and_answered_wrongly() {
    const LIES: &[Told] = &[
        alice(Lie::Answer(Change::Flip), 6, 12),
        alice(Lie::Refuse(Call::RetrieveAgain, Refused::UnknownQuery), 100, 109),
        alice(Lie::Withhold(Call::RetrieveAgain), 112, 115),
        alice(Lie::Refuse(Call::Retrieve, Refused::Busy), 120, 122),
        alice(Lie::Refuse(Call::RetrieveAgain, Refused::Malformed), 126, 129),
        alice(Lie::Answer(Change::FlipSome), 132, 136),
        alice(Lie::Delay(Call::RetrieveAgain, LOOKUP_MS as u64 + QUERY_MS as u64), 138, 142),
        alice(Lie::Refuse(Call::RetrieveAgain, Refused::UnknownSession), 146, 148),
        alice(Lie::Refuse(Call::RetrieveAgain, Refused::UnknownKeys), 150, 152),
        alice(Lie::Answer(Change::Short), 154, 157),
    ];
    compare(
        &*noop(),
        "standing, answers",
        seeds(),
        [Secret::Idle, Secret::Talking],
        Scenario { lies: LIES, rounds: 290, ..STANDING },
    );
}

/// Rounds of one epoch are shown with tables of other sizes, in other places, and under histories that fork.
#[test]
fn tables_change_while_queries_stand() {
    const LIES: &[Told] = &[
        alice(Lie::Forge(Forgery::OtherBuckets), 98, 101),
        alice(Lie::Forge(Forgery::OnlyTheirOwn), 106, 108),
        alice(Lie::Forge(Forgery::Counts(33, 8)), 114, 116),
        alice(Lie::Forge(Forgery::Counts(66, 14)), 122, 124),
        alice(Lie::Forge(Forgery::SwappedBoxes), 130, 132),
    ];
    let told = &["size of the buckets", "showing different worlds"];
    compare(
        &*noop(),
        "standing, tables",
        seeds(),
        [Secret::Idle, Secret::Talking],
        Scenario { lies: LIES, told, arrives: false, ..STANDING },
    );
}

/// Contacts look for somebody in the slot that they were told. A server that could give another one later would make an
/// account deaf and dumb for ever, long after it has stopped lying.
#[test]
fn who_has_a_slot_takes_no_other() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let parameters = (SLOTS.parameters)(parameters(&*noop(), RoundMode::Deadline));
        let mut world = World::new(1, parameters, 2);
        let alice = world.client("Alice", 3);
        let alice = world.start(alice, quick).await;
        world.until(at(3, 0)).await;
        let client = alice.handle.stop().await.unwrap();
        let slot = client.slot().unwrap().clone();
        let kept = client.snapshot();
        world.server.pretend(Pretence::Slot);
        let (wire, disk) = (world.wire(), Memory::new(world.began));
        let machine = Machine::new(wire.dial.clone(), world.began, world.rng("again"), quick);
        let refused = world.start_on(client, machine, wire, disk.clone()).await.err().unwrap();
        assert!(refused.to_string().contains("not a Sotto server"), "{refused}");
        assert!(disk.snapshots().is_empty(), "nothing is kept of it");
        world.server.pretend(Pretence::None);
        let alice = world.again(alice, Client::restore(&kept).unwrap(), quick).await;
        let client = alice.handle.stop().await.unwrap();
        assert!(*client.slot().unwrap() == slot);
    });
}

#[test]
fn people_go_and_come_back_connections_break_and_parameters_change() {
    const ACTS: &[(u64, Act)] = &[
        (at(20, 300), Act::Cut(Who::Alice)),
        (at(70, 500), Act::Stop),
        (at(80, 300), Act::Start),
        (at(100, 500), Act::Pretend(Pretence::Buckets)),
        (at(100, 510), Act::Cut(Who::Everybody)),
        (at(110, 0), Act::Pretend(Pretence::None)),
    ];
    attack("comings and goings", Scenario { acts: ACTS, says: &[2, 66, 90], rounds: 190, ..SLOTS });
    const SAME: &[(u64, Act)] = &[(at(90, 500), Act::Stop), (at(90, 700), Act::Restore)];
    attack("a restored state", Scenario { acts: SAME, arrives: false, says: &[2, 70, 92], ..SLOTS });
}
