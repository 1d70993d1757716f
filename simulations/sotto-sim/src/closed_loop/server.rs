//! The server's process: a whole `sottod`, with simulated users, that counts what it uses.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mpir::PerBucket;
use pir_baselines::Xpir;
use pir_core::SealPir;
use sotto_protocol::ServerParameters;
use sottod::{Config, Limits, Population, Running, ServerEvent};
use tokio::sync::{broadcast, mpsc};

use super::bench;
use super::lines::{Orders, Point, Request, Said, Snapshot};
use super::observed::{METER, Observed};
use crate::cpu::process_milliseconds;
use crate::engine::{Engine, EngineName};

/// Rounds that stay retrievable: in closed loop, nobody is late.
const RETAINED: u8 = 1;
/// As long as it takes: a call that ends before its answer would end the measurement.
const CALL: Duration = Duration::from_secs(3600);
/// Longer than all the work in between two calls of one client, bare stages included.
const CHALLENGE: Duration = CALL;

/// Runs a server until its input ends.
pub(super) fn run(orders: &str) -> anyhow::Result<()> {
    let orders: Orders = serde_json::from_str(orders).context("these are no orders for a server")?;
    let result = match orders.engine {
        EngineName::Sealpir => serve::<SealPir>(&orders),
        EngineName::Xpir2 => serve::<Xpir<2>>(&orders),
        EngineName::Xpir3 => serve::<Xpir<3>>(&orders),
        EngineName::PaperT20 | EngineName::PaperT23 => bail!("no server runs an engine below 128 bits"),
    };
    if let Err(error) = &result {
        say(&Said::Failed(format!("{error:#}")));
    }
    result
}

fn config(orders: &Orders) -> Config {
    let Orders { retrieve, users, clients, threads, seed, .. } = *orders;
    let mut config = Config::closed_loop(([127, 0, 0, 1], 0).into());
    config.retrieve = retrieve;
    config.retained = RETAINED;
    // Rounds are as short as the work makes them.
    config.round_ms = 1;
    // These clients hide nothing and wait for no slot; the server announces what people's clients could keep.
    config.query_ms = config.lookup_ms + ServerParameters::query_slot_ms(ServerParameters::BUCKETS_MAX);
    config.population = Some(Population { users, seed });
    config.code = orders.code.kind();
    let clients = clients as usize;
    config.limits = Limits {
        threads,
        computing: threads.max(2),
        retrievals: clients.max(1),
        challenge_age: CHALLENGE,
        call: CALL,
        stall: CALL,
        ..config.limits
    };
    config
}

fn serve<E: Engine>(orders: &Orders) -> anyhow::Result<()> {
    let began = Instant::now();
    let (asked, mut requests) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if asked.send(line).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let serving = runtime.block_on(async {
        let mut server = sottod::start(Arc::new(PerBucket::<Observed<E>>::new()), config(orders))
            .context("the server cannot start")?;
        tokio::spawn(tell(server.events(), began));
        say(&Said::Listening { address: server.address().to_string() });
        loop {
            tokio::select! {
                failed = server.failed() => bail!(failed),
                line = requests.recv() => match line.as_deref().map(serde_json::from_str) {
                    None => return Ok(None),
                    Some(Ok(Request::Now)) => say(&Said::Now(snapshot(began))),
                    Some(Ok(Request::Bench)) => return Ok(Some(server)),
                    Some(Err(error)) => bail!("an order that is none: {error}"),
                },
            }
        }
    });
    let server: Option<Running> = serving?;
    if let Some(server) = server {
        let shape = server.parameters().shape();
        // From now on, all CPU time of this process belongs to the stages.
        runtime.block_on(server.shutdown())?;
        let (pool, mut kept) = (bench::pool(orders)?, None);
        let mut bench = || pool.install(|| bench::stages::<E>(orders, shape, &mut kept));
        say(&Said::Bench(bench()?));
        while let Some(line) = runtime.block_on(requests.recv()) {
            match serde_json::from_str(&line) {
                Ok(Request::Bench) => say(&Said::Bench(bench()?)),
                Ok(Request::Now) | Err(_) => bail!("an order for a server, which has ended: {line:?}"),
            }
        }
    }
    // Whoever asked has gone, and the thread that reads has ended with its input.
    runtime.shutdown_background();
    Ok(())
}

/// Says when rounds come to their points.
async fn tell(mut events: broadcast::Receiver<ServerEvent>, began: Instant) {
    while let Ok(event) = events.recv().await {
        let (round, point) = match event {
            ServerEvent::RoundSealed { round, .. } => (round, Point::Sealed),
            ServerEvent::RoundPopulated { round, .. } => (round, Point::Populated),
            ServerEvent::RoundBuilt { round, .. } => (round, Point::Built),
            ServerEvent::RoundAbandoned { round } => (round, Point::Abandoned),
            _ => continue,
        };
        say(&Said::Round { round: round.0, point, at: snapshot(began) });
    }
}

fn snapshot(began: Instant) -> Snapshot {
    let reading = METER.read();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) * 1024
    };
    Snapshot {
        wall_ms: began.elapsed().as_secs_f64() * 1e3,
        cpu_ms: process_milliseconds(),
        expand_ms: reading.expand_ms,
        first_dimension_ms: reading.first_dimension_ms,
        rest_ms: reading.rest_ms,
        answers: reading.answers,
        database_bytes: reading.database_bytes,
        resident_bytes: bytes("VmRSS"),
        peak_bytes: bytes("VmHWM"),
    }
}

fn say(said: &Said) {
    let line = serde_json::to_string(said).unwrap_or_default();
    let mut output = std::io::stdout().lock();
    // Whoever does not listen any more has ended, and so will this.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
