//! Thirty-four things that a malicious server can do, each in two worlds that differ in who talks with whom. The number in a
//! test's name is that of the attack.

use mpir::{noop, sealpir};
use sotto_protocol::ServerParameters;
use sotto_wire::Refused;

use crate::lies::{Act, Call, Change, Forgery, Lie, Pretence, Told, Who};
use crate::stage::{HONEST, Scenario, Secret, at, compare, play, same};
use crate::world::{DEPOSIT_MS, LOOKUP_MS, QUERY_MS, quick};
use crate::{more_seeds, seeds};

const SPLIT: &str = "showing different worlds";
const BAD: &str = "a manifest of the server was refused";
const NOT_TAKEN: &str = "the deposit was not taken";
const DOUBLED: &str = "something else was deposited for this account";
const NO_MAPPING: &str = "no mapping came";
const NO_ANSWER: &str = "no answer came";

/// Plays with this run's seeds, nobody talking and everybody talking.
fn attack(what: &str, scenario: Scenario) {
    compare(&*noop(), what, seeds(), [Secret::Idle, Secret::Talking], scenario);
}

/// Something that happens, and when.
type Moment = (u64, Act);

/// To Alice, or to everybody.
const fn alice(lie: Lie, from: u64, to: u64) -> Told {
    (lie, from..to, Who::Alice)
}

const fn all(lie: Lie, from: u64, to: u64) -> Told {
    (lie, from..to, Who::Everybody)
}

#[test]
fn row_01_one_is_refused_and_others_are_watched() {
    const LIES: &[Told] = &[
        alice(Lie::Refuse(Call::Deposit, Refused::Quota), 4, 12),
        alice(Lie::Refuse(Call::Deposit, Refused::Quota), 40, 52),
    ];
    attack("refused deposits", Scenario { lies: LIES, told: &[DOUBLED], rounds: 130, ..HONEST });
}

#[test]
fn row_02_a_contact_is_kept_out_until_the_end() {
    const LIES: &[Told] = &[(Lie::Refuse(Call::Deposit, Refused::Quota), 40..200, Who::Bob)];
    attack("Bob is kept out", Scenario { lies: LIES, told: &[DOUBLED], arrives: false, ..HONEST });
}

#[test]
fn row_03_every_call_is_refused_for_every_reason() {
    use Call::{Deposit, Manifests, Mapping, Register, Retrieve, Upload, Watch};
    const REASONS: [Refused; 11] = [
        Refused::UnknownSession,
        Refused::UnknownKeys,
        Refused::Quota,
        Refused::RoundClosed,
        Refused::RoundNotReady,
        Refused::Version,
        Refused::Signature,
        Refused::Token,
        Refused::Malformed,
        Refused::Busy,
        Refused::Internal,
    ];
    const DEPOSITS: [Told; 11] = reasons(Deposit, REASONS);
    const MAPPINGS: [Told; 11] = reasons(Mapping, REASONS);
    const RETRIEVALS: [Told; 11] = reasons(Retrieve, REASONS);
    const UPLOADS: [Told; 2] = [
        alice(Lie::Refuse(Upload, Refused::Busy), 10, 80),
        alice(Lie::Refuse(Manifests, Refused::Busy), 10, 80),
    ];
    const SESSIONS: [Told; 4] = [
        alice(Lie::Refuse(Deposit, Refused::UnknownSession), 20, 21),
        alice(Lie::Refuse(Register, Refused::Busy), 20, 24),
        alice(Lie::Refuse(Watch, Refused::Internal), 40, 44),
        alice(Lie::Refuse(Mapping, Refused::UnknownSession), 40, 41),
    ];
    let long = Scenario { rounds: 150, ..HONEST };
    attack("deposits", Scenario { lies: &DEPOSITS, told: &[NOT_TAKEN], ..long });
    attack("mappings", Scenario { lies: &MAPPINGS, told: &[NO_MAPPING], ..long });
    attack("retrievals", Scenario { lies: &RETRIEVALS, told: &[NO_ANSWER], ..long });
    attack("keys", Scenario { lies: &UPLOADS, ..long });
    attack("sessions", Scenario { lies: &SESSIONS, ..long });
}

