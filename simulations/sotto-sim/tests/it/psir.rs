//! What is said of PSIR as a user sees it.

use assert_cmd::Command;
use serde_json::Value;

fn report(arguments: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_sotto-sim"))
        .args(["psir", "--json"].into_iter().chain(arguments.split(' ')))
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// A query loses the blocks that hold its record: c (k - 1)/n of them in the mean, as the paper's averages say, too.
#[test]
fn blocks_serve_nearly_as_many_queries_as_there_are() {
    let report = report("--runs 3000 --seed 5");
    let sizes = report["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 3);
    for (size, lost) in sizes.iter().zip([3.31, 3.32, 3.37]) {
        let of = |key: &str| size[key].as_f64().unwrap();
        assert!((of("c") - of("average") - lost).abs() < 0.15, "{size}");
        assert!((of("paper_average") - of("average")).abs() < 1.0, "{size}");
        assert!(of("c") - 25.0 < of("minimum") && of("minimum") < of("average"), "{size}");
    }
}

#[test]
fn a_database_that_stays_gives_its_records() {
    for (engine, keys) in [("xpsir", 4), ("sealpsir", 755_236)] {
        let report = report(&format!("--engine {engine} --elements 500 --blocks 20 --queries 3"));
        assert_eq!((&report["engine"], &report["verified"]), (&engine.into(), &true.into()));
        assert_eq!((&report["key_bytes"], &report["state_bytes"]), (&keys.into(), &(20 * 320).into()));
        assert_eq!(report["init_bytes"], 500 * 288);
    }
}

#[test]
fn too_few_blocks_are_told() {
    let output = Command::new(env!("CARGO_BIN_EXE_sotto-sim"))
        .args(["psir", "--engine", "xpsir", "--elements", "50", "--blocks", "1", "--queries", "30"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("more --blocks"));
}
