//! What the command line says and which code it ends with when something is wrong.

use std::net::TcpListener;
use std::path::Path;

use assert_cmd::Command;
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
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address =
        Address::new(Transport::Tls, Host::Ip([127, 0, 0, 1].into()), port, RootKey([3; 32])).unwrap();
    let parameters = ServerParameters {
        protocol_version: PROTOCOL_VERSION,
        serial: 1,
        seeds: SeedCommitment { first: Round(1), segments: 1, root: [1; 32] },
        manifest_key: [3; 32],
        engine: mpir::noop().name().into(),
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
        deposit_spread_ms: 0,
        query_spread_ms: 0,
        key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
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
    fails(sotto(home.path(), &["accept", "bob", "sotto-invite-3-aaaa"]), 2, "paste it");
    fails(sotto(home.path(), &["accept", "bob"]), 2, "no invitation");
    let code = |arguments: &[&str]| sotto(home.path(), arguments).output().unwrap().status.code();
    assert_eq!(code(&["run", "--for", "tomorrow"]), Some(2));
}

#[test]
fn a_server_that_is_not_there_ends_with_3() {
    let home = tempfile::tempdir().unwrap();
    let address = account(home.path()).to_string();
    let other = home.path().join("other");
    fails(sotto(&other, &["init", "--server", &address, "--name", "bob"]), 3, "check that it is running");
    assert!(Store::open(&other).is_err(), "no half-made account stays behind");
    fails(sotto(home.path(), &["run"]), 3, "check that it is running");
    fails(sotto(home.path(), &["invite", "bob"]), 3, "check that it is running");
    fails(sotto(home.path(), &["chat", "bob"]), 1, "sotto contacts");
    // What shows to nobody needs no server.
    sotto(home.path(), &["contacts"]).assert().success();
    sotto(home.path(), &["status"]).assert().success().stdout("offline; 'sotto run' takes you online\n");
    sotto(home.path(), &["stop"]).assert().success();
    fails(sotto(home.path(), &["forget", "bob"]), 1, "sotto contacts");
}

#[test]
fn a_state_in_use_or_damaged_ends_with_4() {
    let home = tempfile::tempdir().unwrap();
    let address = account(home.path()).to_string();
    let (store, _) = Store::open(home.path()).unwrap();
    fails(sotto(home.path(), &["run"]), 4, "another program is using");
    fails(sotto(home.path(), &["invite", "bob"]), 4, "another program is using");
    fails(sotto(home.path(), &["forget", "bob"]), 4, "another program is using");
    sotto(home.path(), &["contacts"]).assert().success();
    sotto(home.path(), &["identity"]).assert().success();
    drop(store);
    fails(sotto(home.path(), &["init", "--server", &address, "--name", "b"]), 4, "already holds");
    std::fs::write(home.path().join("state"), "rubbish").unwrap();
    fails(sotto(home.path(), &["contacts"]), 4, "damaged");
    fails(sotto(home.path(), &["run"]), 4, "damaged");
}

#[cfg(unix)]
#[test]
fn a_directory_that_others_may_enter_is_not_used_online() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    account(home.path());
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    fails(sotto(home.path(), &["run"]), 4, "chmod 700");
    fails(sotto(home.path(), &["invite", "bob"]), 4, "chmod 700");
}

