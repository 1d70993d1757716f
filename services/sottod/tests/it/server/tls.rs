//! TLS: who is let in, and that nobody waits for those who are not.

use std::time::Duration;

use sotto_wire::root::node_name;
use sotto_wire::{RootKey, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ProtocolVersion;

use crate::support::{self, Server};

fn server() -> Server {
    support::server(|config| {
        config.transport = Transport::Tls;
        config.limits.stall = Duration::from_millis(500);
    })
}

async fn connect(server: &Server, root: &RootKey) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(server.local_addr()).await?;
    TlsConnector::from(root.client_config().unwrap()).connect(node_name(), stream).await
}

#[tokio::test]
async fn only_tls_1_3_under_the_right_root_is_spoken() {
    let server = server();
    assert!(server.address().to_string().starts_with(&format!("sotto://{}/", server.local_addr())));
    let stream = connect(&server, server.address().root_key()).await.unwrap();
    let (_, session) = stream.get_ref();
    assert_eq!(session.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(session.alpn_protocol(), Some(b"h2".as_slice()));

    let other = self::server();
    let error = connect(&server, other.address().root_key()).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    other.shutdown().await.unwrap();

    // Plaintext is no TLS: the server closes the connection without a word of HTTP.
    let mut plain = TcpStream::connect(server.local_addr()).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), plain.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.len() < 16, "nothing but an alert: {answer:?}");
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn who_does_not_finish_a_handshake_keeps_nobody_waiting_and_is_cut_off() {
    let server = server();
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(server.local_addr()).await.unwrap());
    }
    let root = *server.address().root_key();
    let connected = tokio::time::timeout(Duration::from_secs(10), connect(&server, &root)).await;
    connected.unwrap().unwrap();
    for mut stream in silent {
        let mut byte = [0];
        let end = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut byte)).await;
        assert!(matches!(end.unwrap(), Ok(0) | Err(_)));
    }
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn handshakes_that_fail_take_nobodys_place() {
    const PLACES: usize = 8;
    let server = support::server(|config| {
        config.transport = Transport::Tls;
        config.limits.connections = PLACES;
        config.limits.stall = Duration::from_secs(20);
    });
    let root = *server.address().root_key();
    for _ in 0..PLACES * 40 {
        let mut stream = TcpStream::connect(server.local_addr()).await.unwrap();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
    }
    let mut silent = Vec::new();
    for _ in 0..PLACES {
        silent.push(TcpStream::connect(server.local_addr()).await.unwrap());
    }
    let mut refused = 0;
    while connect(&server, &root).await.is_err() {
        refused += 1;
        assert!(refused < 20, "failed handshakes count as connections that can make room");
    }
    server.shutdown().await.unwrap();
}
