//! What the failure bound rests on, against values found without its formulas.

use super::{
    Circuit, ENERGY_LOG2, energy_excess, energy_factor, excess, failure_for_keys_log2, failure_log2,
    key_spread, rounding_variance, secret_weight, stage_failure_log2, substitution, tail_log2,
};
use crate::bfv::{Gadget, Parameters};
use crate::ring::sampling;

/// The probability of every number of coefficients that are not 0 among `count` uniform ones of -1, 0 and 1.
fn weights(count: usize) -> Vec<f64> {
    let mut distribution = vec![1.0];
    for _ in 0..count {
        let mut next = vec![0.0; distribution.len() + 1];
        for (weight, probability) in distribution.iter().enumerate() {
            next[weight] += probability / 3.0;
            next[weight + 1] += probability * 2.0 / 3.0;
        }
        distribution = next;
    }
    distribution
}

#[test]
fn the_secret_weighs_one_standard_deviation_more_than_its_mean() {
    // 2 * 2048 / 3 = 4096/3, and the root of 2 * 2048 / 9 is 64/3.
    assert!((secret_weight(Parameters::s2048()) - 4160.0 / 3.0).abs() < 1e-9);
    assert!((rounding_variance(Parameters::s2048()) - 4163.0 / 36.0).abs() < 1e-9);
    for degree in [8, 64, 2048] {
        let distribution = weights(degree);
        let moment = |power: i32| -> f64 {
            let terms = distribution.iter().enumerate();
            terms.map(|(weight, probability)| (weight as f64).powi(power) * probability).sum()
        };
        let deviation = (moment(2) - moment(1).powi(2)).sqrt();
        let expected = moment(1) + deviation;
        let weight = secret_weight(&parameters(degree));
        assert!((weight / expected - 1.0).abs() < 1e-9, "{weight} for {expected} in degree {degree}");
    }
}

#[test]
fn secrets_weigh_what_the_bound_takes_them_to() {
    const SECRETS: u64 = 64;
    let weigh = |stream| {
        let secret = sampling::ternary(2048, &[5; 32], stream);
        secret.iter().map(|coefficient| coefficient.pow(2)).sum::<i64>() as f64
    };
    let mean = (0..SECRETS).map(weigh).sum::<f64>() / SECRETS as f64;
    // 64/3 is the deviation of one: five deviations of the mean.
    assert!((mean - 4096.0 / 3.0).abs() < 5.0 * (64.0 / 3.0) / (SECRETS as f64).sqrt(), "{mean}");
}

/// A lighter weight would promise too much, a heavier one costs bits for nothing.
#[test]
fn the_weight_that_is_assumed_costs_a_little_more_than_averaging_over_all_secrets() {
    // Rounding alone, in answers of 17 bits, which are safe up to 2^7.
    let tail = |weight: f64| tail_log2(128.0 / ((1.0 + weight) / 12.0).sqrt());
    let average: f64 = weights(2048)
        .iter()
        .enumerate()
        .map(|(weight, probability)| probability * tail(weight as f64).exp2())
        .sum();
    let assumed = tail(secret_weight(Parameters::s2048()));
    assert!((average.log2()..average.log2() + 1.5).contains(&assumed), "{assumed} for {}", average.log2());
}

/// With another gadget at every level, so that no level is taken for another.
fn parameters(degree: usize) -> Parameters {
    let gadgets: Vec<Gadget> =
        (0..degree.ilog2()).map(|level| Gadget { digits: 3, base_bits: 5 + level % 7 }).collect();
    let (large, small) = (1_125_899_906_826_241, 68_719_230_977);
    Parameters::new_allowing_insecure_parameters(degree, large, small, 9, &gadgets).unwrap()
}

/// `p(X^k)` in degree N, over the reals.
fn substitute(polynomial: &[f64], k: usize) -> Vec<f64> {
    let degree = polynomial.len();
    let mut out = vec![0.0; degree];
    for (m, value) in polynomial.iter().enumerate() {
        let power = m * k % (2 * degree);
        out[power % degree] = if power < degree { *value } else { -value };
    }
    out
}

/// `p X^-shift`.
fn divide_by_monomial(polynomial: &[f64], shift: usize) -> Vec<f64> {
    let (low, high) = polynomial.split_at(shift);
    high.iter().copied().chain(low.iter().map(|value| -value)).collect()
}

/// EXPAND of noise: the leaves below a node, where `error` is what one substitution adds, at a level and at the node
/// whose first leaf has a number.
fn expand(
    node: Vec<f64>,
    first: usize,
    leaves: usize,
    level: usize,
    levels: usize,
    error: &dyn Fn(usize, usize) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    if level == levels {
        return vec![node];
    }
    let degree = node.len();
    let mut substituted = substitute(&node, (degree >> level) + 1);
    substituted.iter_mut().zip(error(level, first)).for_each(|(value, error)| *value += error);
    let half = 1 << (levels - 1 - level);
    let sum = node.iter().zip(&substituted).map(|(a, b)| a + b).collect();
    let mut all = expand(sum, first, leaves.min(half), level + 1, levels, error);
    if leaves > half {
        let difference: Vec<f64> = node.iter().zip(&substituted).map(|(a, b)| a - b).collect();
        let odd = divide_by_monomial(&difference, 1 << level);
        all.extend(expand(odd, first + half, leaves - half, level + 1, levels, error));
    }
    all
}

