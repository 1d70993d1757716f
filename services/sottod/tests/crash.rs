//! The program, killed under load.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]

#[path = "../examples/crash_drill/drill.rs"]
mod drill;

use std::path::PathBuf;
use std::process::Command;

use drill::Plan;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_under_load_loses_no_acknowledged_deposit() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let plan = Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_sottod")),
        data: data.clone(),
        kills: 3,
        seed: 7,
        clients: 24,
        alive_ms: 500..1500,
        verbose: false,
    };
    let outcome = plan.run().await.unwrap();
    assert_eq!(outcome.lost(), 0, "{outcome}");
    assert!(outcome.acknowledged > 0);

    let program = env!("CARGO_BIN_EXE_sottod");
    let check = || Command::new(program).args(["check-log", "--data"]).arg(&data).output().unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("accounts 25"));

    let segment = data.join("log/segment-0000000000000001");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[3000] ^= 4;
    std::fs::write(&segment, bytes).unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("segment-0000000000000001, byte "), "{said}");
    let served =
        Command::new(program).args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).output();
    assert_eq!(served.unwrap().status.code(), Some(1), "nothing is served from a damaged log");
}