/// One call, for each reason in two rounds of six.
const fn reasons(call: Call, all: [Refused; 11]) -> [Told; 11] {
    let mut lies = [const { alice(Lie::Silence, 0, 0) }; 11];
    let mut place = 0;
    while place < all.len() {
        let from = 6 + 6 * place as u64;
        lies[place] = alice(Lie::Refuse(call, all[place]), from, from + 2);
        place += 1;
    }
    lies
}

#[test]
fn row_04_events_come_late_early_again_and_in_the_wrong_order() {
    const TIMES: &[Told] = &[
        alice(Lie::EarlyOpen, 10, 13),
        alice(Lie::Late(60), 20, 23),
        alice(Lie::Late(950), 40, 44),
        alice(Lie::Again, 50, 54),
        alice(Lie::Silence, 60, 64),
    ];
    const ORDER: &[Told] = &[alice(Lie::WrongOrder, 20, 24), alice(Lie::OldEvents, 40, 43)];
    const FIRST: &[Told] = &[alice(Lie::ReadyFirst, 40, 43)];
    const UNSIGNED: &[Told] = &[alice(Lie::Unsigned, 40, 43)];
    let long = Scenario { rounds: 140, ..HONEST };
    attack("times", Scenario { lies: TIMES, told: &["was already used"], ..long });
    attack("order", Scenario { lies: ORDER, told: &["was already used"], ..long });
    attack("ready first", Scenario { lies: FIRST, told: &["another history before"], ..long });
    attack("unsigned", Scenario { lies: UNSIGNED, told: &[BAD], ..long });
}

#[test]
fn row_05_how_long_ago_something_happened_is_a_lie() {
    const LIES: &[Told] = &[
        alice(Lie::ElapsedAny, 4, 18),
        alice(Lie::Elapsed(u32::MAX), 40, 44),
        alice(Lie::Elapsed(DEPOSIT_MS - 1), 46, 50),
        alice(Lie::Elapsed(LOOKUP_MS - 1), 52, 55),
        alice(Lie::Elapsed(QUERY_MS), 56, 58),
    ];
    attack("elapsed", Scenario { lies: LIES, rounds: 130, ..HONEST });
}

/// Also that those who talk are told of it.
#[test]
fn row_06_people_are_shown_different_manifests() {
    const SEED: &[Told] = &[alice(Lie::Forge(Forgery::OnlyTheirOwn), 40, 43)];
    const MORE: &[Told] = &[alice(Lie::Forge(Forgery::MoreDeposits), 40, 43)];
    const OWN: &[Told] = &[all(Lie::Forge(Forgery::OnlyTheirOwn), 40, 43)];
    const ONE: &[Told] = &[alice(Lie::Forge(Forgery::OnlyTheirOwn), 40, 41)];
    const CHAIN: &[Told] = &[alice(Lie::Forge(Forgery::Chain), 40, 43)];
    for (what, lies) in [("fewer", SEED), ("more", MORE), ("their own", OWN), ("one round", ONE)] {
        attack(what, Scenario { lies, told: &[SPLIT], rounds: 130, ..HONEST });
    }
    attack("another chain", Scenario { lies: CHAIN, told: &[BAD], arrives: false, ..HONEST });
}

#[test]
fn row_07_filters_are_crafted() {
    const FILTERS: &[Told] = &[
        alice(Lie::Forge(Forgery::AllOnes), 20, 23),
        alice(Lie::Forge(Forgery::AllZeros), 30, 33),
        alice(Lie::Forge(Forgery::SomeLabels), 40, 43),
    ];
    const FOR_ALL: &[Told] =
        &[all(Lie::Forge(Forgery::SomeLabels), 20, 23), all(Lie::Forge(Forgery::AllOnes), 40, 43)];
    const OTHER: &[Told] = &[alice(Lie::Forge(Forgery::OtherMapping), 40, 43)];
    const BYTES: &[Told] = &[
        alice(Lie::Mapping(Change::Noise), 20, 23),
        alice(Lie::Mapping(Change::Short), 30, 33),
        alice(Lie::Mapping(Change::Long), 40, 43),
    ];
    let long = Scenario { rounds: 130, ..HONEST };
    attack("filters", Scenario { lies: FILTERS, told: &[SPLIT], ..long });
    // All see the same, and nobody can tell.
    attack("everybody's filters", Scenario { lies: FOR_ALL, ..long });
    attack("another mapping", Scenario { lies: OTHER, told: &["the mapping of round"], ..long });
    attack(
        "a damaged mapping",
        Scenario { lies: BYTES, told: &[NO_MAPPING, "the mapping of round"], ..long },
    );
}

