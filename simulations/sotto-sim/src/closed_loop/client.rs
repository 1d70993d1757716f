//! A real client: every call is the one that `sotto` makes, with the code that `sotto` makes it with.

use core::pin::Pin;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow, bail, ensure};
use bytes::Bytes;
use derive_more::{Add, Sum};
use mpir::{Engine, EngineClient, Pending, Request, RoundSpec, Sizes};
use pbc::{BatchCode, BucketIndex, PartitionedCode};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt, SeedableRng};
use serde::Serialize;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::mapping::{Outcome, Reading, Targets};
use sotto_protocol::table::SENT_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Lookup, Manifest, Round, SignedManifest, Table};
use sotto_session::{Answers, Connection, ConnectionSettings, RoundNews, Session, round_spec};
use sotto_wire::Failure;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_stream::{Stream, StreamExt as _};

use super::turns::Turns;
use crate::cpu::timed;
use crate::engine::EngineName;
use crate::proxy::{Proxy, Traffic};

/// No round takes longer; then something is broken.
pub(super) const PATIENCE: Duration = Duration::from_secs(3600);

type News = Pin<Box<dyn Stream<Item = Result<RoundNews, Failure>> + Send>>;

/// A registered client whose keys the server has.
pub(crate) struct Client {
    pub(super) session: Session,
    /// On a server with slots.
    pub(super) slot: Option<u32>,
    pub(super) engine: Arc<dyn Engine>,
    pir: Arc<Mutex<Box<dyn EngineClient>>>,
    digest: [u8; 32],
    pub(crate) keys: Bytes,
    pub(super) manifest_key: [u8; 32],
    news: News,
    rng: StdRng,
    /// What all of its bytes go through.
    pub(super) proxy: Arc<Proxy>,
    /// How long the upload of its keys took.
    pub(crate) upload: Duration,
    /// Of the last round.
    pub(super) last: Option<Exchanged>,
}

/// What a client had of a round when its answers were there.
pub(super) struct Exchanged {
    pub(super) manifest: SignedManifest,
    pub(super) sizes: Sizes,
    pub(super) query: Bytes,
    pub(super) answers: Bytes,
    pub(super) receipt: Bytes,
}

/// What one client's part in one round came to.
#[derive(Clone, Debug)]
pub(crate) struct Took {
    pub(crate) counts: Counts,
    pub(super) bytes: Payload,
    /// When its answers were there, as often as it asked, and how long each had taken since the multi-query.
    pub(crate) answers: Vec<(Instant, Duration)>,
    /// From the wish for its messages, once the mapping is there, to the messages.
    pub(crate) response: Duration,
    /// CPU time of making the multi-query, and of reading the answers, milliseconds.
    pub(crate) query_cpu_ms: f64,
    pub(crate) extract_cpu_ms: f64,
    /// Through the client's proxy meanwhile.
    pub(crate) traffic: Traffic,
    pub(super) buckets: usize,
    pub(super) bucket_size: usize,
    pub(super) entries: u64,
}

/// What became of the labels that were looked for.
#[derive(Clone, Copy, Debug, Default, Serialize, Add, Sum)]
pub(crate) struct Counts {
    /// Whose box came back, bit by bit.
    pub(crate) retrieved: u64,
    /// For which another box came.
    pub(crate) wrong: u64,
    /// That the mapping does not show.
    pub(crate) missing: u64,
    /// That the mapping shows several times in every bucket; some of their boxes are retrieved all the same.
    pub(crate) ambiguous: u64,
    /// Of these, those whose box did not come.
    pub(crate) ambiguous_unread: u64,
    /// That are in the round, but found no free bucket.
    pub(crate) deferred: u64,
}

/// Bytes of the calls' contents, without all that carries them.
#[derive(Clone, Copy, Debug, Default, Add, Sum)]
pub(super) struct Payload {
    pub(super) deposit: u64,
    pub(super) mapping: u64,
    pub(super) query: u64,
    pub(super) answer: u64,
}

impl Client {
    /// Connects, registers and uploads its keys.
    pub(super) async fn enter(
        settings: &ConnectionSettings,
        name: EngineName,
        proxy: Arc<Proxy>,
        seed: [u8; 32],
    ) -> anyhow::Result<Self> {
        let mut rng = StdRng::from_seed(seed);
        let (account, pir): ([u8; 32], [u8; 32]) = (rng.random(), rng.random());
        let connection = Connection::open(settings).await?;
        let info = connection.info().await?;
        let engine = name.engine();
        let (pir, keys) = {
            let engine = Arc::clone(&engine);
            let made = blocking(move || {
                let client = engine.client(&pir);
                let keys = client.public_keys();
                (client, keys)
            });
            let (client, keys) = made.await?;
            (Arc::new(Mutex::new(client)), keys)
        };
        let session = connection.register(&account, &info.parameters, None, None).await?;
        let keys = Bytes::from(keys);
        let start = Instant::now();
        let digest = session.upload_keys(keys.clone()).await?;
        let upload = start.elapsed();
        let news: News = Box::pin(session.watch().await?);
        let manifest_key = info.parameters.manifest_key;
        let slot = session.given_slot().map(|slot| slot.number);
        let (last, engine_client) = (None, pir);
        Ok(Self {
            session,
            slot,
            engine,
            pir: engine_client,
            digest,
            keys,
            manifest_key,
            news,
            rng,
            proxy,
            upload,
            last,
        })
    }

