//! Answering tiles, unit by unit.

#[cfg(test)]
mod tests;

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
