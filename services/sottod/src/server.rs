//! Starting and ending a server.

#[cfg(test)]
mod tests;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use mpir::Engine;
use sotto_log::MemoryLog;
use sotto_protocol::{Round, ServerParameters, UnixMillis};
use sotto_wire::limits::{MESSAGE_MAX, UPLOAD_ROUNDS};
use sotto_wire::proto::sotto_server::SottoServer;
use sotto_wire::root::node_name;
use sotto_wire::{Address, Transport, address};
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use zeroize::Zeroizing;

use crate::announcement::{self, Announced, Wanted};
use crate::answering::Room;
use crate::calls::CountCalls;
use crate::certificate::{CertificateError, NOTICE_DAYS, Shown};
use crate::compute::Compute;
use crate::config::{Config, ConfigError, Registration};
use crate::connections::{self, AcceptOptions, Listener};
use crate::control::{self, Commands, NextKey, SocketError};
use crate::data::{DataDirectory, DataError};
use crate::events::ServerEvent;
use crate::host::{Host, System};
use crate::identity::Identity;
use crate::keys::Progress;
use crate::keys::files::KeyFiles;
use crate::manifest_keys::Announcing;
use crate::membership::{Membership, NodeView};
use crate::metrics::{Metrics, Optional, SharedMetrics, gauge};
use crate::operations::{self, Observed};
use crate::rounds::{self, RoundsDependencies, RunError};
use crate::seeds::SEGMENTS_IN_MEMORY;
use crate::service::{Announcement, Service, ServiceDependencies};
use crate::slots::Vacancy;

const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Bytes that a call may have sent and nobody has read, and all calls of a connection together.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
const HEADERS_MAX: u32 = 8 << 10;
/// Longest question about the server's health, bytes.
const HEALTH_MAX: usize = 1 << 10;
/// How often the certificate is looked at.
const DAY: Duration = Duration::from_secs(86_400);
/// How often the files of certificates are looked at.
const RENEWAL: Duration = Duration::from_secs(5);
/// As the health service knows them: all of the server, and its service.
const SERVICES: [&str; 2] = ["", "sotto.v1.Sotto"];
/// Events that a listener may be behind before it misses some.
const EVENTS: usize = 256;
/// What the round log may take to end, if calls under way have taken all the time that a shutdown has.
const CLOSING: Duration = Duration::from_millis(500);

/// Starts a server with an engine, inside a tokio runtime. It listens at once; calls are answered when the rounds of
/// an earlier start are served again.
///
/// # Errors
/// [`StartError`], and then nothing is left running.
pub fn start(engine: Arc<dyn Engine>, config: Config) -> Result<Running, StartError> {
    tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
    let data = config.data.as_deref();
    let data = data.map(|data| DataDirectory::open(data, config.certificate.as_ref())).transpose()?;
    start_on(engine, config, data)
}

/// Starts a server on a directory that was taken into use.
fn start_on(
    engine: Arc<dyn Engine>,
    config: Config,
    data: Option<DataDirectory>,
) -> Result<Running, StartError> {
    let listener = bind(config.listen)?;
    let local = listener.local_addr().map_err(StartError::Listen)?;
    let compute =
        Compute::new(config.limits.threads, config.limits.computing).map_err(|_| StartError::Threads)?;
    start_in(Surrounded { host: Arc::new(System), compute, listener, local }, engine, config, data)
}

/// What a server has around it, behind a seam where tests answer.
pub(crate) struct Surrounded<L> {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) compute: Compute,
    pub(crate) listener: L,
    /// Where that listens.
    pub(crate) local: SocketAddr,
}

/// Keys of retrieval on the disk, if they are kept there. What is older than two periods and the rounds of one is of no use.
fn key_files(
    directory: &Path,
    engine: &dyn Engine,
    config: &Config,
) -> Result<Option<Arc<KeyFiles>>, StartError> {
    let budget = config.limits.key_file_bytes;
    if budget == 0 {
        return Ok(None);
    }
    let rounds = 2 * UPLOAD_ROUNDS + u64::from(config.retained) + 2;
    let age = Duration::from_millis(u64::from(config.round_ms).saturating_mul(rounds));
    let files = KeyFiles::open(directory, engine.public_keys_bytes(), budget, age);
    let failed = |source| DataError::Directory { path: directory.to_owned(), source };
    Ok(Some(Arc::new(files.map_err(failed)?)))
}

