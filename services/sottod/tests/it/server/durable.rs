//! A server that goes on where it ended.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::support::{Member, Server, deposit, refusal, server, server_of};
use mpir::PerBucket;
use pir_core::{Error, NoOp, PagePool, Scheme};
use rand::rngs::StdRng;
use rand::{CryptoRng, SeedableRng};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{ChainStep, Lookup, Manifest, ManifestChain};
use sotto_wire::{Refused, Transport};
use sottod::{Config, DataError, IdentityError, RunError, StartError};

fn durable(data: &Path, adjust: impl FnOnce(&mut Config)) -> Server {
    server(|config| {
        config.data = Some(data.to_owned());
        config.round_ms = 1000;
        adjust(config);
    })
}

/// Retrieves what is under label 1 and must be there.
async fn retrieve(member: &mut Member, manifest: &Manifest) -> Vec<u8> {
    let code = manifest.code().unwrap();
    let mapping = member.decoded_mapping(manifest).await;
    let wanted = [deposit(1, 0).label];
    let lookup = Lookup::new(&*code, &mapping, &wanted, &mut StdRng::seed_from_u64(1));
    let elements = member.retrieve(manifest, lookup.targets()).await.unwrap();
    elements[lookup.readings()[0].buckets()[0].to_usize()].clone()
}

#[tokio::test]
async fn a_restart_serves_the_same_rounds_under_the_same_key_and_continues_the_chain() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("new/data");
    let mut chain = ManifestChain::default();

    let first = durable(&data, |_| {});
    let mut member = Member::with_keys(&first, 1).await;
    let mut events = member.watch().await;
    let round = events.fresh().await;
    member.deposit(round, &deposit(1, 0x11)).await.unwrap();
    let manifest = events.ready_of(round).await;
    assert_eq!(chain.accept(&manifest), Ok(ChainStep::First));
    let mapping = member.mapping(round).await.unwrap();
    // This one stays open.
    let open = events.fresh().await;
    member.deposit(open, &deposit(1, 0x22)).await.unwrap();
    let key = first.parameters().manifest_key;
    first.shutdown().await.unwrap();

    let second = durable(&data, |_| {});
    assert_eq!(second.parameters().manifest_key, key);
    let mut member = Member::with_keys(&second, 1).await;
    assert_eq!(member.mapping(round).await.unwrap(), mapping);
    assert_eq!(retrieve(&mut member, &manifest).await, [0x11; BOX_BYTES]);
    let mut events = member.watch().await;
    let sealed = events.ready_of(open).await;
    assert_eq!(sealed.entries, 1, "what was acknowledged stays in its round");
    assert_eq!(retrieve(&mut member, &sealed).await, [0x22; BOX_BYTES]);
    // Rounds between the two may have been published before the end.
    let step = chain.accept(&sealed);
    assert!(matches!(step, Ok(ChainStep::Next | ChainStep::Gap { .. })), "{step:?}");
    assert!(events.opened().await > open, "no number is used twice");
    second.shutdown().await.unwrap();

    // The same directory under other parameters: old rounds are not served, and the chain still goes on.
    let third = durable(&data, |config| config.retrieve = 2);
    let mut member = Member::register(&third, 1).await;
    let newest = member.watch().await.ready().await;
    assert_eq!(newest.retrieve, 2);
    assert_ne!(newest.previous, [0; 32]);
    third.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_clock_decides_the_first_round_of_a_new_or_a_restored_log_and_of_no_other() {
    async fn opened(running: &Server) -> u64 {
        Member::register(running, 1).await.watch().await.opened().await.0
    }
    let by_clock = |round_ms| sottod::unix_now().0 / round_ms;
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();

    let least = by_clock(1000);
    let new = durable(data, |_| {});
    let first = opened(&new).await;
    assert!((least..=by_clock(1000) + 1).contains(&first), "{first}");
    new.shutdown().await.unwrap();

    // With shorter rounds the clock gives a higher number, as if it had been put forward.
    let least = by_clock(500);
    let again = durable(data, |config| config.round_ms = 500);
    let second = opened(&again).await;
    assert!((first + 1..first + 60).contains(&second), "{first}, then {second}");
    again.shutdown().await.unwrap();

    let restored = durable(data, |config| (config.round_ms, config.restored) = (500, true));
    let third = opened(&restored).await;
    assert!(third >= least, "{third}");
    restored.shutdown().await.unwrap();

    // With longer rounds the clock gives a lower one.
    let longer = durable(data, |config| config.restored = true);
    let fourth = opened(&longer).await;
    assert!((third + 1..third + 60).contains(&fourth), "{third}, then {fourth}");
    longer.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_directory_serves_one_process_and_needs_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let config = || {
        let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
        (config.allow_no_privacy, config.data) = (true, Some(data.to_owned()));
        config.transport = Transport::Plaintext;
        config.seed_segments = Some(1);
        config
    };
    let running = server(|own| *own = config());
    Member::register(&running, 1).await.watch().await.opened().await;
    let second = sottod::start(mpir::noop(), config()).err().unwrap();
    assert!(matches!(second, StartError::Data(DataError::InUse(_))), "{second}");
    assert!(matches!(sottod::check_log(data), Err(DataError::InUse(_))));
    running.shutdown().await.unwrap();
    assert_eq!(sottod::check_log(data).unwrap().accounts, 1);

    let key = std::fs::read(data.join("manifest.key")).unwrap();
    std::fs::remove_file(data.join("manifest.key")).unwrap();
    let missing = sottod::start(mpir::noop(), config()).err().unwrap();
    let is_missing = matches!(missing, StartError::Data(DataError::Identity(IdentityError::Missing(_))));
    assert!(is_missing, "{missing}");
    std::fs::write(data.join("manifest.key"), key).unwrap();
    let exposed = sottod::start(mpir::noop(), config()).err().unwrap();
    let is_exposed = matches!(exposed, StartError::Data(DataError::Identity(IdentityError::File { .. })));
    assert!(is_exposed && exposed.to_string().contains("chmod 600"), "{exposed}");
    std::fs::remove_file(data.join("identity")).unwrap();
    let missing = sottod::start(mpir::noop(), config()).err().unwrap();
    assert!(matches!(missing, StartError::Data(DataError::IdentityMissing(_))), "{missing}");
}

