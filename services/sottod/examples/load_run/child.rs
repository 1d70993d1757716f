//! The server's process, and what it uses.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{self, ChildStdout, Command, Stdio};

use anyhow::Context;
use hyper_util::rt::TokioIo;
use sotto_protocol::PROTOCOL_VERSION;
use sotto_wire::proto::sotto_client::SottoClient;
use sotto_wire::root::node_name;
use sotto_wire::{Address, Info, limits, proto};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

pub(crate) type Client = SottoClient<Channel>;

/// Room for the answers of all clients on a connection.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// A server in a process of its own; it does not outlive this.
pub(crate) struct Child {
    process: process::Child,
    /// Held open: a server that cannot print ends.
    _output: BufReader<ChildStdout>,
    address: Address,
    pub(crate) key: [u8; 32],
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
        let mut child = Self { process, _output: output, address: address.parse()?, key: [0; 32] };
        let request = proto::InfoRequest { protocol_version: PROTOCOL_VERSION.into() };
        let info = Info::try_from(child.connect().await?.info(request).await?.into_inner())?;
        child.address.root_key().check(&info.parameters, &info.endorsement)?;
        child.key = info.parameters.manifest_key;
        Ok(child)
    }

    /// Connects as clients do, by TLS.
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        let (authority, config) = (self.address.authority(), self.address.root_key().client_config()?);
        let endpoint = Endpoint::from_shared(format!("http://{authority}"))?
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let connector = tower::service_fn(move |_| {
            let (authority, config) = (authority.clone(), config.clone());
            async move {
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                TlsConnector::from(config).connect(node_name(), stream).await.map(TokioIo::new)
            }
        });
        let channel = endpoint.connect_with_connector(connector).await?;
        Ok(SottoClient::new(channel).max_decoding_message_size(limits::MESSAGE_MAX))
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

/// What a process uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Memory that is there, MiB.
    pub(crate) resident: f64,
    /// Processor time so far, seconds.
    pub(crate) processor: f64,
}

impl Usage {
    /// Reads `/proc`; of a process that is gone it is nothing.
    pub(crate) fn of(process: u32) -> Self {
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
        let kilobytes = read("status")
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        // Behind the name, which ends with a parenthesis: state is field 3, user and system time are 14 and 15, in
        // hundredths of a second.
        let stat = read("stat");
        let times = stat.rsplit(") ").next().map(|rest| {
            rest.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
        });
        Self { resident: kilobytes.unwrap_or(0.0) / 1024.0, processor: times.unwrap_or(0.0) / 100.0 }
    }
}
