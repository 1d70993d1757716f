//! The client on a thread of its own. What it does takes as long as its secrets make it; nobody who makes calls waits
//! for it longer than until the call's time.

use core::time::Duration;

use sotto_protocol::client::{Client, Notice, Retrieval};
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::{Error, Round, SignedManifest};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::driver::{Ask, Change};
use super::{HandleError, Trouble, now};
use crate::Store;

type Job = Box<dyn FnOnce(&mut Kept) + Send>;

/// Hands work to the client's thread, which does it in the order it is handed in.
#[derive(Clone)]
pub(super) struct Keeper {
    jobs: mpsc::UnboundedSender<Job>,
}

/// What the thread has.
pub(super) struct Kept {
    pub(super) client: Client,
    store: Option<Store>,
    /// Whether the client has gone along with any round in this process.
    accepted: bool,
    /// A manifest that came before that: to one who returns, the server tells first what is ready. The client could not
    /// yet tell its number from an invented one.
    early: Option<(Round, SignedManifest)>,
    compose_delay: Duration,
}

/// A deposit, or why there is none.
pub(super) struct Composed {
    pub(super) bytes: Result<[u8; DEPOSIT_BYTES], Trouble>,
    /// What became of a manifest that came before.
    pub(super) early: Option<Believed>,
}

/// What became of a manifest.
pub(super) struct Believed {
    /// None if nobody can tell.
    pub(super) round: Option<Round>,
    pub(super) notices: Vec<Notice>,
    /// Rounds, first and last, whose manifests are missing.
    pub(super) missing: Option<(Round, Round)>,
}

/// What became of a round's elements.
pub(super) struct Taken {
    pub(super) notices: Vec<Notice>,
    pub(super) stored: Result<(), String>,
}

impl Keeper {
    /// Starts the thread. It ends, and gives back what it has, when nobody can hand in any more.
    pub(super) fn start(
        client: Client,
        store: Option<Store>,
        compose_delay: Duration,
    ) -> (Self, JoinHandle<Kept>) {
        let (jobs, mut received) = mpsc::unbounded_channel::<Job>();
        let mut kept = Kept { client, store, accepted: false, early: None, compose_delay };
        let thread = tokio::task::spawn_blocking(move || {
            while let Some(job) = received.blocking_recv() {
                job(&mut kept);
            }
            kept
        });
        (Self { jobs }, thread)
    }

    /// Opens a round and composes its deposit.
    pub(super) fn compose(&self, round: Round) -> oneshot::Receiver<Composed> {
        self.hand_in(move |kept| kept.compose(round))
    }

    /// Gives a manifest to the client, which decides whether it holds.
    pub(super) fn believe(
        &self,
        round: Round,
        signed: SignedManifest,
    ) -> oneshot::Receiver<Option<Believed>> {
        self.hand_in(move |kept| kept.take_manifest(round, signed))
    }

    /// A copy of the client as it is then.
    pub(super) fn copy(&self) -> oneshot::Receiver<Option<Client>> {
        self.hand_in(|kept| Client::restore(&kept.client.snapshot()).ok())
    }

    /// Gives a round's elements to the client.
    pub(super) fn take(
        &self,
        retrieval: Retrieval,
        elements: Vec<Option<Vec<u8>>>,
    ) -> oneshot::Receiver<Taken> {
        self.hand_in(move |kept| {
            let notices = kept.client.received(retrieval, elements, now());
            Taken { notices, stored: kept.persist() }
        })
    }

    /// Gives missed manifests to the client.
    pub(super) fn supply(&self, manifests: Vec<SignedManifest>) -> oneshot::Receiver<Believed> {
        self.hand_in(move |kept| {
            let notices = kept.client.supply_manifests(&manifests);
            Believed { round: None, notices, missing: kept.client.missing_manifests() }
        })
    }

    pub(super) fn change(&self, change: Change) {
        // The caller hears from the change itself.
        drop(self.hand_in(move |kept| {
            let reply = change(&mut kept.client);
            reply(kept.persist().map_err(HandleError::Store));
        }));
    }

    pub(super) fn ask(&self, ask: Ask) {
        drop(self.hand_in(move |kept| ask(&kept.client)));
    }

    /// Hands in at once, also if nobody waits for the answer. No answer comes if the thread has failed.
    fn hand_in<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Kept) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |kept| {
            // Who asked may have left.
            let _ = reply.send(work(kept));
        });
        let _ = self.jobs.send(job);
        answer
    }
}

impl Kept {
    /// A deposit is given only if the client is stored as having used this round.
    fn compose(&mut self, round: Round) -> Composed {
        std::thread::sleep(self.compose_delay);
        let mut rng: rand::rngs::StdRng = rand::make_rng();
        let opened = self.client.open_round(round, now(), &mut rng);
        let deposit = self.client.deposit().filter(|(of, _)| *of == round);
        let composed = deposit.map(|(_, deposit)| deposit.encode());
        let mut early = None;
        let bytes = match (opened, composed) {
            // Opened now, or before this process began.
            (Ok(()) | Err(Error::RoundReplayed(_)), Some(bytes)) => {
                self.accepted = true;
                early = self.early.take().map(|(round, signed)| self.believe(round, &signed));
                self.persist().map(|()| bytes).map_err(Trouble::Store)
            }
            (Ok(()), None) => Err(Trouble::RoundRefused(Error::Unknown("deposit"))),
            (Err(error), _) => Err(Trouble::RoundRefused(error)),
        };
        Composed { bytes, early }
    }

    fn take_manifest(&mut self, round: Round, signed: SignedManifest) -> Option<Believed> {
        if !self.accepted && round > self.client.newest_round() {
            self.early = Some((round, signed));
            return None;
        }
        Some(self.believe(round, &signed))
    }

    fn believe(&mut self, round: Round, signed: &SignedManifest) -> Believed {
        let notices = self.client.ready(signed, now());
        Believed { round: Some(round), notices, missing: self.client.missing_manifests() }
    }

    /// Puts the client on the disk.
    pub(super) fn persist(&self) -> Result<(), String> {
        let Some(store) = &self.store else { return Ok(()) };
        store.save(&self.client.snapshot()).map_err(|error| error.to_string())
    }

    /// The client, its store given up before, so that whoever gets it can open the store again.
    pub(super) fn into_client(self) -> Client {
        drop(self.store);
        self.client
    }
}