/// Starts a server in whatever surrounds it.
pub(crate) fn start_in<L: Listener>(
    surrounded: Surrounded<L>,
    engine: Arc<dyn Engine>,
    config: Config,
    data: Option<DataDirectory>,
) -> Result<Running, StartError> {
    let Surrounded { host, compute, listener, local } = surrounded;
    let challenge_key = random_seed(&*host)?;
    let (first, least) = first_rounds(&config, host.unix_now());
    let (identity, announced, log) = match data {
        Some(data) => {
            let announced = data.announce(&*engine, &config, first)?;
            let (identity, cluster, log) = data.split();
            (identity, announced, Some((log, cluster)))
        }
        None => {
            let (identity, announced) = ephemeral(&*engine, &config, first)?;
            (identity, announced, None)
        }
    };
    // No round has a number before the first that has a seed.
    let first = first.max(announced.seeds.tree().commitment().first);
    let (log, cluster) = log.map_or((None, None), |(log, cluster)| (Some(log), cluster));
    let membership = match cluster {
        Some(cluster) => Some(Membership::of(cluster, &config, &identity.root)?),
        None => None,
    };
    let node = membership.as_ref().map(Membership::view);
    let of_peers = membership.as_ref().map(Membership::certificate);
    let control =
        log.as_ref().map(|log| Ok::<_, SocketError>((log.control()?, log.backups()))).transpose()?;
    let Announced { parameters, endorsement, seeds } = announced;
    let key_files = match &log {
        Some(log) => key_files(&log.keys(), &*engine, &config)?,
        None => None,
    };
    let shown = match config.transport {
        Transport::Tls => {
            let shown = Shown::new(&identity.certificate, &identity.root, node_name());
            Some(shown.map_err(StartError::Certificate)?)
        }
        Transport::Plaintext => None,
    };
    let tls = shown.as_ref().map(Shown::server_config).transpose().map_err(StartError::Certificate)?;
    let token_required = config.registration == Registration::Token;
    let metrics = Arc::new(Metrics::new());
    let (name, port) = config.public.clone().unwrap_or((address::Host::Ip(local.ip()), local.port()));
    let address = Address::new(config.transport, name, port, identity.root).map_err(ConfigError::Address)?;
    let operations = config.operations.map(bind).transpose()?;
    let operations_address = operations.as_ref().and_then(|listener| listener.local_addr().ok());

    let tracker = TaskTracker::new();
    let (closing, cut) = (CancellationToken::new(), CancellationToken::new());
    let events = broadcast::channel(EVENTS).0;
    let (progress, progress_of_rounds) = watch::channel(Progress { oldest: first, open: first });
    let tree = Arc::clone(seeds.tree());
    let given = vec![identity.manifest.clone()];
    let data = config.data.clone();
    let announcing = Announcing::new(given, data.clone(), parameters.clone(), endorsement);
    let (said, said_to_calls) = (announcing.hear(), announcing.hear());
    let surroundings = RoundsDependencies {
        engine: Arc::clone(&engine),
        root: identity.root,
        parameters: parameters.clone(),
        announcing,
        seeds: Box::new(seeds),
        progress,
        token_required,
        vacancy: Vacancy::default(),
        first,
        least,
        deposits_max: config.limits.deposits,
        compute: compute.clone(),
        population: config.population,
        events: events.clone(),
        tracker: tracker.clone(),
        stop: cut.clone(),
        host: Arc::clone(&host),
        metrics: Arc::clone(&metrics),
        forward: membership.as_ref().map(Membership::forward),
        place: membership.as_ref().map(|membership| membership.place(address.authority())),
    };
    let (rounds, rounds_task) = match log {
        Some(log) => match membership {
            None => rounds::start(surroundings, log.open_in(None)),
            Some(membership) => membership.start(surroundings, log, &tracker, &cut),
        },
        None => rounds::start(surroundings, async { Ok(MemoryLog::default()) }),
    };
    let room = Room::open(compute.clone(), said, &config.limits, &tracker, &cut);
    let announcement = Announcement {
        parameters: parameters.clone(),
        said: said_to_calls,
        tokens: token_required.then_some(identity.tokens),
        slots: parameters.code.has_slots().then_some(identity.slots),
    };
    let service = Service::new(
        announcement,
        config.limits,
        challenge_key,
        ServiceDependencies {
            engine: Arc::clone(&engine),
            rounds: rounds.clone(),
            compute,
            room,
            tracker: tracker.clone(),
            progress: progress_of_rounds,
            seeds: tree,
            closing: closing.clone(),
            host,
            metrics: Arc::clone(&metrics),
            key_files,
        },
    );
    if let Some((socket, backups)) = control {
        let next = NextKey::new(data.unwrap_or_default(), identity.root, rounds.clone());
        let commands = Commands { node: node.as_ref().map(NodeView::joined), backups, next: Some(next) };
        tracker.spawn(control::serve(socket, commands, cut.clone()));
    }
    let (health, health_service) = tonic_health::server::health_reporter();
    let health_service = health_service.max_decoding_message_size(HEALTH_MAX);
    let serving = Arc::new(AtomicBool::new(false));
    tracker.spawn(tell_health(events.subscribe(), health, Arc::clone(&serving), closing.clone()));
    let mut tended = Vec::new();
    if let Some(shown) = &shown {
        tended.push(("the node's certificate", Arc::clone(shown), metrics.certificate_days.clone()));
    }
    if let Some(shown) = of_peers {
        let days = metrics.peer_certificate_days.clone();
        tended.push(("the node's certificate for the other nodes", shown, days));
    }
    tracker.spawn(tend_certificates(tended, closing.clone()));
    if config.registration == Registration::Open && !config.listen.ip().is_loopback() {
        tracing::warn!("registration is open: everybody who reaches the server can make accounts");
    }
    if let Some(listener) = operations {
        let observed = Observed {
            metrics: Arc::clone(&metrics),
            gauges: Box::new(service.gauges()),
            serving,
            started: Instant::now(),
            address: address.to_string(),
            engine: engine.name(),
            token_required,
            node,
            rounds,
        };
        tracker.spawn(operations::serve(listener, Arc::new(observed), cut.clone()));
    }
    let service = SottoServer::new(service)
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    let options = AcceptOptions { tls, limits: config.limits, metrics: metrics.clone() };
    let incoming = connections::accept(listener, options, &tracker, closing.clone(), cut.clone());
    let router = tonic::transport::Server::builder()
        // To the head of the response. Calls have limits of their own, but those begin when the request is read.
        .timeout(config.limits.call.saturating_add(config.limits.stall))
        .max_concurrent_streams(config.limits.streams_per_connection)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .http2_max_header_list_size(HEADERS_MAX)
        .layer(CountCalls(Arc::clone(&metrics)))
        .add_service(service)
        .add_service(health_service);
    let calls_task =
        tokio::spawn(router.serve_with_incoming_shutdown(incoming, closing.clone().cancelled_owned()));

    Ok(Running {
        local,
        address,
        engine,
        parameters,
        drain: config.limits.drain,
        events,
        metrics,
        operations: operations_address,
        closing,
        cut,
        tracker,
        calls_task: Some(calls_task),
        rounds_task: Some(rounds_task),
    })
}

