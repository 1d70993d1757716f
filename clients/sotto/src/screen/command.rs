//! Commands: lines that begin with a slash.

use super::model::{Model, Secret, View};
use super::search::Search;
use super::update::{Act, Purpose, find_first, keys, open_named};
use super::{accept, invite};
use crate::cli::contacts::blocking;
use crate::daemon::message::{Account, Severity};

pub(super) const OFFLINE: &str = "not online: nothing was handed in; /online takes you there";

const HELP: &str = "\
/invite NAME            make a contact and an invitation for that person
/accept NAME            make a contact of who invited you; then paste the invitation
/invitations            those that nobody has answered
/withdraw NAME          take an invitation back
/group create NAME MEMBER...
/group join             then paste the card
/group leave NAME
/group remove NAME MEMBER
/group keep NAME MEMBER take a removal back
/contacts               all, with identities
/identity               your own
/verify NAME            words to compare with a contact, by voice or side by side
/open NAME              open a conversation
/rename NAME NEW        call a contact or group something else, here
/forget NAME            forget a contact or group at once, and tell nobody
/block NAME             show nothing of it, and tell nobody; /unblock NAME
/file PATH              send a file of at most 64 KiB
/reply TEXT             to the last text that came; /reply-to N TEXT: Nth last
/search TEXT            find TEXT in the open conversation
/notices                what was told before
/dismiss                the alarm was seen; /dismiss all: all of them
/online                 come online, if 'sotto run' has ended
/quit                   leave the screen; you stay online

Names with spaces stand in \"quotes\". A text that begins with a slash is typed with two.

Tab, Ctrl-N, Alt-Down   next conversation; Shift-Tab, Ctrl-P, Alt-Up: before
Alt-A                   next conversation with unread texts
PageUp, PageDown        scroll; Ctrl-Home to the beginning, Ctrl-End to the end
Ctrl-F                  search; Up, Enter: older, Down: newer, Esc: back
Alt-Enter               a new line in the text
Up, Down                in an empty line: what you wrote before
Ctrl-W, Ctrl-U, Ctrl-K  delete a word, to the beginning, to the end
Ctrl-X                  dismiss the alarm; Esc: the note
Ctrl-L                  draw anew; Ctrl-C leaves the screen

Marks: … being handed in, · waits for its turn, ✓ sent, ✓✓ arrived, ✗ not taken.
Times are when a text came or was written; --:-- if nobody took note.
A text counts as read once it was drawn here. 'sotto history' keeps what was.";

/// Does what a line says that begins with a slash.
pub(super) fn perform(model: &mut Model, line: &str) -> Vec<Act> {
    model.noting = false;
    let words = words(line);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((command, rest)) = words.split_first() else { return Vec::new() };
    let owned = |word: &&str| (*word).to_owned();
    match (*command, rest) {
        ("/help", []) => model.page("Help", HELP),
        ("/quit", []) => return vec![Act::Quit],
        ("/online", []) if model.is_online() => model.notice("you are online"),
        ("/online", []) => return vec![Act::Online],
        ("/dismiss", []) => dismiss(model),
        ("/dismiss", ["all"]) => {
            model.alarms.clear();
            dismiss(model);
        }
        ("/notices", []) => notices(model),
        ("/open", [name]) => open_named(model, name),
        ("/search", []) => model.view = View::Search(Search::default()),
        ("/search", _) => {
            let query = line.trim_start().strip_prefix("/search").unwrap_or_default().trim();
            find_first(model, query);
        }
        ("/file", [path]) if model.is_online() => match model.thread().map(|thread| thread.name().to_owned())
        {
            Some(name) => return vec![Act::SendFile(name, path.into())],
            None => model.warn("there is nobody to send it to yet"),
        },
        ("/file", [_]) => model.warn(OFFLINE),
        ("/reply", [_, ..]) => return keys::reply(model, 0, behind(line, 1)),
        ("/reply-to", [number, _, ..]) => match number.parse::<usize>() {
            Ok(number @ 1..) => return keys::reply(model, number - 1, behind(line, 2)),
            _ => model.warn("/reply-to N TEXT: 1 is the last text that came, 2 the one before"),
        },
        ("/accept", [contact]) => accept::ask(model, owned(contact)),
        ("/accept", [_, ..]) => {
            model.warn("an invitation is pasted when it is asked for: /accept NAME, and nothing else");
        }
        ("/group", ["join"]) => {
            model.view = View::Secret(Secret::Card, super::composer::Composer::default());
        }
        _ => match asked(command, rest) {
            Some(act) if model.is_online() => return vec![act],
            Some(_) => model.warn(OFFLINE),
            None => model.warn(format!("'{line}' is no command; /help lists those there are")),
        },
    }
    Vec::new()
}

