//! Which parameters are taken, to the last number.

use super::{ANNOUNCEMENT_BYTES, RoundMode, ServerParameters, Succession};
use crate::{CodeKind, CodeShape, KeyEpoch, PROTOCOL_VERSION, Round, SeedCommitment};

/// The rounds of an epoch must have seeds of one chain.
#[test]
fn where_queries_stand_seeds_begin_with_an_epoch() {
    let parameters = |code, first| ServerParameters {
        code,
        buckets: 9,
        seeds: SeedCommitment { first: Round(first), segments: 1, root: [2; 32] },
        query_ms: 105,
        ..parameters()
    };
    for first in 0..24 {
        assert_eq!(parameters(CodeKind::Partitioned, first).check(), Ok(()));
        let checked = parameters(CodeKind::Standing, first).check();
        assert_eq!(checked.is_ok(), first % 8 == 0, "{first}");
        assert!(checked.is_ok() || checked.unwrap_err().code() == "server-epochs");
    }
}

fn parameters() -> ServerParameters {
    ServerParameters {
        protocol_version: PROTOCOL_VERSION,
        serial: 1,
        manifest_key: [1; 32],
        seeds: SeedCommitment { first: Round(1), segments: 1, root: [2; 32] },
        engine: "none".into(),
        security_bits: 128,
        code: CodeKind::Cuckoo,
        retrieve: 4,
        buckets: 8,
        choices: 3,
        retained: 2,
        mode: RoundMode::Deadline,
        round_ms: 200,
        deposit_ms: 50,
        lookup_ms: 50,
        query_ms: 104,
        deposit_spread_ms: 0,
        query_spread_ms: 0,
        key_epoch: KeyEpoch::ENDLESS,
    }
}

/// An engine that is easier to break than anything else is the way to break everything.
#[test]
fn an_engine_below_128_bits_is_refused() {
    for (security_bits, is_secure) in [(0, false), (127, false), (128, true), (u32::MAX, true)] {
        let announced = ServerParameters { security_bits, ..parameters() };
        assert_eq!((announced.check_security().is_ok(), announced.check().is_ok()), (is_secure, is_secure));
    }
}

/// A call right after work that depends on secrets would tell how long that work took.
#[test]
fn a_server_that_leaves_no_time_between_work_and_call_is_refused() {
    assert_eq!(parameters().check(), Ok(()));
    let without_slots: [fn(&mut ServerParameters); 6] = [
        |parameters| parameters.round_ms = 199,
        |parameters| parameters.deposit_ms = 49,
        |parameters| parameters.lookup_ms = 49,
        |parameters| parameters.query_ms = 103,
        |parameters| (parameters.lookup_ms, parameters.query_ms) = (100, 60),
        |parameters| {
            (parameters.deposit_ms, parameters.lookup_ms, parameters.query_ms) = (0, 0, 0);
        },
    ];
    for spoil in without_slots {
        let mut bad = parameters();
        spoil(&mut bad);
        assert!(bad.check_timing().is_err() && bad.check().is_err());
    }
}

/// Where the deposit leaves the moment it is composed, one deposit tells whether much is queued.
#[test]
fn closed_loop_keeps_the_slots() {
    let closed = ServerParameters { mode: RoundMode::ClosedLoop, round_ms: 1, ..parameters() };
    assert_eq!(closed.check(), Ok(()));
    assert!(ServerParameters { deposit_ms: 0, ..closed.clone() }.check().is_err());
    assert!(ServerParameters { deposit_ms: 49, ..closed.clone() }.check().is_err());
    assert!(ServerParameters { lookup_ms: 0, ..closed }.check().is_err());
}

/// What is built too late would leave when it is built.
#[test]
fn the_query_slot_grows_with_the_buckets() {
    for (buckets, slot) in [(1, 51), (24, 62), (384, 242), (1024, 562)] {
        assert_eq!(ServerParameters::query_slot_ms(buckets), slot);
        let least = ServerParameters { buckets, query_ms: 50 + slot, ..parameters() };
        assert_eq!(least.check_timing(), Ok(()));
        let short = ServerParameters { query_ms: 49 + slot, ..least };
        assert!(short.check_timing().unwrap_err().to_string().contains("buckets"));
    }
}

