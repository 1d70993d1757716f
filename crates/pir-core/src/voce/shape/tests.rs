use super::{COLUMN_CIPHERTEXT_BYTES, DEGREE, Ending, LEVELS, MAXIMUM_COLUMNS, Preference, Shape, least};
use crate::Error;
use crate::voce::ring::ORBIT;

/// Transforms of N = 2,048 that it takes to compute an answer of a unit again.
fn transforms(shape: &Shape) -> usize {
    let of_output = (0..shape.unit_buckets()).map(|bucket| {
        let here = shape.coefficients(bucket);
        shape.bucket_outputs() * (here.end.div_ceil(DEGREE) - here.start / DEGREE)
    });
    let of_pack = DEGREE + 4 * (ORBIT - 1);
    let of_tree = (1 << LEVELS) * 8;
    let trees = shape.column_ciphertexts(shape.unit_buckets());
    of_output.sum::<usize>() + shape.packs() * of_pack + trees * of_tree
}

fn sizes() -> impl Iterator<Item = (Ending, usize, usize, usize)> {
    let elements = (0..19).flat_map(|log| [1 << log, (1 << log) + (1 << log >> 1), (2 << log) - 1]);
    let of_elements = elements.flat_map(|elements| [1, 33, 288, 1_000].map(|bytes| (elements, bytes)));
    of_elements.flat_map(|(elements, bytes)| {
        let of_buckets = [1, 3, 9, 384].map(|buckets| (buckets, elements, bytes));
        of_buckets.into_iter().flat_map(|(buckets, elements, bytes)| {
            [Ending::Hint, Ending::Selected].map(|ending| (ending, buckets, elements, bytes))
        })
    })
}

/// What a server announces decides how long those compute who check its answers. Without the bound of columns this finds
/// arrangements that take 500 times as long as the chosen one.
#[test]
fn no_profile_keeps_who_checks_an_answer_busy_for_long() {
    let mut most = 0.0f64;
    for (ending, buckets, elements, bytes) in sizes() {
        let chosen = Shape::choose(ending, buckets, elements, bytes, Preference::Balanced).unwrap();
        for columns in 0..=MAXIMUM_COLUMNS as u16 + 1 {
            let mut profile = chosen.profile();
            profile[1..3].copy_from_slice(&columns.to_le_bytes());
            let Ok(shape) = Shape::announced(ending, buckets, elements, bytes, &profile) else {
                continue;
            };
            let times = transforms(&shape) as f64 / transforms(&chosen) as f64;
            assert!(times < 6.0, "{times} times as much for {shape:?} as for {chosen:?}");
            most = most.max(times);
        }
    }
    assert!(most > 2.0, "{most}: arrangements that differ somewhat are accepted");
}

/// And what is chosen is what clients accept.
#[test]
fn no_arrangement_that_is_accepted_is_better_by_what_is_preferred() {
    let mut different = [0; 2];
    for (ending, buckets, elements, bytes) in sizes() {
        let chosen = |preference| {
            let shape = Shape::choose(ending, buckets, elements, bytes, preference).unwrap();
            let announced = Shape::announced(ending, buckets, elements, bytes, &shape.profile());
            assert_eq!(announced, Ok(shape));
            shape
        };
        let [time, balanced, sent] = [Preference::Time, Preference::Balanced, Preference::Bytes].map(chosen);
        let all = Shape::all(ending, buckets, elements, bytes)
            .filter(|shape| Shape::announced(ending, buckets, elements, bytes, &shape.profile()).is_ok());
        for other in all {
            assert!(sent.sent() <= other.sent(), "{sent:?} {other:?}");
            let by = |preference, chosen: &Shape| chosen.cost(preference) <= other.cost(preference);
            assert!(by(Preference::Time, &time), "{time:?} {other:?}");
            assert!(by(Preference::Balanced, &balanced), "{balanced:?} {other:?}");
        }
        different[0] += usize::from(time != balanced);
        different[1] += usize::from(sent != balanced);
    }
    assert!(different.iter().all(|sizes| *sizes > 10), "{different:?}: preferences choose differently");
}

/// 262,144 people, of whom everybody reads 256 messages of a round: half as many packs for longer queries.
#[test]
fn who_prefers_time_packs_half_as_much() {
    let choose = |preference| Shape::choose(Ending::Hint, 345, 2_351, 288, preference).unwrap();
    let (balanced, time) = (choose(Preference::Balanced), choose(Preference::Time));
    assert_eq!((balanced.columns(), balanced.unit_buckets()), (2, 4));
    assert_eq!((time.columns(), time.unit_buckets()), (1, 8));
    assert_eq!((balanced.query_bytes(), time.query_bytes()), (2_867, 5_733));
}

