//! More of everything than there is room for.

use std::time::Duration;

use bytes::Bytes;
use mpir::sealpir;
use sotto_wire::{Failure, Refused, proto};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::honest::Honest;
use super::raw::{DATA, END_HEADERS, END_STREAM, HEADERS, Raw, Seen, field, frame, grpc, head};
use super::support::{Member, connect, refusal, session};
use super::{SLACK, resident, target, target_of};

pub(crate) async fn a_flood_of_connections_pushes_out_its_own_and_neither_members_nor_newcomers() {
    const PLACES: usize = 16;
    let server = target(|config| {
        config.limits.connections = PLACES;
        config.limits.unknown = Duration::from_secs(60);
    });
    let wire = server.wire();
    let honest = Honest::start(&server).await;
    // Four times as many as there is room for, and all of them polite.
    let mut flood = Vec::new();
    for _ in 0..4 * PLACES {
        flood.push(Raw::connect(wire).await);
    }
    let began = Instant::now();
    let newcomer = Member::register(&server, 1).await;
    println!("measured: a newcomer registers among {} connections after {:?}", flood.len(), began.elapsed());
    let open = || flood.iter().filter(|raw| !raw.is_closed()).count();
    while open() > PLACES && began.elapsed() < SLACK {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(open() <= PLACES);
    assert_eq!(server.refused_connections(), 0);
    drop(flood);

    // One session on many connections counts for the last of them.
    let sharer = Member::register(&server, 2).await;
    let mut shared = Vec::new();
    for _ in 0..2 * PLACES {
        let raw = Raw::connect(wire).await;
        raw.send(&frame(HEADERS, END_HEADERS, 1, &head("Deposit"))).await;
        raw.send(&frame(DATA, END_STREAM, 1, &grpc(&field(1, &sharer.session)))).await;
        raw.until(|seen| seen.closed || seen.answered.contains(&1), SLACK).await;
        shared.push(raw);
    }
    assert_eq!(server.refused_connections(), 0);
    drop(shared);

    // When every place is that of another account, new ones are closed at once and counted.
    let mut members = vec![newcomer, Member::register(&server, 2).await];
    for number in 3..=PLACES as u8 - 2 {
        members.push(Member::register(&server, number).await);
    }
    Raw::connect(wire).await.closed(SLACK).await;
    assert!(server.refused_connections() > 0);
    for member in &mut members {
        member
            .client
            .info(proto::InfoRequest { protocol_version: sotto_protocol::PROTOCOL_VERSION.into() })
            .await
            .unwrap();
    }
    honest.were_served("a flood of connections").await;
    server.shutdown().await.unwrap();
}

pub(crate) async fn calls_beyond_the_limit_of_a_connection_are_reset() {
    const REFUSED_STREAM: u32 = 7;
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let member = Member::register(&server, 1).await;
    let raw = Raw::connect(server.wire()).await;
    raw.watch(1, &member.session).await;
    // Requests that do not end hold their streams.
    for stream in (3..=79).step_by(2) {
        raw.call(stream, "Info", &[8, 1]).await;
    }
    let refused = |seen: &Seen| seen.resets.iter().filter(|(_, code)| *code == REFUSED_STREAM).count();
    let seen = raw.until(|seen| seen.closed || refused(seen) >= 39 - 15, SLACK).await;
    assert!(!seen.closed && refused(&seen) == 39 - 15, "{seen:?}");
    honest.were_served("a flood of streams").await;
    server.shutdown().await.unwrap();
}

/// As many uploads of real keys as a few accounts can send; parsing them is work.
pub(crate) async fn a_flood_of_uploads_holds_up_no_retrieval() {
    let server = target_of(sealpir(), |config| config.round_ms = 3000);
    let honest = Honest::start(&server).await;
    let before = resident();
    let mut flood = JoinSet::new();
    let keys = Bytes::from(sealpir().client(&[1; 32]).public_keys());
    for number in 1..=24 {
        let member = Member::register(&server, number).await;
        for _ in 0..2 {
            let (mut client, session, keys) = (member.client.clone(), member.session.clone(), keys.clone());
            flood.spawn(async move {
                let (mut taken, mut busy) = (0, 0);
                loop {
                    let chunk = proto::KeysChunk { session: session.clone(), data: keys.clone() };
                    match client.upload_keys(tokio_stream::iter([chunk])).await {
                        Ok(_) => taken += 1,
                        Err(status) if Failure::from(&status) == Failure::Refused(Refused::Busy) => busy += 1,
                        // The server ends.
                        Err(_) => return (taken, busy),
                    }
                }
            });
        }
    }
    while !honest.had_enough() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let after = resident();
    honest.were_served("a flood of uploads").await;
    server.shutdown().await.unwrap();
    let (mut taken, mut busy) = (0, 0);
    while let Some(counts) = flood.join_next().await {
        let (more_taken, more_busy) = counts.unwrap();
        (taken, busy) = (taken + more_taken, busy + more_busy);
    }
    println!(
        "measured: a flood of uploads: {taken} taken, {busy} busy; resident {before} MiB before, {after} MiB after"
    );
}

pub(crate) async fn floods_of_challenges_registrations_and_repeated_calls_leave_the_others_alone() {
    let server = target(|config| config.limits.sessions = 8);
    let honest = Honest::start(&server).await;
    let manifest_key = server.parameters().manifest_key;
    let before = resident();
    let mut flood = JoinSet::new();
    let enough = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for task in 0..8_u8 {
        let (mut client, enough) = (connect(&server).await, std::sync::Arc::clone(&enough));
        flood.spawn(async move {
            let (mut challenges, mut registered, mut busy) = (0_u32, 0_u32, 0_u32);
            while !enough.load(std::sync::atomic::Ordering::Relaxed) {
                let account = Bytes::copy_from_slice(&[task; 32]);
                client.challenge(proto::ChallengeRequest { account }).await.unwrap();
                challenges += 1;
                // Six places are left beside the honest ones', and each of these wants several.
                match session(&mut client, &manifest_key, 8 * (challenges as u8 % 16) + task).await {
                    Ok(_) => registered += 1,
                    Err(status) => {
                        assert_eq!(refusal(&status), Refused::Busy);
                        busy += 1;
                    }
                }
            }
            (challenges, registered, busy)
        });
    }
    while !honest.had_enough() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    enough.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut sums = (0, 0, 0);
    while let Some(counts) = flood.join_next().await {
        let (challenges, registered, busy) = counts.unwrap();
        sums = (sums.0 + challenges, sums.1 + registered, sums.2 + busy);
    }
    println!("measured: {} challenges, {} registrations, {} busy", sums.0, sums.1, sums.2);
    println!("measured: such a flood: resident {before} MiB before, {} MiB after", resident());
    assert!(sums.2 > 0);
    honest.were_served("challenges and registrations").await;
    server.shutdown().await.unwrap();
}
