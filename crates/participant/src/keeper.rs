//! The client apart from the calls. What it does takes as long as its secrets make it; nobody who makes calls waits for
//! it longer than until the call's time.

use std::sync::Arc;

use bytes::Bytes;
use sotto_protocol::client::{Client, Notice, Retrieval};
use sotto_protocol::error::Unknown;
use sotto_protocol::{Error, Round, ServerParameters, SignedManifest};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::command::{Ask, Change};
use super::error::HandleError;
use super::event::Trouble;
use crate::host::{Disk, Host, StorageError, Work, rng, run};

type Job = Box<dyn FnOnce(&mut KeptClient) + Send>;

/// Hands work to the client, which does it in the order it is handed in.
#[derive(Clone)]
pub(crate) struct Keeper {
    jobs: mpsc::UnboundedSender<(Work, Job)>,
}

/// The client, and where it is kept.
pub(crate) struct KeptClient {
    pub(crate) client: Client,
    host: Arc<dyn Host>,
    disk: Option<Box<dyn Disk>>,
    /// Whether the client has gone along with any round in this process.
    accepted: bool,
    /// A manifest that came before that: to one who returns, the server tells first what is ready. The client could not
    /// yet tell its number from an invented one.
    early: Option<(Round, SignedManifest)>,
}

/// A deposit, or why there is none.
pub(crate) struct Composed {
    pub(crate) bytes: Result<Bytes, Trouble>,
    /// Whether it was composed before this process began, by whoever left the state.
    pub(crate) inherited: bool,
    /// What became of a manifest that came before.
    pub(crate) early: Option<ManifestVerdict>,
}

/// What became of a manifest.
pub(crate) struct ManifestVerdict {
    /// None if nobody can tell.
    pub(crate) round: Option<Round>,
    pub(crate) notices: Vec<Notice>,
    /// Rounds, first and last, whose manifests are missing.
    pub(crate) missing: Option<(Round, Round)>,
}

/// What became of a round's elements.
pub(crate) struct Received {
    pub(crate) notices: Vec<Notice>,
    pub(crate) stored: Result<(), StorageError>,
}

impl Keeper {
    /// Starts. It ends, and gives back what it has, when nobody can hand in any more; nothing if the client has failed.
    pub(crate) fn start(
        host: Arc<dyn Host>,
        client: Client,
        disk: Option<Box<dyn Disk>>,
    ) -> (Self, JoinHandle<Option<KeptClient>>) {
        let (jobs, mut received) = mpsc::unbounded_channel::<(Work, Job)>();
        let mut kept = KeptClient { client, host: Arc::clone(&host), disk, accepted: false, early: None };
        let task = tokio::spawn(async move {
            while let Some((work, job)) = received.recv().await {
                let done = run(&host, work, move || {
                    job(&mut kept);
                    kept
                });
                kept = done.await?;
            }
            Some(kept)
        });
        (Self { jobs }, task)
    }

    /// Opens a round and composes its deposit: cover, unless the client may speak.
    pub(crate) fn compose(&self, round: Round, speaks: bool) -> oneshot::Receiver<Composed> {
        self.hand_in(Work::Compose, move |kept| kept.compose(round, speaks))
    }

    /// Gives a manifest to the client, which decides whether it holds.
    pub(crate) fn believe(
        &self,
        round: Round,
        signed: SignedManifest,
    ) -> oneshot::Receiver<Option<ManifestVerdict>> {
        self.hand_in(Work::Believe, move |kept| kept.take_manifest(round, signed))
    }

    /// A copy of the client as it is then.
    pub(crate) fn copy(&self) -> oneshot::Receiver<Option<Client>> {
        self.hand_in(Work::Believe, |kept| Client::restore(&kept.client.snapshot()).ok())
    }

    /// Gives a round's elements to the client.
    pub(crate) fn take(
        &self,
        retrieval: Retrieval,
        elements: Vec<Option<Vec<u8>>>,
    ) -> oneshot::Receiver<Received> {
        self.hand_in(Work::Take, move |kept| {
            let notices = kept.client.received(retrieval, elements);
            Received { notices, stored: kept.persist() }
        })
    }

    /// Gives missed manifests to the client.
    pub(crate) fn supply(&self, manifests: Vec<SignedManifest>) -> oneshot::Receiver<ManifestVerdict> {
        self.hand_in(Work::Believe, move |kept| {
            let notices = kept.client.supply_manifests(&manifests);
            ManifestVerdict { round: None, notices, missing: kept.client.missing_manifests() }
        })
    }

