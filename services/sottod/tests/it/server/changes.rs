//! What changes while accounts stay: parameters, keys of clients; and what was fixed before: the seeds of rounds.

use bytes::Bytes;
use sotto_protocol::server::ATTEMPTS_MAX;
use sotto_protocol::{PROTOCOL_VERSION, Round, SignedManifest, Succession};
use sotto_wire::proto::round_event::Event;
use sotto_wire::{Info, Refused, RootKey, proto};

use crate::support::{self, Member, Server, connect, refusal, session_by};

async fn announced(server: &Server) -> Info {
    let request = proto::InfoRequest { protocol_version: PROTOCOL_VERSION.into() };
    let info = connect(server).await.info(request).await.unwrap().into_inner();
    Info::try_from(info).unwrap()
}

#[tokio::test]
async fn an_operator_changes_parameters_and_accounts_stay() {
    let directory = tempfile::tempdir().unwrap();
    let start = |adjust: fn(&mut sottod::Config)| {
        support::server(|config| {
            config.data = Some(directory.path().to_owned());
            adjust(config);
        })
    };
    let first = start(|_| {});
    let root: RootKey = *first.address().root_key();
    let before = announced(&first).await;
    root.check(&before.parameters, &before.endorsement).unwrap();
    assert_eq!((before.parameters.serial, &before.parameters), (1, first.parameters()));
    Member::register(&first, 1).await;
    first.shutdown().await.unwrap();

    // A restart by itself changes nothing.
    let again = start(|_| {});
    let same = announced(&again).await;
    assert_eq!((&same.parameters, same.endorsement), (&before.parameters, before.endorsement));
    again.shutdown().await.unwrap();

    let changed = start(|config| {
        (config.retrieve, config.buckets, config.round_ms) = (8, Some(24), 400);
        (config.deposit_ms, config.lookup_ms, config.query_ms) = (10, 20, 30);
    });
    let after = announced(&changed).await;
    assert_eq!(*changed.address().root_key(), root);
    root.check(&after.parameters, &after.endorsement).unwrap();
    assert!(root.check(&after.parameters, &before.endorsement).is_err());
    assert_eq!(after.parameters.serial, 2);
    assert_eq!(after.parameters.succeeds(&before.parameters), Ok(Succession::Later));
    assert!(before.parameters.succeeds(&after.parameters).is_err());
    assert_eq!(after.parameters.seeds, before.parameters.seeds);
    // The account that was made before takes part in rounds of the new shape.
    let mut member = Member::with_keys(&changed, 1).await;
    let manifest = member.watch().await.ready().await;
    assert_eq!((manifest.retrieve, manifest.buckets), (8, 24));
    let elements = member.retrieve(&manifest, &vec![None; 24]).await.unwrap();
    assert_eq!(elements.len(), 24);
    changed.shutdown().await.unwrap();
    assert_eq!(sottod::check_log(directory.path()).unwrap().accounts, 1);
}

