//! What becomes of the model when something happens. Nothing here waits, writes or asks; what is to be done is told.

pub(super) mod keys;
mod replies;
mod told;

use std::path::PathBuf;

use ratatui::crossterm::event::KeyEvent;
use sotto_protocol::ConversationId;
use zeroize::Zeroizing;

use super::layout::Layout;
use super::model::{Connection, Model, Now, View};
use super::past;
use super::search::Search;
use super::thread::Place;
use crate::cli::failure::Failure;
use crate::daemon::message::{Account, Listening, Reply, Told};

/// Something that happens.
pub(super) enum Input {
    Key(KeyEvent),
    Paste(Zeroizing<String>),
    Resize(u16, u16),
    /// The participant is reached.
    Attached(Listening),
    Told(Told),
    Replied(Purpose, Result<Reply, Failure>),
    /// The participant is gone; why.
    Gone(String),
    /// Rows are on the screen.
    Drawn(Drawn),
    /// Time passes.
    Tick,
}

/// Rows of a conversation that are on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) id: ConversationId,
    pub(super) from: Place,
    /// The first that is not.
    pub(super) to: Place,
}

/// Something to do.
#[derive(Debug)]
pub(super) enum Act {
    Ask(Account, Purpose),
    /// Send a file to the conversation of a name.
    SendFile(String, PathBuf),
    /// Come online.
    Online,
    /// Draw all anew.
    Redraw,
    Quit,
}

/// What the participant is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To hand in this text.
    Say(ConversationId, u64),
    /// To note that texts of a conversation up to this number are about to be drawn.
    Offer(ConversationId, u64),
    /// To know what was shown.
    Shown,
    /// To make an invitation for a contact.
    Invite(String),
    /// To make a contact.
    Accept(String),
    /// To do something of which it is enough to say this.
    Do(String),
    /// To make a group.
    Create(String),
    /// To join a group.
    Join,
    /// To keep a member.
    Keep(String),
    /// To show something.
    Show,
    /// To send a file to the conversation of a name.
    SendFile(String),
    /// To have what was said before in a conversation.
    Before(ConversationId),
}

/// Takes note of what happens, and says what to do.
pub(super) fn update(model: &mut Model, input: Input, now: Now) -> Vec<Act> {
    model.now = now;
    let mut acts = match input {
        Input::Key(key) => keys::press(model, key),
        Input::Paste(text) => keys::paste(model, &text),
        Input::Resize(width, height) => {
            model.size = (width, height);
            Vec::new()
        }
        Input::Attached(listening) => {
            told::attached(model, listening);
            Vec::new()
        }
        Input::Told(told) => told::told(model, told),
        Input::Replied(purpose, reply) => {
            replies::replied(model, purpose, reply);
            Vec::new()
        }
        Input::Gone(why) => {
            model.connection = Connection::Gone(why);
            Vec::new()
        }
        Input::Drawn(drawn) => saw(model, drawn),
        Input::Tick => Vec::new(),
    };
    model.trim();
    acts.extend(past::wanted(model));
    acts
}

/// Before anything is drawn, puts the open conversation where it is to be: at its end, as long as nothing is passed over that
/// was not seen.
pub(super) fn arrange(model: &mut Model) {
    let (rows, width) = model.layout().texts();
    let talks = matches!(model.view, View::Talk);
    if let Some(thread) = model.thread_mut() {
        thread.set_width(width);
        if talks && rows > 0 {
            thread.follow(rows, width);
        }
    }
}

/// What is to be noted before the next thing that is drawn: of texts in it that were not drawn before, that they may have been
/// seen. Otherwise, whoever is shown them after all has died is not told so.
pub(super) fn offers(model: &mut Model) -> Option<Act> {
    let layout = model.layout();
    let (rows, width) = layout.texts();
    if !model.is_online() || matches!(model.view, View::Page(_)) || layout == Layout::default() {
        return None;
    }
    let thread = model.thread_mut()?;
    let (id, number) = (thread.standing.id, thread.offer(rows, width)?);
    Some(Act::Ask(Account::Offer { id, number }, Purpose::Offer(id, number)))
}

/// What was drawn was seen, if nothing before it was left out. The participant is told.
fn saw(model: &mut Model, Drawn { id, from, to }: Drawn) -> Vec<Act> {
    let online = model.is_online();
    let Some(thread) = model.of(id).filter(|thread| from <= thread.seen && thread.seen < to) else {
        return Vec::new();
    };
    match thread.saw(to) {
        Some(number) if online => vec![Act::Ask(Account::Shown { id, number }, Purpose::Shown)],
        // It comes again with the participant.
        _ => Vec::new(),
    }
}

/// Opens the conversation of a name.
pub(super) fn open_named(model: &mut Model, name: &str) {
    match model.called(name).map(|thread| thread.standing.id) {
        Some(id) => open(model, id),
        None => model.warn(format!("there is no contact or group '{name}'")),
    }
}

/// Searches the open conversation from its end.
pub(super) fn find_first(model: &mut Model, query: &str) {
    let mut search = Search::default();
    search.query.insert(query);
    model.view = View::Search(search);
    keys::find(model, true);
}

/// Opens a conversation.
fn open(model: &mut Model, id: ConversationId) {
    if let Some(left) = model.thread_mut().filter(|thread| thread.standing.id != id) {
        left.new = None;
    }
    model.view = View::Talk;
    model.open = Some(id);
    if let Some(thread) = model.thread_mut() {
        thread.new = thread.first_unseen();
    }
}