    /// The next round that opens.
    pub(super) async fn opened(&mut self) -> anyhow::Result<Round> {
        loop {
            if let RoundNews::Opened { round, .. } = self.next_news().await? {
                return Ok(round);
            }
        }
    }

    /// The calls of one round: the deposit, the mapping, the multi-query; and the look for what is wanted.
    pub(super) async fn take_part(
        &mut self,
        round: Round,
        deposit: &Deposit,
        wanted: Vec<Deposit>,
        turns: &Turns,
    ) -> anyhow::Result<Took> {
        let encoded = deposit.encode();
        // With slots, a part of the label serves as the knock.
        let label_bytes = encoded.len() - BOX_BYTES;
        let sent_label = if self.slot.is_some() { SENT_BYTES - BOX_BYTES } else { label_bytes };
        let sent = [&encoded[..sent_label], &encoded[label_bytes..]].concat();
        self.session.deposit(round, &sent).await.context("a deposit was not taken")?;
        let (manifest, signed) = self.ready(round).await?;

        let (buckets, bucket_size) = (usize::from(manifest.buckets), manifest.bucket_size as usize);
        let (spec, sizes) = round_spec(&*self.engine, &self.session.root_key(), &manifest)?;
        let mapping = self.session.mapping(round, usize::try_from(manifest.mapping_bytes())?).await;
        let mapping = mapping.context("a mapping did not come")?;
        let hint = self.session.hint(round, sizes.hint.bytes()).await.context("a hint did not come")?;
        let (mapping_bytes, entries) = (mapping.len() as u64, manifest.entries);

        let _turn = turns.next().await?;
        let (began, before) = (Instant::now(), self.proxy.traffic());
        let (pir, seed) = (Arc::clone(&self.pir), self.rng.random());
        let ask = move || timed(|| ask(&pir, spec, &manifest, &mapping, wanted, seed));
        let (asked, query_cpu_ms) = blocking(ask).await?;
        let (query, asked) = asked?;
        let (mut answers, mut first) = (Vec::new(), None);
        for _ in 0..turns.attempts {
            let (sent, query) = (Instant::now(), query.clone());
            let came = self.session.retrieve(round, &self.digest, query, sizes.answer.bytes()).await?;
            answers.push((Instant::now(), sent.elapsed()));
            let first = first.get_or_insert_with(|| came.clone());
            ensure!(first.answers == came.answers, "the same query, another answer");
        }
        let Answers { answers: answer, receipt, .. } = first.context("no attempt")?;
        let bytes = Payload {
            deposit: sent.len() as u64,
            mapping: mapping_bytes,
            query: query.len() as u64,
            answer: answer.len() as u64,
        };
        self.last = Some(Exchanged { manifest: signed, sizes, query, answers: answer.clone(), receipt });

        let (counts, extract_cpu_ms) = blocking(move || timed(|| asked.judge(&hint, &answer))).await?;
        let (response, traffic) = (began.elapsed(), self.proxy.traffic() - before);
        Ok(Took {
            counts,
            bytes,
            answers,
            response,
            query_cpu_ms,
            extract_cpu_ms,
            traffic,
            buckets,
            bucket_size,
            entries,
        })
    }

    /// The manifest of a round, verified, when the round can be retrieved.
    async fn ready(&mut self, round: Round) -> anyhow::Result<(Manifest, SignedManifest)> {
        loop {
            if let RoundNews::Ready { manifest: signed, .. } = self.next_news().await? {
                let manifest = signed.verify(&self.manifest_key)?;
                if manifest.round == round {
                    return Ok((manifest, *signed));
                }
            }
        }
    }

    async fn next_news(&mut self) -> anyhow::Result<RoundNews> {
        match timeout(PATIENCE, self.news.next()).await {
            Ok(Some(news)) => Ok(news?),
            Ok(None) => bail!("the server has ended"),
            Err(_) => bail!("nothing has happened for an hour"),
        }
    }
}

/// A multi-query, with what is needed to judge its answers.
struct Asked {
    pending: Box<dyn Pending>,
    code: Box<dyn BatchCode>,
    readings: Vec<Reading>,
    wanted: Vec<Deposit>,
}

