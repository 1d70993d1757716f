//! What the operator's own programs ask a server: `/metrics`, `/health`, `/live`, `/ready`, `/status`, and a page for its
//! operator, over plain HTTP on an address of its own that no client needs to reach.

mod page;

use core::convert::Infallible;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::members::{MemberStatus, members};
use crate::membership::{NodeStatus, NodeView};
use crate::metrics::SharedMetrics;
use crate::rounds::{RoundStatus, Rounds};

/// Connections at a time; more wait.
const CONNECTIONS: usize = 16;
/// How long a request may take to come, and a connection may last.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the rounds may take to tell how they are: they do not before they are served.
const ROUNDS_PATIENCE: Duration = Duration::from_millis(500);
/// Most bytes of a request's head.
const HEAD_MAX: usize = 8 << 10;
/// Pause after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Whether it answers calls: not while it reads its log, and not once it ends.
    pub serving: bool,
    /// Whether people should come to it: it serves, and is not cut off from other nodes.
    #[serde(default)]
    pub ready: bool,
    /// Whether it is a node that hears nothing of rounds that should have ended.
    #[serde(default)]
    pub silent: bool,
    /// Whether the open round lasts longer than it should, as earlier ones are still being built.
    #[serde(default)]
    pub held_up_by_builds: bool,
    /// Whether the end of a round takes long to be stored; known to the node that leads.
    #[serde(default)]
    pub held_up_by_commits: bool,
    /// Of the program.
    pub version: String,
    /// What clients are given.
    pub address: String,
    /// The PIR engine.
    pub engine: String,
    /// Since the start, s.
    pub uptime_s: u64,
    /// The newest round that took deposits.
    pub open_round: u64,
    /// Deposits in the newest sealed round.
    pub round_deposits: u64,
    /// Accounts that follow the rounds now.
    pub participants: u64,
    /// Open connections.
    pub connections: u64,
    /// Bytes of the round log.
    pub log_bytes: u64,
    /// Whether a new account needs a token.
    pub token_required: bool,
    /// For how long its certificate is valid, days; none without TLS.
    #[serde(default)]
    pub certificate_days: Option<u64>,
    /// The same of what it shows to other nodes; none of a server alone.
    #[serde(default)]
    pub peer_certificate_days: Option<u64>,
    /// Rounds that there are seeds for; 0 on a node that has not led since its start.
    #[serde(default)]
    pub seeds_left: u64,
    /// Rounds until the manifest key ends; none if it does not.
    #[serde(default)]
    pub manifest_key_left: Option<u64>,
    /// Whether the secret of the announced manifest key is not on this node.
    #[serde(default)]
    pub manifest_key_missing: bool,
    /// Rounds that are not retired, the newest first.
    #[serde(default)]
    pub rounds: Vec<RoundStatus>,
    /// Which node of a cluster it is; none of a server alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeStatus>,
    /// All nodes of the cluster; none of a server alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberStatus>,
}

impl Status {
    /// What keeps people from it, if anything does.
    pub(crate) fn state(&self) -> &'static str {
        match self {
            Self { serving: false, .. } => "not ready: it reads its log, or ends",
            Self { silent: true, .. } => {
                "not ready: it hears nothing of the other nodes, or too few of them answer"
            }
            Self { manifest_key_missing: true, .. } => {
                "not ready: the secret of the next manifest key is not in the data directory"
            }
            Self { held_up_by_builds: true, .. } => {
                "ready; rounds last longer, as databases take longer than rounds"
            }
            Self { held_up_by_commits: true, .. } => "ready; rounds last longer, as the log is slow to store",
            _ => "ready",
        }
    }
}

/// What is asked.
pub(crate) struct Observed {
    pub(crate) metrics: SharedMetrics,
    /// Brings those measurements up to date that are of the moment.
    pub(crate) gauges: Box<dyn Fn() + Send + Sync>,
    pub(crate) serving: Arc<AtomicBool>,
    pub(crate) started: Instant,
    pub(crate) address: String,
    pub(crate) engine: &'static str,
    pub(crate) token_required: bool,
    pub(crate) node: Option<NodeView>,
    pub(crate) rounds: Rounds,
}

