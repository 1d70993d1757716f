//! Whole retrievals: encode, plan, ask, answer, extract, compare.

use core::time::Duration;

use anyhow::ensure;
use indicatif::{ProgressBar, ProgressStyle};
use mpir::{MultiClient, reconstruct};
use pbc::{BatchCode, Encoding, EncodingOracle, PartitionedCode, Plan};
use pir_baselines::{PaperSealPir, Xpir};
use pir_core::SealPir;
use pir_core::ring::Backend;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::report::Report;
use super::server::{Served, serve};
use super::{Setting, Way};
use crate::cpu::{median, timed};
use crate::engine::{Engine, EngineName};
use crate::pbc::{Code, Dimensions};

/// Single queries that are measured; all of them cost the same.
const SINGLE_QUERIES: usize = 8;

/// CPU time of one run, milliseconds.
struct Times {
    encode: f64,
    plan: f64,
    query: f64,
    extract: f64,
    served: Served,
}

/// The same database and client for all runs.
struct World<'a, E: Engine> {
    setting: &'a Setting,
    elements: Vec<u8>,
    client: MultiClient<E>,
    public_keys: E::PublicKeys,
    progress: ProgressBar,
}

/// What does not depend on the run.
struct Shape<E: Engine> {
    parameters: E::Parameters,
    buckets: usize,
    bucket_size: usize,
    codewords: usize,
}

/// Measures on the calling thread; `message` stands beside the progress bar.
pub(crate) fn measure(setting: &Setting, message: &str) -> anyhow::Result<Report> {
    match setting.engine {
        EngineName::Sealpir => measure_engine::<SealPir>(setting, message),
        EngineName::Xpir2 => measure_engine::<Xpir<2>>(setting, message),
        EngineName::Xpir3 => measure_engine::<Xpir<3>>(setting, message),
        EngineName::PaperT20 => measure_engine::<PaperSealPir<20>>(setting, message),
        EngineName::PaperT23 => measure_engine::<PaperSealPir<23>>(setting, message),
    }
}

fn measure_engine<E: Engine>(setting: &Setting, message: &str) -> anyhow::Result<Report> {
    ensure!(
        (1..=setting.elements).contains(&setting.k),
        "k is at least 1 and at most the number of elements"
    );
    let mut rng = StdRng::seed_from_u64(setting.seed);
    let mut elements = vec![0; setting.elements * setting.bytes];
    rng.fill_bytes(&mut elements);
    let client = MultiClient::<E>::new(&rng.random());
    let key_bytes = client.public_keys();
    let public_keys = E::decode_public_keys(&key_bytes)?;
    let world: World<'_, E> =
        World { setting, elements, client, public_keys, progress: progress_bar(message) };

    let measured = match setting.way.code() {
        None => single(&world, &mut rng)?,
        Some(code) => {
            let Setting { k, elements: n, b, w, .. } = *setting;
            let dimensions = Dimensions { n, b, w, ..Dimensions::of(code, k) };
            coded(&world, &Code::new(dimensions, rng.random())?, &mut rng)?
        }
    };
    world.progress.finish_and_clear();
    Ok(report(setting, key_bytes.len(), measured))
}

/// Times and shape, and how many keys were deferred and whether all others were right.
struct Measured<E: Engine> {
    times: Vec<Times>,
    shape: Shape<E>,
    deferred: usize,
    verified: bool,
}

impl<E: Engine> World<'_, E> {
    fn element(&self, index: usize) -> &[u8] {
        &self.elements[index * self.setting.bytes..][..self.setting.bytes]
    }

    /// So many different indices.
    fn wanted(&self, count: usize, rng: &mut StdRng) -> Vec<usize> {
        rand::seq::index::sample(rng, self.setting.elements, count).into_vec()
    }

    fn serve(
        &self,
        contents: &[&[u8]],
        copies: usize,
        parameters: &E::Parameters,
        queries: &[Vec<u8>],
    ) -> anyhow::Result<Served> {
        let steps = u64::from(self.setting.runs) * (contents.len() + queries.len()) as u64;
        self.progress.set_length(steps);
        serve::<E>(contents, copies, parameters, &self.public_keys, queries, &|steps| {
            self.progress.inc(steps);
        })
    }
}

/// Queries of the whole database; without a code there is nothing to encode or plan.
fn single<E: Engine>(world: &World<'_, E>, rng: &mut StdRng) -> anyhow::Result<Measured<E>> {
    let Setting { k, elements: n, bytes, runs, .. } = *world.setting;
    let parameters = E::parameters_to_measure(n, bytes)?;
    let (mut times, mut verified) = (Vec::new(), true);
    for _ in 0..runs {
        let wanted = world.wanted(k.min(SINGLE_QUERIES), rng);
        let targets: Vec<Option<usize>> = wanted.iter().copied().map(Some).collect();
        let (query, query_time) = timed(|| world.client.multi_query(&parameters, &targets, rng));
        let query = query?;
        let served = world.serve(&[&world.elements], wanted.len(), &parameters, query.encoded())?;
        let (found, extract) = timed(|| world.client.multi_extract(&parameters, &query, &served.answers));
        for (index, found) in wanted.into_iter().zip(found) {
            verified &= found? == world.element(index);
        }
        times.push(Times { encode: 0.0, plan: 0.0, query: query_time, extract, served });
    }
    let shape = Shape { parameters, buckets: k, bucket_size: n, codewords: n };
    Ok(Measured { times, shape, deferred: 0, verified })
}

