//! One program at the desk.

#[cfg(all(test, unix))]
mod tests;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use sotto_protocol::ConversationId;
use sotto_protocol::client::{Client, MessageId};
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, split};
use tokio::time::timeout;

use super::account::{find, standings, texts, waiting};
use super::desk::Desk;
use super::frame::{AWAY, Frames, HERE, write};
use super::journal::{Entry, Listener};
use super::message::{
    self, Attached, Audited, Found, Greeting, Message, Moving, Note, Reply, Request, Severity, Standing,
    Text, Told, VERSION,
};
use super::notes::{audit_pace, pace};
use crate::cli::failure::Failure;

/// Where a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// On this machine: a program of the person who runs the participant.
    Here,
    /// On a paired device, which may say all that a screen needs, but neither end the participant nor pair others.
    Away,
}

impl Seat {
    /// To whose multiples frames are filled up.
    fn step(self) -> usize {
        match self {
            Self::Here => HERE,
            Self::Away => AWAY,
        }
    }
}

/// Serves a program until it leaves.
pub(super) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, desk: &Desk, seat: Seat) {
    let (input, output) = split(stream);
    let mut program = Program { desk, seat, output, listening: None };
    // One that leaves in the middle needs nothing more.
    let _ = program.serve(Frames::new(input, seat.step())).await;
}

/// Within what a program that there is no room for has to have asked for something.
const ASKS_WITHIN: Duration = Duration::from_secs(2);

/// Answers a program's first request with why nobody serves it.
pub(super) async fn refuse(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let (input, mut output) = split(stream);
    let mut frames = Frames::new(input, Seat::Here.step());
    let said = async {
        write(&mut output, &Greeting::ours(), Seat::Here.step()).await?;
        frames.next::<Greeting>().await?;
        frames.next::<Request>().await?;
        let failure = Failure::other(
            "you are online, but as many programs have come to 'sotto run' as it serves: end some of them, and try again",
        );
        let reply = Message::Reply(Reply::Failed(failure.coded("too-many-programs")));
        write(&mut output, &reply, Seat::Here.step()).await
    };
    // Whoever does not listen needs nothing more.
    let _ = timeout(ASKS_WITHIN, said).await;
}

/// Within what a program that has connected says of which version it is.
const GREETS_WITHIN: Duration = Duration::from_secs(10);

struct Program<'a, S> {
    desk: &'a Desk,
    seat: Seat,
    output: WriteHalf<S>,
    listening: Option<Listening<'a>>,
}

/// What an attached program hears.
struct Listening<'a> {
    journal: Listener<'a>,
    wants: Wants,
    /// Up to this number, texts were handed to the program, or announced.
    handed: u64,
}

/// What an attached program wants to hear.
enum Wants {
    /// The texts of one conversation, and the notes.
    One {
        conversation: ConversationId,
        /// Also what every round costs.
        verbose: bool,
        /// How far files were when it was told.
        files: Vec<Moving>,
    },
    /// What is checked.
    Audits,
    /// Everything; with what it was told of how all stands.
    All(Known),
}

/// What one who listens knows.
#[derive(Default)]
struct Known {
    standings: BTreeMap<ConversationId, Standing>,
    connection: Option<(bool, String)>,
}

impl Wants {
    /// Whether texts of a conversation are handed out; of others it is told that there are some.
    fn texts_of(&self, id: ConversationId) -> bool {
        match self {
            Self::One { conversation, .. } => *conversation == id,
            Self::Audits => false,
            Self::All(_) => true,
        }
    }

    /// What becomes of an entry that is no text.
    fn told(&self, entry: Entry) -> Option<Told> {
        let is_all = matches!(self, Self::All(_));
        match entry {
            Entry::Lasting(note) | Entry::Passing(note) => Some(Told::Note(note)),
            Entry::Arrived(MessageId { conversation, sequence }) if self.texts_of(conversation) => {
                Some(Told::Arrived { id: conversation, sequence })
            }
            Entry::Audited(audited) if is_all || matches!(self, Self::Audits) => Some(Told::Audited(audited)),
            Entry::Audited(Audited { found: Found::Cheated, line, .. }) => {
                Some(Told::Note(Note::new(Severity::Alarm, line)))
            }
            Entry::Audited(Audited { found: Found::Open, line, .. }) => {
                Some(Told::Note(Note::new(Severity::Warning, line)))
            }
            Entry::Round(cost) if is_all || matches!(self, Self::One { verbose: true, .. }) => {
                Some(Told::Round(cost))
            }
            Entry::Step(round, step) if is_all => Some(Told::Step { round, step }),
            Entry::Said(said) if is_all => Some(Told::Said(said)),
            Entry::Text(_)
            | Entry::Arrived(_)
            | Entry::Round(_)
            | Entry::Audited(_)
            | Entry::Step(..)
            | Entry::Said(_)
            | Entry::Changed => None,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Program<'_, S> {
    async fn serve(&mut self, mut frames: Frames<ReadHalf<S>>) -> io::Result<()> {
        write(&mut self.output, &Greeting::ours(), self.seat.step()).await?;
        let greeting = timeout(GREETS_WITHIN, frames.next::<Greeting>()).await;
        match greeting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))? {
            Some(Greeting { sotto: VERSION, .. }) => {}
            _ => return Ok(()),
        }
        loop {
            tokio::select! {
                request = frames.next() => match request? {
                    Some(request) => self.answer(request).await?,
                    None => return Ok(()),
                },
                () = changed(&mut self.listening) => self.tell().await?,
            }
        }
    }

