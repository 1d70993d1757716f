//! What all connections to programs share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sotto_protocol::Client;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::face::Face;
use super::journal::{Entry, Journal};
use super::message::{Account, Audited, Found, Reply, Status};
use super::notes;
use crate::cli::failure::Failure;
use crate::{Address, Event, Events, Handle};

/// Where programs come to.
pub(super) struct Desk {
    handle: Handle,
    name: String,
    server: Address,
    since: Instant,
    leaves: Option<Instant>,
    connected: AtomicBool,
    stop: Notify,
    pub(super) journal: Arc<Journal>,
    face: Face,
}

impl Desk {
    pub(super) fn new(
        handle: Handle,
        name: String,
        server: Address,
        leaves: Option<Instant>,
        journal: Arc<Journal>,
        face: Face,
    ) -> Self {
        Self {
            handle,
            name,
            server,
            since: Instant::now(),
            leaves,
            connected: AtomicBool::new(true),
            stop: Notify::new(),
            journal,
            face,
        }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// A person wants to leave.
    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }

    /// Waits for that.
    pub(super) async fn stopped(&self) {
        self.stop.notified().await;
    }

    pub(super) fn leaving(&self) {
        let line =
            "going offline at the end of the round; what has not arrived goes out when you are online again";
        self.note(Entry::Passing(line.to_owned()), line);
    }

    fn note(&self, entry: Entry, line: &str) {
        self.face.note(line);
        self.journal.write(entry);
    }

    /// Writes down what the participant tells. If the participant is gone, its client is needed for that: then the event
    /// comes back, for [`Desk::hear_last`].
    pub(super) async fn hear(&self, event: Event) -> Option<Arc<Event>> {
        match &event {
            Event::ConnectionLost(_) => self.connected.store(false, Ordering::Relaxed),
            Event::ConnectionRestored => self.connected.store(true, Ordering::Relaxed),
            _ => {}
        }
        let event = Arc::new(event);
        let told = Arc::clone(&event);
        match self.handle.ask(move |client| notes::entry(&told, client)).await {
            Ok(entry) => self.write(entry),
            Err(_) => return Some(event),
        }
        None
    }

    /// Writes down what a participant told that is gone: what nobody could write down any more, and what nobody had heard.
    pub(super) fn hear_last(&self, client: &Client, untold: Vec<Arc<Event>>, events: &mut Events) {
        let unheard = core::iter::from_fn(|| events.try_recv().ok().map(Arc::new));
        untold.into_iter().chain(unheard).for_each(|event| self.write(notes::entry(&event, client)));
    }

    fn write(&self, entry: Option<Entry>) {
        match &entry {
            Some(Entry::Lasting(line) | Entry::Passing(line)) => self.face.note(line),
            Some(Entry::Audited(Audited { found, line, .. })) if *found != Found::Honest => {
                self.face.note(line);
            }
            Some(Entry::Round(line)) => {
                let programs = self.journal.listeners();
                self.face.round(&format!("{line}; {programs} programs attached"));
            }
            _ => {}
        }
        if let Some(entry) = entry {
            self.journal.write(entry);
        }
    }

    /// Does what needs nothing but the account's state.
    pub(super) async fn account(&self, account: Account) -> Result<Reply, Failure> {
        if account.only_looks() {
            return self.handle.ask(move |client| account.look(client)).await?;
        }
        let server = self.server.clone();
        self.handle.change(move |client| account.perform(client, &server)).await?
    }

    pub(super) async fn status(&self) -> Result<Reply, Failure> {
        let round = self.handle.ask(|client| client.newest_round().0).await?;
        Ok(Reply::Status(Status {
            name: self.name.clone(),
            server: self.server.authority(),
            process: std::process::id(),
            connected: self.connected.load(Ordering::Relaxed),
            round,
            online_seconds: self.since.elapsed().as_secs(),
            leaves_in_seconds: self.leaves.map(|leaves| (leaves - Instant::now()).as_secs()),
            attached: self.journal.listeners(),
        }))
    }
}
