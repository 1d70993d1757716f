//! Every engine as a user measures it.

use assert_cmd::Command;
use serde_json::Value;

fn report(arguments: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_sotto-sim"))
        .args(arguments.split(' ').chain(["--json"]))
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Another engine's figures under a name would go unnoticed, and so would a time of a stage that it does not have.
#[test]
fn every_engine_is_the_one_asked_for_and_retrieves_the_databases_elements() {
    for (engine, name, dimensions, security, expands) in [
        ("sealpir", "sealpir-s2048", 1, 137, true),
        ("xpir-2", "xpir-2", 2, 193, false),
        ("xpir-3", "xpir-3", 3, 193, false),
        ("paper-t20", "sealpir-paper-t20", 2, 113, true),
        ("paper-t23", "sealpir-paper-t23", 2, 113, true),
        ("fastpir", "fastpir", 1, 128, false),
        ("fastpir-paper", "fastpir-paper", 1, 125, false),
        ("onionpir", "onionpir", 3, 137, true),
        ("onionpir-paper", "onionpir-paper", 3, 113, true),
        ("simplepir", "simplepir", 1, 132, false),
        ("simplepir-paper", "simplepir-paper", 1, 120, false),
        ("doublepir", "doublepir", 2, 132, false),
        ("spiral", "spiral", 4, 137, true),
        ("spiral-pack", "spiral-pack", 1, 137, true),
        ("spiral-stream", "spiral-stream", 3, 137, false),
        ("spiral-stream-pack", "spiral-stream-pack", 1, 137, false),
        ("spiral-paper", "spiral-paper", 1, 113, true),
        ("spiral-stream-paper", "spiral-stream-paper", 2, 113, false),
        ("xpsir", "xpsir", 1, 193, false),
        ("sealpsir", "sealpsir", 1, 137, false),
    ] {
        // Long elements would take DoublePIR as long as all the others together.
        let bytes = if engine == "doublepir" { 3 } else { 288 };
        let report = report(&format!("pir --engine {engine} --elements 500 --bytes {bytes} --runs 5"));
        assert_eq!((&report["engine"], &report["verified"]), (&name.into(), &true.into()));
        assert_eq!(report["dimensions"], dimensions, "{engine}");
        assert_eq!(report["planes"].is_null(), engine != "xpir-3", "{engine}");
        assert_eq!(report["security_bits"], security, "{engine}");
        assert!(report["failure_log2"].as_f64().unwrap() <= -40.0, "{engine}");
        for key in ["levels", "expand_cpu_ms"] {
            assert_eq!(report[key].is_null(), !expands, "{engine}, {key}");
        }
        let paper = engine.starts_with("paper");
        let linear = engine.starts_with("simplepir") || engine.starts_with("doublepir");
        let hinted = linear || engine.ends_with("psir");
        let lattice = engine.starts_with("spiral") || engine == "onionpir-paper";
        let depends = paper || linear || lattice || engine.starts_with("fastpir");
        assert_eq!(report["plaintext_bits"].is_null(), !depends, "{engine}");
        assert_eq!(report["hint_bytes"] == 0, !hinted, "{engine}");
        assert_eq!(report["answer_tile_cpu_ms"].is_null(), paper, "{engine}");
        assert_eq!(report["parse_cpu_ms"].is_null(), expands, "{engine}");
        for key in ["answer_cpu_ms", "first_dimension_cpu_ms", "setup_cpu_ms", "query_bytes", "answer_bytes"]
        {
            assert!(report[key].as_f64().unwrap() > 0.0, "{engine}, {key}");
        }
    }
}

#[test]
#[ignore = "two minutes"]
fn engines_of_large_primes_are_the_ones_asked_for() {
    for (engine, security) in [("paillierpsir", 128), ("paillierpsir-paper", 112)] {
        let report = report(&format!("pir --engine {engine} --elements 60 --bytes 288 --runs 5"));
        assert_eq!((&report["engine"], &report["verified"]), (&engine.into(), &true.into()));
        assert_eq!(
            (&report["security_bits"], &report["answer_tile_cpu_ms"]),
            (&security.into(), &Value::Null)
        );
        let arguments = format!("mpir --engine {engine} --code cuckoo --k 2 --elements 60 --runs 1");
        assert_eq!(self::report(&arguments)["verified"], true, "{engine}");
    }
}

#[test]
fn every_engine_serves_whole_multi_queries() {
    let baselines = [
        "xpir-2",
        "xpir-3",
        "paper-t20",
        "paper-t23",
        "fastpir",
        "fastpir-paper",
        "onionpir",
        "onionpir-paper",
        "simplepir",
        "simplepir-paper",
        "doublepir",
        "spiral",
        "spiral-pack",
        "spiral-stream",
        "spiral-stream-pack",
        "spiral-paper",
        "xpsir",
        "sealpsir",
    ];
    for engine in ["sealpir"].into_iter().chain(baselines) {
        for code in ["single", "cuckoo"] {
            let arguments = format!("mpir --engine {engine} --code {code} --k 2 --elements 60 --runs 1");
            let report = report(&arguments);
            assert_eq!((&report["verified"], &report["deferred"]), (&true.into(), &0.into()), "{arguments}");
            assert_eq!(report["engine"], engine);
            let expands = [
                "sealpir",
                "onionpir",
                "onionpir-paper",
                "paper-t20",
                "paper-t23",
                "spiral",
                "spiral-pack",
                "spiral-paper",
            ];
            assert_eq!(report["expand_cpu_ms"].is_null(), !expands.contains(&engine));
        }
    }
}

#[test]
fn shapes_of_one_engine_are_not_silently_ignored_by_another() {
    let arguments = ["pir", "--engine", "xpir-2", "--columns", "3"];
    let output = Command::new(env!("CARGO_BIN_EXE_sotto-sim")).args(arguments).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--engine sealpir"));
}
