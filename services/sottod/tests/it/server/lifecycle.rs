//! Starting, limits, ending.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Member, connect, refusal, server};
use bytes::Bytes;
use sotto_protocol::RoundMode;
use sotto_wire::{Refused, Transport};
use sottod::{Config, ConfigError, Registration, ServerEvent, StartError};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

fn config() -> Config {
    let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
    config.allow_no_privacy = true;
    config.seed_segments = Some(1);
    config
}

fn start_error(config: Config) -> StartError {
    sottod::start(mpir::noop(), config).err().expect("must not start")
}

#[tokio::test]
async fn shutdown_does_not_wait_for_clients_that_stay() {
    let server = server(|config| config.limits.drain = Duration::from_secs(2));
    let address = server.local_addr();
    // A watcher, an idle connection, one that never says a word, and a query that never ends.
    let mut watcher = Member::with_keys(&server, 1).await;
    let mut events = watcher.watch().await;
    let manifest = events.ready().await;
    let _idle = connect(&server).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    let chunk = sotto_wire::proto::QueryChunk {
        session: watcher.session.clone(),
        round: manifest.round.0,
        keys: watcher.keys.clone(),
        data: vec![0; 16].into(),
    };
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(chunk).await.unwrap();
    let mut client = watcher.client.clone();
    let endless = tokio::spawn(async move {
        client.retrieve(tokio_stream::wrappers::ReceiverStream::new(receiver)).await.map(|_| ())
    });
    tokio::time::sleep(Duration::from_millis(100)).await;

    let started = Instant::now();
    server.shutdown().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert!(endless.await.unwrap().is_err());
    let mut buffer = [0; 64];
    while silent.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
    // The port is free again.
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn shutdown_lets_calls_under_way_end() {
    let server = server(|_| {});
    let member = Member::register(&server, 1).await;
    let keys = member.pir().public_keys();
    let chunk = |session: &Bytes, data: &[u8]| sotto_wire::proto::KeysChunk {
        session: session.clone(),
        data: data.to_vec().into(),
    };
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(chunk(&member.session, &keys[..3])).await.unwrap();
    let mut client = member.client.clone();
    let chunks = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let upload = tokio::spawn(async move { client.upload_keys(chunks).await });
    tokio::time::sleep(Duration::from_millis(100)).await;

    let ended = tokio::spawn(server.shutdown());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!ended.is_finished());
    sender.send(chunk(&Bytes::new(), &keys[3..])).await.unwrap();
    drop(sender);
    assert_eq!(upload.await.unwrap().unwrap().into_inner().digest.len(), 32);
    ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_port_in_use_is_said_in_words() {
    let first = server(|_| {});
    let error = start_error(Config { listen: first.local_addr(), ..config() });
    assert!(matches!(error, StartError::InUse(_)));
    assert!(error.to_string().contains("choose another port"));
    first.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_safe_does_not_start() {
    let anywhere = ([0, 0, 0, 0], 0).into();
    let refused = |config: Config| match start_error(config) {
        StartError::Config(error) => error,
        other => panic!("{other}"),
    };
    let plaintext = Config { listen: anywhere, transport: Transport::Plaintext, ..config() };
    assert!(matches!(refused(plaintext), ConfigError::PlaintextOffLoopback));
    assert!(matches!(refused(Config { listen: anywhere, ..config() }), ConfigError::Public));
    let nowhere_to_keep_tokens = Config { registration: Registration::Token, ..config() };
    assert!(matches!(refused(nowhere_to_keep_tokens), ConfigError::TokensNeedData));
    let closed = Config { listen: anywhere, mode: RoundMode::ClosedLoop, ..config() };
    assert!(matches!(refused(closed), ConfigError::ClosedLoopOffLoopback));
    let insecure = Config { allow_no_privacy: false, ..config() };
    assert!(matches!(refused(insecure), ConfigError::Parameters(_)));
    assert!(matches!(refused(Config { retrieve: 1, buckets: Some(3), ..config() }), ConfigError::Unencoded));
    assert!(matches!(refused(Config { retrieve: 0, ..config() }), ConfigError::Buckets));
    assert!(matches!(refused(Config { choices: 5, ..config() }), ConfigError::Buckets));
    assert!(matches!(refused(Config { query_ms: 4000, ..config() }), ConfigError::QueryTooLate));
    assert!(matches!(refused(Config { retained: 5, ..config() }), ConfigError::Parameters(_)));
    let mut none = config();
    none.limits.retrievals = 0;
    assert!(matches!(refused(none), ConfigError::Limits(_)));
}

#[test]
fn outside_a_runtime_it_is_an_error_and_no_panic() {
    assert!(matches!(start_error(config()), StartError::NoRuntime));
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_others_go_on() {
    let server = server(|config| config.limits.connections = 2);
    let mut member = Member::register(&server, 1).await;
    let second = Member::register(&server, 2).await;
    let mut third = TcpStream::connect(server.local_addr()).await.unwrap();
    let closed = tokio::time::timeout(Duration::from_secs(5), third.read(&mut [0; 1])).await.unwrap();
    assert!(closed.is_err() || closed.is_ok_and(|bytes| bytes == 0));
    member.watch().await.opened().await;
    drop(second);
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_caller_that_stands_still_loses_its_place() {
    let server = server(|config| {
        config.limits.stall = Duration::from_millis(200);
        config.limits.queries = 1;
        config.round_ms = 2000;
        config.retained = 1;
    });
    let mut slow = Member::with_keys(&server, 1).await;
    let mut other = Member::with_keys(&server, 2).await;
    let manifest = other.watch().await.ready().await;
    let chunk = sotto_wire::proto::QueryChunk {
        session: slow.session.clone(),
        round: manifest.round.0,
        keys: slow.keys.clone(),
        data: vec![0; 16].into(),
    };
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(chunk).await.unwrap();
    let stuck = tokio::spawn(async move {
        slow.client.retrieve(tokio_stream::wrappers::ReceiverStream::new(receiver)).await.map(|_| ())
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let dummies = vec![None; manifest.buckets.into()];
    let busy = other.retrieve(&manifest, &dummies).await.unwrap_err();
    assert_eq!(refusal(&busy), Refused::Busy);
    assert_eq!(stuck.await.unwrap().unwrap_err().code(), tonic::Code::DeadlineExceeded);
    other.retrieve(&manifest, &dummies).await.unwrap();
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_query_that_does_not_come_holds_up_no_answers_and_a_drip_counts_as_silence() {
    let server = server(|config| {
        config.limits.stall = Duration::from_millis(500);
        config.limits.retrievals = 1;
        config.round_ms = 2000;
        config.retained = 1;
    });
    let slow = Member::with_keys(&server, 1).await;
    let mut other = Member::with_keys(&server, 2).await;
    let manifest = other.watch().await.ready().await;
    let mut chunk = sotto_wire::proto::QueryChunk {
        session: slow.session.clone(),
        round: manifest.round.0,
        keys: slow.keys.clone(),
        data: vec![0; 1].into(),
    };
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let mut client = slow.client.clone();
    let started = Instant::now();
    let stuck = tokio::spawn(async move {
        client.retrieve(tokio_stream::wrappers::ReceiverStream::new(receiver)).await.map(|_| ())
    });
    let drip = tokio::spawn(async move {
        // One byte and another, each well within the stall.
        while sender.send(chunk.clone()).await.is_ok() {
            chunk = sotto_wire::proto::QueryChunk { data: vec![0; 1].into(), ..Default::default() };
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let dummies = vec![None; manifest.buckets.into()];
    other.retrieve(&manifest, &dummies).await.unwrap();
    assert_eq!(stuck.await.unwrap().unwrap_err().code(), tonic::Code::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
    drip.abort();
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn retrievals_beyond_the_limit_wait_for_their_turn() {
    let server = server(|config| {
        config.limits.retrievals = 1;
        config.round_ms = 5000;
    });
    let mut members = Vec::new();
    for number in 1..=8 {
        members.push(Member::with_keys(&server, number).await);
    }
    let manifest = members[0].watch().await.ready().await;
    let mut calls = tokio::task::JoinSet::new();
    for mut member in members {
        let manifest = manifest.clone();
        calls.spawn(async move {
            member.retrieve(&manifest, &vec![None; manifest.buckets.into()]).await.map(|_| ())
        });
    }
    while let Some(result) = calls.join_next().await {
        result.unwrap().unwrap();
    }
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn events_tell_the_life_of_a_round() {
    let server = server(|_| {});
    let mut events = server.events();
    let (mut opened, mut sealed, mut built) = (0, 0, 0);
    while built < 2 {
        match events.recv().await.unwrap() {
            ServerEvent::RoundOpened { .. } => opened += 1,
            ServerEvent::RoundSealed { entries, .. } => {
                assert_eq!(entries, 0);
                sealed += 1;
            }
            ServerEvent::RoundBuilt { bucket_size, .. } => {
                assert_eq!(bucket_size, 1);
                built += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(opened >= 2 && sealed >= 2);
    assert!(server.address().to_string().starts_with(&format!("sotto+plain://{}/", server.local_addr())));
    server.shutdown().await.unwrap();
}

/// The binary: its address line, its end on a signal, its exit codes.
#[test]
fn the_program_announces_itself_and_ends_when_told() {
    use std::io::{BufRead, BufReader};

    let program = env!("CARGO_BIN_EXE_sottod");
    let mut child = Command::new(program)
        .args(["--listen", "127.0.0.1:0", "--retrieve", "2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.strip_prefix("listening on sotto://").unwrap().to_owned();
    let hint = lines.next().unwrap().unwrap();
    assert!(hint.contains(&address));

    let (host, _) = address.split_once('/').unwrap();
    let second = Command::new(program).args(["--listen", host]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let stderr = String::from_utf8(second.stderr).unwrap();
    assert!(stderr.contains("is in use"), "{stderr}");

    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));

    for arguments in [["--listen", "0.0.0.0:0"], ["--retained", "9"], ["--no-such", "option"]] {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
