//! What the failure bound rests on, against values of another program that has the formulas at the head of `noise.rs` alone.

use super::{Stages, failure_log2, margin, stages};
use crate::voce::{Ending, Shape};

fn close(what: &str, value: f64, expected: f64) {
    let same = if expected == 0.0 { value == 0.0 } else { (value / expected - 1.0).abs() < 1e-11 };
    assert!(same, "{what}: {value} for {expected}");
}

/// Too small a deviation promises that elements are read rightly which are not; what is measured leaves out parts of some percent.
#[test]
fn deviations_margins_and_failures_are_those_of_the_formulas() {
    let (packing, hint) = (45_622_534_227.976_6, 45_812_984_490.666_7);
    let (square, reply) = (7_358_302_108.506_75, 22_906_492_245.333_3);
    // Ending, elements, their bytes, columns; first dimension, selection, separation, all; margin, failure.
    for ((ending, elements, bytes, columns), deviations, margin_and_failure) in [
        (
            (Ending::Hint, 2_351, 288, 2),
            [17_358_164_521.058, 0.0, 0.0, 66_944_387_762.269_4],
            [10.265_158_743_408_7, -71.696_333_521_245_8],
        ),
        (
            (Ending::Hint, 270_336, 288, 32),
            [46_524_004_817.816_2, 0.0, 0.0, 79_653_802_179.262_9],
            [8.627_268_862_991_01, -49.124_380_600_853_1],
        ),
        (
            (Ending::Selected, 270_336, 288, 48),
            [37_986_690_864.812, 45_965_049_601.733_7, 4_620_937_895.410_34, 91_302_928_260.885_5],
            [8.894_996_973_106_8, -52.552_458_534_642_6],
        ),
        (
            (Ending::Selected, 8_448, 33, 8),
            [16_448_719_647.316_7, 18_765_152_920.994_4, 4_620_937_895.410_34, 73_506_064_943.296_4],
            [11.048_602_195_517_6, -83.847_593_552_111_5],
        ),
        (
            (Ending::Selected, 22_528, 1_000, 3),
            [43_865_199_404.514_9, 11_491_262_400.433_4, 1_008_371_318.447_99, 82_561_000_583.204],
            [9.836_839_001_216_99, -63.423_982_622_572_4],
        ),
    ] {
        let shape = Shape::new(ending, 64, elements, bytes, columns).unwrap();
        let found = stages(&shape);
        let [first, selection, separation, total] = deviations;
        let selected = f64::from(u8::from(ending == Ending::Selected));
        for (what, value, expected) in [
            ("first dimension", found.first_dimension, first),
            ("packing", found.packing, packing),
            ("hint", found.hint, hint),
            ("selection", found.selection, selection),
            ("square", found.square, square * selected),
            ("separation", found.separation, separation),
            ("reply", found.reply, reply * selected),
            ("all", found.total(), total),
            ("margin", margin(&shape), margin_and_failure[0]),
            ("failure", failure_log2(&shape), margin_and_failure[1]),
        ] {
            close(&format!("{what} of {shape:?}"), value, expected);
        }
    }
}

#[test]
fn deviations_add_up_as_independent_ones_do() {
    let none = Stages {
        first_dimension: 0.0,
        packing: 0.0,
        hint: 0.0,
        selection: 0.0,
        square: 0.0,
        separation: 0.0,
        reply: 0.0,
    };
    close("3, 4 and 12", Stages { hint: 3.0, square: 4.0, reply: 12.0, ..none }.total(), 13.0);
    close(
        "1, 2, 2 and 4",
        Stages { first_dimension: 1.0, packing: 2.0, selection: 2.0, separation: 4.0, ..none }.total(),
        5.0,
    );
}

/// So many rows that it shows where the bound is: arrangements on the other side of 2^-40 are refused.
#[test]
fn arrangements_with_too_much_noise_are_refused() {
    for (ending, columns, most) in [(Ending::Hint, 1, 13_428), (Ending::Selected, 48, 702_720)] {
        let new = |elements| Shape::new(ending, 64, elements, 288, columns);
        assert!(new(most).is_ok_and(|shape| failure_log2(&shape) <= -40.0), "{ending:?}");
        assert!(new(most + 2 * columns).is_err(), "{ending:?}");
    }
}
