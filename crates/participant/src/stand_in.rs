//! A session that is held ready with another node than the one of the session in use, with the keys uploaded there. When that
//! one is lost, it takes its place: no handshake, no upload.
//!
//! What it does follows from the account, the nodes, the schedule of keys and what fails. It is opened at a time of the account's
//! own, so that people who lose one node together do not all bring their keys to another one together.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sotto_session::Session;
use sotto_wire::Address;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::keys::PublicKeys;
use super::link::Account;
use super::turn::{Pause, draw};
use crate::host::Host;
use sotto_session::ConnectionSettings;

/// Within this time after it is wanted, or was lost, it is opened. With 5,000 people who lose one node, 63 MB of keys come to
/// the others in a second.
const SPREAD: Duration = Duration::from_secs(60);

type Held = (ConnectionSettings, Session);

/// Holds a session ready, as long as this exists.
pub(crate) struct StandIn {
    /// Who may stand in, in order; nobody for none.
    wanted: watch::Sender<Vec<ConnectionSettings>>,
    held: Arc<Mutex<Option<Held>>>,
    task: JoinHandle<()>,
}

impl StandIn {
    /// Begins with nobody wanted. `keys` are what a stand-in is to have; when there are others, they are uploaded at once.
    pub(crate) fn new(host: Arc<dyn Host>, account: Arc<Account>, keys: watch::Receiver<PublicKeys>) -> Self {
        let (sender, wanted) = watch::channel(Vec::new());
        let held = Arc::<Mutex<Option<Held>>>::default();
        let holder = Holder { host, account, wanted, keys, held: Arc::clone(&held), opened: 0 };
        Self { wanted: sender, held, task: tokio::spawn(holder.run()) }
    }

    /// Has one of these stand in. One that does already stays.
    pub(crate) fn want(&self, nodes: Vec<ConnectionSettings>) {
        self.wanted.send_replace(nodes);
    }

    /// Takes out what is ready. From now on nobody is wanted.
    pub(crate) fn take(&self) -> Option<Held> {
        let held = lock(&self.held).take();
        self.want(Vec::new());
        held
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Holder {
    host: Arc<dyn Host>,
    account: Arc<Account>,
    wanted: watch::Receiver<Vec<ConnectionSettings>>,
    keys: watch::Receiver<PublicKeys>,
    held: Arc<Mutex<Option<Held>>>,
    /// How often it was begun to open one.
    opened: u64,
}

impl Holder {
    async fn run(mut self) {
        loop {
            let nodes = self.wanted.borrow_and_update().clone();
            if nodes.is_empty() {
                if self.wanted.changed().await.is_err() {
                    return;
                }
                continue;
            }
            self.opened += 1;
            let pause = draw(&self.account.public, Pause::BeforeStandIn, self.opened, SPREAD);
            let opening = open(&self.host, &self.account, &mut self.keys, nodes, pause);
            let opened = tokio::select! {
                biased;
                changed = self.wanted.changed() => match changed {
                    Ok(()) => None,
                    Err(_) => return,
                },
                opened = opening => opened,
            };
            if let Some((node, session)) = opened {
                *lock(&self.held) = Some((node.clone(), session.clone()));
                self.keep(&node.address, &session).await;
                lock(&self.held).take();
            }
        }
    }

    /// Keeps the keys there what they should be, until the node is wanted no more, or fails.
    async fn keep(&mut self, node: &Address, session: &Session) {
        loop {
            tokio::select! {
                biased;
                () = unwanted(&mut self.wanted, node) => return,
                () = session.ended() => return,
                changed = self.keys.changed() => if changed.is_err() {
                    return;
                },
            }
            let keys = self.keys.borrow_and_update().encoded.clone();
            let uploaded = tokio::select! {
                biased;
                () = unwanted(&mut self.wanted, node) => return,
                uploaded = session.upload_keys(keys) => uploaded,
            };
            if uploaded.is_err() {
                return;
            }
        }
    }
}

/// A session with the first of these nodes where that succeeds, with the keys uploaded.
async fn open(
    host: &Arc<dyn Host>,
    account: &Account,
    keys: &mut watch::Receiver<PublicKeys>,
    nodes: Vec<ConnectionSettings>,
    pause: Duration,
) -> Option<Held> {
    sleep(pause).await;
    for node in nodes {
        let Ok(session) = account.connect(host, &node).await else { continue };
        let keys = keys.borrow_and_update().encoded.clone();
        if session.upload_keys(keys).await.is_ok() {
            return Some((node, session));
        }
    }
    None
}

/// Waits until a node is not among those that are wanted.
async fn unwanted(wanted: &mut watch::Receiver<Vec<ConnectionSettings>>, node: &Address) {
    // Whoever wants none any more is gone.
    drop(wanted.wait_for(|nodes| nodes.iter().all(|wanted| wanted.address != *node)).await);
}

/// No holder of the lock leaves anything half done.
fn lock(held: &Mutex<Option<Held>>) -> MutexGuard<'_, Option<Held>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
