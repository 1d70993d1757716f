//! What the screen knows. Nothing of it is written anywhere, and it is wiped when the screen ends.

use std::collections::VecDeque;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sotto_protocol::ConversationId;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::composer::Composer;
use super::layout::Layout;
use super::search::Search;
use super::thread::Thread;
use crate::daemon::message::{Note, RoundCost, Severity, Step};
use crate::qr::Qr;

/// Texts that are kept in all conversations together; the oldest that were seen go first.
pub(super) const TEXTS_KEPT: usize = 100_000;
/// And bytes of them.
pub(super) const BYTES_KEPT: usize = 64 << 20;
/// Notes that are kept.
const NOTES_KEPT: usize = 500;
/// Different alarms that wait to be dismissed.
const ALARMS_KEPT: usize = 64;

/// The moment in which something is taken note of.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: Instant,
    /// By the clock and in the zone of this machine.
    pub(super) local: DateTime,
}

/// How the screen stands with the participant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// It is reached, and has a session with a node, or seeks one.
    Online { connected: bool, node: String },
    /// It has ended; why.
    Gone(String),
}

/// Rounds, as far as they were heard of.
#[derive(Default)]
pub(super) struct Rounds {
    /// Length of a round, if it has one.
    pub(super) length_ms: Option<u32>,
    /// The newest round, and when it was opened.
    pub(super) opened: Option<(u64, Instant)>,
    /// How far a round is: the last that was heard.
    pub(super) step: Option<(u64, Step)>,
    pub(super) cost: Option<RoundCost>,
}

/// A note, and when it came.
pub(super) struct Noted {
    pub(super) note: Note,
    pub(super) at: DateTime,
}

/// An alarm that was not dismissed, and how often it came.
pub(super) struct Alarm {
    pub(super) line: String,
    pub(super) times: u32,
}

/// A sheet that covers the conversation.
pub(super) struct Page {
    pub(super) title: String,
    /// Wiped: it may be an invitation.
    pub(super) text: Zeroizing<String>,
    /// Whether it is wanted by one who copies it: without anything beside it.
    pub(super) bare: bool,
    /// The same for one who has a camera.
    pub(super) qr: Option<Qr>,
    /// The first row that is shown.
    pub(super) top: usize,
}

/// Something secret that is pasted.
pub(super) enum Secret {
    /// An invitation, for a contact of this name.
    Invitation { contact: String },
    /// The card of a group.
    Card,
}

/// What is shown in place of the conversation, or of its line.
pub(super) enum View {
    Talk,
    Page(Page),
    Secret(Secret, Composer),
    Search(Search),
}

pub(super) struct Model {
    /// The person's own name.
    pub(super) me: String,
    pub(super) size: (u16, u16),
    pub(super) colors: bool,
    pub(super) connection: Connection,
    pub(super) rounds: Rounds,
    /// How long a text takes to a contact, about and at most, s.
    pub(super) delay_seconds: (u64, u64),
    pub(super) threads: Vec<Thread>,
    pub(super) open: Option<ConversationId>,
    /// Where commands are typed before there is a conversation.
    pub(super) lobby: Composer,
    pub(super) view: View,
    /// The name of a conversation that is to be opened as soon as it is there.
    pub(super) wanted: Option<String>,
    pub(super) notes: VecDeque<Noted>,
    /// Whether the newest note is shown.
    pub(super) noting: bool,
    pub(super) alarms: Vec<Alarm>,
    /// Alarms that there was no room for.
    pub(super) more_alarms: u32,
    /// Texts that came while no screen was there, and come yet.
    pub(super) unshown: usize,
    pub(super) now: Now,
    /// Of this machine.
    pub(super) zone: TimeZone,
}

