//! What all connections to programs share.

mod files;

use core::time::Duration;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sotto_protocol::client::Notice;
use sotto_protocol::{Client, ConversationId, RoundMode};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::account::{as_said, texts};
use super::blocked::drop_hidden;
use super::day::Day;
use super::devices::{Devices, no_device, unkept};
use super::door::{Came, Door};
use super::face::Face;
use super::held::{Hand, Held, Key, Standing};
use super::history::{History, Stand};
use super::journal::{Entry, Journal};
use super::message::{Account, Audited, Device, Found, Listening, Note, Reply, Severity, Status, Text};
use super::notes;
use super::pauses::{self, Pauses};
use crate::Address;
use crate::cli::failure::Failure;
use sotto_participant::host::now;
use sotto_participant::{Event, Events, Handle};

/// Of what a conversation's history may differ after this, if of any.
fn concerns(event: &Event) -> Option<Of> {
    match event {
        Event::Notice(
            Notice::Text { conversation, .. }
            | Notice::Acknowledged { conversation, .. }
            | Notice::NotSent { conversation, .. },
        ) => Some(Of::Id(*conversation)),
        Event::Notice(Notice::Expired { .. }) => Some(Of::All),
        _ => None,
    }
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
    day: Mutex<Day>,
    pauses: Mutex<Pauses>,
    /// Those who have not answered, of whom a person was told.
    reminded: Mutex<BTreeSet<ConversationId>>,
    stop: Notify,
    pub(super) journal: Arc<Journal>,
    pub(super) history: Arc<History>,
    /// Held while the history is compared with how things stand, so that nothing older is compared behind something newer.
    settling: Arc<tokio::sync::Mutex<()>>,
    /// Whether a person was told that the history cannot be written.
    complained: AtomicBool,
    face: Face,
    pub(super) held: Held,
    devices: Arc<Devices>,
    door: Option<Arc<Door>>,
}

/// Of what the history is compared with how it stands.
pub(super) enum Of {
    Id(ConversationId),
    Named(String),
    All,
}

impl Desk {
    pub(super) fn new(
        handle: Handle,
        name: String,
        server: Address,
        leaves: Option<Instant>,
        (journal, history): (Arc<Journal>, Arc<History>),
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
            day: Mutex::default(),
            pauses: Mutex::default(),
            reminded: Mutex::default(),
            stop: Notify::new(),
            journal,
            history,
            settling: Arc::default(),
            complained: AtomicBool::new(false),
            face,
            held: Held::default(),
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

    /// Something runs here, which is told if nothing had for long.
    pub(super) fn beat(&self) {
        let told = self.pauses().beat(now()).map(pauses::told);
        self.write(told.map(Entry::Passing));
    }

    /// Writes down what the participant tells. If the participant is gone, its client is needed for that: then the event
    /// comes back, for [`Desk::hear_last`].
    pub(super) async fn hear(&self, event: Event) -> Option<Arc<Event>> {
        // It may be the first thing that runs again.
        self.beat();
        if self.pauses().explain(now(), &event) {
            return None;
        }
        match &event {
            Event::ConnectionLost(_) => self.connected.store(false, Ordering::Relaxed),
            Event::ConnectionRestored => self.connected.store(true, Ordering::Relaxed),
            Event::Step { round, step } => {
                if let sotto_participant::Step::Opened(elapsed) = step {
                    self.opened().replace((round.0, *elapsed, Instant::now()));
                }
                self.journal.write(Entry::Step(round.0, notes::step(*step)));
                return None;
            }
            Event::RoundReport(_) => {
                self.touch().await;
                self.remind().await;
            }
            _ => {}
        }
        if let Some(of) = concerns(&event) {
            self.settle(of).await;
            self.feed().await;
        }
        if let Event::Notice(Notice::Acknowledged { message, .. }) = &event
            && let Some(name) = self.history.arrived_file(message.conversation, message.sequence)
        {
            self.write(Some(Entry::Passing(Note::new(
                Severity::Notice,
                format!("the file {name} has arrived"),
            ))));
        }
        let event = Arc::new(event);
        let (told, blocked) = (Arc::clone(&event), self.history.blocked());
        let entry = move |client: &Client| {
            (!blocked.hides_event(client, &told)).then(|| notes::entry(&told, client)).flatten()
        };
        match self.handle.ask(entry).await {
            Ok(entry) => self.write(entry),
            Err(_) => return Some(event),
        }
        None
    }

    /// Compares the history with how things stand. One that has stopped is compared as a whole when it is gone.
    pub(super) async fn settle(&self, of: Of) {
        let alone = Arc::clone(&self.settling).lock_owned().await;
        let all = matches!(of, Of::All);
        let blocked = self.history.blocked();
        let hides = blocked.clone();
        let stands = move |client: &Client| {
            let stand = |id| Stand::of(client, id, &blocked);
            match of {
                Of::Id(id) => stand(id).into_iter().collect(),
                Of::Named(name) => client.find(&name).and_then(stand).into_iter().collect(),
                Of::All => Stand::all(client, &blocked),
            }
        };
        let Ok(stands): Result<Vec<Stand>, _> = self.handle.ask(stands).await else { return };
        let has_hidden = stands.iter().any(|stand| !stand.hidden.is_empty());
        let history = Arc::clone(&self.history);
        let written = spawn_blocking(move || {
            let now = Some(now());
            let written = match (all, &stands[..]) {
                (false, [stand]) => history.settle(stand, now),
                (false, _) => Ok(Vec::new()),
                (true, stands) => history.settle_all(stands, now),
            };
            drop(alone);
            written
        });
        let written = written.await.unwrap_or_else(|_| Ok(Vec::new()));
        let taken = written.as_ref().map_or_else(|_| Vec::new(), Vec::clone);
        if has_hidden || !taken.is_empty() {
            let drop_all = move |client: &mut Client| {
                drop_hidden(client, &hides);
                taken.iter().for_each(|number| client.drop_unshown(*number));
            };
            // Of one that has stopped they are dropped when it comes again.
            let _ = self.handle.change(drop_all).await;
            // How far a file is that comes.
            self.journal.write(Entry::Changed);
        }
        self.complain(written.map(|_| ()));
    }

    /// Tells once that the history cannot be written, and again when it could and cannot once more.
    fn complain(&self, written: io::Result<()>) {
        let told = self.complained.swap(written.is_err(), Ordering::Relaxed);
        if let Err(error) = written
            && !told
        {
            let line = format!("warning: {}", self.history.unwritten(&error));
            self.write(Some(Entry::Lasting(Note::new(Severity::Warning, line))));
        }
    }

    /// When the history was written last is when the last round ended, whatever was said in it.
    async fn touch(&self) {
        let history = Arc::clone(&self.history);
        // One that cannot be written is complained about when something is to be.
        let _ = spawn_blocking(move || history.touch()).await;
    }

    /// Tells of those who have not answered to an invitation that was accepted here, each once while this runs.
    async fn remind(&self) {
        let blocked = self.history.blocked();
        let Ok(late) = self.handle.ask(move |client| notes::unanswered(client, &blocked, now())).await else {
            return;
        };
        for (id, line) in late {
            if self.reminded.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
                self.write(Some(Entry::Lasting(Note::new(Severity::Warning, line))));
            }
        }
    }

