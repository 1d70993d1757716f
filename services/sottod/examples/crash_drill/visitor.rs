//! Who is at a cluster: listeners, one at each node, and many that deposit at whichever node takes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use rand::rngs::StdRng;
use sotto_protocol::{Deposit, Round, SignedManifest};
use sotto_session::{Connection, ConnectionSettings, RoundNews, Session};
use sotto_wire::{Failure, Refused};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt as _;

use super::asking::deposit;
use super::child::session;

/// Time from the opening of a round within which clients deposit, ms.
const SPREAD_MS: u64 = 350;
/// Before another node is asked.
const PAUSE: Duration = Duration::from_millis(30);
/// A node that has said nothing for so long is left: it was killed, or has nobody to store anything with.
const PATIENCE: Duration = Duration::from_secs(2);

/// What nodes have said of rounds.
#[derive(Default)]
pub(super) struct News {
    /// The newest that takes deposits.
    opened: Option<Round>,
    /// Those that can be retrieved.
    pub(super) ready: BTreeMap<Round, SignedManifest>,
    /// What no node may say.
    pub(super) wrong: Option<String>,
}

/// Listens to one node, whenever it is there.
pub(super) async fn listen(node: ConnectionSettings, account: usize, tell: watch::Sender<News>) {
    loop {
        if let Some(session) = open(&node, account).await
            && let Ok(events) = session.watch().await
        {
            let mut events = core::pin::pin!(events);
            while let Some(Ok(news)) = events.next().await {
                tell.send_modify(|all| all.take(news));
            }
        }
        sleep(PAUSE).await;
    }
}

impl News {
    fn take(&mut self, news: RoundNews) {
        match news {
            RoundNews::Opened { round, .. } => self.opened = self.opened.max(Some(round)),
            RoundNews::Ready { manifest, .. } => {
                let (round, manifest) = (manifest.claimed_round(), manifest.with_segment(None));
                let known = self.ready.entry(round).or_insert_with(|| manifest.clone());
                if *known != manifest {
                    self.wrong = Some(format!("round {round} has two manifests"));
                }
            }
            RoundNews::Announced(_) | RoundNews::Directory(_) => {}
        }
    }
}

async fn open(node: &ConnectionSettings, account: usize) -> Option<Session> {
    let opened = async {
        let connection = Connection::open(node).await.ok()?;
        let info = connection.info().await.ok()?;
        session(&connection, &info, account, None).await.ok()
    };
    timeout(PATIENCE, opened).await.ok().flatten()
}

/// What nodes acknowledged to one client.
#[derive(Default)]
pub(super) struct Visited {
    /// Which account, if it was registered.
    pub(super) account: Option<usize>,
    pub(super) deposits: Vec<(Round, Deposit)>,
}

/// Deposits once in every round that it hears of, and the same at another node while no node says that it is stored.
pub(super) struct Visitor {
    pub(super) number: usize,
    pub(super) rng: StdRng,
    pub(super) nodes: Arc<[ConnectionSettings]>,
    pub(super) news: watch::Receiver<News>,
    pub(super) stopped: watch::Receiver<bool>,
}

impl Visitor {
    pub(super) async fn deposit(mut self) -> Visited {
        let mut visited = Visited::default();
        let mut place = self.number % self.nodes.len();
        let mut at: Option<Session> = None;
        let mut done = None;
        while !*self.stopped.borrow() {
            let opened = self.news.borrow_and_update().opened;
            if opened > done
                && let Some(round) = opened
            {
                done = opened;
                sleep(Duration::from_millis(self.rng.random_range(0..SPREAD_MS))).await;
                let (deposit, bytes) = deposit(&mut self.rng, None);
                if self.bring(round, bytes, &mut place, &mut at, &mut visited.account).await {
                    visited.deposits.push((round, deposit));
                }
                continue;
            }
            tokio::select! {
                changed = self.news.changed() => if changed.is_err() { break },
                _ = self.stopped.wait_for(|stopped| *stopped) => {}
            }
        }
        visited
    }

    /// Whether a node has acknowledged it.
    async fn bring(
        &self,
        round: Round,
        bytes: Bytes,
        place: &mut usize,
        at: &mut Option<Session>,
        account: &mut Option<usize>,
    ) -> bool {
        // Once a later round is open, this one takes nothing any more.
        while self.news.borrow().opened <= Some(round) && !*self.stopped.borrow() {
            let session = match at.take() {
                Some(session) => session,
                None => match open(&self.nodes[*place], self.number).await {
                    Some(session) => session,
                    None => {
                        *place = (*place + 1) % self.nodes.len();
                        sleep(PAUSE).await;
                        continue;
                    }
                },
            };
            *account = Some(self.number);
            match timeout(PATIENCE, session.deposit(round, &bytes)).await {
                Ok(Ok(())) => {
                    *at = Some(session);
                    return true;
                }
                Ok(Err(Failure::Refused(Refused::RoundClosed))) => {
                    *at = Some(session);
                    return false;
                }
                Ok(Err(Failure::Refused(Refused::Busy))) => {
                    *at = Some(session);
                    sleep(PAUSE).await;
                }
                // Lost, or not as far as the others: the same goes to the next one.
                Ok(Err(_)) | Err(_) => *place = (*place + 1) % self.nodes.len(),
            }
        }
        false
    }
}
