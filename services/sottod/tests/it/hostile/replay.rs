//! What was sent once is sent again, by somebody who has recorded it.

use bytes::Bytes;
use ed25519_dalek::{Signer, SigningKey};
use sotto_wire::{Refused, proto};

use super::honest::Honest;
use super::support::{Member, Server, connect, deposit, refusal};
use super::target;

async fn recorded(server: &Server, number: u8) -> proto::RegisterRequest {
    let signing = SigningKey::from_bytes(&[number; 32]);
    let account = signing.verifying_key().to_bytes();
    let challenge = proto::ChallengeRequest { account: Bytes::copy_from_slice(&account) };
    let nonce = connect(server).await.challenge(challenge).await.unwrap().into_inner().nonce;
    let signed: [u8; 32] = nonce[..].try_into().unwrap();
    let message = sotto_wire::register::message(&server.parameters().manifest_key, &account, &signed);
    let signature = Bytes::copy_from_slice(&signing.sign(&message).to_bytes());
    proto::RegisterRequest {
        account: Bytes::copy_from_slice(&account),
        nonce,
        signature,
        token: Bytes::new(),
        slot: Bytes::new(),
    }
}

pub(crate) async fn a_registration_serves_once_and_a_session_until_the_next() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let mut client = connect(&server).await;
    let request = recorded(&server, 1).await;
    let first = client.register(request.clone()).await.unwrap().into_inner().session;
    for _ in 0..3 {
        let refused = client.register(request.clone()).await.map(|_| ()).unwrap_err();
        assert_eq!(refusal(&refused), Refused::Signature);
    }
    // Two at once with one signature: only one wins.
    let request = recorded(&server, 1).await;
    let (mut a, mut b) = (client.clone(), client.clone());
    let (one, two) = tokio::join!(a.register(request.clone()), b.register(request));
    assert!(one.is_ok() != two.is_ok());
    let lost = one.as_ref().err().or(two.as_ref().err()).unwrap();
    assert_eq!(refusal(lost), Refused::Signature);

    // The session before has ended with that, for every call.
    let mut member = Member::with_keys(&server, 1).await;
    let (own, keys) = (member.session.clone(), member.keys.clone());
    member.session = first;
    let mut events = Member::register(&server, 2).await.watch().await;
    let round = events.fresh().await;
    let request = proto::WatchRequest { session: member.session.clone() };
    let refused = [
        member.client.watch(request).await.map(|_| ()).unwrap_err(),
        member.deposit(round, &deposit(1, 1)).await.unwrap_err(),
        member.mapping(round).await.unwrap_err(),
        member.send_query(round, vec![0; 16]).await.unwrap_err(),
        member.upload().await.unwrap_err(),
    ];
    assert!(refused.iter().all(|status| refusal(status) == Refused::UnknownSession), "{refused:?}");
    (member.session, member.keys) = (own, keys);

    // The same deposit is the same deposit; another is too many.
    for _ in 0..100 {
        member.deposit(round, &deposit(1, 1)).await.unwrap();
    }
    let refused = member.deposit(round, &deposit(1, 2)).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::Quota);
    let manifest = events.ready_of(round).await;
    assert!(manifest.entries <= 3, "{} entries of three members", manifest.entries);

    // Answers and mapping again, as often as is allowed.
    let targets = vec![None; manifest.buckets.into()];
    for _ in 0..4 {
        member.retrieve(&manifest, &targets).await.unwrap();
        member.mapping(round).await.unwrap();
    }
    assert_eq!(refusal(&member.retrieve(&manifest, &targets).await.unwrap_err()), Refused::Quota);
    assert_eq!(refusal(&member.mapping(round).await.unwrap_err()), Refused::Quota);
    honest.were_served("replays").await;
    server.shutdown().await.unwrap();
}

pub(crate) async fn nothing_recorded_before_a_restart_is_worth_anything_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = target(|config| config.data = Some(data.clone()));
    let mut old = Member::with_keys(&server, 1).await;
    let unused = recorded(&server, 2).await;
    let used = recorded(&server, 3).await;
    connect(&server).await.register(used.clone()).await.unwrap();
    let round = old.watch().await.fresh().await;
    old.deposit(round, &deposit(7, 7)).await.unwrap();
    server.shutdown().await.unwrap();

    let server = target(|config| config.data = Some(data));
    let honest = Honest::start(&server).await;
    let mut client = connect(&server).await;
    for request in [unused, used] {
        let refused = client.register(request).await.map(|_| ()).unwrap_err();
        assert_eq!(refusal(&refused), Refused::Signature);
    }
    old.client = client;
    let refused = old.deposit(round, &deposit(7, 7)).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::UnknownSession);
    // Even in a new session, the round it was for is over, and no other takes it under that number.
    let mut fresh = Member::register(&server, 1).await;
    let refused = fresh.deposit(round, &deposit(7, 7)).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::RoundClosed);
    honest.were_served("replays after a restart").await;
    server.shutdown().await.unwrap();
}
