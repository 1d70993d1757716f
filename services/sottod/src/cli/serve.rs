//! Serving until told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use sotto_protocol::RoundMode;
use sotto_wire::Transport;
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use super::settings::{Settings, environment};
use crate::{Addressing, DataError, EngineName, Preference, Running, StartError, data};

/// What the command line says; it goes before everything else.
#[derive(Args)]
pub(super) struct Options {
    /// Configuration [default: sottod.toml in the data directory, if there is one].
    #[arg(long, value_name = "FILE", env = "SOTTOD_CONFIG")]
    config: Option<PathBuf>,
    /// Directory that keeps keys, rounds and accounts over restarts; created if it is missing. Without it, everything is in
    /// memory and ends with the server.
    #[arg(long, value_name = "DIR", env = "SOTTOD_DATA")]
    data: Option<PathBuf>,
    /// Take the first data directory in this one that no other process uses: for many nodes that are started alike, such as
    /// the answerers of 'sottod cluster new'. It goes before --data.
    #[arg(long, value_name = "DIR", env = "SOTTOD_POOL")]
    pool: Option<PathBuf>,
    /// Where to listen; port 0 takes any free one [default: 127.0.0.1:7370].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Host and port under which clients reach the server, if not those of --listen.
    #[arg(long, value_name = "HOST:PORT")]
    public: Option<String>,
    /// Where to tell how the server is, over plain HTTP: /metrics, /health, /status.
    #[arg(long, value_name = "ADDRESS")]
    operations: Option<SocketAddr>,
    /// Without TLS, for clients on this machine only.
    #[arg(long)]
    plaintext: bool,
    /// Length of a round, ms [default: 2000; 100 in closed loop, where it is the least length].
    #[arg(long)]
    round_ms: Option<u32>,
    /// How clients find messages [default: labels]. Accounts and conversations do not move from labels to the others, or back.
    #[arg(long, value_enum)]
    addressing: Option<Addressing>,
    /// What answers retrievals [default: sealpir].
    #[arg(long, value_enum)]
    engine: Option<EngineName>,
    /// With voce, voce-hint and voce-apart: what a round is arranged for [default: balanced].
    #[arg(long, value_enum)]
    prefer: Option<Preference>,
    /// Messages that a client retrieves per round, 1 to 256 [default: 16].
    #[arg(long)]
    retrieve: Option<u16>,
    /// End a round when everybody is done; for simulations and demonstrations on one machine.
    #[arg(long)]
    closed_loop: bool,
    /// Rounds that stay retrievable, 1 to 4 [default: 2].
    #[arg(long)]
    retained: Option<u8>,
    /// Buckets of the batch code [default: as many as are recommended].
    #[arg(long)]
    buckets: Option<u16>,
    /// Candidate buckets of a label, 1 to 8 [default: 3].
    #[arg(long)]
    choices: Option<u8>,
    /// When clients deposit, ms after a round opens [default: 200; 50 in closed loop].
    #[arg(long)]
    deposit_ms: Option<u32>,
    /// When clients give up a look-up, ms after a round is ready [default: 300; 200 in closed loop].
    #[arg(long)]
    lookup_ms: Option<u32>,
    /// When clients send their queries, ms after a round is ready [default: 600; 450 in closed loop].
    #[arg(long)]
    query_ms: Option<u32>,
    /// Over how many ms clients spread their deposits, each at a moment that follows from account and round
    /// [default: as much as the round has room for; 0 in closed loop].
    #[arg(long)]
    deposit_spread_ms: Option<u32>,
    /// The same for retrievals [default: half a round; 0 in closed loop].
    #[arg(long)]
    query_spread_ms: Option<u32>,
    /// The data directory was restored from a backup that may not know of the newest rounds: go on with a number by the
    /// clock, so that none is used twice. For one start only.
    #[arg(long)]
    restored: bool,
}

