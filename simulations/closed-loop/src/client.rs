//! A real client: every call is the one that `sotto` makes, with the code that `sotto` makes it with.

use core::pin::Pin;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use derive_more::{Add, Sum};
use mpir::{Engine, EngineClient, RoundSpec, Sizes};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use sotto_measuring::asking::{Asked, Standing, ask, blocking, sent};
use sotto_measuring::cpu::timed;
use sotto_measuring::engine::EngineName;
use sotto_measuring::proxy::{Proxy, Traffic};
use sotto_protocol::mapping::Outcome;
use sotto_protocol::{Deposit, Manifest, Round, SignedManifest};
use sotto_session::{Answers, Connection, ConnectionSettings, RoundNews, Session, round_spec};
use sotto_wire::Failure;
use tokio::time::{Instant, timeout};
use tokio_stream::{Stream, StreamExt as _};

use crate::turns::Turns;

/// No round takes longer; then something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3600);

type News = Pin<Box<dyn Stream<Item = Result<RoundNews, Failure>> + Send>>;

/// A registered client whose keys the server has.
pub struct Client {
    pub(crate) session: Session,
    /// On a server with slots.
    pub(crate) slot: Option<u32>,
    pub(crate) engine: Arc<dyn Engine>,
    pir: Arc<Mutex<Box<dyn EngineClient>>>,
    digest: [u8; 32],
    /// What it has uploaded.
    pub keys: Bytes,
    pub(crate) manifest_key: [u8; 32],
    news: News,
    rng: StdRng,
    /// What all of its bytes go through.
    pub(crate) proxy: Arc<Proxy>,
    /// How long the upload of its keys took.
    pub upload: Duration,
    /// Of the last round.
    pub(crate) last: Option<Exchanged>,
    /// What is asked again, where queries stand.
    standing: Option<Arc<Standing>>,
}

/// What a client had of a round when its answers were there.
pub(crate) struct Exchanged {
    pub(crate) manifest: SignedManifest,
    pub(crate) sizes: Sizes,
    pub(crate) hint: Bytes,
    pub(crate) query: Bytes,
    pub(crate) answers: Bytes,
    pub(crate) receipt: Bytes,
}

/// What one client's part in one round came to.
#[derive(Clone, Debug)]
pub struct Took {
    /// Of what it wanted.
    pub counts: Counts,
    pub(crate) bytes: Payload,
    /// When its answers were there, as often as it asked, and how long each had taken since the multi-query.
    pub answers: Vec<(Instant, Duration)>,
    /// From the wish for its messages, once the mapping is there, to the messages.
    pub response: Duration,
    /// CPU time of making the multi-query, milliseconds.
    pub query_cpu_ms: f64,
    /// CPU time of reading the answers, milliseconds.
    pub extract_cpu_ms: f64,
    /// Through the client's proxy meanwhile.
    pub traffic: Traffic,
    pub(crate) buckets: usize,
    /// What the server answers in one piece.
    pub(crate) units: usize,
    pub(crate) bucket_size: usize,
    pub(crate) entries: u64,
}

/// What became of the labels that were looked for.
#[derive(Clone, Copy, Debug, Default, Serialize, Add, Sum)]
pub struct Counts {
    /// Whose box came back, bit by bit.
    pub retrieved: u64,
    /// For which another box came.
    pub(crate) wrong: u64,
    /// That the mapping does not show.
    pub(crate) missing: u64,
    /// That the mapping shows several times in every bucket; some of their boxes are retrieved all the same.
    pub(crate) ambiguous: u64,
    /// Of these, those whose box did not come.
    pub(crate) ambiguous_unread: u64,
    /// That are in the round, but found no free bucket.
    pub deferred: u64,
}

/// Bytes of the calls' contents, without all that carries them.
#[derive(Clone, Copy, Debug, Default, Add, Sum)]
pub(crate) struct Payload {
    pub(crate) deposit: u64,
    pub(crate) mapping: u64,
    pub(crate) hint: u64,
    pub(crate) query: u64,
    pub(crate) answer: u64,
}

