//! The program, killed under load.
#![allow(clippy::print_stdout, reason = "inside tests, failing loudly is the point")]

#[path = "../../examples/crash_drill/drill.rs"]
pub(crate) mod drill;

use std::path::{Path, PathBuf};
use std::process::Command;

use drill::{GroupPlan, Plan};
use sottod::Addressing;

/// Six kills, half of them at a start.
fn plan(data: &Path, clients: usize, addressing: Addressing) -> Plan {
    Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_sottod")),
        data: data.to_owned(),
        kills: 6,
        judge_every: 3,
        seed: 7,
        clients,
        alive_ms: 500..1500,
        starting: 0.5,
        sample: 16,
        addressing,
        verbose: false,
    }
}

/// Also slots, of which nothing but their number is stored: nobody gets another's, and boxes are where they were said to be.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_slots_that_is_killed_under_load_loses_no_acknowledged_deposit() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let plan = plan(&data, 40, Addressing::Slots);
    let outcome = plan.run().await.unwrap();
    assert!(outcome.is_good(), "{outcome}");
    assert!(outcome.acknowledged > 0 && outcome.sampled > 0, "{outcome}");
}

/// Also all nodes at once, which is how each judgement begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_nodes_are_killed_under_load_loses_no_acknowledged_deposit() {
    let directory = tempfile::tempdir().unwrap();
    let plan = GroupPlan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_sottod")),
        directory: directory.path().join("cluster"),
        nodes: 3,
        kills: 4,
        judge_every: 2,
        seed: 7,
        clients: 12,
        alive_ms: 500..1500,
        sample: 8,
        verbose: false,
    };
    let outcome = plan.run().await.unwrap();
    assert!(outcome.is_good(), "{outcome}");
    assert!(outcome.acknowledged > 0 && outcome.sampled > 0, "{outcome}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_under_load_loses_no_acknowledged_deposit() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let plan = plan(&data, 24, Addressing::Labels);
    let outcome = plan.run().await.unwrap();
    assert!(outcome.is_good(), "{outcome}");
    assert!(outcome.acknowledged > 0 && outcome.sampled > 0, "{outcome}");

    let program = env!("CARGO_BIN_EXE_sottod");
    let check = || Command::new(program).args(["check-log", "--data"]).arg(&data).output().unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("accounts 25") && said.contains("newest round "), "{said}");
    let last = |said: &str| said.split("last entry ").nth(1).map(|rest| rest.lines().next() == Some("none"));
    assert_eq!(last(&said), Some(false), "{said}");

    // Of a copy that is cut short, only half an append can be seen.
    let newest = sottod::check_log(&data).unwrap().segments;
    let segment = std::fs::read_dir(data.join("log")).unwrap().map(|file| file.unwrap().path());
    let mut segments: Vec<_> = segment.filter(|path| path.to_string_lossy().contains("segment-")).collect();
    segments.sort();
    assert_eq!(segments.len() as u64, newest);
    let segment = segments.last().unwrap();
    let whole = std::fs::read(segment).unwrap();
    std::fs::write(segment, &whole[..whole.len() - 5]).unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(0));
    let cut = String::from_utf8(output.stdout).unwrap();
    assert!(cut.contains("CAUTION") && !said.contains("CAUTION"), "{cut}");
    std::fs::write(segment, &whole).unwrap();

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
