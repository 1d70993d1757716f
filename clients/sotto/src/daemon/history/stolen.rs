//! What the store holds beside the state, for whoever has seized all of it and has recorded everything.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use core::time::Duration;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use sotto_protocol::client::Notice;

use super::super::desk::Desk;
use super::super::devices::Devices;
use super::super::face::Face;
use super::super::journal::Journal;
use super::super::message::{Account, Private};
use super::super::news::News;
use super::super::serve::tests::meet;
use super::{DOMAIN, FILE, History};
use crate::store::log::SealedLog;
use sotto_participant::Event;

const WINDOW: usize = 32;
const SAID: [&str; 3] = ["the first of them", "another, which is longer than a key is", "the last"];

/// What of some bytes may be a key: neither a part of a text, nor a few numbers.
fn keys(bytes: &[u8]) -> BTreeSet<[u8; WINDOW]> {
    let printable = |window: &[u8]| window.iter().all(|byte| (b' '..=b'~').contains(byte));
    let few = |window: &[u8]| {
        let mut seen = [false; 256];
        window.iter().filter(|byte| !core::mem::replace(&mut seen[usize::from(**byte)], true)).count() < 8
    };
    let windows =
        bytes.windows(WINDOW).filter(|window| !window.windows(WINDOW / 2).any(printable) && !few(window));
    windows.map(|window| window.try_into().unwrap()).collect()
}

/// Keys of yesterday were in the states of yesterday, of which none is left. They are in nothing else that is kept either: so
/// it opens no box of a recording, recognises no label and tells no query.
#[tokio::test]
async fn what_is_kept_beside_the_state_holds_no_key_of_any_state_before() {
    let home = tempfile::tempdir().unwrap();
    let (server, _alice, handle, mut events) = meet(&SAID).await;
    let seed = handle.ask(|client| *client.account_seed()).await.unwrap();
    let (history, problem) = History::open(home.path(), &seed);
    assert_eq!(problem, None);
    let journal = Arc::new(Journal::new(Vec::new()));
    let desk = Desk::new(
        handle.clone(),
        "bob".to_owned(),
        crate::testing::address(),
        None,
        (Arc::clone(&journal), Arc::new(history)),
        Face::new(true),
        (Arc::new(Devices::of(home.path(), &seed)), None),
    );
    let (mut before, mut texts) = (BTreeSet::new(), 0);
    while texts < SAID.len() {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await.unwrap().unwrap();
        texts += usize::from(matches!(event, Event::Notice(Notice::Text { .. })));
        // With and without what the event brought.
        before.extend(keys(&handle.ask(|client| client.snapshot()).await.unwrap()));
        assert!(desk.hear(event).await.is_none());
    }
    for text in handle.ask(|client| client.unshown().cloned().collect::<Vec<_>>()).await.unwrap() {
        let shown = Account::Shown { id: text.conversation, number: text.number };
        desk.account(shown).await.unwrap();
    }
    let say = Account::Say { conversation: "alice".to_owned(), text: Private::new("an answer") };
    desk.account(say).await.unwrap();
    let news = News::of(home.path(), &seed, true);
    news.write(&journal).unwrap();
    let state = handle.stop().await.unwrap().snapshot();

    // The thief has the state, and so its seed, and opens all.
    let key: [u8; 32] = Sha256::new_with_prefix(DOMAIN).chain_update(seed).finalize().into();
    let records = SealedLog::open(&home.path().join(FILE), &key, DOMAIN, true).unwrap().records;
    let opened = records.iter().map(|record| record.to_vec()).collect::<Vec<_>>().concat();
    for said in SAID {
        assert!(opened.windows(said.len()).any(|window| window == said.as_bytes()), "what was said is kept");
    }
    let lines: String = news.read().into_iter().map(|note| note.line).collect();
    assert!(lines.contains("alice is there"), "{lines}");
    let mut store = vec![opened, lines.into_bytes()];
    let files = fs::read_dir(home.path()).unwrap();
    store.extend(files.map(|file| fs::read(file.unwrap().path()).unwrap()));
    assert_eq!(store.len(), 4, "history and news, opened and as they are");

    // Of the seed, which stays, it is known that it is found where it is.
    assert!(before.contains(&seed) && keys(&state).contains(&seed));
    assert!(before.len() > 1000);
    for part in store {
        let found = keys(&part).into_iter().find(|window| before.contains(window));
        assert_eq!(found, None);
    }
    server.shutdown().await.unwrap();
}
