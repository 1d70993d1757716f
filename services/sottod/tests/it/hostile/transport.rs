//! Below the calls: TCP and HTTP/2.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::honest::Honest;
use super::raw::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RESET, Raw, SETTINGS, field, frame,
    greeting, grpc, head, literal,
};
use super::support::Member;
use super::{SLACK, STALL, UNKNOWN, held, resident, target};

/// The server pings after so long a silence, and waits as long for the answer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

pub(crate) async fn connections_that_do_not_begin_or_do_not_say_who_they_are_are_closed() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let wire = server.wire();
    let began = Instant::now();

    let silent = async {
        Raw::open(wire).await.closed(STALL + SLACK).await;
        held("open and silent", began, STALL);
    };
    let drip = async {
        let raw = Raw::open(wire).await;
        for byte in PREFACE {
            raw.send(&[*byte]).await;
            raw.rest(STALL / 8).await;
            if raw.is_closed() {
                break;
            }
        }
        raw.closed(SLACK).await;
        held("a preface byte by byte", began, STALL);
    };
    let idle = async {
        // It answers pings for as long as it may.
        Raw::connect(wire).await.closed(UNKNOWN + SLACK).await;
        kept("greets and makes no call", began);
    };
    let endless_head = async {
        let raw = Raw::deaf(wire).await;
        raw.send(&frame(HEADERS, 0, 1, &head("Info"))).await;
        raw.closed(UNKNOWN + SLACK).await;
        kept("a head that does not end", began);
    };
    let half_open_call = async {
        let raw = Raw::connect(wire).await;
        raw.call(1, "Info", &[8, 1]).await;
        raw.closed(UNKNOWN + SLACK).await;
        kept("a call that does not end, without a session", began);
    };
    let dripping_call = async {
        // A message of 1 MiB is announced, and comes byte by byte.
        let raw = Raw::connect(wire).await;
        raw.send(&frame(HEADERS, END_HEADERS, 1, &head("Deposit"))).await;
        raw.send(&frame(DATA, 0, 1, &[0, 0, 0x10, 0, 0])).await;
        while !raw.is_closed() && began.elapsed() < UNKNOWN + SLACK {
            raw.send(&frame(DATA, 0, 1, &[0])).await;
            raw.rest(STALL / 8).await;
        }
        raw.closed(SLACK).await;
        kept("a call byte by byte, without a session", began);
    };
    tokio::join!(silent, drip, idle, endless_head, half_open_call, dripping_call);
    honest.were_served("slow beginnings").await;
    server.shutdown().await.unwrap();
}

/// Says how long a stranger who greeted was kept: no shorter than strangers are, whatever else it did, and no longer.
fn kept(stranger: &str, since: Instant) {
    assert!(since.elapsed() >= UNKNOWN, "{stranger}: closed before its time, after {:?}", since.elapsed());
    held(stranger, since, UNKNOWN);
}

/// With a session, a connection may stay; what it holds beside its place ends nevertheless.
pub(crate) async fn connections_with_a_session_that_are_half_open_are_closed() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let wire = server.wire();
    let (a, b) = (Member::register(&server, 1).await, Member::register(&server, 2).await);
    let c = Member::register(&server, 3).await;
    let began = Instant::now();

    let deaf = async {
        let raw = Raw::deaf(wire).await;
        raw.watch(1, &a.session).await;
        raw.closed(2 * KEEP_ALIVE + SLACK).await;
        held("answers no ping", began, 2 * KEEP_ALIVE);
    };
    let endless_head = async {
        let raw = Raw::deaf(wire).await;
        raw.watch(1, &b.session).await;
        raw.send(&frame(HEADERS, 0, 3, &head("Info"))).await;
        raw.closed(2 * KEEP_ALIVE + SLACK).await;
        held("a head that does not end, with a session", began, 2 * KEEP_ALIVE);
    };
    let unread = async {
        // Pings are to be answered, and nothing is read: the answers fill the buffers of both ends.
        let mut stream = wire.narrow(4096).await;
        let mut bytes = greeting();
        bytes.extend(frame(HEADERS, END_HEADERS, 1, &head("Watch")));
        bytes.extend(frame(DATA, END_STREAM, 1, &grpc(&field(1, &c.session))));
        stream.write_all(&bytes).await.unwrap();
        tokio::time::sleep(STALL / 4).await;
        let pings: Vec<u8> = (0..512_u64).flat_map(|n| frame(PING, 0, 0, &n.to_be_bytes())).collect();
        let (mut sent, mut last) = (0, Instant::now());
        while tokio::time::timeout(STALL + SLACK, stream.write_all(&pings)).await.unwrap().is_ok() {
            (sent, last) = (sent + pings.len(), Instant::now());
        }
        println!("measured: reads nothing at all: stuck after {} KiB", sent >> 10);
        held("reads nothing at all", last, STALL);
    };
    tokio::join!(deaf, endless_head, unread);
    honest.were_served("half-open connections").await;
    server.shutdown().await.unwrap();
}

