//! The constants, measured on the machine this runs on.

use anyhow::Context;
use indicatif::ProgressBar;
use pbc::{BatchCode, CuckooCode, recommended_buckets};
use pir_core::sealpir::Database;
use pir_core::{Scheme, SealPir};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use sotto_protocol::deposit::{BOX_BYTES, LABEL_BYTES};

use super::fit::{fit, residual};
use super::{AnswerTime, BucketSize, Constants};
use crate::cpu::timed;
use crate::engine::StageTimes;
use crate::machine::{self, Machine};

/// What a calibration found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Calibration {
    pub(crate) machine: Machine,
    pub(crate) commit: Option<String>,
    pub(crate) constants: Constants,
    pub(crate) answer_error: Uncertainty,
    pub(crate) setup_error: Uncertainty,
}

/// Relative deviations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Uncertainty {
    /// Standard deviation of repeated runs, the root of the mean square over all sizes.
    pub(crate) spread: f64,
    /// Of the model at sizes that it was not fitted to, the root of the mean square.
    pub(crate) residual: f64,
}

impl Uncertainty {
    /// Both together, as of independent errors.
    pub(crate) fn total(&self) -> f64 {
        self.spread.hypot(self.residual)
    }
}

/// What is measured: sizes of buckets, in elements, in ascending order; every other one, from the second on, is kept out
/// of the fit.
struct Plan {
    buckets: &'static [usize],
    rounds: &'static [usize],
    repeats: usize,
    /// Prepared buckets of each size, bytes: more than a cache holds, as on a server.
    prepared: usize,
    /// Answers that make a run, at least.
    answers: usize,
}

const FULL: Plan = Plan {
    buckets: &[300, 800, 2_000, 5_000, 12_000, 30_000, 75_000, 130_000, 200_000],
    rounds: &[1 << 14, 1 << 16, 1 << 17],
    repeats: 5,
    prepared: 96 << 20,
    answers: 6,
};

const QUICK: Plan = Plan {
    buckets: &[100, 200, 400, 800, 1_600],
    rounds: &[1 << 10, 1 << 11, 1 << 12],
    repeats: 2,
    prepared: 1 << 20,
    answers: 4,
};

/// Measures on the calling thread, less than a minute; a quick one is good for nothing but tests.
pub(crate) fn calibrate(quick: bool, progress: &ProgressBar) -> anyhow::Result<Calibration> {
    let plan = if quick { &QUICK } else { &FULL };
    progress.set_length(((plan.repeats + 1) * plan.buckets.len() + plan.rounds.len()) as u64);
    progress.set_message("calibration");
    let client = Client::new()?;
    let mut buckets = Vec::new();
    for &elements in plan.buckets {
        buckets.push(Measured::prepare(plan, elements, &client)?);
        progress.inc(1);
    }
    // All sizes in turn, so that what disturbs the machine for a while disturbs all of them, and shows in the spread.
    for _ in 0..plan.repeats {
        for bucket in &mut buckets {
            bucket.answer(plan.answers, &client)?;
            progress.inc(1);
        }
    }
    let mut encode = Vec::new();
    for &boxes in plan.rounds {
        encode.push(encode_codeword(boxes, plan.repeats)?);
        progress.inc(1);
    }
    progress.finish_and_clear();

    let fitted = || buckets.iter().step_by(2);
    let kept_out = || buckets.iter().skip(1).step_by(2);
    let answers = |features: fn(&BucketSize) -> [f64; 2], part: fn(&AnswerTime) -> f64| {
        let points: Vec<_> = fitted()
            .flat_map(|bucket| {
                bucket.answers.iter().map(move |time| (features(&bucket.size), 1e3 * part(time)))
            })
            .collect();
        fit(&points)
    };
    let setups: Vec<_> = fitted()
        .flat_map(|bucket| bucket.setups.iter().map(|ms| (bucket.size.setup_features(), 1e3 * ms)))
        .collect();
    let [query, transform] = answers(BucketSize::expand_features, |time| time.expand);
    let [arranged, scanned_kib] = answers(BucketSize::first_features, |time| time.first_dimension);
    let [answer, column] = answers(BucketSize::rest_features, |time| time.rest);
    let [setup_bucket, setup_plaintext] = fit(&setups);
    let encode_codeword = encode.iter().sum::<f64>() / encode.len() as f64;
    let constants = Constants {
        query,
        transform,
        arranged,
        scanned_kib,
        column,
        answer,
        setup_bucket,
        setup_plaintext,
        encode_codeword,
    };
    let totals = |bucket: &Measured| bucket.answers.iter().map(AnswerTime::total).collect::<Vec<_>>();
    let answer_error = Uncertainty {
        spread: spread(buckets.iter().map(totals)),
        residual: residual(
            kept_out().map(|bucket| (constants.answer(&bucket.size).total(), mean(&totals(bucket)))),
        ),
    };
    let setup_error = Uncertainty {
        spread: spread(buckets.iter().map(|bucket| bucket.setups.clone())),
        residual: residual(
            kept_out().map(|bucket| (constants.setup_bucket(&bucket.size), mean(&bucket.setups))),
        ),
    };
    Ok(Calibration {
        machine: Machine::here(),
        commit: machine::commit(),
        constants,
        answer_error,
        setup_error,
    })
}

/// Whose queries are answered.
struct Client {
    key: <SealPir as Scheme>::ClientKey,
    public_keys: <SealPir as Scheme>::PublicKeys,
}

