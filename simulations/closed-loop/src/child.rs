//! The server's process, from outside.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, bail};
use sotto_wire::limits::QUERY_MAX;
use tokio::sync::mpsc;

use crate::lines::{Bench, Orders, Point, Request, Said, Snapshot, Spent};

/// The subcommand under which this program is the server.
pub const SUBCOMMAND: &str = "closed-loop-server";

/// A server in a process of its own, which does not outlive this.
pub struct ServerProcess {
    process: Child,
    input: ChildStdin,
    said: mpsc::UnboundedReceiver<Said>,
    pub(crate) address: String,
    points: Vec<(u64, Point, Snapshot)>,
}

impl ServerProcess {
    /// Starts a server, which listens when this returns.
    pub(crate) async fn start(orders: &Orders) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([SUBCOMMAND, &serde_json::to_string(orders)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("the server's process cannot be started")?;
        let input = process.stdin.take().context("the server has no input")?;
        let output = process.stdout.take().context("the server has no output")?;
        let (sender, said) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let said = serde_json::from_str(&line)
                    .unwrap_or_else(|error| Said::Failed(format!("{line:?} is nothing to say: {error}")));
                if sender.send(said).is_err() {
                    return;
                }
            }
        });
        let mut server = Self { process, input, said, address: String::new(), points: Vec::new() };
        match server.hear().await? {
            Said::Listening { address } => server.address = address,
            other => bail!("the server does not listen; it says {other:?}"),
        }
        Ok(server)
    }

    /// What it has used up to now, and holds.
    ///
    /// # Errors
    /// If it does not say.
    pub async fn now(&mut self) -> anyhow::Result<Snapshot> {
        match self.ask(Request::Now).await? {
            Said::Now(snapshot) => Ok(snapshot),
            other => bail!("the server says {other:?} when asked what it has used"),
        }
    }

    /// Ends the server, if it still runs; what the bare stages of a round cost in its process, and how many answers of one
    /// bucket there were.
    pub(crate) async fn bench(&mut self) -> anyhow::Result<(Bench, u64)> {
        match self.ask(Request::Bench).await? {
            Said::Bench(bench, answers) => Ok((bench, answers)),
            other => bail!("the server says {other:?} when asked for its bench"),
        }
    }

    /// When a round came to a point; it must have.
    ///
    /// # Errors
    /// If it has not.
    pub fn point(&self, round: u64, point: Point) -> anyhow::Result<Spent> {
        let found = self.points.iter().find(|(other, at, _)| (*other, *at) == (round, point));
        let (_, _, snapshot) = found.with_context(|| format!("round {round} was never {point:?}"))?;
        Ok(snapshot.spent)
    }

    async fn ask(&mut self, request: Request) -> anyhow::Result<Said> {
        writeln!(self.input, "{}", serde_json::to_string(&request)?).context("the server has ended")?;
        self.hear().await
    }

    /// Why it cannot go on, as soon as it says so.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        loop {
            if let Err(error) = self.hear().await {
                return error;
            }
        }
    }

    /// The next thing it says, beside what happens to its rounds. Whoever stops waiting has missed nothing.
    async fn hear(&mut self) -> anyhow::Result<Said> {
        loop {
            match self.said.recv().await {
                None => {
                    let status = self.process.wait()?;
                    if status.signal() == Some(9) {
                        let reason = "the server was killed, as the system does where memory ends".to_owned();
                        return Err(Refused(reason).into());
                    }
                    bail!("the server has ended by itself ({status})");
                }
                Some(Said::Failed(reason)) => return Err(Refused(format!("the server: {reason}")).into()),
                Some(Said::Round { round, point, at }) => {
                    if point == Point::Abandoned {
                        let reason = format!(
                            "the server could not build round {round}: with this engine and code, queries (at most {} MiB \
                             together), answers or mapping are larger than the protocol allows; retrieve fewer messages",
                            QUERY_MAX >> 20
                        );
                        return Err(Refused(reason).into());
                    }
                    self.points.push((round, point, at));
                }
                Some(other) => return Ok(other),
            }
        }
    }
}

/// What a server says that cannot serve as it was told to.
#[derive(Debug)]
pub struct Refused(pub(crate) String);

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Refused {}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
