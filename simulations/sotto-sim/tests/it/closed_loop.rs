//! Closed loops as a user runs them: a real server in its own process, real clients, few of both.

use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn closed_loop(arguments: &str) -> Output {
    let arguments = arguments.split(' ').filter(|argument| !argument.is_empty());
    Command::new(env!("CARGO_BIN_EXE_sotto-sim")).arg("closed-loop").args(arguments).output().unwrap()
}

/// What is said where there is no loop.
fn refusal(arguments: &str) -> String {
    let output = closed_loop(arguments);
    assert!(!output.status.success(), "{arguments}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn last_line(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path}"))
}

/// With slots nothing is downloaded to find a message, and everything is found all the same.
#[test]
fn with_slots_every_message_arrives_without_a_mapping() {
    let arguments = "--users 512 --clients 4 --retrieve 4 --rounds 2 --seed 7 --addressing slots --json";
    let report = last_line(&closed_loop(arguments));
    assert_eq!(report["code"], "partitioned");
    for nothing in ["wrong", "missing", "ambiguous"] {
        assert_eq!(report[nothing], 0, "{nothing}");
    }
    assert_eq!(number(&report, "/retrieved") + number(&report, "/deferred"), 4.0 * 4.0 * 2.0);
    assert_eq!((number(&report, "/bytes/deposit"), number(&report, "/bytes/mapping")), (300.0, 0.0));
    // 508 simulated users have 16 lots and the clients one more, of which there are 18 in a table: 594 places in five buckets
    // of each group.
    assert_eq!((number(&report, "/buckets"), number(&report, "/bucket_size")), (15.0, 119.0));
}

/// What a server prefers decides how long requests and answers are, and nothing else.
#[test]
#[ignore = "a quarter of a minute: .ci/deep figures"]
fn a_server_arranges_its_rounds_for_time_or_for_bytes() {
    let arguments =
        "--users 4096 --clients 4 --retrieve 4 --rounds 1 --addressing slots --without-bare --json";
    let bytes = |prefer: &str| {
        let report = last_line(&closed_loop(&format!("{arguments} --engine voce --prefer {prefer}")));
        assert_eq!(report["prefer"], prefer);
        for nothing in ["wrong", "missing"] {
            assert_eq!(report[nothing], 0, "{prefer}: {nothing}");
        }
        let [query, answer] = ["query", "answer"].map(|part| number(&report, &format!("/bytes/{part}")));
        (query, query + answer)
    };
    let (time, balanced, least) = (bytes("time"), bytes("balanced"), bytes("bytes"));
    assert!(time.0 > balanced.0 && balanced.0 > least.0, "fewer columns are longer queries");
    assert!(time.1 > balanced.1 && balanced.1 > least.1, "{time:?} {balanced:?} {least:?}");
    let refused = closed_loop(&format!("{arguments} --prefer time"));
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--prefer"));
}

/// Clients would wait for ever for a round that cannot be built: here everybody would download all messages, more than the
/// protocol allows.
#[test]
fn users_for_whom_no_round_has_room_are_refused() {
    let error =
        refusal("--users 262144 --clients 2 --retrieve 1 --rounds 1 --addressing slots --engine xpsir");
    assert!(error.contains("longer than the protocol allows"), "{error}");
}

/// The same by labels, where it is seen only when a round is built how large it is: a server says that it has given it up.
#[test]
fn a_round_that_cannot_be_built_ends_the_loop() {
    let error =
        refusal("--users 262144 --clients 2 --retrieve 1 --rounds 1 --addressing labels --engine xpsir");
    assert!(error.contains("could not build round 1"), "{error}");
}

