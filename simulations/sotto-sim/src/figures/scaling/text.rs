//! What the report says of the scaling laws: every number is computed from the constants or the measurements.

use anyhow::Context;
use sotto_measuring::table::short;
use sotto_plan::model::{BucketSize, Calibration, RoundSize, residual};

use super::point::{Group, Point};
use crate::figures::engines::power_of_two;

pub(super) const DIFFERS: &str = "The paper has no such figure. Its section 3 gives the law of EXPAND and of the answer in \
    numbers of operations; its figures 9 and 12 give times at three sizes of the database and three of the batch.";

/// The root of the mean square of how far the model is off, in server time for each client-round.
fn deviation<'a>(points: impl Iterator<Item = &'a Point>) -> f64 {
    residual(points.map(|point| (point.theory.answer.total(), point.measured.server_cpu_ms)))
}

/// How the cost of a client-round grows between two points: c as n^c.
fn exponent(from: &Point, to: &Point, x: fn(&Point) -> usize) -> f64 {
    let ratio = |value: fn(&Point) -> f64| (value(to) / value(from)).ln();
    ratio(|point| point.measured.server_cpu_ms) / (x(to) as f64 / x(from) as f64).ln()
}

pub(super) fn shows(calibration: &Calibration, by_n: &[Group], by_k: &Group) -> anyhow::Result<String> {
    let mut text = "Server CPU time, set-up and traffic against the number n of messages in a round and the number k that \
        each client retrieves, with the default engine and code. The dashed lines are not fitted to these dots: they are \
        the model below, with constants that were measured apart, on single buckets of other sizes. "
        .to_owned();
    text += &format!(
        "The model is off by {:.1} % in server time for each client-round (root of the mean square of all dots). ",
        100.0 * deviation(by_n.iter().chain([by_k]).flat_map(|group| &group.points))
    );
    let n = |point: &Point| point.measured.setting.elements;
    for group in by_n {
        let [first, second, .., before, last] = &group.points[..] else { continue };
        text += &format!(
            "For k = {}, the measured cost grows as n^{:.2} from n = {} to {}, and as n^{:.2} from {} to {}. ",
            first.measured.setting.k,
            exponent(first, second, n),
            power_of_two(n(first)),
            power_of_two(n(second)),
            exponent(before, last, n),
            power_of_two(n(before)),
            power_of_two(n(last)),
        );
    }
    text += "Where the curve bends: a bucket has w n / b boxes, and EXPAND makes about twice the square root of its \
        plaintexts selectors, so that all b buckets together cost about sqrt(n b) there, and b constants beside it; the \
        first dimension reads all w n codewords, and is linear in n. ";
    text += &match calibration.constants.crossover() {
        Some(elements) => {
            let at = |k: &Point| {
                let RoundSize { buckets, choices, retrieve, .. } = k.theory.size;
                format!("n* = {:.1e} for k = {retrieve}", (elements * buckets / choices) as f64)
            };
            let crossovers: Vec<String> =
                by_n.iter().filter_map(|group| group.points.first()).map(at).collect();
            format!(
                "With these constants, the scan becomes half of an answer at buckets of {elements} boxes, that is at {}. ",
                crossovers.join(" and ")
            )
        }
        None => "With these constants, the scan is never half of an answer. ".to_owned(),
    };
    let (few, many) = (by_k.points.first().context("a batch")?, by_k.points.last().context("a batch")?);
    text += &format!(
        "Against k, the scan is about the same for all k > 1 (w n codewords, three times what k = 1 reads), while b grows \
         about as k, and EXPAND as sqrt(b); answers grow as b. A message of a batch of {} costs {} ms, one alone {} ms.",
        many.measured.setting.k,
        short(many.measured.server_cpu_ms_per_message),
        short(few.measured.server_cpu_ms_per_message),
    );
    Ok(text)
}

pub(super) fn notes(calibration: &Calibration) -> Vec<String> {
    let c = &calibration.constants;
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let large = BucketSize::of(1 << 15).map(|bucket| {
        format!(
            "; a bucket of 2^15 boxes has {} rows and {} columns, {} transforms and {:.1} MiB",
            bucket.parameters.rows(),
            bucket.parameters.columns(),
            bucket.parameters.expand_transforms(),
            bucket.scanned_kib() / 1024.0
        )
    });
    vec![
        format!(
            "The model, for each of b buckets, in microseconds: EXPAND {} + {} for each transform; first dimension {} for \
             each row and column + {} for each KiB of the prepared bucket; what follows {} for each \
             ciphertext of the answer + {} for each column of a second dimension. A bucket has \
             w n / b boxes, and as many more as the fullest of b is expected to have: at most s sqrt(2 ln b), s being the \
             deviation of the binomial distribution. Rows, columns, transforms and bytes are those of the engine's own \
             shape chooser (docs/PARAMETERS.md){}.",
            short(c.query),
            short(c.transform),
            short(c.arranged),
            short(c.scanned_kib),
            short(c.answer),
            short(c.column),
            large.unwrap_or_default()
        ),
        format!(
            "Set-up: {} for each bucket + {} for each of its plaintexts + {} for each codeword of Encode.",
            short(c.setup_bucket),
            short(c.setup_plaintext),
            short(c.encode_codeword)
        ),
        format!(
            "Constants are the least squares of relative errors over buckets of five sizes. Repeated runs of the \
             calibration spread by {} (answers) and {} (set-up); at four sizes that were kept out of the fit, the model is \
             off by {} and {} (roots of mean squares).",
            percent(calibration.answer_error.spread),
            percent(calibration.setup_error.spread),
            percent(calibration.answer_error.residual),
            percent(calibration.setup_error.residual)
        ),
        "CPU time of one thread; elements of 288 bytes; all buckets are set up and answered, none is left out. MB are 10^6 \
         bytes. `scaling.csv` has all numbers."
            .to_owned(),
    ]
}
