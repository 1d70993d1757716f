//! The constants, measured on the machine this runs on.

use anyhow::ensure;
use indicatif::ProgressBar;
use mpir::{Contents, Engine, PreparedRound, Query, RoundSpec};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::{Deserialize, Serialize};
use sotto_measuring::cpu::{Stages, process_timed, timed};
use sotto_measuring::engine::{Client, EngineName};
use sotto_measuring::machine::{self, Machine};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Label, SealedBox};
use sottod::{Addressing, Preference};

use super::constants::Constants;
use super::fit::{fit, residual};
use super::sizes::{BucketSize, VoceSize, default_code};
use super::uncertainty::{Uncertainty, mean, spread};
use super::{transport, voce};

/// What Voce's constants are of: 1 since queries and buckets have their own.
const MODEL: u8 = 1;

/// What a calibration found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub(crate) machine: Machine,
    pub(crate) commit: Option<String>,
    #[serde(default)]
    pub(crate) engine: EngineName,
    /// Of what the constants of Voce are.
    #[serde(default)]
    pub(crate) model: u8,
    /// At work at a time.
    pub(crate) threads: usize,
    /// CPU time of the parts.
    pub constants: Constants,
    /// How well those of answers are known.
    pub answer_error: Uncertainty,
    /// How well those of set-up are known.
    pub setup_error: Uncertainty,
}

impl Calibration {
    /// What was found here, of answers and set-up.
    fn new(
        engine: EngineName,
        threads: usize,
        constants: Constants,
        [answer_error, setup_error]: [Uncertainty; 2],
    ) -> Self {
        let (machine, commit) = (Machine::here(), machine::commit());
        Self { machine, commit, engine, model: MODEL, threads, constants, answer_error, setup_error }
    }

    /// Refuses what no measurement finds.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Self { constants, answer_error, setup_error, .. } = self;
        let constants = serde_json::to_value(constants)?;
        let values = constants.as_object().into_iter().flat_map(|map| map.values());
        let values = values.map(|value| value.as_f64().unwrap_or(f64::NAN));
        let errors = [answer_error, setup_error].map(Uncertainty::total);
        for value in values.chain(errors) {
            ensure!(value.is_finite() && value >= 0.0, "{value} is neither a cost nor an error");
        }
        let Constants { query, transform, arranged, scanned_kib, .. } = self.constants;
        let is_former = self.engine.packs() && self.model != MODEL;
        ensure!(!is_former, "the constants of Voce are of another version: measure them again");
        // With few small sizes the parts of Voce cannot be told from each other.
        let costs = if self.engine.packs() {
            query + transform + arranged + scanned_kib > 0.0
        } else {
            transform > 0.0 && scanned_kib > 0.0
        };
        ensure!(costs, "an answer that costs nothing");
        Ok(())
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

/// Measures with so many threads at work at a time, for one to three minutes; a quick one is good for nothing but tests.
///
/// A core is slower while its neighbour works, too: an operator pays for busy ones.
///
/// # Errors
/// If a closed loop, from which the constants of transport are, cannot be run.
pub fn calibrate(
    engine: EngineName,
    quick: bool,
    threads: usize,
    progress: &ProgressBar,
) -> anyhow::Result<Calibration> {
    let plan = if quick { &QUICK } else { &FULL };
    if engine.packs() {
        return of_voce(engine, plan, quick, threads, progress);
    }
    progress.set_length(((plan.repeats + 1) * plan.buckets.len() + plan.rounds.len() + 1) as u64);
    progress.set_message("calibration");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let name = engine;
    let engine = engine.engine();
    let mut client = Client::new(&*engine, &[1; 32])?;
    let keys = 1e3 * reading_keys(&*engine, &client);
    let mut buckets = Vec::new();
    for &elements in plan.buckets {
        buckets.push(Measured::prepare(plan, elements, &pool, &*engine, &mut client)?);
        progress.inc(1);
    }
    // All sizes in turn, so that what disturbs the machine for a while disturbs all of them, and shows in the spread.
    for _ in 0..plan.repeats {
        for bucket in &mut buckets {
            bucket.answer(plan.answers, &pool, &client)?;
            progress.inc(1);
        }
    }
    let mut rounds = Vec::new();
    for &boxes in plan.rounds {
        rounds.push(pool.install(|| of_round(boxes, plan.repeats))?);
        progress.inc(1);
    }
    let [calls, sent_kib] = transport::measure(quick)?;
    progress.finish_and_clear();

    let fitted = || buckets.iter().step_by(2);
    let kept_out = || buckets.iter().skip(1).step_by(2);
    let answers = |features: fn(&BucketSize) -> [f64; 2], part: fn(&Stages) -> f64| {
        let point = |size, time| (features(size), 1e3 * part(time));
        let points =
            fitted().flat_map(|bucket| bucket.answers.iter().map(move |time| point(&bucket.size, time)));
        fit(&points.collect::<Vec<_>>())
    };
    let setups = fitted().flat_map(|bucket| {
        bucket.setups.iter().map(|milliseconds| (bucket.size.setup_features(), 1e3 * milliseconds))
    });
    let [query, transform] = answers(BucketSize::expand_features, |time| time.expand);
    let [arranged, scanned_kib] = answers(BucketSize::first_features, |time| time.first_dimension);
    let [answer, column] = answers(BucketSize::rest_features, |time| time.rest);
    let [setup_bucket, setup_plaintext] = fit(&setups.collect::<Vec<_>>());
    let [sealed_box, encode_codeword, mapped_codeword] =
        [0, 1, 2].map(|part| mean(&rounds.iter().map(|times| times[part]).collect::<Vec<_>>()));
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
        sealed_box,
        mapped_codeword,
        calls,
        sent_kib,
        keys,
    };
    let totals = |bucket: &Measured| bucket.answers.iter().map(|times| times.total()).collect::<Vec<_>>();
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
    Ok(Calibration::new(name, threads, constants, [answer_error, setup_error]))
}

