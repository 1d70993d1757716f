//! What is typed.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use sotto_protocol::GroupCard;
use zeroize::Zeroizing;

use super::super::accept;
use super::super::command;
use super::super::composer::Composer;
use super::super::model::{Model, Secret, View};
use super::super::search::{Search, newer, older};
use super::super::thread::Place;
use super::{Act, Purpose, open};
use crate::cli::failure::Failure;
use crate::daemon::message::{Account, Private};
use crate::daemon::parse;

pub(super) fn press(model: &mut Model, key: KeyEvent) -> Vec<Act> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    match key.code {
        KeyCode::Char('c') if control => return vec![Act::Quit],
        KeyCode::Char('l') if control => return vec![Act::Redraw],
        KeyCode::Char('x') if control => command::dismiss(model),
        KeyCode::Char('f') if control => model.view = View::Search(Search::default()),
        KeyCode::Char('n') if control => switch(model, 1),
        KeyCode::Char('p') if control => switch(model, -1),
        KeyCode::Down if alt => switch(model, 1),
        KeyCode::Up if alt => switch(model, -1),
        KeyCode::Tab => switch(model, 1),
        KeyCode::BackTab => switch(model, -1),
        KeyCode::Char('a') if alt => next_unread(model),
        KeyCode::PageUp => scroll(model, -1),
        KeyCode::PageDown => scroll(model, 1),
        KeyCode::Home if control => to_start(model),
        KeyCode::End if control => to_end(model),
        KeyCode::Esc => escape(model),
        KeyCode::Enter if !alt => return enter(model),
        KeyCode::Up => up(model),
        KeyCode::Down => down(model),
        _ if matches!(model.view, View::Page(_)) => {
            if key.code == KeyCode::Char('q') {
                model.view = View::Talk;
            }
        }
        code => {
            edit(model.composer(), code, control, alt);
            look_for(model);
        }
    }
    Vec::new()
}

fn edit(composer: &mut Composer, code: KeyCode, control: bool, alt: bool) {
    match code {
        KeyCode::Left if control || alt => composer.left_by_word(),
        KeyCode::Right if control || alt => composer.right_by_word(),
        KeyCode::Left => composer.left(),
        KeyCode::Right => composer.right(),
        KeyCode::Home => composer.home(),
        KeyCode::End => composer.end(),
        KeyCode::Backspace if control || alt => composer.delete_word(),
        KeyCode::Backspace => composer.backspace(),
        KeyCode::Delete => composer.delete(),
        KeyCode::Enter => {
            composer.insert("\n");
        }
        KeyCode::Char('j') if control => {
            composer.insert("\n");
        }
        KeyCode::Char('a') if control => composer.home(),
        KeyCode::Char('e') if control => composer.end(),
        KeyCode::Char('h') if control => composer.backspace(),
        KeyCode::Char('d') if control => composer.delete(),
        KeyCode::Char('w') if control => composer.delete_word(),
        KeyCode::Char('u') if control => composer.delete_to_start(),
        KeyCode::Char('k') if control => composer.delete_to_end(),
        KeyCode::Char('b') if alt => composer.left_by_word(),
        KeyCode::Char('f') if alt => composer.right_by_word(),
        KeyCode::Char(character) if !control && !alt => {
            composer.insert(character.encode_utf8(&mut [0; 4]));
        }
        _ => {}
    }
}

/// A paste is one text, whatever lines it has.
pub(super) fn paste(model: &mut Model, text: &str) -> Vec<Act> {
    if matches!(model.view, View::Page(_)) {
        return Vec::new();
    }
    let lines = Zeroizing::new(text.replace("\r\n", "\n").replace('\r', "\n"));
    if !model.composer().insert(&lines) {
        model.warn("a text has at most 16 KiB; the end of what was pasted is left out");
    }
    look_for(model);
    Vec::new()
}