    /// Marks texts that go to a program and may have been seen. Of one that shows them at once it is noted before, on the disk.
    pub(super) async fn hand(&self, hand: &Hand<'_>, texts: &mut [Text], shows: bool) -> Result<(), Failure> {
        let keys: Vec<Key> = texts.iter().map(|text| (text.id, text.number)).collect();
        let again = if shows {
            self.note(hand, &keys).await?
        } else {
            hand.look(&keys, &self.standing(&keys).await?)
        };
        texts.iter_mut().for_each(|text| text.again = again.contains(&text.number));
        Ok(())
    }

    /// A program is about to show the texts of a conversation up to this number, which is noted on the disk.
    pub(super) async fn offer(
        &self,
        hand: &Hand<'_>,
        id: ConversationId,
        number: u64,
    ) -> Result<Reply, Failure> {
        let about = move |client: &Client| -> Vec<Key> {
            let about = client.unshown().filter(|text| text.conversation == id && text.number <= number);
            about.map(|text| (id, text.number)).collect()
        };
        let keys = self.handle.ask(about).await?;
        let again = self.note(hand, &keys).await?.into_iter().collect();
        Ok(Reply::Offered { again })
    }

    /// Notes that a program is about to show texts; the numbers of those that may have been seen already.
    async fn note(&self, hand: &Hand<'_>, keys: &[Key]) -> Result<BTreeSet<u64>, Failure> {
        let standing = self.standing(keys).await?;
        let again = hand.show(keys, &standing);
        let numbers: BTreeSet<u64> = keys.iter().map(|key| key.1).collect();
        if !numbers.is_subset(&standing.offered)
            && let Err(error) = self.handle.change(move |client| client.offer(&numbers)).await
        {
            hand.put_back(keys);
            return Err(error.into());
        }
        Ok(again)
    }

    async fn standing(&self, keys: &[Key]) -> Result<Standing, Failure> {
        let numbers: Vec<u64> = keys.iter().map(|key| key.1).collect();
        let look = move |client: &Client| Standing {
            offered: numbers.into_iter().filter(|number| client.was_offered(*number)).collect(),
            there: client.unshown().map(|text| text.number).collect(),
        };
        Ok(self.handle.ask(look).await?)
    }

    /// Texts that nobody has seen, as they are shown.
    pub(super) async fn texts(&self) -> Result<Vec<Text>, Failure> {
        let blocked = self.history.blocked();
        Ok(self.present(self.handle.ask(move |client| texts(client, &blocked)).await?))
    }

