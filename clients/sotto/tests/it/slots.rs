//! The command line at a server with slots.

use sotto_protocol::CodeKind;
use sottod::{Config, Registration};

use crate::programs::{Home, Program, Server, brisk, loopback};

/// At both kinds of servers.
#[test]
fn an_account_is_closed_at_the_server_and_here() {
    for code in [CodeKind::Cuckoo, CodeKind::Partitioned] {
        let data = tempfile::tempdir().unwrap();
        let slots = Config { code, retrieve: 4, choices: 3, ..brisk(loopback()) };
        let server = Server::start(Config {
            data: Some(data.path().to_owned()),
            registration: Registration::Token,
            ..slots
        });
        let token = || sottod::issue_token(data.path()).unwrap().to_string();
        let init = ["init", "--server", &server.address(), "--name", "alice"];
        let [alice, bob] = [Home::new(), Home::new()];
        alice.succeeds_with(&init, &token());
        bob.succeeds_with(&["init", "--server", &server.address(), "--name", "bob"], &token());
        alice.succeeds(&["invite", "bob"]);
        let process = Program::start(&alice, &["run"]);
        process.is_told("online");
        alice.fails(&["close", "--name", "alice"], "", 4, "'sotto stop' first");
        alice.succeeds(&["stop"]);
        process.end();
        alice.fails(&["close", "--name", "alicia"], "", 2, "the account of alice");
        assert!(alice.file("state").exists());
        let closed = alice.output(&["close", "--name", "alice"], "");
        let told = String::from_utf8(closed.stderr).unwrap();
        assert!(closed.status.success() && told.contains("the server has forgotten"), "{told}");
        for file in ["state", "nodes", "news", "joining"] {
            assert!(!alice.file(file).exists(), "{file} is left");
        }
        alice.fails(&["close", "--name", "alice"], "", 4, "sotto init");
        // Somebody new can begin in the same place, with another token.
        alice.succeeds_with(&init, &token());
        server.shutdown();
        assert_eq!(sottod::check_log(data.path()).unwrap().accounts, 2);
        // Nothing is lost when the server cannot be asked.
        bob.fails(&["close", "--name", "bob"], "", 3, "no server answers");
        assert!(bob.file("state").exists());
    }
}

#[test]
fn people_meet_and_chat_at_a_server_with_slots_and_are_told_what_differs() {
    for code in [CodeKind::Partitioned, CodeKind::Standing] {
        meet_and_chat(code);
    }
}

fn meet_and_chat(code: CodeKind) {
    let slots = Config { code, retrieve: 4, choices: 3, ..brisk(loopback()) };
    let server = Server::start(slots);
    let alice = Home::new();
    let init = ["init", "--server", &server.address(), "--name", "alice", "--conversations", "2"];
    let joined = alice.output(&init, "");
    let told = String::from_utf8(joined.stderr).unwrap();
    assert!(joined.status.success() && told.contains("by slots") && told.contains("cannot move"), "{told}");
    assert_eq!(told.contains("for eight rounds"), code == CodeKind::Standing);
    let bob = Home::join(&server.address(), "bob", 2);
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    // Whose slot nobody has heard of cannot stand on a card.
    let early = ["group", "create", "desk", &format!("bob={}", bob.succeeds(&["identity"]).trim())];
    alice.fails(&early, "", 1, "meet all members");
    alice.succeeds_with(&["chat", "bob", "--wait"], "hello\n");
    assert_eq!(bob.succeeds(&["read"]), "alice: hello\n");
    let card = alice.succeeds(&["group", "create", "desk", "bob"]);
    assert!(card.starts_with("sotto-group-2-"), "{card}");
    bob.succeeds_with(&["group", "join"], &card);
    bob.succeeds_with(&["chat", "desk", "--wait"], "to the desk\n");
    assert_eq!(alice.succeeds(&["read"]), "bob@desk: to the desk\n");
    server.shutdown();
}