/// A look-up that never ends in time is a person who never hears anything.
#[test]
fn the_slot_of_the_look_up_grows_with_what_is_looked_up() {
    for (kind, retrieve, buckets, choices, slot) in [
        (CodeKind::Cuckoo, 16, 32, 3, 50),
        (CodeKind::Partitioned, 64, 117, 3, 50),
        (CodeKind::Cuckoo, 64, 96, 3, 100),
        (CodeKind::Cuckoo, 256, 384, 3, 611),
        (CodeKind::Partitioned, 256, 1024, 8, 1276),
        (CodeKind::Single, 256, 256, 1, 512),
    ] {
        let shape = CodeShape { kind, retrieve, buckets, choices };
        assert_eq!(ServerParameters::lookup_slot_ms(shape), slot);
        let query_ms = slot + ServerParameters::query_slot_ms(buckets);
        let shape = ServerParameters { code: kind, retrieve, buckets, choices, ..parameters() };
        let least = ServerParameters { lookup_ms: slot, query_ms, ..shape };
        assert_eq!(least.check_timing(), Ok(()));
        let short = ServerParameters { lookup_ms: slot - 1, ..least };
        assert!(short.check_timing().unwrap_err().to_string().contains("slots"));
    }
}

/// A deposit whose turn comes when the round is closed is never in a round, nor a retrieval when it is retired.
#[test]
fn a_spread_that_outlasts_the_round_is_refused() {
    let spread = |deposit_spread_ms| ServerParameters { deposit_spread_ms, ..parameters() }.check_numbers();
    assert_eq!(spread(150), Ok(()));
    assert!(spread(151).is_err() && spread(u32::MAX).is_err());
    let spread = |query_spread_ms| ServerParameters { query_spread_ms, ..parameters() }.check_numbers();
    assert_eq!(spread(400), Ok(()));
    assert!(spread(401).is_err() && spread(u32::MAX).is_err());
}

#[test]
fn numbers_at_their_bounds_are_taken_and_those_beyond_refused() {
    let with = |change: fn(&mut ServerParameters)| {
        let mut parameters = parameters();
        change(&mut parameters);
        parameters.check_numbers()
    };
    let taken: [fn(&mut ServerParameters); 5] = [
        |p| p.retained = 1,
        |p| p.retained = 4,
        |p| p.lookup_ms = p.query_ms,
        |p| (p.round_ms, p.query_spread_ms) = (50, 100),
        |p| (p.mode, p.round_ms) = (RoundMode::ClosedLoop, 1),
    ];
    assert!(taken.map(with).iter().all(Result::is_ok));
    let refused: [fn(&mut ServerParameters); 6] = [
        |p| p.retained = 0,
        |p| p.retained = 5,
        |p| p.lookup_ms = p.query_ms + 1,
        |p| (p.round_ms, p.deposit_ms, p.mode) = (0, 0, RoundMode::ClosedLoop),
        |p| (p.round_ms, p.deposit_ms) = (49, 50),
        |p| (p.round_ms, p.query_spread_ms) = (50, 101),
    ];
    assert!(refused.map(with).iter().all(Result::is_err));
}

#[test]
fn one_bucket_for_many_messages_or_many_for_one_is_refused() {
    let code = CodeKind::Single;
    let one = ServerParameters { code, retrieve: 1, buckets: 1, choices: 1, ..parameters() };
    assert_eq!(one.check_shape(), Ok(()));
    assert!(ServerParameters { buckets: 8, ..one }.check_shape().is_err());
}