/// Of 2^18 messages at k = 1, 16, 64 and 256, with slots: for the least time, balanced, and for the fewest bytes.
#[test]
fn columns_are_those_that_the_documents_measure() {
    let measured = [
        (Ending::Selected, 1, 270_336, [16, 48, 64]),
        (Ending::Hint, 1, 270_336, [32, 32, 32]),
        (Ending::Selected, 36, 22_528, [3, 12, 32]),
        (Ending::Hint, 36, 22_528, [4, 4, 8]),
        (Ending::Selected, 96, 8_448, [2, 8, 16]),
        (Ending::Hint, 96, 8_448, [2, 4, 4]),
        (Ending::Hint, 345, 2_351, [1, 2, 2]),
    ];
    for (ending, buckets, elements, expected) in measured {
        let columns = [Preference::Time, Preference::Balanced, Preference::Bytes]
            .map(|preference| Shape::choose(ending, buckets, elements, 288, preference).unwrap().columns());
        assert_eq!(columns, expected, "{ending:?} {buckets}");
    }
}

/// Up to more elements than the noise allows.
#[test]
fn places_are_those_of_a_division() {
    for columns in (0..=10).map(|log| 1usize << log).chain((0..=8).map(|log| 3 << log)) {
        let elements = 1 << 28;
        let shape = Shape { ending: Ending::Selected, elements, element_bytes: 1, columns, buckets: 1 };
        let (columns, last) = (columns as u64, elements as u64 - 1);
        let rows = (0..8).chain([last / columns / 2, last / columns - 1, last / columns]);
        for first in rows.map(|row| row * columns) {
            for element in [first.saturating_sub(1), first, first + 1, first + columns - 1] {
                let element = element.min(last);
                assert_eq!(shape.place(element), (element / columns, element % columns), "{columns}");
            }
        }
    }
}

#[test]
fn the_profile_of_before_is_that_of_a_power_of_two() {
    for (ending, buckets, elements, bytes) in sizes() {
        let announced = |profile| Shape::announced(ending, buckets, elements, bytes, &profile);
        for log in 0..=u8::MAX {
            let (mut former, mut now) = ([0; 16], [0; 16]);
            former[..2].copy_from_slice(&[1, log]);
            now[0] = 2;
            now[1..3].copy_from_slice(&1u16.checked_shl(log.into()).unwrap_or(0).to_le_bytes());
            assert_eq!(announced(former).ok(), announced(now).ok());
            former[2] = 1;
            assert!(announced(former).is_err());
        }
    }
}

/// Whoever sends and whoever reads must agree on every byte; what a server holds decides how many rounds it can keep.
#[test]
fn sizes_are_those_of_the_formats() {
    // Outputs of an element, rows, positions; buckets and packs of a unit; bytes of query, request, answer, and hint; memory.
    for ((ending, buckets, elements, bytes, columns), counts, sizes) in [
        (
            (Ending::Hint, 345, 2_351, 288, 2),
            [256, 1_176, 588, 4, 1],
            [2_867, 1_014_715, 2_816, 4_608, 38_375_936],
        ),
        ((Ending::Hint, 9, 5_000, 33, 128), [32, 40, 20, 1, 2], [98, 26_482, 5_632, 9_216, 67_445_760]),
        ((Ending::Hint, 3, 70, 2_304, 1), [2_048, 70, 35, 1, 1], [171, 26_113, 2_816, 4_608, 33_845_760]),
        ((Ending::Hint, 1, 1, 1, 1), [16, 1, 1, 1, 1], [5, 25_605, 22, 4_608, 33_559_104]),
        (
            (Ending::Selected, 384, 8_448, 288, 12),
            [256, 704, 352, 16, 24],
            [1_716, 1_211_904, 15_872, 0, 966_311_936],
        ),
        ((Ending::Selected, 11, 301, 600, 24), [1_024, 13, 7, 2, 24], [35, 46_465, 7_936, 0, 838_352_896]),
    ] {
        let shape = Shape::new(ending, buckets, elements, bytes, columns).unwrap();
        let found = [
            shape.element_outputs(),
            shape.rows(),
            shape.positions(),
            shape.unit_buckets(),
            shape.packs(),
            shape.query_bytes(),
            shape.request_bytes(buckets).unwrap(),
            shape.answer_bytes(),
            shape.hint_bytes(),
            shape.memory_bytes(),
        ];
        assert_eq!(found[..5], counts, "{shape:?}");
        assert_eq!(found[5..], sizes, "{shape:?}");
        assert_eq!(shape.request_bytes(usize::MAX), None);
    }
    assert_eq!((Shape::keys_bytes(), COLUMN_CIPHERTEXT_BYTES), (25_600, 7_680));
}

