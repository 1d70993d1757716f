//! Multi-queries that wait.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mpir::PerBucket;
use sotto_protocol::Manifest;
use sotto_wire::proto;
use tokio_stream::StreamExt as _;
use tonic::Status;

use super::counted::Counted;
use super::fat::Fat;
use super::readers::{ask, connect, many_buckets};
use super::support::Member;
use super::target_of;

/// Rounds that stay retrievable here.
const RETAINED: usize = 2;

/// Sends the beginning of a multi-query, and the rest never.
async fn begin(mut member: Member, manifest: Manifest) -> Result<(), Status> {
    let (session, keys) = (member.session.clone(), member.keys.clone());
    let first = proto::QueryChunk { session, round: manifest.round.0, keys, data: Bytes::new() };
    let chunks = tokio_stream::once(first).chain(tokio_stream::pending());
    member.client.retrieve(chunks).await.map(|_| ())
}

/// A round's databases are the largest thing that a server holds. Neither one who sends slowly nor one who waits for a
/// place may hold them.
pub(crate) async fn queries_that_wait_keep_no_retired_round() {
    let engine = Arc::new(Counted::new(Arc::new(PerBucket::<Fat>::new())));
    let server = target_of(engine.clone(), |config| {
        many_buckets(config);
        config.round_ms = 500;
        config.retained = RETAINED as u8;
        config.limits.retrievals = 1;
        config.limits.stall = Duration::from_secs(20);
        config.limits.call = Duration::from_secs(60);
    });
    let mut reader = Member::with_keys(&server, 1).await;
    let mut events = reader.watch().await;
    // An answer that is not read takes the only place.
    let mut narrow = connect(&server, 65_535).await;
    let _unread = ask(&reader, &mut narrow, &events.ready().await).await;
    let (mut waiting, mut most) = (Vec::new(), 0);
    for number in 1..11 {
        let manifest = events.ready().await;
        let slow = Member::with_keys(&server, 2 * number).await;
        let mut late = Member::with_keys(&server, 2 * number + 1).await;
        waiting.push(tokio::spawn(begin(slow, manifest.clone())));
        waiting.push(tokio::spawn(async move {
            let nothing = vec![None; manifest.buckets.into()];
            late.retrieve(&manifest, &nothing).await.map(|_| ())
        }));
        tokio::time::sleep(Duration::from_millis(50)).await;
        most = most.max(engine.held());
    }
    assert!(waiting.iter().all(|call| !call.is_finished()), "nobody had to wait");
    // One more is being built.
    assert!(most <= RETAINED + 1, "{most} rounds are held");
    drop(waiting);
    server.shutdown().await.unwrap();
}
