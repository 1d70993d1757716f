//! Asking a running server how it is.

use core::time::Duration;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Failure;
use super::settings::{Settings, environment};
use crate::{Followed, NodeStatus, Status};

const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than any answer.
const BYTES_MAX: usize = 64 << 10;

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { timeout(PATIENCE, get(address)).await.context("it does not answer")? })
}

async fn get(address: SocketAddr) -> anyhow::Result<Status> {
    let stream = TokioIo::new(TcpStream::connect(address).await?);
    let (mut calls, connection) = http1::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get("/status").header(HOST, address.to_string()).body(Empty::<Bytes>::new())?;
    let answer = calls.send_request(request).await?;
    ensure!(answer.status() == StatusCode::OK, "what answers is no server of ours");
    let body = Limited::new(answer.into_body(), BYTES_MAX).collect().await;
    connection.abort();
    let body = body.map_err(|_| anyhow!("what answers is no server of ours"))?.to_bytes();
    serde_json::from_slice(&body).context("what answers is no server of ours")
}

fn print(out: &mut impl Write, status: &Status) -> std::io::Result<()> {
    let Status { serving, version, address, engine, uptime_s, open_round, .. } = status;
    let Status { round_deposits, participants, connections, log_bytes, token_required, node, .. } = status;
    writeln!(
        out,
        "{}, version {version}, engine {engine}, up {uptime_s} s",
        if *serving { "serving" } else { "not serving" }
    )?;
    if status.held_up_by_builds || status.held_up_by_commits {
        writeln!(out, "{}", status.state())?;
    }
    writeln!(out, "address {address}")?;
    if let Some(NodeStatus { number, answers, follows, nodes, leads, leader }) = node {
        let leader = match leader {
            _ if *leads => "it leads".to_owned(),
            Some(leader) => format!("node {leader} leads"),
            None => "no node leads".to_owned(),
        };
        match (answers, follows) {
            (false, _) => writeln!(out, "node {number} of {nodes}; {leader}")?,
            (true, None) => writeln!(out, "answerer {number}; follows no node; {leader}")?,
            (true, Some(Followed { number: other, answers: false })) => {
                writeln!(out, "answerer {number}; follows node {other} of {nodes}; {leader}")?;
            }
            (true, Some(Followed { number: other, answers: true })) => {
                writeln!(out, "answerer {number}; follows answerer {other}; {leader}")?;
            }
        }
    }
    for member in status.members.iter().filter(|member| !member.here) {
        if let Some(behind) = member.behind {
            writeln!(out, "node {} at {}: {behind} entries behind", member.number, member.address)?;
        }
    }
    writeln!(out, "round {open_round} is open; the one before has {round_deposits} deposits")?;
    writeln!(out, "participants {participants}, connections {connections}, log {log_bytes} bytes")?;
    writeln!(
        out,
        "new accounts {}",
        if *token_required { "need a token: 'sottod token'" } else { "need no token" }
    )
}
