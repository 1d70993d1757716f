//! A round's retrieval: mapping, look-up, multi-query, answer, each at its time.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use mpir::MultiQuery;
use pir_core::Scheme;
use sotto_protocol::client::{Client, Retrieval};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::mapping::Targets;
use sotto_protocol::{BloomMapping, Manifest, Round, ServerParameters};
use sotto_wire::{Failure, limits};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::auditing::{Answered, Auditing, Evidence};
use super::keys::{Generation, PublicKeys, Spare};
use super::sessions::{Patience, Sessions};
use super::{Phase, RoundReport, Trouble};
use crate::connection::{Answers, Session};
use crate::host::{Host, Work, rng, run};

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
    pub(super) keys: Arc<Generation<S>>,
    pub(super) auditing: Auditing,
    /// Gets what is to be checked as soon as it is there; nothing comes if no answer does.
    pub(super) evidence: oneshot::Sender<Evidence>,
    pub(super) sessions: Sessions,
    pub(super) host: Arc<dyn Host>,
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
    /// Makes all calls of the retrieval. Whatever fails or is late, the next call leaves at its time.
    pub(super) async fn run(self) -> Retrieved {
        let Self { round, shape, lookup_until, query_at, client, keys, auditing, evidence, sessions, host } =
            self;
        let shape = Arc::new(shape);
        let mut report = RoundReport {
            round,
            entries: shape.entries,
            bucket_size: shape.bucket_size,
            ..RoundReport::default()
        };
        let (mut troubles, mut replaced) = (Vec::new(), false);

        let looked_up = async {
            let mapping = download(&sessions, &keys.public, round, &shape, lookup_until, &mut report).await?;
            look_up(&host, client, round, mapping, lookup_until, &mut report).await
        };
        let (looked_up, spare) = tokio::join!(looked_up, spare(&host, &keys, &shape));
        let mut retrieval = looked_up.unwrap_or_else(|trouble| {
            troubles.push(trouble);
            report.dummy = true;
            Retrieval::dummy(round, shape.buckets)
        });

        // Also a look-up that is done early waits: when the building begins must not show what was looked for.
        sleep_until(lookup_until).await;
        let started = Instant::now();
        let building = build(&host, Work::Query, &keys, &shape, retrieval.targets.clone());
        let built = timeout_at(query_at, building).await;
        report.build = started.elapsed();
        sleep_until(query_at).await;
        let query = match (built, spare) {
            (Ok(Some(query)), spare) => {
                if let Some(spare) = spare {
                    keys.keep_spare(spare);
                }
                query
            }
            (late, Some(Spare { query, .. })) => {
                troubles.push(if late.is_err() { Trouble::QueryLate } else { Trouble::Failed });
                (report.dummy, replaced) = (true, true);
                retrieval = Retrieval::dummy(round, shape.buckets);
                query
            }
            (_, None) => {
                // The engine has no query for parameters of its own making, not even a random one.
                troubles.push(Trouble::Sizes);
                let elements = vec![None; shape.buckets];
                return Retrieved { retrieval, elements, report, troubles };
            }
        };
        report.lookups = retrieval.counts;

        let answer = ask(&sessions, &keys.public, round, &query, &shape, &mut report).await;
        let elements = match answer {
            Ok(answered) => {
                let query = Arc::new(query);
                let Answered { answer, .. } = &answered;
                let answer = answer.clone();
                if !receive(&host, &keys.public, &query, answered, auditing, evidence).await {
                    troubles.push(Trouble::Receipt);
                }
                let started = Instant::now();
                let elements = extract(&host, &keys, &shape, query, answer).await;
                report.extract = started.elapsed();
                let corrupted = elements.iter().filter(|element| element.is_none()).count();
                // A query that was made for a smaller bucket, or a larger one, is not there to be read.
                if corrupted > 0 && !replaced {
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

/// A random multi-query for when the wanted one is late. What is left over from the rounds before serves as long as it
/// fits; all this follows from what was announced.
async fn spare<S: Scheme>(
    host: &Arc<dyn Host>,
    keys: &Arc<Generation<S>>,
    shape: &Arc<Shape<S>>,
) -> Option<Spare<S>> {
    if let Some(spare) = keys.take_spare(&shape.parameters, shape.buckets) {
        return Some(spare);
    }
    let query = build(host, Work::Spare, keys, shape, Targets::new(vec![None; shape.buckets])).await?;
    Some(Spare { parameters: shape.parameters.clone(), query })
}

async fn download<S: Scheme>(
    sessions: &Sessions,
    keys: &PublicKeys,
    round: Round,
    shape: &Shape<S>,
    until: Instant,
    report: &mut RoundReport,
) -> Result<Bytes, Trouble> {
    let started = Instant::now();
    let bytes = shape.mapping_bytes;
    let patience = Patience { until, attempts: ATTEMPTS };
    let call = |session: Session| async move { session.mapping(round, bytes).await };
    let mapping = sessions.call(patience, keys, call).await.map_err(Trouble::Mapping)?;
    report.mapping = Phase { bytes: mapping.len() as u64, time: started.elapsed() };
    Ok(mapping)
}

async fn look_up(
    host: &Arc<dyn Host>,
    client: oneshot::Receiver<Option<Client>>,
    round: Round,
    mapping: Bytes,
    until: Instant,
    report: &mut RoundReport,
) -> Result<Retrieval, Trouble> {
    let started = Instant::now();
    let work = async {
        let client = client.await.ok().flatten()?;
        let mut rng = rng(host);
        // A look-up that panics is none; the calls go on.
        run(host, Work::LookUp, move || client.lookup(round, &mapping, &mut rng)).await
    };
    let retrieval = timeout_at(until, work).await.map_err(|_| Trouble::LookupLate)?.ok_or(Trouble::Failed)?;
    report.lookup = started.elapsed();
    Ok(retrieval)
}

/// The same work for any targets. Targets that are none, which a look-up does not give, are replaced by random ones.
async fn build<S: Scheme>(
    host: &Arc<dyn Host>,
    kind: Work,
    keys: &Arc<Generation<S>>,
    shape: &Arc<Shape<S>>,
    targets: Targets,
) -> Option<MultiQuery> {
    let (keys, shape, mut rng) = (Arc::clone(keys), Arc::clone(shape), rng(host));
    let work = move || {
        let dummy = Targets::new(vec![None; shape.buckets]);
        let targets = if targets.len() == shape.buckets { targets } else { dummy.clone() };
        let query = keys.multi.multi_query(&shape.parameters, &targets, &mut rng);
        query.or_else(|_| keys.multi.multi_query(&shape.parameters, &dummy, &mut rng)).ok()
    };
    run(host, kind, work).await.flatten()
}

async fn ask<S: Scheme>(
    sessions: &Sessions,
    keys: &PublicKeys,
    round: Round,
    query: &MultiQuery,
    shape: &Shape<S>,
    report: &mut RoundReport,
) -> Result<Answered, Failure> {
    let (digest, answer_bytes) = (keys.digest, shape.answer_bytes);
    let encoded = Bytes::from(query.encoded().concat());
    report.query.bytes = encoded.len() as u64;
    let started = Instant::now();
    let patience = Patience { until: started + LONGEST, attempts: ATTEMPTS };
    let call = |session: Session| {
        let encoded = encoded.clone();
        async move {
            let answers = session.retrieve(round, &digest, encoded, answer_bytes).await?;
            Ok((answers, session.announced().clone()))
        }
    };
    let (Answers { answers: answer, receipt, first }, announced) =
        sessions.call(patience, keys, call).await?;
    report.query.time = first.duration_since(started);
    report.answer = Phase { bytes: answer.len() as u64, time: first.elapsed() };
    Ok(Answered { answer, receipt, announced })
}

/// Checks the receipt, and hands over what is drawn to be checked; whether the receipt holds.
async fn receive(
    host: &Arc<dyn Host>,
    keys: &PublicKeys,
    query: &Arc<MultiQuery>,
    answered: Answered,
    auditing: Auditing,
    evidence: oneshot::Sender<Evidence>,
) -> bool {
    let (keys, query) = (keys.clone(), Arc::clone(query));
    let work = move || {
        let (digests, receipt) = auditing.check(&keys, &query, &answered);
        let holds = receipt.is_some();
        let Answered { answer, announced, .. } = answered;
        if let Some(bucket) = auditing.bucket {
            let (number, sent) = (usize::from(bucket), query.encoded());
            let size = answer.len() / sent.len().max(1);
            let answer = answer.slice(number * size..(number + 1) * size);
            let query = Bytes::from(sent[number].clone());
            // Whoever waits for it may have left.
            let _ = evidence.send(Evidence {
                auditing,
                announced,
                digests,
                receipt,
                keys,
                bucket,
                query,
                answer,
            });
        }
        holds
    };
    run(host, Work::Receipt, work).await.unwrap_or(false)
}

/// Decodes the answers of all buckets, wanted or not.
async fn extract<S: Scheme>(
    host: &Arc<dyn Host>,
    keys: &Arc<Generation<S>>,
    shape: &Arc<Shape<S>>,
    query: Arc<MultiQuery>,
    answer: Bytes,
) -> Vec<Option<Vec<u8>>> {
    let (keys, buckets) = (Arc::clone(keys), shape.buckets);
    let shape = Arc::clone(shape);
    let work = move || {
        let size = shape.answer_bytes / shape.buckets;
        let answers: Vec<Vec<u8>> = answer.chunks(size).map(<[u8]>::to_vec).collect();
        let elements = keys.multi.multi_extract(&shape.parameters, &query, &answers);
        elements.into_iter().map(Result::ok).collect()
    };
    run(host, Work::Extract, work).await.unwrap_or_else(|| vec![None; buckets])
}