impl Model {
    pub(super) fn new(size: (u16, u16), colors: bool, now: Now) -> Self {
        Self {
            me: String::new(),
            size,
            colors,
            connection: Connection::Gone("not reached yet".to_owned()),
            rounds: Rounds::default(),
            delay_seconds: (0, 0),
            threads: Vec::new(),
            open: None,
            lobby: Composer::default(),
            view: View::Talk,
            wanted: None,
            notes: VecDeque::new(),
            noting: false,
            alarms: Vec::new(),
            more_alarms: 0,
            unshown: 0,
            now,
            zone: TimeZone::UTC,
        }
    }

    /// How long texts take, for who makes a contact.
    pub(super) fn pace(&self) -> String {
        let (about, most) = self.delay_seconds;
        format!("a text to a contact takes about {about} to {most} s here")
    }

    pub(super) fn is_online(&self) -> bool {
        matches!(self.connection, Connection::Online { .. })
    }

    pub(super) fn thread(&self) -> Option<&Thread> {
        self.threads.iter().find(|thread| Some(thread.standing.id) == self.open)
    }

    pub(super) fn thread_mut(&mut self) -> Option<&mut Thread> {
        self.threads.iter_mut().find(|thread| Some(thread.standing.id) == self.open)
    }

    pub(super) fn of(&mut self, id: ConversationId) -> Option<&mut Thread> {
        self.threads.iter_mut().find(|thread| thread.standing.id == id)
    }

    pub(super) fn called(&self, name: &str) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.name() == name)
    }

    /// The line in which the person writes.
    pub(super) fn composer(&mut self) -> &mut Composer {
        let open = self.open;
        match &mut self.view {
            View::Secret(_, composer) => composer,
            View::Search(search) => &mut search.query,
            View::Talk | View::Page(_) => {
                let thread = self.threads.iter_mut().find(|thread| Some(thread.standing.id) == open);
                thread.map_or(&mut self.lobby, |thread| &mut thread.composer)
            }
        }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::of(self)
    }

    /// Takes note of something. Alarms stay until they are dismissed.
    pub(super) fn note(&mut self, note: Note) {
        if note.severity == Severity::Alarm {
            let is_full = self.alarms.len() == ALARMS_KEPT;
            match self.alarms.iter_mut().find(|alarm| alarm.line == note.line) {
                Some(alarm) => alarm.times = alarm.times.saturating_add(1),
                None if is_full => self.more_alarms = self.more_alarms.saturating_add(1),
                None => self.alarms.push(Alarm { line: note.line.clone(), times: 1 }),
            }
        } else {
            self.noting = true;
        }
        if self.notes.len() == NOTES_KEPT {
            self.notes.pop_front();
        }
        self.notes.push_back(Noted { note, at: self.now.local });
    }

    pub(super) fn notice(&mut self, line: impl Into<String>) {
        self.note(Note::new(Severity::Notice, line));
    }

    pub(super) fn warn(&mut self, line: impl Into<String>) {
        self.note(Note::new(Severity::Warning, line));
    }

    /// The newest note that is no alarm.
    pub(super) fn newest_note(&self) -> Option<&Noted> {
        let mut quiet = self.notes.iter().rev().filter(|noted| noted.note.severity != Severity::Alarm);
        quiet.next().filter(|_| self.noting)
    }

    pub(super) fn page(&mut self, title: impl Into<String>, text: impl Into<String>) {
        let text = Zeroizing::new(text.into());
        self.view = View::Page(Page { title: title.into(), text, bare: false, qr: None, top: 0 });
    }

    /// Forgets the oldest texts that were seen, as long as there are too many.
    pub(super) fn trim(&mut self) {
        loop {
            let sizes = self.threads.iter().map(Thread::size);
            let (texts, bytes) = sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            if texts <= TEXTS_KEPT && bytes <= BYTES_KEPT {
                return;
            }
            let seen = |thread: &&mut Thread| thread.first() < thread.seen.text;
            let by_texts = texts > TEXTS_KEPT;
            let key = |thread: &&mut Thread| if by_texts { thread.size().0 } else { thread.size().1 };
            let largest = self.threads.iter_mut().filter(seen).max_by_key(key);
            if !largest.is_some_and(Thread::forget_oldest) {
                return;
            }
        }
    }
}
