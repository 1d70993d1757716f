//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use zeroize::Zeroizing;

use super::super::model::View;
use super::super::stage::{Stage, contact};
use super::super::update::{Act, Input};
use crate::daemon::message::Account;

const NONE: KeyModifiers = KeyModifiers::NONE;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;

fn stage() -> Stage {
    let mut stage = Stage::new(80, 24);
    stage.attach(vec![contact(1, "bob"), contact(2, "carol"), contact(3, "dave")], 0);
    stage
}

fn asks(acts: &[Act]) -> Vec<&Account> {
    acts.iter().filter_map(|act| if let Act::Ask(account, _) = act { Some(account) } else { None }).collect()
}

#[test]
fn keys_edit_the_line() {
    let mut stage = stage();
    let typed = [
        (KeyCode::Char('é'), NONE, "é"),
        (KeyCode::Char('你'), NONE, "é你"),
        (KeyCode::Char('X'), KeyModifiers::SHIFT, "é你X"),
        (KeyCode::Left, NONE, "é你X"),
        (KeyCode::Backspace, NONE, "éX"),
        (KeyCode::Delete, NONE, "é"),
        (KeyCode::Char(' '), NONE, "é "),
        (KeyCode::Char('w'), NONE, "é w"),
        (KeyCode::Home, NONE, "é w"),
        (KeyCode::Char('a'), NONE, "aé w"),
        (KeyCode::End, NONE, "aé w"),
        (KeyCode::Char('w'), CONTROL, "aé "),
        (KeyCode::Char('b'), NONE, "aé b"),
        (KeyCode::Left, CONTROL, "aé b"),
        (KeyCode::Char('k'), CONTROL, "aé "),
        (KeyCode::Enter, ALT, "aé \n"),
        (KeyCode::Char('q'), NONE, "aé \nq"),
        (KeyCode::Char('a'), CONTROL, "aé \nq"),
        (KeyCode::Char('u'), CONTROL, "aé \nq"),
        (KeyCode::Char('h'), CONTROL, "aé q"),
        (KeyCode::Backspace, ALT, "q"),
        (KeyCode::Char('e'), CONTROL, "q"),
        (KeyCode::Char('u'), CONTROL, ""),
        (KeyCode::F(5), NONE, ""),
        (KeyCode::Char('z'), ALT, ""),
    ];
    for (code, modifiers, expected) in typed {
        stage.key(code, modifiers);
        assert_eq!(stage.model.composer().text(), expected, "{code:?} {modifiers:?}");
    }
    let released = KeyEvent { kind: KeyEventKind::Release, ..KeyEvent::new(KeyCode::Char('r'), NONE) };
    stage.happens(Input::Key(released));
    assert_eq!(stage.model.composer().text(), "");
}

/// A draft must never go to somebody else.
#[test]
fn a_draft_stays_with_its_conversation() {
    let mut stage = stage();
    stage.happens(Input::Paste(Zeroizing::new("for bob".to_owned())));
    stage.key(KeyCode::Char('n'), CONTROL);
    assert_eq!(stage.model.composer().text(), "");
    let acts = stage.types("for carol");
    assert!(matches!(asks(&acts)[..], [Account::SayTo { id, text }] if id.0 == 2 && *text.0 == "for carol"));
    stage.key(KeyCode::Char('p'), CONTROL);
    assert_eq!(stage.model.composer().text(), "for bob");
    // Somebody who is forgotten takes the draft along.
    stage.attach(vec![contact(2, "carol"), contact(3, "dave")], 0);
    assert_eq!(stage.model.composer().text(), "");
}

#[test]
fn keys_switch_conversations_around_the_list() {
    let mut stage = stage();
    let at = |stage: &Stage| stage.model.open.unwrap().0;
    for (code, modifiers, expected) in [
        (KeyCode::Tab, NONE, 2),
        (KeyCode::Down, ALT, 3),
        (KeyCode::Char('n'), CONTROL, 1),
        (KeyCode::BackTab, KeyModifiers::SHIFT, 3),
        (KeyCode::Up, ALT, 2),
        (KeyCode::Char('p'), CONTROL, 1),
    ] {
        stage.key(code, modifiers);
        assert_eq!(at(&stage), expected, "{code:?}");
    }
    stage.hears((3, "dave"), "dave", "new");
    stage.key(KeyCode::Char('a'), ALT);
    assert_eq!(at(&stage), 3);
    stage.draws();
    stage.key(KeyCode::Char('a'), ALT);
    assert_eq!(at(&stage), 3, "nothing is unread");
    stage.types("/open carol");
    assert_eq!(at(&stage), 2);
}

#[test]
fn a_paste_is_one_text_and_is_not_sent_by_its_lines() {
    let mut stage = stage();
    assert!(stage.happens(Input::Paste(Zeroizing::new("one\r\ntwo\rthree\n".to_owned()))).is_empty());
    assert_eq!(stage.model.composer().text(), "one\ntwo\nthree\n");
    assert_eq!(stage.key(KeyCode::Enter, NONE).len(), 1);
}

#[test]
fn commands_ask_what_the_line_mode_asks() {
    let mut stage = stage();
    let commands = [
        ("/invite erin", "Invite"),
        ("/withdraw erin", "Withdraw"),
        ("/invitations", "Invitations"),
        ("/contacts", "Contacts"),
        ("/identity", "Identity"),
        ("/rename bob \"robert b\"", "Rename"),
        ("/forget bob", "Forget"),
        ("/group create desk bob carol", "CreateGroup"),
        ("/group leave desk", "LeaveGroup"),
        ("/group remove desk bob", "RemoveMember"),
        ("/group keep desk bob", "KeepMember"),
    ];
    for (line, asked) in commands {
        let acts = stage.types(line);
        let [account] = asks(&acts)[..] else { panic!("{line}: {acts:?}") };
        assert!(format!("{account:?}").starts_with(asked), "{line}: {account:?}");
    }
    for line in ["/", "/invite", "/group create desk", "/unheard-of", "/accept bob sotto-invitation-xyz"] {
        assert!(stage.types(line).is_empty(), "{line}");
        assert!(stage.model.newest_note().is_some(), "{line} is explained");
    }
    let acts = stage.types("//etc/hosts");
    assert!(matches!(asks(&acts)[..], [Account::SayTo { text, .. }] if *text.0 == "/etc/hosts"));
    assert!(matches!(stage.types("/quit")[..], [Act::Quit]));
    assert!(matches!(stage.key(KeyCode::Char('c'), CONTROL)[..], [Act::Quit]));
    stage.happens(Input::Gone("gone".to_owned()));
    assert!(matches!(stage.types("/online")[..], [Act::Online]));
    assert!(stage.types("/invite erin").is_empty());
}

#[test]
fn what_is_no_invitation_is_told_and_kept_nowhere() {
    let mut stage = stage();
    stage.types("/accept erin");
    assert!(stage.types("not an invitation").is_empty());
    assert!(stage.model.newest_note().is_some());
    // What a terminal types that knows no pastes, line by line, is said to nobody.
    assert!(stage.types("the second line of it").is_empty());
    assert!(matches!(stage.model.view, View::Secret(..)));
    stage.key(KeyCode::Esc, NONE);
    stage.key(KeyCode::Up, NONE);
    assert_eq!(stage.model.composer().text(), "/accept erin");
}