/// As many as make few leaves nobody's, of no more than 32 packs, and no more than there are.
#[test]
fn buckets_are_answered_together_where_it_costs_least() {
    for (buckets, elements, bytes, columns, expected) in [
        (384, 8_448, 288, 12, 16),
        (384, 8_448, 288, 8, 32),
        (384, 8_448, 288, 16, 16),
        (384, 8_448, 288, 48, 8),
        // Of 32 buckets as few leaves are nobody's as of 16.
        (384, 8_448, 288, 4, 16),
        (384, 8_448, 288, 2, 32),
        (11, 8_448, 288, 8, 11),
        (1, 8_448, 288, 8, 1),
        (384, 8_448, 600, 16, 4),
        (384, 8_448, 2_304, 3, 4),
    ] {
        let shape = Shape::new(Ending::Selected, buckets, elements, bytes, columns).unwrap();
        assert_eq!(shape.unit_buckets(), expected, "{shape:?}");
    }
    let with_hint =
        |buckets, columns| Shape::new(Ending::Hint, buckets, 80, 288, columns).unwrap().unit_buckets();
    assert_eq!(
        [(9, 1), (9, 2), (9, 8), (9, 64), (3, 1)].map(|(all, columns)| with_hint(all, columns)),
        [8, 4, 1, 1, 3]
    );
}

/// What is preferred is weighed by constants; another choice costs time or bytes, and nobody would see why.
#[test]
fn what_an_arrangement_costs_is_what_was_measured() {
    // Time, Balanced, Bytes.
    for ((ending, buckets, elements, bytes, columns), expected) in [
        ((Ending::Hint, 345, 2_351, 288, 2), [68.723_418_406_25, 121.764_922_312_5, 4_723.0]),
        ((Ending::Hint, 9, 5_000, 33, 128), [374.013_600_937_5, 541.864_186_875, 14_946.0]),
        ((Ending::Selected, 384, 8_448, 288, 12), [422.210_182_375, 813.110_573, 4_148.0]),
        ((Ending::Selected, 11, 301, 600, 24), [2_181.960_472_906_25, 2_921.071_312_75, 7_843.0]),
    ] {
        let shape = Shape::new(ending, buckets, elements, bytes, columns).unwrap();
        for (preference, expected) in
            [Preference::Time, Preference::Balanced, Preference::Bytes].into_iter().zip(expected)
        {
            let cost = shape.cost(preference);
            assert!((cost / expected - 1.0).abs() < 1e-12, "{preference:?} of {shape:?}: {cost}");
        }
    }
}

#[test]
fn of_arrangements_that_cost_the_same_the_one_of_fewest_columns_is_taken() {
    let new = |columns| Shape::new(Ending::Hint, 1, 100, 288, columns).unwrap();
    let all = [8, 2, 4].map(new);
    assert_eq!(least(all.into_iter(), |_| 1.0), Ok(new(2)));
    assert_eq!(least(all.into_iter(), |shape| -(shape.columns() as f64)), Ok(new(8)));
    assert!(least([].into_iter(), |_| 1.0).is_err());
}

/// A number that a server announces is used in products that must not overflow, and for memory.
#[test]
fn arrangements_beyond_the_bounds_are_refused() {
    let taken = |ending, buckets, elements, bytes, columns| {
        Shape::new(ending, buckets, elements, bytes, columns).is_ok()
    };
    let hint = |buckets, elements, bytes, columns| taken(Ending::Hint, buckets, elements, bytes, columns);
    assert_eq!(
        [0, 1, 1 << 16, (1 << 16) + 1].map(|buckets| hint(buckets, 9, 288, 1)),
        [false, true, true, false]
    );
    assert_eq!([0, 1, 2_304, 2_305].map(|bytes| hint(1, 9, bytes, 1)), [false, true, true, false]);
    // Without elements, and with as many as pass the first look but not the noise.
    assert!(!hint(1, 0, 288, 1));
    for (elements, what) in
        [(1 << 28, "too much noise"), ((1 << 28) + 1, "elements of 1 to 2304 bytes, at least one")]
    {
        assert_eq!(Shape::new(Ending::Hint, 1, elements, 1, 1), Err(Error::Shape(what)));
    }
    // Powers of two and, where a column is selected, thrice these; fewer than two for each element.
    for (columns, with_hint, selected) in [
        (0, false, false),
        (1, true, true),
        (2, true, true),
        (3, false, true),
        (5, false, false),
        (6, false, true),
        (9, false, false),
        (96, false, true),
        (128, true, true),
        // Too much noise.
        (192, false, false),
        (1_024, true, false),
        (1_536, false, false),
        (2_048, false, false),
    ] {
        assert_eq!(hint(1, 4_096, 288, columns), with_hint, "{columns}");
        assert_eq!(taken(Ending::Selected, 1, 4_096, 288, columns), selected, "{columns}");
    }
    for (elements, columns, fits) in [(1, 1, true), (1, 2, false), (4, 4, true), (4, 8, false), (5, 8, true)]
    {
        assert_eq!(hint(1, elements, 288, columns), fits, "{elements} in {columns}");
    }
    assert!(taken(Ending::Selected, 1, 2, 288, 3) && !taken(Ending::Selected, 1, 1, 288, 3));
}

