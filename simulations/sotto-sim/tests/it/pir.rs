//! The command as a user runs it.

use assert_cmd::Command;
use serde_json::Value;

fn report(kernel: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_sotto-sim"))
        .args(["pir", "--elements", "500", "--bytes", "288", "--runs", "5", "--json"])
        .env("SOTTO_KERNEL", kernel)
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn the_last_line_holds_every_figure_and_the_elements_are_right() {
    let report = report("portable");
    for key in [
        "answer_cpu_ms",
        "expand_cpu_ms",
        "first_dimension_cpu_ms",
        "setup_cpu_ms",
        "query_cpu_ms",
        "extract_cpu_ms",
        "answer_tile_cpu_ms",
        "query_bytes",
        "answer_bytes",
        "key_bytes",
    ] {
        assert!(report[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert_eq!(report["verified"], true);
    assert_eq!(report["kernel"], "portable");
    assert!(report["security_bits"].as_u64().unwrap() >= 128);
    assert!(report["failure_log2"].as_f64().unwrap() <= -40.0);
    assert!(report["query_bytes"].as_u64().unwrap() <= 4096);
    assert!(report["answer_bytes"].as_u64().unwrap() <= 110_592);
    assert!(report["key_bytes"].as_u64().unwrap() <= 1_500_000);
}