#[tokio::test]
async fn a_log_under_another_key_is_not_continued() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (directory.path().join("one"), directory.path().join("other"));
    for data in [&one, &other] {
        let running = durable(data, |config| config.round_ms = 200);
        Member::register(&running, 1).await.watch().await.ready().await;
        running.shutdown().await.unwrap();
    }
    for entry in std::fs::read_dir(&other).unwrap() {
        let entry = entry.unwrap();
        // Everything but the log.
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), one.join(entry.file_name())).unwrap();
        }
    }
    let mut running = durable(&one, |_| {});
    let failed = running.failed().await;
    assert!(matches!(failed, RunError::ForeignLog), "{failed}");
}

/// An engine that makes the same of everything, but fails.
struct Failing;

impl Scheme for Failing {
    const NAME: &'static str = NoOp::NAME;

    type Parameters = <NoOp as Scheme>::Parameters;
    type Database = <NoOp as Scheme>::Database;
    type ClientKey = <NoOp as Scheme>::ClientKey;
    type PublicKeys = <NoOp as Scheme>::PublicKeys;

    fn parameters(elements: usize, element_bytes: usize) -> Result<Self::Parameters, Error> {
        NoOp::parameters(elements, element_bytes)
    }

    fn security_bits(parameters: &Self::Parameters) -> u32 {
        NoOp::security_bits(parameters)
    }

    fn failure_log2(parameters: &Self::Parameters) -> f64 {
        NoOp::failure_log2(parameters)
    }

    fn elements(parameters: &Self::Parameters) -> usize {
        NoOp::elements(parameters)
    }

    fn query_bytes(parameters: &Self::Parameters) -> usize {
        NoOp::query_bytes(parameters)
    }