/// What the participant is asked for a command.
fn asked(command: &str, rest: &[&str]) -> Option<Act> {
    let done = |account, line: String| Some(Act::Ask(account, Purpose::Do(line)));
    match (command, rest) {
        ("/invite", [contact]) => Some(invite::make((*contact).to_owned())),
        ("/invitations", []) => Some(Act::Ask(Account::Invitations, Purpose::Show)),
        ("/identity", []) => Some(Act::Ask(Account::Identity, Purpose::Show)),
        ("/verify", [contact]) => {
            Some(Act::Ask(Account::Words { contact: (*contact).to_owned() }, Purpose::Show))
        }
        ("/contacts", []) => Some(Act::Ask(Account::Contacts, Purpose::Show)),
        ("/withdraw", [contact]) => done(
            Account::Withdraw { contact: (*contact).to_owned() },
            format!("the invitation of {contact} is worth nothing any more; the place is free"),
        ),
        ("/forget", [name]) => done(
            Account::Forget { name: (*name).to_owned() },
            format!("{name} is forgotten, with all keys; nobody is told"),
        ),
        ("/block", [name]) => {
            done(Account::Block { name: (*name).to_owned(), blocked: true }, blocking(name, true))
        }
        ("/unblock", [name]) => {
            done(Account::Block { name: (*name).to_owned(), blocked: false }, blocking(name, false))
        }
        ("/rename", [name, to]) => done(
            Account::Rename { name: (*name).to_owned(), to: (*to).to_owned() },
            format!("{name} is called {to} now, here and nowhere else"),
        ),
        ("/group", ["create", name, members @ ..]) if !members.is_empty() => {
            let members = members.iter().map(|member| (*member).to_owned()).collect();
            let account = Account::CreateGroup { name: (*name).to_owned(), members };
            Some(Act::Ask(account, Purpose::Create((*name).to_owned())))
        }
        ("/group", ["leave", name]) => done(
            Account::LeaveGroup { name: (*name).to_owned() },
            format!("the others learn it in your next turns in {name}, while you are online"),
        ),
        ("/group", ["remove", group, member]) => done(
            Account::RemoveMember { group: (*group).to_owned(), member: (*member).to_owned() },
            format!("{member} is removed from {group}; the others learn it in your next turns with them"),
        ),
        ("/group", ["keep", group, member]) => {
            let account = Account::KeepMember { group: (*group).to_owned(), member: (*member).to_owned() };
            let line = format!("{member} stays in {group}; nobody was told of the removal");
            Some(Act::Ask(account, Purpose::Keep(line)))
        }
        _ => None,
    }
}

/// The alarm that is shown was seen.
pub(super) fn dismiss(model: &mut Model) {
    if !model.alarms.is_empty() {
        model.alarms.remove(0);
    }
    if model.alarms.is_empty() {
        model.more_alarms = 0;
    }
}

fn notices(model: &mut Model) {
    let mut lines = Vec::new();
    for noted in model.notes.iter().rev() {
        let at = noted.at.strftime("%m-%d %H:%M");
        let severity = match noted.note.severity {
            Severity::Notice => "",
            Severity::Warning => "! ",
            Severity::Alarm => "!!! ",
        };
        lines.push(format!("{at} {severity}{}", noted.note.line));
    }
    let text = if lines.is_empty() { "Nothing was told yet.".to_owned() } else { lines.join("\n") };
    model.page("What was told, newest first", text);
}

/// What stands behind so many words.
fn behind(line: &str, words: usize) -> &str {
    (0..words).fold(line.trim(), |rest, _| {
        rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start())
    })
}

/// The words of a line; what stands in quotes is one.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    for character in line.chars() {
        match character {
            '"' => (quoted, begun) = (!quoted, true),
            space if space.is_whitespace() && !quoted => {
                if core::mem::take(&mut begun) {
                    words.push(core::mem::take(&mut word));
                }
            }
            other => {
                word.push(other);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn names_with_spaces_are_one_word_in_quotes() {
        assert_eq!(words("/rename  \"my friend\" bob"), ["/rename", "my friend", "bob"]);
        assert_eq!(words("/open \"\""), ["/open", ""]);
        assert!(words("  ").is_empty());
    }
}
