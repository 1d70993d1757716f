//! Every engine as a user measures it.

use assert_cmd::Command;
use serde_json::Value;

/// Name, dimensions and bits of security of all but Voce's, those of large primes, and presets of papers that differ from another one
/// here by their moduli alone.
const ENGINES: [(&str, u32, u32); 20] = [
    ("sealpir", 1, 137),
    ("xpir-2", 2, 193),
    ("xpir-3", 3, 193),
    ("paper-t20", 2, 113),
    ("paper-t23", 2, 113),
    ("fastpir", 1, 128),
    ("fastpir-paper", 1, 125),
    ("onionpir", 3, 137),
    ("onionpir-paper", 3, 113),
    ("simplepir", 1, 132),
    ("simplepir-paper", 1, 120),
    ("doublepir", 2, 132),
    ("spiral", 4, 137),
    ("spiral-pack", 1, 137),
    ("spiral-stream", 3, 137),
    ("spiral-stream-pack", 1, 137),
    ("spiral-paper", 1, 113),
    ("spiral-stream-paper", 2, 113),
    ("xpsir", 1, 193),
    ("sealpsir", 1, 137),
];

/// Of engines that are built or reported alike, one. The names of all, and what is reported of them before anything is measured,
/// have a test beside the command line's names.
const KINDS: [&str; 9] = [
    "sealpir",
    "xpir-3",
    "paper-t23",
    "fastpir",
    "onionpir",
    "simplepir",
    "spiral-pack",
    "spiral-stream",
    "xpsir",
];

fn report(arguments: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_sotto-sim"))
        .args(arguments.split(' ').chain(["--json"]))
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn expands(engine: &str) -> bool {
    let uploads = engine.starts_with("spiral-stream");
    ["sealpir", "paper-t20", "paper-t23"].contains(&engine)
        || engine.starts_with("onionpir")
        || engine.starts_with("spiral") && !uploads
}

/// Another engine's figures under a name would go unnoticed, and so would a time of a stage that it does not have.
fn retrieves_the_databases_elements((engine, dimensions, security): (&str, u32, u32)) {
    // Long elements would take DoublePIR as long as all the others together.
    let bytes = if engine == "doublepir" { 3 } else { 288 };
    let report = report(&format!("pir --engine {engine} --elements 500 --bytes {bytes} --runs 5"));
    let name = match engine {
        "sealpir" => "sealpir-s2048",
        "paper-t20" => "sealpir-paper-t20",
        "paper-t23" => "sealpir-paper-t23",
        _ => engine,
    };
    assert_eq!((&report["engine"], &report["verified"]), (&name.into(), &true.into()));
    assert_eq!(
        (&report["dimensions"], &report["security_bits"]),
        (&dimensions.into(), &security.into()),
        "{engine}"
    );
    assert_eq!(report["planes"].is_null(), engine != "xpir-3", "{engine}");
    assert!(report["failure_log2"].as_f64().unwrap() <= -40.0, "{engine}");
    for key in ["levels", "expand_cpu_ms"] {
        assert_eq!(report[key].is_null(), !expands(engine), "{engine}, {key}");
    }
    let paper = engine.starts_with("paper");
    let linear = engine.starts_with("simplepir") || engine.starts_with("doublepir");
    let hinted = linear || engine.ends_with("psir");
    let lattice = engine.starts_with("spiral") || engine == "onionpir-paper";
    let depends = paper || linear || lattice || engine.starts_with("fastpir");
    assert_eq!(report["plaintext_bits"].is_null(), !depends, "{engine}");
    assert_eq!(report["hint_bytes"] == 0, !hinted, "{engine}");
    assert_eq!(report["answer_tile_cpu_ms"].is_null(), paper, "{engine}");
    assert_eq!(report["parse_cpu_ms"].is_null(), expands(engine), "{engine}");
    for key in ["answer_cpu_ms", "first_dimension_cpu_ms", "setup_cpu_ms", "query_bytes", "answer_bytes"] {
        assert!(report[key].as_f64().unwrap() > 0.0, "{engine}, {key}");
    }
}

fn serves_whole_multi_queries(engine: &str) {
    for code in ["single", "cuckoo"] {
        let arguments = format!("mpir --engine {engine} --code {code} --k 2 --elements 60 --runs 1");
        let report = report(&arguments);
        assert_eq!((&report["verified"], &report["deferred"]), (&true.into(), &0.into()), "{arguments}");
        assert_eq!(report["engine"], engine);
        assert_eq!(report["expand_cpu_ms"].is_null(), !expands(engine), "{arguments}");
    }
}

#[test]
fn engines_of_every_kind_retrieve_the_databases_elements() {
    let kinds = ENGINES.into_iter().filter(|(engine, ..)| KINDS.contains(engine));
    kinds.for_each(retrieves_the_databases_elements);
}

#[test]
#[ignore = "half a minute"]
fn every_engine_retrieves_the_databases_elements() {
    ENGINES.into_iter().for_each(retrieves_the_databases_elements);
}

#[test]
fn engines_of_every_kind_serve_whole_multi_queries() {
    KINDS.into_iter().for_each(serves_whole_multi_queries);
}

#[test]
#[ignore = "half a minute"]
fn every_engine_serves_whole_multi_queries() {
    ENGINES.into_iter().for_each(|(engine, ..)| serves_whole_multi_queries(engine));
}

#[test]
#[ignore = "a quarter of a minute"]
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
fn shapes_of_one_engine_are_not_silently_ignored_by_another() {
    let arguments = ["pir", "--engine", "xpir-2", "--columns", "3"];
    let output = Command::new(env!("CARGO_BIN_EXE_sotto-sim")).args(arguments).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--engine sealpir"));
}
