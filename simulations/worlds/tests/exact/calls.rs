//! The server's calls.

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use sotto_protocol::audit::{Statement, answer_digest, query_digest};
use sotto_protocol::{Deposit, Round, SealedBox, table};
use sotto_wire::proto::{self, round_event::Event, sotto_server::Sotto};
use sotto_wire::{Refused, split};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use crate::lies::{Call, Change, Lie, Pretence};
use crate::server::{Account, Calls, Server};
use crate::teller::Teller;

impl Server {
    /// How long to wait before the next part of an upload is read.
    async fn read_slowly(&self, account: &[u8]) {
        let Some(account) = self.account(account) else { return };
        for (lie, _) in self.lies(&account, self.open()) {
            if let Lie::SlowRead(ms) = lie {
                sleep(Duration::from_millis(ms)).await;
            }
        }
    }

    fn account(&self, session: &[u8]) -> Option<Account> {
        let session: [u8; 32] = session.try_into().ok()?;
        self.state.lock().unwrap().sessions.get(&session).copied()
    }

    /// All of a stream.
    async fn whole<T>(
        &self,
        session: &[u8],
        stream: &mut Streaming<T>,
        data: fn(T) -> Bytes,
    ) -> Result<Bytes, Status> {
        let mut bytes = Vec::new();
        loop {
            self.read_slowly(session).await;
            let Some(chunk) = stream.next().await else { return Ok(bytes.into()) };
            bytes.extend_from_slice(&data(chunk?));
        }
    }
}

fn change(bytes: Bytes, lies: &[(Lie, u64)], of: fn(&Lie) -> Option<Change>, part: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    for change in lies.iter().filter_map(|(lie, _)| of(lie)) {
        match change {
            Change::Flip => bytes.iter_mut().skip(100).step_by(256).for_each(|byte| *byte ^= 0x10),
            Change::FlipSome => {
                let some = bytes.chunks_mut(part.max(1)).step_by(2);
                some.for_each(|part| part.iter_mut().skip(100).step_by(256).for_each(|byte| *byte ^= 0x10));
            }
            Change::Noise => bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(197) ^ 0x5a),
            Change::Short => bytes.truncate(bytes.len() / 2),
            Change::Long => bytes.push(0),
        }
    }
    bytes.into()
}

type BoxStream<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn chunks<T: Send + 'static>(bytes: Bytes, chunk: fn(Bytes) -> T) -> Response<BoxStream<T>> {
    let all: Vec<_> = split(bytes).map(|data| Ok(chunk(data))).collect();
    Response::new(Box::pin(tokio_stream::iter(all)))
}

impl Calls {
    /// The answers of a round to a multi-query, as far as nothing is to be lied about them.
    fn answered(
        &self,
        account: Account,
        round: u64,
        digest: [u8; 32],
        query: &Bytes,
    ) -> Result<Response<BoxStream<proto::AnswerChunk>>, Status> {
        let ready = self.0.ready(&account, round)?;
        let keys = {
            let state = self.0.state.lock().unwrap();
            let held = state.keys.get(&(self.1, account)).into_iter().flatten();
            held.into_iter().find(|(held, _)| *held == digest).map(|(_, keys)| keys.clone())
        };
        let keys = keys.ok_or_else(|| Status::from(Refused::UnknownKeys))?;
        let answer = ready.answer(&keys, query).ok_or_else(|| Status::from(Refused::Malformed))?;
        let changed = |lie: &Lie| if let Lie::Answer(change) = lie { Some(*change) } else { None };
        let sizes = ready.sizes.unwrap();
        let part = sizes.answer.range(0).len();
        let answer = change(answer, &self.0.lies(&account, round), changed, part);
        let mut answers: Vec<Vec<u8>> = answer.chunks(part).map(<[u8]>::to_vec).collect();
        (self.0.tampering.lock().unwrap())(round, &mut answers);
        let queried = |unit: usize| {
            let number = u16::try_from(sizes.request.number(unit)).unwrap();
            query_digest(number, &query[sizes.request.range(unit)])
        };
        let queried: Vec<_> = (0..sizes.units.count()).map(queried).collect();
        let answered: Vec<_> =
            (0..).zip(&answers).map(|(bucket, answer)| answer_digest(bucket, answer)).collect();
        let statement = Statement::new(Round(round), ready.manifest.digest(), digest, &queried, &answered);
        let receipt = Bytes::copy_from_slice(&statement.sign(&self.0.key_of(Round(round))));
        let answer = Bytes::from(answers.concat());
        self.0.state.lock().unwrap().answers.push((Round(round), answer.clone()));
        let mut chunks: Vec<_> =
            split(answer).map(|data| proto::AnswerChunk { data, receipt: Bytes::new() }).collect();
        chunks.last_mut().unwrap().receipt = receipt;
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks.into_iter().map(Ok)))))
    }
}