#[cfg(unix)]
#[test]
fn contacts_and_groups_are_made_listed_and_not_confused() {
    use crate::programs::{Home, Server, config, loopback};

    let server = Server::start(config(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 3));
    let invitation = alice.succeeds(&["invite", "bob"]);
    assert!(
        invitation.starts_with(&format!("{}/", server.address())) && invitation.contains("/sotto-invite-3-")
    );
    bob.fails(&["accept", "alice"], &invitation[..invitation.len() - 40], 2, "copy the whole text again");
    bob.fails(&["accept", "alice"], "sotto", 2, "not an invitation");
    bob.fails(&["group", "join"], &invitation, 2, "not a group card");
    assert!(bob.process().is_none(), "what is no invitation takes nobody online");
    bob.succeeds_with(&["accept", "alice"], &invitation);
    bob.fails(&["accept", "alice"], &invitation, 1, "accepted this invitation already");
    let own = alice.output(&["accept", "carol"], &invitation);
    assert!(own.status.success() && String::from_utf8(own.stderr).unwrap().contains("leads to yourself"));
    alice.succeeds(&["forget", "carol"]);
    let open = &alice.json(&["invitations", "--json"])[0];
    assert_eq!((&open["contact"], &open["accepted"]), (&"bob".into(), &false.into()));
    assert!(open["expires_ms"].as_u64() > open["made_ms"].as_u64());
    assert!(alice.succeeds(&["invitations"]).starts_with("bob\tmade here\texpires in "));
    alice.fails(&["invite", "bob"], "", 1, "name");
    alice.fails(&["chat", "carol"], "", 1, "sotto contacts");
    alice.fails(&["rename", "bob", "b\u{202e}ob"], "", 1, "invisible");
    alice.fails(&["group", "create", "desk", "bob"], "", 1, "identity of bob");
    alice.fails(&["group", "create", "desk", "carol=xyz"], "", 2, "sotto identity");
    alice.succeeds(&["rename", "bob", "robert"]);
    let listed = &alice.json(&["contacts", "--json"])[0];
    assert_eq!((&listed["name"], &listed["kind"]), (&"robert".into(), &"contact".into()));

    let identity = bob.succeeds(&["identity"]);
    let card = alice.succeeds(&["group", "create", "desk", &format!("bob={}", identity.trim())]);
    bob.succeeds_with(&["group", "join"], &card);
    let listed = &bob.json(&["contacts", "--json"])[1];
    assert_eq!((&listed["kind"], listed["members"].as_array().unwrap().len()), (&"group".into(), 2));
    assert!(bob.succeeds(&["contacts"]).contains(&format!("desk\tbob\tmember\t{}", identity.trim())));
    bob.fails(&["group", "remove", "desk", "carol"], "", 1, "no member 'carol'");
    alice.succeeds(&["group", "remove", "desk", identity.trim()]);
    // She is offline, so that it cannot reach her.
    alice.succeeds(&["stop"]);
    bob.succeeds(&["send", "desk", "One that stays here."]);
    let left = bob.output(&["group", "leave", "desk"], "");
    assert!(left.status.success());
    let told = String::from_utf8(left.stderr).unwrap();
    assert!(told.contains("1 of your texts, goes to nobody any more"), "{told}");
    server.shutdown();
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
        &["group", "leave"],
        &["group", "remove"],
        &["run"],
        &["stop"],
        &["status"],
        &["invitations"],
        &["withdraw"],
        &["forget"],
        &["rename"],
        &["read"],
    ] {
        let output = sotto(home.path(), &[command, &["--help"]].concat()).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("Example"), "{command:?}");
    }
}

/// A script tells what is wrong by the code, whatever the sentence says.
#[test]
fn an_error_of_a_command_that_speaks_json_is_an_object_with_a_code() {
    let home = tempfile::tempdir().unwrap();
    let says = |command: &[&str], exit: i32| -> serde_json::Value {
        let output = sotto(home.path(), command).output().unwrap();
        assert_eq!(output.status.code(), Some(exit));
        assert!(output.stdout.is_empty());
        serde_json::from_slice(&output.stderr).unwrap()
    };
    let missing = says(&["contacts", "--json"], 4);
    assert_eq!(missing["code"], "store-missing");
    assert_eq!(missing["exit"], 4);
    assert!(missing["error"].as_str().unwrap().contains("sotto init"), "{missing}");
    account(home.path());
    // What the process that is online reports comes through the one that started it.
    assert_eq!(says(&["audit", "--json"], 3)["code"], "connect-unreachable");
}

#[test]
fn shells_complete_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let printed = sotto(Path::new("/nowhere"), &["completions", shell]).output().unwrap();
        let script = String::from_utf8(printed.stdout).unwrap();
        for command in ["invite", "verify-proof", "attach", "completions"] {
            assert!(printed.status.success() && script.contains(command), "{shell}: {command}");
        }
    }
}
