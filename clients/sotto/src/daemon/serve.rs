//! One program at the desk.

#[cfg(all(test, unix))]
pub(super) mod tests;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use sotto_protocol::ConversationId;
use sotto_protocol::client::{Client, MessageId};
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, split};
use tokio::time::timeout;

use super::account::{find, standings, texts, unshown, waiting};
use super::desk::Desk;
use super::frame::{AWAY, Frames, HERE, write};
use super::held::Hand;
use super::journal::{Entry, Listener};
use super::message::{
    self, Account, Attached, Audited, Found, Greeting, Message, Moving, Note, Reply, Request, Severity,
    Standing, Text, Told, VERSION,
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
    let mut program = Program { desk, seat, output, hand: desk.held.hand(), listening: None };
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

struct Program<'a, S> {
    desk: &'a Desk,
    seat: Seat,
    output: WriteHalf<S>,
    hand: Hand<'a>,
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
    All {
        known: Known,
        /// Whether it shows texts at once.
        shows: bool,
    },
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
            Self::All { .. } => true,
        }
    }

    /// Whether texts are shown as soon as they are handed out.
    fn shows(&self) -> bool {
        !matches!(self, Self::All { shows: false, .. })
    }

    /// What becomes of an entry that is no text.
    fn told(&self, entry: Entry) -> Option<Told> {
        let is_all = matches!(self, Self::All { .. });
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
            Entry::Seen(id, number) if is_all => Some(Told::Seen { id, number }),
            Entry::Text(_)
            | Entry::Arrived(_)
            | Entry::Round(_)
            | Entry::Audited(_)
            | Entry::Step(..)
            | Entry::Said(_)
            | Entry::Seen(..)
            | Entry::Changed => None,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Program<'_, S> {
    async fn serve(&mut self, mut frames: Frames<ReadHalf<S>>) -> io::Result<()> {
        write(&mut self.output, &Greeting::ours(), self.seat.step()).await?;
        let greeting = timeout(Greeting::WITHIN, frames.next::<Greeting>()).await;
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
            Request::Account(Account::Unshown { conversation }) => self.unshown(conversation).await,
            Request::Account(Account::Offer { id, number }) => self.desk.offer(&self.hand, id, number).await,
            Request::Account(account) => self.desk.account(account).await,
            Request::Audit { answers } => self.audit(answers).await,
            Request::Attach { conversation, verbose } => match self.attach(conversation, verbose).await {
                Ok((attached, texts)) => {
                    self.send(&Message::Reply(Reply::Attached(attached))).await?;
                    return self.catch_up(texts).await;
                }
                Err(failure) => Err(failure),
            },
            wants @ (Request::Listen | Request::Watch) => {
                match self.listen(matches!(wants, Request::Listen)).await {
                    Ok((listening, texts)) => {
                        self.send(&Message::Reply(Reply::Listening(listening))).await?;
                        self.compare().await?;
                        return self.catch_up(texts).await;
                    }
                    Err(failure) => Err(failure),
                }
            }
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
        let (mut of_it, others): (Vec<_>, Vec<_>) =
            self.desk.present(texts).into_iter().partition(|text| text.id == conversation);
        attached.unshown = of_it.len();
        self.desk.hand(&self.hand, &mut of_it, true).await?;
        let texts = of_it.into_iter().chain(others).collect();
        let wants = Wants::One { conversation, verbose, files: Vec::new() };
        self.listening = Some(Listening { journal, wants, handed: 0 });
        Ok((attached, texts))
    }

    async fn listen(&mut self, shows: bool) -> Result<(message::Listening, Vec<Text>), Failure> {
        let journal = self.desk.journal.listen();
        let mut texts = self.desk.texts().await?;
        self.desk.hand(&self.hand, &mut texts, shows).await?;
        let listening = self.desk.listening(texts.len()).await?;
        self.listening =
            Some(Listening { journal, wants: Wants::All { known: Known::default(), shows }, handed: 0 });
        Ok((listening, texts))
    }

    async fn unshown(&mut self, conversation: Option<String>) -> Result<Reply, Failure> {
        let blocked = self.desk.history.blocked();
        let look = move |client: &Client| unshown(client, conversation.as_deref(), &blocked);
        let mut texts = self.desk.present(self.desk.handle().ask(look).await??);
        self.desk.hand(&self.hand, &mut texts, true).await?;
        Ok(Reply::Texts(texts))
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
            Some(Wants::All { known, .. }) => known,
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
        listening.handed = texts.iter().map(|text| text.number).fold(listening.handed, u64::max);
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
    async fn hand_out(&mut self, mut text: Text) -> io::Result<()> {
        if !self.hand_out_before(text.number).await? {
            return Ok(());
        }
        let Some(listening) = &mut self.listening else { return Ok(()) };
        if text.number <= listening.handed {
            return Ok(());
        }
        if listening.wants.texts_of(text.id) {
            let shows = listening.wants.shows();
            return match self.desk.hand(&self.hand, core::slice::from_mut(&mut text), shows).await {
                Ok(()) => {
                    self.handed(text.number);
                    self.send(&Message::Told(Told::Text(text))).await
                }
                Err(failure) => self.cannot(&failure).await,
            };
        }
        listening.handed = text.number;
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
    /// as shown takes all earlier ones with it. Whether it has them all now.
    async fn hand_out_before(&mut self, number: u64) -> io::Result<bool> {
        let Some(Listening { handed, wants, .. }) = &self.listening else { return Ok(true) };
        let handed = *handed;
        if number <= handed.saturating_add(1) {
            return Ok(true);
        }
        let blocked = self.desk.history.blocked();
        let between = move |client: &Client| {
            let mut texts = texts(client, &blocked);
            texts.retain(|text| text.number > handed && text.number < number);
            texts
        };
        match self.desk.handle().ask(between).await {
            Ok(texts) if !texts.is_empty() => {
                let (mut of_it, others): (Vec<_>, Vec<_>) =
                    self.desk.present(texts).into_iter().partition(|text| wants.texts_of(text.id));
                match self.desk.hand(&self.hand, &mut of_it, wants.shows()).await {
                    Ok(()) => {
                        self.catch_up(of_it.into_iter().chain(others).collect()).await?;
                        Ok(true)
                    }
                    Err(failure) => {
                        self.cannot(&failure).await?;
                        Ok(false)
                    }
                }
            }
            // One that has stopped forgets nothing any more.
            Ok(_) | Err(_) => Ok(true),
        }
    }

    /// Up to this number, texts were handed out.
    fn handed(&mut self, number: u64) {
        self.listening.iter_mut().for_each(|listening| listening.handed = listening.handed.max(number));
    }

    /// Tells why texts are not handed out that are there.
    async fn cannot(&mut self, failure: &Failure) -> io::Result<()> {
        let line = format!(
            "warning: a text has come, and is not shown as long as nothing can be stored: {}",
            failure.message
        );
        self.send(&Message::Told(Told::Note(Note::new(Severity::Warning, line)))).await
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
