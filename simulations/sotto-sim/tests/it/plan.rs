//! The capacity planner as an operator uses it.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn plan(arguments: &str, directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sotto-sim"));
    command.current_dir(directory).arg("plan").args(arguments.split(' ')).output().unwrap()
}

fn json(arguments: &str, directory: &Path) -> Value {
    let output = plan(&format!("{arguments} --json"), directory);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn number(plan: &Value, path: &str) -> f64 {
    plan.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {plan}"))
}

/// One calibration serves all: what is saved and read back must lead to the same plan.
#[test]
fn a_plan_from_saved_constants_is_the_same_and_grows_with_the_users() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let measured = json("--users 4096 --round 30 --quick --save constants.json", at);
    let read = json("--users 4096 --round 30 --constants constants.json", at);
    assert_eq!(measured, read);
    for path in [
        "/cores/value",
        "/cores/low",
        "/cores/high",
        "/shortest_round_seconds/value",
        "/client_round_ms",
        "/build_seconds",
        "/memory_bytes/databases",
        "/memory_bytes/building",
        "/memory_bytes/mappings",
        "/memory_bytes/keys",
        "/memory_total_bytes",
        "/disk_bytes",
        "/up_bytes_per_user_round",
        "/down_bytes_per_user_round",
        "/server_receives_mbit",
        "/server_sends_mbit",
        "/monthly_cost/per_user",
        "/prices/core_hour",
        "/assumptions/load",
        "/key_mib",
        "/constants/transform",
        "/constants/scanned_kib",
        "/constants/column",
        "/constants/setup_plaintext",
        "/constants/encode_codeword",
        "/constants/sealed_box",
        "/constants/mapped_codeword",
        "/constants/keys",
        "/answer_error/spread",
    ] {
        assert!(number(&read, path) > 0.0, "{path}");
    }
    assert!(number(&read, "/cores/low") < number(&read, "/cores/high"));
    assert!(
        number(&read, "/constants/calls") + number(&read, "/constants/sent_kib") > 0.0,
        "transport is free"
    );

    let plans = [4_096, 6_000, 16_384, 65_536]
        .map(|users| json(&format!("--users {users} --round 30 --constants constants.json"), at));
    for pair in plans.windows(2) {
        for path in [
            "/cores/value",
            "/memory_total_bytes",
            "/disk_bytes",
            "/monthly_cost/total",
            "/server_sends_mbit",
        ] {
            assert!(number(&pair[0], path) <= number(&pair[1], path), "{path}");
        }
    }

    // The way there and back.
    let with_cores = json("--users 4096 --cores 2 --constants constants.json", at);
    let round = number(&with_cores, "/round_seconds");
    let with_round = json(&format!("--users 4096 --round {round} --constants constants.json"), at);
    assert!((number(&with_round, "/cores/value") - 2.0).abs() < 1e-6);
    let memory = number(&with_cores, "/memory_total_bytes") / f64::from(1 << 30);
    let largest = json(&format!("--largest --cores 2 --memory {memory} --constants constants.json"), at);
    assert_eq!(largest["bound"], "memory");
    assert!((4_090.0..=4_096.0).contains(&number(&largest, "/users")), "{largest}");

    std::fs::write(at.join("prices.json"), r#"{"core_hour": 0, "gb_disk_month": 0, "gb_memory_hour": 0}"#)
        .unwrap();
    let free =
        json("--users 4096 --round 30 --constants constants.json --prices prices.json --gb-egress 0", at);
    assert_eq!(number(&free, "/monthly_cost/total"), 0.0);
    refusals(at);
}

/// Constants say whose they are, and plan for nobody else; what an engine sends is its own.
#[test]
fn a_plan_for_voce_has_its_own_constants_and_sizes() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let arguments = "--users 65536 --round 60 --addressing slots";
    for engine in ["voce", "voce-hint"] {
        let measured = json(&format!("{arguments} --engine {engine} --quick --save constants.json"), at);
        let read = json(&format!("{arguments} --constants constants.json"), at);
        assert_eq!(measured, read);
        let answers = ["query", "transform", "arranged", "scanned_kib"];
        let answers = answers.map(|constant| number(&read, &format!("/constants/{constant}")));
        assert!(answers.iter().sum::<f64>() > 0.0, "{engine}: {answers:?}");
        for path in ["/client_round_ms", "/constants/setup_bucket", "/memory_bytes/databases"] {
            assert!(number(&read, path) > 0.0, "{engine}: {path}");
        }
        let preferring = |prefer| {
            json(&format!("{arguments} --retrieve 64 --constants constants.json --prefer {prefer}"), at)
        };
        let [time, balanced] = ["time", "balanced"].map(preferring);
        let sent = "/up_bytes_per_user_round";
        assert!(number(&time, sent) > number(&balanced, sent), "{engine}");
        let held = "/memory_bytes/databases";
        assert!(number(&time, held) < number(&balanced, held), "{engine}");
    }
    let read = json(&format!("{arguments} --constants constants.json"), at);
    // Before, queries and buckets had no cost of their own, and those who prefer time would be told too little.
    let mut former: Value =
        serde_json::from_str(&std::fs::read_to_string(at.join("constants.json")).unwrap()).unwrap();
    former.as_object_mut().unwrap().remove("model");
    std::fs::write(at.join("former.json"), former.to_string()).unwrap();
    let refused = plan(&format!("{arguments} --constants former.json"), at);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("measure them again"), "{error}");
    // Keys come with every request, and nearly nothing is uploaded once.
    assert!(number(&read, "/keys_bytes_per_set") < 16.0);
    assert!((100_000.0..400_000.0).contains(&number(&read, "/up_bytes_per_user_round")), "{read}");
    for engine in ["sealpir", "voce", "xpir-2"] {
        let refused = plan(&format!("{arguments} --engine {engine} --constants constants.json"), at);
        assert!(!refused.status.success(), "{engine}");
    }
}

