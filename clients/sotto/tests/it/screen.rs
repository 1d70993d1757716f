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
