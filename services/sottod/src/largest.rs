//! How large a round may become: what its engine cannot arrange, or has parts that are longer than the protocol allows, could never be
//! retrieved, and what was acknowledged in it would be lost.

use mpir::{Engine, Form, RoundSpec, Sizes};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::mapping_bytes;
use sotto_protocol::{CodeKind, CodeShape, Table};
use sotto_wire::limits;

use crate::population::Population;

/// Most deposits that a round may have, out of at most so many.
pub(crate) fn largest_round(engine: &dyn Engine, code: CodeShape, most: usize) -> usize {
    largest(most, |boxes| can_be(engine, code, boxes))
}

/// Most lots of slots that may be begun, as many as a round can have places of, padding of the table included.
pub(crate) fn most_lots(engine: &dyn Engine, code: CodeShape) -> u32 {
    let holds = |lots: usize| {
        let table = u32::try_from(lots).ok().and_then(Table::holding);
        table.is_some_and(|table| can_be(engine, code, table.places() as usize))
    };
    largest(Table::LOTS_MAX as usize / 2, holds) as u32
}

/// Whether the table of slots has room for simulated users, and for somebody else. With labels, where the bound here is for the fullest bucket
/// of any round, a round is too large only if its own is.
pub(crate) fn holds(engine: &dyn Engine, code: CodeShape, population: Population) -> bool {
    !code.kind.has_slots() || population.lots() < most_lots(engine, code)
}

/// Whether a round of so many deposits, or places, can be arranged, and retrieved.
fn can_be(engine: &dyn Engine, code: CodeShape, boxes: usize) -> bool {
    let elements = fullest_bucket(code, boxes);
    let form = Form { buckets: code.buckets.into(), elements, element_bytes: BOX_BYTES };
    let sizes = engine.profile(form).and_then(|profile| {
        engine.sizes(&RoundSpec { seed: [0; 32], whitening: [0; 32], round: 0, form, profile })
    });
    let mapping = u32::try_from(elements).map(|size| mapping_bytes(code, size));
    sizes.is_ok_and(|sizes| sizes_fit(&sizes))
        && mapping.is_ok_and(|bytes| bytes <= limits::MAPPING_MAX as u64)
}

/// Whether keys, requests, answers and hints keep to the limits of the wire.
pub(crate) fn sizes_fit(sizes: &Sizes) -> bool {
    sizes.hint.bytes() <= limits::HINT_MAX
        && sizes.keys <= limits::KEYS_MAX
        && sizes.request.bytes() <= limits::QUERY_MAX
        && sizes.answer.bytes() <= limits::ANSWER_MAX
}

/// The largest number up to `most` of which something holds that holds of all smaller ones; 0 if it holds of none.
fn largest(most: usize, holds: impl Fn(usize) -> bool) -> usize {
    if holds(most) {
        return most;
    }
    let (mut possible, mut impossible) = (0, most);
    while impossible - possible > 1 {
        let middle = possible.midpoint(impossible);
        if holds(middle) {
            possible = middle;
        } else {
            impossible = middle;
        }
    }
    possible
}

/// Elements of the fullest bucket; with hashed buckets more only once in 2^100 rounds, by Chernoff's bound.
fn fullest_bucket(code: CodeShape, boxes: usize) -> usize {
    let (buckets, choices) = (usize::from(code.buckets).max(1), usize::from(code.choices).max(1));
    let mean = match code.kind {
        CodeKind::Single => return boxes,
        // A group of buckets for each choice, which share all places.
        CodeKind::Partitioned | CodeKind::Standing => return boxes.div_ceil((buckets / choices).max(1)),
        CodeKind::Cuckoo => boxes.saturating_mul(choices) / buckets,
        // Nine buckets for a cube, each with a quarter of what is in it.
        CodeKind::Hybrid => boxes.saturating_mul(9 * choices) / (4 * buckets),
    };
    (mean + 16 * mean.isqrt() + 256).min(boxes.max(1))
}

#[cfg(test)]
mod tests {
    use mpir::{sealpir, voce, voce_hint};
    use sotto_protocol::manifest::mapping_bytes;
    use sotto_protocol::table::LOT_SLOTS;
    use sotto_protocol::{CodeKind, CodeShape, Table};
    use sotto_wire::limits::MAPPING_MAX;

    use super::{fullest_bucket, holds, largest_round, most_lots};
    use crate::population::Population;

    const SINGLE: CodeShape = CodeShape { kind: CodeKind::Single, retrieve: 1, buckets: 1, choices: 1 };
    const CUCKOO: CodeShape = CodeShape { kind: CodeKind::Cuckoo, retrieve: 16, buckets: 32, choices: 3 };

    #[test]
    fn no_round_is_larger_than_its_engine_can_arrange() {
        let single = largest_round(&*sealpir(), SINGLE, 1 << 24);
        let form = |elements| mpir::Form { buckets: 1, elements, element_bytes: 288 };
        assert!(
            sealpir().profile(form(single)).is_ok() && sealpir().profile(form(single + 1)).is_err(),
            "{single}"
        );
        assert_eq!(largest_round(&*sealpir(), SINGLE, 1 << 20), 1 << 20);
        assert_eq!(largest_round(&*sealpir(), CUCKOO, 1 << 24), 1 << 24);
        for engine in [voce(), voce_hint()] {
            assert!(largest_round(&*engine, CUCKOO, 1 << 24) >= 1 << 22, "{}", engine.name());
        }
    }

    /// What was acknowledged in a round whose mapping nobody may download could never be found.
    #[test]
    fn no_round_has_a_longer_mapping_than_anybody_may_download() {
        let wide = CodeShape { buckets: 128, choices: 8, ..CUCKOO };
        let largest = largest_round(&*sealpir(), wide, 1 << 24);
        let mapping = |boxes| mapping_bytes(wide, fullest_bucket(wide, boxes) as u32);
        assert!(mapping(largest) <= MAPPING_MAX as u64, "{largest}");
        assert!(largest < 1 << 24 && mapping(largest + 1) > MAPPING_MAX as u64, "{largest}");
    }

    #[test]
    fn simulated_users_are_refused_where_no_table_has_room_for_them_and_others() {
        let slots = CodeShape { kind: CodeKind::Partitioned, ..SINGLE };
        let users = (most_lots(&*sealpir(), slots) - 1) * LOT_SLOTS;
        let population = |users| Population { users, seed: 1 };
        assert!(holds(&*sealpir(), slots, population(users)), "{users}");
        assert!(!holds(&*sealpir(), slots, population(users + 1)), "{users}");
        assert!(holds(&*sealpir(), CUCKOO, population(users + 1)), "it has no table");
    }

    #[test]
    fn no_table_is_larger_than_its_engine_can_arrange() {
        let slots = |retrieve, buckets, choices| CodeShape {
            kind: CodeKind::Partitioned,
            retrieve,
            buckets,
            choices,
        };
        assert_eq!(most_lots(&*sealpir(), slots(16, 36, 3)), Table::LOTS_MAX / 2);
        let lots = most_lots(&*sealpir(), slots(1, 1, 1));
        let places = |lots| Table::holding(lots).unwrap().places() as usize;
        let largest = largest_round(&*sealpir(), SINGLE, 1 << 24);
        assert!(places(lots) <= largest && places(lots + 1) > largest, "{lots} lots, {largest} places");
    }
}