/// Who a server is that keeps nothing, and what it announces.
fn ephemeral(
    engine: &dyn Engine,
    config: &Config,
    first: Round,
) -> Result<(Identity, Announced), StartError> {
    let (identity, root, seeds) =
        Identity::ephemeral(config.manifest_seed.as_deref()).map_err(DataError::from)?;
    let wanted = Wanted {
        parameters: config.parameters(engine, identity.manifest.verifying_key().to_bytes())?,
        segments: config.seed_segments.unwrap_or(SEGMENTS_IN_MEMORY),
        first,
        covers: None,
        more: false,
    };
    let announced = announcement::ephemeral(&root, seeds, wanted).map_err(DataError::from)?;
    Ok((identity, announced))
}

/// A server at work. Dropping it cuts all connections.
pub struct Running {
    local: SocketAddr,
    address: Address,
    engine: Arc<dyn Engine>,
    parameters: ServerParameters,
    drain: Duration,
    events: broadcast::Sender<ServerEvent>,
    metrics: SharedMetrics,
    operations: Option<SocketAddr>,
    closing: CancellationToken,
    cut: CancellationToken,
    tracker: TaskTracker,
    calls_task: Option<JoinHandle<Result<(), tonic::transport::Error>>>,
    rounds_task: Option<JoinHandle<Result<(), RunError>>>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The engine that answers.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// What clients are given.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Where it tells the operator's programs how it is.
    #[must_use]
    pub fn operations_addr(&self) -> Option<SocketAddr> {
        self.operations
    }

