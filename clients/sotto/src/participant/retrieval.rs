//! A round's retrieval: mapping, look-up, multi-query, answer, each at its time.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use mpir::{MultiClient, MultiQuery};
use pir_core::Scheme;
use sotto_protocol::client::{Client, Retrieval};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{BloomMapping, Manifest, Round, ServerParameters};
use sotto_wire::{Failure, limits};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::sessions::{Patience, Sessions};
use super::{Phase, RoundReport, Trouble, blocking};

/// How often the server lets a call be repeated.
const ATTEMPTS: u32 = 4;
/// Longer than that after its time, an answer is of no use to anybody.
const LONGEST: Duration = Duration::from_secs(600);

/// A retrieval to make.
pub(super) struct Job<S: Scheme> {
    pub(super) round: Round,
    pub(super) shape: Shape<S>,
    /// When the look-up is given up, and when the multi-query leaves.
    pub(super) lookup_until: Instant,
    pub(super) query_at: Instant,
    /// The client as it is when it knows the round's manifest. It is a copy, since a look-up may last longer than wanted,
    /// and the next round's deposit must not wait for it.
    pub(super) client: oneshot::Receiver<Option<Client>>,
    pub(super) multi: Arc<MultiClient<S>>,
    pub(super) sessions: Sessions,
    pub(super) lookup_delay: Duration,
}

/// What a retrieval brought.
pub(super) struct Retrieved {
    pub(super) retrieval: Retrieval,
    pub(super) elements: Vec<Option<Vec<u8>>>,
    /// Without the deposit and the keys.
    pub(super) report: RoundReport,
    pub(super) troubles: Vec<Trouble>,
}

/// The sizes of a round's calls.
pub(super) struct Shape<S: Scheme> {
    parameters: S::Parameters,
    buckets: usize,
    mapping_bytes: usize,
    answer_bytes: usize,
    entries: u64,
    bucket_size: u32,
}

impl<S: Scheme> Shape<S> {
    /// The sizes that follow from the pinned parameters and what the server announces. They do not depend on whether
    /// the manifest is to be believed: the calls are made anyway.
    ///
    /// There are none if nobody could serve them. Then no call is made; the server, which announced them, knows that.
    pub(super) fn new(server: &ServerParameters, announced: &Manifest) -> Option<Self> {
        let buckets = usize::from(server.buckets);
        let bucket_size = announced.bucket_size;
        let parameters =
            mpir::parameters::<S>(buckets, usize::try_from(bucket_size).ok()?, BOX_BYTES).ok()?;
        let mapping_bytes = usize::try_from(BloomMapping::encoded_bytes(server.shape(), bucket_size)).ok()?;
        let query_bytes = S::query_bytes(&parameters).checked_mul(buckets)?;
        let answer_bytes = S::answer_bytes(&parameters).checked_mul(buckets)?;
        let servable = mapping_bytes <= limits::MAPPING_MAX
            && query_bytes <= limits::QUERY_MAX
            && answer_bytes <= limits::ANSWER_MAX
            && answer_bytes > 0;
        let entries = announced.entries;
        servable.then_some(Self { parameters, buckets, mapping_bytes, answer_bytes, entries, bucket_size })
    }
}

impl<S: Scheme> Job<S> {
    /// Makes all calls of the retrieval. Whatever fails, the next call leaves at its time.
    pub(super) async fn run(self) -> Retrieved {
        let Self { round, shape, lookup_until, query_at, client, multi, sessions, lookup_delay } = self;
        let mut report = RoundReport {
            round,
            entries: shape.entries,
            bucket_size: shape.bucket_size,
            ..RoundReport::default()
        };
        let mut troubles = Vec::new();

        let looked_up = async {
            let mapping = download(&sessions, round, &shape, lookup_until, &mut report).await?;
            look_up(client, round, mapping, lookup_until, lookup_delay, &mut report).await
        };
        let retrieval = looked_up.await.unwrap_or_else(|trouble| {
            troubles.push(trouble);
            report.dummy = true;
            Retrieval::dummy(round, shape.buckets)
        });
        report.lookups = retrieval.counts;

        // Also a look-up that is done early waits: when the building begins must not show what was looked for.
        sleep_until(lookup_until).await;
        let shape = Arc::new(shape);
        let started = Instant::now();
        let query = build(&multi, &shape, retrieval.targets.clone()).await;
        report.build = started.elapsed();
        let Some(query) = query else {
            // The engine has no query for parameters of its own making, not even a random one.
            troubles.push(Trouble::Sizes);
            let elements = vec![None; shape.buckets];
            return Retrieved { retrieval, elements, report, troubles };
        };

        sleep_until(query_at).await;
        let answer = ask(&sessions, round, &query, &shape, &mut report).await;
        let elements = match answer {
            Ok(answer) => {
                let started = Instant::now();
                let elements = extract(&multi, &shape, query, answer).await;
                report.extract = started.elapsed();
                let corrupted = elements.iter().filter(|element| element.is_none()).count();
                if corrupted > 0 {
                    troubles.push(Trouble::Corrupted(corrupted));
                }
                elements
            }
            Err(failure) => {
                troubles.push(Trouble::Answer(failure));
                vec![None; shape.buckets]
            }
        };
        Retrieved { retrieval, elements, report, troubles }
    }
}

