//! Asking a running server how it is.

use core::time::Duration;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;

use super::Failure;
use super::settings::{Settings, environment};
use crate::Status;

const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than any answer.
const BYTES_MAX: u64 = 64 << 10;

/// Whom to ask.
#[derive(Args)]
pub(super) struct Options {
    /// Where the server tells how it is [default: 'operations' of the configuration in the data directory].
    #[arg(long, value_name = "ADDRESS")]
    operations: Option<SocketAddr>,
    /// The data directory.
    #[arg(long, value_name = "DIR", env = "SOTTOD_DATA")]
    data: Option<PathBuf>,
    /// Configuration [default: sottod.toml in the data directory].
    #[arg(long, value_name = "FILE", env = "SOTTOD_CONFIG")]
    config: Option<PathBuf>,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let configured = || {
        let settings = Settings::read(options.config.as_deref(), options.data.as_deref(), environment()?)?;
        settings
            .operations
            .context("the server has no 'operations' address; set one, or name it with --operations")
    };
    let address = match options.operations {
        Some(address) => address,
        None => configured().map_err(Failure::misconfigured)?,
    };
    // A server that listens everywhere also listens here.
    let address = match address.ip().is_unspecified() {
        true => SocketAddr::from(([127, 0, 0, 1], address.port())),
        false => address,
    };
    let status = ask(address).with_context(|| format!("no status from {address}; is the server running?"))?;
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", serde_json::to_string(&status)?)?;
    } else {
        print(&mut out, &status)?;
    }
    if status.serving {
        Ok(())
    } else {
        Err(anyhow::anyhow!("the server is not serving: it reads its log, or ends").into())
    }
}

fn ask(address: SocketAddr) -> anyhow::Result<Status> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(
        format!("GET /status HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.take(BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("what answers is no server of ours")?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "what answers is no server of ours");
    Ok(serde_json::from_str(body)?)
}

fn print(out: &mut impl Write, status: &Status) -> std::io::Result<()> {
    let Status { serving, version, address, engine, uptime_s, open_round, .. } = status;
    let Status { round_deposits, participants, connections, log_bytes, token_required, .. } = status;
    writeln!(
        out,
        "{}, version {version}, engine {engine}, up {uptime_s} s",
        if *serving { "serving" } else { "not serving" }
    )?;
    writeln!(out, "address {address}")?;
    writeln!(out, "round {open_round} is open; the one before has {round_deposits} deposits")?;
    writeln!(out, "participants {participants}, connections {connections}, log {log_bytes} bytes")?;
    writeln!(
        out,
        "new accounts {}",
        if *token_required { "need a token: 'sottod token'" } else { "need no token" }
    )
}
