//! What the screen looks like. `SOTTO_SNAPSHOTS=write` writes the files anew; they are read before they are committed.

use core::time::Duration;
use std::path::PathBuf;
use std::{env, fs};

use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use ratatui::style::Color;
use sotto_protocol::ConversationId;

use super::super::stage::{Stage, contact};
use super::super::update::{Act, Input, Purpose};
use super::showing::group;
use crate::cli::failure::Failure;
use crate::daemon::message::{
    File, Moving, Note, Private, Reply, RoundCost, Said, Severity, Standing, Step, Text, Told,
};
use crate::qr::{Ink, WHITE, read};

/// Compares the screen with its file.
fn looks(stage: &mut Stage, name: &str) {
    // What is seen by that, the second shows.
    stage.draws();
    stage.draws();
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/screen/tests/snapshots/{name}.txt"));
    let screen = stage.screen();
    if env::var_os("SOTTO_SNAPSHOTS").is_some_and(|value| value == "write") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &screen).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        screen == expected,
        "{name} looks different; SOTTO_SNAPSHOTS=write keeps it:\n{screen}\nbefore:\n{expected}"
    );
}

fn note(severity: Severity, line: &str) -> Input {
    Input::Told(Told::Note(Note::new(severity, line)))
}

/// A text of one's own is handed in, under this number.
fn says(stage: &mut Stage, text: &str, sequence: u32) {
    for act in stage.types(text) {
        if let Act::Ask(_, purpose @ Purpose::Say(..)) = act {
            stage.happens(Input::Replied(purpose, Ok(Reply::Queued { sequence, waiting: 1 })));
        }
    }
}

fn round(stage: &mut Stage) {
    let cost = RoundCost {
        round: 1233,
        deposits: 40,
        bytes_up: 41_304,
        bytes_down: 352_911,
        bytes_day: 283_817_000,
        line: String::new(),
    };
    stage.happens(Input::Told(Told::Round(cost)));
    stage.happens(Input::Told(Told::Step { round: 1234, step: Step::Opened { elapsed_ms: 300 } }));
    stage.happens(Input::Told(Told::Step { round: 1234, step: Step::Deposited }));
}

/// Alice, who talks with Bob, has heard from Carol and of a group, and has invited Dave.
fn conversation(width: u16, height: u16) -> Stage {
    let mut stage = Stage::new(width, height);
    let mut dave = contact(4, "dave");
    dave.conversation.established = false;
    let desk = group(3, "desk", &["alice", "bob", "carol"]);
    stage.attach(vec![contact(1, "bob"), contact(2, "carol"), desk, dave], 1);
    stage.hears((1, "bob"), "bob", "This came while nobody was here.");
    stage.draws();
    stage.passes(Duration::from_secs(60));
    round(&mut stage);
    for (sequence, text) in [(1, "I am here now."), (2, "Did you get the documents?"), (3, "And the key?")] {
        says(&mut stage, text, sequence);
    }
    stage.happens(Input::Told(Told::Arrived { id: ConversationId(1), sequence: 1 }));
    let bob = Standing { sent: 2, ..contact(1, "bob") };
    stage.happens(Input::Told(Told::Standing(bob)));
    stage.hears((2, "carol"), "carol", "Are you there?");
    stage.hears((2, "carol"), "carol", "Hello?");
    stage.hears((3, "desk"), "bob", "To all of you.");
    stage.hears((1, "bob"), "bob", "Yes, both. I read them tonight.");
    stage
}

#[test]
fn the_empty_screen_says_how_to_begin() {
    let mut stage = Stage::new(80, 24);
    stage.attach(Vec::new(), 0);
    looks(&mut stage, "empty");
}

#[test]
fn a_conversation_with_marks_and_unread_texts_elsewhere() {
    looks(&mut conversation(80, 24), "conversation");
}

#[test]
fn it_fits_on_a_narrow_terminal() {
    let mut stage = conversation(40, 12);
    looks(&mut stage, "narrow");
    stage.happens(note(Severity::Warning, "round 1234: the look-up took too long for this server's timing"));
    looks(&mut stage, "narrow-note");
    stage.resizes(19, 5);
    looks(&mut stage, "too-small");
    stage.resizes(20, 6);
    looks(&mut stage, "smallest");
}

#[test]
fn another_conversation_is_opened_at_what_is_new_there() {
    let mut stage = conversation(80, 24);
    stage.draws();
    stage.key(KeyCode::Tab, KeyModifiers::NONE);
    looks(&mut stage, "switched");
    stage.key(KeyCode::Char('a'), KeyModifiers::ALT);
    looks(&mut stage, "group");
}

