//! Whole retrievals: encode, plan, ask, answer, extract, compare.

use std::sync::Arc;

use anyhow::ensure;
use indicatif::ProgressBar;
use mpir::{Contents, Engine, Form, Query, Request, RoundSpec, reconstruct};
use pbc::{Encoding, EncodingOracle, Oracle, PartitionedCode, Plan};
use pir_core::ring::Backend;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::report::Report;
use super::setting::Setting;
use crate::cpu::{Stages, median, timed};
use crate::engine::Client;
use crate::pbc::{Code, CodeName, Dimensions};
use crate::progress;

/// Single queries that are measured; all of them cost the same.
const SINGLE_QUERIES: usize = 8;

/// Prepared buckets held at a time, bytes. A server holds all of them; as many as this leave nothing of a bucket in a
/// processor's cache until it is answered, which is what counts.
const HELD: usize = 2 << 30;

/// The same database and client for all runs.
struct World<'a> {
    setting: &'a Setting,
    elements: Vec<u8>,
    engine: Arc<dyn Engine>,
    client: Client,
    rng: StdRng,
    progress: ProgressBar,
}

/// CPU time of one run, milliseconds.
#[derive(Default)]
struct Times {
    encode: f64,
    setup: f64,
    plan: f64,
    query: f64,
    answers: Stages,
    extract: f64,
}

/// What came of all runs.
struct Measured {
    times: Vec<Times>,
    round: RoundSpec,
    codewords: usize,
    /// Of all prepared buckets together.
    database_bytes: usize,
    /// Keys without a place.
    deferred: usize,
    /// Whether all others were right.
    verified: bool,
}

/// Measures on the calling thread; `message` stands beside the progress bar.
pub(crate) fn measure(setting: &Setting, message: &str) -> anyhow::Result<Report> {
    let Setting { engine, way, k, elements: n, bytes, b, w, seed, .. } = *setting;
    ensure!((1..=n).contains(&k), "k is at least 1 and at most the number of elements");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut elements = vec![0; n * bytes];
    rng.fill_bytes(&mut elements);
    let engine = engine.engine();
    let client = Client::new(&*engine, &rng.random())?;
    let progress = progress::bar(0, message);
    let code_seed = rng.random();
    let mut world = World { setting, elements, engine, client, rng, progress };
    let measured = if way == CodeName::Single {
        world.single()?
    } else {
        let dimensions = Dimensions { n, b, w, ..Dimensions::of(way, k) };
        world.coded(&Code::new(dimensions, code_seed)?)?
    };
    world.progress.finish_and_clear();
    world.report(measured)
}