#[test]
fn row_08_boxes_stand_in_other_places() {
    const PLACES: &[Told] = &[
        alice(Lie::Forge(Forgery::OtherBuckets), 20, 23),
        alice(Lie::Forge(Forgery::OtherPositions), 30, 33),
        alice(Lie::Forge(Forgery::OneBoxEverywhere), 40, 43),
    ];
    const SWAPPED: &[Told] = &[alice(Lie::Forge(Forgery::SwappedBoxes), 8, 60)];
    let long = Scenario { rounds: 150, ..HONEST };
    attack("places", Scenario { lies: PLACES, told: &[SPLIT], ..long });
    attack("labels", Scenario { lies: SWAPPED, told: &["could not be opened"], ..long });
}

/// A seed that was chosen when the deposits were known is refused, and whoever showed it is not believed again.
#[test]
fn row_09_a_seed_is_ground() {
    const LIES: &[Told] = &[alice(Lie::Forge(Forgery::OtherSeed), 40, 43)];
    let told = &[BAD, "fixed beforehand"];
    attack("a ground seed", Scenario { lies: LIES, told, arrives: false, ..HONEST });
}

#[test]
fn row_10_labels_are_there_twice() {
    const LIES: &[Told] =
        &[alice(Lie::Forge(Forgery::Twice), 20, 30), all(Lie::Forge(Forgery::Twice), 40, 43)];
    attack("equal labels", Scenario { lies: LIES, told: &[SPLIT], rounds: 130, ..HONEST });
}

#[test]
fn row_11_rounds_are_told_again_or_jump() {
    const LIES: &[Told] = &[alice(Lie::Far, 20, 23), alice(Lie::ReplaySeeds, 40, 43)];
    const BACK: &[(u64, Act)] = &[(at(40, 500), Act::Restart(30))];
    const AHEAD: &[(u64, Act)] = &[(at(40, 500), Act::Restart(44))];
    attack("a far round", Scenario { lies: LIES, told: &["further ahead", BAD], rounds: 130, ..HONEST });
    let back = &["was already used", BAD];
    attack("back", Scenario { acts: BACK, told: back, rounds: 150, ..HONEST });
    attack("ahead", Scenario { acts: AHEAD, rounds: 150, ..HONEST });
}

#[test]
fn row_12_answers_are_wrong() {
    const LIES: &[Told] = &[
        alice(Lie::Answer(Change::Flip), 6, 12),
        alice(Lie::Answer(Change::FlipSome), 36, 46),
        alice(Lie::Answer(Change::Noise), 50, 53),
        alice(Lie::Answer(Change::Short), 60, 63),
        alice(Lie::Answer(Change::Long), 66, 69),
    ];
    attack(
        "answers",
        Scenario { lies: LIES, told: &["could not be opened", NO_ANSWER], rounds: 150, ..HONEST },
    );
}

#[test]
fn row_12_answers_of_the_real_engine_are_wrong() {
    const LIES: &[Told] = &[
        alice(Lie::Answer(Change::FlipSome), 1, 2),
        alice(Lie::Answer(Change::Noise), 2, 3),
        alice(Lie::Answer(Change::Short), 3, 4),
    ];
    let scenario = Scenario { lies: LIES, says: &[1], rounds: 5, arrives: false, ..HONEST };
    compare(&*sealpir(), "real answers", 0..1, [Secret::Idle, Secret::Talking], scenario);
}

#[test]
fn row_13_answers_are_withheld() {
    const LATE: &[Told] = &[
        alice(Lie::Delay(Call::Deposit, 300), 10, 13),
        alice(Lie::Delay(Call::Deposit, 950), 20, 23),
        alice(Lie::Delay(Call::Mapping, LOOKUP_MS as u64 + 100), 30, 33),
        alice(Lie::Delay(Call::Retrieve, 2000), 40, 44),
        alice(Lie::Delay(Call::Manifests, 2000), 20, 50),
    ];
    const NEVER: &[Told] = &[
        alice(Lie::Withhold(Call::Deposit), 10, 13),
        alice(Lie::Withhold(Call::Mapping), 20, 23),
        alice(Lie::Withhold(Call::Retrieve), 40, 43),
    ];
    attack("late answers", Scenario { lies: LATE, told: &[NO_MAPPING], rounds: 140, ..HONEST });
    let told = &[NOT_TAKEN, NO_MAPPING];
    attack("no answers", Scenario { lies: NEVER, told, rounds: 140, ..HONEST });
}

