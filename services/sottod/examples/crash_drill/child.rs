//! The server's process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{self, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use sotto_session::{ConnectError, Connection, ConnectionSettings};
use sotto_wire::Info;

/// A server's process, which does not outlive this.
pub(super) struct Process(process::Child);

/// A server that listens.
pub(super) struct Child {
    process: Process,
    /// Held open: a server that cannot print ends.
    _output: BufReader<ChildStdout>,
    settings: ConnectionSettings,
    pub(super) info: Info,
}

/// One message is retrieved per round: the databases are as small as can be, so that a server lives through many rounds.
const OPTIONS: [&str; 11] = [
    "--plaintext",
    "--retrieve",
    "1",
    "--retained",
    "4",
    "--deposit-ms",
    "50",
    "--lookup-ms",
    "50",
    "--query-ms",
    "150",
];

impl Process {
    /// Begins to start a server with rounds of this length.
    pub(super) fn spawn(program: &Path, data: &Path, round_ms: u32) -> anyhow::Result<Self> {
        let process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(["--round-ms", &round_ms.to_string()])
            .args(OPTIONS)
            .env("RUST_LOG", "warn")
            .env("SOTTOD_ROUNDS_SEED_SEGMENTS", "16")
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self(process))
    }

    /// Waits until it listens.
    pub(super) async fn listening(mut self) -> anyhow::Result<Child> {
        let output = self.0.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        let mut output = BufReader::new(output);
        output.read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").context("the server does not listen")?;
        let mut settings = ConnectionSettings::new(address.parse()?);
        // Its rounds are shorter than those of people may be.
        settings.allow_no_privacy = true;
        let info = Connection::open(&settings).await?.info().await?;
        Ok(Child { process: self, _output: output, settings, info })
    }

    /// Ends it as a power failure would, as far as the process can tell. What it has done until then stays; if it has ended
    /// by itself, it failed.
    pub(super) fn kill(mut self) -> anyhow::Result<()> {
        if let Some(ended) = self.0.try_wait()? {
            bail!("the server has ended by itself: {ended}");
        }
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Child {
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        Connection::open(&self.settings).await
    }

    /// The key that signs its manifests.
    pub(super) fn key(&self) -> [u8; 32] {
        self.info.parameters.manifest_key
    }

    /// Ends it as [`Process::kill`] does.
    pub(super) fn kill(self) -> anyhow::Result<()> {
        self.process.kill()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
