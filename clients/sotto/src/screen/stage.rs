//! The screen without a terminal and a participant, for tests and benches.

use std::io;
use std::path::Path;

use jiff::civil::date;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sotto_protocol::client::Unshown;
use sotto_protocol::{ConversationId, UnixMillis};
use tokio::time::Instant;

use super::draw::draw;
use super::model::{Model, Now};
use super::update::{Act, Input, arrange, offers, update};
use crate::daemon::history::{History, KEEP_MAX, Stand};
use crate::daemon::message::{
    Account, Conversation, Kind, Listening, Message, Private, Reply, Standing, Text, Told,
};

/// A screen on a stage.
pub struct Stage {
    pub(super) model: Model,
    pub(super) terminal: Terminal<TestBackend>,
    pub(super) now: Now,
    pub(super) number: u64,
    /// What was said before, and in how many conversations.
    history: Option<History>,
    conversations: u32,
    /// What was to be done when a participant was reached.
    asks: Vec<Act>,
}

impl Stage {
    /// Of that size, with nobody there yet.
    #[must_use]
    pub fn new(width: u16, height: u16) -> Self {
        let local = date(2026, 11, 26).at(12, 0, 0, 0);
        let now = Now { instant: Instant::now(), local };
        let terminal = Terminal::new(TestBackend::new(width, height));
        let Ok(terminal) = terminal;
        Self {
            model: Model::new((width, height), false, now),
            terminal,
            now,
            number: 0,
            history: None,
            conversations: 0,
            asks: Vec::new(),
        }
    }

    /// A participant is reached that has these conversations.
    pub(super) fn attach(&mut self, standings: Vec<Standing>, unshown: usize) {
        let listening = Listening {
            name: "alice".to_owned(),
            connected: true,
            node: "chat.example.org:7370".to_owned(),
            round_ms: Some(2000),
            delay_seconds: (4, 8),
            opened: Some((1234, 500)),
            conversations: standings.iter().map(|standing| standing.id).collect(),
            unshown,
        };
        self.asks = self.happens(Input::Attached(listening));
        for standing in standings {
            let asks = self.happens(Input::Told(Told::Standing(standing)));
            self.asks.extend(asks);
        }
    }

    pub(super) fn happens(&mut self, input: Input) -> Vec<Act> {
        update(&mut self.model, input, self.now)
    }

    pub(super) fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Vec<Act> {
        self.happens(Input::Key(KeyEvent::new(code, modifiers)))
    }

    /// Types a line, and Enter.
    pub(super) fn types(&mut self, line: &str) -> Vec<Act> {
        for character in line.chars() {
            self.key(KeyCode::Char(character), KeyModifiers::NONE);
        }
        self.key(KeyCode::Enter, KeyModifiers::NONE)
    }

    /// A text comes.
    pub(super) fn hears(&mut self, (id, conversation): (u32, &str), from: &str, text: &str) -> Vec<Act> {
        self.number += 1;
        self.happens(Input::Told(Told::Text(Text {
            number: self.number,
            id: ConversationId(id),
            conversation: conversation.to_owned(),
            group: false,
            from: from.to_owned(),
            text: Private::new(text),
            sequence: 1,
            at_ms: None,
            quote: None,
            file: None,
            again: false,
        })))
    }

    /// What is to be noted before anything is drawn.
    #[cfg(test)]
    pub(super) fn offers(&mut self) -> Option<Act> {
        arrange(&mut self.model);
        offers(&mut self.model)
    }

    /// Has noted what is to be noted, draws, and takes note of what is seen. What is to be done then.
    pub(super) fn draws(&mut self) -> Vec<Act> {
        arrange(&mut self.model);
        if let Some(Act::Ask(_, purpose)) = offers(&mut self.model) {
            self.happens(Input::Replied(purpose, Ok(Reply::Offered { again: Vec::new() })));
        }
        self.draws_as_it_is()
    }

    /// The same without having anything noted.
    pub(super) fn draws_as_it_is(&mut self) -> Vec<Act> {
        arrange(&mut self.model);
        let mut drawn = None;
        let Ok(_) = self.terminal.draw(|frame| drawn = draw(&self.model, frame));
        drawn.map_or_else(Vec::new, |drawn| self.happens(Input::Drawn(drawn)))
    }
}

/// How a contact stands.
pub(super) fn contact(id: u32, name: &str) -> Standing {
    let conversation = Conversation {
        name: name.to_owned(),
        kind: Kind::Contact,
        established: true,
        queued: 0,
        unacknowledged: 0,
        unread: 0,
        identity: None,
        keys: None,
        members: Vec::new(),
        blocked: false,
        files: Vec::new(),
    };
    Standing { id: ConversationId(id), sent: 0, conversation }
}