impl Counts {
    /// Of one label: what the mapping says of it, and whether its box came back.
    fn of(outcome: Outcome, right: bool) -> Self {
        let ambiguous = u64::from(outcome == Outcome::Ambiguous);
        let counts = Self { ambiguous, ..Self::default() };
        match outcome {
            _ if right => Self { retrieved: 1, ..counts },
            Outcome::Absent => Self { missing: 1, ..counts },
            Outcome::Ambiguous => Self { ambiguous_unread: 1, ..counts },
            Outcome::Deferred => Self { deferred: 1, ..counts },
            Outcome::Found => Self { wrong: 1, ..counts },
        }
    }
}

impl Client {
    /// Connects, registers and uploads its keys.
    pub(crate) async fn enter(
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
            standing: None,
        })
    }

    /// The next round that opens.
    pub(crate) async fn opened(&mut self) -> anyhow::Result<Round> {
        loop {
            if let RoundNews::Opened { round, .. } = self.next_news().await? {
                return Ok(round);
            }
        }
    }

    /// The calls of one round: the deposit, the mapping, the multi-query; and the look for what is wanted.
    pub(crate) async fn take_part(
        &mut self,
        round: Round,
        deposit: &Deposit,
        wanted: Vec<Deposit>,
        turns: &Turns,
    ) -> anyhow::Result<Took> {
        let sent = sent(deposit, self.slot.is_some());
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
        let standing = self.standing.take();
        let ask = move || timed(|| asks(&pir, standing, spec, &manifest, &mapping, wanted, seed));
        let (asked, query_cpu_ms) = blocking(ask).await?;
        let (query, asked, standing, again) = asked?;
        let (mut answers, mut first) = (Vec::new(), None);
        for _ in 0..turns.attempts {
            let (sent, query, bytes) = (Instant::now(), query.clone(), sizes.answer.bytes());
            let came = match standing.as_ref().filter(|_| again) {
                Some(standing) => {
                    self.session.retrieve_again(round, &self.digest, (query, &standing.digest), bytes).await?
                }
                None => self.session.retrieve(round, &self.digest, query, bytes).await?,
            };
            answers.push((Instant::now(), sent.elapsed()));
            let first = first.get_or_insert_with(|| came.clone());
            ensure!(first.answers == came.answers, "the same query, another answer");
        }
        self.standing = standing;
        let Answers { answers: answer, receipt, whole, .. } = first.context("no attempt")?;
        let bytes = Payload {
            deposit: sent.len() as u64,
            mapping: mapping_bytes,
            hint: hint.len() as u64,
            query: if whole { query.len() } else { self.digest.len() } as u64,
            answer: answer.len() as u64,
        };
        self.last = Some(Exchanged {
            manifest: signed,
            sizes,
            hint: hint.clone(),
            query,
            answers: answer.clone(),
            receipt,
        });

        let (judged, extract_cpu_ms) = blocking(move || timed(|| asked.judge(&hint, &answer))).await?;
        let counts = judged.into_iter().map(|(_, outcome, right)| Counts::of(outcome, right)).sum();
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
            units: sizes.units.count(),
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

/// What a client sends for a round, and what it judges the answers by; where queries stand, what it asks again, and whether this is
/// that.
fn asks(
    pir: &Mutex<Box<dyn EngineClient>>,
    standing: Option<Arc<Standing>>,
    spec: RoundSpec,
    manifest: &Manifest,
    mapping: &[u8],
    wanted: Vec<Deposit>,
    seed: [u8; 32],
) -> anyhow::Result<(Bytes, Asked, Option<Arc<Standing>>, bool)> {
    if let Some(standing) = standing
        && let Some(asked) = standing.again(&spec, manifest, wanted.clone())?
    {
        return Ok((standing.query.clone(), asked, Some(standing), true));
    }
    let (query, asked) = ask(pir, spec.clone(), manifest, mapping, wanted, seed)?;
    if manifest.code.epoch_rounds() == 1 {
        return Ok((query, asked, None, false));
    }
    let (standing, asked) = Standing::new(spec, &query, asked)?;
    Ok((query, asked, Some(standing), false))
}

/// What is deposited must be what is compared.
pub(crate) fn ensure_complete(counts: Counts, wanted: u64) -> anyhow::Result<()> {
    let Counts { retrieved, wrong, missing, ambiguous_unread, deferred, .. } = counts;
    let all = retrieved + wrong + missing + ambiguous_unread + deferred;
    ensure!(all == wanted, "{wanted} labels were looked for, and {all} accounted for");
    Ok(())
}