impl Client {
    fn new() -> anyhow::Result<Self> {
        let key = SealPir::client_key(&[1; 32]);
        let public_keys = SealPir::decode_public_keys(&SealPir::encode_public_keys(&key))?;
        Ok(Self { key, public_keys })
    }
}

/// Buckets of one size, and the times they took, milliseconds.
struct Measured {
    size: BucketSize,
    databases: Vec<Database>,
    query: Vec<u8>,
    /// The bucket that is answered next.
    next: usize,
    /// Of one answer, a mean for each run.
    answers: Vec<AnswerTime>,
    setups: Vec<f64>,
}

impl Measured {
    fn prepare(plan: &Plan, elements: usize, client: &Client) -> anyhow::Result<Self> {
        let size = BucketSize::of(elements)?;
        let mut rng = StdRng::seed_from_u64(elements as u64);
        let mut bytes = vec![0; elements * BOX_BYTES];
        rng.fill_bytes(&mut bytes);
        let queries = SealPir::queries(&client.key, &[(&size.parameters, elements / 2)], &mut rng)?;
        let query = queries.into_iter().next().context("one query")?;
        let count = plan.prepared.div_ceil(size.parameters.database_bytes()).max(plan.repeats);
        // Large ones are set up as often as the spread needs, but held once.
        let held = plan.prepared.div_ceil(size.parameters.database_bytes());
        let (mut databases, mut times) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (database, time) = timed(|| SealPir::setup(&size.parameters, &bytes));
            times.push(time);
            if number < held {
                databases.push(database?);
            }
        }
        // Small ones take less than the clock is good for: means, as many as there are repeats.
        let setups = times.chunks(count.div_ceil(plan.repeats)).map(mean).collect();
        Ok(Self { size, databases, query, next: 0, answers: Vec::new(), setups })
    }

    /// One run.
    fn answer(&mut self, answers: usize, client: &Client) -> anyhow::Result<()> {
        let mut times = StageTimes::default();
        for _ in 0..answers {
            let database = &self.databases[self.next % self.databases.len()];
            self.next += 1;
            times.answer::<SealPir>(database, &[(&client.public_keys, &self.query)])?;
        }
        let StageTimes { expand, first_dimension, total } = times;
        let all = AnswerTime { expand, first_dimension, rest: total - expand - first_dimension };
        self.answers.push(all.times(1.0 / answers as f64));
        Ok(())
    }
}

/// CPU time of Encode for each codeword, with its bytes, microseconds; in memory that is used again, as a server's is.
fn encode_codeword(boxes: usize, repeats: usize) -> anyhow::Result<f64> {
    const RETRIEVE: usize = 16;
    let mut rng = StdRng::seed_from_u64(boxes as u64);
    let buckets = recommended_buckets(RETRIEVE, 3).context("a number of buckets")?;
    let code = CuckooCode::new(RETRIEVE, buckets, 3, rng.random())?;
    let mut labels = vec![[0; LABEL_BYTES]; boxes];
    labels.iter_mut().for_each(|label| rng.fill_bytes(label));
    let keys: Vec<&[u8]> = labels.iter().map(<[u8; LABEL_BYTES]>::as_slice).collect();
    let elements = vec![7; boxes * BOX_BYTES];
    let mut contents = Vec::new();
    let mut times = Vec::new();
    for _ in 0..=repeats {
        let (encoded, time) = timed(|| -> anyhow::Result<usize> {
            let encoding = code.encode(&keys);
            let padded = encoding.largest();
            encoding.materialise_contents(BOX_BYTES, &elements, padded, &mut contents)?;
            Ok(buckets * padded)
        });
        times.push(1e3 * time / encoded? as f64);
    }
    // The first one gets its memory from the system.
    Ok(mean(&times[1..]))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The root of the mean of the relative variances of all groups.
fn spread(groups: impl Iterator<Item = Vec<f64>>) -> f64 {
    let variances: Vec<f64> = groups
        .filter(|values| values.len() > 1)
        .map(|values| {
            let mean = mean(&values);
            let squares: f64 = values.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
            squares / (values.len() - 1) as f64
        })
        .collect();
    (variances.iter().sum::<f64>() / variances.len().max(1) as f64).sqrt()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use indicatif::ProgressBar;

    use super::{Calibration, Uncertainty, calibrate, spread};

    #[test]
    fn the_spread_is_relative_and_both_errors_add_as_squares() {
        let groups = [vec![9.0, 11.0], vec![0.9, 1.1], vec![5.0]];
        // Each pair: (0.1^2 + 0.1^2) / 1.
        assert!((spread(groups.into_iter()) - 0.02_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Uncertainty { spread: 3.0, residual: 4.0 }.total(), 5.0);
    }

    /// A constant of nothing would predict that work is free; a file that is read back must say the same.
    #[test]
    fn a_calibration_measures_and_can_be_kept() {
        let calibration = calibrate(true, &ProgressBar::hidden()).unwrap();
        let constants = calibration.constants;
        assert!(constants.transform > 0.0 && constants.scanned_kib > 0.0 && constants.column > 0.0);
        assert!(constants.setup_plaintext > 0.0 && constants.encode_codeword > 0.0);
        assert!(calibration.answer_error.total() > 0.0 && calibration.answer_error.total().is_finite());
        let json = serde_json::to_string(&calibration).unwrap();
        assert_eq!(serde_json::from_str::<Calibration>(&json).unwrap(), calibration);
    }
}
