//! The server's side.

use core::time::Duration;
use std::sync::Arc;

use anyhow::Context;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Answer, Backups, LINE_MAX, NextKey, Request, Socket, announce, backup, node, transfer};
use crate::peers::Joined;

/// Connections at a time; more wait.
pub(super) const CONNECTIONS: usize = 8;
/// How long a question may take to come, and an answer to be taken.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What can be asked for.
pub(crate) struct Commands {
    /// This node's part in its cluster; none of a server alone.
    pub(crate) node: Option<Joined>,
    pub(crate) backups: Backups,
    /// The manifest key that follows; none where there are no rounds.
    pub(crate) next: Option<NextKey>,
}

/// Answers until it is told to stop; then the socket is gone.
pub(crate) async fn serve(socket: Socket, commands: Commands, stop: CancellationToken) {
    let (room, commands) = (Arc::new(Semaphore::new(CONNECTIONS)), Arc::new(commands));
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((socket.accept().await.ok()?, place))
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accepted => accepted,
        };
        let Some((stream, place)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (commands, stop) = (Arc::clone(&commands), stop.clone());
        tokio::spawn(async move {
            let _place = place;
            tokio::select! {
                () = stop.cancelled() => {}
                // Who asked may have gone.
                _ = commands.answer(stream) => {}
            }
        });
    }
}

impl Commands {
    async fn answer(&self, mut stream: UnixStream) -> anyhow::Result<()> {
        let request = timeout(PATIENCE, question(&mut stream)).await.context("no question came in time")?;
        match request {
            Ok(Request::Transfer { to }) => {
                tell(&mut stream, transfer::run(self.node.as_ref(), to).await).await
            }
            Ok(Request::Node { change }) => {
                tell(&mut stream, node::run(self.node.as_ref(), change).await).await
            }
            Ok(Request::Announce) => tell(&mut stream, announce::run(self.next.as_ref()).await).await,
            Ok(Request::Round) => tell(&mut stream, announce::open_round(self.next.as_ref()).await).await,
            Ok(Request::Backup) => match self.backups.take().await {
                Ok((taken, _place)) => {
                    tell(&mut stream, Ok(())).await?;
                    backup::send(taken, stream).await
                }
                Err(error) => tell::<()>(&mut stream, Err(error)).await,
            },
            Err(error) => tell::<()>(&mut stream, Err(error)).await,
        }
    }
}

async fn question(stream: &mut UnixStream) -> anyhow::Result<Request> {
    let mut line = Vec::new();
    let most = u64::try_from(LINE_MAX).unwrap_or(u64::MAX);
    BufReader::new(stream.take(most)).read_until(b'\n', &mut line).await?;
    serde_json::from_slice(&line)
        .context("the server does not know what is asked; is it a program of another version?")
}

async fn tell<T: Serialize>(stream: &mut UnixStream, result: anyhow::Result<T>) -> anyhow::Result<()> {
    let answer = match result {
        Ok(done) => Answer::Done(done),
        Err(error) => Answer::Refused(format!("{error:#}")),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    timeout(PATIENCE, stream.write_all(&line)).await.context("the answer is not taken")??;
    Ok(())
}