    fn answer_bytes(parameters: &Self::Parameters) -> usize {
        NoOp::answer_bytes(parameters)
    }

    fn public_keys_bytes() -> usize {
        NoOp::public_keys_bytes()
    }

    fn client_key(seed: &[u8; 32]) -> Self::ClientKey {
        NoOp::client_key(seed)
    }

    fn encode_public_keys(key: &Self::ClientKey) -> Vec<u8> {
        NoOp::encode_public_keys(key)
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<Self::PublicKeys, Error> {
        NoOp::decode_public_keys(bytes)
    }

    fn setup_in(_: &PagePool, _: &Self::Parameters, _: &[u8]) -> Result<Self::Database, Error> {
        Err(Error::Shape("it fails"))
    }

    fn database_bytes(database: &Self::Database) -> usize {
        NoOp::database_bytes(database)
    }

    fn queries<R: CryptoRng>(
        key: &Self::ClientKey,
        items: &[(&Self::Parameters, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        NoOp::queries(key, items, rng)
    }

    fn answer(database: &Self::Database, keys: &Self::PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        NoOp::answer(database, keys, query)
    }

    fn extract(
        parameters: &Self::Parameters,
        key: &Self::ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        NoOp::extract(parameters, key, index, answer)
    }
}

#[tokio::test]
async fn a_round_that_was_published_and_cannot_be_built_is_kept_until_it_can() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let first = durable(data, |_| {});
    let mut member = Member::with_keys(&first, 1).await;
    let mut events = member.watch().await;
    let round = events.fresh().await;
    member.deposit(round, &deposit(1, 0x11)).await.unwrap();
    let manifest = events.ready_of(round).await;
    first.shutdown().await.unwrap();

    for _ in 0..2 {
        let engine = Arc::new(PerBucket::<Failing>::new());
        let mut failing = server_of(engine, |config| config.data = Some(data.to_owned()));
        let failed = failing.failed().await;
        assert!(
            matches!(&failed, RunError::NotRebuilt { reason, .. } if reason.contains("it fails")),
            "{failed}"
        );
        let _ = failing.shutdown().await;
    }

    let again = durable(data, |_| {});
    let mut member = Member::with_keys(&again, 1).await;
    assert_eq!(retrieve(&mut member, &manifest).await, [0x11; BOX_BYTES]);
    again.shutdown().await.unwrap();
}

#[test]
fn misuse_of_the_data_directory_is_said_in_words() {
    let program = env!("CARGO_BIN_EXE_sottod");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "no directory").unwrap();
    for arguments in [["check-log", "--data"], ["serve", "--data"]] {
        let output = Command::new(program).args(arguments).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("data directory"), "{said}");
    }
    let output = Command::new(program).args(["--key-file", "key"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// They are as many bytes for each client as rounds of messages.
#[tokio::test]
async fn keys_for_retrieval_outlast_a_restart_and_are_asked_for_again_only_if_the_disk_has_lost_them() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut server = durable(&data, |_| {});
    let mut member = Member::with_keys(&server, 1).await;
    let keys = member.keys.clone();
    let mut events = member.watch().await;
    let round = events.fresh().await;
    member.deposit(round, &deposit(1, 0x11)).await.unwrap();
    let manifest = events.ready_of(round).await;
    for is_lost in [false, true] {
        server.shutdown().await.unwrap();
        if is_lost {
            for file in std::fs::read_dir(data.join("keys")).unwrap() {
                std::fs::write(file.unwrap().path(), "lost").unwrap();
            }
        }
        server = durable(&data, |_| {});
        member = Member { keys: keys.clone(), ..Member::register(&server, 1).await };
        if is_lost {
            let refused = member.send_query(round, Vec::new()).await.unwrap_err();
            assert_eq!(refusal(&refused), Refused::UnknownKeys);
            member.upload().await.unwrap();
        }
        assert_eq!(retrieve(&mut member, &manifest).await, [0x11; BOX_BYTES]);
    }
}
