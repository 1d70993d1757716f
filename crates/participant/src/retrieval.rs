//! A round's retrieval: mapping, look-up, multi-query, answer, each at its time.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use mpir::{Engine, Pending, Request, RoundSpec, Sizes};
use sotto_protocol::client::{Client, Retrieval};
use sotto_protocol::manifest::{hint_digest, mapping_bytes, unit_hint_digests};
use sotto_protocol::mapping::Targets;
use sotto_protocol::{Manifest, Round, ServerParameters};
use sotto_session::{Answers, Session, round_spec};
use sotto_wire::{Failure, RootKey, limits};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::auditing::{Answered, Auditing, Evidence, part};
use super::keys::{Generation, PublicKeys, Spare};
use super::sessions::{Patience, Sessions};
use super::{Phase, RoundReport, Trouble, standing};
use crate::host::{Host, Work, rng, run};

/// How often the server lets a call be repeated.
const ATTEMPTS: u32 = 4;
/// Longer than that after its time, an answer is of no use to anybody.
const LONGEST: Duration = Duration::from_secs(600);

/// A retrieval to make.
pub(crate) struct Job {
    pub(crate) round: Round,
    pub(crate) shape: Arc<Shape>,
    /// When mapping and hint are asked for, when the look-up is given up, and when the multi-query leaves.
    pub(crate) begin_at: Instant,
    pub(crate) lookup_until: Instant,
    pub(crate) query_at: Instant,
    /// The client as it is when it knows the round's manifest. It is a copy, since a look-up may last longer than wanted,
    /// and the next round's deposit must not wait for it.
    pub(crate) client: oneshot::Receiver<Option<Client>>,
    pub(crate) keys: Arc<Generation>,
    pub(crate) auditing: Auditing,
    /// Gets what is to be checked as soon as it is there; nothing comes if no answer does.
    pub(crate) evidence: oneshot::Sender<Evidence>,
    pub(crate) sessions: Sessions,
    pub(crate) host: Arc<dyn Host>,
    /// One for each look-up that is under way.
    pub(crate) lookups: Arc<Semaphore>,
}

/// What a retrieval brought.
pub(crate) struct Retrieved {
    pub(crate) retrieval: Retrieval,
    pub(crate) elements: Vec<Option<Vec<u8>>>,
    /// Without the deposit and the keys.
    pub(crate) report: RoundReport,
    pub(crate) troubles: Vec<Trouble>,
}

/// The sizes of a round's calls.
pub(crate) struct Shape {
    spec: RoundSpec,
    sizes: Sizes,
    mapping_bytes: usize,
    hint_digest: [u8; 32],
    entries: u64,
    bucket_size: u32,
    /// Whether queries stand for several rounds.
    stands: bool,
}

impl Shape {
    /// The sizes that follow from the pinned parameters and what the server announces. They do not depend on whether
    /// the manifest is to be believed: the calls are made anyway.
    ///
    /// There are none if nobody could serve them. Then no call is made; the server, which announced them, knows that.
    pub(crate) fn new(
        engine: &dyn Engine,
        root: &RootKey,
        server: &ServerParameters,
        announced: &Manifest,
    ) -> Option<Self> {
        let Manifest { entries, bucket_size, buckets, .. } = *announced;
        let (spec, sizes) = round_spec(engine, root, announced).ok()?;
        let mapping_bytes = usize::try_from(mapping_bytes(server.shape(), bucket_size)).ok()?;
        let servable = mapping_bytes <= limits::MAPPING_MAX && buckets == server.buckets;
        let hint_digest = announced.hint_digest;
        let stands = announced.code.epoch_rounds() > 1;
        servable.then_some(Self { spec, sizes, mapping_bytes, hint_digest, entries, bucket_size, stands })
    }

    fn buckets(&self) -> usize {
        self.spec.form.buckets
    }

    /// The sizes of what is sent.
    pub(crate) fn sizes(&self) -> &Sizes {
        &self.sizes
    }
}