#[tonic::async_trait]
impl Sotto for Calls {
    type WatchStream = UnboundedReceiverStream<Result<proto::RoundEvent, Status>>;
    type MappingStream = BoxStream<proto::MappingChunk>;
    type HintStream = BoxStream<proto::HintChunk>;
    type UnitStream = BoxStream<proto::UnitChunk>;
    type RetrieveStream = BoxStream<proto::AnswerChunk>;
    type RetrieveAgainStream = BoxStream<proto::AnswerChunk>;
    type ManifestsStream = BoxStream<proto::SignedManifest>;

    async fn info(&self, _: Request<proto::InfoRequest>) -> Result<Response<proto::InfoResponse>, Status> {
        Ok(Response::new(self.0.info().into()))
    }

    async fn challenge(
        &self,
        _: Request<proto::ChallengeRequest>,
    ) -> Result<Response<proto::ChallengeResponse>, Status> {
        Ok(Response::new(proto::ChallengeResponse { nonce: vec![7; 32].into() }))
    }

    /// Whose account it is nobody here lies about.
    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::RegisterResponse>, Status> {
        let proto::RegisterRequest { account, slot, .. } = request.into_inner();
        let account =
            self.0.meet(self.1, Call::Register, &account, self.0.open(), Bytes::new(), [0; 32]).await?;
        let mut state = self.0.state.lock().unwrap();
        state.registered += 1;
        let number = state.registered;
        let session = Sha256::new_with_prefix(account).chain_update(number.to_le_bytes()).finalize();
        let mut session = <[u8; 32]>::from(session);
        session[0] = self.1;
        // A new session at a node ends the one before.
        let node = self.1;
        state.sessions.retain(|former, of| former[0] != node || *of != account);
        state.sessions.insert(session, account);
        let mut given = Bytes::new();
        if self.0.pretence() == Pretence::Slot {
            given = [&[9, 0, 0, 0][..], &[1; 16]].concat().into();
        } else if self.0.parameters.code.has_slots() && slot.is_empty() {
            // Whoever comes again without having heard of its slot gets the same.
            let next = state.slots.len() as u32;
            let number = *state.slots.entry(account).or_insert(next);
            given = [&number.to_le_bytes()[..], &[0; 16]].concat().into();
        }
        Ok(Response::new(proto::RegisterResponse { session: session.to_vec().into(), slot: given }))
    }

    /// Nobody closes an account here.
    async fn close(&self, _: Request<proto::CloseRequest>) -> Result<Response<proto::CloseResponse>, Status> {
        Err(Refused::Malformed.into())
    }

