//! Whole retrievals: encode, plan, ask, answer, extract, compare.

use std::sync::Arc;

use anyhow::ensure;
use indicatif::ProgressBar;
use mpir::{Contents, Engine, Form, Query, RoundSpec, reconstruct};
use pbc::{Encoding, EncodingOracle, Oracle, PartitionedCode, Plan};
use pir_core::ring::Backend;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use sotto_measuring::code::CodeName;
use sotto_measuring::cpu::{Stages, median, timed};
use sotto_measuring::engine::Client;
use sotto_measuring::progress;

use super::report::Report;
use super::setting::Setting;
use crate::pbc::{Code, Dimensions};

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

/// What a client downloads in a round.
struct Served {
    answer: Vec<u8>,
    hint: Vec<u8>,
    /// Bytes of all prepared buckets together.
    held: usize,
}

/// What a bucket's answer holds, or an element.
type Codeword = Result<Vec<u8>, mpir::Error>;

impl Measured {
    /// Nothing yet, of a round with so many codewords.
    const fn of(round: RoundSpec, codewords: usize) -> Self {
        Self { times: Vec::new(), round, codewords, database_bytes: 0, deferred: 0, verified: true }
    }
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

    /// One retrieval of elements wherever `targets` says they are, of which `read` makes them again, and their comparison
    /// with the database's.
    fn retrieve(
        &mut self,
        measured: &mut Measured,
        contents: Contents<'_>,
        (wanted, targets): (&[usize], &[Option<usize>]),
        read: impl FnOnce(Vec<Codeword>) -> Vec<Option<Codeword>>,
        mut times: Times,
    ) -> anyhow::Result<()> {
        // A client asks for a round once.
        let round = RoundSpec { round: measured.times.len() as u64, ..measured.round.clone() };
        let (request, query) = timed(|| self.client.half.ask(round, targets, &mut self.rng));
        let request = request?;
        times.query = query;
        let Served { answer, hint, held } =
            self.serve(&measured.round, contents, &request.bytes, &mut times)?;
        measured.database_bytes = held;
        let (found, extract) = timed(|| read(request.pending.read(&hint, &answer)));
        times.extract = extract;
        for (index, found) in wanted.iter().zip(found) {
            match found {
                Some(found) => measured.verified &= self.is_right(*index, &found?),
                None => measured.deferred += 1,
            }
        }
        measured.times.push(times);
        Ok(())
    }

    /// Sets up every content and answers the queries of the buckets that have it, in groups, so that memory stays bounded.
    fn serve(
        &self,
        round: &RoundSpec,
        contents: Contents<'_>,
        request: &[u8],
        times: &mut Times,
    ) -> anyhow::Result<Served> {
        let Contents { different, copies } = contents;
        let steps = different.len() * (1 + copies) * usize::from(self.setting.runs);
        self.progress.set_length(steps as u64);
        // Every content is a round by itself, of as many buckets as there are copies.
        let form = Form { buckets: copies, ..round.form };
        let part = RoundSpec { form, ..round.clone() };
        let mut requests = request.chunks(self.engine.sizes(&part)?.request.bytes());
        let (mut held, mut held_bytes, mut all_bytes) = (Vec::new(), 0, 0);
        let (mut answer, mut hint) = (Vec::new(), Vec::new());
        for (number, content) in different.iter().enumerate() {
            let content = Contents { different: core::slice::from_ref(content), copies };
            let (prepared, time) = timed(|| self.engine.prepare(&part, content));
            let prepared = prepared?;
            times.setup += time;
            self.progress.inc(1);
            held_bytes += prepared.memory_bytes();
            hint.extend_from_slice(prepared.hint());
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
        Ok(Served { answer, hint, held: all_bytes })
    }

    /// Queries of the whole database; without a code there is nothing to encode or plan.
    fn single(&mut self) -> anyhow::Result<Measured> {
        let Setting { engine, k, elements: n, bytes, runs, .. } = *self.setting;
        let asked = k.min(SINGLE_QUERIES);
        let bucket = engine.bucket(n, bytes)?;
        let round = RoundSpec { form: Form { buckets: asked, ..bucket.form }, ..bucket };
        let contents = [self.elements.clone()];
        let contents = Contents { different: &contents, copies: asked };
        let mut measured = Measured::of(round, n);
        for _ in 0..runs {
            let wanted = self.wanted(asked);
            let targets: Vec<Option<usize>> = wanted.iter().copied().map(Some).collect();
            let read = |codewords: Vec<Codeword>| codewords.into_iter().map(Some).collect();
            self.retrieve(&mut measured, contents, (&wanted, &targets), read, Times::default())?;
        }
        Ok(measured)
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
        let (mut measured, mut contents) = (Measured::of(round, encoding.codewords()), Vec::new());
        for _ in 0..runs {
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
            let contents = Contents { different: &contents, copies: encoding.copies() };
            let read = |codewords: Vec<Codeword>| reconstruct(batch, &plan, &codewords);
            self.retrieve(&mut measured, contents, (&wanted, &plan.targets), read, of_run)?;
        }
        Ok(measured)
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
            hint_bytes: buckets * per_bucket(sizes.hint.bytes()),
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
