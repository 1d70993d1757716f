//! Frames and messages that are larger than they may be, or none.

use std::time::Duration;

use sotto_session::Dial as _;
use sotto_wire::{Refused, proto};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::honest::Honest;
use super::raw::{DATA, END_HEADERS, HEADERS, Raw, frame, head};
use super::support::{Member, endpoint, refusal};
use super::{SLACK, target};

/// The status that a body of these characters gets.
async fn post(channel: &mut Channel, method: &str, header: Option<(&str, &str)>, body: String) -> Status {
    let mut request = http::Request::post(format!("/sotto.v1.Sotto/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    core::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
    let response = channel.call(request.body(Body::new(body)).unwrap()).await.unwrap();
    match Status::from_header_map(response.headers()) {
        Some(status) => status,
        None => Status::unknown(response.status().to_string()),
    }
}

pub(crate) async fn messages_that_are_too_large_or_make_no_sense_get_a_status_each() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let mut member = Member::register(&server, 1).await;
    let mut channel = server.channel(endpoint()).await;
    for (what, body, code) in [
        ("a prefix of 2 GiB", "\0\x7f\x7f\x7f\x7f".to_owned(), Code::OutOfRange),
        ("a prefix just above the limit", "\0\0\x10\x10\x01".to_owned(), Code::OutOfRange),
        ("the flag for a compressed message", "\x01\0\0\0\0".to_owned(), Code::Internal),
        ("a flag that does not exist", "\x02\0\0\0\0".to_owned(), Code::Internal),
        ("a message that is cut short", "\0\0\0\0\x7fabc".to_owned(), Code::Internal),
        ("no message", String::new(), Code::Internal),
        ("a message of another schema", "\0\0\0\0\x03\x0a\x7f\x01".to_owned(), Code::Internal),
    ] {
        for method in ["Deposit", "Challenge", "Watch", "Mapping", "UploadKeys", "Retrieve", "RetrieveAgain"]
        {
            let status = post(&mut channel, method, None, body.clone()).await;
            let streamed = ["UploadKeys", "Retrieve"].contains(&method);
            // A stream without a message is a stream of the wrong size.
            let code = if streamed && body.is_empty() { Code::InvalidArgument } else { code };
            assert_eq!(status.code(), code, "{what} to {method}: {status:?}");
        }
    }
    let gzip = Some(("grpc-encoding", "gzip"));
    let status = post(&mut channel, "Deposit", gzip, "\x01\0\0\0\0".to_owned()).await;
    assert_eq!(status.code(), Code::Unimplemented, "compression");
    let status = post(&mut channel, "NoSuchCall", None, "\0\0\0\0\0".to_owned()).await;
    assert_eq!(status.code(), Code::Unimplemented, "a call that does not exist");
    // h2 answers a head of up to four times the limit by itself.
    let long = "y".repeat(12 << 10);
    let status = post(&mut channel, "Info", Some(("x", &long)), "\0\0\0\0\x02\x08\x01".to_owned()).await;
    assert!(status.message().contains("431"), "{status:?}");

    // One byte more than the keys have, and far more.
    for extra in [1, 1 << 20] {
        let keys = [member.pir().public_keys(), vec![0; extra]].concat();
        let session = member.session.clone();
        let chunk = proto::KeysChunk { session, data: keys.into() };
        let refused = member.client.upload_keys(tokio_stream::iter([chunk])).await.unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed);
    }
    member.upload().await.unwrap();
    honest.were_served("giant and senseless messages").await;
    server.shutdown().await.unwrap();
}

pub(crate) async fn frames_beyond_the_limits_end_the_connection() {
    const FRAME_SIZE_ERROR: u32 = 6;
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let wire = server.wire();

    // The head of a frame of 16 MiB less one byte.
    let raw = Raw::connect(wire).await;
    raw.send(&[0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1]).await;
    assert_eq!(raw.closed(SLACK).await.goaway, Some(FRAME_SIZE_ERROR));

    // A message of 4 GiB.
    let raw = Raw::connect(wire).await;
    raw.send(&frame(HEADERS, END_HEADERS, 1, &head("Retrieve"))).await;
    raw.send(&frame(DATA, 0, 1, &[0, 0xff, 0xff, 0xff, 0xff])).await;
    raw.until(|seen| seen.answered.contains(&1), SLACK).await;

    // As much as the windows let through, from somebody without a session, in messages of the right size.
    let raw = Raw::connect(wire).await;
    let mut sent = 0;
    for stream in (1..=31).step_by(2) {
        raw.send(&frame(HEADERS, END_HEADERS, stream, &head("Deposit"))).await;
        raw.send(&frame(DATA, 0, stream, &[0, 0, 0x10, 0, 0])).await;
    }
    'all: for _ in 0..60 {
        for stream in (1..=31).step_by(2) {
            if raw.is_closed() || !raw.send(&frame(DATA, 0, stream, &[0; 16 << 10])).await {
                break 'all;
            }
            sent += 16;
        }
    }
    raw.closed(SLACK).await;
    println!("measured: large messages without a session: closed after at most {sent} KiB");

    // Another protocol.
    let mut stream = wire.dial("").await.unwrap().stream;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "closed, with or without an error");
    honest.were_served("giant frames").await;
    server.shutdown().await.unwrap();
}