    /// What it announces.
    #[must_use]
    pub fn parameters(&self) -> &ServerParameters {
        &self.parameters
    }

    /// What happens to its rounds from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.events.subscribe()
    }

    /// Connections that were closed at once because there were too many.
    #[must_use]
    pub fn refused_connections(&self) -> u64 {
        self.metrics.connections_refused.get()
    }

    /// Waits until it fails; for ever if it does not.
    ///
    /// # Errors
    /// [`RunError`] with the reason.
    pub async fn failed(&mut self) -> RunError {
        let rounds = async {
            match self.rounds_task.as_mut() {
                Some(task) => {
                    task.await.map_or(RunError::Rounds, |ended| ended.err().unwrap_or(RunError::Rounds))
                }
                None => core::future::pending().await,
            }
        };
        let calls = async {
            match self.calls_task.as_mut() {
                Some(task) => drop(task.await),
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            error = rounds => {
                self.rounds_task = None;
                error
            }
            () = calls => {
                self.calls_task = None;
                RunError::Listener
            }
        }
    }

    /// Takes no more calls, ends all watches, waits a while for calls under way and for the round log, then ends.
    ///
    /// # Errors
    /// [`RunError`] if it had failed before, or if the round log does not end in time; its thread may then still wait
    /// for the disk, and only the end of the process ends it.
    pub async fn shutdown(mut self) -> Result<(), RunError> {
        self.closing.cancel();
        let drained = Instant::now() + self.drain;
        if let Some(task) = self.calls_task.take()
            && tokio::time::timeout_at(drained, task).await.is_err()
        {
            tracing::warn!("some calls did not end in time and were cut off");
        }
        self.cut.cancel();
        let end = drained.max(Instant::now() + CLOSING);
        let result = match self.rounds_task.take() {
            Some(task) => match tokio::time::timeout_at(end, task).await {
                Ok(ended) => ended.unwrap_or(Err(RunError::Rounds)),
                Err(_) => Err(RunError::Hangs),
            },
            None => Ok(()),
        };
        self.tracker.close();
        // A computation that nobody waits for any more may outlast this; it holds no connection.
        let _ = tokio::time::timeout_at(end, self.tracker.wait()).await;
        result
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.closing.cancel();
        self.cut.cancel();
    }
}

