//! The command line at a server with slots.

use sotto_protocol::CodeKind;
use sottod::Config;

use crate::programs::{Home, Server, config, loopback};

#[test]
fn people_meet_and_chat_at_a_server_with_slots_and_are_told_what_differs() {
    let slots = Config { code: CodeKind::Partitioned, retrieve: 4, choices: 3, ..config(loopback()) };
    let short = Config { round_ms: 400, deposit_ms: 150, lookup_ms: 120, query_ms: 220, ..slots };
    let server = Server::start(short);
    let alice = Home::new();
    let init = ["init", "--server", &server.address(), "--name", "alice", "--conversations", "2"];
    let joined = alice.output(&init, "");
    let told = String::from_utf8(joined.stderr).unwrap();
    assert!(joined.status.success() && told.contains("by slots") && told.contains("cannot move"), "{told}");
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
