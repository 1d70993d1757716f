//! Readers who do not read what they asked for.

use std::sync::Arc;
use std::time::Duration;

use mpir::PerBucket;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::Manifest;
use sotto_wire::proto::sotto_client::SottoClient;
use sotto_wire::{limits, proto, split};
use sottod::Config;
use tokio::time::Instant;
use tonic::Streaming;

use super::fat::Fat;
use super::honest::Honest;
use super::support::{Client, Member, Server, endpoint};
use super::{SLACK, STALL, held, resident, target, target_of};

/// Bytes per second that a reader must take; as in the server.
const RATE: usize = 128 << 10;
/// Long enough that a reader can be slow without standing still.
const STANDSTILL: Duration = Duration::from_secs(6);
/// What may lie ready for a reader: four messages, and one on its way.
const AHEAD: Duration = Duration::from_secs(5 * limits::CHUNK_BYTES as u64 / RATE as u64);

/// How long a query waits for others to be answered with, as in the server.
const COMPANY: Duration = Duration::from_millis(100);

/// A connection of its own that takes `window` bytes of every answer before it has to be read.
pub(super) async fn connect(server: &Server, window: u32) -> Client {
    let endpoint = endpoint().initial_stream_window_size(window).initial_connection_window_size(16 << 20);
    SottoClient::new(server.channel(endpoint).await).max_decoding_message_size(limits::MESSAGE_MAX)
}

/// Answers of 4 MiB, more than may lie ready.
pub(super) fn many_buckets(config: &mut Config) {
    config.buckets = Some(64);
    config.round_ms = 5000;
}

/// Sends a whole multi-query and leaves the answers.
pub(super) async fn ask(
    member: &Member,
    client: &mut Client,
    manifest: &Manifest,
) -> Streaming<proto::AnswerChunk> {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let built = member.pir().cover(member.spec(manifest), &mut rng).unwrap().bytes;
    let (session, keys, round) = (member.session.clone(), member.keys.clone(), manifest.round.0);
    let chunks = split(built.into()).map(move |data| proto::QueryChunk {
        session: session.clone(),
        round,
        keys: keys.clone(),
        data,
    });
    client.retrieve(tokio_stream::iter(chunks.collect::<Vec<_>>())).await.unwrap().into_inner()
}

/// Everybody else waits for the place of whoever does not read.
pub(crate) async fn answers_that_are_not_read_hold_a_place_no_longer_than_a_peer_may_stand_still() {
    let server = target_of(Arc::new(PerBucket::<Fat>::new()), |config| {
        many_buckets(config);
        config.limits.retrievals = 2;
        config.limits.call = Duration::from_secs(60);
    });
    let mut slow = Member::with_keys(&server, 1).await;
    let mut other = Member::with_keys(&server, 2).await;
    let manifest = slow.watch().await.ready().await;
    let (mut first, mut second) = (connect(&server, 65_535).await, connect(&server, 65_535).await);
    let began = Instant::now();
    let _unread = [ask(&slow, &mut first, &manifest).await, ask(&slow, &mut second, &manifest).await];
    // Both places are taken: this waits for one.
    other.retrieve(&manifest, &vec![None; manifest.buckets.into()]).await.unwrap();
    assert!(began.elapsed() >= STALL / 2, "nobody had to wait");
    held("answers that are not read, until another is answered", began, STALL + 2 * COMPANY);
    server.shutdown().await.unwrap();
}

/// A little now and then keeps the place no longer than the rate allows.
pub(crate) async fn a_reader_that_drips_loses_its_place_when_it_falls_behind_the_rate() {
    let server = target_of(Arc::new(PerBucket::<Fat>::new()), |config| {
        many_buckets(config);
        config.limits.stall = STANDSTILL;
        config.limits.call = Duration::from_secs(60);
    });
    let honest = Honest::start(&server).await;
    let mut slow = Member::with_keys(&server, 1).await;
    let manifest = slow.watch().await.ready().await;
    let mut client = connect(&server, 65_535).await;
    let began = Instant::now();
    let mut answers = ask(&slow, &mut client, &manifest).await;
    let mut bytes = 0;
    let ended = loop {
        // One chunk each time just before the patience with a silent reader ends: a third of the rate.
        tokio::time::sleep(STANDSTILL - Duration::from_millis(500)).await;
        match answers.message().await {
            Ok(Some(chunk)) => bytes += chunk.data.len(),
            ended => break ended,
        }
    };
    assert!(ended.is_err(), "all {bytes} bytes were sent");
    println!("measured: answers chunk by chunk: {} KiB read", bytes >> 10);
    let earned = Duration::from_secs((bytes / RATE) as u64);
    // It notices when it reads again.
    held("answers chunk by chunk", began, AHEAD + earned + 2 * STANDSTILL);
    honest.were_served("slow readers").await;
    server.shutdown().await.unwrap();
}

pub(crate) async fn whoever_reads_nothing_loses_the_connection_and_what_waits_for_it() {
    let server = target(|config| config.buckets = Some(1024));
    let honest = Honest::start(&server).await;
    let before = resident();
    let mut unread = Vec::new();
    let mut members = Vec::new();
    for number in 1..=40 {
        let mut member = Member::with_keys(&server, number).await;
        let manifest = member.watch().await.ready().await;
        let mut client = connect(&server, 1024).await;
        let request = proto::WatchRequest { session: member.session.clone() };
        let watch = client.watch(request).await.unwrap().into_inner();
        let request = proto::MappingRequest { session: member.session.clone(), round: manifest.round.0 };
        let mapping = client.mapping(request).await.unwrap().into_inner();
        let answers = ask(&member, &mut client, &manifest).await;
        unread.push((watch, mapping, answers));
        members.push(member);
    }
    let began = Instant::now();
    let during = resident();
    tokio::time::sleep(STALL + AHEAD + SLACK / 2).await;
    let mut client = members[0].client.clone();
    for (mut watch, mut mapping, mut answers) in unread {
        // What lies in the windows may be read; then the connection is found to be gone.
        let rest = async {
            while watch.message().await?.is_some() {}
            Ok::<(), tonic::Status>(())
        };
        assert!(tokio::time::timeout(SLACK, rest).await.unwrap().is_err(), "the watch goes on");
        let rest = async {
            while answers.message().await?.is_some() {}
            Ok::<(), tonic::Status>(())
        };
        assert!(tokio::time::timeout(SLACK, rest).await.unwrap().is_err(), "the answers came");
        let rest = async {
            while mapping.message().await?.is_some() {}
            Ok::<(), tonic::Status>(())
        };
        let _ = tokio::time::timeout(SLACK, rest).await.unwrap();
    }
    held(
        "a watch, a mapping and answers that are not read, lost when looked at",
        began,
        STALL + AHEAD + SLACK,
    );
    println!("measured: 40 such readers: resident {before} MiB before, {during} MiB while they stand still");
    assert!(
        client
            .info(proto::InfoRequest { protocol_version: sotto_protocol::PROTOCOL_VERSION.into() })
            .await
            .is_ok()
    );
    honest.were_served("readers who do not read").await;
    server.shutdown().await.unwrap();
}