    /// Takes over another manifest key, and stores the client.
    pub(crate) fn adopt_keys(
        &self,
        parameters: ServerParameters,
    ) -> oneshot::Receiver<Result<(), StorageError>> {
        self.hand_in(Work::Believe, move |kept| {
            // The gate, which keeps the same of the server, has taken it.
            let _ = kept.client.adopt_keys(parameters);
            kept.persist()
        })
    }

    /// Keeps a proof against the server; the place where it is.
    pub(crate) fn keep_proof(
        &self,
        round: Round,
        proof: Vec<u8>,
    ) -> oneshot::Receiver<Result<String, String>> {
        self.hand_in(Work::Audit, move |kept| match &kept.disk {
            Some(disk) => disk.keep_proof(round, &proof),
            None => Err("this account is not kept on a disk".to_owned()),
        })
    }

    /// Keeps a directory of the server's nodes. It is told again, and so nobody needs to know if that fails.
    pub(crate) fn keep_directory(&self, signed: Vec<u8>) {
        drop(
            self.hand_in(Work::Believe, move |kept| {
                kept.disk.as_ref().map(|disk| disk.keep_directory(&signed))
            }),
        );
    }

    /// Changes the client and stores it. What cannot be stored is taken back: whoever is told that nothing was done must not be
    /// found to have said it later.
    pub(crate) fn change(&self, change: Change) {
        // The caller hears from the change itself.
        drop(self.hand_in(Work::Person, move |kept| {
            let before = kept.disk.is_some().then(|| kept.client.snapshot());
            let reply = change(&mut kept.client);
            let stored = kept.persist();
            if stored.is_err()
                && let Some(Ok(client)) = before.map(|before| Client::restore(&before))
            {
                kept.client = client;
            }
            reply(stored.map_err(HandleError::Store));
        }));
    }

    pub(crate) fn ask(&self, ask: Ask) {
        drop(self.hand_in(Work::Person, move |kept| ask(&kept.client)));
    }

    /// Hands in at once, also if nobody waits for the answer. No answer comes if the client has failed.
    fn hand_in<T: Send + 'static>(
        &self,
        kind: Work,
        work: impl FnOnce(&mut KeptClient) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |kept| {
            // Who asked may have left.
            let _ = reply.send(work(kept));
        });
        let _ = self.jobs.send((kind, job));
        answer
    }
}

impl KeptClient {
    /// A deposit is given only if the client is stored as having used this round.
    fn compose(&mut self, round: Round, speaks: bool) -> Composed {
        let (now, mut rng) = (self.host.unix_now(), rng(&self.host));
        let opened = if speaks {
            self.client.open_round(round, now, &mut rng)
        } else {
            self.client.pass_round(round, now, &mut rng)
        };
        let deposit = self.client.outgoing().filter(|(of, _)| *of == round);
        let composed = deposit.map(|(_, bytes)| Bytes::from(bytes));
        let (mut early, inherited) = (None, opened.is_err());
        let bytes = match (opened, composed) {
            // Opened now, or before this process began.
            (Ok(()) | Err(Error::RoundReplayed(_)), Some(bytes)) => {
                self.accepted = true;
                early = self.early.take().map(|(round, signed)| self.believe(round, &signed));
                self.persist().map(|()| bytes).map_err(Trouble::Store)
            }
            (Ok(()), None) => Err(Trouble::RoundRefused(Error::Unknown(Unknown::Deposit))),
            (Err(error), _) => Err(Trouble::RoundRefused(error)),
        };
        Composed { bytes, inherited, early }
    }

    fn take_manifest(&mut self, round: Round, signed: SignedManifest) -> Option<ManifestVerdict> {
        if !self.accepted && round > self.client.newest_round() {
            self.early = Some((round, signed));
            return None;
        }
        Some(self.believe(round, &signed))
    }

    fn believe(&mut self, round: Round, signed: &SignedManifest) -> ManifestVerdict {
        let notices = self.client.ready(signed);
        ManifestVerdict { round: Some(round), notices, missing: self.client.missing_manifests() }
    }

    /// Puts the client on the disk.
    pub(crate) fn persist(&self) -> Result<(), StorageError> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.save(&self.client.snapshot()))
    }

    /// The client, its store given up before, so that whoever gets it can open the store again.
    pub(crate) fn into_client(self) -> Client {
        drop(self.disk);
        self.client
    }
}
