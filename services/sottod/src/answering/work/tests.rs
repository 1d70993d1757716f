//! What one request does to the others of its tile.

use ed25519_dalek::SigningKey;
use mpir::{
    Assurance, Contents, Engine, EngineClient, Error, Form, PreparedRound, Profile, PublicKeys, Query,
    Recomputed, RoundSpec, Sizes, noop,
};
use sotto_log::SealedRound;
use sotto_protocol::audit::{Statement, answer_digest, query_digest};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{
    CodeKind, Deposit, Label, PROTOCOL_VERSION, Round, RoundMode, SealedBox, SeedCommitment,
    ServerParameters, UnixMillis,
};
use sotto_wire::{Refused, RootKey};
use tokio::sync::{Notify, mpsc, watch};

use super::{Arc, Bytes, Compute, Member, Mutex, Part, Retrieval, RoundDatabase, Shared, answer};
use crate::answering::tiles::{Gathering, Tiles};
use crate::manifest_keys::{Announcing, Said};

const BUCKETS: usize = 8;
const PER_QUERY: usize = 16;

fn parameters() -> ServerParameters {
    ServerParameters {
        protocol_version: PROTOCOL_VERSION,
        serial: 1,
        manifest_key: [1; 32],
        seeds: SeedCommitment::default(),
        engine: "noop-no-privacy".into(),
        security_bits: 0,
        code: CodeKind::Cuckoo,
        retrieve: 4,
        buckets: 8,
        choices: 3,
        retained: 2,
        mode: RoundMode::Deadline,
        round_ms: 1000,
        deposit_ms: 100,
        lookup_ms: 200,
        query_ms: 300,
        deposit_spread_ms: 0,
        query_spread_ms: 0,
        key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
    }
}

fn database(engine: &dyn Engine) -> Arc<RoundDatabase> {
    let parameters = parameters();
    let deposit = |number: u64| {
        let (mut label, mut sealed) = ([0; 16], [0; BOX_BYTES]);
        label[..8].copy_from_slice(&number.to_le_bytes());
        sealed[..8].copy_from_slice(&(number + 1).to_le_bytes());
        Deposit { label: Label(label), sealed: SealedBox(sealed) }
    };
    let deposits = (0..200).map(deposit).collect();
    let sealed = SealedRound { round: Round(1), seed: [7; 32], at: UnixMillis(0), deposits, table: None };
    Arc::new(RoundDatabase::build(sealed, engine, &RootKey([0; 32]), &parameters).unwrap())
}

/// A client that asks every bucket for one element; where `bad` says so, for one that there is not.
fn request(index: u64, bad: impl Fn(usize) -> bool) -> Bytes {
    let mut bytes = vec![0; BUCKETS * PER_QUERY];
    for (unit, query) in bytes.chunks_exact_mut(PER_QUERY).enumerate() {
        match bad(unit) {
            true => query.fill(0xff),
            false => query[..8].copy_from_slice(&index.to_le_bytes()),
        }
    }
    bytes.into()
}

fn said() -> watch::Receiver<Arc<Said>> {
    let key = SigningKey::from_bytes(&[1; 32]);
    let manifest_key = key.verifying_key().to_bytes();
    let parameters = ServerParameters { manifest_key, ..parameters() };
    Announcing::new(vec![key], None, parameters, [0; 64]).hear()
}

fn room(units_per_job: usize) -> Shared {
    Shared {
        tiles: Mutex::new(Tiles::new(Gathering { most: 16, patience: core::time::Duration::ZERO })),
        news: Notify::new(),
        compute: Compute::new(1, 1).unwrap(),
        said: said(),
        units_per_job,
    }
}

/// An engine that panics where a request says so.
#[derive(Debug)]
struct Fragile(Arc<dyn Engine>);

struct FragileRound(Box<dyn PreparedRound>);

impl Engine for Fragile {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        self.0.profile(form)
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        self.0.sizes(spec)
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        self.0.assurance(spec)
    }

    fn public_keys_bytes(&self) -> usize {
        self.0.public_keys_bytes()
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        self.0.client(seed)
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        self.0.public_keys(encoded)
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        Ok(Box::new(FragileRound(self.0.prepare(spec, contents)?)))
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error> {
        self.0.recompute(spec, unit, contents, keys, request)
    }
}

