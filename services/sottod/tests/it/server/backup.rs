//! A copy of a server's directory, taken while people deposit, and the server that comes back from it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Lookup, Manifest, Round, SignedManifest};
use sotto_wire::proto::ManifestsRequest;
use sottod::Config;

use crate::support::{Member, Server, deposit, server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sottod");
const DEPOSITORS: u8 = 6;
const RETAINED: u8 = 4;

fn durable(data: &Path, adjust: impl FnOnce(&mut Config)) -> Server {
    server(|config| {
        config.data = Some(data.to_owned());
        (config.round_ms, config.retained) = (2000, RETAINED);
        adjust(config);
    })
}

fn backup(data: &Path, out: &Path) -> Output {
    Command::new(PROGRAM).args(["backup", "--data"]).arg(data).arg("--out").arg(out).output().unwrap()
}

fn restore(from: &Path, data: &Path) -> Output {
    Command::new(PROGRAM).args(["restore", "--from"]).arg(from).arg("--data").arg(data).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// What a depositor says in a round.
fn content(number: u8, round: Round) -> u8 {
    number.wrapping_mul(31).wrapping_add(round.0 as u8)
}

type Acknowledged = Arc<Mutex<BTreeSet<(Round, u8)>>>;

/// Deposits in every round, and notes what was acknowledged.
async fn depositing(mut member: Member, number: u8, acknowledged: Acknowledged) {
    let mut events = member.watch().await;
    loop {
        let round = events.opened().await;
        if member.deposit(round, &deposit(number, content(number, round))).await.is_ok() {
            acknowledged.lock().unwrap().insert((round, number));
        }
    }
}

async fn retrieve(member: &mut Member, manifest: &Manifest, number: u8) -> Vec<u8> {
    let code = manifest.code().unwrap();
    let mapping = member.decoded_mapping(manifest).await;
    let wanted = [deposit(number, 0).label];
    let lookup = Lookup::new(&*code, &mapping, &wanted, &mut StdRng::seed_from_u64(1));
    let elements = member.retrieve(manifest, lookup.targets()).await.unwrap();
    elements[lookup.readings()[0].buckets()[0].to_usize()].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_before_a_backup_comes_back_from_it_though_deposits_went_on() {
    let directory = tempfile::tempdir().unwrap();
    let (data, out) = (directory.path().join("data"), directory.path().join("backup.tar"));
    let running = durable(&data, |_| {});
    let acknowledged = Acknowledged::default();
    let mut depositors = tokio::task::JoinSet::new();
    for number in 1..=DEPOSITORS {
        let member = Member::register(&running, number).await;
        depositors.spawn(depositing(member, number, Arc::clone(&acknowledged)));
    }
    let mut events = Member::register(&running, 9).await.watch().await;
    while acknowledged.lock().unwrap().len() < 2 * usize::from(DEPOSITORS) {
        events.opened().await;
    }
    let before = acknowledged.lock().unwrap().clone();
    let taken = {
        let (data, out) = (data.clone(), out.clone());
        tokio::task::spawn_blocking(move || backup(&data, &out)).await.unwrap()
    };
    assert!(taken.status.success() && said(&taken).contains("root.key is not in it"), "{}", said(&taken));
    // People go on as if nothing were.
    while acknowledged.lock().unwrap().len() < before.len() + usize::from(DEPOSITORS) {
        events.opened().await;
    }
    depositors.shutdown().await;
    running.shutdown().await.unwrap();

    let restored = directory.path().join("new/restored");
    let output = restore(&out, &restored);
    assert!(output.status.success() && said(&output).contains("--restored"), "{}", said(&output));
    assert!(!said(&output).contains("CAUTION"), "{}", said(&output));
    let names = |data: &Path| -> BTreeSet<String> {
        std::fs::read_dir(data)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    let missing: Vec<_> = names(&data).difference(&names(&restored)).cloned().collect();
    // Keys of retrieval are brought again.
    assert_eq!(missing, ["keys", "root.key"], "what is in a data directory is in its backup");
    let rounds = sottod::read_log(&restored).unwrap();
    for (round, number) in &before {
        let wanted = deposit(*number, content(*number, *round));
        let times = rounds[round].deposits.iter().filter(|deposit| **deposit == wanted).count();
        assert_eq!(times, 1, "the deposit of {number} in round {round}");
    }

    // With rounds of a minute, none retires while all is retrieved; the root key signs that.
    std::fs::copy(data.join("root.key"), restored.join("root.key")).unwrap();
    // Nobody may have deposited in it.
    let newest = sottod::check_log(&restored).unwrap().newest.unwrap();
    let again = durable(&restored, |config| (config.restored, config.round_ms) = (true, 60_000));
    let mut member = Member::with_keys(&again, 9).await;
    let mut events = member.watch().await;
    events.ready_of(newest).await;
    let request = ManifestsRequest { session: member.session.clone(), first: 0, last: newest.0 };
    let request = ManifestsRequest { first: newest.0.saturating_sub(1000), ..request };
    let mut stream = member.client.manifests(request).await.unwrap().into_inner();
    let mut manifests = BTreeMap::new();
    while let Some(signed) = stream.message().await.unwrap() {
        let (bytes, signature) =
            (signed.manifest[..].try_into().unwrap(), signed.signature[..].try_into().unwrap());
        let manifest =
            SignedManifest { bytes, signature, segment: None }.verify(&member.manifest_key).unwrap();
        manifests.insert(manifest.round, manifest);
    }
    let is_served = |round: &Round| round.0 + u64::from(RETAINED) > newest.0;
    let wanted: Vec<_> = before.iter().filter(|(round, _)| is_served(round)).collect();
    assert!(!wanted.is_empty(), "{before:?} up to {newest}");
    // Everybody may ask once in a round.
    let mut members = BTreeMap::new();
    for number in 1..=DEPOSITORS {
        members.insert(number, Member::with_keys(&again, number).await);
    }
    for (round, number) in wanted {
        let found = retrieve(members.get_mut(number).unwrap(), &manifests[round], *number).await;
        assert_eq!(found, [content(*number, *round); BOX_BYTES], "the deposit of {number} in round {round}");
    }
    again.shutdown().await.unwrap();
}

#[tokio::test]
async fn nothing_is_overwritten_and_nothing_is_restored_from_a_backup_that_is_not_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (data, out) = (directory.path().join("data"), directory.path().join("backup.tar"));
    let running = durable(&data, |config| config.round_ms = 300);
    let mut member = Member::register(&running, 1).await;
    member.watch().await.ready().await;
    running.shutdown().await.unwrap();

    // Of a directory that no server uses.
    let taken = backup(&data, &out);
    assert!(taken.status.success(), "{}", said(&taken));
    let whole = std::fs::read(&out).unwrap();
    let again = backup(&data, &out);
    assert!(again.status.code() == Some(1) && said(&again).contains("name another one"), "{}", said(&again));
    assert_eq!(std::fs::read(&out).unwrap(), whole);
    let refused = restore(&out, &data);
    assert!(refused.status.code() == Some(1) && said(&refused).contains("not empty"), "{}", said(&refused));

    let (bad, target) = (directory.path().join("bad.tar"), directory.path().join("restored"));
    // A bit in a key, one in the log, and ends of all kinds.
    let key = whole.windows(9).position(|bytes| bytes == b"token.key").unwrap() + 520;
    let log = whole.windows(8).position(|bytes| bytes == b"SOTTOLOG").unwrap() + 100;
    let sums = whole.windows(10).position(|bytes| bytes == b"SHA256SUMS").unwrap();
    for at in [key, log, sums + 520] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&bad, bytes).unwrap();
        let refused = restore(&bad, &target);
        assert!(refused.status.code() == Some(1) && said(&refused).contains("bad.tar"), "{}", said(&refused));
        assert!(!target.exists(), "byte {at}");
    }
    for end in [0, 100, 512, key, log, sums, sums + 512, sums + 600] {
        std::fs::write(&bad, &whole[..end]).unwrap();
        let refused = restore(&bad, &target);
        assert!(refused.status.code() == Some(1) && said(&refused).contains("bad.tar"), "{}", said(&refused));
        assert!(!target.exists(), "the first {end} bytes");
    }
    // What is made to write elsewhere.
    let mut evil = whole.clone();
    let name = whole.windows(9).position(|bytes| bytes == b"token.key").unwrap();
    evil[name..name + 9].copy_from_slice(b"../escape");
    std::fs::write(&bad, evil).unwrap();
    assert_eq!(restore(&bad, &target).status.code(), Some(1));
    assert!(!target.exists() && !directory.path().join("escape").exists());

    let restored = restore(&out, &target);
    assert!(restored.status.success(), "{}", said(&restored));
    assert_eq!(sottod::check_log(&target).unwrap(), sottod::check_log(&data).unwrap());
    let secret = std::fs::metadata(&out).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&secret) & 0o777, 0o600);
}