#[tokio::test]
async fn every_manifest_comes_with_what_shows_that_its_seed_was_fixed() {
    let server = support::server(|_| {});
    let parameters = server.parameters().clone();
    let mut member = Member::register(&server, 1).await;
    let mut events = member.watch().await;
    let mut rounds = Vec::new();
    while rounds.len() < 3 {
        if let Event::Ready(ready) = events.next().await.unwrap() {
            let signed = SignedManifest::try_from(&ready.manifest.unwrap()).unwrap();
            rounds.push(signed.verify_for(&parameters).unwrap().round);
        }
    }
    let (first, last) = (rounds[0].0, rounds[2].0);
    let request = proto::ManifestsRequest { session: member.session.clone(), first, last };
    let mut stream = member.client.manifests(request).await.unwrap().into_inner();
    let (mut segment, mut bare) = (None, 0);
    while let Some(manifest) = stream.message().await.unwrap() {
        let signed = SignedManifest::try_from(&manifest).unwrap();
        bare += usize::from(signed.segment.is_none());
        segment = signed.segment.clone().or(segment);
        signed.with_segment(segment.clone()).verify_for(&parameters).unwrap();
    }
    assert_eq!(bare, 2, "once for a segment");
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn keys_from_before_serve_the_rounds_from_before_and_are_dropped_behind_them() {
    let server = support::server(|config| (config.retained, config.round_ms) = (2, 500));
    let mut old = Member::with_keys(&server, 1).await;
    let mut events = old.watch().await;
    let before = events.ready().await;
    // The same account with other keys, over the same session.
    let mut new = Member {
        client: old.client.clone(),
        session: old.session.clone(),
        keys: Bytes::new(),
        secret: [99; 32],
        ..Member::register(&server, 2).await
    };
    new.upload().await.unwrap();
    let nothing = |manifest: &sotto_protocol::Manifest| vec![None; manifest.buckets.into()];
    old.retrieve(&before, &nothing(&before)).await.unwrap();
    // Whatever round it is: while one from before is there, both serve.
    let next = events.ready_of(before.round.next()).await;
    new.retrieve(&next, &nothing(&next)).await.unwrap();
    let mut dropped = None;
    for _ in 0..6 {
        let manifest = events.ready().await;
        match old.retrieve(&manifest, &nothing(&manifest)).await {
            Ok(_) => assert_eq!(dropped, None),
            Err(status) => {
                assert_eq!(refusal(&status), Refused::UnknownKeys);
                dropped.get_or_insert(manifest.round);
                new.retrieve(&manifest, &nothing(&manifest)).await.unwrap();
            }
        }
    }
    let dropped = dropped.expect("the set from before is kept for ever");
    assert!(dropped > Round(before.round.0 + 2), "{dropped}: before all rounds from then were over");
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_query_that_does_not_parse_uses_up_the_quota_and_headers_stand_once() {
    let server = support::server(|config| config.round_ms = 2000);
    let mut member = Member::with_keys(&server, 1).await;
    let manifest = member.watch().await.ready().await;
    let (session, keys, round) = (member.session.clone(), member.keys.clone(), manifest.round.0);
    let size = member.sizes(&manifest).request.bytes();
    let first = proto::QueryChunk { session: session.clone(), round, keys: keys.clone(), data: Bytes::new() };
    let rest = proto::QueryChunk { data: vec![0; size].into(), ..Default::default() };
    let repeated = [
        proto::QueryChunk { session, ..rest.clone() },
        proto::QueryChunk { round, ..rest.clone() },
        proto::QueryChunk { keys, ..rest.clone() },
    ];
    for again in repeated {
        let chunks = tokio_stream::iter([first.clone(), again]);
        let refused = member.client.retrieve(chunks).await.unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed);
    }
    // None of these was a query. This is one, of bytes that are none.
    let refused = member.send_query(manifest.round, vec![0xff; size]).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::Malformed);
    let right = member.retrieve(&manifest, &vec![None; manifest.buckets.into()]).await.unwrap_err();
    assert_eq!(refusal(&right), Refused::Quota);
    for _ in 1..ATTEMPTS_MAX {
        let refused = member.send_query(manifest.round, vec![0xff; size]).await.unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed, "the same bytes again");
    }
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_token_has_one_size_whether_it_is_wanted_or_not() {
    let server = support::server(|_| {});
    let key = server.parameters().manifest_key;
    for (bytes, taken) in [(0, true), (1, false), (31, false), (32, true), (33, false), (64, false)] {
        let mut client = connect(&server).await;
        let registered = session_by(&mut client, &key, 1, vec![7; bytes].into()).await;
        let refused = registered.map(|_| ()).map_err(|status| refusal(&status));
        assert_eq!(refused, if taken { Ok(()) } else { Err(Refused::Malformed) }, "{bytes} bytes");
    }
    server.shutdown().await.unwrap();
}
