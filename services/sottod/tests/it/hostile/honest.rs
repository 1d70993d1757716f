//! Members who do nothing but take part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mpir::{Engine, EngineClient, Engines};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Label, Manifest, Round, SealedBox};
use sotto_session::{Connection, ConnectionSettings, RoundNews, Session, round_spec};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;

use super::support::Server;

/// Their numbers, which nobody else takes.
const NUMBERS: [u8; 2] = [201, 202];
/// Rounds that each must complete.
const ROUNDS: usize = 3;

/// What an honest member deposits in a round. An attacker may know the label.
pub(crate) fn deposit_of(number: u8, round: Round) -> Deposit {
    let mut label = [number; 16];
    label[8..].copy_from_slice(&round.0.to_le_bytes());
    Deposit { label: Label(label), sealed: SealedBox([number ^ round.0 as u8; BOX_BYTES]) }
}

/// Honest members at work.
pub(crate) struct Honest {
    members: JoinSet<Tally>,
    complete: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
}

#[derive(Default)]
struct Tally {
    rounds: usize,
    acknowledged: Duration,
    ready: Duration,
    retrieved: Duration,
}

impl Honest {
    pub(crate) async fn start(server: &Server) -> Self {
        let (complete, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut members = JoinSet::new();
        for number in NUMBERS {
            let member = Member::join(server, number).await;
            let (complete, enough) = (Arc::clone(&complete), Arc::clone(&enough));
            members.spawn(take_part(member, complete, enough));
        }
        Self { members, complete, enough }
    }

    /// Whether they have done so many rounds that an attack which lasted until now had its chance.
    pub(crate) fn had_enough(&self) -> bool {
        self.complete.load(Ordering::Relaxed) >= NUMBERS.len() * ROUNDS
    }

    /// Lets them go on until they have completed some rounds. It fails if any of their calls has failed, if a round was
    /// not ready in time, or if one did not retrieve what was deposited.
    pub(crate) async fn were_served(mut self, attack: &str) {
        self.enough.store(true, Ordering::Relaxed);
        while let Some(tally) = self.members.join_next().await {
            let Tally { rounds, acknowledged, ready, retrieved } = tally.unwrap();
            println!(
                "measured: {attack}: others: {rounds} rounds of 1.5 to 3 s complete, slowest acknowledgement {} ms, \
                 round ready after {} ms, retrieval {} ms",
                acknowledged.as_millis(),
                ready.as_millis(),
                retrieved.as_millis()
            );
        }
    }
}

async fn take_part(mut member: Member, complete: Arc<AtomicUsize>, enough: Arc<AtomicBool>) -> Tally {
    let mut tally = Tally::default();
    let mut news = Box::pin(member.session.watch().await.unwrap());
    while tally.rounds < ROUNDS || !enough.load(Ordering::Relaxed) {
        let mut next = async || {
            let news = tokio::time::timeout(Duration::from_secs(10), news.next()).await;
            news.unwrap().unwrap().unwrap()
        };
        // One that has just opened: with time to deposit in it, however busy the machine.
        let round = loop {
            match next().await {
                RoundNews::Opened { round, elapsed } if elapsed < Duration::from_millis(50) => break round,
                _ => {}
            }
        };
        let opened = Instant::now();
        member.session.deposit(round, &deposit_of(member.number, round).encode()).await.unwrap();
        tally.acknowledged = tally.acknowledged.max(opened.elapsed());
        let manifest = loop {
            let RoundNews::Ready { manifest, .. } = next().await else { continue };
            let manifest = manifest.verify(&member.manifest_key).unwrap();
            if manifest.round >= round {
                break manifest;
            }
        };
        assert_eq!(manifest.round, round);
        tally.ready = tally.ready.max(opened.elapsed());
        let asked = Instant::now();
        member.retrieve_own(&manifest).await;
        tally.retrieved = tally.retrieved.max(asked.elapsed());
        tally.rounds += 1;
        complete.fetch_add(1, Ordering::Relaxed);
    }
    tally
}

/// Somebody who speaks to the server as the chat client does.
struct Member {
    number: u8,
    session: Session,
    engine: Arc<dyn Engine>,
    /// Its half of the engine, under one secret for the whole session.
    pir: Box<dyn EngineClient>,
    keys: [u8; 32],
    manifest_key: [u8; 32],
}

impl Member {
    async fn join(server: &Server, number: u8) -> Self {
        let engine = Arc::clone(server.engine());
        let mut settings = ConnectionSettings::new(server.address().clone());
        settings.allow_no_privacy = true;
        settings.engines = Engines::only(Arc::clone(&engine));
        let connection = Connection::open_on(Arc::new(server.wire().clone()), &settings).await.unwrap();
        let info = connection.info().await.unwrap();
        let session = connection.session(&[number; 32], &info, None, None).await.unwrap();
        let pir = engine.client(&[number; 32]);
        let keys = session.upload_keys(pir.public_keys().into()).await.unwrap();
        let manifest_key = info.parameters.manifest_key;
        Self { number, session, engine, pir, keys, manifest_key }
    }

    /// Asks for both members' boxes, as a client would; its own must be there, under whatever else has the same label.
    async fn retrieve_own(&mut self, manifest: &Manifest) {
        let code = manifest.code().unwrap();
        let bytes = BloomMapping::encoded_bytes(manifest.shape(), manifest.bucket_size);
        let mapping = self.session.mapping(manifest.round, bytes as usize).await.unwrap();
        let mapping = BloomMapping::decode(&mapping, manifest).unwrap();
        let other = NUMBERS[usize::from(self.number == NUMBERS[0])];
        let deposits = [deposit_of(self.number, manifest.round), deposit_of(other, manifest.round)];
        let mut targets = vec![None; code.bucket_count()];
        for deposit in deposits.iter().rev() {
            // One after the other of those under the label, in one bucket after the other.
            for (number, content) in code.holders(&deposit.label.0).into_iter().enumerate() {
                let hits = mapping.hits(&*code, content, &deposit.label);
                targets[content] = hits.get(number % hits.len().max(1)).copied();
            }
        }
        let (spec, sizes) = round_spec(&*self.engine, &self.session.root_key(), manifest).unwrap();
        let bytes = sizes.answer.bytes();
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let request = self.pir.ask(spec, &targets, &mut rng).unwrap();
        let answered = self.session.retrieve(manifest.round, &self.keys, request.bytes.into(), bytes).await;
        let elements = request.pending.read(&[], &answered.unwrap().answers);
        let own = |content: usize| elements[content].as_ref().unwrap() == &deposits[0].sealed.0;
        let found = code.holders(&deposits[0].label.0).into_iter().any(own);
        assert!(found, "a deposit that was acknowledged was not retrieved");
    }
}
