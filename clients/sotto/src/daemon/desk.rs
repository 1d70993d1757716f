//! What all connections to programs share.

use core::time::Duration;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sotto_protocol::{Client, RoundMode};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::devices::Devices;
use super::door::{Came, Door};
use super::face::Face;
use super::journal::{Entry, Journal};
use super::message::{Account, Audited, Device, Found, Listening, Note, Reply, Severity, Status};
use super::notes;
use crate::cli::failure::Failure;
use crate::{Address, Event, Events, Handle};

/// What is told of a device that is none.
pub(crate) fn no_device(name: &str) -> Failure {
    Failure::other(format!("there is no device '{name}'; 'sotto devices' lists those there are"))
        .coded("device-unknown")
}

/// What is told when the list of devices cannot be read or written.
pub(crate) fn unkept(error: io::Error) -> Failure {
    Failure::state(format!("cannot read or keep the devices of this account: {error}"))
}

/// Where programs come to.
pub(super) struct Desk {
    handle: Handle,
    name: String,
    server: Address,
    since: Instant,
    leaves: Option<Instant>,
    connected: AtomicBool,
    /// The newest round, how long it had been open when that was heard, and when that was.
    opened: Mutex<Option<(u64, Duration, Instant)>>,
    stop: Notify,
    pub(super) journal: Arc<Journal>,
    face: Face,
    devices: Arc<Devices>,
    door: Option<Arc<Door>>,
}

impl Desk {
    pub(super) fn new(
        handle: Handle,
        name: String,
        server: Address,
        leaves: Option<Instant>,
        journal: Arc<Journal>,
        face: Face,
        (devices, door): (Arc<Devices>, Option<Arc<Door>>),
    ) -> Self {
        Self {
            handle,
            name,
            server,
            since: Instant::now(),
            leaves,
            connected: AtomicBool::new(true),
            opened: Mutex::new(None),
            stop: Notify::new(),
            journal,
            face,
            devices,
            door,
        }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Who takes part.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Does what concerns screens on other machines.
    pub(super) fn device(&self, device: Device) -> Result<Reply, Failure> {
        match device {
            Device::Pair { at } => {
                let door = self.door.as_ref().ok_or_else(|| {
                    Failure::other(
                        "this 'sotto run' takes no devices: 'sotto stop', and then 'sotto run --listen ADDRESS:PORT'",
                    )
                    .coded("device-no-door")
                })?;
                let (code, minutes) = door.code(at)?;
                Ok(Reply::Code { code, minutes })
            }
            Device::All => Ok(Reply::Devices(self.devices.all().map_err(unkept)?)),
            Device::Revoke { name } => match self.devices.revoke(&name).map_err(unkept)? {
                true => Ok(Reply::Done),
                false => Err(no_device(&name)),
            },
        }
    }

    /// Tells what became of one who has come from another machine.
    pub(super) fn came(&self, came: &Came) {
        let (severity, line) = match came {
            Came::Paired(name) => (Severity::Notice, format!("the device {name} is paired: what you see, it sees")),
            Came::Refused => (
                Severity::Warning,
                "warning: somebody came with a wrong code for a device; if it was not you, 'sotto devices' shows whom you have let in"
                    .to_owned(),
            ),
            Came::Device(_) | Came::Nobody => return,
        };
        self.face.note(&line);
        self.journal.write(Entry::Lasting(Note::new(severity, line)));
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
        self.face.note(line);
        self.journal.write(Entry::Passing(Note::new(Severity::Notice, line)));
    }

    /// Writes down what the participant tells. If the participant is gone, its client is needed for that: then the event
    /// comes back, for [`Desk::hear_last`].
    pub(super) async fn hear(&self, event: Event) -> Option<Arc<Event>> {
        match &event {
            Event::ConnectionLost(_) => self.connected.store(false, Ordering::Relaxed),
            Event::ConnectionRestored => self.connected.store(true, Ordering::Relaxed),
            Event::Step { round, step } => {
                if let crate::Step::Opened(elapsed) = step {
                    self.opened().replace((round.0, *elapsed, Instant::now()));
                }
                self.journal.write(Entry::Step(round.0, notes::step(*step)));
                return None;
            }
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
            Some(Entry::Lasting(note) | Entry::Passing(note)) => self.face.note(&note.line),
            Some(Entry::Audited(Audited { found, line, .. })) if *found != Found::Honest => {
                self.face.note(line);
            }
            Some(Entry::Round(cost)) => {
                let programs = self.journal.listeners();
                self.face.round(&format!("{}; {programs} programs attached", cost.line));
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
        let done = self.handle.change(move |client| account.perform(client, &server)).await?;
        self.journal.write(Entry::Changed);
        done
    }

    /// Whether there is a session, and with which node.
    pub(super) fn connection(&self) -> (bool, String) {
        (self.connected.load(Ordering::Relaxed), self.handle.node())
    }

    /// What one who listens finds.
    pub(super) async fn listening(&self, unshown: usize) -> Result<Listening, Failure> {
        let look = |client: &Client| {
            let conversations = client.conversations().into_iter().map(|it| it.id).collect();
            (client.server().clone(), conversations)
        };
        let (server, conversations) = self.handle.ask(look).await?;
        let round_ms = (server.mode == RoundMode::Deadline).then_some(server.round_ms);
        let (connected, node) = self.connection();
        let opened = self.opened().map(|(round, elapsed, at)| {
            let elapsed = elapsed.saturating_add(at.elapsed());
            (round, u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
        });
        let name = self.name.clone();
        Ok(Listening { name, connected, node, round_ms, opened, conversations, unshown })
    }

    fn opened(&self) -> MutexGuard<'_, Option<(u64, Duration, Instant)>> {
        // Nothing that holds it can leave it half changed.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
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