impl Job {
    /// Makes all calls of the retrieval. Whatever fails or is late, the next call leaves at its time.
    pub(crate) async fn run(mut self) -> Retrieved {
        let (host, shape) = (Arc::clone(&self.host), Arc::clone(&self.shape));
        sleep_until(self.begin_at).await;
        let hint = hint(self.sessions.clone(), self.keys.public.clone(), Arc::clone(&self.shape));
        let (shown, published) = oneshot::channel();
        self.auditing.published = Some(published);
        let hint = async {
            let hint = hint.await;
            if let Ok(hint) = &hint {
                // Nobody waits for it unless an answer is checked.
                let _ = shown.send(hint.clone());
            }
            hint
        };
        let (hint, asked) = tokio::join!(hint, self.ask());
        let Asked { retrieval, answer, mut report, mut troubles } = asked;
        let nothing = vec![None; shape.buckets()];
        report.hint = hint.as_ref().map_or(0, |hint| hint.len() as u64);
        let elements = match (answer, hint) {
            (Some(Answer { pending: Some(pending), bytes, replaced }), Ok(hint)) => {
                let started = Instant::now();
                let elements = extract(&host, pending, hint, bytes).await.unwrap_or(nothing);
                report.extract = started.elapsed();
                let corrupted = elements.iter().filter(|element| element.is_none()).count();
                // A query that was made for a smaller bucket, or a larger one, is not there to be read.
                if corrupted > 0 && !replaced {
                    troubles.push(Trouble::Corrupted(corrupted));
                }
                elements
            }
            (_, hint) => {
                troubles.extend(hint.err());
                nothing
            }
        };
        Retrieved { retrieval, elements, report, troubles }
    }

    /// Everything up to the answer.
    async fn ask(self) -> Asked {
        let Self {
            round,
            shape,
            lookup_until,
            query_at,
            client,
            keys,
            auditing,
            evidence,
            sessions,
            host,
            lookups,
            ..
        } = self;
        let mut report = RoundReport {
            round,
            entries: shape.entries,
            bucket_size: shape.bucket_size,
            ..RoundReport::default()
        };
        let (mut troubles, mut replaced) = (Vec::new(), false);
        let calls = Calls { round, shape: Arc::clone(&shape), keys: keys.public.clone(), sessions, host };

        // What stands is sent at its time, whatever comes of the look-up.
        if let Some(asked) = keys.standing.find(&shape.spec).filter(|_| shape.stands) {
            let plan = asked.plan.clone();
            let looked_up = async {
                let place = lookups.try_acquire_owned().map_err(|_| Trouble::LookupLate)?;
                // It is work of one kind whether anything is read or not.
                let look = move |client: Client| plan.map(|plan| client.look_again(round, &plan));
                look_up(&calls.host, (client, place), look, lookup_until, &mut report).await
            };
            let looked_up = looked_up.await;
            let replaced = asked.plan.is_none();
            let retrieval = looked_up.unwrap_or_else(|trouble| {
                troubles.push(trouble);
                None
            });
            report.dummy = retrieval.is_none();
            let retrieval = retrieval.unwrap_or_else(|| Retrieval::dummy(round, shape.buckets()));
            report.lookups = retrieval.counts;
            sleep_until(query_at).await;
            let question = Question::standing(asked, &shape.spec);
            let answer =
                calls.answer(question, replaced, (auditing, evidence), (&mut report, &mut troubles)).await;
            return Asked { retrieval, answer, report, troubles };
        }
        let Calls { sessions, host, .. } = &calls;

        let looked_up = async {
            let mapping = download(sessions, &keys.public, round, &shape, lookup_until, &mut report).await?;
            // Without a place this one is as late as those before it are.
            let place = lookups.try_acquire_owned().map_err(|_| Trouble::LookupLate)?;
            let mut rng = rng(host);
            let look = move |client: Client| client.lookup(round, &mapping, &mut rng);
            look_up(host, (client, place), look, lookup_until, &mut report).await
        };
        let (looked_up, spare) = tokio::join!(looked_up, spare(host, &keys, &shape));
        let mut retrieval = looked_up.unwrap_or_else(|trouble| {
            troubles.push(trouble);
            report.dummy = true;
            Retrieval::dummy(round, shape.buckets())
        });

        // Also a look-up that is done early waits: when the building begins must not show what was looked for.
        sleep_until(lookup_until).await;
        let started = Instant::now();
        let building = wanted(host, &keys, &shape, retrieval.targets.clone());
        let built = timeout_at(query_at, building).await;
        report.build = started.elapsed();
        sleep_until(query_at).await;
        let request = match (built, spare) {
            (Ok(Some((request, true))), spare) => {
                if let Some(spare) = spare {
                    keys.keep_spare(spare);
                }
                request
            }
            (late, Some(Spare { request })) => {
                // Also one that the engine would not make, as it has asked under this seed: what stands in for it is random, too.
                troubles.push(if late.is_err() { Trouble::QueryLate } else { Trouble::Failed });
                (report.dummy, replaced) = (true, true);
                retrieval = Retrieval::dummy(round, shape.buckets());
                request
            }
            (_, None) => {
                // The engine has no query for parameters of its own making, not even a random one.
                troubles.push(Trouble::Sizes);
                return Asked { retrieval, answer: None, report, troubles };
            }
        };
        let question = if shape.stands {
            let plan = retrieval.plan().filter(|_| !replaced).cloned();
            let (asked, ours) = keys.standing.decide(&shape.spec, request, plan);
            if !ours {
                // Another round's call was quicker; what was planned here is not what is asked.
                (report.dummy, replaced) = (true, true);
                retrieval = Retrieval::dummy(round, shape.buckets());
            }
            Question::standing(asked, &shape.spec)
        } else {
            let Request { bytes, pending } = request;
            Question { bytes: bytes.into(), pending: Some(pending), standing: None }
        };
        report.lookups = retrieval.counts;
        let answer =
            calls.answer(question, replaced, (auditing, evidence), (&mut report, &mut troubles)).await;
        Asked { retrieval, answer, report, troubles }
    }
}

