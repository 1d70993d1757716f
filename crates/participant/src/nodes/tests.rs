use core::time::Duration;

use ed25519_dalek::SigningKey;
use mpir::noop;
use sotto_protocol::error::DirectoryError;
use sotto_protocol::{
    CodeKind, Directory, Error, KeyEpoch, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment,
    ServerParameters, SignedDirectory,
};

use super::Nodes;

const ROOT: [u8; 32] = [1; 32];

fn key(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number; 32])
}

fn signed_in(round: u64, number: u64, node: &str, root: [u8; 32], by: u8) -> SignedDirectory {
    let directory = Directory::new(number, Round(round), [node.to_owned()]).unwrap();
    SignedDirectory::sign(&directory, &root, &key(by))
}

fn signed(number: u64, node: &str, root: [u8; 32], by: u8) -> SignedDirectory {
    signed_in(1, number, node, root, by)
}

/// A server whose first key, the one of this number, ends with round 100.
fn server(by: u8) -> ServerParameters {
    ServerParameters {
        protocol_version: PROTOCOL_VERSION,
        serial: 1,
        manifest_key: key(by).verifying_key().to_bytes(),
        seeds: SeedCommitment::default(),
        engine: noop().name().into(),
        security_bits: 128,
        code: CodeKind::Cuckoo,
        retrieve: 4,
        buckets: 8,
        choices: 3,
        retained: 2,
        mode: RoundMode::Deadline,
        round_ms: 1000,
        deposit_ms: 100,
        lookup_ms: 150,
        query_ms: 300,
        deposit_spread_ms: 0,
        query_spread_ms: 0,
        key_epoch: KeyEpoch::first(Round(100)),
    }
}

/// The next key, from a round on.
fn rotated(before: &ServerParameters, by: u8, first: u64) -> ServerParameters {
    let key_epoch = before.key_epoch.next(before.manifest_key, Round(first), Round(first + 100));
    let manifest_key = key(by).verifying_key().to_bytes();
    ServerParameters { serial: before.serial + 1, manifest_key, key_epoch, ..before.clone() }
}

#[tokio::test(start_paused = true)]
async fn of_a_flood_eight_are_looked_at_and_then_one_in_ten_seconds() {
    let server = server(2);
    let mut nodes = Nodes::kept(ROOT, &server, None);
    let mut looked = Vec::new();
    for number in 1..=12 {
        looked.push(nodes.hear(signed(number, "a:1", ROOT, 2), &server).unwrap());
        if number > 8 {
            tokio::time::advance(Duration::from_secs(5)).await;
        }
    }
    let eight = [true; 8];
    assert_eq!(looked, [&eight[..], &[false, false, true, false]].concat());
}

#[test]
fn only_a_higher_number_of_the_servers_own_is_news_and_two_under_one_number_are_a_lie() {
    let server_of_2 = server(2);
    let mut nodes = Nodes::kept(ROOT, &server_of_2, None);
    let mut hear = |signed| nodes.hear(signed, &server_of_2);
    let refused = |reason| Err(Error::Directory(reason));
    assert_eq!(hear(signed(5, "a:1", ROOT, 3)), refused(DirectoryError::Unsigned));
    assert_eq!(hear(signed(5, "a:1", [9; 32], 2)), refused(DirectoryError::Unsigned));
    assert_eq!(hear(signed(5, "a:1", ROOT, 2)), Ok(true));
    assert_eq!(hear(signed(5, "a:1", ROOT, 2)), Ok(false));
    assert_eq!(hear(signed(5, "b:1", ROOT, 2)), refused(DirectoryError::Other));
    assert_eq!(hear(signed(4, "b:1", ROOT, 2)), Ok(false));
    assert_eq!(hear(signed(6, "b:1", ROOT, 2)), Ok(true));
    // The key has ended.
    assert_eq!(hear(signed_in(100, 7, "c:1", ROOT, 2)), refused(DirectoryError::Unsigned));
    assert_eq!(nodes.directory().unwrap().nodes(), ["b:1"]);

    let kept = |bytes: Vec<u8>, root, by| {
        Nodes::kept(root, &server(by), Some(bytes)).directory().map(Directory::number)
    };
    let bytes = nodes.encode();
    assert_eq!(kept(bytes.clone(), ROOT, 2), Some(6));
    assert_eq!(kept(bytes.clone(), [9; 32], 2), None);
    assert_eq!(kept(bytes.clone(), ROOT, 3), None);
    assert_eq!(kept(bytes[1..].to_vec(), ROOT, 2), None);
    assert_eq!(kept([&bytes[..], &[0]].concat(), ROOT, 2), None);
    assert_eq!(kept(Vec::new(), ROOT, 2), None);
}

#[tokio::test(start_paused = true)]
async fn what_a_later_key_signs_holds_before_any_number_of_an_earlier_one() {
    let [first, second] = [server(2), rotated(&server(2), 3, 50)];
    let third = rotated(&second, 4, 80);
    let mut nodes = Nodes::kept(ROOT, &first, None);
    assert_eq!(nodes.hear(signed(u64::MAX, "thief:1", ROOT, 2), &first), Ok(true));
    // The former key still holds for rounds of its own, until the next one says something.
    assert_eq!(nodes.hear(signed(7, "b:1", ROOT, 2), &second), Ok(false));
    assert_eq!(nodes.hear(signed_in(60, 7, "b:1", ROOT, 3), &second), Ok(true));
    assert_eq!(nodes.hear(signed(u64::MAX, "other:1", ROOT, 2), &second), Ok(false));
    let kept = Nodes::kept(ROOT, &second, Some(nodes.encode()));
    assert_eq!(kept.directory().unwrap().nodes(), ["b:1"]);
    // Who hears of two keys at once: what the former of both signs is later than what is known.
    let mut away = Nodes::kept(ROOT, &first, Some(Nodes::kept(ROOT, &first, None).encode()));
    assert_eq!(away.hear(signed(9, "a:1", ROOT, 2), &first), Ok(true));
    assert_eq!(away.hear(signed_in(60, 8, "b:1", ROOT, 3), &third), Ok(true));
    assert_eq!(away.hear(signed_in(90, 1, "c:1", ROOT, 4), &third), Ok(true));
    assert_eq!(away.hear(signed_in(61, 9, "d:1", ROOT, 3), &third), Ok(false));
}