fn enter(model: &mut Model) -> Vec<Act> {
    match &mut model.view {
        View::Page(_) => {
            model.view = View::Talk;
            Vec::new()
        }
        View::Search(_) => {
            find(model, true);
            Vec::new()
        }
        View::Secret(..) => {
            let View::Secret(secret, mut composer) = core::mem::replace(&mut model.view, View::Talk) else {
                return Vec::new();
            };
            let pasted = composer.take_secret();
            match secret_taken(&secret, &pasted) {
                Ok(act) if model.is_online() => return vec![act],
                Ok(_) => model.warn(command::OFFLINE),
                Err(failure) => model.warn(failure.message),
            }
            // A terminal that knows no pastes types lines: what follows is more of the secret, and must not be said to anybody.
            composer.insert(&pasted);
            model.view = View::Secret(secret, composer);
            Vec::new()
        }
        View::Talk => submit(model),
    }
}

fn secret_taken(secret: &Secret, pasted: &str) -> Result<Act, Failure> {
    match secret {
        Secret::Invitation { contact } => accept::take(contact.clone(), pasted),
        Secret::Card => {
            let card = Private(Zeroizing::new(pasted.split_whitespace().collect()));
            parse::<GroupCard>(&card)?;
            Ok(Act::Ask(Account::JoinGroup { card }, Purpose::Join))
        }
    }
}

fn submit(model: &mut Model) -> Vec<Act> {
    let text = model.composer().text();
    if text.trim().is_empty() {
        return Vec::new();
    }
    if text.starts_with('/') && !text.starts_with("//") {
        let line = model.composer().take();
        return command::perform(model, &line);
    }
    // What cannot be handed in stays where it is.
    if !model.is_online() {
        model.warn(command::OFFLINE);
        return Vec::new();
    }
    let at = model.now.local;
    let Some(thread) = model.thread_mut() else {
        model.warn("there is nobody to say it to yet: /invite NAME, or /accept NAME");
        return Vec::new();
    };
    let line = thread.composer.take();
    // Two slashes at the beginning stand for one.
    let text = if line.starts_with("//") { Zeroizing::new(line.replacen('/', "", 1)) } else { line };
    let (id, private) = (thread.standing.id, Private(text.clone()));
    let place = thread.say(text, at, None);
    (thread.top, thread.new) = (None, None);
    model.noting = false;
    vec![Act::Ask(Account::SayTo { id, text: private }, Purpose::Say(id, place))]
}

/// Says something to the text of somebody else that came so many before the last.
pub(crate) fn reply(model: &mut Model, back: usize, said: &str) -> Vec<Act> {
    if !model.is_online() {
        model.warn(command::OFFLINE);
        return Vec::new();
    }
    let at = model.now.local;
    let referred = model.thread().and_then(|thread| thread.referred(back));
    let (Some((reference, quote)), Some(thread)) = (referred, model.thread_mut()) else {
        model.warn("there is no such text to reply to here");
        return Vec::new();
    };
    let (id, text) = (thread.standing.id, Private::new(reference.write(said)));
    let place = thread.say(Zeroizing::new(said.to_owned()), at, Some(quote));
    (thread.top, thread.new) = (None, None);
    vec![Act::Ask(Account::SayTo { id, text }, Purpose::Say(id, place))]
}

fn escape(model: &mut Model) {
    match model.view {
        View::Talk => model.noting = false,
        View::Search(_) => {
            model.view = View::Talk;
            to_end(model);
        }
        View::Page(_) | View::Secret(..) => model.view = View::Talk,
    }
}

fn up(model: &mut Model) {
    match &mut model.view {
        View::Page(page) => page.top = page.top.saturating_sub(1),
        View::Search(_) => find(model, true),
        View::Talk => {
            model.composer().older();
        }
        View::Secret(..) => {}
    }
}

fn down(model: &mut Model) {
    match &mut model.view {
        View::Page(_) => scroll_page(model, 1),
        View::Search(_) => find(model, false),
        View::Talk => {
            model.composer().newer();
        }
        View::Secret(..) => {}
    }
}

