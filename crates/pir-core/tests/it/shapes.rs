//! Which arrangements servers choose and clients take.

use pir_core::sealpir::Parameters;
use pir_core::{Error, Scheme, SealPir, scheme};

/// Of elements of 288 bytes: eight in a plaintext.
const ELEMENT_BYTES: usize = 288;

/// Columns, parts, levels and bits of the answer, as servers announce them.
fn announced(elements: usize, [columns, parts]: [u16; 2], levels: u8, bits: u8) -> Result<Parameters, Error> {
    let mut profile = [0; scheme::PROFILE_BYTES];
    profile[..2].copy_from_slice(&columns.to_le_bytes());
    profile[2..4].copy_from_slice(&parts.to_le_bytes());
    [profile[4], profile[5]] = [levels, bits];
    SealPir::with_profile(elements, ELEMENT_BYTES, &profile)
}

#[test]
fn what_is_announced_is_what_was_chosen() {
    for n in (0..=20).flat_map(|log2| [1usize << log2, (3 << log2) / 2]).filter(|n| *n <= 1 << 20) {
        for chosen in
            [SealPir::parameters(n, ELEMENT_BYTES), SealPir::parameters_for_one_query(n, ELEMENT_BYTES)]
        {
            let chosen = chosen.unwrap();
            assert_eq!(SealPir::with_profile(n, ELEMENT_BYTES, &SealPir::profile(&chosen)), Ok(chosen));
        }
    }
}

#[test]
fn what_is_announced_beyond_the_bounds_is_refused() {
    // 4096 elements: 512 plaintexts, 64 rows of 8 columns.
    let elements = 4096;
    assert_eq!(announced(elements, [8, 1], 11, 18).map(|taken| (taken.rows(), taken.columns())), Ok((64, 8)));
    let refused = [
        ("no column", [0, 1], 11, 18),
        ("no part", [8, 0], 11, 18),
        ("more columns than plaintexts", [513, 1], 11, 18),
        ("more columns than plaintexts in all parts", [8, 65], 11, 18),
        ("more levels than a ring has", [8, 1], 12, 18),
        ("fewer leaves than selectors", [8, 1], 6, 18),
        ("a query of more than 4096 bytes", [8, 1], 7, 18),
        ("too few bits of the answer", [8, 1], 11, 16),
        ("none", [8, 1], 11, 0),
        ("more bits than any answer has", [8, 1], 11, 22),
    ];
    for (what, columns_and_parts, levels, bits) in refused {
        let taken = announced(elements, columns_and_parts, levels, bits);
        assert!(matches!(taken, Err(Error::Shape(_))), "{what}: {taken:?}");
    }
    // The last that are taken.
    assert!(announced(elements, [8, 1], 11, 21).is_ok());
    assert!(announced(elements, [8, 64], 11, 18).is_ok());
    // 72 selectors of 16 coefficients: 4356 bytes; of 8, 2196.
    assert!(announced(elements, [8, 1], 8, 18).is_ok());
    let mut unknown = [0; scheme::PROFILE_BYTES];
    unknown[..7].copy_from_slice(&[8, 0, 1, 0, 11, 18, 1]);
    assert!(matches!(SealPir::with_profile(elements, ELEMENT_BYTES, &unknown), Err(Error::Shape(_))));
}

/// With fewer bits of the answer more is rounded: a server saves them, and whoever reads decodes wrongly.
#[test]
fn an_answer_too_short_for_the_failure_bound_is_refused() {
    let n = 1 << 20;
    let chosen = SealPir::parameters(n, ELEMENT_BYTES).unwrap();
    let [columns, bits] = [chosen.columns(), chosen.answer_coefficient_bits() as usize];
    assert_eq!(bits, 18);
    let with = |bits| announced(n, [columns as u16, 1], 11, bits);
    assert!(matches!(with(17), Err(Error::Shape(_))));
    assert!(with(18).is_ok() && with(19).is_ok());
}

#[test]
fn a_query_serves_every_database_that_asks_for_the_same_selectors() {
    let shape = |elements, columns| Parameters::with_columns(elements, ELEMENT_BYTES, columns).unwrap();
    let made_for = shape(4096, 8);
    // As many rows, of which the last is not full.
    assert!(SealPir::query_fits(&made_for, &shape(4090, 8)));
    // 72 selectors, too, in one dimension.
    assert!(!SealPir::query_fits(&made_for, &shape(576, 1)));
    // 128 rows and 8 columns.
    assert!(!SealPir::query_fits(&made_for, &shape(8192, 8)));
}

/// What the choice costs is weighed by constants; another choice costs time or bytes, and nobody would see why.
#[test]
fn servers_choose_as_they_did() {
    let chosen: Vec<[usize; 6]> = (0..=20)
        .step_by(2)
        .map(|log2| {
            let [many, one] = [SealPir::parameters, SealPir::parameters_for_one_query]
                .map(|choose| choose(1 << log2, ELEMENT_BYTES).unwrap());
            [many.rows(), many.columns(), many.answer_bytes(), one.rows(), one.columns(), one.parts()]
        })
        .collect();
    let before = [
        [1, 1, 8708, 1, 1, 1],
        [1, 1, 8708, 1, 1, 1],
        [2, 1, 8708, 1, 1, 2],
        [8, 1, 8708, 2, 1, 4],
        [8, 4, 34_820, 3, 1, 11],
        [13, 10, 34_820, 11, 1, 12],
        [27, 19, 34_820, 43, 1, 12],
        [54, 38, 34_820, 43, 16, 3],
        [108, 76, 34_820, 83, 33, 3],
        [220, 149, 34_820, 171, 64, 3],
        [427, 307, 36_868, 331, 132, 3],
    ];
    assert_eq!(chosen, before);
    assert_eq!(SealPir::parameters(32_768, ELEMENT_BYTES).unwrap().answer_ciphertexts(), 4);
    assert_eq!(SealPir::parameters(1, ELEMENT_BYTES).unwrap().answer_ciphertexts(), 1);
}

/// Three selectors in eleven levels: one substitution at each level but the last, which has two. Its l + 1 transforms come to
/// 8, 8, 8, 7, 7, 7, 6, 6, 5, 4 and twice 4; two rows are switched together, and one alone.
#[test]
fn transforms_are_counted_as_expand_makes_them() {
    let three_rows = Parameters::with_columns(3 * 8, ELEMENT_BYTES, 1).unwrap();
    assert_eq!((three_rows.rows(), three_rows.selectors(), three_rows.levels()), (3, 3, 11));
    assert_eq!(three_rows.expand_transforms(), 74 + 7 + 4);
    // With four, one more is switched together with the third.
    let four_rows = Parameters::with_columns(4 * 8, ELEMENT_BYTES, 1).unwrap();
    assert_eq!((four_rows.rows(), four_rows.expand_transforms()), (4, 74 + 2 * 7));
}
