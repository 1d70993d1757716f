//! The server's process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{self, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use sotto_protocol::OwnSlot;
use sotto_session::{ConnectError, Connection, ConnectionSettings, Session};
use sotto_wire::Info;

/// A server gives up every call before.
pub(crate) const PATIENCE: Duration = Duration::from_secs(75);

/// A server's process, which does not outlive this.
pub(crate) struct Process(pub(crate) process::Child);

/// A server that listens.
pub(crate) struct Child {
    pub(crate) process: Process,
    /// Held open: a server that cannot print ends.
    _output: BufReader<ChildStdout>,
    settings: ConnectionSettings,
    pub(crate) info: Info,
}

impl Process {
    /// Begins to start a server with rounds of this length.
    pub(crate) fn spawn(
        program: &Path,
        data: &Path,
        round_ms: u32,
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(["--round-ms", &round_ms.to_string()])
            .args(options)
            .env("RUST_LOG", "error")
            .env("SOTTOD_ROUNDS_SEED_SEGMENTS", "16")
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self(process))
    }

    /// Waits until it listens.
    pub(crate) async fn listening(mut self) -> anyhow::Result<Child> {
        let output = self.0.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        let mut output = BufReader::new(output);
        output.read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").context("the server does not listen")?;
        let mut settings = ConnectionSettings::new(address.parse()?);
        (settings.call_timeout, settings.transfer_timeout) = (PATIENCE, PATIENCE);
        // Its rounds may be shorter than those of people.
        settings.allow_no_privacy = true;
        let info = Connection::open(&settings).await?.info().await?;
        Ok(Child { process: self, _output: output, settings, info })
    }

    /// Ends it as a power failure would, as far as the process can tell. What it has done until then stays; if it has ended
    /// by itself, it failed.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        match self.0.try_wait()? {
            Some(ended) => bail!("the server has ended by itself: {ended}"),
            None => Ok(self.0.kill()?),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Child {
    /// Connects as clients do.
    pub(crate) async fn connect(&self) -> Result<Connection, ConnectError> {
        Connection::open(&self.settings).await
    }

    /// The key that signs its manifests.
    pub(crate) fn key(&self) -> [u8; 32] {
        self.info.parameters.manifest_key
    }

    /// Ends it as [`Process::kill`] does.
    pub(crate) fn kill(self) -> anyhow::Result<()> {
        self.process.kill()
    }
}

/// Opens a session for the account with this number, which shows its slot if it has one.
pub(crate) async fn session(
    connection: &Connection,
    info: &Info,
    number: usize,
    slot: Option<&OwnSlot>,
) -> Result<Session, ConnectError> {
    let mut seed = [0x5a; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    connection.session(&seed, info, None, slot).await
}