/// Whether there is something to copy that is not shown again: it goes when the person closes it.
fn covers_for_good(model: &Model) -> bool {
    matches!(&model.view, View::Page(page) if page.bare)
}

/// Opens the conversation so many places further in the list.
fn switch(model: &mut Model, by: isize) {
    if covers_for_good(model) {
        return;
    }
    let open_now = model.threads.iter().position(|thread| Some(thread.standing.id) == model.open);
    let count = isize::try_from(model.threads.len()).unwrap_or(isize::MAX);
    let Some(at) = open_now.and_then(|at| isize::try_from(at).ok()) else { return };
    let next = usize::try_from((at + by).rem_euclid(count)).ok();
    if let Some(id) = next.and_then(|next| model.threads.get(next)).map(|thread| thread.standing.id) {
        open(model, id);
    }
}

fn next_unread(model: &mut Model) {
    if covers_for_good(model) {
        return;
    }
    let at = model.threads.iter().position(|thread| Some(thread.standing.id) == model.open).unwrap_or(0);
    let (before, after) = model.threads.split_at(at.min(model.threads.len()));
    let mut others = after.iter().skip(1).chain(before);
    let unread = others.find(|thread| thread.unseen() > 0).map(|thread| thread.standing.id);
    if let Some(id) = unread {
        open(model, id);
    }
}

fn scroll(model: &mut Model, pages: isize) {
    if matches!(model.view, View::Page(_)) {
        let rows = isize::try_from(model.layout().talk.height.max(2) - 1).unwrap_or(1);
        return scroll_page(model, pages * rows);
    }
    let (rows, width) = model.layout().texts();
    // One row stays, so that the eye finds where it was.
    let step = rows.saturating_sub(1).max(1);
    if let Some(thread) = model.thread_mut() {
        let top = thread.top_row(rows, width);
        let next = if pages < 0 { thread.above(top, step, width) } else { thread.below(top, step, width) };
        thread.top = Some(next);
    }
}

fn scroll_page(model: &mut Model, rows: isize) {
    let layout = model.layout();
    if let View::Page(page) = &mut model.view {
        let all = super::super::draw::page_rows(page, layout.page(), model.colors).0.len();
        let last = all.saturating_sub(usize::from(layout.talk.height));
        page.top = page.top.saturating_add_signed(rows).min(last);
    }
}

fn to_start(model: &mut Model) {
    if let View::Page(page) = &mut model.view {
        page.top = 0;
    } else if let Some(thread) = model.thread_mut() {
        thread.top = Some(Place { text: thread.first(), row: 0 });
    }
}

fn to_end(model: &mut Model) {
    let (rows, width) = model.layout().texts();
    if let Some(thread) = model.thread_mut() {
        // Also past what was not seen, which stays unread then.
        let end = Place { text: thread.end(), row: 0 };
        thread.top = Some(thread.above(end, rows, width));
    }
}

/// Begins to search anew for what is sought now.
fn look_for(model: &mut Model) {
    if let View::Search(search) = &mut model.view {
        (search.found, search.failed) = (None, false);
        find(model, true);
    }
}

/// Goes to the next text that contains what is sought.
pub(crate) fn find(model: &mut Model, is_older: bool) {
    let (rows, width) = model.layout().texts();
    let open = model.open;
    let View::Search(search) = &mut model.view else { return };
    let Some(thread) = model.threads.iter_mut().find(|thread| Some(thread.standing.id) == open) else {
        return;
    };
    let query = search.query.text();
    if query.is_empty() {
        return;
    }
    let found = match (is_older, search.found) {
        (true, at) => older(thread, at.unwrap_or(u64::MAX), query),
        (false, Some(at)) => newer(thread, at, query),
        (false, None) => None,
    };
    search.failed = found.is_none();
    if let Some(text) = found {
        search.found = Some(text);
        // In the middle, so that what is around it is seen.
        thread.top = Some(thread.above(Place { text, row: 0 }, rows / 2, width));
    }
}