/// Whatever a server announces must stand in what its root signs.
#[test]
fn no_two_announcements_have_one_text() {
    let changes: [fn(&mut ServerParameters); 24] = [
        |p| p.serial += 1,
        |p| p.protocol_version += 1,
        |p| p.manifest_key[31] ^= 1,
        |p| p.engine.push('x'),
        |p| p.security_bits += 1,
        |p| p.code = CodeKind::Hybrid,
        |p| p.retrieve += 1,
        |p| p.buckets += 1,
        |p| p.choices += 1,
        |p| p.retained += 1,
        |p| p.mode = RoundMode::ClosedLoop,
        |p| p.round_ms += 1,
        |p| p.deposit_ms += 1,
        |p| p.lookup_ms += 1,
        |p| p.query_ms += 1,
        |p| p.deposit_spread_ms += 1,
        |p| p.query_spread_ms += 1,
        |p| p.seeds.first.0 += 1,
        |p| p.seeds.segments += 1,
        |p| p.seeds.root[31] ^= 1,
        |p| p.key_epoch.number += 1,
        |p| p.key_epoch.first.0 += 1,
        |p| p.key_epoch.end.0 -= 1,
        |p| p.key_epoch.former[31] ^= 1,
    ];
    let mut texts = vec![parameters().encode()];
    for change in changes {
        let mut changed = parameters();
        change(&mut changed);
        texts.push(changed.encode());
        assert_eq!(ServerParameters::decode(&changed.encode()), Ok(changed));
    }
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 25);
    assert_eq!(ServerParameters::decode(&parameters().encode()), Ok(parameters()), "nothing is cut off");
}

#[test]
fn a_server_may_change_and_not_go_back() {
    let kept = ServerParameters { serial: 7, ..parameters() };
    assert_eq!(kept.succeeds(&kept), Ok(Succession::Same));
    let later = ServerParameters { serial: 9, retrieve: 5, buckets: 12, round_ms: 400, ..parameters() };
    assert_eq!(later.succeeds(&kept), Ok(Succession::Later));
    assert!(kept.succeeds(&later).unwrap_err().to_string().contains("downgrade"));
    let two = ServerParameters { query_ms: 101, ..kept.clone() };
    assert!(two.succeeds(&kept).is_err());
    assert!(ServerParameters { serial: 0, ..parameters() }.check_shape().is_err());
}

#[test]
fn what_no_server_encodes_is_no_announcement() {
    let good = parameters().encode();
    assert!(ServerParameters::decode(&good[..ANNOUNCEMENT_BYTES - 1]).is_err());
    assert!(ServerParameters::decode(&[good.as_slice(), &[0]].concat()).is_err());
    // A name with a zero within, an unknown batch code, an unknown mode.
    for (at, byte) in [(43, 0), (77, 9), (84, 2)] {
        let mut bad = good;
        bad[at] = byte;
        assert!(ServerParameters::decode(&bad).is_err(), "{at}");
    }
}

#[test]
fn another_key_is_no_reason_to_give_rounds_up_and_anything_else_is() {
    let kept = ServerParameters { key_epoch: KeyEpoch::first(Round(900)), ..parameters() };
    let key_epoch = kept.key_epoch.next(kept.manifest_key, Round(100), Round(2000));
    let rotated = ServerParameters { serial: 2, manifest_key: [8; 32], key_epoch, ..kept.clone() };
    assert_eq!((rotated.check_shape(), rotated.succeeds(&kept)), (Ok(()), Ok(Succession::Later)));
    assert!(rotated.differs_in_keys_alone(&kept));
    assert_eq!(rotated.manifest_key_of(Round(99)), Some(kept.manifest_key));
    assert_eq!(rotated.manifest_key_of(Round(100)), Some([8; 32]));
    assert_eq!(rotated.manifest_key_of(Round(2000)), None);
    let longer = ServerParameters { round_ms: 300, ..rotated.clone() };
    assert!(!longer.differs_in_keys_alone(&kept) && longer.succeeds(&kept).is_ok());
    // The former key under a higher number.
    let back = ServerParameters { serial: 3, ..kept };
    assert!(back.succeeds(&rotated).is_err());
}