/// The same for Voce, of which units are measured as they are arranged by two preferences: with those of one alone, whose rows
/// and columns follow from the size, queries could not be told from packs.
fn of_voce(
    name: EngineName,
    plan: &Plan,
    quick: bool,
    threads: usize,
    progress: &ProgressBar,
) -> anyhow::Result<Calibration> {
    let sizes = voce::sizes(quick);
    // Units of a round take long enough one at a time.
    let threads = if quick { 1 } else { threads };
    let preferences = [Preference::Balanced, Preference::Time];
    progress.set_length((preferences.len() * sizes.len() + plan.rounds.len() + 1) as u64);
    progress.set_message("calibration");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let engine = name.engine();
    let keys = 1e3 * reading_keys(&*engine, &Client::new(&*engine, &[1; 32])?);
    let [mut fitted, mut kept_out] = [(); 2].map(|()| Vec::new());
    for (number, &elements) in sizes.iter().enumerate() {
        for preference in preferences {
            let one = voce::Measured::new(name, (elements, preference), plan.repeats, number as u64, &pool)?;
            if number % 2 == 0 {
                fitted.push(one);
            } else {
                kept_out.push(one);
            }
            progress.inc(1);
        }
    }
    let mut rounds = Vec::new();
    for &boxes in plan.rounds {
        rounds.push(pool.install(|| of_round(boxes, plan.repeats))?);
        progress.inc(1);
    }
    let [calls, sent_kib] = transport::measure(quick)?;
    progress.finish_and_clear();

    let answers = voce::Part { features: VoceSize::answer_features, times: |one| &one.answers };
    let setups = voce::Part { features: VoceSize::setup_features, times: |one| &one.setups };
    let answer @ [query, transform, arranged, scanned_kib] = answers.fit(&fitted);
    let setup @ [setup_bucket, setup_plaintext] = setups.fit(&fitted);
    let [sealed_box, encode_codeword, mapped_codeword] =
        [0, 1, 2].map(|part| mean(&rounds.iter().map(|times| times[part]).collect::<Vec<_>>()));
    let constants = Constants {
        query,
        transform,
        arranged,
        scanned_kib,
        column: 0.0,
        answer: 0.0,
        setup_bucket,
        setup_plaintext,
        encode_codeword,
        sealed_box,
        mapped_codeword,
        calls,
        sent_kib,
        keys,
    };
    let measured = [&fitted[..], &kept_out[..]];
    let errors = [answers.uncertainty(measured, answer), setups.uncertainty(measured, setup)];
    Ok(Calibration::new(name, threads, constants, errors))
}

/// CPU time of reading a client's public keys, milliseconds.
fn reading_keys(engine: &dyn Engine, client: &Client) -> f64 {
    let encoded = client.half.public_keys();
    // The first time takes fresh memory.
    let [_, time] = [(); 2].map(|()| timed(|| engine.public_keys(&encoded)).1);
    time
}