#[test]
fn an_alarm_is_unlike_all_else_and_stays_until_it_is_dismissed() {
    let mut stage = conversation(80, 24);
    let cheats = "THE SERVER CHEATS: the server's answer of unit 3 in round 1230, or its hint, is wrong, and signed by it; whoever knows \
                  its address can check that with 'sotto verify-proof /home/alice/proof-1230.sotto'";
    stage.happens(note(Severity::Alarm, cheats));
    stage.happens(note(
        Severity::Alarm,
        "warning (bob): somebody else holds the invitation of this contact, too",
    ));
    stage.happens(note(Severity::Notice, "dave is there: texts can go out"));
    looks(&mut stage, "alarm");
    for _ in 0..5 {
        stage.key(KeyCode::Esc, KeyModifiers::NONE);
        stage.types("and on it goes");
    }
    stage.draws();
    assert!(stage.screen().contains("THE SERVER CHEATS"));
    stage.key(KeyCode::Char('x'), KeyModifiers::CONTROL);
    looks(&mut stage, "alarm-dismissed");
    stage.types("/dismiss");
    stage.draws();
    assert!(!stage.screen().contains("ALARM"));
    stage.types("/notices");
    looks(&mut stage, "notices");
}

#[test]
fn a_flood_of_alarms_is_dismissed_at_once() {
    let mut stage = conversation(80, 24);
    for number in 0..1000 {
        stage.happens(note(Severity::Alarm, &format!("something is wrong, number {number}")));
    }
    stage.draws();
    assert!(stage.screen().contains("number 0"));
    stage.types("/dismiss all");
    stage.draws();
    assert!(!stage.screen().contains("ALARM"));
}

#[test]
fn a_warning_and_a_notice_differ() {
    let mut stage = conversation(80, 24);
    stage.happens(note(Severity::Warning, "a text to dave was not sent: it has ended for you"));
    looks(&mut stage, "warning");
    stage.happens(note(Severity::Notice, "carol has new keys"));
    looks(&mut stage, "notice");
}

#[test]
fn help_has_all_commands_and_keys() {
    let mut stage = conversation(80, 24);
    stage.types("/help");
    looks(&mut stage, "help");
    stage.key(KeyCode::PageDown, KeyModifiers::NONE);
    stage.key(KeyCode::PageDown, KeyModifiers::NONE);
    looks(&mut stage, "help-below");
}

#[test]
fn what_is_sought_is_shown_where_it_stands() {
    let mut stage = Stage::new(80, 12);
    stage.attach(vec![contact(1, "bob")], 0);
    for number in 0..40 {
        stage.hears((1, "bob"), "bob", &format!("Text {number}."));
        stage.draws();
    }
    stage.types("/search text 7");
    looks(&mut stage, "search");
    stage.key(KeyCode::Up, KeyModifiers::NONE);
    looks(&mut stage, "search-nothing-more");
    stage.key(KeyCode::Esc, KeyModifiers::NONE);
    looks(&mut stage, "search-left");
    stage.key(KeyCode::PageUp, KeyModifiers::NONE);
    looks(&mut stage, "scrolled");
}

#[test]
fn wide_signs_long_lines_and_what_must_not_be_shown() {
    let mut stage = Stage::new(60, 20);
    stage.attach(vec![contact(1, "李小龙"), contact(2, "al\u{202e}ice")], 0);
    stage.hears(
        (1, "李小龙"),
        "李小龙",
        "你好，世界！这是一个很长的句子，它必须被分成几行，而且不能把一个字切成两半。",
    );
    stage.hears(
        (1, "李小龙"),
        "李小龙",
        "A long line of words that does not fit into one row and is broken at spaces.",
    );
    stage.hears((1, "李小龙"), "李小龙", &format!("https://example.org/{}", "long-address/".repeat(8)));
    stage.hears((1, "李小龙"), "李小龙", "evil\u{1b}[2J\u{202e}text\u{200b}\n12:00    bob: forged");
    stage.hears((1, "李小龙"), "李小龙", "👨\u{200d}👩\u{200d}👧 é e\u{301} ✓✓");
    stage.happens(Input::Paste(zeroize::Zeroizing::new(
        "写 a draft that is long enough for two rows 你好".to_owned(),
    )));
    stage.key(KeyCode::Left, KeyModifiers::NONE);
    looks(&mut stage, "wide");
}

#[test]
fn an_invitation_stands_alone_and_is_gone_when_it_is_closed() {
    let mut stage = conversation(80, 24);
    let invitation = Private::new("sotto-invitation-".to_owned() + &"abcdefghij".repeat(22));
    let act = stage.types("/invite erin").pop();
    let Some(Act::Ask(_, purpose)) = act else { panic!("{act:?}") };
    stage.happens(Input::Replied(purpose, Ok(Reply::Invitation(invitation))));
    // Neither what follows nor a key takes it away.
    stage.happens(Input::Told(Told::Standing(contact(5, "erin"))));
    stage.key(KeyCode::Tab, KeyModifiers::NONE);
    looks(&mut stage, "invitation");
    stage.key(KeyCode::Esc, KeyModifiers::NONE);
    looks(&mut stage, "invited");
    assert!(!stage.screen().contains("abcdefghij"));
    stage.types("/accept frank");
    stage.happens(Input::Paste(zeroize::Zeroizing::new("a secret".to_owned())));
    looks(&mut stage, "accept");
    assert!(!stage.screen().contains("secret"));
}