/// Shows new certificates when there are new ones, and says every day how long those last that are shown.
async fn tend_certificates(tended: Vec<(&'static str, Arc<Shown>, Optional)>, closing: CancellationToken) {
    let mut told = None::<Instant>;
    let mut refused: Vec<Option<String>> = vec![None; tended.len()];
    while !tended.is_empty() {
        let mut is_new = told.is_none_or(|told| told.elapsed() >= DAY);
        for ((what, shown, _), refused) in tended.iter().zip(&mut refused) {
            let files = Arc::clone(shown);
            let Ok(renewed) = tokio::task::spawn_blocking(move || files.renew()).await else { return };
            match renewed {
                Ok(false) => *refused = None,
                Ok(true) => {
                    tracing::info!("{what} is a new one from now on");
                    (*refused, is_new) = (None, true);
                }
                // While somebody writes them, the two files do not go together.
                Err(error) => {
                    let reason = error.to_string();
                    if refused.as_ref() != Some(&reason) {
                        tracing::warn!(%error, "{what} stays the one before: what its files hold cannot be shown");
                        *refused = Some(reason);
                    }
                }
            }
        }
        if is_new {
            told = Some(Instant::now());
            for (what, shown, metric) in &tended {
                let days = shown.days_left();
                metric.set(gauge(days));
                if days < NOTICE_DAYS {
                    tracing::warn!(days, "{what} ends soon; make a new one with 'sottod certify'");
                }
            }
        }
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(RENEWAL) => {}
        }
    }
}

/// Tells that calls are answered, from the first round that opens until the server ends.
async fn tell_health(
    mut events: broadcast::Receiver<ServerEvent>,
    health: HealthReporter,
    serving: Arc<AtomicBool>,
    closing: CancellationToken,
) {
    let opened = async {
        // Only a server that is behind its own events misses some, and that one has opened rounds.
        loop {
            match events.recv().await {
                Ok(ServerEvent::RoundOpened { .. }) | Err(RecvError::Lagged(_)) => return,
                Ok(_) => {}
                Err(RecvError::Closed) => core::future::pending().await,
            }
        }
    };
    for service in SERVICES {
        health.set_service_status(service, ServingStatus::NotServing).await;
    }
    tokio::select! {
        () = closing.cancelled() => return,
        () = opened => {}
    }
    serving.store(true, Ordering::Relaxed);
    for service in SERVICES {
        health.set_service_status(service, ServingStatus::Serving).await;
    }
    closing.cancelled().await;
    serving.store(false, Ordering::Relaxed);
    for service in SERVICES {
        health.set_service_status(service, ServingStatus::NotServing).await;
    }
}

/// The first round of a log without history, and the least one behind a history.
///
/// Clients refuse numbers that time cannot explain: the clock decides only where there is nothing to continue from.
pub(crate) fn first_rounds(config: &Config, now: UnixMillis) -> (Round, Round) {
    let configured = config.first_round;
    let by_clock = || configured.max(Round(now.0 / u64::from(config.round_ms.max(1))));
    match (&config.data, config.restored) {
        (None, _) => (configured, configured),
        (Some(_), false) => (by_clock(), configured),
        (Some(_), true) => (by_clock(), by_clock()),
    }
}

fn random_seed(host: &dyn Host) -> Result<Zeroizing<[u8; 32]>, StartError> {
    let mut seed = Zeroizing::new([0; 32]);
    host.fill(seed.as_mut_slice()).map_err(|_| StartError::Randomness)?;
    Ok(seed)
}

pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listen = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => StartError::InUse(address),
        _ => StartError::Listen(error),
    };
    let listener = std::net::TcpListener::bind(address).map_err(listen)?;
    listener.set_nonblocking(true).map_err(StartError::Listen)?;
    TcpListener::from_std(listener).map_err(StartError::Listen)
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It cannot run as configured.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its data directory cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Somebody else listens there.
    #[error(
        "{0} is in use: stop the program that listens there, or choose another port (0 takes any free one)"
    )]
    InUse(SocketAddr),
    /// It cannot listen there.
    #[error("cannot listen there: {0}")]
    Listen(#[source] io::Error),
    /// Its certificate does not go with its key.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// No key can be drawn.
    #[error("the operating system gives no randomness")]
    Randomness,
    /// It cannot listen for commands of its operator.
    #[error(transparent)]
    Control(#[from] SocketError),
    /// The threads that compute cannot be started.
    #[error("the operating system gives no threads")]
    Threads,
    /// It was started outside a tokio runtime.
    #[error("a server needs a tokio runtime")]
    NoRuntime,
}