/// Buckets of one size, and the times they took, milliseconds.
struct Measured {
    size: BucketSize,
    databases: Vec<Box<dyn PreparedRound>>,
    query: Vec<u8>,
    /// The bucket that is answered next.
    next: usize,
    /// Of one answer, a mean for each run.
    answers: Vec<Stages>,
    setups: Vec<f64>,
}

impl Measured {
    fn prepare(
        plan: &Plan,
        elements: usize,
        pool: &ThreadPool,
        engine: &dyn Engine,
        client: &mut Client,
    ) -> anyhow::Result<Self> {
        let size = BucketSize::of(elements)?;
        let mut rng = StdRng::seed_from_u64(elements as u64);
        let mut bytes = vec![0; elements * BOX_BYTES];
        rng.fill_bytes(&mut bytes);
        let round = EngineName::Sealpir.bucket(elements, BOX_BYTES)?;
        // A client asks for a round once.
        let asked = RoundSpec { round: elements as u64, ..round.clone() };
        let query = client.half.ask(asked, &[Some(elements / 2)], &mut rng)?.bytes;
        let held = plan.prepared.div_ceil(size.parameters.database_bytes()).max(pool.current_num_threads());
        // As many at a time as a run takes, each on a thread of its own, as a server does it.
        let at_once = held.div_ceil(plan.repeats).max(pool.current_num_threads());
        let (mut databases, mut setups) = (Vec::new(), Vec::new());
        let contents = Contents { different: &[bytes], copies: 1 };
        for _ in 0..plan.repeats {
            let setup = |_| engine.prepare(&round, contents);
            let made =
                || pool.install(|| (0..at_once).into_par_iter().map(setup).collect::<Result<Vec<_>, _>>());
            let (made, time) = process_timed(made);
            setups.push(time / at_once as f64);
            databases.extend(made?);
            databases.truncate(held);
        }
        Ok(Self { size, databases, query, next: 0, answers: Vec::new(), setups })
    }

    /// One run, of so many answers on each thread.
    fn answer(&mut self, answers: usize, pool: &ThreadPool, client: &Client) -> anyhow::Result<()> {
        let (databases, first) = (&self.databases[..], self.next);
        let query = [Query { keys: &client.keys, request: &self.query }];
        let threads = pool.current_num_threads();
        let times = pool.broadcast(|context| {
            let answer = |number: usize| {
                let database = &databases[(first + number * threads + context.index()) % databases.len()];
                let (answers, stages) = Stages::timed(|observe| database.answer_observed(0, &query, observe));
                answers.into_iter().collect::<Result<Vec<_>, _>>().map(|_| stages)
            };
            (0..answers).map(answer).sum::<Result<Stages, _>>()
        });
        self.next += answers * threads;
        let all = times.into_iter().sum::<Result<Stages, mpir::Error>>()?;
        self.answers.push(all * (1.0 / (answers * threads) as f64));
        Ok(())
    }
}

/// CPU time of what is done with a whole round but SETUP: for a box that is put in its place and digested, for a codeword,
/// and for its mapping, microseconds. Means of so many rounds, in memory that is used again, as a server's is.
fn of_round(boxes: usize, repeats: usize) -> anyhow::Result<[f64; 3]> {
    const RETRIEVE: usize = 16;
    let mut rng = StdRng::seed_from_u64(boxes as u64);
    let seed: [u8; 32] = rng.random();
    let code = default_code(RETRIEVE, Addressing::Labels)?.code(seed)?;
    let mut deposits = vec![Deposit { label: Label([0; 16]), sealed: SealedBox([7; BOX_BYTES]) }; boxes];
    deposits.iter_mut().for_each(|deposit| rng.fill_bytes(&mut deposit.label.0));
    let (mut contents, mut times) = (Vec::new(), Vec::new());
    // The first one gets its memory from the system.
    for number in 0..=repeats {
        let (encoding, built) =
            sotto_closed_loop::build(&*code, &seed, &mut deposits.clone(), &mut contents)?;
        let codewords = (code.bucket_count() * encoding.largest()) as f64;
        if number > 0 {
            times.push([built.arrange / boxes as f64, built.encode / codewords, built.mapping / codewords]);
        }
    }
    Ok([0, 1, 2].map(|part| 1e3 * times.iter().map(|times| times[part]).sum::<f64>() / repeats as f64))
}