    async fn answer(&mut self, request: Request) -> io::Result<()> {
        let reply = match request {
            Request::Stop | Request::Device(_) if self.seat == Seat::Away => {
                Err(Failure::other("that is done where 'sotto run' is, and not on a device")
                    .coded("device-only-there"))
            }
            Request::Device(device) => self.desk.device(device),
            Request::Status => self.desk.status().await,
            Request::Stop => {
                self.desk.stop();
                Ok(Reply::Leaving)
            }
            Request::Account(account) => self.desk.account(account).await,
            Request::Audit { answers } => self.audit(answers).await,
            Request::Attach { conversation, verbose } => match self.attach(conversation, verbose).await {
                Ok((attached, texts)) => {
                    self.send(&Message::Reply(Reply::Attached(attached))).await?;
                    return self.catch_up(texts).await;
                }
                Err(failure) => Err(failure),
            },
            Request::Listen => match self.listen().await {
                Ok((listening, texts)) => {
                    self.send(&Message::Reply(Reply::Listening(listening))).await?;
                    self.compare().await?;
                    return self.catch_up(texts).await;
                }
                Err(failure) => Err(failure),
            },
        };
        self.send(&Message::Reply(reply.unwrap_or_else(Reply::Failed))).await
    }

    async fn attach(&mut self, name: String, verbose: bool) -> Result<(Attached, Vec<Text>), Failure> {
        let journal = self.desk.journal.listen();
        let blocked = self.desk.history.blocked();
        let look = move |client: &Client| {
            let conversation = find(client, &name)?;
            let texts = texts(client, &blocked);
            let of_it = |other: &&sotto_protocol::ConversationSummary| other.id == conversation;
            let attached = Attached {
                established: client.conversations().iter().find(of_it).is_some_and(|it| it.established),
                waiting: waiting(client, conversation),
                unshown: 0,
                pace: pace(client.server(), client.settings().conversations, &name),
            };
            Ok::<_, Failure>((conversation, attached, texts))
        };
        let (conversation, mut attached, texts) = self.desk.handle().ask(look).await??;
        let texts = self.desk.present(texts);
        attached.unshown = texts.iter().filter(|text| text.id == conversation).count();
        let wants = Wants::One { conversation, verbose, files: Vec::new() };
        self.listening = Some(Listening { journal, wants, handed: 0 });
        Ok((attached, texts))
    }

    async fn listen(&mut self) -> Result<(message::Listening, Vec<Text>), Failure> {
        let journal = self.desk.journal.listen();
        let texts = self.desk.texts().await?;
        let listening = self.desk.listening(texts.len()).await?;
        self.listening = Some(Listening { journal, wants: Wants::All(Known::default()), handed: 0 });
        Ok((listening, texts))
    }

    async fn audit(&mut self, answers: u32) -> Result<Reply, Failure> {
        let journal = self.desk.journal.listen();
        let handle = self.desk.handle();
        let pace = handle.ask(move |client| audit_pace(client.server(), answers)).await?;
        handle.audit(answers)?;
        self.listening = Some(Listening { journal, wants: Wants::Audits, handed: 0 });
        Ok(Reply::Auditing { pace })
    }

    /// Tells what happened since it was told last.
    async fn tell(&mut self) -> io::Result<()> {
        while let Some((missed, entry)) = self.listening.as_mut().and_then(|it| it.journal.next()) {
            let Some(listening) = &self.listening else { break };
            let told = match entry {
                Entry::Text(text) => {
                    self.hand_out(text).await?;
                    None
                }
                entry => listening.wants.told(entry),
            };
            if missed > 0 {
                let line = format!("warning: {missed} messages of this program were lost");
                self.send(&Message::Told(Told::Note(Note::new(Severity::Warning, line)))).await?;
            }
            if let Some(told) = told {
                self.send(&Message::Told(told)).await?;
            }
        }
        self.compare().await
    }

