//! The server's process, and what it uses.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{self, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use sotto_session::{ConnectError, Connection, ConnectionSettings};
use sotto_wire::Info;

/// A server gives up every call before.
const PATIENCE: Duration = Duration::from_secs(75);

/// A server in a process of its own; it does not outlive this.
pub(crate) struct Child {
    process: process::Child,
    /// Held open: a server that cannot print ends.
    _output: BufReader<ChildStdout>,
    settings: ConnectionSettings,
    pub(crate) info: Info,
}

impl Child {
    /// Starts a server, which listens when this returns.
    pub(crate) async fn start(program: &Path, data: &Path, options: &[String]) -> anyhow::Result<Self> {
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(options)
            .env("RUST_LOG", "error")
            .env("SOTTOD_ROUNDS_SEED_SEGMENTS", "16")
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        let mut output = BufReader::new(output);
        output.read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").context("the server does not listen")?;
        let mut settings = ConnectionSettings::new(address.parse()?);
        (settings.call_timeout, settings.transfer_timeout) = (PATIENCE, PATIENCE);
        // Its rounds may be shorter than those of people.
        settings.allow_no_privacy = true;
        let info = Connection::open(&settings).await?.info().await?;
        Ok(Self { process, _output: output, settings, info })
    }

    /// Connects as clients do, by TLS.
    pub(crate) async fn connect(&self) -> Result<Connection, ConnectError> {
        Connection::open(&self.settings).await
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.process.try_wait()?.is_some())
    }

    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
