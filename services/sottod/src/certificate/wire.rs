//! What TLS shows of who connects: nothing of a name, and no connection is known again in the next.

use std::io::Read;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use rustls::client::Resumption;
use rustls::server::ServerSessionMemoryCache;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ServerConfig, ServerConnection};
use sotto_wire::RootKey;
use sotto_wire::root::node_name;

use super::{Certificate, Shown};

/// Numbers of extensions (RFC 8446).
const SERVER_NAME: u16 = 0;
const SESSION_TICKET: u16 = 35;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;
/// In a record, before the extensions: header of the record (5) and of the message (4), version (2), random (32).
const SESSION_ID_AT: usize = 43;

/// How a server shows it.
fn config_of(certificate: &Certificate) -> Arc<ServerConfig> {
    Shown::new(certificate, &RootKey([1; 32]), node_name()).unwrap().server_config().unwrap()
}

fn node() -> (Certificate, RootKey) {
    let root = SigningKey::from_bytes(&[1; 32]);
    (Certificate::issue(&root).unwrap(), RootKey(root.verifying_key().to_bytes()))
}

/// A client that names its server and resumes sessions, as libraries do when nobody forbids it.
fn talkative(ours: &ClientConfig) -> ClientConfig {
    let mut config = ours.clone();
    (config.enable_sni, config.resumption) = (true, Resumption::in_memory_sessions(8));
    config
}

/// A server that hands out tickets.
fn generous(ours: &ServerConfig) -> ServerConfig {
    let mut config = ours.clone();
    (config.session_storage, config.send_tls13_tickets) = (ServerSessionMemoryCache::new(8), 2);
    config
}

fn hello(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    assert_eq!((bytes[0], bytes[5]), (22, 1), "a client hello");
    bytes
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// Where the extensions of a hello begin: their length, u16.
fn extensions_at(hello: &[u8]) -> usize {
    let suites = SESSION_ID_AT + 1 + usize::from(hello[SESSION_ID_AT]);
    let compression = suites + 2 + u16_at(hello, suites);
    compression + 1 + usize::from(hello[compression])
}

/// Numbers of the extensions of a hello, and where each stands.
fn extensions(hello: &[u8]) -> Vec<(u16, core::ops::Range<usize>)> {
    let mut at = extensions_at(hello) + 2;
    let mut found = Vec::new();
    while at < hello.len() {
        let end = at + 4 + u16_at(hello, at + 2);
        found.push((u16_at(hello, at) as u16, at..end));
        at = end;
    }
    assert_eq!(at, hello.len());
    found
}

/// Connects until both have the other's first words; the hello as it was sent, and how the handshake went.
fn connect(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> (Vec<u8>, HandshakeKind) {
    let mut client = ClientConnection::new(Arc::clone(client), node_name()).unwrap();
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    let sent = hello(&mut client);
    let mut to_server = sent.clone();
    let mut greeted = false;
    loop {
        let mut reader = to_server.as_slice();
        while !reader.is_empty() {
            server.read_tls(&mut reader).unwrap();
            server.process_new_packets().unwrap();
        }
        if !server.is_handshaking() && !core::mem::replace(&mut greeted, true) {
            std::io::Write::write_all(&mut server.writer(), b"hello").unwrap();
        }
        let mut to_client = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut to_client).unwrap();
        }
        let mut reader = to_client.as_slice();
        while !reader.is_empty() {
            client.read_tls(&mut reader).unwrap();
            client.process_new_packets().unwrap();
        }
        to_server.clear();
        while client.wants_write() {
            client.write_tls(&mut to_server).unwrap();
        }
        if to_server.is_empty() {
            let mut word = [0; 5];
            client.reader().read_exact(&mut word).unwrap();
            return (sent, client.handshake_kind().unwrap());
        }
    }
}

fn has(hello: &[u8], extension: u16) -> bool {
    extensions(hello).iter().any(|(number, _)| *number == extension)
}

#[test]
fn a_client_names_no_server_and_shows_no_ticket_even_if_it_was_given_some() {
    let (certificate, root) = node();
    let ours = root.client_config().unwrap();
    let server = Arc::new(generous(&config_of(&certificate)));
    for _ in 0..3 {
        let (hello, kind) = connect(&ours, &server);
        for extension in [SERVER_NAME, SESSION_TICKET, PRE_SHARED_KEY, EARLY_DATA] {
            assert!(!has(&hello, extension), "extension {extension}");
        }
        assert!(has(&hello, SUPPORTED_VERSIONS));
        assert_eq!(kind, HandshakeKind::Full);
        assert!(!hello.windows(5).any(|word| word == b"sotto"), "a name in clear");
    }
    // What is asserted here would be seen if it were otherwise.
    let other = Arc::new(talkative(&ours));
    let (first, _) = connect(&other, &server);
    let (second, kind) = connect(&other, &server);
    assert!(has(&first, SERVER_NAME) && has(&second, PRE_SHARED_KEY));
    assert_eq!(kind, HandshakeKind::Resumed);
}

#[test]
fn a_server_gives_nobody_a_ticket() {
    let (certificate, root) = node();
    let server = config_of(&certificate);
    let client = Arc::new(talkative(&root.client_config().unwrap()));
    for _ in 0..3 {
        let (hello, kind) = connect(&client, &server);
        assert!(!has(&hello, PRE_SHARED_KEY), "it was given something to resume with");
        assert_eq!(kind, HandshakeKind::Full);
    }
}

#[test]
fn tls_1_2_is_refused() {
    const ALERT: u8 = 21;
    const PROTOCOL_VERSION: u8 = 70;
    let (certificate, root) = node();
    let mut client = ClientConnection::new(root.client_config().unwrap(), node_name()).unwrap();
    let mut old = hello(&mut client);
    // Without this extension a hello is one of TLS 1.2.
    let (_, versions) =
        extensions(&old).into_iter().find(|(number, _)| *number == SUPPORTED_VERSIONS).unwrap();
    let less = versions.len();
    old.drain(versions);
    let lengths = [3, extensions_at(&old)];
    for at in lengths {
        let length = (u16_at(&old, at) - less) as u16;
        old[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }
    // That of the message has three bytes.
    let length = (u16_at(&old, 7) - less) as u16;
    old[7..9].copy_from_slice(&length.to_be_bytes());

    let mut server = ServerConnection::new(config_of(&certificate)).unwrap();
    server.read_tls(&mut old.as_slice()).unwrap();
    assert!(server.process_new_packets().is_err());
    let mut answer = Vec::new();
    while server.wants_write() {
        server.write_tls(&mut answer).unwrap();
    }
    assert_eq!(
        (answer[0], answer.len(), answer[5], answer[6]),
        (ALERT, 7, 2, PROTOCOL_VERSION),
        "{answer:?}"
    );
}
