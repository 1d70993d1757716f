//! The way between a client and the server, on which calls are lost, late, repeated, given up and cut.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::RngExt;
use rand::rngs::StdRng;
use sotto_protocol::{Deposit, Round};
use sotto_wire::proto::sotto_server::SottoServer;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{Body as _, BoxFuture, Service as TowerService, http};
use tonic::service::AxumBody;
use tonic::{Code, Status, Streaming};

use super::ledger::Ledger;
use super::world::World;
use crate::service::Service;

/// What a call brings that the ledger is to know of when the server acknowledges it.
#[derive(Clone)]
pub(super) struct Intent(pub(super) Round, pub(super) Deposit);

/// How often, of 1,000 times, what happens to a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// It does not arrive.
    pub(super) lost: u32,
    /// It arrives and is served, and the caller does not learn of it.
    pub(super) unanswered: u32,
    /// It arrives twice; the second time late.
    pub(super) repeated: u32,
    /// The server learns in the middle of it that the caller has gone.
    pub(super) abandoned: u32,
    /// Its request ends in the middle, or stands still from there on.
    pub(super) torn: u32,
    /// A stream of answers does.
    pub(super) cut: u32,
    /// It takes long.
    pub(super) late: u32,
    /// How long a way takes, ms, unless it takes long.
    pub(super) way_ms: u64,
    /// How long it takes if it takes long, and how late a repetition comes, ms.
    pub(super) late_ms: u64,
}

impl Weather {
    pub(super) const CALM: Self = Self {
        lost: 0,
        unanswered: 0,
        repeated: 0,
        abandoned: 0,
        torn: 0,
        cut: 0,
        late: 0,
        way_ms: 0,
        late_ms: 0,
    };
}

/// What becomes of one call.
#[derive(Debug)]
struct Fate {
    there: Duration,
    back: Duration,
    lost: bool,
    unanswered: bool,
    /// Who does not get an answer learns that the connection is gone, instead of waiting.
    told: bool,
    repeated: Option<Duration>,
    abandoned: Option<Duration>,
    /// The server goes on with a call whose caller has gone, as it has not heard of that yet.
    lingers: bool,
    /// Bytes of the request after which nothing follows.
    torn: Option<usize>,
    /// Pieces in which a request arrives.
    pieces: usize,
}

/// One client's connection to a server, as its calls see it.
#[derive(Clone)]
pub(super) struct Line {
    server: SottoServer<Service>,
    ends: Arc<Ends>,
}

/// What a connection's ends share.
pub(super) struct Ends {
    name: String,
    weather: Weather,
    world: Arc<World>,
    ledger: Arc<Ledger>,
    dice: Mutex<Dice>,
}

struct Dice {
    rng: StdRng,
    calls: u64,
}

impl Line {
    pub(super) fn new(
        name: String,
        server: SottoServer<Service>,
        weather: Weather,
        rng: StdRng,
        (world, ledger): (Arc<World>, Arc<Ledger>),
    ) -> Self {
        let dice = Mutex::new(Dice { rng, calls: 0 });
        Self { server, ends: Arc::new(Ends { name, weather, world, ledger, dice }) }
    }

    pub(super) fn ends(&self) -> &Arc<Ends> {
        &self.ends
    }

    async fn carry(
        self,
        request: http::Request<Body>,
        call: u64,
        mut fate: Fate,
    ) -> Result<http::Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        let (bytes, rest) = at_hand(body).await;
        fate.torn = fate.torn.filter(|at| *at < bytes.len());
        let name = format!("{} {call} {}", self.ends.name, method(&parts.uri));
        self.ends.world.note(format_args!("{name} {:08x} {fate:?}", crc32c::crc32c(&bytes)));
        if let Some(after) = fate.repeated
            && rest.is_none()
        {
            let again = http::Request::from_parts(parts.clone(), AxumBody::from(bytes.clone()));
            let (line, name) = (self.clone(), format!("{name} again"));
            tokio::spawn(async move {
                sleep(after).await;
                drop(line.serve(again, &name, true).await);
            });
        }
        sleep(fate.there).await;
        if fate.lost {
            return no_answer(&fate).await;
        }
        let request = http::Request::from_parts(parts, upload(bytes, rest, &fate));
        let (line, whole) = (self.clone(), fate.torn.is_none());
        let serving = tokio::spawn(async move { line.serve(request, &name, whole).await });
        let _guard = (!fate.lingers).then(|| EndOnDrop(serving.abort_handle()));
        let served = match fate.abandoned {
            Some(after) => tokio::time::timeout(after, serving).await,
            None => Ok(serving.await),
        };
        let Ok(served) = served else { return no_answer(&fate).await };
        let Ok(response) = served else {
            self.ends.world.violated("a call made the server panic");
            return no_answer(&fate).await;
        };
        if fate.unanswered || !whole {
            return no_answer(&fate).await;
        }
        sleep(fate.back).await;
        Ok(response)
    }

    /// The server's end of a call, of which the `whole` request arrives or not.
    async fn serve(
        mut self,
        request: http::Request<AxumBody>,
        name: &str,
        whole: bool,
    ) -> http::Response<Body> {
        let Ends { world, ledger, .. } = &*self.ends;
        let intent = request.extensions().get::<Intent>().cloned();
        let Ok(response) = self.server.call(request).await;
        if !world.has_power() {
            core::future::pending::<()>().await;
        }
        // What succeeds has its status behind the answer.
        let status = Status::from_header_map(response.headers());
        let code = status.as_ref().map_or(Code::Ok, Status::code);
        world.note(format_args!("{name} is answered {code:?}"));
        if code == Code::Internal && whole && !world.is_ending() {
            world.violated(format_args!("{name} was told of a failure"));
        }
        if let (Code::Ok, Some(Intent(round, deposit))) = (code, intent) {
            ledger.acknowledged(round, &deposit);
        }
        response
    }
}