/// A loop that loses messages, or does not send what it counts, would measure something else than the system.
#[test]
fn every_message_arrives_and_every_byte_is_accounted_for() {
    let out = tempfile::tempdir().unwrap();
    let arguments = "--users 512 --clients 4 --retrieve 4 --rounds 2 --seed 7 --json --out";
    let report = last_line(&closed_loop(&format!("{arguments} {}", out.path().display())));

    for (name, expected) in [("users", 512), ("clients", 4), ("retrieve", 4), ("rounds", 2), ("seed", 7)] {
        assert_eq!(report[name], expected, "{name}");
    }
    for nothing in ["wrong", "missing"] {
        assert_eq!(report[nothing], 0, "{nothing}");
    }
    let unread = number(&report, "/deferred") + number(&report, "/ambiguous_unread");
    assert_eq!(number(&report, "/retrieved") + unread, 4.0 * 4.0 * 2.0);
    assert!((number(&report, "/retrieved_per_client_round") - 4.0).abs() <= 0.5);

    // What the protocol says of sizes, for 12 buckets.
    assert_eq!(report["buckets"], 12);
    assert_eq!(number(&report, "/bytes/deposit"), 304.0);
    let per_bucket = number(&report, "/bytes/query") / 12.0;
    // A seed and a few packed coefficients.
    assert!(per_bucket.fract() == 0.0 && per_bucket > 32.0 && per_bucket < 20_000.0, "{per_bucket}");
    let size = number(&report, "/bucket_size");
    assert!((128.0..200.0).contains(&size), "{size} of 512 messages thrice in 12 buckets");
    // Three bytes for a position, and for the rest of the last 64 of each bucket.
    let rest = number(&report, "/bytes/mapping") - 12.0 - 12.0 * (4.0 + 3.0 * size);
    assert!((0.0..12.0 * 192.0).contains(&rest), "{rest}");
    assert!(number(&report, "/bytes/keys_once") > 100_000.0);
    let payload =
        ["deposit", "mapping", "query", "answer"].map(|part| number(&report, &format!("/bytes/{part}")));
    let (up, down) = (number(&report, "/bytes/socket_up"), number(&report, "/bytes/socket_down"));
    assert!(up > payload[0] + payload[2] && down > payload[1] + payload[3], "what is sent is in the socket");
    let overhead = number(&report, "/bytes/overhead");
    assert!((overhead - (up + down - payload.iter().sum::<f64>())).abs() < 1.0);
    assert!(overhead > 0.0 && overhead < 0.2 * (up + down), "{overhead} of {up} and {down}");

    // An answer is checked, and the bucket for it comes whole: every box of it, and a digest of each of the 12.
    assert_eq!(number(&report, "/check/bytes"), 12.0 * 32.0 + size * 288.0);
    let socket = number(&report, "/check/socket");
    assert!(socket > number(&report, "/check/bytes") && socket < 1.2 * number(&report, "/check/bytes"));

    for positive in [
        "/check/cpu_ms",
        "/messages_per_minute",
        "/core_ms_per_message",
        "/core_seconds_per_client_round",
        "/setup_cpu_ms",
        "/setup_wall_ms",
        "/stages_ms/expand",
        "/stages_ms/first_dimension",
        "/stages_ms/rest",
        "/stages_ms/deposits",
        "/memory/peak",
        "/memory/databases",
        "/overhead",
    ] {
        assert!(number(&report, positive) > 0.0, "{positive}");
    }
    assert!(number(&report, "/latency_ms/p50") <= number(&report, "/latency_ms/max"));
    // Four bytes for each of at least 512 x 3 messages of 288 bytes.
    assert!(number(&report, "/memory/databases") >= 4.0 * 512.0 * 3.0 * 288.0);
    assert!(number(&report, "/memory/peak") >= number(&report, "/memory/databases"));

    for file in ["report.json", "rounds.csv", "stages.csv", "report.md"] {
        let content = std::fs::read_to_string(out.path().join(file)).unwrap();
        assert!(!content.is_empty(), "{file}");
        if file == "rounds.csv" {
            assert_eq!(content.lines().count(), 3, "a header and two rounds");
        }
    }
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(out.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(written, report);
}

/// Codes that are compared must be run with the same messages, and say what they cost.
#[test]
fn codes_are_compared_with_each_other() {
    let arguments = "--users 128 --clients 2 --retrieve 2 --rounds 1 --compare single,hybrid,cuckoo --without-bare --json";
    let output = closed_loop(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Codes compared"), "{text}");
    let reports = last_line(&output);
    for (code, buckets) in [("single", 2), ("hybrid", 18), ("cuckoo", 6)] {
        let report = &reports[code];
        assert_eq!((&report["code"], &report["buckets"]), (&code.into(), &buckets.into()));
        assert_eq!((&report["wrong"], &report["missing"]), (&0.into(), &0.into()), "{code}");
        let unread = number(report, "/deferred") + number(report, "/ambiguous_unread");
        assert_eq!(number(report, "/retrieved") + unread, 4.0, "{code}");
        // Nobody asked for what it is compared with.
        assert!(report["overhead"].is_null() && report["bench_ms"].is_null(), "{report}");
    }
}

/// One message each, from a round that is not encoded.
#[test]
fn one_message_is_retrieved_from_the_only_bucket() {
    let report = last_line(&closed_loop("--users 64 --clients 2 --retrieve 1 --rounds 1 --threads 1 --json"));
    assert_eq!(
        (&report["buckets"], &report["bucket_size"], &report["threads"]),
        (&1.into(), &64.into(), &1.into())
    );
    assert_eq!(
        (&report["retrieved"], &report["wrong"], &report["missing"]),
        (&2.into(), &0.into(), &0.into())
    );
}

/// With a batch code and without, by engines that no product has. What the mapping shows twice, or its batch has no room
/// for, is left unread whatever the engine, and counted.
fn every_message_is_retrieved_by(engines: &[(&str, u32)]) {
    for (engine, retrieve) in engines {
        let arguments =
            format!("--users 64 --clients 2 --retrieve {retrieve} --rounds 1 --engine {engine} --json");
        let report = last_line(&closed_loop(&arguments));
        assert_eq!((&report["wrong"], &report["missing"]), (&0.into(), &0.into()), "{arguments}");
        // Otherwise nothing would have been compared.
        assert!(number(&report, "/retrieved") > 0.0, "{arguments}");
        let unread = number(&report, "/deferred") + number(&report, "/ambiguous_unread");
        assert_eq!(number(&report, "/retrieved") + unread, f64::from(2 * retrieve), "{arguments}");
    }
}

#[test]
fn engines_of_every_kind_retrieve_every_message() {
    every_message_is_retrieved_by(&[("simplepir", 4), ("spiral-stream-pack", 1), ("xpsir", 4)]);
}

#[test]
#[ignore = "half a minute"]
fn every_engine_retrieves_every_message() {
    every_message_is_retrieved_by(&[
        ("xpir-2", 4),
        ("xpir-3", 1),
        ("simplepir", 1),
        ("doublepir", 1),
        ("fastpir", 1),
        ("fastpir", 4),
        ("onionpir", 4),
        ("spiral", 4),
        ("spiral-pack", 1),
        ("spiral-stream", 1),
        ("xpsir", 1),
        ("sealpsir", 1),
    ]);
}

#[test]
#[ignore = "half a minute"]
fn an_engine_of_large_primes_retrieves_every_message() {
    let report = last_line(&closed_loop(
        "--users 64 --clients 2 --retrieve 4 --rounds 1 --engine paillierpsir --json",
    ));
    assert_eq!((&report["wrong"], &report["missing"]), (&0.into(), &0.into()));
    assert!(number(&report, "/retrieved") > 0.0);
}

/// What cannot work must be said at once, and what to do.
#[test]
fn impossible_loops_are_refused() {
    for (arguments, reason) in [
        ("--users 3 --clients 4", "there must be as many users"),
        ("--users 8 --clients 4 --retrieve 16", "simulated users"),
        ("--users 64 --clients 0", "0 is not in"),
        ("--users 64 --clients 2 --retrieve 257", "257 is not in"),
        ("--users 64 --clients 2 --rounds 0", "0 is not in"),
        ("--users 64 --clients 2 --engine paper-t20", "128 bits"),
        ("--users 64 --clients 2 --engine fastpir-paper", "128 bits"),
        ("--users 64 --clients 2 --engine paillierpsir-paper", "128 bits"),
        ("--users 4096 --clients 2 --retrieve 114 --code hybrid", "at most 113"),
        ("--users 64 --clients 2 --code other", "invalid value"),
        ("--users 64 --clients 2 --code cuckoo --compare cuckoo", "cannot be used with"),
    ] {
        let error = refusal(arguments);
        assert!(error.contains(reason), "{arguments}: {error}");
    }
}