/// A plan from nonsense would be believed.
fn refusals(at: &Path) {
    std::fs::write(at.join("other.json"), "{}").unwrap();
    let constants = std::fs::read_to_string(at.join("constants.json")).unwrap();
    let mut negative: Value = serde_json::from_str(&constants).unwrap();
    negative["constants"]["transform"] = (-1.0).into();
    std::fs::write(at.join("negative.json"), negative.to_string()).unwrap();
    std::fs::write(at.join("wrong-prices.json"), r#"{"core_hours": 1}"#).unwrap();
    for (arguments, told) in [
        ("--users 4096", "--round"),
        ("--users 0 --round 30", "1 to"),
        ("--users 99999999999 --round 30", "1 to"),
        ("--users 4096 --round 0", "--round"),
        ("--users 4096 --round 30 --retrieve 0", "k = 0"),
        ("--users 4096 --round 30 --load 1.5", "--load"),
        ("--users 4096 --round 30 --prefer time", "--prefer"),
        ("--users 4096 --round 30 --core-hour=-1", "price"),
        ("--users 4096 --round 30 --retained 5", "5"),
        ("--users 4096 --largest --cores 2 --memory 4", "--users"),
        ("--largest --cores 2", "--memory"),
        ("--round 30", "--users"),
    ] {
        let output = plan(&format!("{arguments} --constants constants.json"), at);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(told), "{arguments}: {error}");
    }
    for (file, told) in
        [("other.json", "version"), ("negative.json", "cannot be"), ("none.json", "none.json")]
    {
        let output = plan(&format!("--users 4096 --round 30 --constants {file}"), at);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(told), "{file}: {error}");
    }
    let output = plan("--users 4096 --round 30 --constants constants.json --prices wrong-prices.json", at);
    assert!(!output.status.success());
    let output = plan("--largest --cores 1 --memory 0.0001 --constants constants.json", at);
    assert!(String::from_utf8_lossy(&output.stderr).contains("not even one user"));
}

/// Whether the constants of a second's calibration are good is not judged here, only that the verdict follows the numbers.
#[test]
fn predictions_are_held_against_a_closed_loop() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "--validate --quick --validate-users 1024 --clients 2 --rounds 1 --retrieve 4 --json";
    let output = plan(arguments, directory.path());
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let validation: Value = serde_json::from_str(last).unwrap();
    let [predicted, measured, off] = ["predicted_ms", "measured_ms", "off"]
        .map(|name| number(&validation, &format!("/compared/0/{name}")));
    assert!(predicted > 0.0 && measured > 0.0, "{validation}");
    assert!((predicted / measured - 1.0 - off).abs() < 1e-9, "{validation}");
    let [before, after] =
        [0, 1].map(|which| number(&validation, &format!("/compared/0/predictions_ms/{which}")));
    assert!((before.midpoint(after) - predicted).abs() < 1e-9 * predicted, "{validation}");
    for path in ["predicted_other_ms", "measured_other_ms", "predicted_build_ms", "measured_build_ms"] {
        assert!(number(&validation, &format!("/compared/0/{path}")) > 0.0, "{path}");
    }
    assert_eq!(validation["passed"], off.abs() <= number(&validation, "/off_max"));
    assert_eq!(output.status.success(), validation["passed"] == true);
}
