//! The server's process: a whole `sottod`, with simulated users, that counts what it uses.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mpir::Engine;
use sotto_measuring::cpu::process_milliseconds;
use sotto_protocol::{CodeKind, CodeShape, ServerParameters};
use sotto_wire::limits::QUERY_MAX;
use sottod::{Config, Limits, Running, ServerEvent, Usage};
use tokio::sync::{broadcast, mpsc};

use crate::bench;
use crate::lines::{Orders, Point, Request, Said, Snapshot, Spent};
use crate::observed::{Meter, Observed};

/// Rounds that stay retrievable: in closed loop, nobody is late.
const RETAINED: u8 = 1;
/// As long as it takes: a call that ends before its answer would end the measurement.
const CALL: Duration = Duration::from_secs(3600);
/// Longer than all the work in between two calls of one client, bare stages included.
const CHALLENGE: Duration = CALL;

/// Runs a server until its input ends.
pub(crate) fn run(orders: &str) -> anyhow::Result<()> {
    let orders: Orders = serde_json::from_str(orders).context("these are no orders for a server")?;
    let result = serve(&orders);
    if let Err(error) = &result {
        say(&Said::Failed(format!("{error:#}")));
    }
    result
}

fn config(orders: &Orders) -> anyhow::Result<Config> {
    let Orders { retrieve, clients, threads, tile, gather_ms, .. } = *orders;
    let mut config = Config::closed_loop(([127, 0, 0, 1], 0).into());
    config.retrieve = retrieve;
    config.retained = RETAINED;
    // Rounds are as short as the work makes them.
    config.round_ms = 1;
    // These clients hide nothing and wait for no slot; the server announces what people's clients could keep.
    config.lookup_ms = config.lookup_ms.max(ServerParameters::lookup_slot_ms(CodeShape {
        kind: CodeKind::Cuckoo,
        retrieve: ServerParameters::RETRIEVE_MAX,
        buckets: ServerParameters::BUCKETS_MAX,
        choices: 8,
    }));
    config.query_ms = config.lookup_ms + ServerParameters::query_slot_ms(ServerParameters::BUCKETS_MAX);
    config.population = Some(orders.population());
    // What is too weak for people may be measured.
    config.allow_no_privacy = orders.engine.is_insecure();
    config.code = orders.code.kind()?;
    let clients = clients as usize;
    config.limits = Limits {
        threads,
        computing: threads.max(2),
        retrievals: clients.max(1),
        query_bytes: config.limits.query_bytes.max(clients * QUERY_MAX),
        tile,
        gather: Duration::from_millis(gather_ms),
        challenge_age: CHALLENGE,
        call: CALL,
        stall: CALL,
        ..config.limits
    };
    Ok(config)
}

fn serve(orders: &Orders) -> anyhow::Result<()> {
    let began = Instant::now();
    let engine: Arc<dyn Engine> = Arc::new(Observed::new(orders.engine, orders.prefer));
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
        let mut server =
            sottod::start(Arc::clone(&engine), config(orders)?).context("the server cannot start")?;
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
        // As many cores are busy as in the server, and memory is as well known to its threads, which live as long.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(orders.threads).build()?;
        let mut kept = None;
        let mut bench = || {
            let (bench, answers) = pool.install(|| bench::stages(orders, &*engine, shape, &mut kept))?;
            say(&Said::Bench(bench, answers));
            anyhow::Ok(())
        };
        bench()?;
        while let Some(line) = runtime.block_on(requests.recv()) {
            match serde_json::from_str(&line) {
                Ok(Request::Bench) => bench()?,
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
    let (meter, usage) = (Meter::read(), Usage::of_this());
    Snapshot {
        spent: Spent {
            wall_ms: began.elapsed().as_secs_f64() * 1e3,
            cpu_ms: process_milliseconds(),
            stages: meter.stages,
            answers: meter.answers,
        },
        database_bytes: meter.bytes,
        resident_bytes: usage.resident,
        peak_bytes: usage.peak,
    }
}

fn say(said: &Said) {
    let line = serde_json::to_string(said).unwrap_or_default();
    let mut output = std::io::stdout().lock();
    // Whoever does not listen any more has ended, and so will this.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
