//! Screens on other machines: real processes, a real link, and homes that know nothing of each other.

use std::fs;

use crate::programs::{Home, Program, Server, brisk, loopback};

#[test]
fn a_paired_device_chats_by_a_code_until_it_is_revoked_and_holds_no_key_of_the_account() {
    let server = Server::start(brisk(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 1));
    let phone = Home::new();
    alice.fails(&["pair"], "", 4, "sotto run --listen");
    let invitation = alice.succeeds(&["invite", "bob"]);
    alice.fails(&["pair"], "", 1, "takes no devices");
    alice.succeeds(&["stop"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);

    let running = Program::start(&alice, &["run", "--listen", "127.0.0.1:0"]);
    running.is_told("paired devices come in at 127.0.0.1:");
    running.is_told("online at");
    alice.fails(&["pair", "--at", "nowhere"], "", 2, "host and port");
    let before = alice.succeeds(&["pair"]);
    let code = alice.succeeds(&["pair"]);
    phone.fails(&["attach", "--name", "phone"], &before, 1, "serves once");
    phone.fails(&["attach", "--name", "phone", code.trim()], "", 2, "command line");
    phone.fails(&["attach", "--name", "phone"], &server.address(), 2, "sotto-device://");
    phone.fails(&["attach", "--name", "phone"], &code.replacen("127", "128", 1), 2, "mistyped");
    alice.fails(&["attach", "--name", "phone"], &code, 4, "there is an account");
    phone.succeeds_with(&["attach", "--name", "phone"], &code);
    phone.fails(&["attach", "--name", "phone"], &code, 4, "a paired device already");
    Home::new().fails(&["attach", "--name", "tablet"], &code, 1, "serves once");
    running.is_told("phone is paired");

    let mut at_bob = Program::start(&bob, &["chat", "alice"]);
    let mut at_phone = Program::start(&phone, &["chat", "bob"]);
    at_phone.says("From the phone.");
    assert_eq!(at_bob.hears(), "alice: From the phone.");
    at_bob.says("To the phone.");
    assert_eq!(at_phone.hears(), "bob: To the phone.");
    assert_eq!(standing(&phone), standing(&alice));
    phone.fails(&["stop"], "", 1, "not on a device");
    phone.fails(&["pair"], "", 1, "not on a device");
    phone.fails(&["devices", "revoke", "phone"], "", 1, "not on a device");
    phone.fails(&["invite", "carol", "--name", "alice"], "", 2, "a paired device");
    let address = server.address();
    let init = ["init", "--server", &address, "--name", "phone"];
    for command in [&init[..], &["run"], &["close", "--name", "alice"], &["passphrase"], &["export", "copy"]]
    {
        phone.fails(command, "", 4, "is a paired device");
    }
    let files: Vec<_> =
        fs::read_dir(phone.file(".")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["attached"]);

    let devices = alice.json(&["devices", "--json"]);
    assert_eq!((devices.len(), devices[0]["name"].as_str()), (1, Some("phone")));
    alice.fails(&["devices", "revoke", "tablet"], "", 1, "no device");
    alice.succeeds(&["devices", "revoke", "phone"]);
    at_phone.is_told("knows the device no more");
    phone.fails(&["contacts"], "", 3, "has revoked this one");
    at_bob.says("Who is there?");
    assert!(alice.process().is_some());
    assert_eq!(alice.succeeds(&["devices"]), "");
    // Also while nobody is online.
    running.interrupt();
    running.end();
    alice.fails(&["devices", "revoke", "phone"], "", 1, "no device");
    phone.fails(&["contacts"], "", 3, "cannot reach the participant");
    phone.succeeds(&["wipe", "--yes"]);
    assert!(!phone.file("attached").exists());
    bob.succeeds(&["stop"]);
    server.shutdown();
}

/// What is told of contacts and does not change from one round to the next.
fn standing(home: &Home) -> Vec<serde_json::Value> {
    let mut contacts = home.json(&["contacts", "--json"]);
    for contact in &mut contacts {
        for moves in ["keys", "queued", "unacknowledged", "unread"] {
            assert!(contact.as_object_mut().unwrap().remove(moves).is_some(), "{contact}");
        }
    }
    contacts
}