/// Looks the wanted labels or slots up and asks for them: what `sotto_protocol::Client::lookup` does with the labels of contacts,
/// with the same parts.
fn ask(
    pir: &Mutex<Box<dyn EngineClient>>,
    spec: RoundSpec,
    manifest: &Manifest,
    mapping: &[u8],
    wanted: Vec<Deposit>,
    seed: [u8; 32],
) -> anyhow::Result<(Bytes, Asked)> {
    let mut rng = StdRng::from_seed(seed);
    let (code, targets, readings): (Box<dyn BatchCode>, _, _) = match manifest.table() {
        Some(table) => {
            let code = manifest.slot_code()?;
            let (targets, readings) = places(&code, table, &wanted, &mut rng)?;
            (Box::new(code), targets, readings)
        }
        None => {
            let mapping = BloomMapping::decode(mapping, manifest)?;
            let code = manifest.code()?;
            let labels: Vec<_> = wanted.iter().map(|deposit| deposit.label).collect();
            let lookup = Lookup::new(&*code, &mapping, &labels, &mut rng);
            let readings = lookup.readings().to_vec();
            (code, lookup.into_targets(), readings)
        }
    };
    let mut pir = pir.lock().map_err(|_| anyhow!("an earlier query failed"))?;
    let Request { bytes, pending } = pir.ask(spec, &targets, &mut rng)?;
    Ok((bytes.into(), Asked { pending, code, readings, wanted }))
}

/// Where the slots are whose boxes are wanted, of which each deposit's label tells one.
fn places(
    code: &PartitionedCode,
    table: Table,
    wanted: &[Deposit],
    rng: &mut StdRng,
) -> anyhow::Result<(Targets, Vec<Reading>)> {
    let slot = |deposit: &Deposit| {
        let slot = u32::from_le_bytes(core::array::from_fn(|at| deposit.label.0[at]));
        table.place(slot).context("a slot that the table does not have")
    };
    let slots = wanted.iter().map(slot).collect::<anyhow::Result<Vec<u32>>>()?;
    let keys: Vec<[u8; 8]> = slots.iter().map(|slot| PartitionedCode::key((*slot).into())).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let schedule = code.schedule_drawn(&keys, &mut || rng.next_u64());
    let mut targets = Targets::new(vec![None; code.bucket_count()]);
    let reading = |(number, slot): (usize, &u32)| {
        let buckets = schedule.assignment(number).to_vec();
        for (bucket, position) in code.places(*slot) {
            if buckets.contains(&bucket) {
                targets[bucket.to_usize()] = Some(position);
            }
        }
        let outcome = if buckets.is_empty() { Outcome::Deferred } else { Outcome::Found };
        Reading { outcome, buckets, crowded: (0, 0) }
    };
    let readings = slots.iter().enumerate().map(reading).collect();
    Ok((targets, readings))
}

impl Asked {
    /// Extracts all buckets and compares what was wanted with what was deposited.
    fn judge(self, hint: &Bytes, answer: &Bytes) -> Counts {
        let codewords = self.pending.read(hint, answer);
        let mut counts = Counts::default();
        for (wanted, reading) in self.wanted.iter().zip(&self.readings) {
            let codeword = |bucket: &BucketIndex| codewords.get(bucket.to_usize())?.as_deref().ok();
            let read: Option<Vec<&[u8]>> = reading.buckets.iter().map(codeword).collect();
            let element = read.and_then(|read| self.code.decode(&read).ok());
            let right = element.is_some_and(|bytes| bytes == wanted.sealed.0);
            counts.retrieved += u64::from(right);
            counts.ambiguous += u64::from(reading.outcome == Outcome::Ambiguous);
            match reading.outcome {
                _ if right => {}
                Outcome::Absent => counts.missing += 1,
                Outcome::Ambiguous => counts.ambiguous_unread += 1,
                Outcome::Deferred => counts.deferred += 1,
                Outcome::Found => counts.wrong += 1,
            }
        }
        counts
    }
}

/// Work of the clients, on as many threads as there are processors: real clients do not share a machine.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (reply, result) = oneshot::channel();
    // If nobody waits any more, nobody misses the result.
    let start = move || rayon::spawn(move || drop(reply.send(work())));
    // Not from this thread: it may be the only one of a pool, as that of the figures is, and it waits.
    tokio::spawn(async move { start() }).await.context("a computation was not begun")?;
    result.await.context("a computation has failed")
}

/// What is deposited must be what is compared.
pub(super) fn ensure_complete(counts: Counts, wanted: u64) -> anyhow::Result<()> {
    let Counts { retrieved, wrong, missing, ambiguous_unread, deferred, .. } = counts;
    let all = retrieved + wrong + missing + ambiguous_unread + deferred;
    ensure!(all == wanted, "{wanted} labels were looked for, and {all} accounted for");
    Ok(())
}
