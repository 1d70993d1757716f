//! Checks of answers, of which somebody wants many.

use std::sync::Arc;
use std::time::Duration;

use mpir::noop;
use sotto_protocol::RoundMode;
use sotto_wire::proto::sotto_client::SottoClient;
use sotto_wire::{limits, proto};
use sottod::Population;
use tokio::time::Instant;

use super::counted::Counted;
use super::support::{Member, deposit, endpoint};
use super::{held, target, target_of};

/// Rounds that stay retrievable here.
const RETAINED: usize = 2;

/// A round's databases are the largest thing that a server holds. Who waits for something else must not hold one.
pub(crate) async fn checks_that_wait_for_memory_keep_no_retired_round() {
    let engine = Arc::new(Counted::new(noop()));
    let server = target_of(engine.clone(), |config| {
        // One bucket with everything: 5 MB.
        config.mode = RoundMode::ClosedLoop;
        config.population = Some(Population { users: 16_384, seed: 1 });
        config.retrieve = 1;
        config.round_ms = 500;
        config.retained = RETAINED as u8;
        config.limits.answer_bytes = 1 << 20;
        config.limits.stall = Duration::from_secs(20);
        config.limits.call = Duration::from_secs(60);
    });
    // Somebody who retrieves nothing keeps the rounds going.
    let mut member = Member::register(&server, 1).await;
    let mut events = member.watch().await;
    let mut manifest = None;
    let (mut unread, mut waiting, mut most) = (None, Vec::new(), 0);
    for number in 2..12 {
        let open = events.opened().await;
        member.deposit(open, &deposit(1, 1)).await.unwrap();
        let before = manifest.replace(events.ready_of(open).await);
        let Some(before) = before else { continue };
        if unread.is_none() {
            // A unit that is not read takes all the memory there is.
            let narrow = endpoint().initial_stream_window_size(65_535);
            let mut client =
                SottoClient::new(server.channel(narrow).await).max_decoding_message_size(limits::MESSAGE_MAX);
            let (session, round) = (member.session.clone(), before.round.0);
            let request = proto::UnitRequest { session, round, unit: 0 };
            unread = Some(client.unit(request).await.unwrap());
        } else {
            // One account after the other asks for a unit of the round that is ready just then.
            let mut other = Member::register(&server, number).await;
            waiting.push(tokio::spawn(async move { other.unit(before.round, 0).await }));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        most = most.max(engine.held());
    }
    assert!(waiting.iter().all(|call| !call.is_finished()), "nobody had to wait");
    // One more is being built.
    assert!(most <= RETAINED + 1, "{most} rounds are held");
    drop(waiting);
    server.shutdown().await.unwrap();
}

/// Buckets are long, and whoever reads them at the least pace holds them long. Answers have memory of their own.
pub(crate) async fn checks_that_are_read_slowly_hold_up_no_retrieval() {
    let server = target(|config| {
        // One bucket with everything: 5 MB.
        config.mode = RoundMode::ClosedLoop;
        config.population = Some(Population { users: 16_384, seed: 1 });
        config.retrieve = 1;
        config.limits.answer_bytes = 1 << 20;
        config.limits.stall = Duration::from_secs(10);
        config.limits.call = Duration::from_secs(60);
    });
    let mut honest = Member::with_keys(&server, 1).await;
    let slow = Member::register(&server, 2).await;
    let mut events = honest.watch().await;
    let open = events.opened().await;
    honest.deposit(open, &deposit(1, 1)).await.unwrap();
    let manifest = events.ready().await;

    let narrow = endpoint().initial_stream_window_size(65_535).initial_connection_window_size(16 << 20);
    let mut client =
        SottoClient::new(server.channel(narrow).await).max_decoding_message_size(limits::MESSAGE_MAX);
    let request = proto::UnitRequest { session: slow.session.clone(), round: manifest.round.0, unit: 0 };
    let mut unit = client.unit(request).await.unwrap().into_inner();
    let reading = tokio::spawn(async move {
        let mut bytes = 0;
        while let Ok(Some(chunk)) = unit.message().await {
            bytes += chunk.data.len();
            tokio::time::sleep(Duration::from_millis(1900)).await;
        }
        bytes
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    honest.retrieve(&manifest, &[None]).await.unwrap();
    held("a retrieval beside a slow check", began, Duration::from_secs(1));
    assert!(!reading.is_finished() && reading.await.unwrap() > 4 << 20);
    server.shutdown().await.unwrap();
}
