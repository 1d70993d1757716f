//! What the command line says and which code it ends with when something is wrong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

use std::net::TcpListener;
use std::path::Path;

use assert_cmd::Command;
use pir_core::{NoOp, Scheme as _};
use sotto::{Address, Store};
use sotto_protocol::client::{Client, Settings};
use sotto_protocol::{
    CodeKind, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters, UnixMillis,
};
use sotto_wire::{Host, RootKey, Transport};

fn sotto(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("sotto").unwrap();
    command.arg("--home").arg(home).args(arguments);
    command
}

/// Runs, and expects one line on standard error that contains `says`.
fn fails(mut command: Command, code: i32, says: &str) {
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(error.starts_with("error: ") && error.contains(says), "{error}");
    assert!(output.stdout.is_empty());
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
}

/// An account at a server where nobody listens.
fn account(home: &Path) -> Address {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address =
        Address::new(Transport::Tls, Host::Ip([127, 0, 0, 1].into()), port, RootKey([3; 32])).unwrap();
    let parameters = ServerParameters {
        protocol_version: PROTOCOL_VERSION,
        serial: 1,
        seeds: SeedCommitment { first: Round(1), segments: 1, root: [1; 32] },
        manifest_key: [3; 32],
        engine: NoOp::NAME.into(),
        security_bits: 128,
        code: CodeKind::Cuckoo,
        retrieve: 4,
        buckets: 16,
        choices: 3,
        retained: 2,
        mode: RoundMode::Deadline,
        round_ms: 1000,
        deposit_ms: 100,
        lookup_ms: 100,
        query_ms: 200,
    };
    let mut rng: rand::rngs::StdRng = rand::make_rng();
    let joined = (Round(5), UnixMillis(0));
    let client = Client::new("alice", parameters, Settings { conversations: 4 }, joined, &mut rng).unwrap();
    Store::create(home, address.clone()).unwrap().save(&client.snapshot()).unwrap();
    address
}

#[test]
fn without_a_state_every_command_says_how_to_make_one() {
    let home = tempfile::tempdir().unwrap();
    for arguments in
        [&["contacts"][..], &["identity"], &["invite", "bob"], &["chat", "bob"], &["group", "leave", "x"]]
    {
        fails(sotto(home.path(), arguments), 4, "sotto init");
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    let home = tempfile::tempdir().unwrap();
    let code = |arguments: &[&str]| sotto(home.path(), arguments).output().unwrap().status.code();
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&["chatter"]), Some(2));
    assert_eq!(code(&["init", "--name", "alice", "--server", "http://127.0.0.1/"]), Some(2));
    let plain = format!("sotto+plain://example.org:1/{}", "a".repeat(52));
    let output = sotto(home.path(), &["init", "--name", "a", "--server", &plain]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("not encrypted"));
    account(home.path());
    fails(sotto(home.path(), &["accept", "bob", "sotto-invite-2-aaaa"]), 2, "paste it");
    fails(sotto(home.path(), &["accept", "bob"]), 2, "no invitation");
    fails(sotto(home.path(), &["group", "create", "desk", "carol=xyz"]), 2, "sotto identity");
}

#[test]
fn a_server_that_is_not_there_ends_with_3() {
    let home = tempfile::tempdir().unwrap();
    let address = account(home.path()).to_string();
    let other = home.path().join("other");
    fails(sotto(&other, &["init", "--server", &address, "--name", "bob"]), 3, "check that it is running");
    assert!(Store::open(&other).is_err(), "no half-made account stays behind");
    sotto(home.path(), &["invite", "bob"]).assert().success();
    let output = sotto(home.path(), &["chat", "bob"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_state_in_use_or_damaged_ends_with_4() {
    let home = tempfile::tempdir().unwrap();
    let address = account(home.path()).to_string();
    let (store, _) = Store::open(home.path()).unwrap();
    fails(sotto(home.path(), &["invite", "bob"]), 4, "leave the chat first");
    sotto(home.path(), &["contacts"]).assert().success();
    sotto(home.path(), &["identity"]).assert().success();
    drop(store);
    sotto(home.path(), &["invite", "bob"]).assert().success();
    fails(sotto(home.path(), &["init", "--server", &address, "--name", "b"]), 4, "already holds");
    std::fs::write(home.path().join("state"), "rubbish").unwrap();
    fails(sotto(home.path(), &["contacts"]), 4, "damaged");
}

#[test]
fn contacts_are_made_listed_and_not_confused() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    account(home.path());
    account(other.path());
    let output = sotto(home.path(), &["invite", "bob"]).output().unwrap();
    let invitation = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && invitation.starts_with("sotto-invite-2-"));
    assert!(output.stderr.is_empty());

    let accept = |home, input: &str| {
        let mut command = sotto(home, &["accept", "alice"]);
        command.write_stdin(input);
        command
    };
    fails(accept(other.path(), &invitation[..40]), 2, "copy the whole text again");
    fails(accept(other.path(), "sotto"), 2, "not an invitation");
    let mut bytes = sotto(other.path(), &["accept", "alice"]);
    bytes.write_stdin(b"sotto-invite-2-\xff".as_slice());
    fails(bytes, 2, "this is not an invitation");
    let own = accept(home.path(), &invitation).output().unwrap();
    assert!(own.status.success() && String::from_utf8(own.stderr).unwrap().contains("yourself"));
    accept(other.path(), &invitation).assert().success();
    fails(accept(other.path(), &invitation), 1, "accepted this invitation already");
    fails(sotto(home.path(), &["invite", "bob"]), 1, "name");
    fails(sotto(home.path(), &["chat", "carol"]), 1, "sotto contacts");
    fails(sotto(home.path(), &["group", "create", "desk", "bob"]), 1, "identity of bob");

    let listed = sotto(other.path(), &["contacts", "--json"]).output().unwrap().stdout;
    let listed: serde_json::Value = serde_json::from_slice(&listed).unwrap();
    assert_eq!((&listed["name"], &listed["established"]), (&"alice".into(), &false.into()));
    let listed = sotto(other.path(), &["contacts"]).output().unwrap().stdout;
    assert_eq!(listed, b"alice\tcontact\twaiting for the other side\n");
}

#[test]
fn a_group_is_made_with_identities_and_joined_with_its_card() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    account(home.path());
    account(other.path());
    let text = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let identity = text(sotto(other.path(), &["identity"]));
    let card = text(sotto(home.path(), &["group", "create", "desk", &format!("bob={}", identity.trim())]));
    let mut join = sotto(other.path(), &["group", "join"]);
    join.write_stdin(card);
    join.assert().success();
    let listed: serde_json::Value =
        serde_json::from_str(&text(sotto(other.path(), &["contacts", "--json"]))).unwrap();
    assert_eq!((&listed["kind"], listed["members"].as_array().unwrap().len()), (&"group".into(), 2));
    text(sotto(other.path(), &["group", "leave", "desk"]));
}

#[test]
fn help_explains_itself_with_examples() {
    let home = tempfile::tempdir().unwrap();
    for command in [
        &["init"][..],
        &["invite"],
        &["accept"],
        &["contacts"],
        &["chat"],
        &["identity"],
        &["group", "create"],
        &["group", "join"],
        &["demo"],
    ] {
        let output = sotto(home.path(), &[command, &["--help"]].concat()).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("Example"), "{command:?}");
    }
}
