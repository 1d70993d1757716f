//! The server's process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{self, ChildStdout, Command, Stdio};

use anyhow::Context;
use data_encoding::BASE32_NOPAD;
use sotto_wire::limits;
use sotto_wire::proto::sotto_client::SottoClient;
use tonic::transport::{Channel, Endpoint};

/// A server in a process of its own; it does not outlive this.
pub(super) struct Child {
    process: process::Child,
    /// Held open: a server that cannot print ends.
    _output: BufReader<ChildStdout>,
    address: String,
    pub(super) key: [u8; 32],
}

/// Rounds are short, one message is retrieved per round, and nobody retrieves: setting up the databases is not what is
/// tested here.
const OPTIONS: [&str; 12] = [
    "--round-ms",
    "400",
    "--retrieve",
    "1",
    "--retained",
    "4",
    "--deposit-ms",
    "50",
    "--lookup-ms",
    "50",
    "--query-ms",
    "100",
];

impl Child {
    /// Starts a server, which listens when this returns.
    pub(super) fn start(program: &Path, data: &Path) -> anyhow::Result<Self> {
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(OPTIONS)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        let mut output = BufReader::new(output);
        output.read_line(&mut line)?;
        let address =
            line.trim().strip_prefix("listening on sotto://").context("the server does not listen")?;
        let (address, key) = address.split_once('/').context("the server's address has no key")?;
        let key = BASE32_NOPAD.decode(key.to_ascii_uppercase().as_bytes())?;
        let key = key[..].try_into().context("the server's key has another length")?;
        Ok(Self { process, _output: output, address: format!("http://{address}"), key })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<SottoClient<Channel>> {
        let channel = Endpoint::from_shared(self.address.clone())?.connect().await?;
        Ok(SottoClient::new(channel).max_decoding_message_size(limits::MESSAGE_MAX))
    }

    /// Ends it as a power failure would, as far as the process can tell.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
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
