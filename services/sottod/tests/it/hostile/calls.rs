//! Calls that begin and do not go on.

use sotto_wire::proto;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use super::honest::Honest;
use super::raw::{END_HEADERS, HEADERS, Raw, field, frame, head};
use super::support::Member;
use super::{CALL, SLACK, STALL, held, target};

pub(crate) async fn uploads_and_queries_that_stop_or_drip_are_given_up() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let mut attacks = tokio::task::JoinSet::new();
    for number in 1..=8 {
        let mut member = Member::with_keys(&server, number).await;
        let round = member.watch().await.ready().await.round.0;
        // Half of them say no more, the others one byte at a time.
        let drips = number % 2 == 0;
        let (chunks, sent) = mpsc::channel(1);
        let session = member.session.clone();
        let upload = tokio::spawn(async move {
            let data = bytes::Bytes::from_static(&[7]);
            let mut chunk = proto::KeysChunk { session, data };
            while chunks.send(chunk.clone()).await.is_ok() {
                chunk.session.clear();
                tokio::time::sleep(if drips { STALL / 4 } else { 4 * CALL }).await;
            }
        });
        let mut client = member.client.clone();
        attacks.spawn(async move {
            let began = Instant::now();
            let refused = client.upload_keys(ReceiverStream::new(sent)).await.unwrap_err();
            assert_eq!(refused.code(), Code::DeadlineExceeded);
            held(if drips { "an upload byte by byte" } else { "an upload that stops" }, began, STALL);
            upload.abort();
        });

        let (chunks, sent) = mpsc::channel(1);
        let (session, keys) = (member.session.clone(), member.keys.clone());
        let query = tokio::spawn(async move {
            let data = bytes::Bytes::from_static(&[0]);
            let mut chunk = proto::QueryChunk { session, round, keys, data };
            while chunks.send(chunk.clone()).await.is_ok() {
                chunk = proto::QueryChunk { data: chunk.data, ..Default::default() };
                tokio::time::sleep(if drips { STALL / 4 } else { 4 * CALL }).await;
            }
        });
        let mut client = member.client.clone();
        attacks.spawn(async move {
            let began = Instant::now();
            let refused = client.retrieve(ReceiverStream::new(sent)).await.map(|_| ()).unwrap_err();
            assert_eq!(refused.code(), Code::DeadlineExceeded);
            held(if drips { "a query byte by byte" } else { "a query that stops" }, began, STALL);
            query.abort();
        });
    }
    while let Some(ended) = attacks.join_next().await {
        ended.unwrap();
    }
    honest.were_served("slow calls").await;
    server.shutdown().await.unwrap();
}

/// A request whose message is there and whose end is not; and one whose first bytes never come.
pub(crate) async fn requests_that_do_not_end_are_answered_or_end_in_time() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let member = Member::register(&server, 1).await;
    let raw = Raw::connect(server.wire()).await;
    raw.watch(1, &member.session).await;
    let began = Instant::now();
    raw.call(3, "Deposit", &field(1, &member.session)).await;
    raw.call(5, "Info", &[8, 1]).await;
    let calls =
        raw.until(|seen| [3, 5].iter().all(|call| seen.answered.contains(call)), CALL + STALL + SLACK);
    calls.await;
    held("a call that does not end, with a session", began, CALL + STALL);
    assert!(!raw.is_closed(), "nothing else of this connection ends");

    let began = Instant::now();
    for (stream, method) in [(7, "UploadKeys"), (9, "Retrieve")] {
        raw.send(&frame(HEADERS, END_HEADERS, stream, &head(method))).await;
    }
    raw.until(|seen| [7, 9].iter().all(|call| seen.answered.contains(call)), STALL + SLACK).await;
    held("a stream whose first message does not come", began, STALL);
    honest.were_served("requests without end").await;
    server.shutdown().await.unwrap();
}
