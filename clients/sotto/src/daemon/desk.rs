//! What all connections to programs share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::face::Face;
use super::journal::{Entry, Journal};
use super::message::{Account, Audited, Found, Reply, Status};
use super::notes;
use crate::cli::failure::Failure;
use crate::{Event, Handle};

/// Where programs come to.
pub(super) struct Desk {
    handle: Handle,
    name: String,
    server: String,
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
        server: String,
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

    /// Writes down what the participant tells.
    pub(super) async fn hear(&self, event: Event) {
        match &event {
            Event::ConnectionLost(_) => self.connected.store(false, Ordering::Relaxed),
            Event::ConnectionRestored => self.connected.store(true, Ordering::Relaxed),
            _ => {}
        }
        // One that has stopped has nothing to tell any more.
        let Ok(entry) = self.handle.ask(move |client| notes::entry(&event, client)).await else { return };
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
        self.handle.change(move |client| account.perform(client)).await?
    }

    pub(super) async fn status(&self) -> Result<Reply, Failure> {
        let round = self.handle.ask(|client| client.newest_round().0).await?;
        Ok(Reply::Status(Status {
            name: self.name.clone(),
            server: self.server.clone(),
            process: std::process::id(),
            connected: self.connected.load(Ordering::Relaxed),
            round,
            online_seconds: self.since.elapsed().as_secs(),
            leaves_in_seconds: self.leaves.map(|leaves| (leaves - Instant::now()).as_secs()),
            attached: self.journal.listeners(),
        }))
    }
}
