//! The clients: one that watches, and many that deposit.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use rand::RngExt;
use rand::rngs::StdRng;
use sotto_protocol::{Deposit, OwnSlot, Round, SignedManifest};
use sotto_session::{ConnectError, Connection, RoundNews, Session};
use sotto_wire::{Info, Refused, limits};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;

use super::asking::deposit;
use super::child::{Child, session};

pub(super) type Manifests = BTreeMap<Round, SignedManifest>;

/// Time from the opening of a round within which clients deposit, ms.
const SPREAD_MS: u64 = 350;

/// What a server acknowledged to one client.
#[derive(Default)]
pub(super) struct Acknowledged {
    /// Which account, if it was registered.
    pub(super) account: Option<usize>,
    /// Its slot, if it has one.
    pub(super) slot: Option<OwnSlot>,
    /// The account, if the answer with its slot came from a server that is gone, and nobody heard it.
    pub(super) given_up: Option<usize>,
    pub(super) deposits: Vec<(Round, Deposit)>,
}

/// Deposits once in every round that it hears of.
pub(super) struct Depositor {
    pub(super) number: usize,
    pub(super) slot: Option<OwnSlot>,
    pub(super) rng: StdRng,
    pub(super) connection: Connection,
    pub(super) info: Info,
    pub(super) opened: watch::Receiver<Option<Round>>,
}

impl Depositor {
    /// Goes on until the server is gone; returns what was acknowledged.
    pub(super) async fn deposit(mut self) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        let session = match session(&self.connection, &self.info, self.number, self.slot.as_ref()).await {
            Ok(session) => session,
            Err(error) => {
                let lost = error == ConnectError::Refused(Refused::Slot);
                acknowledged.given_up = lost.then_some(self.number);
                return acknowledged;
            }
        };
        acknowledged.account = Some(self.number);
        acknowledged.slot = self.slot.or_else(|| session.given_slot().cloned());
        loop {
            let opened = *self.opened.borrow_and_update();
            if let Some(round) = opened {
                // So that deposits come all the time, and a kill hits some on their way.
                tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..SPREAD_MS))).await;
                let (deposit, bytes) = deposit(&mut self.rng, acknowledged.slot.as_ref());
                // One that is late or gets no answer is not acknowledged, and may be there or not.
                if session.deposit(round, &bytes).await.is_ok() {
                    acknowledged.deposits.push((round, deposit));
                }
            }
            if self.opened.changed().await.is_err() {
                return acknowledged;
            }
        }
    }
}

/// Tells the others which round is open, and remembers the manifests.
pub(super) struct Watcher {
    pub(super) opened: watch::Receiver<Option<Round>>,
    ready: watch::Receiver<Option<Round>>,
    pub(super) session: Session,
    task: JoinHandle<Manifests>,
}

impl Watcher {
    pub(super) async fn start(server: &Child, number: usize, slot: Option<&OwnSlot>) -> anyhow::Result<Self> {
        let session = session(&server.connect().await?, &server.info, number, slot).await?;
        let events = session.watch().await?;
        let (tell_opened, opened) = watch::channel(None);
        let (tell_ready, ready) = watch::channel(None);
        let key = server.key();
        let task = tokio::spawn(async move {
            let mut manifests = Manifests::new();
            let mut events = core::pin::pin!(events);
            while let Some(Ok(news)) = events.next().await {
                match news {
                    RoundNews::Opened { round, .. } => {
                        tell_opened.send_replace(Some(round));
                    }
                    RoundNews::Ready { manifest: signed, .. } => {
                        let Ok(manifest) = signed.verify(&key) else { break };
                        manifests.insert(manifest.round, signed.with_segment(None));
                        tell_ready.send_replace(Some(manifest.round));
                    }
                    RoundNews::Announced(_) | RoundNews::Directory(_) => {}
                }
            }
            manifests
        });
        Ok(Self { opened, ready, session, task })
    }

    /// Waits until a round is ready; the newest that is.
    pub(super) async fn ready(&mut self) -> anyhow::Result<Round> {
        let ready = self.ready.wait_for(Option::is_some).await;
        ready.ok().and_then(|round| *round).context("no round becomes ready")
    }

    /// What it has seen until the server was gone.
    pub(super) async fn end(self) -> anyhow::Result<Manifests> {
        Ok(self.task.await?)
    }
}

/// The manifests of these rounds, both included.
pub(super) async fn manifests(session: &Session, first: Round, last: Round) -> anyhow::Result<Manifests> {
    let mut manifests = Manifests::new();
    let mut next = first;
    while next <= last {
        let most = last.min(Round(next.0 + limits::MANIFESTS_MAX as u64 - 1));
        for signed in session.manifests(next, most).await? {
            manifests.insert(signed.claimed_round(), signed.with_segment(None));
        }
        next = most.next();
    }
    Ok(manifests)
}
