//! Real `sotto` processes against a real server with the real engine.

use std::net::SocketAddr;

use crate::programs::{Home, Program, Server, config, loopback};
use sotto_wire::Token;
use sottod::{Config, Registration, ServerEvent};

#[test]
fn two_people_join_with_tokens_talk_both_ways_and_leave() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("server");
    let server = Server::start(Config {
        registration: Registration::Token,
        data: Some(data.clone()),
        ..config(loopback())
    });
    let (alice, bob, address) = (Home::new(), Home::new(), server.address());
    let tokens = [sottod::issue_token(&data).unwrap(), sottod::issue_token(&data).unwrap()];
    for (home, name, token) in [(&alice, "alice", &tokens[0]), (&bob, "bob", &tokens[1])] {
        let init = ["init", "--server", &address, "--name", name, "--conversations", "1"];
        home.fails(&init, "", 2, "registration token");
        let forged = Token::new(token.bytes().map(|byte| byte ^ 1)).to_string();
        home.fails(&init, &forged, 3, "token");
        home.succeeds_with(&init, &token.to_string());
    }
    let init = ["init", "--server", &address, "--name", "carol"];
    Home::new().fails(&init, &tokens[0].to_string(), 3, "ask the server's operator");

    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let mut at_alice = Program::start(&alice, &["chat", "bob"]);
    at_alice.is_told("rounds of 0.7 s; your turn with bob comes in every round");
    at_alice.is_told("bob has not answered yet");
    let mut at_bob = Program::start(&bob, &["chat", "alice", "--json", "--stay"]);
    at_alice.says("Are you there?");
    at_alice.is_told("bob is there: texts can go out");
    let heard: serde_json::Value = serde_json::from_str(&at_bob.hears()).unwrap();
    assert_eq!((&heard["from"], &heard["text"]), (&"alice".into(), &"Are you there?".into()));
    at_alice.is_told("arrived at bob: Are you there?");
    at_bob.input_bytes(b"\xff\xfe\n");
    at_bob.is_told("not sent: the line is not UTF-8 text");
    at_bob.says("I am here.");
    assert_eq!(at_alice.hears(), "bob: I am here.");
    at_alice.says(" \t ");
    at_alice.says("Good.");
    assert_eq!(at_alice.end(), (Some(0), Vec::new()));
    let heard: serde_json::Value = serde_json::from_str(&at_bob.hears()).unwrap();
    assert_eq!(heard["text"], "Good.");
    at_bob.interrupt();
    assert_eq!(at_bob.end(), (Some(1), Vec::new()), "the line of bytes was not sent");

    for home in [&alice, &bob] {
        assert!(home.process().is_some());
        home.succeeds(&["stop"]);
        assert!(home.process().is_none());
        home.succeeds(&["stop"]);
    }
    server.shutdown();
}

/// More rounds go by than a client believes of a server when no time explains them.
#[test]
fn who_takes_long_to_find_the_token_takes_part_like_everybody() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("server");
    let server = Server::start(Config {
        registration: Registration::Token,
        data: Some(data.clone()),
        ..config(loopback())
    });
    let (alice, bob, address) = (Home::new(), Home::new(), server.address());
    let tokens = [sottod::issue_token(&data).unwrap(), sottod::issue_token(&data).unwrap()];
    let init = |name| ["init", "--server", &address, "--name", name, "--conversations", "1"];
    let mut events = server.running.events();
    let mut joins = Program::start(&alice, &init("alice"));
    let mut opened = 0;
    while opened < 20 {
        opened += usize::from(matches!(
            server.runtime.block_on(events.recv()).unwrap(),
            ServerEvent::RoundOpened { .. }
        ));
    }
    joins.says(&tokens[0].to_string());
    assert_eq!(joins.end().0, Some(0));
    bob.succeeds_with(&init("bob"), &tokens[1].to_string());
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let at_alice = Program::start(&alice, &["chat", "bob", "--stay"]);
    let _at_bob = Program::start(&bob, &["chat", "alice", "--stay"]);
    at_alice.is_told("bob is there: texts can go out");
    server.shutdown();
}

#[test]
fn a_node_that_is_gone_keeps_nobody_from_joining_and_talking() {
    let server = Server::start(config(loopback()));
    let gone = std::net::TcpListener::bind(loopback()).unwrap().local_addr().unwrap().to_string();
    let there = server.running.local_addr().to_string();
    // Whoever of the two is an account's home, and in whatever order the address names them.
    let [one, other] = [format!("{gone},{there}"), format!("{there},{gone}")]
        .map(|nodes| server.address().replace(&there, &nodes));
    let (alice, bob) = (Home::join(&one, "alice", 1), Home::join(&other, "bob", 1));
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let mut at_alice = Program::start(&alice, &["chat", "bob"]);
    at_alice.is_told("bob is there: texts can go out");
    at_alice.says("One of two is enough.");
    at_alice.is_told("arrived at bob: One of two is enough.");
    assert_eq!(at_alice.end(), (Some(0), Vec::new()));
    for home in [&alice, &bob] {
        home.succeeds(&["stop"]);
    }
    server.shutdown();
}

#[test]
fn a_chat_ends_with_the_participant_and_says_so() {
    let server = Server::start(config(loopback()));
    let alice = Home::join(&server.address(), "alice", 1);
    alice.succeeds(&["invite", "bob"]);
    let chat = Program::start(&alice, &["chat", "bob"]);
    chat.is_told("stay online");
    alice.succeeds(&["stop"]);
    chat.is_told("going offline at the end of the round");
    chat.is_told("error: 'sotto run' has ended");
    assert_eq!(chat.end().0, Some(1));

    // Many programs at once come online once.
    let programs: Vec<Program> = (0..3).map(|_| Program::start(&alice, &["chat", "bob"])).collect();
    for program in &programs {
        program.is_told("stay online");
    }
    let status = alice.json(&["status", "--json"]);
    assert_eq!(status[0]["online"]["attached"], 3);
    // A participant that is killed leaves its socket behind.
    alice.kill();
    for program in programs {
        program.is_told("error: 'sotto run' has ended");
    }
    alice.succeeds(&["withdraw", "bob"]);
    assert!(alice.process().is_none(), "what shows to nobody does not go online");
    alice.succeeds(&["invite", "bob"]);
    assert!(alice.process().is_some());
    server.shutdown();
}

/// Whoever can break connections and answer in the server's place ends nobody's presence.
#[test]
fn attack_b5_an_impostor_after_a_broken_connection_ends_neither_chat_nor_presence() {
    let directory = tempfile::tempdir().unwrap();
    let with = |listen: SocketAddr| Config { data: Some(directory.path().join("server")), ..config(listen) };
    let server = Server::start(with(loopback()));
    let (at, address) = (server.running.local_addr(), server.address());
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&address, name, 1));
    let online = Program::start(&alice, &["run"]);
    online.is_told("online at");
    alice.succeeds(&["invite", "bob"]);
    let chat = Program::start(&alice, &["chat", "bob"]);
    chat.is_told("stay online");
    server.shutdown();

    let impostor = Server::start(config(at));
    online.is_told("the server does not hold the key");
    chat.is_told("the server does not hold the key");
    // Only one who comes for the first time is kept from it.
    bob.fails(&["run"], "", 5, "the server does not hold the key");
    bob.fails(&["invite", "alice"], "", 5, "the server does not hold the key");
    impostor.shutdown();

    let server = Server::start(with(at));
    online.is_told("connected again");
    chat.is_told("connected again");
    assert_eq!(chat.end().0, Some(0));
    online.interrupt();
    assert_eq!(online.end().0, Some(0));
    server.shutdown();
}
