//! The attacks of `attacks` on what spreads, at a server that spreads calls over most of a round, and over more than one: two
//! worlds that differ in who talks with whom look the same all the same.

use mpir::noop;
use sotto_protocol::ServerParameters;
use sotto_wire::Refused;

use crate::lies::{Act, Call, Forgery, Lie, Told, Who};
use crate::stage::{HONEST, Scenario, Secret, at, compare};
use crate::world::{LOOKUP_MS, QUERY_MS};
use crate::{more_seeds, seeds};

/// Most of a round, and nearly all the time that there is.
const SPREADS: [fn(ServerParameters) -> ServerParameters; 2] = [
    |parameters| ServerParameters { deposit_spread_ms: 700, query_spread_ms: 500, ..parameters },
    |parameters| ServerParameters { deposit_spread_ms: 850, query_spread_ms: 1650, ..parameters },
];

fn attack(what: &str, scenario: Scenario) {
    // What overlaps most stands for both in the gate.
    let left_out = if more_seeds() { 0 } else { 1 };
    for (number, parameters) in SPREADS.into_iter().enumerate().skip(left_out) {
        let what = format!("{what}, spread {number}");
        let scenario = Scenario { parameters, ..scenario };
        compare(&*noop(), &what, seeds(), [Secret::Idle, Secret::Talking], scenario);
    }
}

const fn alice(lie: Lie, from: u64, to: u64) -> Told {
    (lie, from..to, Who::Alice)
}

#[test]
fn an_honest_server() {
    attack("honest", Scenario { rounds: 130, ..HONEST });
}

#[test]
fn times_are_lied_about() {
    const LIES: &[Told] = &[
        alice(Lie::ElapsedAny, 4, 18),
        alice(Lie::Elapsed(u32::MAX), 40, 44),
        alice(Lie::Elapsed(400), 46, 50),
        alice(Lie::Elapsed(LOOKUP_MS + 200), 52, 55),
        alice(Lie::Elapsed(LOOKUP_MS + QUERY_MS), 56, 60),
        alice(Lie::Elapsed(1000), 62, 66),
    ];
    attack("elapsed", Scenario { lies: LIES, rounds: 150, arrives: false, ..HONEST });
}

#[test]
fn events_come_late_early_again_and_in_the_wrong_order() {
    const TIMES: &[Told] = &[
        alice(Lie::EarlyOpen, 10, 13),
        alice(Lie::Late(60), 20, 23),
        alice(Lie::Late(950), 40, 44),
        alice(Lie::Again, 50, 54),
        alice(Lie::Silence, 60, 64),
    ];
    const ORDER: &[Told] = &[alice(Lie::WrongOrder, 20, 24), alice(Lie::OldEvents, 40, 43)];
    const FIRST: &[Told] = &[alice(Lie::ReadyFirst, 40, 43)];
    let long = Scenario { rounds: 150, arrives: false, ..HONEST };
    attack("times", Scenario { lies: TIMES, ..long });
    attack("order", Scenario { lies: ORDER, ..long });
    attack("ready first", Scenario { lies: FIRST, ..long });
}

#[test]
fn calls_are_refused_and_withheld() {
    const LIES: &[Told] = &[
        alice(Lie::Refuse(Call::Deposit, Refused::Busy), 4, 8),
        alice(Lie::Refuse(Call::Mapping, Refused::Busy), 10, 14),
        alice(Lie::Refuse(Call::Retrieve, Refused::UnknownKeys), 16, 20),
        alice(Lie::Refuse(Call::Retrieve, Refused::UnknownSession), 22, 23),
        alice(Lie::Withhold(Call::Mapping), 30, 33),
        alice(Lie::Delay(Call::Retrieve, 2000), 40, 44),
        alice(Lie::Delay(Call::Deposit, 950), 50, 53),
        alice(Lie::Refuse(Call::Upload, Refused::Busy), 54, 90),
    ];
    attack("calls", Scenario { lies: LIES, rounds: 150, arrives: false, ..HONEST });
}

#[test]
fn connections_break_and_answers_are_withheld_while_people_leave() {
    const ACTS: &[(u64, Act)] = &[
        (at(20, 350), Act::Cut(Who::Alice)),
        (at(30, 900), Act::Cut(Who::Everybody)),
        (at(44, 650), Act::Stop),
        (at(48, 150), Act::Start),
        (at(60, 20), Act::Cut(Who::Everybody)),
    ];
    const LIES: &[Told] =
        &[alice(Lie::Withhold(Call::Retrieve), 126, 140), alice(Lie::Forge(Forgery::OnlyTheirOwn), 80, 83)];
    attack("breaks", Scenario { acts: ACTS, lies: LIES, rounds: 130, arrives: false, ..HONEST });
}