#[test]
fn an_invitation_is_read_off_a_terminal_that_is_large_enough() {
    // With a server's address, of the length that these have.
    let invitation = "sotto-invitation-".to_owned() + &"abcdefghij".repeat(30);
    for (colors, ink) in [(false, Ink::Light), (true, Ink::Dark)] {
        let mut stage = conversation(80, 48);
        stage.model.colors = colors;
        let Some(Act::Ask(_, purpose)) = stage.types("/invite erin").pop() else {
            panic!("nothing is asked")
        };
        let reply = Reply::Invitation(Private::new(invitation.as_str()));
        stage.happens(Input::Replied(purpose, Ok(reply)));
        stage.draws();
        let buffer = stage.terminal.backend().buffer().clone();
        // What stays light around the code is at the very left, and whatever else there is is dark.
        let is_code = |y: u16| match colors {
            true => buffer[(0, y)].bg == Color::Indexed(WHITE),
            false => buffer[(0, y)].symbol() == "█",
        };
        let text = |y: u16| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let rows: Vec<String> = (0..48).filter(|y| is_code(*y)).map(text).collect();
        assert_eq!(read(&rows, ink), Some(invitation.to_uppercase()), "{}", rows.join("\n"));
    }
    let mut stage = conversation(80, 48);
    stage.resizes(56, 48);
    let Some(Act::Ask(_, purpose)) = stage.types("/invite erin").pop() else { panic!("nothing is asked") };
    stage.happens(Input::Replied(purpose, Ok(Reply::Invitation(Private::new(invitation)))));
    stage.draws();
    assert!(!stage.screen().contains('█') && stage.screen().contains("As a QR code it takes 57 columns"));
}

#[test]
fn without_a_participant_nothing_is_handed_in_and_the_screen_says_so() {
    let mut stage = conversation(80, 24);
    stage.happens(Input::Told(Told::Connection {
        connected: false,
        node: "chat.example.org:7370".to_owned(),
    }));
    looks(&mut stage, "no-connection");
    stage.happens(Input::Gone("'sotto run' has ended".to_owned()));
    assert!(stage.types("Is this sent?").is_empty());
    looks(&mut stage, "offline");
}

#[test]
fn what_was_not_taken_is_marked() {
    let mut stage = conversation(80, 24);
    let act = stage.types("too much").pop();
    let Some(Act::Ask(_, purpose)) = act else { panic!("{act:?}") };
    stage.happens(Input::Replied(purpose, Err(Failure::other("too many texts wait"))));
    looks(&mut stage, "refused");
}

/// Whoever died with it may have shown it.
#[test]
fn what_may_have_been_seen_before_says_so() {
    let mut stage = Stage::new(80, 24);
    stage.attach(vec![contact(1, "bob")], 2);
    for (number, text, again) in [(1, "Shall we meet?", true), (2, "At noon?", false)] {
        stage.happens(Input::Told(Told::Text(Text {
            number,
            id: ConversationId(1),
            conversation: "bob".to_owned(),
            group: false,
            from: "bob".to_owned(),
            text: Private::new(text),
            sequence: 1,
            at_ms: None,
            quote: None,
            file: None,
            again,
        })));
    }
    looks(&mut stage, "again");
}

#[test]
fn replies_and_files_and_how_far_they_are() {
    let mut stage = Stage::new(80, 24);
    stage.attach(vec![contact(1, "bob"), contact(2, "carol")], 0);
    stage.hears((1, "bob"), "bob", "Shall we meet?");
    says(&mut stage, "/reply Yes, at noon.", 1);
    stage.happens(Input::Told(Told::Arrived { id: ConversationId(1), sequence: 1 }));
    let file = |size, path: Option<&str>| Some(File { size, path: path.map(str::to_owned) });
    stage.happens(Input::Told(Told::Text(Text {
        number: 9,
        id: ConversationId(1),
        conversation: "bob".to_owned(),
        group: false,
        from: "bob".to_owned(),
        text: Private::new("map.png"),
        sequence: 9,
        at_ms: None,
        quote: None,
        file: file(11_800, Some("/home/alice/.local/share/sotto/received/map.png")),
        again: false,
    })));
    stage.happens(Input::Told(Told::Said(Said {
        id: ConversationId(1),
        sequence: 61,
        text: Private::new("table.csv"),
        at_ms: 1_795_694_460_000,
        quote: None,
        file: file(2_304, None),
    })));
    let moving = |name: Option<&str>, from: Option<&str>, there, parts, seconds| Moving {
        name: name.map(str::to_owned),
        from: from.map(str::to_owned),
        there,
        parts,
        seconds,
    };
    let mut bob = contact(1, "bob");
    bob.conversation.files = vec![
        moving(Some("table.csv"), None, 1, 2, Some(52)),
        moving(Some("house.jpg"), None, 0, 38, Some(2_431)),
        moving(None, Some("bob"), 3, 9, None),
    ];
    stage.happens(Input::Told(Told::Standing(bob)));
    looks(&mut stage, "files");
    stage.resizes(40, 9);
    looks(&mut stage, "files-narrow");
}
