//! What becomes of an account: kept aside and brought back, and wiped.

use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

use crate::programs::{Home, Program, Server, brisk, loopback};
use sottod::Config;

const PASSPHRASE: &str = "six words drawn by pure chance";

#[test]
#[ignore = "a minute and a half: .ci/deep people"]
fn an_account_that_is_brought_back_from_a_copy_goes_on_with_its_contacts() {
    // Whoever is restored takes all rounds as used that could have passed in the announced time, so it has to be near the real one.
    let server = Server::start(Config { round_ms: 200, ..brisk(loopback()) });
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 2));
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let (mut at_alice, mut at_bob) =
        (Program::start(&alice, &["chat", "bob"]), Program::start(&bob, &["chat", "alice"]));
    at_alice.says("Before the copy.");
    assert_eq!(at_bob.hears(), "alice: Before the copy.");
    // What waits when the copy is made is said again by it.
    at_alice.is_told("arrived at bob");
    alice.is_renewed();
    alice.succeeds(&["invite", "carol"]);

    let mut restored = Home::new();
    let file = alice.file("").parent().unwrap().join("copy");
    let copy = file.to_str().unwrap();
    alice.fails(&["export", copy], "short", 2, "8 characters");
    let told = alice.output(&["export", copy], PASSPHRASE);
    assert!(
        told.status.success() && String::from_utf8_lossy(&told.stderr).contains("not in the copy: carol;")
    );
    assert_eq!(fs::metadata(copy).unwrap().permissions().mode() & 0o777, 0o600);
    alice.fails(&["export", copy], PASSPHRASE, 4, "is there already");
    at_alice.says("After the copy.");
    assert_eq!(at_bob.hears(), "alice: After the copy.");
    at_bob.says("Lost with the machine.");
    assert_eq!(at_alice.hears(), "bob: Lost with the machine.");
    at_bob.is_told("arrived at alice");
    drop(at_alice);
    alice.kill();

    // A copy is none of a state.
    fs::DirBuilder::new().mode(0o700).create(restored.file("")).unwrap();
    fs::copy(copy, restored.file("state")).unwrap();
    restored.fails(&["contacts"], "", 4, "no state file");
    restored.fails(&["restore", copy], PASSPHRASE, 4, "already holds a state");
    fs::remove_file(restored.file("state")).unwrap();
    restored.fails(&["restore", copy], "another passphrase", 4, "not the passphrase");
    restored.fails(&["restore", "/nowhere"], PASSPHRASE, 4, "cannot open");
    let told = restored.output(&["restore", copy], PASSPHRASE);
    let told = String::from_utf8(told.stderr).unwrap();
    assert!(
        told.contains("the account of alice is restored")
            && told.contains("you have to invite again: carol;"),
        "{told}"
    );
    restored.fails(&["contacts"], "", 4, "closed with a passphrase");
    let passphrase = restored.file("").parent().unwrap().join("passphrase");
    fs::write(&passphrase, PASSPHRASE).unwrap();
    fs::set_permissions(&passphrase, Permissions::from_mode(0o600)).unwrap();
    restored.passphrase = Some(passphrase);

    let mut at_restored = Program::start(&restored, &["chat", "bob"]);
    at_restored.says("Back again.");
    assert_eq!(at_bob.hears(), "alice: Back again.");
    at_bob.says("Welcome.");
    assert_eq!(at_restored.hears(), "bob: Welcome.");
    let names: Vec<_> = restored.json(&["contacts", "--json"]).iter().map(|of| of["name"].clone()).collect();
    assert_eq!(names, ["bob"]);
    // The passphrase of the state is none of a copy, unless somebody says so.
    let named = restored.passphrase.clone().unwrap();
    let another = format!("{copy}-again");
    restored.fails(&["export", &another], "short", 2, "8 characters");
    restored.succeeds(&["export", &another, "--passphrase-file", named.to_str().unwrap()]);
    drop((at_restored, at_bob));
    bob.kill();
    server.shutdown();
}

#[test]
fn nothing_is_left_of_an_account_that_is_wiped_and_no_server_is_needed() {
    let server = Server::start(brisk(loopback()));
    let (alice, bob) = (Home::join(&server.address(), "alice", 2), Home::join(&server.address(), "bob", 1));
    let running = Program::start(&alice, &["run", "--listen", "127.0.0.1:0"]);
    running.is_told("online at");
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let mut at_bob = Program::start(&bob, &["chat", "alice"]);
    at_bob.says("It waits to be read.");
    at_bob.is_told("arrived at alice");
    alice.succeeds(&["pair"]);
    server.shutdown();

    alice.fails(&["wipe"], "", 2, "--yes");
    assert!(alice.file("state").exists());
    let beside = alice.file("").parent().unwrap().join("beside");
    fs::write(&beside, "kept").unwrap();
    alice.succeeds(&["wipe", "--yes"]);
    let directory = alice.file("");
    assert!(!directory.exists(), "{:?}", fs::read_dir(directory).map(|files| files.count()));
    assert_eq!(fs::read(&beside).unwrap(), b"kept");
    let (code, _) = running.end();
    assert_eq!(code, None, "it was ended at once");
    let nothing = alice.output(&["wipe", "--yes"], "");
    assert!(
        nothing.status.success() && String::from_utf8_lossy(&nothing.stderr).contains("there is nothing")
    );
    drop(at_bob);
    bob.succeeds(&["wipe", "--yes"]);
    assert!(!bob.file("").exists() && bob.process().is_none());
}

/// Whoever has the state in memory would write it again, and nobody would know.
#[test]
fn attack_who_wipes_while_another_program_has_the_account_is_told() {
    let server = Server::start(brisk(loopback()));
    let alice = Home::join(&server.address(), "alice", 2);
    let held = fs::OpenOptions::new().write(true).open(alice.file("lock")).unwrap();
    held.lock().unwrap();
    let wiped = alice.output(&["wipe", "--yes"], "");
    let told = String::from_utf8(wiped.stderr).unwrap();
    assert!(
        wiped.status.code() == Some(4) && told.contains("another program is using the directory"),
        "{told}"
    );
    assert!(!alice.file("state").exists());
    server.shutdown();
}

#[test]
fn who_makes_a_copy_hears_which_files_are_not_in_it() {
    let server = Server::start(brisk(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 1));
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let place = alice.file("").parent().unwrap().to_owned();
    let (map, copy) = (place.join("map.png"), place.join("copy"));
    fs::write(&map, [7; 20_000]).unwrap();
    let copied = |copy: &std::path::Path| {
        let told = alice.output(&["export", copy.to_str().unwrap()], PASSPHRASE);
        assert!(told.status.success());
        String::from_utf8(told.stderr).unwrap()
    };
    assert!(!copied(&copy).contains("map.png"));
    alice.succeeds(&["send", "bob", "--file", map.to_str().unwrap()]);
    let told = copied(&place.join("another"));
    assert!(told.contains("the file map.png for bob has not arrived, and is not in the copy"), "{told}");
    server.shutdown();
}