    /// Tells one who listens what has changed of how all stands.
    async fn compare(&mut self) -> io::Result<()> {
        let blocked = self.desk.history.blocked();
        let ways = self.desk.history.ways();
        let known = match self.listening.as_mut().map(|listening| &mut listening.wants) {
            Some(Wants::All(known)) => known,
            Some(Wants::One { conversation, files, .. }) => {
                let id = *conversation;
                let moving = move |client: &Client| match blocked.blocks(id) {
                    true => Vec::new(),
                    false => ways.of(client, id),
                };
                let Ok(moving) = self.desk.handle().ask(moving).await else { return Ok(()) };
                if *files == moving {
                    return Ok(());
                }
                let changed = moving.iter().filter(|file| !files.contains(file)).cloned().collect();
                *files = moving;
                return self.send(&Message::Told(Told::Files(changed))).await;
            }
            Some(Wants::Audits) | None => return Ok(()),
        };
        let mut changes = Vec::new();
        let connection = self.desk.connection();
        if known.connection.as_ref() != Some(&connection) {
            known.connection = Some(connection.clone());
            let (connected, node) = connection;
            changes.push(Told::Connection { connected, node });
        }
        // One that has stopped changes no more.
        if let Ok(standings) = self.desk.handle().ask(move |client| standings(client, &blocked, &ways)).await
        {
            let there: BTreeSet<_> = standings.iter().map(|standing| standing.id).collect();
            known.standings.retain(|id, _| {
                let stays = there.contains(id);
                changes.extend((!stays).then_some(Told::Forgotten { id: *id }));
                stays
            });
            for standing in standings {
                if known.standings.get(&standing.id) != Some(&standing) {
                    known.standings.insert(standing.id, standing.clone());
                    changes.push(Told::Standing(standing));
                }
            }
        }
        for change in changes {
            self.send(&Message::Told(change)).await?;
        }
        Ok(())
    }

    /// Hands out what nobody has seen yet of the program's conversation, and announces what there is of others.
    async fn catch_up(&mut self, texts: Vec<Text>) -> io::Result<()> {
        let Some(listening) = &mut self.listening else { return Ok(()) };
        listening.handed = texts.last().map_or(listening.handed, |text| text.number);
        let mut others = BTreeMap::<ConversationId, (String, usize)>::new();
        for text in texts {
            if self.listening.as_ref().is_some_and(|it| it.wants.texts_of(text.id)) {
                self.send(&Message::Told(Told::Text(text))).await?;
            } else {
                others.entry(text.id).or_insert((text.conversation, 0)).1 += 1;
            }
        }
        for (conversation, texts) in others.into_values() {
            self.send(&Message::Told(Told::Unread { conversation, texts })).await?;
        }
        Ok(())
    }

    /// Hands out a text that has just come, or announces it. All programs get it that listen, whichever shows it first.
    async fn hand_out(&mut self, text: Text) -> io::Result<()> {
        self.hand_out_before(text.number).await?;
        let Some(listening) = &mut self.listening else { return Ok(()) };
        if text.number <= listening.handed {
            return Ok(());
        }
        listening.handed = text.number;
        if listening.wants.texts_of(text.id) {
            return self.send(&Message::Told(Told::Text(text))).await;
        }
        let id = text.id;
        let unseen = move |client: &Client| client.unshown().filter(|text| text.conversation == id).count();
        match self.desk.handle().ask(unseen).await {
            // Somebody has seen it, or it is announced when the account is online again.
            Ok(0) | Err(_) => Ok(()),
            Ok(texts) => {
                let conversation = text.conversation;
                self.send(&Message::Told(Told::Unread { conversation, texts })).await
            }
        }
    }

    /// Hands out texts that came before this one, and of which the program did not hear because it was slow: what it tells
    /// as shown takes all earlier ones with it.
    async fn hand_out_before(&mut self, number: u64) -> io::Result<()> {
        let Some(Listening { handed, .. }) = self.listening else { return Ok(()) };
        if number <= handed.saturating_add(1) {
            return Ok(());
        }
        let blocked = self.desk.history.blocked();
        let between = move |client: &Client| {
            let mut texts = texts(client, &blocked);
            texts.retain(|text| text.number > handed && text.number < number);
            texts
        };
        match self.desk.handle().ask(between).await {
            Ok(texts) if !texts.is_empty() => self.catch_up(self.desk.present(texts)).await,
            // One that has stopped forgets nothing any more.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn send(&mut self, message: &Message) -> io::Result<()> {
        write(&mut self.output, message, self.seat.step()).await
    }
}

async fn changed(listening: &mut Option<Listening<'_>>) {
    match listening {
        Some(listening) => listening.journal.changed().await,
        None => core::future::pending().await,
    }
}