async fn download<S: Scheme>(
    sessions: &Sessions,
    round: Round,
    shape: &Shape<S>,
    until: Instant,
    report: &mut RoundReport,
) -> Result<Bytes, Trouble> {
    let started = Instant::now();
    let bytes = shape.mapping_bytes;
    let patience = Patience { until, attempts: ATTEMPTS };
    let mapping = sessions.call(patience, |session| async move { session.mapping(round, bytes).await }).await;
    let mapping = mapping.map_err(Trouble::Mapping)?;
    report.mapping = Phase { bytes: mapping.len() as u64, time: started.elapsed() };
    Ok(mapping)
}

async fn look_up(
    client: oneshot::Receiver<Option<Client>>,
    round: Round,
    mapping: Bytes,
    until: Instant,
    delay: Duration,
    report: &mut RoundReport,
) -> Result<Retrieval, Trouble> {
    let started = Instant::now();
    let work = async {
        let client = client.await.ok().flatten()?;
        let work = move || {
            std::thread::sleep(delay);
            client.lookup(round, &mapping, &mut rand::make_rng::<rand::rngs::StdRng>())
        };
        // A look-up that panics is none; the calls go on.
        tokio::task::spawn_blocking(work).await.ok()
    };
    let retrieval = timeout_at(until, work).await.map_err(|_| Trouble::LookupLate)?.ok_or(Trouble::Failed)?;
    report.lookup = started.elapsed();
    Ok(retrieval)
}

/// The same work for any targets. Targets that are none, which a look-up does not give, are replaced by random ones.
async fn build<S: Scheme>(
    multi: &Arc<MultiClient<S>>,
    shape: &Arc<Shape<S>>,
    targets: Vec<Option<usize>>,
) -> Option<MultiQuery> {
    let (multi, shape) = (Arc::clone(multi), Arc::clone(shape));
    let work = move || {
        let mut rng = rand::make_rng::<rand::rngs::StdRng>();
        let dummy = vec![None; shape.buckets];
        let targets = if targets.len() == shape.buckets { targets } else { dummy.clone() };
        let query = multi.multi_query(&shape.parameters, &targets, &mut rng);
        query.or_else(|_| multi.multi_query(&shape.parameters, &dummy, &mut rng)).ok()
    };
    blocking(work).await
}

async fn ask<S: Scheme>(
    sessions: &Sessions,
    round: Round,
    query: &MultiQuery,
    shape: &Shape<S>,
    report: &mut RoundReport,
) -> Result<Bytes, Failure> {
    let (keys, answer_bytes) = (sessions.keys(), shape.answer_bytes);
    let encoded = Bytes::from(query.encoded().concat());
    report.query.bytes = encoded.len() as u64;
    let started = Instant::now();
    let patience = Patience { until: started + LONGEST, attempts: ATTEMPTS };
    let call = |session: crate::connection::Session| {
        let encoded = encoded.clone();
        async move { session.retrieve(round, &keys, encoded, answer_bytes).await }
    };
    let (answer, first) = sessions.call(patience, call).await?;
    report.query.time = first.duration_since(started);
    report.answer = Phase { bytes: answer.len() as u64, time: first.elapsed() };
    Ok(answer)
}

/// Decodes the answers of all buckets, wanted or not.
async fn extract<S: Scheme>(
    multi: &Arc<MultiClient<S>>,
    shape: &Arc<Shape<S>>,
    query: MultiQuery,
    answer: Bytes,
) -> Vec<Option<Vec<u8>>> {
    let (multi, shape) = (Arc::clone(multi), Arc::clone(shape));
    let work = move || {
        let size = shape.answer_bytes / shape.buckets;
        let answers: Vec<Vec<u8>> = answer.chunks(size).map(<[u8]>::to_vec).collect();
        let elements = multi.multi_extract(&shape.parameters, &query, &answers);
        elements.into_iter().map(Result::ok).collect()
    };
    blocking(work).await
}