pub(super) fn run(mut options: Options) -> Result<(), Failure> {
    let _taken = match options.pool.take() {
        Some(pool) => {
            let (directory, taken) = data::take_one(&pool).map_err(Failure::misconfigured)?;
            tracing::info!(data = %directory.display(), "this data directory is free");
            options.data = Some(directory);
            Some(taken)
        }
        None => None,
    };
    let environment = environment().map_err(Failure::misconfigured)?;
    let mut settings = Settings::read(options.config.as_deref(), options.data.as_deref(), environment)
        .map_err(Failure::misconfigured)?;
    let restored = options.restored;
    options.override_in(&mut settings);
    let engine = settings.engine();
    let mut config = settings.into_config().map_err(Failure::misconfigured)?;
    config.restored = restored;
    let durable = config.data.is_some();
    if restored && !durable {
        return Err(Failure::misconfigured(anyhow::anyhow!("--restored needs --data")));
    }
    let limits = config.limits;
    tracing::info!(
        connections = limits.connections,
        sessions = limits.sessions,
        key_mib = limits.key_bytes >> 20,
        "there is room for so many"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before anybody can know that there is a server to end.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let loud = config.transport == Transport::Plaintext;
        let closed = config.mode == RoundMode::ClosedLoop;
        let mut server = crate::start(engine, config).map_err(|error| match error {
            StartError::Config(_)
            | StartError::Data(
                DataError::Identity(_)
                | DataError::IdentityMissing(_)
                | DataError::Cluster { .. }
                | DataError::Certificate(_),
            ) => Failure::misconfigured(error),
            _ => error.into(),
        })?;
        if loud && !closed {
            tracing::warn!("without TLS: only for clients on this machine");
        }
        announce(&server, durable)?;
        tokio::select! {
            error = server.failed() => {
                let _ = server.shutdown().await;
                return Err(error.into());
            }
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("shutting down: calls under way may end; once more ends them now");
        tokio::select! {
            ended = server.shutdown() => Ok(ended?),
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

impl Options {
    fn override_in(self, settings: &mut Settings) {
        fn over<T>(setting: &mut Option<T>, option: Option<T>) {
            if option.is_some() {
                *setting = option;
            }
        }
        over(&mut settings.data, self.data);
        over(&mut settings.listen, self.listen);
        over(&mut settings.public, self.public);
        over(&mut settings.operations, self.operations);
        over(&mut settings.plaintext, self.plaintext.then_some(true));
        let rounds = &mut settings.rounds;
        over(&mut rounds.closed_loop, self.closed_loop.then_some(true));
        over(&mut rounds.round_ms, self.round_ms);
        over(&mut rounds.addressing, self.addressing);
        over(&mut rounds.engine, self.engine);
        over(&mut rounds.prefer, self.prefer);
        over(&mut rounds.retrieve, self.retrieve);
        over(&mut rounds.retained, self.retained);
        over(&mut rounds.buckets, self.buckets);
        over(&mut rounds.choices, self.choices);
        over(&mut rounds.deposit_ms, self.deposit_ms);
        over(&mut rounds.lookup_ms, self.lookup_ms);
        over(&mut rounds.query_ms, self.query_ms);
        over(&mut rounds.deposit_spread_ms, self.deposit_spread_ms);
        over(&mut rounds.query_spread_ms, self.query_spread_ms);
    }
}

fn announce(server: &Running, durable: bool) -> std::io::Result<()> {
    if !durable {
        tracing::info!("without --data everything is in memory: the address is a new one at every start");
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {}", server.address())?;
    writeln!(out, "to join: sotto init --server {} --name NAME", server.address())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Options, Settings};
    use crate::{EngineName, Preference};

    #[derive(Parser)]
    struct Serve {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn what_the_command_line_says_goes_before_the_settings() {
        let line = ["serve", "--engine", "voce", "--prefer", "time", "--retrieve", "4"];
        let mut settings: Settings =
            toml::from_str("[rounds]\nprefer = \"bytes\"\nretrieve = 16\nretained = 3").unwrap();
        Serve::parse_from(line).options.override_in(&mut settings);
        let rounds = settings.rounds;
        assert_eq!((rounds.engine, rounds.prefer), (Some(EngineName::Voce), Some(Preference::Time)));
        assert_eq!((rounds.retrieve, rounds.retained), (Some(4), Some(3)));
    }
}
