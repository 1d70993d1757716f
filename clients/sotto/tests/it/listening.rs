//! Programs that listen to everything, and such that only hand something in.

use crate::programs::{Home, Program, Server, brisk, loopback};

#[test]
fn a_bot_hears_everything_and_answers() {
    let server = Server::start(brisk(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 2));
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let bot = Program::start(&bob, &["listen", "--json"]);
    let next = |event: &str| loop {
        let heard: serde_json::Value = serde_json::from_str(&bot.hears()).unwrap();
        if heard["event"] == event {
            return heard;
        }
    };
    assert_eq!(next("connection")["connected"], true);
    assert_eq!(next("conversation")["name"], "alice");

    alice.fails(&["send", "nobody"], "hello", 1, "no contact or group");
    alice.fails(&["send", "bob"], " \n", 2, "no text");
    alice.fails(&["send", "bob"], &"x".repeat(16 * 1024 + 1), 2, "16 KiB");
    alice.succeeds_with(&["send", "bob"], "two\nlines\n");
    let sent = alice.succeeds(&["send", "bob", "in an argument", "--json"]);
    let sent: serde_json::Value = serde_json::from_str(&sent).unwrap();
    let heard = [next("text"), next("text")];
    assert_eq!((&heard[0]["from"], &heard[0]["text"]), (&"alice".into(), &"two\nlines".into()));
    assert_eq!((&heard[1]["text"], &heard[1]["sequence"]), (&"in an argument".into(), &sent["sequence"]));
    assert!(next("round")["bytes_up"].as_u64() > Some(0));
    assert_eq!(next("step")["step"].as_str().map(str::is_empty), Some(false));

    bob.succeeds_with(&["send", "alice"], "an answer");
    // Also of itself, whichever program has said it.
    assert_eq!(next("said")["text"], "an answer");
    let sequence = loop {
        let stands = next("conversation");
        if stands["queued"] == 1 {
            break stands["id"].clone();
        }
    };
    assert_eq!(next("arrived")["id"], sequence);
    bot.interrupt();
    assert_eq!(bot.end().0, Some(0));
    assert_eq!(bob.succeeds(&["read"]), "", "what was printed was read");
    // It has not looked at what came to it.
    let heard = alice.json(&["listen", "--json", "--count", "1", "--until", "60s"]);
    let texts: Vec<_> = heard.iter().filter(|told| told["event"] == "text").collect();
    assert!(texts.len() == 1 && texts[0]["text"] == "an answer", "{heard:?}");
    assert_eq!(alice.succeeds(&["read"]), "");
    assert!(alice.process().is_some() && bob.process().is_some());
    server.shutdown();
}