#[test]
fn row_14_there_is_said_to_be_very_much() {
    const LIES: &[Told] = &[
        alice(Lie::Forge(Forgery::Counts(20_000, 7_000)), 30, 32),
        alice(Lie::Forge(Forgery::Counts(1 << 24, 1 << 23)), 40, 43),
        alice(Lie::Forge(Forgery::Counts(4, 1 << 20)), 50, 53),
        alice(Lie::Forge(Forgery::Counts(u64::MAX, u32::MAX)), 56, 58),
    ];
    let told = &["size of the buckets", SPLIT];
    attack("counts", Scenario { lies: LIES, told, arrives: false, rounds: 130, ..HONEST });
}

/// What nobody could serve is not asked for, and what cannot be read is not read.
#[test]
fn row_35_arrangement_and_hint_are_forged() {
    const LIES: &[Told] =
        &[alice(Lie::Forge(Forgery::Profile), 30, 33), alice(Lie::Forge(Forgery::Hint), 40, 43)];
    let told = &["impossible sizes", "is not what the server has announced", SPLIT];
    attack("arrangement and hint", Scenario { lies: LIES, told, arrives: false, rounds: 130, ..HONEST });
}

#[test]
fn row_15_rounds_are_empty() {
    const LIES: &[Told] = &[
        alice(Lie::Forge(Forgery::Empty), 20, 23),
        all(Lie::Forge(Forgery::Empty), 40, 46),
        alice(Lie::Forge(Forgery::Counts(0, 0)), 60, 61),
    ];
    attack("empty rounds", Scenario { lies: LIES, arrives: false, rounds: 130, ..HONEST });
}

/// What changes under an account is refused, and asked for again at a pace that anybody can tell.
#[test]
fn row_16_parameters_change_under_the_account() {
    const CHANGES: [(Pretence, &[Moment], &[&str]); 5] = [
        (Pretence::Retrieve, &changed(Pretence::Retrieve), &["changed its parameters"]),
        (Pretence::Buckets, &changed(Pretence::Buckets), &["changed its parameters"]),
        (Pretence::Choices, &changed(Pretence::Choices), &["the server"]),
        (Pretence::Engine, &changed(Pretence::Engine), &["PIR engine"]),
        (Pretence::ClosedLoop, &changed(Pretence::ClosedLoop), &["changed its parameters"]),
    ];
    // The first two are told like the last, which stands for them in the gate.
    let left_out = if more_seeds() { 0 } else { 2 };
    for (pretence, acts, told) in CHANGES.into_iter().skip(left_out) {
        attack(&format!("{pretence:?}"), Scenario { acts, told, rounds: 140, ..HONEST });
    }
}

const fn changed(pretence: Pretence) -> [(u64, Act); 3] {
    [
        (at(40, 500), Act::Pretend(pretence)),
        (at(40, 510), Act::Cut(Who::Everybody)),
        (at(52, 0), Act::Pretend(Pretence::None)),
    ]
}

#[test]
fn row_19_rounds_and_slots_are_short() {
    let scenario = Scenario {
        parameters: |parameters| ServerParameters {
            round_ms: 200,
            deposit_ms: 50,
            lookup_ms: 60,
            query_ms: 120,
            ..parameters
        },
        rounds: 130,
        ..HONEST
    };
    attack("short rounds", scenario);
}

#[test]
fn row_20_keys_are_said_to_be_lost() {
    const LIES: &[Told] = &[
        alice(Lie::Refuse(Call::Retrieve, Refused::UnknownKeys), 6, 12),
        alice(Lie::Refuse(Call::Retrieve, Refused::UnknownKeys), 40, 50),
    ];
    attack("unknown keys", Scenario { lies: LIES, told: &[NO_ANSWER], rounds: 140, ..HONEST });
}

#[test]
fn row_21_the_session_is_said_to_be_lost_at_every_call() {
    const fn lost(call: Call, from: u64) -> Told {
        alice(Lie::Refuse(call, Refused::UnknownSession), from, from + 2)
    }
    const LIES: &[Told] = &[
        lost(Call::Deposit, 10),
        lost(Call::Mapping, 20),
        lost(Call::Retrieve, 30),
        lost(Call::Watch, 40),
        lost(Call::Deposit, 41),
        lost(Call::Register, 50),
        lost(Call::Mapping, 50),
        lost(Call::Upload, 56),
        lost(Call::Manifests, 58),
    ];
    attack("unknown session", Scenario { lies: LIES, rounds: 150, ..HONEST });
}