impl PreparedRound for FragileRound {
    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    fn answer(&self, unit: usize, tile: &[Query<'_>]) -> Vec<Result<Vec<u8>, Error>> {
        let part = self.0.sizes().request.range(unit);
        assert!(tile.iter().all(|query| query.request[part.clone()] != FATAL), "the engine fails");
        self.0.answer(unit, tile)
    }
}

const FATAL: [u8; PER_QUERY] = [0xee; PER_QUERY];

/// An engine's mistake that one request meets is that request's alone.
#[tokio::test]
async fn a_request_that_breaks_the_engine_spoils_no_other() {
    let database = database(&Fragile(noop()));
    for units_per_job in [1, 4, 64] {
        let room = room(units_per_job);
        let keys = noop().public_keys(&[0; 8]).unwrap();
        let mut replies = Vec::new();
        let tile = (0..16).map(|client| {
            let (parts, reply) = mpsc::unbounded_channel();
            let mut request = request(client, |_| false).to_vec();
            if client == 5 {
                request[3 * PER_QUERY..4 * PER_QUERY].copy_from_slice(&FATAL);
            }
            replies.push((client, reply));
            let database = Arc::downgrade(&database);
            let request = request.into();
            Member::new(Retrieval { database, keys: keys.clone(), keys_digest: [0; 32], request }, parts)
        });
        answer(&room, tile.collect()).await;
        for (client, mut reply) in replies {
            let (mut units, mut end) = (0, None);
            while let Some(part) = reply.recv().await {
                match part {
                    Part::Answer(_) => units += 1,
                    Part::Receipt(_) => end = Some(None),
                    Part::Refused(refused) => end = Some(Some(refused)),
                }
            }
            let expected = if client == 5 { Some(Some(Refused::Internal)) } else { Some(None) };
            assert_eq!(end, expected, "client {client}");
            assert!(units == BUCKETS || client == 5 && units <= 3, "client {client}: {units}");
        }
    }
}

/// A retrieval that waits keeps no database: if the round retires meanwhile, it is told so.
#[tokio::test]
async fn whoever_waits_while_the_round_retires_is_told_that_it_is_closed() {
    let database = database(&*noop());
    let keys = noop().public_keys(&[0; 8]).unwrap();
    let (parts, mut reply) = mpsc::unbounded_channel();
    let request = request(1, |_| false);
    let retrieval = Retrieval { database: Arc::downgrade(&database), keys, keys_digest: [0; 32], request };
    let member = Member::new(retrieval, parts);
    drop(database);
    answer(&room(4), vec![member]).await;
    assert!(matches!(reply.recv().await, Some(Part::Refused(Refused::RoundClosed))));
    assert!(reply.recv().await.is_none());
}

/// Whoever's request is malformed in some unit is refused there, and nobody else notices.
async fn check(bad: impl Fn(u64, usize) -> bool, units_per_job: usize) {
    let (database, room) = (database(&*noop()), room(units_per_job));
    let keys = noop().public_keys(&[0; 8]).unwrap();
    let mut replies = Vec::new();
    let tile = (0..16).map(|client| {
        let (parts, reply) = mpsc::unbounded_channel();
        let request = request(client, |unit| bad(client, unit));
        replies.push((client, request.clone(), reply));
        let database = Arc::downgrade(&database);
        Member::new(Retrieval { database, keys: keys.clone(), keys_digest: [0; 32], request }, parts)
    });
    answer(&room, tile.collect()).await;
    let mut wrong = Vec::new();
    for (client, request, mut reply) in replies {
        let query = Query { keys: &keys, request: &request };
        let (mut unit, mut queries, mut answers) = (0, Vec::new(), Vec::new());
        let end = loop {
            match reply.recv().await {
                Some(Part::Answer(answer)) => {
                    let number = u16::try_from(unit).unwrap();
                    let part = &request[unit * PER_QUERY..(unit + 1) * PER_QUERY];
                    queries.push(query_digest(number, part));
                    answers.push(answer_digest(number, &answer));
                    let right = database.database.answer(unit, &[query]).remove(0);
                    if right.ok() != Some(answer) {
                        wrong.push((client, unit, "another answer"));
                    }
                    unit += 1;
                }
                Some(Part::Receipt(receipt)) => {
                    let manifest = &database.manifest;
                    let statement =
                        Statement::new(manifest.round, manifest.digest(), [0; 32], &queries, &answers);
                    let signer = SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes();
                    let holds = statement.verify(&signer, &receipt).is_ok();
                    break if holds { "receipt" } else { "receipt for something else" };
                }
                Some(Part::Refused(Refused::Malformed)) => break "malformed",
                Some(Part::Refused(_)) => break "refused",
                None => break "nothing",
            }
        };
        let first_bad = (0..BUCKETS).find(|unit| bad(client, *unit));
        let expected =
            (first_bad.unwrap_or(BUCKETS), if first_bad.is_some() { "malformed" } else { "receipt" });
        if (unit, end) != expected {
            wrong.push((client, unit, end));
        }
    }
    assert!(wrong.is_empty(), "client, unit, what: {wrong:?}");
}

#[tokio::test]
async fn one_request_malformed_everywhere_spoils_no_other() {
    check(|client, _| client == 5, 4).await;
}

#[tokio::test]
async fn one_request_malformed_in_one_unit_spoils_no_other() {
    check(|client, unit| client == 5 && unit == 0, 4).await;
}

#[tokio::test]
async fn one_unit_per_job_spoils_no_other() {
    check(|client, unit| client == 5 && unit == 0, 1).await;
}

#[tokio::test]
async fn requests_malformed_anywhere_spoil_no_other() {
    for units_per_job in [1, 3, 4, 64] {
        for seed in 0..20_u64 {
            let bad = |client: u64, unit: usize| {
                let mixed = (seed << 16 | client << 8 | unit as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed >> 32).is_multiple_of(16)
            };
            check(bad, units_per_job).await;
        }
    }
}
