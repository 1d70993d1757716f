//! What a sender believes arrived is seen by somebody, whatever happens to processes in between.

use std::fs::{self, OpenOptions};
use std::thread;
use std::time::{Duration, Instant};

use crate::programs::{Home, LONGEST, Program, Server, brisk, loopback};

fn arrives(from: &Home, to: &str, text: &str) {
    from.succeeds_with(&["chat", to, "--wait"], &format!("{text}\n"));
}

#[test]
fn a_text_stays_until_a_program_has_shown_it() {
    let server = Server::start(brisk(loopback()));
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| Home::join(&server.address(), name, 2));
    for (person, name) in [(&alice, "alice"), (&carol, "carol")] {
        let invitation = person.succeeds(&["invite", "bob"]);
        bob.succeeds_with(&["accept", name], &invitation);
    }
    thread::scope(|scope| {
        scope.spawn(|| arrives(&alice, "bob", "one\nand \u{202e}two"));
        scope.spawn(|| arrives(&carol, "bob", "from carol"));
    });

    // Nobody has looked, and the participant is killed.
    bob.kill();
    let unread: Vec<u64> =
        bob.json(&["contacts", "--json"]).iter().map(|of| of["unread"].as_u64().unwrap()).collect();
    assert_eq!(unread, [2, 1]);
    // The participant that was killed knew who is there, and had told nobody.
    let news = fs::read(bob.file("news")).unwrap();
    assert!(!news.windows(5).any(|window| window == b"alice"), "it is sealed");

    // A program that could not show it has not shown it. How far it came, nobody knows.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let failed = bob.command(&["chat", "alice"]).stdout(full).output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "{}", String::from_utf8_lossy(&failed.stderr));

    let chat = Program::start(&bob, &["chat", "alice"]);
    assert_eq!(chat.hears(), "alice [perhaps shown before]: one");
    assert_eq!(chat.hears(), "alice [perhaps shown before]: and \u{fffd}two");
    chat.is_told("carol: 1 new text");
    // The participant knows that they were shown.
    let until = Instant::now() + LONGEST;
    while bob.json(&["contacts", "--json"])[0]["unread"] != 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(50));
    }
    // Two programs at the same time show the same.
    let other = Program::start(&bob, &["chat", "alice", "--json"]);
    other.is_told("stay online");
    arrives(&alice, "bob", "three\u{202e}");
    assert_eq!(chat.hears(), "alice: three\u{fffd}");
    let heard = other.hears();
    assert!(heard.contains(r"three\u202e"), "{heard}");
    assert_eq!((chat.end(), other.end()), ((Some(0), Vec::new()), (Some(0), Vec::new())));

    assert_eq!(bob.succeeds(&["read", "alice"]), "");
    bob.kill();
    assert_eq!(bob.succeeds(&["read"]), "carol: from carol\n");
    assert_eq!(bob.succeeds(&["read", "--json"]), "");
    assert!(!bob.file("news").exists(), "what a chat has told does not come again");
    assert!(bob.process().is_none(), "who reads does not go online");
    server.shutdown();
}
