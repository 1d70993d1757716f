//! Whether what was fetched could be read shows nowhere, to the end of the last connection.

use mpir::noop;

use crate::lies::{Call, Change, Lie, Told, Who};
use crate::seeds;
use crate::stage::{HONEST, Scenario, Secret, play, same};

/// A server that answers so that a box can be read or not, as one predicate of an earlier query holds, sees which it was
/// if anything depends on it: whether a text was acknowledged, and by that, once, when somebody left who waited for it. All
/// that everybody's wires show, leaving included, is the same whether answers are honest, spoiled or never come.
#[test]
fn attack_m1_whether_boxes_could_be_read_does_not_show_until_the_connection_has_ended() {
    const ALL: &[Told] = &[(Lie::Answer(Change::Flip), 40..200, Who::Alice)];
    const SOME: &[Told] = &[(Lie::Answer(Change::FlipSome), 40..200, Who::Alice)];
    const NOISE: &[Told] = &[(Lie::Answer(Change::Noise), 40..200, Who::Alice)];
    const LAST: &[Told] = &[(Lie::Answer(Change::Flip), 90..200, Who::Alice)];
    let scenario = Scenario { says: &[2, 40, 44, 90, 94, 98, 104, 108], ..HONEST };
    for seed in seeds() {
        let honest = play(&*noop(), seed, Secret::Talking, scenario);
        for (what, lies) in [("all", ALL), ("some", SOME), ("noise", NOISE), ("the last", LAST)] {
            let spoiled = play(&*noop(), seed, Secret::Talking, Scenario { lies, ..scenario });
            same(&format!("{what}, seed {seed}"), &honest, &spoiled);
            let calls = |seen: &Vec<crate::server::Seen>| {
                seen.iter().filter(|seen| seen.call == Call::Retrieve).count()
            };
            assert!(calls(&spoiled.seen[0]) >= 110, "{what}, seed {seed}");
            // It made a difference to the person.
            assert!(honest.told[0] != spoiled.told[0], "{what}, seed {seed}");
        }
    }
}