    pub(super) fn present(&self, texts: Vec<Text>) -> Vec<Text> {
        texts.into_iter().map(|text| self.history.present(text)).collect()
    }

    /// Writes down what a participant told that is gone: what nobody could write down any more, and what nobody had heard.
    pub(super) fn hear_last(&self, client: &Client, untold: Vec<Arc<Event>>, events: &mut Events) {
        let stands = Stand::all(client, &self.history.blocked());
        self.complain(self.history.settle_all(&stands, Some(now())).map(|_| ()));
        let unheard = core::iter::from_fn(|| events.try_recv().ok().map(Arc::new));
        let heard = untold.into_iter().chain(unheard);
        let blocked = self.history.blocked();
        heard
            .filter(|event| !blocked.hides_event(client, event))
            .for_each(|event| self.write(notes::entry(&event, client)));
    }

    fn write(&self, entry: Option<Entry>) {
        let entry = match entry {
            Some(Entry::Text(text)) => Some(Entry::Text(self.history.present(text))),
            Some(Entry::Round(mut cost)) => {
                let mut day = self.day.lock().unwrap_or_else(PoisonError::into_inner);
                cost.bytes_day = day.add(now(), cost.bytes_up + cost.bytes_down);
                Some(Entry::Round(cost))
            }
            entry => entry,
        };
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
        let account = match account {
            Account::SendFile { conversation, name, content } => {
                return self.send_file(conversation, name, &content).await;
            }
            account => account,
        };
        if account.is_of_history() {
            let (history, looks) = (Arc::clone(&self.history), account.only_looks());
            let asked = self.handle.ask(move |client| account.asked(client)).await??;
            let answered = spawn_blocking(move || asked.answer(&history)).await;
            if !looks {
                // What is blocked now goes.
                self.settle(Of::All).await;
                self.journal.write(Entry::Changed);
            }
            return answered.unwrap_or_else(|error| Err(Failure::other(error.to_string())));
        }
        if account.only_looks() {
            let blocked = self.history.blocked();
            let ways = self.history.ways();
            return self.handle.ask(move |client| account.look(client, &blocked, &ways)).await?;
        }
        let of = account.touches();
        let shown = match &account {
            Account::Shown { id, number } => Some((*id, *number)),
            _ => None,
        };
        if let Some((id, number)) = shown
            && !self.history.has_unread(number)
        {
            // What is seen goes from the state, and stands in the history before.
            self.settle(Of::Id(id)).await;
        }
        let (server, blocked) = (self.server.clone(), self.history.blocked());
        let perform = move |client: &mut Client| {
            account.check(client, &blocked)?;
            let says = match &account {
                Account::Say { conversation, text } => client.find(conversation).map(|id| (id, text.clone())),
                Account::SayTo { id, text } => Some((*id, text.clone())),
                _ => None,
            };
            let reply = account.perform(client, &server)?;
            let said = match (&reply, says) {
                (Reply::Queued { sequence, .. }, Some((id, text))) => {
                    Some((as_said(client, id, *sequence, &text.0), !client.members(id).is_empty()))
                }
                _ => None,
            };
            Ok::<_, Failure>((reply, said))
        };
        let done = self.handle.change(perform).await?;
        match shown {
            Some((id, number)) => {
                self.history.seen(id, number);
                self.held.shown(id, number);
            }
            None => self.settle(of).await,
        }
        let said = done.as_ref().ok().and_then(|(_, said)| said.clone());
        // Whoever listens sees it at once, whichever program has handed it in, or shown it.
        self.journal.write(match (said, shown) {
            (Some((said, group)), _) => Entry::Said(self.history.present_said(said, group)),
            (None, Some((id, number))) => Entry::Seen(id, number),
            (None, None) => Entry::Changed,
        });
        done.map(|(reply, _)| reply)
    }

    /// Whether there is a session, and with which node.
    pub(super) fn connection(&self) -> (bool, String) {
        (self.connected.load(Ordering::Relaxed), self.handle.node())
    }

    /// What one who listens finds.
    pub(super) async fn listening(&self, unshown: usize) -> Result<Listening, Failure> {
        let look = |client: &Client| {
            let conversations = client.conversations().into_iter().map(|it| it.id).collect();
            (client.server().clone(), client.settings().conversations, conversations)
        };
        let (server, places, conversations) = self.handle.ask(look).await?;
        let round_ms = (server.mode == RoundMode::Deadline).then_some(server.round_ms);
        let (connected, node) = self.connection();
        let opened = self.opened().map(|(round, elapsed, at)| {
            let elapsed = elapsed.saturating_add(at.elapsed());
            (round, u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
        });
        let name = self.name.clone();
        let delay_seconds = notes::delay(&server, places);
        Ok(Listening { name, connected, node, round_ms, delay_seconds, opened, conversations, unshown })
    }

    fn pauses(&self) -> MutexGuard<'_, Pauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
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
