//! Answering tiles, unit by unit.

use core::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use mpir::{Error, PublicKeys, Query};
use rayon::prelude::{IntoParallelIterator, ParallelIterator};
use sotto_protocol::audit::{Statement, answer_digest, query_digest};
use sotto_wire::Refused;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::reply::Part;
use super::tiles::{Next, Tiles};
use crate::compute::Compute;
use crate::manifest_keys::Said;
use crate::round_database::RoundDatabase;

/// A request that is to be answered, of the right size for its round.
pub(crate) struct Retrieval {
    /// Nobody's who waits: a round may retire before its turn, and its database is then gone.
    pub(crate) database: Weak<RoundDatabase>,
    pub(crate) keys: PublicKeys,
    /// Under which the keys are known.
    pub(crate) keys_digest: [u8; 32],
    pub(crate) request: Bytes,
}

/// What workers share.
pub(super) struct Shared {
    pub(super) tiles: Mutex<Tiles<Member>>,
    /// There may be a tile to answer, or one to wait for.
    pub(super) news: Notify,
    pub(super) compute: Compute,
    /// What signs receipts, round by round.
    pub(super) said: watch::Receiver<Arc<Said>>,
    /// Units answered in one job, whose answers are sent before the next.
    pub(super) units_per_job: usize,
}

/// A client whose request is in a tile.
pub(super) struct Member {
    retrieval: Retrieval,
    parts: UnboundedSender<Part>,
    /// Of the units answered so far: of its requests, and of the answers.
    queries: Vec<[u8; 32]>,
    answers: Vec<[u8; 32]>,
}

impl Member {
    pub(super) fn new(retrieval: Retrieval, parts: UnboundedSender<Part>) -> Self {
        Self { retrieval, parts, queries: Vec::new(), answers: Vec::new() }
    }

    /// Whether somebody waits for the answer.
    pub(super) fn waits(&self) -> bool {
        !self.parts.is_closed()
    }

    fn tell(&self, part: Part) {
        // Whoever has gone is not in the next job.
        let _ = self.parts.send(part);
    }

    /// Passes on what was answered of one unit; whether there is more to come.
    fn take(&mut self, unit: Result<Answered, Refused>) -> bool {
        match unit {
            Ok(Answered { answer, query, digest }) => {
                self.queries.extend(query.or(self.queries.last().copied()));
                self.answers.push(digest);
                self.tell(Part::Answer(answer));
                true
            }
            Err(refused) => {
                self.tell(Part::Refused(refused));
                false
            }
        }
    }
}

/// Answers one tile after the other until it is told to stop.
pub(super) async fn work(room: Arc<Shared>, stop: CancellationToken) {
    loop {
        let (next, is_more) = {
            let mut tiles = room.tiles.lock().unwrap_or_else(PoisonError::into_inner);
            let next = tiles.next(Instant::now());
            (next, !tiles.is_empty())
        };
        match next {
            Next::Tile(tile) => {
                if is_more {
                    room.news.notify_one();
                }
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = answer(&room, tile) => {}
                }
            }
            Next::Wait(until) => {
                let due = async {
                    match until {
                        Some(until) => sleep_until(until).await,
                        None => core::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = room.news.notified() => {}
                    () = due => {}
                }
            }
        }
    }
}

