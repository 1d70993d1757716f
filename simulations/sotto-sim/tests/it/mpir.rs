//! Whole multi-queries as a user measures them.

use assert_cmd::Command;
use serde_json::Value;

fn report(arguments: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_sotto-sim"))
        .args(["mpir", "--json", "--runs", "1"].into_iter().chain(arguments.split(' ')))
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// A code whose elements come out wrong, or that was asked for less than the batch, would look cheap.
#[test]
fn every_code_retrieves_the_databases_elements() {
    for (code, buckets, codewords) in [
        ("single", 4, 300.0),
        ("replication", 4, 4.0 * 300.0),
        ("sharding", 60, 15.0 * 300.0),
        ("2-choice", 12, 2.0 * 3.0 * 300.0),
        ("hybrid", 36, 4.5 * 300.0),
        ("cuckoo", 12, 3.0 * 300.0),
        ("partitioned", 15, 3.0 * 300.0),
    ] {
        let report = report(&format!("--code {code} --k 4 --elements 300"));
        assert_eq!((&report["verified"], &report["deferred"]), (&true.into(), &0.into()), "{code}");
        assert_eq!(report["buckets"], buckets, "{code}");
        // The hybrid's cubes have quarters of unequal sizes, whose sums are as long as the longest.
        let most = if code == "hybrid" { 1.1 * codewords } else { codewords };
        assert!((codewords..=most).contains(&report["codewords"].as_f64().unwrap()), "{code}");
        assert!(report["sampled"].is_null());
        for figure in ["server_cpu_ms", "expand_cpu_ms", "first_dimension_cpu_ms", "setup_cpu_ms"] {
            assert!(report[figure].as_f64().unwrap() > 0.0, "{code}, {figure}");
        }
        let (whole, one) = (&report["server_cpu_ms"], &report["server_cpu_ms_per_message"]);
        assert!((whole.as_f64().unwrap() / 4.0 - one.as_f64().unwrap()).abs() < 1e-9);
        for traffic in ["upload_bytes", "download_bytes"] {
            assert_eq!(report[traffic].as_u64().unwrap() % buckets, 0, "{code}, {traffic}");
        }
    }
}

/// What was not measured must not pass for it.
#[test]
fn a_sample_of_single_queries_says_so_and_counts_all_of_them() {
    let [few, many] = [8, 80].map(|k| report(&format!("--code single --k {k} --elements 100")));
    assert_eq!((&few["sampled"], &many["sampled"]), (&Value::Null, &8.into()));
    assert_eq!(many["download_bytes"].as_u64(), few["download_bytes"].as_u64().map(|bytes| 10 * bytes));
    let [few, many] = [&few, &many].map(|report| report["server_cpu_ms"].as_f64().unwrap());
    assert!(many > 3.0 * few, "{few} ms, {many} ms");
}

/// Keys without a place are counted, and the others still right.
#[test]
fn keys_that_find_no_bucket_are_counted() {
    // With one candidate each, three keys need luck to miss each other in three buckets.
    let deferred = (1..6).map(|seed| {
        let report = report(&format!("--k 3 --b 3 --w 1 --elements 50 --seed {seed}"));
        assert_eq!(report["verified"], true);
        report["deferred"].as_u64().unwrap()
    });
    assert!(deferred.sum::<u64>() > 0);
    assert!(
        !Command::new(env!("CARGO_BIN_EXE_sotto-sim"))
            .args(["mpir", "--k", "9", "--elements", "8"])
            .output()
            .unwrap()
            .status
            .success()
    );
}