impl Observed {
    fn metrics(&self) -> String {
        (self.gauges)();
        self.metrics.encode()
    }

    fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Relaxed)
    }

    fn page(&self, status: &Status) -> String {
        (self.gauges)();
        page::page(status, &self.metrics.depths())
    }

    async fn status(&self) -> Status {
        let rounds = tokio::time::timeout(ROUNDS_PATIENCE, self.rounds.overview()).await;
        Status { rounds: rounds.ok().and_then(Result::ok).unwrap_or_default(), ..self.state() }
    }

    /// The same without the rounds, which have to be asked for.
    fn state(&self) -> Status {
        let number = |gauge: &Gauge| gauge.get().try_into().unwrap_or(0);
        let days = |days: Option<i64>| days.map(|days| days.try_into().unwrap_or(0));
        let metrics = &self.metrics;
        let (serving, silent) = (self.is_serving(), metrics.silent.get() != 0);
        let key_missing = metrics.manifest_key_missing.get() != 0;
        Status {
            serving,
            ready: serving && !silent && !key_missing,
            silent,
            held_up_by_builds: metrics.held_up_by_builds.get() != 0,
            held_up_by_commits: metrics.held_up_by_commits.get() != 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: self.address.clone(),
            engine: self.engine.to_owned(),
            uptime_s: self.started.elapsed().as_secs(),
            open_round: number(&metrics.open_round),
            round_deposits: number(&metrics.round_deposits),
            participants: number(&metrics.participants),
            connections: number(&metrics.connections),
            log_bytes: number(&metrics.log_bytes),
            token_required: self.token_required,
            certificate_days: days(metrics.certificate_days.get()),
            peer_certificate_days: days(metrics.peer_certificate_days.get()),
            seeds_left: number(&metrics.seeds_left),
            manifest_key_left: metrics.manifest_key_left.get().and_then(|left| u64::try_from(left).ok()),
            manifest_key_missing: key_missing,
            rounds: Vec::new(),
            node: self.node.as_ref().map(NodeView::status),
            members: self.node.as_ref().map(|node| members(&node.joined())).unwrap_or_default(),
        }
    }
}

/// Answers until it is told to stop.
pub(crate) async fn serve(listener: TcpListener, observed: Arc<Observed>, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accept(&listener, &room) => accepted,
        };
        let Some((stream, place)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let observed = Arc::clone(&observed);
        let answer = service_fn(move |request| {
            let observed = Arc::clone(&observed);
            async move { Ok::<_, Infallible>(answer(&request, &observed).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .max_buf_size(HEAD_MAX)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), answer);
        let stop = stop.clone();
        tokio::spawn(async move {
            let _place = place;
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tokio::time::timeout(PATIENCE, connection) => {}
            }
        });
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    Some((stream, place))
}

async fn answer(request: &Request<Incoming>, observed: &Observed) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    match request.uri().path() {
        "/metrics" => respond(StatusCode::OK, METRICS, observed.metrics()),
        "/status" => match serde_json::to_string(&observed.status().await) {
            Ok(status) => respond(StatusCode::OK, JSON, status),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "no status\n"),
        },
        "/" => {
            let status = observed.status().await;
            let mut page = respond(StatusCode::OK, HTML, observed.page(&status));
            if let Ok(policy) = page::policy().try_into() {
                page.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
            }
            page.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
            page
        }
        "/live" => text(StatusCode::OK, "live\n"),
        "/ready" => {
            let status = observed.state();
            let code = if status.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            respond(code, TEXT, format!("{}\n", status.state()))
        }
        "/health" if observed.is_serving() => text(StatusCode::OK, "serving\n"),
        "/health" => text(StatusCode::SERVICE_UNAVAILABLE, "not serving\n"),
        _ => text(StatusCode::NOT_FOUND, "there are /, /metrics, /health, /live, /ready and /status\n"),
    }
}

fn text(code: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    respond(code, TEXT, body)
}

fn respond(code: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