/// What every coefficient of every source of noise, all of variance 1, comes to at all coefficients of the leaves.
struct Columns(Vec<Vec<f64>>);

impl Columns {
    /// Of the query, as it is divided by `2^levels` before the first level.
    fn of_query(degree: usize, leaves: usize, levels: usize) -> Self {
        let column = |coefficient: usize| {
            let mut query = vec![0.0; degree];
            query[coefficient] = 1.0 / (1 << levels) as f64;
            expand(query, 0, leaves, 0, levels, &|_, _| vec![0.0; degree]).concat()
        };
        Self((0..degree).map(column).collect())
    }

    /// Of all substitutions of a level.
    fn of_level(degree: usize, leaves: usize, levels: usize, level: usize) -> Self {
        let nodes = (0..leaves).step_by(1 << (levels - level));
        let column = |(node, coefficient): (usize, usize)| {
            let error = |at: usize, first: usize| {
                let mut error = vec![0.0; degree];
                error[coefficient] = f64::from(u8::from(at == level && first == node));
                error
            };
            expand(vec![0.0; degree], 0, leaves, 0, levels, &error).concat()
        };
        let sources = nodes.flat_map(|node| (0..degree).map(move |coefficient| (node, coefficient)));
        Self(sources.map(column).collect())
    }

    /// The mean energy of all leaves.
    fn energy(&self) -> f64 {
        self.0.iter().flatten().map(|value| value * value).sum()
    }

    /// The largest eigenvalue of that quadratic form, by repeated multiplication.
    fn largest_eigenvalue(&self) -> f64 {
        let mut vector: Vec<f64> = (0..self.0.len()).map(|i| 1.0 + (i % 7) as f64 / 7.0).collect();
        let mut eigenvalue = 0.0;
        for _ in 0..200 {
            let mut leaves = vec![0.0; self.0[0].len()];
            for (column, factor) in self.0.iter().zip(&vector) {
                leaves.iter_mut().zip(column).for_each(|(sum, value)| *sum += factor * value);
            }
            let next: Vec<f64> =
                self.0.iter().map(|column| column.iter().zip(&leaves).map(|(a, b)| a * b).sum()).collect();
            eigenvalue = next.iter().map(|x| x * x).sum::<f64>().sqrt();
            vector = next.iter().map(|x| x / eigenvalue).collect();
        }
        eigenvalue
    }
}

#[test]
fn the_energy_that_is_assumed_is_that_of_the_tree_of_substitutions() {
    let sigma = sampling::error_deviation();
    for (degree, levels, leaves) in [(8, 3, 8), (8, 3, 5), (16, 3, 2), (16, 4, 9), (16, 4, 1), (16, 2, 3)] {
        let parameters = parameters(degree);
        let circuit = Circuit {
            query_dropped_bits: 4,
            levels: levels as u32,
            rows: leaves,
            columns: 1,
            groups: 1,
            answer_bits: 17,
        };
        // Errors, and 4 bits that are dropped: uniform of width 16.
        let query = sigma * sigma + 256.0 / 12.0;
        let tree = Columns::of_query(degree, leaves, levels);
        let (mut energy, mut largest) = (query * tree.energy(), vec![query * tree.largest_eigenvalue()]);
        for level in 0..levels {
            let variance = substitution(&parameters, level).powi(2);
            let tree = Columns::of_level(degree, leaves, levels, level);
            energy += variance * tree.energy();
            largest.push(variance * tree.largest_eigenvalue());
        }
        // From what is assumed back to the largest eigenvalue, by the bound on the probability of an excess y:
        // exp(-(T/m)/2 (y - 1 - ln y)) = 2^-46.
        let eigenvalue = |spread: &dyn Fn(usize) -> f64| {
            let y = energy_factor(&parameters, &circuit, leaves, ENERGY_LOG2, spread);
            assert!(y > 1.0);
            energy * (y - 1.0 - y.ln()) / (2.0 * 46.0 * core::f64::consts::LN_2)
        };
        let close = |what: &str, a: f64, b: f64| {
            assert!((a / b - 1.0).abs() < 1e-4, "{what}: {a} for {b}, {leaves} leaves of {levels} levels");
        };
        close("all", eigenvalue(&|_| 1.0), largest.iter().sum());
        close("the query", eigenvalue(&|_| 0.0), largest[0]);
        for level in 0..levels {
            let one = eigenvalue(&|other| f64::from(u8::from(other == level)));
            close("a level", one, largest[0] + largest[1 + level]);
            let thrice = eigenvalue(&|other| if other == level { 3.0 } else { 0.0 });
            close("a level that is coloured", thrice, largest[0] + 3.0 * largest[1 + level]);
        }
    }
}

