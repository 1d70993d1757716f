//! A state that is closed with a passphrase, as people and scripts use it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::programs::{Home, Program, Server, brisk, loopback};

const PASSPHRASE: &str = "six words drawn by pure chance";

/// The first line of a file is the passphrase.
fn write_passphrase(path: &Path, passphrase: &str) {
    fs::write(path, format!("{passphrase}\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// All that a directory holds.
fn everything(home: &Home) -> Vec<u8> {
    let files = fs::read_dir(home.file(".")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).flat_map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn nobody_without_the_passphrase_uses_or_reads_a_closed_state() {
    let server = Server::start(brisk(loopback()));
    let (mut alice, bob) =
        (Home::join(&server.address(), "alice", 1), Home::join(&server.address(), "bobby", 1));
    let file = alice.file("../passphrase");
    let invitation = alice.succeeds(&["invite", "bobby"]);
    alice.fails(&["passphrase"], PASSPHRASE, 4, "sotto stop");
    alice.succeeds(&["stop"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let open_before = fs::read(alice.file("state")).unwrap();
    let shows =
        |home: &Home, text: &str| everything(home).windows(text.len()).any(|at| at == text.as_bytes());
    assert!(shows(&alice, "bobby") && shows(&alice, "alice"), "so that the test can fail");

    for (wrong, says) in [("short", "8 characters"), ("", "8 characters"), (&"x".repeat(1025), "1,024 bytes")]
    {
        alice.fails(&["passphrase"], wrong, 2, says);
    }
    alice.succeeds_with(&["passphrase"], &format!("{PASSPHRASE}\nmore"));
    assert!(!shows(&alice, "bobby") && !shows(&alice, "alice") && !shows(&alice, PASSPHRASE));
    for command in [
        &["contacts"][..],
        &["run"],
        &["chat", "bobby"],
        &["read"],
        &["rename", "bobby", "b"],
        &["passphrase"],
    ] {
        alice.fails(command, "", 4, "closed with a passphrase");
    }
    // What needs no state needs no passphrase.
    alice.succeeds(&["stop"]);

    write_passphrase(&file, "six words drawn by poor chance");
    alice.passphrase = Some(file.clone());
    alice.fails(&["contacts"], "", 4, "not the passphrase");
    alice.fails(&["invite", "carol"], "", 4, "not the passphrase");
    write_passphrase(&file, PASSPHRASE);
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    alice.fails(&["contacts"], "", 4, "chmod 600");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert!(alice.succeeds(&["contacts"]).starts_with("bobby\tcontact"));

    // An open state in the place of the closed one, somebody else's or an older one, is not used, and not written either.
    let closed = fs::read(alice.file("state")).unwrap();
    fs::write(alice.file("state"), &open_before).unwrap();
    for command in [&["contacts"][..], &["run"], &["chat", "bobby"], &["invite", "carol"]] {
        alice.fails(command, "", 4, "is not closed");
    }
    assert_eq!(fs::read(alice.file("state")).unwrap(), open_before);
    fs::write(alice.file("state"), &closed).unwrap();

    // Who is online has it, and programs that come need none.
    let mut at_alice = Program::start(&alice, &["chat", "bobby"]);
    at_alice.is_told("stay online");
    alice.passphrase = None;
    let mut at_bob = Program::start(&bob, &["chat", "alice"]);
    at_alice.says("Closed, and talking.");
    assert_eq!(at_bob.hears(), "alice: Closed, and talking.");
    at_bob.says("Fine.");
    assert_eq!(at_alice.hears(), "bobby: Fine.");
    assert!(alice.succeeds(&["contacts"]).starts_with("bobby\tcontact\testablished"));
    assert!(!shows(&alice, "bobby") && !shows(&alice, "Closed, and"));
    drop((at_alice, at_bob));

    // Also one that was killed, and one whose news wait.
    alice.kill();
    alice.fails(&["chat", "bobby"], "", 4, "closed with a passphrase");
    alice.passphrase = Some(file.clone());
    alice.succeeds(&["invitations"]);
    alice.succeeds_with(&["passphrase"], "another one, of the same person");
    alice.fails(&["contacts"], "", 4, "not the passphrase");
    write_passphrase(&file, "another one, of the same person");
    alice.succeeds(&["passphrase", "--remove"]);
    alice.passphrase = None;
    assert!(alice.succeeds(&["contacts"]).starts_with("bobby\tcontact\testablished"));
    assert!(shows(&alice, "bobby"));
    bob.succeeds(&["stop"]);
    server.shutdown();
}