/// What a retrieval has when it is answered.
struct Asked {
    retrieval: Retrieval,
    answer: Option<Answer>,
    report: RoundReport,
    troubles: Vec<Trouble>,
}

struct Answer {
    /// Nothing if the engine cannot read what stands.
    pending: Option<Box<dyn Pending>>,
    bytes: Bytes,
    /// The request was a random one, in place of the wanted one.
    replaced: bool,
}

/// What is asked in a round, and what reads the answer.
struct Question {
    bytes: Bytes,
    pending: Option<Box<dyn Pending>>,
    /// If it stands.
    standing: Option<Arc<standing::Asked>>,
}

impl Question {
    fn standing(asked: Arc<standing::Asked>, spec: &RoundSpec) -> Self {
        Self { bytes: asked.request.clone(), pending: asked.pending.again(spec), standing: Some(asked) }
    }
}

/// What the calls of a round need.
struct Calls {
    round: Round,
    shape: Arc<Shape>,
    keys: PublicKeys,
    sessions: Sessions,
    host: Arc<dyn Host>,
}

impl Calls {
    /// Asks, checks the receipt, and hands over what is drawn to be checked.
    async fn answer(
        &self,
        question: Question,
        replaced: bool,
        (auditing, evidence): (Auditing, oneshot::Sender<Evidence>),
        (report, troubles): (&mut RoundReport, &mut Vec<Trouble>),
    ) -> Option<Answer> {
        let Question { bytes: request, pending, standing } = question;
        let answered = match self.ask(&request, standing.as_deref(), report).await {
            Ok(answered) => answered,
            Err(failure) => {
                troubles.push(Trouble::Answer(failure));
                return None;
            }
        };
        let (bytes, sizes) = (answered.answer.clone(), self.shape.sizes);
        if !receive(&self.host, &self.keys, sizes, request, answered, auditing, evidence).await {
            troubles.push(Trouble::Receipt);
        }
        Some(Answer { pending, bytes, replaced })
    }

    async fn ask(
        &self,
        request: &Bytes,
        standing: Option<&standing::Asked>,
        report: &mut RoundReport,
    ) -> Result<Answered, Failure> {
        let (round, keys, answer_bytes) = (self.round, self.keys.digest, self.shape.sizes.answer.bytes());
        let known = standing.filter(|asked| asked.is_known()).map(|asked| asked.digest);
        let started = Instant::now();
        let patience = Patience { until: started + LONGEST, attempts: ATTEMPTS };
        let call = |session: Session| {
            let request = request.clone();
            async move {
                match known {
                    Some(digest) => {
                        session.retrieve_again(round, &keys, (request, &digest), answer_bytes).await
                    }
                    None => session.retrieve(round, &keys, request, answer_bytes).await,
                }
            }
        };
        let Answers { answers: answer, receipt, whole, first } =
            self.sessions.call(patience, &self.keys, call).await?;
        if let Some(asked) = standing {
            asked.becomes_known();
        }
        report.query.bytes = if whole { request.len() as u64 } else { keys.len() as u64 };
        report.query.time = first.duration_since(started);
        report.answer = Phase { bytes: answer.len() as u64, time: first.elapsed() };
        Ok(Answered { answer, receipt })
    }
}

/// A random multi-query for when the wanted one is late. What is left over from the rounds before serves as long as it
/// fits; all this follows from what was announced.
async fn spare(host: &Arc<dyn Host>, keys: &Arc<Generation>, shape: &Arc<Shape>) -> Option<Spare> {
    if let Some(spare) = keys.take_spare(&shape.spec) {
        return Some(spare);
    }
    let (keys, shape, mut rng) = (Arc::clone(keys), Arc::clone(shape), rng(host));
    let work = move || keys.client().cover(shape.spec.clone(), &mut rng).ok();
    let request = run(host, Work::Spare, work).await.flatten()?;
    Some(Spare { request })
}