impl World<'_> {
    /// So many different indices.
    fn wanted(&mut self, count: usize) -> Vec<usize> {
        rand::seq::index::sample(&mut self.rng, self.setting.elements, count).into_vec()
    }

    fn is_right(&self, index: usize, element: &[u8]) -> bool {
        element == &self.elements[index * self.setting.bytes..][..self.setting.bytes]
    }

    /// Asks all buckets of a round, which has this number, at once.
    fn ask(
        &mut self,
        number: u16,
        round: &RoundSpec,
        targets: &[Option<usize>],
    ) -> anyhow::Result<(Request, f64)> {
        let round = RoundSpec { round: number.into(), ..round.clone() };
        let (request, time) = timed(|| self.client.half.ask(round, targets, &mut self.rng));
        Ok((request?, time))
    }

    /// Sets up every content and answers the queries of the buckets that have it, in groups, so that memory stays bounded.
    /// Gives the whole answer, and the size of all prepared buckets.
    fn serve(
        &self,
        round: &RoundSpec,
        contents: Contents<'_>,
        request: &[u8],
        times: &mut Times,
    ) -> anyhow::Result<(Vec<u8>, usize)> {
        let Contents { different, copies } = contents;
        let steps = different.len() * (1 + copies) * usize::from(self.setting.runs);
        self.progress.set_length(steps as u64);
        // Every content is a round by itself, of as many buckets as there are copies.
        let form = Form { buckets: copies, ..round.form };
        let part = RoundSpec { form, ..round.clone() };
        let mut requests = request.chunks(self.engine.sizes(&part)?.request.bytes());
        let (mut held, mut held_bytes, mut all_bytes) = (Vec::new(), 0, 0);
        let mut answer = Vec::new();
        for (number, content) in different.iter().enumerate() {
            let content = Contents { different: core::slice::from_ref(content), copies };
            let (prepared, time) = timed(|| self.engine.prepare(&part, content));
            let prepared = prepared?;
            times.setup += time;
            self.progress.inc(1);
            held_bytes += prepared.memory_bytes();
            held.push(prepared);
            if held_bytes < HELD && number + 1 < different.len() {
                continue;
            }
            for (prepared, request) in held.drain(..).zip(&mut requests) {
                let query = [Query { keys: &self.client.keys, request }];
                for unit in 0..copies {
                    let (answers, stages) =
                        Stages::timed(|observe| prepared.answer_observed(unit, &query, observe));
                    times.answers = times.answers + stages;
                    for part in answers {
                        answer.extend(part?);
                    }
                    self.progress.inc(1);
                }
            }
            all_bytes += core::mem::take(&mut held_bytes);
        }
        Ok((answer, all_bytes))
    }

    /// Queries of the whole database; without a code there is nothing to encode or plan.
    fn single(&mut self) -> anyhow::Result<Measured> {
        let Setting { engine, k, elements: n, bytes, runs, .. } = *self.setting;
        let asked = k.min(SINGLE_QUERIES);
        let bucket = engine.bucket(n, bytes)?;
        let round = RoundSpec { form: Form { buckets: asked, ..bucket.form }, ..bucket };
        let contents = [self.elements.clone()];
        let (mut times, mut verified, mut database_bytes) = (Vec::new(), true, 0);
        for run in 0..runs {
            let wanted = self.wanted(asked);
            let targets: Vec<Option<usize>> = wanted.iter().copied().map(Some).collect();
            let mut of_run = Times::default();
            let (request, query) = self.ask(run, &round, &targets)?;
            of_run.query = query;
            let contents = Contents { different: &contents, copies: asked };
            let (answer, held) = self.serve(&round, contents, &request.bytes, &mut of_run)?;
            database_bytes = held;
            let (found, extract) = timed(|| request.pending.read(&[], &answer));
            of_run.extract = extract;
            for (index, found) in wanted.into_iter().zip(found) {
                verified &= self.is_right(index, &found?);
            }
            times.push(of_run);
        }
        Ok(Measured { times, round, codewords: n, database_bytes, deferred: 0, verified })
    }

    fn coded(&mut self, code: &Code) -> anyhow::Result<Measured> {
        let Setting { engine, k, elements: n, bytes, runs, .. } = *self.setting;
        let batch = &*code.batch;
        let keys: Vec<[u8; 8]> = (0..n as u64).map(PartitionedCode::key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();

        // Always the same one.
        let encoding = batch.encode(&keys);
        let padded = encoding.largest();
        let form = Form { buckets: batch.bucket_count(), elements: padded, element_bytes: bytes };
        let round = engine.round(form, None)?;
        let by_encoding = EncodingOracle::new(&encoding, &keys);
        // The partitioned code computes positions by itself.
        let oracle: &dyn Oracle = match &code.partitioned {
            Some(code) => code,
            None => &by_encoding,
        };
        let (mut times, mut deferred, mut verified, mut database_bytes) = (Vec::new(), 0, true, 0);
        let mut contents = Vec::new();
        for run in 0..runs {
            let mut of_run = Times::default();
            let (encoded, encode) = timed(|| -> Result<Encoding, pbc::Error> {
                let encoding = batch.encode(&keys);
                encoding.materialise_contents(bytes, &self.elements, padded, &mut contents)?;
                Ok(encoding)
            });
            of_run.encode = encode;
            ensure!(encoded? == encoding, "a code that encodes the same elements otherwise the second time");

            let wanted = self.wanted(k);
            let wanted_keys: Vec<&[u8]> = wanted.iter().map(|index| keys[*index]).collect();
            let (plan, plan_time) = timed(|| Plan::new(batch, &wanted_keys, oracle));
            of_run.plan = plan_time;
            let (request, query) = self.ask(run, &round, &plan.targets)?;
            of_run.query = query;
            let contents = Contents { different: &contents, copies: encoding.copies() };
            let (answer, held) = self.serve(&round, contents, &request.bytes, &mut of_run)?;
            database_bytes = held;
            let (found, extract) = timed(|| reconstruct(batch, &plan, &request.pending.read(&[], &answer)));
            of_run.extract = extract;
            for (index, found) in wanted.into_iter().zip(found) {
                match found {
                    Some(found) => verified &= self.is_right(index, &found?),
                    None => deferred += 1,
                }
            }
            times.push(of_run);
        }
        Ok(Measured { times, round, codewords: encoding.codewords(), database_bytes, deferred, verified })
    }

    fn report(&self, measured: Measured) -> anyhow::Result<Report> {
        let Measured { times, round, codewords, database_bytes, deferred, verified } = measured;
        let Setting { engine, k, .. } = *self.setting;
        let sizes = self.engine.sizes(&round)?;
        let single = self.setting.way == CodeName::Single;
        let sampled = (single && k > SINGLE_QUERIES).then_some(SINGLE_QUERIES);
        let scale = sampled.map_or(1.0, |sampled| k as f64 / sampled as f64);
        let buckets = if single { k } else { round.form.buckets };
        let per_bucket = |bytes: usize| bytes / round.form.buckets;
        let over = |part: fn(&Times) -> f64| median(times.iter().map(part));
        let scaled = |part| scale * over(part);
        let answer = scaled(|times| times.answers.total());
        let before_products = scaled(|times| times.answers.expand);
        Ok(Report {
            setting: *self.setting,
            server_cpu_ms: answer,
            server_cpu_ms_per_message: answer / k as f64,
            encode_cpu_ms: over(|times| times.encode),
            setup_cpu_ms: over(|times| times.setup),
            expand_cpu_ms: engine.expands().then_some(before_products),
            parse_cpu_ms: (!engine.expands()).then_some(before_products),
            first_dimension_cpu_ms: scaled(|times| times.answers.first_dimension),
            rest_cpu_ms: scaled(|times| times.answers.rest),
            answer_cpu_ms: answer,
            client_query_cpu_ms: scaled(|times| times.query),
            client_extract_cpu_ms: scaled(|times| times.extract),
            plan_cpu_ms: over(|times| times.plan),
            upload_bytes: buckets * per_bucket(sizes.request.bytes()),
            download_bytes: buckets * per_bucket(sizes.answer.bytes()),
            key_bytes: sizes.keys,
            buckets,
            bucket_size: round.form.elements,
            codewords,
            dimensions: engine.arrangement(&round)?.dimensions,
            database_bytes,
            deferred,
            verified,
            sampled,
            kernel: Backend::active().name().to_owned(),
        })
    }
}
