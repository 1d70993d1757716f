//! One closed loop, from the start of the server to the report.

use core::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Round, cover};
use sotto_wire::{Address, Host};
use sottod::Population;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::child::ServerProcess;
use super::client::{Client, Took, ensure_complete};
use super::config::Config;
use super::lines::{Orders, Point};
use super::report::{self, Measured, Report};
use crate::cpu::process_milliseconds;
use crate::machine::available_memory;
use crate::pbc::CodeName;
use crate::proxy::Proxy;

/// Clients that connect at a time.
const ENTERING: usize = 8;
/// Rounds before those that are measured: memory is new, and connections open their windows.
const WARM_UP: u32 = 1;

/// Runs a closed loop, and shows how far it is.
///
/// # Errors
/// If it cannot be run, or somebody cannot go on.
pub(crate) fn run_once(config: &Config, progress: &ProgressBar) -> anyhow::Result<Report> {
    config.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(config, progress))
}

async fn measure(config: &Config, progress: &ProgressBar) -> anyhow::Result<Report> {
    let orders = Orders {
        engine: config.engine,
        code: config.code,
        retrieve: config.retrieve,
        users: config.users - config.clients,
        clients: config.clients,
        threads: config.threads(),
        seed: config.seed,
    };
    let warnings: Vec<String> = memory_warning(config).into_iter().collect();
    progress.suspend(|| warnings.iter().for_each(|warning| eprintln!("warning: {warning}")));
    let rounds = WARM_UP + config.rounds;
    let clients = u64::from(config.clients);
    // A bench answers as much as one round.
    progress.set_length(clients + 2 * u64::from(rounds) * (clients + 1));

    let mut server = ServerProcess::start(&orders).await?;
    // In this one, bare stages take their turn with the rounds: a machine that is slower for a while is so for both.
    let mut bare = ServerProcess::start(&orders).await?;
    let address: Address = server.address.parse()?;
    let behind: SocketAddr = address.authority().parse()?;
    let proxy = Proxy::start(None, behind).await.context("the proxy cannot listen")?;
    let host = Host::Ip(proxy.address.ip());
    let address = Address::new(address.transport(), host, proxy.address.port(), *address.root_key())?;

    let empty = server.now().await?;
    progress.set_message("clients register");
    let mut participants = enter(config, &address, progress).await?;
    let engine = participants.first().map_or("", |client| client.engine.name());
    let key_bytes = participants.iter().map(|client| client.keys.len() as u64).sum();
    let (entered, entering) = (server.now().await?, proxy.traffic());

    let population = Population { users: orders.users, seed: orders.seed };
    let mut latencies = Histogram::new(3)?;
    let (mut measured, mut last, mut form) = (Vec::new(), entered, (0, 0));
    for number in 0..rounds {
        let counted = number >= WARM_UP;
        progress.set_message(if counted { format!("round {number}") } else { "warm-up round".into() });
        let (before, traffic, cpu) = (server.now().await?.spent, proxy.traffic(), process_milliseconds());
        let (round, took);
        (participants, round, took) = play(config, population, participants, progress).await?;
        last = server.now().await?;
        let (after, traffic, clients_cpu_ms) =
            (last.spent, proxy.traffic() - traffic, process_milliseconds() - cpu);
        progress.set_message("bare stages, to compare with");
        let (bench, bare_answers) = bare.bench().await?;
        progress.inc(clients + 1);
        if !counted {
            continue;
        }
        for took in &took {
            latencies.record(took.latency.as_micros().try_into().unwrap_or(u64::MAX))?;
        }
        let any = took.first().context("a round without clients")?;
        form = (any.buckets, any.bucket_size);
        let point = |point| server.point(round.0, point);
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
            bench,
        };
        ensure_complete(one.counts, clients * u64::from(config.retrieve))?;
        let (entries, users) = (any.entries, config.users);
        ensure!(entries == u64::from(users), "the round has {entries} messages for {users} users");
        for answered in [one.all.answers, bare_answers] {
            let asked = clients * any.buckets as u64;
            ensure!(answered == asked, "{answered} sub-queries answered of {asked}");
        }
        measured.push(one);
    }
    let check = participants.first().context("no client")?.check(&proxy).await.context("a check")?;
    drop(participants);
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

