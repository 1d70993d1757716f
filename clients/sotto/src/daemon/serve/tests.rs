#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use sotto_protocol::client::{Client, Notice, Settings};
use sotto_wire::Transport;
use sottod::{Config, Running};
use tokio::io::split;

use super::super::desk::Desk;
use super::super::devices::Devices;
use super::super::face::Face;
use super::super::frame::{Frames, HERE, write};
use super::super::history::History;
use super::super::journal::{Entry, Journal, KEPT_MAX};
use super::super::message::{Greeting, Message, Note, Reply, Request, Severity, Told};
use super::super::notes;
use super::super::socket::Stream;
use super::{Seat, serve};
use sotto_participant::host::now;
use sotto_participant::{Event, Events, Handle, Participant};
use sotto_session::{Connection, ConnectionSettings};

/// A server with short rounds and an engine without privacy.
fn config() -> Config {
    Config {
        round_ms: 300,
        retrieve: 4,
        buckets: Some(16),
        deposit_ms: 40,
        lookup_ms: 120,
        query_ms: 260,
        deposit_spread_ms: Some(0),
        query_spread_ms: Some(0),
        allow_no_privacy: true,
        transport: Transport::Plaintext,
        ..Config::deadline(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }
}

/// A server, alice, who has said these texts to bob, and bob.
pub(crate) async fn meet(texts: &[&str]) -> (Running, Handle, Handle, Events) {
    let server = sottod::start(mpir::noop(), config()).unwrap();
    let settings =
        ConnectionSettings { allow_no_privacy: true, ..ConnectionSettings::new(server.address().clone()) };
    let info = Connection::open(&settings).await.unwrap().info().await.unwrap();
    let mut rng: rand::rngs::StdRng = rand::make_rng();
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| {
        let places = Settings { conversations: 1 };
        Client::new(name, info.parameters.clone(), places, (info.open, now()), &mut rng).unwrap()
    });
    let invitation = alice.invite("bob", now(), &mut rng).unwrap();
    bob.accept("alice", &invitation, now(), &mut rng).unwrap();
    for text in texts {
        alice.queue_text(alice.find("bob").unwrap(), text).unwrap();
    }
    let (alice, _told) = Participant::start(alice, None, settings.clone()).await.unwrap();
    let (bob, events) = Participant::start(bob, None, settings).await.unwrap();
    (server, alice, bob, events)
}

/// Where bob's programs come to, with a history that is only in memory.
fn desk(handle: &Handle) -> Desk {
    let journal = Arc::new(Journal::new(Vec::new()));
    let (history, _) = History::look(Path::new("nowhere"), &[0; 32]);
    let kept = (journal, Arc::new(history));
    let ways = (Arc::new(Devices::of(Path::new("/nowhere"), &[0; 32])), None);
    let address = crate::testing::address();
    Desk::new(handle.clone(), "bob".to_owned(), address, None, kept, Face::new(true), ways)
}

/// What a participant tells while it ends, its client has to be asked about that it leaves behind.
#[tokio::test]
async fn what_was_told_while_the_participant_ended_is_written_down() {
    let (server, _alice, handle, mut events) = meet(&[]).await;
    let desk = desk(&handle);
    let met = async {
        while !handle.conversations().await.unwrap()[0].established {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), met).await.unwrap();
    let client = handle.stop().await.unwrap();
    let mut first = events.recv().await.unwrap();
    // How far rounds are, nobody is asked about.
    while matches!(first, Event::Step { .. }) {
        first = events.recv().await.unwrap();
    }
    let untold = desk.hear(first).await;
    assert!(untold.is_some(), "nobody is there any more who could be asked");
    assert!(desk.journal.untold().is_empty());
    desk.hear_last(&client, untold.into_iter().collect(), &mut events);
    assert_eq!(desk.journal.untold(), [Note::new(Severity::Notice, "alice is there: texts can go out")]);
    server.shutdown().await.unwrap();
}

/// What a program tells as shown takes all earlier texts with it. So one that was slow, for which the journal had no room any
/// more, gets the texts that it missed before those that follow.
#[tokio::test]
async fn texts_that_the_journal_had_no_room_for_come_before_later_ones() {
    const SAID: [&str; 3] = ["one", "two", "three"];
    let (server, _alice, handle, mut events) = meet(&SAID).await;
    let (near, far) = Stream::pair().unwrap();
    let desk = Arc::new(desk(&handle));
    let of_program = Arc::clone(&desk);
    tokio::spawn(async move { serve(far, &of_program, Seat::Here).await });
    let (input, mut output) = split(near);
    let mut frames = Frames::new(input, HERE);
    write(&mut output, &Greeting::ours(), HERE).await.unwrap();
    let attach = Request::Attach { conversation: "alice".to_owned(), verbose: false };
    write(&mut output, &attach, HERE).await.unwrap();
    frames.next::<Greeting>().await.unwrap().unwrap();
    let attached = frames.next::<Message>().await.unwrap().unwrap();
    assert!(matches!(attached, Message::Reply(Reply::Attached(_))), "{attached:?}");

    let mut entries = Vec::new();
    while entries.len() < SAID.len() {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await.unwrap().unwrap();
        if matches!(event, Event::Notice(Notice::Text { .. })) {
            entries.push(handle.ask(move |client| notes::entry(&event, client)).await.unwrap().unwrap());
        }
    }
    // All at once, so that the program is not served in between.
    let last = entries.pop().unwrap();
    let others = (0..KEPT_MAX).map(|_| Entry::Passing(Note::new(Severity::Notice, "something else")));
    entries.into_iter().chain(others).chain([last]).for_each(|entry| desk.journal.write(entry));
    let mut heard = Vec::new();
    while heard.len() < SAID.len() {
        let next = tokio::time::timeout(Duration::from_secs(60), frames.next::<Message>()).await;
        if let Message::Told(Told::Text(text)) = next.unwrap().unwrap().unwrap() {
            heard.push(text.text.0.to_string());
            assert_eq!(heard, SAID[..heard.len()]);
        }
    }
    handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
}