#[test]
fn row_22_the_clock_is_wrong_and_rounds_jump() {
    const CLOCK: &[(u64, Act)] = &[
        (at(20, 500), Act::Clock(400_000)),
        (at(40, 500), Act::Clock(-3_600_000)),
        (at(44, 500), Act::Restart(400)),
        (at(60, 500), Act::Clock(0)),
    ];
    attack("the clock", Scenario { acts: CLOCK, arrives: false, rounds: 130, ..HONEST });
}

#[test]
fn row_23_connections_break() {
    const CUTS: &[(u64, Act)] = &[
        (at(10, 50), Act::Cut(Who::Alice)),
        (at(20, DEPOSIT_MS as u64), Act::Cut(Who::Alice)),
        (at(30, 20 + LOOKUP_MS as u64), Act::Cut(Who::Alice)),
        (at(40, 20 + QUERY_MS as u64), Act::Cut(Who::Alice)),
        (at(41, 0), Act::Cut(Who::Alice)),
        (at(42, 999), Act::Cut(Who::Everybody)),
        (at(44, 500), Act::Cut(Who::Bob)),
    ];
    attack("cuts", Scenario { acts: CUTS, rounds: 140, ..HONEST });
}

#[test]
fn row_24_a_mappings_last_byte_comes_just_before_the_look_up_ends() {
    const LIES: &[Told] = &[
        alice(Lie::LastByte(LOOKUP_MS as u64 - 1), 10, 14),
        alice(Lie::LastByte(LOOKUP_MS as u64), 20, 24),
        alice(Lie::LastByte(LOOKUP_MS as u64 - 10), 30, 34),
        alice(Lie::LastByte(LOOKUP_MS as u64 - 1), 40, 44),
        alice(Lie::Forge(Forgery::AllOnes), 40, 44),
    ];
    let told = &["the look-up took too long"];
    attack("the last byte", Scenario { lies: LIES, told, rounds: 140, ..HONEST });
}

#[test]
fn row_25_uploads_are_read_slowly() {
    const LIES: &[Told] = &[all(Lie::SlowRead(90), 0, 3)];
    let scenario = Scenario { lies: LIES, says: &[1], rounds: 5, arrives: false, ..HONEST };
    compare(&*sealpir(), "slow reads", 0..1, [Secret::Idle, Secret::Talking], scenario);
    const SLOW: &[Told] = &[alice(Lie::SlowRead(400), 10, 50)];
    attack("slow reads", Scenario { lies: SLOW, rounds: 130, ..HONEST });
}

#[test]
fn row_26_another_server_answers() {
    const ROOT: [(u64, Act); 3] = changed(Pretence::Root);
    const HISTORY: &[(u64, Act)] = &[(at(40, 500), Act::Restart(41))];
    attack("another key", Scenario { acts: &ROOT, told: &["does not hold the key"], rounds: 140, ..HONEST });
    attack("another history", Scenario { acts: HISTORY, told: &["the same history"], rounds: 140, ..HONEST });
}

#[test]
fn row_27_manifests_are_missing() {
    const GAPS: &[Told] = &[
        alice(Lie::Silence, 10, 12),
        alice(Lie::Silence, 20, 24),
        alice(Lie::Refuse(Call::Manifests, Refused::Quota), 20, 27),
        alice(Lie::Silence, 40, 41),
        alice(Lie::Delay(Call::Manifests, 700), 40, 44),
        alice(Lie::Silence, 50, 51),
        alice(Lie::Withhold(Call::Manifests), 50, 52),
    ];
    attack("gaps", Scenario { lies: GAPS, told: &["missed manifests"], rounds: 140, ..HONEST });
}

#[test]
fn row_28_announcements_flood() {
    const LIES: &[Told] = &[alice(Lie::Flood, 40, 43), alice(Lie::OldEvents, 44, 46)];
    let scenario = Scenario { lies: LIES, told: &[BAD], rounds: 130, ..HONEST };
    attack("a flood", scenario);
    let told = &play(&*noop(), seeds().start, Secret::Talking, scenario).told[0];
    assert!(told.warnings.len() < 100, "{}", told.warnings.len());
    assert!(!told.troubles.iter().any(|trouble| trouble.contains("composing")), "{told:?}");
}