pub(crate) async fn floods_of_frames_end_with_the_connection_or_cost_only_its_sender() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let wire = server.wire();
    let before = resident();

    // A head that goes on for ever, from somebody who may stay.
    let member = Member::register(&server, 1).await;
    let raw = Raw::deaf(wire).await;
    raw.watch(1, &member.session).await;
    raw.send(&frame(HEADERS, 0, 3, &head("Info"))).await;
    let more = frame(CONTINUATION, 0, 3, &literal("x", &"y".repeat(100)).repeat(100));
    let (mut sent, began) = (0, Instant::now());
    while raw.send(&more).await && began.elapsed() < SLACK {
        sent += more.len();
    }
    let seen = raw.closed(SLACK).await;
    println!(
        "measured: head without end: closed after about {} KiB sent, GOAWAY {:?}",
        sent >> 10,
        seen.goaway
    );

    // Frames without use, and calls that are taken back, for as long as they are let.
    let settings: Vec<u8> = (0..64).flat_map(|_| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255])).collect();
    let pings: Vec<u8> = (0..64_u64).flat_map(|n| frame(PING, 0, 0, &n.to_be_bytes())).collect();
    let flood = |name: &'static str, bytes: Vec<u8>| {
        let honest = &honest;
        async move {
            let (mut frames, mut connections) = (0_u64, 0_u64);
            while !honest.had_enough() {
                let raw = Raw::connect(wire).await;
                connections += 1;
                while !honest.had_enough() && raw.send(&bytes).await && !raw.is_closed() {
                    frames += 64;
                }
            }
            println!("measured: {name}: {frames} frames over {connections} connections");
        }
    };
    let resets = async {
        let (mut calls, mut connections, mut goaway) = (0_u64, 0_u64, None);
        while !honest.had_enough() {
            let raw = Raw::connect(wire).await;
            connections += 1;
            let mut stream = 1;
            while !honest.had_enough() && !raw.is_closed() && stream < 1 << 30 {
                let mut bytes = Vec::new();
                for _ in 0..64 {
                    bytes.extend(frame(HEADERS, END_HEADERS, stream, &head("Info")));
                    bytes.extend(frame(DATA, END_STREAM, stream, &grpc(&[8, 1])));
                    bytes.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
                    stream += 2;
                }
                if !raw.send(&bytes).await {
                    break;
                }
                calls += 64;
            }
            goaway = goaway.or(raw.until(|_| true, SLACK).await.goaway);
        }
        println!("measured: rapid resets: {calls} calls over {connections} connections, GOAWAY {goaway:?}");
    };
    tokio::join!(flood("SETTINGS", settings), flood("PING", pings), resets);
    honest.were_served("floods of frames").await;
    let after = resident();
    println!("measured: floods of frames: resident {before} MiB before, {after} MiB after");
    assert!(after < before + 256, "{before} MiB before, {after} MiB after");
    server.shutdown().await.unwrap();
}