fn coded<E: Engine>(world: &World<'_, E>, code: &Code, rng: &mut StdRng) -> anyhow::Result<Measured<E>> {
    let Setting { k, elements: n, bytes, runs, .. } = *world.setting;
    let batch: &dyn BatchCode = code.batch();
    let keys: Vec<[u8; 8]> = (0..n as u64).map(PartitionedCode::key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();

    // Always the same one.
    let encoding = batch.encode(&keys);
    let bucket_size = encoding.largest();
    // Those of a server, which has longer answers for a client that asks once.
    let parameters = if batch.bucket_count() == 1 && world.setting.engine == EngineName::Sealpir {
        E::parameters_for_one_query(bucket_size, bytes)?
    } else {
        E::parameters_to_measure(bucket_size, bytes)?
    };
    let oracle = EncodingOracle::new(&encoding, &keys);
    let (mut times, mut deferred, mut verified) = (Vec::new(), 0, true);
    let mut contents = Vec::new();
    for _ in 0..runs {
        let (encoded, encode) = timed(|| -> Result<Encoding, pbc::Error> {
            let encoding = batch.encode(&keys);
            encoding.materialise_contents(bytes, &world.elements, bucket_size, &mut contents)?;
            Ok(encoding)
        });
        ensure!(encoded? == encoding, "a code that encodes the same elements otherwise the second time");

        let wanted = world.wanted(k, rng);
        let wanted_keys: Vec<&[u8]> = wanted.iter().map(|index| keys[*index]).collect();
        let (plan, plan_time) = timed(|| match code {
            // It computes positions by itself.
            Code::Partitioned(code, _) => Plan::new(batch, &wanted_keys, code),
            _ => Plan::new(batch, &wanted_keys, &oracle),
        });
        let (query, query_time) = timed(|| world.client.multi_query(&parameters, &plan.targets, rng));
        let query = query?;
        let slices: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        let served = world.serve(&slices, encoding.copies(), &parameters, query.encoded())?;
        let (found, extract) = timed(|| {
            let codewords = world.client.multi_extract(&parameters, &query, &served.answers);
            reconstruct(batch, &plan, &codewords)
        });
        for (index, found) in wanted.into_iter().zip(found) {
            match found {
                Some(found) => verified &= found? == world.element(index),
                None => deferred += 1,
            }
        }
        times.push(Times { encode, plan: plan_time, query: query_time, extract, served });
    }
    let (buckets, codewords) = (batch.bucket_count(), encoding.codewords());
    Ok(Measured { times, shape: Shape { parameters, buckets, bucket_size, codewords }, deferred, verified })
}

fn report<E: Engine>(setting: &Setting, key_bytes: usize, measured: Measured<E>) -> Report {
    let Measured { times, shape, deferred, verified } = measured;
    let k = setting.k;
    let sampled = (setting.way == Way::Single && k > SINGLE_QUERIES).then_some(SINGLE_QUERIES);
    let scale = sampled.map_or(1.0, |sampled| k as f64 / sampled as f64);
    let over = |part: fn(&Times) -> f64| median(times.iter().map(part).collect());
    let scaled = |part| scale * over(part);
    let answer = scaled(|times| times.served.times.total);
    let before_products = scaled(|times| times.served.times.expand);
    Report {
        setting: *setting,
        server_cpu_ms: answer,
        server_cpu_ms_per_message: answer / k as f64,
        encode_cpu_ms: over(|times| times.encode),
        setup_cpu_ms: over(|times| times.served.setup),
        expand_cpu_ms: E::EXPANDS.then_some(before_products),
        parse_cpu_ms: (!E::EXPANDS).then_some(before_products),
        first_dimension_cpu_ms: scaled(|times| times.served.times.first_dimension),
        rest_cpu_ms: scaled(|Times { served: Served { times, .. }, .. }| {
            times.total - times.expand - times.first_dimension
        }),
        answer_cpu_ms: answer,
        client_query_cpu_ms: scaled(|times| times.query),
        client_extract_cpu_ms: scaled(|times| times.extract),
        plan_cpu_ms: over(|times| times.plan),
        upload_bytes: shape.buckets * E::query_bytes(&shape.parameters),
        download_bytes: shape.buckets * E::answer_bytes(&shape.parameters),
        key_bytes,
        buckets: shape.buckets,
        bucket_size: shape.bucket_size,
        codewords: shape.codewords,
        dimensions: E::arrangement(&shape.parameters).dimensions,
        database_bytes: times.first().map_or(0, |times| times.served.database_bytes),
        deferred,
        verified,
        sampled,
        kernel: Backend::active().name().to_owned(),
    }
}

/// On the terminal only; hidden where the error output is not one.
fn progress_bar(message: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:40} {percent} % {elapsed} gone, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let progress = ProgressBar::new(0).with_style(style).with_message(message.to_owned());
    progress.enable_steady_tick(Duration::from_millis(200));
    progress
}