#[test]
fn profiles_of_other_versions_or_with_more_in_them_are_refused() {
    let chosen = Shape::choose(Ending::Hint, 345, 2_351, 288, Preference::Balanced).unwrap();
    let announced = |profile| Shape::announced(Ending::Hint, 345, 2_351, 288, &profile);
    assert_eq!(chosen.profile(), [2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(announced(chosen.profile()), Ok(chosen));
    for at in 3..16 {
        let mut profile = chosen.profile();
        profile[at] = 1;
        assert_eq!(announced(profile), Err(Error::Shape("profile")), "byte {at}");
    }
    for version in [0, 3, 255] {
        let mut profile = chosen.profile();
        profile[0] = version;
        assert_eq!(announced(profile), Err(Error::Shape("version of the profile")), "{version}");
    }
    // Four times as many as are chosen.
    let columns = |columns: u8| {
        let mut profile = chosen.profile();
        profile[1] = columns;
        announced(profile).map(|shape| shape.columns())
    };
    assert_eq!([1, 8].map(columns), [Ok(1), Ok(8)]);
    assert_eq!(columns(16), Err(Error::Shape("more columns than are of use")));
}

/// Two numberings of the same outputs: by bucket, column and field, and by pack and coefficient. Each is some coefficient's once.
#[test]
fn every_output_of_a_unit_is_a_coefficient_of_a_pack_once() {
    for (ending, buckets, elements, bytes, columns) in [
        (Ending::Hint, 3, 70, 288, 2),
        (Ending::Hint, 2, 80, 33, 128),
        (Ending::Selected, 8, 70, 288, 4),
        (Ending::Selected, 16, 100, 288, 12),
        (Ending::Selected, 2, 50, 600, 6),
        (Ending::Selected, 4, 50, 2_304, 3),
    ] {
        let shape = Shape::new(ending, buckets, elements, bytes, columns).unwrap();
        let mut found: Vec<(usize, usize)> = (0..shape.packs())
            .flat_map(|pack| (0..DEGREE).map(move |x| (pack, x)))
            .map(|(pack, x)| shape.source(pack, x))
            .filter(|(bucket, _)| *bucket < shape.unit_buckets())
            .collect();
        found.sort_unstable();
        let all = (0..shape.unit_buckets())
            .flat_map(|bucket| (0..shape.bucket_outputs()).map(move |output| (bucket, output)));
        assert!(found.into_iter().eq(all), "{shape:?}");
        let mut outputs: Vec<usize> = (0..columns)
            .flat_map(|column| (0..shape.element_outputs()).map(move |field| (column, field)))
            .map(|(column, field)| shape.output(column, field))
            .collect();
        outputs.sort_unstable();
        assert!(outputs.into_iter().eq(0..shape.bucket_outputs()), "{shape:?}");
        // A field of an element of every column of every piece that shares a pack, then the next field.
        if ending == Ending::Selected && shape.packs() > 0 {
            let sharing = shape.interleaved_columns() * shape.interleaved_pieces();
            for (x, column) in (0..sharing.min(columns)).enumerate() {
                assert_eq!(shape.source(0, x), (0, shape.output(column, 0)), "{shape:?}");
                assert_eq!(shape.source(0, x + sharing), (0, shape.output(column, 1)), "{shape:?}");
            }
        }
    }
}

/// The last unit of a round is often smaller.
#[test]
fn packs_are_those_that_its_buckets_need() {
    let shape = Shape::new(Ending::Hint, 9, 80, 288, 1).unwrap();
    assert_eq!([1, 7, 8].map(|buckets| shape.packs_of(buckets)), [1, 1, 1]);
    let shape = Shape::new(Ending::Selected, 16, 80, 288, 12).unwrap();
    assert_eq!([1, 2, 3, 15, 16].map(|buckets| shape.packs_of(buckets)), [2, 3, 5, 23, 24]);
    assert_eq!(shape.packs(), 24);
    // Of 16 buckets with 36 leaves each nine trees are not quite full.
    assert_eq!([1, 7, 8, 16].map(|buckets| shape.column_ciphertexts(buckets)), [1, 1, 2, 3]);
    assert_eq!([0, 1, 5].map(|unit| shape.column_ciphertexts_before(unit)), [0, 3, 15]);
    assert_eq!((shape.replies(), shape.group(), shape.leaves()), (2, 8, 36));
    assert_eq!((shape.ciphertexts(), shape.coefficients(0), shape.coefficients(3)), (1, 0..4, 12..16));
}
