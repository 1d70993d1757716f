//! One closed loop, from the start of the server to the report.

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use sotto_measuring::code::CodeName;
use sotto_measuring::cpu::process_milliseconds;
use sotto_measuring::machine::available_memory;
use sotto_protocol::Table;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::table::LOT_SLOTS;

use crate::child::ServerProcess;
use crate::client::ensure_complete;
use crate::config::Config;
use crate::lines::{Orders, Point, TILE};
use crate::report::{self, Measured, Report};
use crate::system::System;
use crate::turns::Turns;

/// Rounds before those that are measured: connections open their windows, and memory is new. While a round is built, the one before
/// it is held, so that the third is the first that finds the memory of an earlier one.
const WARM_UP: u32 = 2;

/// Runs a closed loop, and shows how far it is.
///
/// # Errors
/// If it cannot be run, or somebody cannot go on.
pub fn run_once(config: &Config, progress: &ProgressBar) -> anyhow::Result<Report> {
    config.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(config, progress))
}

async fn measure(config: &Config, progress: &ProgressBar) -> anyhow::Result<Report> {
    let orders = Orders {
        engine: config.engine,
        prefer: config.prefer,
        code: config.code,
        retrieve: config.retrieve,
        users: config.users - config.clients,
        clients: config.clients,
        threads: config.threads(),
        tile: TILE,
        gather_ms: config.gather_ms,
        seed: config.seed,
    };
    let warnings: Vec<String> = memory_warning(config).into_iter().collect();
    progress.suspend(|| warnings.iter().for_each(|warning| eprintln!("warning: {warning}")));
    let rounds = WARM_UP + config.rounds;
    let clients = u64::from(config.clients);
    // A bench answers as much as one round.
    progress.set_length(clients + 2 * u64::from(rounds) * (clients + 1));

    let mut system = System::start(orders.clone()).await?;
    // In this one, bare stages take their turn with the rounds: a machine that is slower for a while is so for both.
    let mut bare = if config.without_bare { None } else { Some(ServerProcess::start(&orders).await?) };
    let proxy = system.proxy(None).await?;
    let empty = system.server.now().await?;
    progress.set_message("clients register");
    system.enter(config.clients, &proxy, progress).await?;
    let key_bytes = system.clients.iter().map(|client| client.keys.len() as u64).sum();
    let (entered, entering) = (system.server.now().await?, proxy.traffic());

    let mut latencies = Histogram::new(3)?;
    let (mut measured, mut last, mut form) = (Vec::new(), entered, (0, 0));
    for number in 0..rounds {
        let counted = number >= WARM_UP;
        progress.set_message(if counted { format!("round {number}") } else { "warm-up round".into() });
        let before = system.server.now().await?.spent;
        let (traffic, cpu) = (proxy.traffic(), process_milliseconds());
        let (round, took) = system.play(Turns::free(), progress).await?;
        last = system.server.now().await?;
        let (after, traffic, clients_cpu_ms) =
            (last.spent, proxy.traffic() - traffic, process_milliseconds() - cpu);
        let bare = match &mut bare {
            Some(bare) => {
                progress.set_message("bare stages, to compare with");
                Some(bare.bench().await?)
            }
            None => None,
        };
        progress.inc(clients + 2);
        if !counted {
            continue;
        }
        for (_, latency) in took.iter().flat_map(|took| &took.answers) {
            latencies.record(latency.as_micros().try_into().unwrap_or(u64::MAX))?;
        }
        let any = took.first().context("a round without clients")?;
        form = (any.buckets, any.bucket_size);
        let point = |point| system.server.point(round.0, point);
        let (sealed, populated, built) =
            (point(Point::Sealed)?, point(Point::Populated)?, point(Point::Built)?);
        let one = report::Round {
            round: round.0,
            all: after - before,
            deposits: sealed - before,
            population: populated - sealed,
            setup: built - populated,
            retrieval: after - built,
            counts: took.iter().map(|took| took.counts).sum(),
            payload: took.iter().map(|took| took.bytes).sum(),
            traffic,
            clients_cpu_ms,
            bench: bare.map(|(bench, _)| bench),
        };
        ensure_complete(one.counts, clients * u64::from(config.retrieve))?;
        let (entries, users) = (any.entries, config.users);
        let expected = if config.code.kind()?.has_slots() { table_places(config)? } else { users.into() };
        ensure!(
            entries == expected,
            "the round has {entries} messages for {users} users, and not {expected}"
        );
        for answered in core::iter::once(one.all.answers).chain(bare.map(|(_, answered)| answered)) {
            let asked = clients * any.units as u64;
            ensure!(answered == asked, "{answered} units answered of {asked}");
        }
        measured.push(one);
    }
    let client = system.clients.first().context("no client")?;
    let (engine, check) = (client.engine.name(), client.check().await.context("a check")?);
    let measured = Measured {
        engine,
        rounds: measured,
        buckets: form.0,
        bucket_size: form.1,
        latencies,
        key_bytes,
        entering,
        memory: [empty, entered, last],
        check,
        warnings,
    };
    Report::new(config, measured)
}

/// Places of the table with the slots of all users: of the simulated ones, and then of the clients.
fn table_places(config: &Config) -> anyhow::Result<u64> {
    let lots = |users: u32| users.div_ceil(LOT_SLOTS);
    let table = Table::holding(lots(config.users - config.clients) + lots(config.clients));
    Ok(table.context("so many users have no table")?.places().into())
}

/// Says so if there is less memory than this will want: two processes, the server's and the one of the bare stages if they are
/// wanted, hold two prepared rounds each, one round's buckets and messages.
fn memory_warning(config: &Config) -> Option<String> {
    // Copies of every message in the buckets, at most: three of cuckoo, 4.5 of the hybrid; each takes four bytes for one when
    // it is prepared.
    let copies = if config.code == CodeName::Single { 1 } else { 5 };
    let messages = u64::from(config.users) * BOX_BYTES as u64;
    let processes = if config.without_bare { 1 } else { 2 };
    let (needed, available) = (processes * messages * (copies * (2 * 4 + 1) + 2), available_memory()?);
    let [need, have] = [needed, available].map(|bytes| bytes as f64 / f64::from(1 << 30));
    let warning = format!("this may take {need:.1} GiB of memory, and {have:.1} GiB are available");
    (needed > available).then_some(warning)
}