async fn download(
    sessions: &Sessions,
    keys: &PublicKeys,
    round: Round,
    shape: &Shape,
    until: Instant,
    report: &mut RoundReport,
) -> Result<Bytes, Trouble> {
    let started = Instant::now();
    let bytes = shape.mapping_bytes;
    if bytes == 0 {
        // With slots there is none, and nobody to wait for.
        return Ok(Bytes::new());
    }
    let patience = Patience { until, attempts: ATTEMPTS };
    let call = |session: Session| async move { session.mapping(round, bytes).await };
    let mapping = sessions.call(patience, keys, call).await.map_err(Trouble::Mapping)?;
    report.mapping = Phase { bytes: mapping.len() as u64, time: started.elapsed() };
    Ok(mapping)
}

/// Downloads what is needed to read answers, if the engine needs anything, and compares it with what is announced.
async fn hint(sessions: Sessions, keys: PublicKeys, shape: Arc<Shape>) -> Result<Bytes, Trouble> {
    let (round, bytes) = (Round(shape.spec.round), shape.sizes.hint.bytes());
    let patience = Patience { until: Instant::now() + LONGEST, attempts: ATTEMPTS };
    let call = |session: Session| async move { session.hint(round, bytes).await };
    let hint = sessions.call(patience, &keys, call).await.map_err(Trouble::Hint)?;
    let announced = shape
        .sizes
        .hints(&hint)
        .is_ok_and(|parts| hint_digest(&unit_hint_digests(parts)) == shape.hint_digest);
    if announced { Ok(hint) } else { Err(Trouble::HintForged) }
}

async fn look_up<T: Send + 'static>(
    host: &Arc<dyn Host>,
    (client, place): (oneshot::Receiver<Option<Client>>, OwnedSemaphorePermit),
    look: impl FnOnce(Client) -> T + Send + 'static,
    until: Instant,
    report: &mut RoundReport,
) -> Result<T, Trouble> {
    let started = Instant::now();
    let work = async {
        let client = client.await.ok().flatten()?;
        // A look-up that panics is none; the calls go on.
        let work = move || {
            let found = look(client);
            drop(place);
            found
        };
        run(host, Work::LookUp, work).await
    };
    let found = timeout_at(until, work).await.map_err(|_| Trouble::LookupLate)?.ok_or(Trouble::Failed)?;
    report.lookup = started.elapsed();
    Ok(found)
}

/// The same work for any targets, and whether it is a request for them. Targets that are none, which a look-up does not give, are
/// replaced by random ones.
async fn wanted(
    host: &Arc<dyn Host>,
    keys: &Arc<Generation>,
    shape: &Arc<Shape>,
    targets: Targets,
) -> Option<(Request, bool)> {
    let (keys, shape, mut rng) = (Arc::clone(keys), Arc::clone(shape), rng(host));
    let work = move || {
        let spec = &shape.spec;
        // Without a branch on any one of them.
        let are_below =
            |most, target: &Option<usize>| most & (target.unwrap_or_default() < spec.form.elements);
        let are_targets = targets.len() == spec.form.buckets && targets.iter().fold(true, are_below);
        let targets = if are_targets { targets } else { Targets::new(vec![None; spec.form.buckets]) };
        let mut client = keys.client();
        match client.ask(spec.clone(), &targets, &mut rng) {
            Ok(request) => Some((request, true)),
            Err(_) => client.cover(spec.clone(), &mut rng).ok().map(|request| (request, false)),
        }
    };
    run(host, Work::Query, work).await.flatten()
}

/// Checks the receipt, and hands over what is drawn to be checked; whether the receipt holds.
async fn receive(
    host: &Arc<dyn Host>,
    keys: &PublicKeys,
    sizes: Sizes,
    request: Bytes,
    answered: Answered,
    auditing: Auditing,
    evidence: oneshot::Sender<Evidence>,
) -> bool {
    let keys = keys.clone();
    let work = move || {
        let (digests, receipt) = auditing.check(&keys, &sizes, &request, &answered);
        let holds = receipt.is_some();
        let Answered { answer, .. } = answered;
        if let Some(unit) = auditing.unit {
            let answer = part(&sizes.answer, &answer, unit);
            let query = part(&sizes.request, &request, unit);
            // Whoever waits for it may have left.
            let _ = evidence.send(Evidence { auditing, sizes, digests, receipt, keys, unit, query, answer });
        }
        holds
    };
    run(host, Work::Receipt, work).await.unwrap_or(false)
}

/// Decodes the answers of all buckets, wanted or not.
async fn extract(
    host: &Arc<dyn Host>,
    pending: Box<dyn Pending>,
    hint: Bytes,
    answer: Bytes,
) -> Option<Vec<Option<Vec<u8>>>> {
    let work = move || pending.read(&hint, &answer).into_iter().map(Result::ok).collect();
    run(host, Work::Extract, work).await
}
