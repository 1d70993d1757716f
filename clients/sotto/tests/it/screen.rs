//! The screen on a terminal, as it is: a real `sotto screen`, a pseudo-terminal, and what a terminal makes of its output.

use std::thread;
use std::time::{Duration, Instant};

use crate::programs::{Home, LONGEST, Program, Server, config, loopback, signal};
use crate::terminal::Screen;

#[test]
fn a_screen_shows_what_is_said_gives_the_terminal_back_and_takes_nobody_offline() {
    let server = Server::start(config(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 1));
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let mut at_bob = Program::start(&bob, &["chat", "alice"]);

    let mut screen = Screen::open(&alice);
    screen.shows("> ");
    screen.shows("bob");
    screen.types("Are you thera\u{7f}e?\r");
    assert_eq!(at_bob.hears(), "alice: Are you there?");
    screen.shows("✓✓ you: Are you there?");
    at_bob.says("I am \u{202e}here.");
    // The mark in its place is none of the signs that this terminal keeps.
    screen.shows("bob: I am here.");
    assert!(!screen.contents().contains('\u{202e}'));
    // It was drawn, and the participant knows.
    let unread = || alice.json(&["contacts", "--json"])[0]["unread"].as_u64().unwrap();
    let until = Instant::now() + LONGEST;
    while unread() > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(unread(), 0);
    assert_eq!(alice.succeeds(&["read"]), "");
    // A key is read that comes together with a change of size, though none comes after it.
    for keys in 1..=20 {
        screen.resize(40 + keys, 12);
        screen.types("k");
        screen.shows(&"k".repeat(keys.into()));
    }
    screen.types(&"\u{7f}".repeat(20));
    screen.resize(40, 12);
    screen.types("/help\r");
    screen.shows("[Esc closes]");
    screen.types("\u{3}");
    assert_eq!(screen.ended(), Some(0));
    assert!(alice.process().is_some(), "nobody has gone offline");

    let screen = {
        let mut screen = Screen::open(&alice);
        screen.shows("round ");
        screen
    };
    signal("-TERM", screen.process());
    assert_eq!(screen.ended(), Some(0));
    assert!(alice.process().is_some());

    // What comes while no screen is there waits for the next. The participant is started by it, and its end told.
    at_bob.says("While you were away.");
    alice.kill();
    let mut screen = Screen::open(&alice);
    screen.shows("starting 'sotto run'");
    screen.shows("While you were away.");
    // And what was said before is there again.
    screen.shows("✓✓ you: Are you there?");
    screen.shows("bob: I am here.");
    alice.kill();
    screen.shows("OFFLINE");
    screen.types("/quit\r");
    assert_eq!(screen.ended(), Some(0));
    assert!(alice.process().is_none(), "nobody has come online");
    server.shutdown();
}

/// Nobody else's programs are told: what they get is the invitation alone.
#[test]
fn who_meets_somebody_at_a_terminal_hears_first_how_long_texts_take() {
    let server = Server::start(config(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 3));
    let invited = alice.output(&["invite", "dora"], "");
    assert_eq!(String::from_utf8_lossy(&invited.stderr).matches("a text takes").count(), 0);
    let mut inviting = Screen::run(&alice, &["invite", "bob"], 200, 24);
    inviting.shows("your turn with bob comes once in 3 rounds, so a text takes about");
    inviting.shows("sotto-invite-");
    assert_eq!(inviting.ended(), Some(0));
    let mut accepting = Screen::run(&bob, &["accept", "alice"], 200, 24);
    accepting.shows("paste the invitation:");
    accepting.types(&String::from_utf8(invited.stdout).unwrap().replace('\n', "\r"));
    accepting.shows("your turn with alice comes once in 3 rounds, so a text takes about");
    assert_eq!(accepting.ended(), Some(0));
    // A terminal drops what follows, and shows it all the same.
    let mut chat = Screen::run(&bob, &["chat", "alice"], 200, 24);
    chat.shows("Ctrl-C leaves the chat");
    chat.types(&format!("{}\r", "a".repeat(5_000)));
    chat.shows("not sent: a terminal takes no more of one line");
    assert_eq!(bob.json(&["contacts", "--json"])[0]["queued"], 0);
    server.shutdown();
}

#[test]
fn a_screen_gives_up_a_participant_that_stands_still() {
    let server = Server::start(config(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 1));
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let mut screen = Screen::open(&alice);
    screen.shows("> ");
    let process = alice.process().unwrap();
    signal("-STOP", process);
    // More than a socket keeps, pasted and handed in.
    let text = format!("\u{1b}[200~{}\u{1b}[201~\r", "a".repeat(3_000));
    let until = Instant::now() + LONGEST;
    while !screen.contents().contains("takes nothing in") && Instant::now() < until {
        screen.types(&text);
        screen.reads(Duration::from_millis(10));
    }
    screen.shows("OFFLINE: 'sotto run' takes nothing in");
    screen.types("\u{3}");
    assert_eq!(screen.ended(), Some(0));
    signal("-CONT", process);
    server.shutdown();
}
