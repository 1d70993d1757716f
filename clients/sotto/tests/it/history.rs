//! What was said before, and what becomes of it, as people and scripts see it.

use std::fs;

use crate::programs::{Home, Program, Server, brisk, loopback};

/// What is kept of a conversation: who said what, and what became of it.
fn kept(home: &Home, with: &str) -> Vec<(Option<String>, String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let kept = home.json(&["history", with, "--json"]);
    kept.iter()
        .map(|past| (past["from"].as_str().map(str::to_owned), text(&past["text"]), text(&past["mark"])))
        .collect()
}

fn past(from: Option<&str>, text: &str, mark: &str) -> (Option<String>, String, String) {
    (from.map(str::to_owned), text.to_owned(), mark.to_owned())
}

#[test]
fn what_was_said_is_kept_until_it_is_forgotten_and_what_is_blocked_is_not_even_kept() {
    let server = Server::start(brisk(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 2));
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let mut at_bob = Program::start(&bob, &["chat", "alice"]);
    alice.succeeds_with(&["chat", "bob", "--wait"], "Are you there?\n");
    assert_eq!(at_bob.hears(), "alice: Are you there?");
    let at_alice = Program::start(&alice, &["chat", "bob"]);
    at_bob.says("I am \u{1b}[2Jhere.");
    assert_eq!(at_alice.hears(), "bob: I am \u{fffd}[2Jhere.");
    assert_eq!(at_alice.end(), (Some(0), Vec::new()));
    at_bob.is_told("arrived at alice");

    // A program that dies takes nothing with it.
    alice.kill();
    let here = "I am \u{1b}[2Jhere.";
    let all = [past(None, "Are you there?", "arrived"), past(Some("bob"), here, "read")];
    assert_eq!(kept(&alice, "bob"), all);
    let printed = alice.succeeds(&["history", "bob"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].contains(" [arrived] you: Are you there?"), "{printed}");
    assert!(lines.len() == 2 && lines[1].ends_with(" bob: I am \u{fffd}[2Jhere."), "{printed}");
    assert_eq!(kept(&bob, "alice")[0], past(Some("alice"), "Are you there?", "read"));
    let file = fs::read(alice.file("history")).unwrap();
    assert!(file.len().is_multiple_of(1 << 20) && !file.windows(5).any(|window| window == b"there"));
    alice.fails(&["history", "carol"], "", 1, "no contact or group 'carol'");
    alice.fails(&["send", "bob", "--file", "/"], "", 2, "is no file");

    // A reply names a text by its number here, and the other one finds it by another.
    let place = alice.json(&["history", "bob", "--json"])[1]["place"].to_string();
    alice.succeeds(&["send", "bob", "Come over.", "--reply-to", &place]);
    assert_eq!(at_bob.hears(), "alice [to you: I am \u{fffd}[2Jhere.]: Come over.");
    let reply = alice.succeeds(&["history", "bob", "--last", "1"]);
    assert!(reply.contains(" you [to bob: I am \u{fffd}[2Jhere.]: Come over."), "{reply}");
    alice.fails(&["send", "bob", "no", "--reply-to", "999"], "", 1, "no text #999");

    // A file is there as a whole, where nothing leads elsewhere.
    let (map, content) = (alice.file("../-map.png"), [7, 0, 255, 27].repeat(100));
    fs::write(&map, &content).unwrap();
    let told = alice.output(&["send", "bob", "--file", map.to_str().unwrap()], "");
    assert!(String::from_utf8_lossy(&told.stderr).contains(" rounds or more"), "{told:?}");
    let again = ["send", "bob", "--file", map.to_str().unwrap()];
    alice.fails(&again, "", 1, "is on its way already");
    let put = bob.file("received/map.png");
    assert_eq!(at_bob.hears(), format!("alice [file, 400 bytes, in {}]: -map.png", put.display()));
    assert_eq!(fs::read(&put).unwrap(), content);
    let all = kept(&alice, "bob");
    assert_eq!(all.len(), 4);

    // Blocked: what comes has arrived, as the other one sees it, and nobody here sees it; nor in a group.
    let member = format!("bob={}", bob.succeeds(&["identity"]).trim());
    let card = alice.succeeds(&["group", "create", "desk", &member]);
    bob.succeeds_with(&["group", "join"], &card);
    let mut in_group = Program::start(&bob, &["chat", "desk"]);
    alice.succeeds(&["block", "bob"]);
    alice.fails(&["send", "bob", "Are you still there?"], "", 1, "'sotto unblock bob' first");
    let blocked = |home: &Home| home.json(&["contacts", "--json"])[0]["blocked"].as_bool().unwrap();
    assert!(blocked(&alice) && !blocked(&bob));
    at_bob.says("Do you read this?");
    in_group.says("Or this?");
    at_bob.is_told("arrived at alice: Do you read this?");
    in_group.is_told("arrived at desk: Or this?");
    alice.kill();
    assert_eq!(alice.succeeds(&["read"]), "");
    assert_eq!((kept(&alice, "bob").len(), kept(&alice, "desk").len()), (all.len(), 0));
    alice.succeeds(&["unblock", "bob"]);
    assert!(!blocked(&alice));
    let online = Program::start(&alice, &["chat", "bob"]);
    at_bob.says("And this?");
    assert_eq!(online.hears(), "bob: And this?");
    assert_eq!(online.end(), (Some(0), Vec::new()));
    drop((at_bob, in_group));
    assert_eq!(kept(&alice, "bob").last(), Some(&past(Some("bob"), "And this?", "read")));

    // As many as one likes, and none of one who is forgotten.
    let told = alice.output(&["history", "--keep", "1"], "");
    assert!(String::from_utf8_lossy(&told.stderr).contains("the last 1 texts are kept"), "{told:?}");
    assert_eq!(kept(&alice, "bob").len(), 1);
    alice.succeeds(&["forget", "bob"]);
    alice.succeeds(&["stop"]);
    let told = alice.output(&["history"], "");
    assert!(String::from_utf8_lossy(&told.stderr).contains("there are 0"), "{told:?}");
    alice.succeeds(&["close", "--name", "alice"]);
    assert!(!alice.file("history").exists() && bob.file("history").exists());
    server.shutdown();
}