/// Answers all of a tile whose round is still there.
async fn answer(room: &Shared, mut tile: Vec<Member>) {
    let Some(database) = tile.iter().find_map(|member| member.retrieval.database.upgrade()) else {
        tile.iter().for_each(|member| member.tell(Part::Refused(Refused::RoundClosed)));
        return;
    };
    let units = database.database.sizes().units.count();
    for first in (0..units).step_by(room.units_per_job.max(1)) {
        // Whoever resets calls as fast as they are made leaves no work behind that has not begun.
        tile.retain(Member::waits);
        if tile.is_empty() {
            return;
        }
        let range = first..units.min(first.saturating_add(room.units_per_job.max(1)));
        let members: Vec<_> = tile
            .iter()
            .map(|member| (member.retrieval.keys.clone(), member.retrieval.request.clone()))
            .collect();
        let answered = answer_range(room, &database, members, range).await;
        let mut stays = vec![true; tile.len()];
        for unit in answered {
            let mut unit = unit.into_iter();
            for (member, stays) in tile.iter_mut().zip(&mut stays) {
                let result = unit.next().unwrap_or(Err(Refused::Internal));
                *stays = *stays && member.take(result);
            }
        }
        let mut stays = stays.into_iter();
        tile.retain(|_| stays.next().unwrap_or(false));
    }
    let manifest = &database.manifest;
    let key = room.said.borrow().signing_key(manifest.round).cloned();
    for member in &tile {
        let Member { retrieval: Retrieval { keys_digest, .. }, queries, answers, .. } = member;
        let statement = Statement::new(manifest.round, manifest.digest(), *keys_digest, queries, answers);
        // A node that lacks the secret answers all the same; whoever asked sees that nobody vouches for it.
        if let Some(key) = &key {
            member.tell(Part::Receipt(statement.sign(key)));
        }
    }
}

/// For every unit of the range, one result per member. If the computation fails, each member's is made by itself, so that
/// one request that does that spoils no other.
async fn answer_range(
    room: &Shared,
    database: &Arc<RoundDatabase>,
    members: Vec<(PublicKeys, Bytes)>,
    range: Range<usize>,
) -> Vec<Vec<Result<Answered, Refused>>> {
    let compute = |members: Vec<_>| {
        let (database, range) = (Arc::clone(database), range.clone());
        room.compute.answer(move || answer_units(&database, &members, range))
    };
    if let Ok(answered) = compute(members.clone()).await {
        return answered;
    }
    let mut units: Vec<Vec<_>> = range.clone().map(|_| Vec::new()).collect();
    for member in members {
        let alone = compute(vec![member]).await.unwrap_or_default();
        let mut alone = alone.into_iter().flatten();
        units.iter_mut().for_each(|unit| unit.push(alone.next().unwrap_or(Err(Refused::Internal))));
    }
    units
}

/// A unit's answer to one client, and digests.
struct Answered {
    answer: Vec<u8>,
    /// Of the unit's part of the request; `None` if it is the part of the unit before.
    query: Option<[u8; 32]>,
    /// Of the answer.
    digest: [u8; 32],
}

/// For every unit of the range, one result per member.
fn answer_units(
    database: &RoundDatabase,
    members: &[(PublicKeys, Bytes)],
    units: Range<usize>,
) -> Vec<Vec<Result<Answered, Refused>>> {
    let sizes = database.database.sizes();
    let queries: Vec<_> = members.iter().map(|(keys, request)| Query { keys, request }).collect();
    let answer = |unit: usize| {
        let number = u16::try_from(unit).unwrap_or(u16::MAX);
        let answered = |(answer, query): (Result<Vec<u8>, Error>, &Query<'_>)| {
            let answer = answer.map_err(|error| match error {
                Error::Engine(_) | Error::Count { .. } => Refused::Malformed,
                _ => Refused::Internal,
            })?;
            let part = sizes.request.part("bytes of the request", query.request, unit);
            let part = part.map_err(|_| Refused::Malformed)?;
            let place = sizes.request.number(unit);
            let new = unit == 0 || place != sizes.request.number(unit - 1);
            let query = new.then(|| query_digest(u16::try_from(place).unwrap_or(u16::MAX), part));
            Ok(Answered { query, digest: answer_digest(number, &answer), answer })
        };
        database.database.answer(unit, &queries).into_iter().zip(&queries).map(answered).collect()
    };
    units.into_par_iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use mpir::{
        Assurance, Contents, Engine, EngineClient, Error, Form, PreparedRound, Profile, PublicKeys, Query,
        Recomputed, RoundSpec, Sizes, noop,
    };
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
    use crate::log::SealedRound;
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
        let retrieval =
            Retrieval { database: Arc::downgrade(&database), keys, keys_digest: [0; 32], request };
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
}
