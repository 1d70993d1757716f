//! What the participant tells.

use core::time::Duration;

use sotto_protocol::ConversationId;

use super::super::model::{Connection, Model, Rounds, View};
use super::super::past::local;
use super::super::thread::Thread;
use super::{Act, Purpose, open};
use crate::daemon::message::{
    Account, Audited, Conversation, Found, Kind, Listening, Note, Severity, Standing, Step, Text, Told,
};

pub(super) fn attached(model: &mut Model, listening: Listening) {
    let Listening { name, connected, node, round_ms, delay_seconds, opened, conversations, unshown } =
        listening;
    model.me = name;
    model.connection = Connection::Online { connected, node };
    let since = |elapsed: u64| model.now.instant.checked_sub(Duration::from_millis(elapsed));
    let opened = opened.and_then(|(round, elapsed)| Some((round, since(elapsed)?)));
    model.rounds = Rounds { length_ms: round_ms, opened, step: None, cost: None };
    model.delay_seconds = delay_seconds;
    model.unshown = unshown;
    // Some may have been forgotten meanwhile. Of those that are there, how they stand comes next.
    model.threads.retain(|thread| conversations.contains(&thread.standing.id));
    // Nobody answers what was asked of one that is gone.
    model.threads.iter_mut().for_each(|thread| thread.before.asked = false);
    reopen(model);
}

pub(super) fn told(model: &mut Model, told: Told) -> Vec<Act> {
    match told {
        Told::Text(text) => return text_came(model, text),
        Told::Arrived { id, sequence } => {
            if let Some(thread) = model.of(id) {
                thread.arrived(sequence);
            }
        }
        Told::Said(said) => {
            let at = local(said.at_ms, &model.zone);
            if let Some(thread) = model.of(said.id) {
                thread.take_said(said, at);
            }
        }
        Told::Note(note) => model.note(note),
        Told::Audited(Audited { found: Found::Cheated, line, .. }) => {
            model.note(Note::new(Severity::Alarm, line));
        }
        Told::Audited(Audited { found: Found::Open, line, .. }) => model.warn(line),
        Told::Step { round, step } => {
            if let Step::Opened { elapsed_ms } = step {
                let opened = model.now.instant.checked_sub(Duration::from_millis(elapsed_ms));
                model.rounds.opened = opened.map(|opened| (round, opened));
            }
            model.rounds.step = Some((round, step));
        }
        Told::Round(cost) => model.rounds.cost = Some(cost),
        Told::Connection { connected, node } => model.connection = Connection::Online { connected, node },
        Told::Standing(standing) => stands(model, standing),
        Told::Forgotten { id } => {
            model.threads.retain(|thread| thread.standing.id != id);
            reopen(model);
        }
        Told::Seen { id, number } => {
            model.of(id).into_iter().for_each(|thread| thread.seen_elsewhere(number));
        }
        // One who listens gets the texts themselves.
        Told::Unread { .. } | Told::Files(_) | Told::Audited(Audited { found: Found::Honest, .. }) => {}
    }
    Vec::new()
}

fn stands(model: &mut Model, standing: Standing) {
    let id = standing.id;
    let wanted = model.wanted.as_ref() == Some(&standing.conversation.name);
    match model.of(id) {
        Some(thread) => thread.standing = standing,
        None => model.threads.push(Thread::new(standing)),
    }
    if wanted {
        model.wanted = None;
        open_below(model, id);
    }
    reopen(model);
}

/// Opens a conversation, and leaves what covers it.
fn open_below(model: &mut Model, id: ConversationId) {
    let view = core::mem::replace(&mut model.view, View::Talk);
    open(model, id);
    if !matches!(view, View::Search(_)) {
        model.view = view;
    }
}

/// Opens the first conversation if none is open.
fn reopen(model: &mut Model) {
    if model.thread().is_none() {
        model.open = None;
        if let Some(first) = model.threads.first() {
            let id = first.standing.id;
            open_below(model, id);
        }
    }
}

fn text_came(model: &mut Model, text: Text) -> Vec<Act> {
    let id = text.id;
    let waited = model.unshown > 0;
    let known = text.at_ms.and_then(|at_ms| local(at_ms, &model.zone));
    let at = known.or_else(|| (!waited).then_some(model.now.local));
    model.unshown = model.unshown.saturating_sub(1);
    if model.of(id).is_none() {
        // How it stands comes later.
        let conversation = Conversation {
            name: text.conversation.clone(),
            kind: if text.group { Kind::Group } else { Kind::Contact },
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
        stands(model, Standing { id, sent: 0, conversation });
    }
    let is_open = model.open == Some(id);
    let Some(thread) = model.of(id) else { return Vec::new() };
    match thread.take(text, at) {
        // It was drawn, and the participant has not heard of that.
        Some(number) => vec![Act::Ask(Account::Shown { id, number }, Purpose::Shown)],
        None => {
            if is_open && waited && thread.new.is_none() {
                thread.new = thread.first_unseen();
            }
            Vec::new()
        }
    }
}