#[test]
fn row_29_traffic_of_a_group_is_watched() {
    for secrets in [[Secret::Pairs, Secret::Talking], [Secret::Idle, Secret::Pairs]] {
        compare(&*noop(), "a group", seeds(), secrets, HONEST);
    }
}

/// Whoever else holds an invitation is told of, and nobody else sees that.
#[test]
fn row_30_an_invitation_is_intercepted() {
    let told = &["somebody else holds the invitation"];
    // Requests of both are looked for in every round: the second has a turn for certain before the keys are agreed on.
    let parameters = |parameters| ServerParameters { retrieve: 6, buckets: 12, ..parameters };
    let scenario = Scenario { told, arrives: false, rounds: 100, parameters, ..HONEST };
    compare(&*noop(), "two answers", seeds(), [Secret::Idle, Secret::Intercepted], scenario);
}

#[test]
fn row_31_old_rounds_are_offered_to_a_restored_state() {
    const SAME: &[(u64, Act)] = &[(at(50, 500), Act::Stop), (at(50, 700), Act::Restore)];
    const OLD: &[(u64, Act)] =
        &[(at(50, 500), Act::Stop), (at(50, 600), Act::Restart(20)), (at(50, 700), Act::Start)];
    let scenario = Scenario { arrives: false, says: &[2, 40, 52], rounds: 110, ..HONEST };
    attack("a restored state", Scenario { acts: SAME, ..scenario });
    attack("old rounds", Scenario { acts: OLD, told: &["was already used"], rounds: 130, ..scenario });
}

/// Storing takes as long as there is to store, and until the last moment.
#[test]
fn row_32_how_long_storing_takes_shows_nowhere() {
    use sotto_participant::host::Work;
    let paces: [crate::machine::Pace; 3] = [
        |work| match work {
            Work::Compose | Work::Take | Work::Person => core::time::Duration::from_millis(70),
            _ => quick(work),
        },
        |work| match work {
            Work::Compose => core::time::Duration::from_millis(u64::from(DEPOSIT_MS) + 1),
            Work::Take | Work::Believe => core::time::Duration::from_millis(40),
            _ => quick(work),
        },
        |work| if work == Work::Person { core::time::Duration::from_millis(900) } else { quick(work) },
    ];
    for seed in seeds() {
        let idle = play(&*noop(), seed, Secret::Idle, HONEST);
        for (place, pace) in paces.into_iter().enumerate() {
            let slow = play(&*noop(), seed, Secret::Talking, Scenario { pace, ..HONEST });
            same(&format!("pace {place}, seed {seed}"), &idle, &slow);
        }
    }
}

/// What Carol hears of Alice, and when, is the same whether Bob acknowledges, is kept out, or hears nothing.
#[test]
fn row_33_turns_do_not_follow_acknowledgements() {
    const OUT: &[Told] = &[(Lie::Refuse(Call::Deposit, Refused::Quota), 20..200, Who::Bob)];
    const DEAF: &[Told] = &[(Lie::Refuse(Call::Retrieve, Refused::Quota), 20..200, Who::Bob)];
    for seed in seeds() {
        let hears = |lies| play(&*noop(), seed, Secret::Pairs, Scenario { lies, ..HONEST });
        let honest = hears(&[]);
        assert!(honest.told[2].found.len() >= 4, "{:?}", honest.told[2]);
        for lies in [OUT, DEAF] {
            let lied = hears(lies);
            assert_eq!(honest.told[2], lied.told[2], "seed {seed}");
            assert!(honest.told[0] != lied.told[0], "seed {seed}: Alice is told nothing");
        }
    }
}

#[test]
fn row_34_people_are_absent() {
    const AWAY: &[(u64, Act)] = &[(at(40, 500), Act::Stop), (at(60, 300), Act::Start)];
    const FOR_LONG: &[(u64, Act)] = &[(at(20, 20), Act::Stop), (at(90, 950), Act::Start)];
    attack("away", Scenario { acts: AWAY, says: &[2, 36, 64], rounds: 140, ..HONEST });
    attack("away for long", Scenario { acts: FOR_LONG, says: &[2, 12, 94], rounds: 240, ..HONEST });
}