    async fn upload_keys(
        &self,
        request: Request<Streaming<proto::KeysChunk>>,
    ) -> Result<Response<proto::UploadKeysResponse>, Status> {
        let mut stream = request.into_inner();
        let first = stream.next().await.ok_or_else(|| Status::from(Refused::Malformed))??;
        let rest = self.0.whole(&first.session, &mut stream, |chunk: proto::KeysChunk| chunk.data).await?;
        let bytes = Bytes::from([first.data, rest].concat());
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let round = self.0.open();
        let account = self.0.meet(self.1, Call::Upload, &first.session, round, bytes.clone(), digest).await?;
        let keys = self.0.engine.public_keys(&bytes).map_err(|_| Status::from(Refused::Malformed))?;
        let mut state = self.0.state.lock().unwrap();
        let held = state.keys.entry((self.1, account)).or_default();
        held.retain(|(other, _)| *other != digest);
        held.push((digest, keys));
        let surplus = held.len().saturating_sub(self.0.generations);
        held.drain(..surplus);
        Ok(Response::new(proto::UploadKeysResponse { digest: digest.to_vec().into() }))
    }

    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let session = request.into_inner().session;
        let account =
            self.0.meet(self.1, Call::Watch, &session, self.0.open(), Bytes::new(), [0; 32]).await?;
        let (sender, receiver) = mpsc::unbounded_channel();
        drop(sender.send(Ok(proto::RoundEvent { event: Some(Event::Announced(self.0.announced())) })));
        if self.0.lies(&account, self.0.open()).iter().any(|(lie, _)| *lie == Lie::Curt) {
            return Ok(Response::new(UnboundedReceiverStream::new(receiver)));
        }
        let mut state = self.0.state.lock().unwrap();
        for directory in state.directory.iter().cloned() {
            drop(sender.send(Ok(proto::RoundEvent { event: Some(Event::Directory(directory)) })));
        }
        let oldest = state.open.back(u64::from(self.0.parameters.retained));
        for (round, honest) in state.ready.range(oldest..) {
            let shown = state.shown.get(&account).and_then(|shown| shown.get(round));
            let elapsed_ms = honest.at.elapsed().as_millis() as u32;
            let manifest = Some((&shown.unwrap_or(honest).signed).into());
            let ready = proto::RoundReady { manifest, elapsed_ms };
            drop(sender.send(Ok(proto::RoundEvent { event: Some(Event::Ready(ready)) })));
        }
        let elapsed_ms = state.opened.elapsed().as_millis() as u32;
        let opened = proto::RoundOpened { round: state.open.0, elapsed_ms };
        drop(sender.send(Ok(proto::RoundEvent { event: Some(Event::Opened(opened)) })));
        state.watchers.push((Teller::new(account), sender));
        Ok(Response::new(UnboundedReceiverStream::new(receiver)))
    }

    async fn deposit(
        &self,
        request: Request<proto::DepositRequest>,
    ) -> Result<Response<proto::DepositResponse>, Status> {
        let proto::DepositRequest { session, round, deposit } = request.into_inner();
        let account = self.0.meet(self.1, Call::Deposit, &session, round, deposit.clone(), [0; 32]).await?;
        let mut state = self.0.state.lock().unwrap();
        if state.open.0 != round {
            return Err(Refused::RoundClosed.into());
        }
        let malformed = || Status::from(Refused::Malformed);
        let deposit = if self.0.parameters.code.has_slots() {
            let (knock, sealed) = deposit.split_first_chunk().ok_or_else(malformed)?;
            let sealed = SealedBox(sealed.try_into().map_err(|_| malformed())?);
            Deposit { label: table::stored(state.slots[&account], knock), sealed }
        } else {
            Deposit::decode(&deposit).map_err(|_| malformed())?
        };
        // The first counts; the same once more is acknowledged once more.
        if *state.deposits.entry(account).or_insert_with(|| deposit.clone()) != deposit {
            return Err(Refused::Quota.into());
        }
        Ok(Response::new(proto::DepositResponse {}))
    }

    async fn mapping(
        &self,
        request: Request<proto::MappingRequest>,
    ) -> Result<Response<Self::MappingStream>, Status> {
        let proto::MappingRequest { session, round } = request.into_inner();
        let account = self.0.meet(self.1, Call::Mapping, &session, round, Bytes::new(), [0; 32]).await?;
        let lies = self.0.lies(&account, round);
        let mapping = self.0.ready(&account, round)?.mapping.clone();
        let changed = |lie: &Lie| if let Lie::Mapping(change) = lie { Some(*change) } else { None };
        let mapping = change(mapping, &lies, changed, 1);
        let late =
            lies.iter().find_map(|(lie, _)| if let Lie::LastByte(ms) = lie { Some(*ms) } else { None });
        let Some(ms) = late else { return Ok(chunks(mapping, |data| proto::MappingChunk { data })) };
        let most = mapping.slice(..mapping.len() - 1);
        let last = mapping.slice(mapping.len() - 1..);
        let (sender, receiver) = mpsc::unbounded_channel();
        drop(sender.send(Ok(proto::MappingChunk { data: most })));
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            drop(sender.send(Ok(proto::MappingChunk { data: last })));
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(receiver))))
    }

    async fn retrieve(
        &self,
        request: Request<Streaming<proto::QueryChunk>>,
    ) -> Result<Response<Self::RetrieveStream>, Status> {
        let mut stream = request.into_inner();
        let first = stream.next().await.ok_or_else(|| Status::from(Refused::Malformed))??;
        let rest = self.0.whole(&first.session, &mut stream, |chunk: proto::QueryChunk| chunk.data).await?;
        let query = Bytes::from([first.data, rest].concat());
        let (round, digest) = (first.round, <[u8; 32]>::try_from(&first.keys[..]));
        let digest = digest.map_err(|_| Status::from(Refused::Malformed))?;
        let account =
            self.0.meet(self.1, Call::Retrieve, &first.session, round, query.clone(), digest).await?;
        if self.0.parameters.code.epoch_rounds() > 1 {
            self.0.state.lock().unwrap().standing.insert(Sha256::digest(&query).into(), query.clone());
        }
        self.answered(account, round, digest, &query)
    }

    async fn retrieve_again(
        &self,
        request: Request<proto::RetrieveAgainRequest>,
    ) -> Result<Response<Self::RetrieveAgainStream>, Status> {
        let proto::RetrieveAgainRequest { session, round, keys, query } = request.into_inner();
        let malformed = || Status::from(Refused::Malformed);
        let keys = <[u8; 32]>::try_from(&keys[..]).map_err(|_| malformed())?;
        let digest = <[u8; 32]>::try_from(&query[..]).map_err(|_| malformed())?;
        let account = self.0.meet(self.1, Call::RetrieveAgain, &session, round, query, keys).await?;
        let known = self.0.state.lock().unwrap().standing.get(&digest).cloned();
        let query = known.ok_or_else(|| Status::from(Refused::UnknownQuery))?;
        self.answered(account, round, keys, &query)
    }

    async fn hint(&self, request: Request<proto::HintRequest>) -> Result<Response<Self::HintStream>, Status> {
        let proto::HintRequest { session, round } = request.into_inner();
        let account = self.0.meet(self.1, Call::Hint, &session, round, Bytes::new(), [0; 32]).await?;
        Ok(chunks(self.0.ready(&account, round)?.hint.clone(), |data| proto::HintChunk { data }))
    }

    async fn unit(&self, request: Request<proto::UnitRequest>) -> Result<Response<Self::UnitStream>, Status> {
        let proto::UnitRequest { session, round, unit } = request.into_inner();
        let asked = Bytes::copy_from_slice(&unit.to_le_bytes());
        let account = self.0.meet(self.1, Call::Unit, &session, round, asked, [0; 32]).await?;
        let ready = self.0.ready(&account, round)?;
        let buckets = ready.sizes.as_ref().map(|sizes| sizes.units.range(unit as usize)).unwrap_or_default();
        let boxes = ready.contents.get(buckets).filter(|boxes| !boxes.is_empty());
        let boxes = boxes.ok_or_else(|| Status::from(Refused::Malformed))?.concat();
        let bytes = [ready.digests.as_flattened(), &boxes].concat();
        Ok(chunks(bytes.into(), |data| proto::UnitChunk { data }))
    }

    async fn manifests(
        &self,
        request: Request<proto::ManifestsRequest>,
    ) -> Result<Response<Self::ManifestsStream>, Status> {
        let proto::ManifestsRequest { session, first, last } = request.into_inner();
        let account = self.0.meet(self.1, Call::Manifests, &session, last, Bytes::new(), [0; 32]).await?;
        let state = self.0.state.lock().unwrap();
        let shown = state.shown.get(&account);
        let all: Vec<_> = state
            .ready
            .range(Round(first)..=Round(last))
            .map(|(round, honest)| {
                let shown = shown.and_then(|shown| shown.get(round)).unwrap_or(honest);
                Ok((&shown.signed).into())
            })
            .collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(all))))
    }
}