/// Half the leaves have half the energy, with the same largest eigenvalue; of a query for two dimensions both use the tree.
#[test]
fn fewer_selectors_may_exceed_their_mean_by_more() {
    let parameters = parameters(16);
    let circuit =
        Circuit { query_dropped_bits: 4, levels: 4, rows: 8, columns: 8, groups: 1, answer_bits: 17 };
    let needed = |circuit: &Circuit, selectors| {
        let y = energy_factor(&parameters, circuit, selectors, ENERGY_LOG2, &|_| 1.0);
        y - 1.0 - y.ln()
    };
    assert!((needed(&circuit, 8) / needed(&circuit, 16) - 2.0).abs() < 1e-6);
    // Sixteen rows alone use the same sixteen leaves.
    let rows = Circuit { rows: 16, columns: 1, ..circuit };
    assert!((needed(&circuit, 16) / needed(&rows, 16) - 1.0).abs() < 1e-6);
    // With eight leaves in all, the two subtrees of the root are not both used.
    let half = Circuit { columns: 1, ..circuit };
    assert!(needed(&half, 8) < 0.99 * needed(&circuit, 8));
}

#[test]
fn a_coefficient_is_safe_up_to_half_a_step_of_the_plaintext() {
    // Steps of 2^8 for answers of 17 bits, and of 2^9 for those of 18: half a step is 16 deviations of 8.
    let bfv = Parameters::s2048();
    for (bits, deviation) in [(17, 8.0), (18, 16.0)] {
        let margin = 16.0;
        let failure = stage_failure_log2(bfv, bits, deviation);
        // Of the tail of a Gaussian: the integral by midpoints, from the margin to where nothing is left.
        let step = 1.0 / 4096.0;
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * core::f64::consts::PI).sqrt();
        let tail: f64 = (0..1 << 14).map(|i| density(margin + (f64::from(i) + 0.5) * step) * step).sum();
        let exact = (2.0 * tail).log2();
        // The bound divides by x once more than the tail is long: too much by a factor below 1 + 1/x^2.
        assert!((exact..exact + (1.0 + margin.powi(-2)).log2()).contains(&failure), "{failure} for {exact}");
    }
    assert!(stage_failure_log2(bfv, 17, 1e9) <= 0.0, "a probability");
}

/// By the table at the head of `noise.rs`, with 40 decimal digits and roots found by Newton's method.
#[test]
fn the_failure_bound_is_that_of_the_table() {
    let close = |what: &str, value: f64, expected: f64| {
        assert!((value / expected - 1.0).abs() < 1e-8, "{what}: {value} for {expected}");
    };
    for (share, y) in [(0.001, 1.400_845_582_17), (0.1, 9.643_207_887_29), (1.0, 69.003_700_748_7)] {
        close("excess", energy_excess(share), y);
    }
    let bfv = Parameters::s2048();
    // Levels with the same gadget have the same.
    for (levels, spread) in [
        (0..3, 13.943_416_928_3),
        (3..6, 11.750_408_732_7),
        (6..8, 17.710_186_891_2),
        (8..9, 14.552_889_280_8),
        (9..11, 25.080_112_708_4),
    ] {
        levels.for_each(|level| close("spread", key_spread(bfv, level), spread));
    }
    // Dropped bits, levels, rows, columns, groups, bits of the answer. What dominates differs: the answer after one
    // dimension and after two, what is between them, and the energy that is assumed.
    for ([dropped, levels, rows, columns, groups, bits], white, for_keys) in [
        ([20, 11, 2000, 1, 2, 17], -3.573_679_666_29, -1.147_352_046_98),
        ([20, 11, 1200, 700, 2, 17], -13.908_938_900_4, -8.308_596_556_89),
        ([20, 11, 700, 60, 1, 17], -30.093_672_342, -21.130_401_977_4),
        ([20, 11, 1900, 20, 1, 18], -6.789_332_650_53, -3.690_442_256_14),
        ([0, 10, 300, 200, 1, 17], -44.999_999_974_1, -59.113_276_756_2),
        ([20, 11, 40, 1, 1, 16], -16.250_497_004_6, -14.767_625_584_2),
    ] {
        let circuit = Circuit {
            query_dropped_bits: dropped,
            levels,
            rows: rows as usize,
            columns: columns as usize,
            groups: groups as usize,
            answer_bits: bits,
        };
        close("white noise", failure_log2(bfv, &circuit), white);
        let bound = failure_for_keys_log2(bfv, &circuit, |level| key_spread(bfv, level));
        close("keys that stay", bound, for_keys);
    }
}

/// However little of the energy an eigenvalue has.
#[test]
fn an_excess_solves_its_equation() {
    for needed in [0.01, 1.0, 30.0, 1e3, 1e6] {
        let y = excess(needed);
        let found = y - 1.0 - y.ln();
        assert!(y > 1.0 && (found / needed - 1.0).abs() < 1e-9, "{needed}: {y}");
    }
}
