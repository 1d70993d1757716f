//! What is told of a server's costs before joining is what rounds cost afterwards.

use mpir::noop;
use sotto_participant::{Event, RoundCost, RoundReport};
use sotto_protocol::CodeKind;
use sotto_protocol::manifest::expected_bucket_size;
use sottod::Config;

use crate::support::{Person, config, is_report, loopback, pair, settings};

#[tokio::test(flavor = "multi_thread")]
async fn a_round_costs_what_was_told_before_joining() {
    for code in [CodeKind::Cuckoo, CodeKind::Partitioned, CodeKind::Standing] {
        let buckets = if code.has_slots() { 15 } else { 16 };
        let config = Config { code, choices: 3, buckets: Some(buckets), ..config(loopback()) };
        let server = sottod::start(noop(), config).unwrap();
        let settings = settings(&server);
        let (alice, _) = pair(&settings).await;
        let mut alice = Person::start(alice, None, &settings).await;
        // All rounds of one epoch, of most codes one, in which keys are not replaced: then two requests are sent whole.
        let mut reports: Vec<RoundReport> = Vec::new();
        let rounds = code.epoch_rounds();
        while reports.len() as u64 != rounds {
            let seen = alice.until("round", is_report).await;
            let Some(Event::RoundReport(report)) = seen.last() else { panic!("{seen:?}") };
            let whole = reports.iter().filter(|report| report.query.bytes > 32).count();
            let another = |first: &RoundReport| code.epoch(first.round) != code.epoch(report.round);
            if reports.first().is_some_and(another) || (whole > 0 && report.query.bytes > 32) {
                reports.clear();
            }
            if report.complete && !report.dummy {
                reports.push(*report);
            }
        }
        let report = reports[0];
        let queries = reports.iter().map(|report| report.query.bytes).sum::<u64>().div_ceil(rounds);
        let parameters = server.parameters();
        let cost = RoundCost::of(&*noop(), parameters, report.bucket_size).unwrap();
        assert_eq!(
            [cost.deposit, cost.mapping, cost.request, cost.answer, cost.hint],
            [report.deposit.bytes, report.mapping.bytes, queries, report.answer.bytes, report.hint],
            "{code:?}"
        );
        assert!(cost.up() > cost.deposit + cost.request && cost.down() > cost.mapping + cost.answer);
        let expected = RoundCost::expected(&*noop(), parameters, 1).unwrap();
        if code.has_slots() {
            assert_eq!(expected, cost);
        }
        for people in [0, 1 << 25, u64::MAX] {
            assert_eq!(expected_bucket_size(parameters.shape(), people), None);
            assert!(RoundCost::expected(&*noop(), parameters, people).is_err());
        }
        alice.handle.stop().await.unwrap();
        server.shutdown().await.unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_server_is_shown_to_one_without_an_account() {
    use crate::programs::{Home, Server};

    let server = Server::start(crate::programs::config(loopback()));
    let (address, nobody) = (server.address(), Home::new());
    let told = nobody.succeeds(&["info", &address]);
    for said in ["open to everybody", "bits of security", "of 0.7 s", "fetch 1 box,", "\n1,000\t"] {
        assert!(told.contains(said), "{said:?} in {told}");
    }
    let told =
        nobody.json(&["info", &address, "--json", "--people", "5000", "--conversations", "1"]).remove(0);
    assert_eq!(told["server"], address);
    let cost = &told["costs"][0];
    assert_eq!((&cost["people"], told["costs"].as_array().map(Vec::len)), (&5000.into(), Some(1)));
    let day = cost["up_bytes"].as_u64().unwrap() + cost["down_bytes"].as_u64().unwrap();
    assert_eq!(cost["day_bytes"], day * (24 * 60 * 60 * 1000 / 700));
    nobody.fails(&["info", &address, "--people", "1000000000"], "", 2, "no round of 1000000000 people");
    // Nothing was made of it.
    assert!(!nobody.file("account").parent().unwrap().exists());
    server.shutdown();
    nobody.fails(&["info", &address], "", 3, "no server answers");
}