/// Says so if there is less memory than this will want: two processes, the server's and the one of the bare stages, hold two
/// prepared rounds each, one round's buckets and messages.
fn memory_warning(config: &Config) -> Option<String> {
    // Copies of every message in the buckets, at most: three of cuckoo, 4.5 of the hybrid; each takes four bytes for one when
    // it is prepared.
    let copies = if config.code == CodeName::Single { 1 } else { 5 };
    let messages = u64::from(config.users) * BOX_BYTES as u64;
    let (needed, available) = (2 * messages * (copies * (2 * 4 + 1) + 2), available_memory()?);
    let [need, have] = [needed, available].map(|bytes| bytes as f64 / f64::from(1 << 30));
    let warning = format!("this may take {need:.1} GiB of memory, and {have:.1} GiB are available");
    (needed > available).then_some(warning)
}

/// All clients, connected and registered, a few at a time.
async fn enter(config: &Config, address: &Address, progress: &ProgressBar) -> anyhow::Result<Vec<Client>> {
    let places = Arc::new(Semaphore::new(ENTERING));
    let mut entering = JoinSet::new();
    for number in 0..config.clients {
        let (places, address) = (Arc::clone(&places), address.clone());
        let seed = derive(config.seed, "client", Round(0), number);
        entering.spawn(async move {
            let _place = places.acquire().await?;
            anyhow::Ok((number, Client::enter(address, seed).await?))
        });
    }
    let mut clients = Vec::new();
    while let Some(entered) = entering.join_next().await {
        clients.push(entered?.context("a client cannot enter")?);
        progress.inc(1);
    }
    clients.sort_by_key(|(number, _)| *number);
    Ok(clients.into_iter().map(|(_, client)| client).collect())
}

/// One round of all clients at the same time.
async fn play(
    config: &Config,
    population: Population,
    clients: Vec<Client>,
    progress: &ProgressBar,
) -> anyhow::Result<(Vec<Client>, Round, Vec<Took>)> {
    let mut playing = JoinSet::new();
    for (number, mut client) in (0..).zip(clients) {
        let config = config.clone();
        playing.spawn(async move {
            let round = client.opened().await?;
            let wanted = wanted(&config, population, round, number);
            let took = client.take_part(round, &deposit(&config, round, number), wanted).await?;
            anyhow::Ok((number, client, round, took))
        });
    }
    let mut played = Vec::new();
    while let Some(done) = playing.join_next().await {
        played.push(done?.context("a client cannot go on")?);
        progress.inc(1);
    }
    progress.inc(1);
    played.sort_by_key(|(number, ..)| *number);
    let round = played.first().map(|(_, _, round, _)| *round).context("a round without clients")?;
    ensure!(played.iter().all(|(_, _, other, _)| *other == round), "clients are in different rounds");
    let (mut clients, mut took) = (Vec::new(), Vec::new());
    for (_, client, _, one) in played {
        clients.push(client);
        took.push(one);
    }
    Ok((clients, round, took))
}

/// What a client hands in: sealed as every message is, under keys that follow from the seed, so that the client it is
/// for can say what it must get.
fn deposit(config: &Config, round: Round, client: u32) -> Deposit {
    cover(round, &mut StdRng::from_seed(derive(config.seed, "deposit", round, client)))
}

/// What a client is to find in a round: the message of the client before it, and those of simulated users.
fn wanted(config: &Config, population: Population, round: Round, client: u32) -> Vec<Deposit> {
    let mut rng = StdRng::from_seed(derive(config.seed, "wanted", round, client));
    let sender = (client + config.clients - 1) % config.clients;
    let others = sample(&mut rng, population.users as usize, usize::from(config.retrieve) - 1);
    let mut wanted = vec![deposit(config, round, sender)];
    wanted.extend(others.into_iter().map(|user| population.deposit(round, user as u32)));
    // No place in the schedule belongs to real clients.
    let place = rng.random_range(0..wanted.len());
    wanted.swap(0, place);
    wanted
}

fn derive(seed: u64, purpose: &str, round: Round, client: u32) -> [u8; 32] {
    let digest = Sha256::new_with_prefix(b"sotto-sim/closed-loop/v1\0").chain_update(purpose);
    let digest = digest.chain_update([0]).chain_update(seed.to_le_bytes());
    digest.chain_update(round.0.to_le_bytes()).chain_update(client.to_le_bytes()).finalize().into()
}