impl TowerService<http::Request<Body>> for Line {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (call, fate) = self.ends.draw();
        Box::pin(self.clone().carry(request, call, fate))
    }
}

impl Ends {
    fn draw(&self) -> (u64, Fate) {
        let dice = &mut *self.dice.lock().unwrap();
        dice.calls += 1;
        let Weather { lost, unanswered, repeated, abandoned, torn, late, way_ms, late_ms, .. } = self.weather;
        let rng = &mut dice.rng;
        // All are drawn every time, so that one fault more does not change what comes after.
        let mut happens = |of_1000: u32| rng.random_range(0..1000) < of_1000;
        let (lost, unanswered) = (happens(lost), happens(unanswered));
        let (repeated, abandoned) = (happens(repeated), happens(abandoned));
        let (torn, late_there, late_back) = (happens(torn), happens(late), happens(late));
        let (told, lingers) = (happens(500), happens(500));
        let mut way = |late| {
            let (way, long) = (rng.random_range(0..=way_ms), rng.random_range(0..=late_ms));
            Duration::from_millis(if late { long } else { way })
        };
        let (there, back, again) = (way(late_there), way(late_back), way(true));
        let (after, at) = (rng.random_range(0..=2 * way_ms), rng.random_range(0..400));
        let pieces = rng.random_range(1..5);
        let fate = Fate {
            there,
            back,
            lost,
            unanswered,
            told,
            repeated: repeated.then_some(again),
            abandoned: abandoned.then_some(Duration::from_millis(after)),
            lingers,
            torn: torn.then_some(at),
            pieces: if way_ms == 0 { 1 } else { pieces },
        };
        (dice.calls, fate)
    }

    /// The client's end of a stream.
    pub(super) fn download<T>(self: &Arc<Self>, messages: Streaming<T>) -> Download<T> {
        let dice = &mut *self.dice.lock().unwrap();
        let cut = dice.rng.random_range(0..1000) < self.weather.cut;
        let (at, stands) = (dice.rng.random_range(0..6), dice.rng.random());
        Download { messages: Some(messages), ends: Arc::clone(self), left: cut.then_some(at), stands }
    }
}

/// A stream from the server, which may be cut.
pub(super) struct Download<T> {
    messages: Option<Streaming<T>>,
    ends: Arc<Ends>,
    /// Messages until it is cut.
    left: Option<u32>,
    /// It is not cut but stands still.
    stands: bool,
}

impl<T> Download<T> {
    pub(super) async fn message(&mut self) -> Result<Option<T>, Status> {
        if self.left == Some(0) {
            if self.stands {
                core::future::pending::<()>().await;
            }
            // The server learns of it.
            self.messages = None;
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        let messages = self.messages.as_mut().ok_or_else(|| Status::unavailable("cut"))?;
        let message = messages.message().await?;
        let way = {
            let dice = &mut *self.ends.dice.lock().unwrap();
            Duration::from_millis(dice.rng.random_range(0..=self.ends.weather.way_ms))
        };
        sleep(way).await;
        if !self.ends.world.has_power() {
            core::future::pending::<()>().await;
        }
        Ok(message)
    }
}

/// Ends a call whose caller has gone, as a server does when it hears of it.
struct EndOnDrop(AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn no_answer<T>(fate: &Fate) -> Result<T, Status> {
    if !fate.told {
        core::future::pending::<()>().await;
    }
    Err(Status::unavailable("the connection is gone"))
}

fn method(uri: &http::Uri) -> String {
    uri.path().rsplit('/').next().unwrap_or_default().to_owned()
}

/// What of a request can be sent at once, and the rest of one that its sender does not end.
async fn at_hand(mut body: Body) -> (Bytes, Option<Body>) {
    let mut bytes = BytesMut::new();
    loop {
        let frame = core::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
        match frame {
            Poll::Pending => return (bytes.freeze(), Some(body)),
            Poll::Ready(Some(Ok(frame))) => bytes.extend(frame.into_data().ok()),
            Poll::Ready(Some(Err(_)) | None) => return (bytes.freeze(), None),
        }
    }
}

/// A request as it arrives: in pieces, of which the last may be missing.
fn upload(bytes: Bytes, rest: Option<Body>, fate: &Fate) -> AxumBody {
    if rest.is_none() && fate.torn.is_none() && fate.pieces == 1 {
        return AxumBody::from(bytes);
    }
    let (pieces, received) = mpsc::channel(1);
    let (torn, told) = (fate.torn, fate.told);
    let length = bytes.len().div_ceil(fate.pieces).max(1);
    let pause = fate.there / 4;
    tokio::spawn(async move {
        let mut bytes = bytes.slice(..torn.unwrap_or(bytes.len()));
        while !bytes.is_empty() {
            let piece = bytes.split_to(length.min(bytes.len()));
            if pieces.send(Ok(piece)).await.is_err() {
                return;
            }
            sleep(pause).await;
        }
        match (torn, rest) {
            (Some(_), _) if told => drop(pieces.send(Err(Status::cancelled("torn"))).await),
            (None, None) => {}
            // Nothing comes any more, until the server has had enough.
            (Some(_), _) => pieces.closed().await,
            (None, Some(rest)) => {
                let _rest = rest;
                pieces.closed().await;
            }
        }
    });
    AxumBody::from_stream(ReceiverStream::new(received))
}
