//! A server that runs already, or will soon: its address, and how patiently it is asked.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use sotto_session::{ConnectError, Connection, ConnectionSettings};
use sotto_wire::{Address, Info};
use tokio::time::sleep;

/// Between two looks for a file or a node that is not there yet.
const PAUSE: Duration = Duration::from_millis(500);
/// A node that is cut off, or stands still, says nothing. Rounds are short, and the other nodes are near: it is given up soon,
/// while the others still choose who leads.
const HEARTBEAT: Duration = Duration::from_millis(500);
const SILENCE: Duration = Duration::from_millis(1_500);
const CALL: Duration = Duration::from_secs(3);
const TRANSFER: Duration = Duration::from_secs(10);

/// Which server.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Target {
    /// Its address; that of a cluster names several nodes.
    #[arg(long, value_name = "ADDRESS")]
    server: Option<Address>,
    /// A file with the address, which is waited for.
    #[arg(long, value_name = "FILE")]
    server_file: Option<PathBuf>,
}

impl Target {
    /// Waits until the address is known and one of its nodes answers.
    ///
    /// # Errors
    /// If the server is none to work with; that nobody answers is no error.
    pub(crate) async fn reach(&self) -> anyhow::Result<(ConnectionSettings, Info)> {
        let settings = ConnectionSettings {
            connect_timeout: SILENCE,
            call_timeout: CALL,
            transfer_timeout: TRANSFER,
            keep_alive: HEARTBEAT,
            keep_alive_timeout: SILENCE,
            retry_most: SILENCE,
            ..ConnectionSettings::new(self.address().await?)
        };
        let nodes: Vec<_> = settings.each().collect();
        loop {
            for node in &nodes {
                match info(node).await {
                    Ok(info) => return Ok((settings, info)),
                    Err(error) if error.is_of_node() => {}
                    Err(error) => bail!(error),
                }
            }
            sleep(PAUSE).await;
        }
    }

    async fn address(&self) -> anyhow::Result<Address> {
        let Some(path) = &self.server_file else {
            return self.server.clone().context("no server is named");
        };
        loop {
            if let Ok(text) = fs::read_to_string(path) {
                return text.parse().with_context(|| format!("{} holds no address", path.display()));
            }
            sleep(PAUSE).await;
        }
    }
}

async fn info(node: &ConnectionSettings) -> Result<Info, ConnectError> {
    Connection::open(node).await?.info().await
}

/// Until somebody asks this process to end.
pub(crate) async fn ended() -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminated = signal(SignalKind::terminate()).context("signals cannot be heard")?;
        tokio::select! {
            _ = terminated.recv() => Ok(()),
            interrupted = tokio::signal::ctrl_c() => interrupted.context("signals cannot be heard"),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.context("signals cannot be heard")
}