/// For benches of what was said before.
impl Stage {
    /// Fills the history in a directory with so many texts that were seen, in turn in each of so many conversations.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn fill_history(directory: &Path, conversations: u32, texts: u32) -> io::Result<()> {
        const AT_ONCE: u32 = 1000;
        let (history, _) = History::open(directory, &[0; 32]);
        history.keep(KEEP_MAX)?;
        let mut number = 0;
        for first in (0..texts).step_by(AT_ONCE as usize) {
            let id = ConversationId(first / AT_ONCE % conversations);
            let come = (first..texts.min(first + AT_ONCE)).map(|text| {
                number += 1;
                Unshown {
                    number,
                    conversation: id,
                    from: format!("contact {}", id.0),
                    text: format!("Text number {text}, which is as long as a line often is in a chat."),
                    sequence: text,
                }
            });
            history.settle(&Stand::with(id, come.collect()), Some(UnixMillis(1_700_000_000_000)))?;
            history.settle(&Stand::with(id, Vec::new()), None)?;
        }
        Ok(())
    }

    /// A screen without anything, at a participant with these conversations and the history in a directory.
    #[must_use]
    pub fn with_history(directory: &Path, conversations: u32) -> Self {
        let mut stage = Self::new(120, 40);
        stage.history = Some(History::open(directory, &[0; 32]).0);
        stage.conversations = conversations;
        stage
    }

    /// How many texts there are in the history.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.history.as_ref().map_or(0, |history| history.keeps().1)
    }

    /// The screen comes anew, and shows what was said last.
    pub fn come(&mut self) {
        self.model = Model::new(self.model.size, false, self.now);
        self.attach(Self::standings(self.conversations), 0);
        self.settles(Vec::new());
    }

    /// So many rows less than a page back, with what has to be fetched for it.
    pub fn page_back(&mut self) {
        let acts = self.key(KeyCode::PageUp, KeyModifiers::NONE);
        self.settles(acts);
    }

    /// Draws, and answers what is asked of the history over what goes through the socket, until nothing is asked.
    fn settles(&mut self, mut acts: Vec<Act>) {
        acts.append(&mut self.asks);
        acts.extend(self.draws());
        while let Some(act) = acts.pop() {
            let (Act::Ask(Account::PastOf { id, before, most }, purpose), Some(history)) =
                (act, &self.history)
            else {
                continue;
            };
            let (texts, more) = history.page(&Stand::with(id, Vec::new()), before, most);
            let frame = serde_json::to_vec(&Message::Reply(Reply::Past { texts, more })).unwrap_or_default();
            if let Ok(Message::Reply(reply)) = serde_json::from_slice(&frame) {
                acts.extend(self.happens(Input::Replied(purpose, Ok(reply))));
            }
            acts.extend(self.draws());
        }
    }
}

/// For benches.
impl Stage {
    /// With so many texts that were seen, in turn in each of so many conversations.
    #[must_use]
    pub fn with_texts(conversations: u32, texts: u32) -> Self {
        let mut stage = Self::new(120, 40);
        stage.attach(Self::standings(conversations), 0);
        for text in 0..texts {
            stage.hear_one(text % conversations);
            if text % 10_000 == 0 {
                stage.see_all();
            }
        }
        stage.see_all();
        stage.draws();
        stage
    }

    fn standings(conversations: u32) -> Vec<Standing> {
        (0..conversations).map(|id| contact(id, &format!("contact {id}"))).collect()
    }

    /// A text comes in a conversation.
    pub fn hear_one(&mut self, conversation: u32) {
        let name = format!("contact {conversation}");
        let text = format!("Text number {}, which is as long as a line often is in a chat.", self.number);
        self.hears((conversation, &name), &name, &text);
    }

    fn see_all(&mut self) {
        for thread in &mut self.model.threads {
            thread.saw(super::thread::Place { text: thread.end(), row: 0 });
        }
    }

    /// So many texts are kept.
    #[must_use]
    pub fn texts(&self) -> usize {
        self.model.threads.iter().map(|thread| thread.size().0).sum()
    }

    /// The participant is reached again, and tells how all stands.
    pub fn attach_again(&mut self) {
        let conversations = u32::try_from(self.model.threads.len()).unwrap_or(u32::MAX);
        self.attach(Self::standings(conversations), 0);
    }

    /// The next conversation is opened, and drawn.
    pub fn switch(&mut self) {
        self.key(KeyCode::Tab, KeyModifiers::NONE);
        self.draws();
    }

    /// Draws all anew.
    pub fn redraw(&mut self) {
        let Ok(()) = self.terminal.clear();
        self.draws();
    }

    /// Searches all of the open conversation for what is not there.
    pub fn search(&mut self) {
        self.types("/search nothing like this");
        self.draws();
        self.key(KeyCode::Esc, KeyModifiers::NONE);
    }
}
