//! What somebody does who has just built the programs, as the README tells it.

use crate::programs::{Home, Program, Server, brisk, config, loopback};

const README: &str = include_str!("../../../../README.md");
const PROGRAM: &str = "./target/release/sotto --home ";

/// The commands of the section for two terminals, but for program and home, with a server's address in the place of the README's.
fn commands(address: &str) -> Vec<Vec<String>> {
    let (_, section) = README.split_once("## Chat between two terminals").unwrap();
    let commands =
        section.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix(PROGRAM));
    let words = |line: &str| {
        let words = line.split('#').next().unwrap().split_whitespace().skip(1);
        words
            .map(|word| if word.starts_with("sotto://") { address.to_owned() } else { word.to_owned() })
            .collect()
    };
    commands.map(words).collect()
}

/// What a reader makes of a code, of which light parts are drawn.
fn read(code: &str) -> String {
    const SCALE: usize = 4;
    let rows: Vec<Vec<char>> = code.lines().map(|row| row.chars().collect()).collect();
    let dark = |x: usize, y: usize| match (rows[y / 2][x], y % 2) {
        ('█', _) | ('▀', 0) | ('▄', 1) => 255,
        _ => 0,
    };
    let pixel = |x: usize, y: usize| dark(x / SCALE, y / SCALE);
    let (width, height) = (rows[0].len() * SCALE, rows.len() * 2 * SCALE);
    let mut image = rqrr::PreparedImage::prepare_from_greyscale(width, height, pixel);
    image.detect_grids().first().unwrap().decode().unwrap().1
}

#[test]
fn a_newcomer_is_two_commands_from_the_first_exchanged_text() {
    let server = Server::start(brisk(loopback()));
    let commands = commands(&server.address());
    let [invite, accept] = commands.iter().take(2).collect::<Vec<_>>().try_into().unwrap();
    let (alice, bob) = (Home::new(), Home::new());
    let start = |home: &Home, arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Program::start(home, &arguments)
    };

    let mut at_alice = start(&alice, invite);
    let invitation = at_alice.hears();
    assert!(invitation.starts_with(&format!("{}/", server.address())), "{invitation}");
    assert!(invitation.contains("/sotto-invite-"), "{invitation}");
    at_alice.is_told("Bob has not answered yet");
    let mut at_bob = start(&bob, accept);
    at_bob.says(&invitation);
    at_bob.is_told("Alice is a contact now");
    // As if the server had wanted one: a secret of Bob's, and none of Alice's business.
    at_bob.says(&sotto_wire::Token::new([7; 32]).to_string());
    at_bob.is_told("not sent: this is a registration token");
    at_bob.says("Here I am.");
    assert_eq!(at_alice.hears(), "Bob: Here I am.");
    at_alice.says("So soon!");
    assert_eq!(at_bob.hears(), "Alice: So soon!");

    let words = alice.succeeds(&["verify", "Bob"]);
    assert_eq!((words.split_whitespace().count(), words.lines().count()), (16, 4));
    assert_eq!(words, bob.succeeds(&["verify", "Alice"]));
    let mine = &alice.json(&["verify", "Bob", "--json"])[0]["words"];
    let mine: Vec<&str> = mine.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(mine, words.split_whitespace().collect::<Vec<_>>());
    at_alice.end();
    at_bob.end();
    for home in [&alice, &bob] {
        home.succeeds(&["stop"]);
    }
    server.shutdown();
}

#[test]
fn an_account_is_made_once_and_never_by_mistake() {
    let (server, other) = (Server::start(config(loopback())), Server::start(config(loopback())));
    let (alice, bob) = (Home::new(), Home::new());
    alice.fails(&["invite", "bob"], "", 4, "sotto init");
    alice.fails(&["invite", "bob", "--server", &server.address()], "", 4, "--name YOUR-NAME");
    alice.fails(&["invite", "bob", "--name", "alice"], "", 4, "sotto init");
    let newcomer =
        ["invite", "bob", "--server", &server.address(), "--name", "alice", "--conversations", "2"];
    let invitation = alice.succeeds(&newcomer);
    let again = ["invite", "carol", "--server", &server.address(), "--name", "alice"];
    // The same as a code.
    let printed = alice.succeeds(&[&again[..], &["--qr"]].concat());
    let (string, code) = printed.split_once('\n').unwrap();
    assert!(code.lines().count() > 25 && read(code) == string.to_uppercase(), "{printed}");
    alice.fails(&["invite", "dave", "--name", "alicia"], "", 2, "the account of alice, not of alicia");
    alice.fails(&["invite", "dave", "--conversations", "3"], "", 2, "has room for 2 contacts and groups");
    let elsewhere = ["invite", "dave", "--server", &other.address(), "--name", "alice"];
    alice.fails(&elsewhere, "", 2, "which is another server");
    alice.fails(&["invite", "dave"], "", 1, "no room");

    bob.fails(&["accept", "alice", "--name", "bob"], "sotto://", 2, "not an invitation");
    bob.fails(&["accept", "alice"], &invitation, 4, "--name YOUR-NAME");
    let (_, alone) = invitation.rsplit_once('/').unwrap();
    bob.fails(&["accept", "alice", "--name", "bob"], alone, 4, "sotto init");
    // What needs no server is found out before there is an account.
    bob.fails(&["accept", "al\u{1b}ice", "--name", "bob"], &invitation, 1, "name");
    let moved = format!("{}/{alone}", other.address());
    bob.fails(&["accept", "alice", "--name", "bob"], &moved, 1, "another server");
    bob.fails(&["invite", "al\u{1b}ice", "--name", "bob", "--server", &server.address()], "", 1, "name");
    assert!(!bob.file("state").exists());
    // Somebody who has an account elsewhere.
    let at_other = Home::join(&other.address(), "bob", 1);
    at_other.fails(&["accept", "alice"], &invitation, 2, "another server");
    assert!(at_other.process().is_none(), "that takes nobody online");
    at_other.fails(&["accept", "alice", "--name", "bob"], &invitation, 2, "another server");
    // As a terminal, or a letter, breaks it into lines.
    let lines: Vec<&str> =
        invitation.trim().as_bytes().chunks(60).map(|line| str::from_utf8(line).unwrap()).collect();
    bob.succeeds_with(&["accept", "alice", "--name", "bob"], &(lines.join("\r\n  ") + "\n"));
    bob.fails(&["verify", "carol"], "", 1, "sotto contacts");
    alice.fails(&["verify", "bob"], "", 1, "comes with the first answer");
    for home in [&alice, &bob, &at_other] {
        home.succeeds(&["stop"]);
    }
    server.shutdown();
    other.shutdown();
}
