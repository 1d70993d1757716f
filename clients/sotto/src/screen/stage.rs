//! The screen without a terminal and a participant, for tests and benches.

use jiff::civil::date;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sotto_protocol::ConversationId;
use tokio::time::Instant;

use super::draw::draw;
use super::model::{Model, Now};
use super::update::{Act, Input, arrange, update};
use crate::daemon::message::{Conversation, Kind, Listening, Private, Standing, Text, Told};

/// A screen on a stage.
pub struct Stage {
    pub(super) model: Model,
    pub(super) terminal: Terminal<TestBackend>,
    pub(super) now: Now,
    pub(super) number: u64,
}

impl Stage {
    /// Of that size, with nobody there yet.
    #[must_use]
    pub fn new(width: u16, height: u16) -> Self {
        let local = date(2026, 11, 26).at(12, 0, 0, 0);
        let now = Now { instant: Instant::now(), local };
        let terminal = Terminal::new(TestBackend::new(width, height));
        let Ok(terminal) = terminal;
        Self { model: Model::new((width, height), false, now), terminal, now, number: 0 }
    }

    /// A participant is reached that has these conversations.
    pub(super) fn attach(&mut self, standings: Vec<Standing>, unshown: usize) {
        let listening = Listening {
            name: "alice".to_owned(),
            connected: true,
            node: "chat.example.org:7370".to_owned(),
            round_ms: Some(2000),
            opened: Some((1234, 500)),
            conversations: standings.iter().map(|standing| standing.id).collect(),
            unshown,
        };
        self.happens(Input::Attached(listening));
        for standing in standings {
            self.happens(Input::Told(Told::Standing(standing)));
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
        })))
    }

    /// Draws, and takes note of what is seen. What is to be done then.
    pub(super) fn draws(&mut self) -> Vec<Act> {
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
        members: Vec::new(),
    };
    Standing { id: ConversationId(id), sent: 0, conversation }
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
