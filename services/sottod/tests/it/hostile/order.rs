//! Calls in an order in which no client makes them, and with what belongs to somebody else.

use bytes::Bytes;
use ed25519_dalek::{Signer, SigningKey};
use sotto_protocol::Round;
use sotto_wire::{Refused, proto};

use super::honest::Honest;
use super::support::{Client, Member, deposit, refusal};
use super::target;

async fn nonce_for(client: &mut Client, key: &SigningKey) -> Bytes {
    let account = Bytes::copy_from_slice(key.verifying_key().as_bytes());
    client.challenge(proto::ChallengeRequest { account }).await.unwrap().into_inner().nonce
}

fn register(
    manifest_key: &[u8; 32],
    account: &SigningKey,
    signer: &SigningKey,
    nonce: &Bytes,
) -> proto::RegisterRequest {
    let account = account.verifying_key().to_bytes();
    let message = sotto_wire::register::message(manifest_key, &account, nonce[..].try_into().unwrap());
    proto::RegisterRequest {
        account: Bytes::copy_from_slice(&account),
        nonce: nonce.clone(),
        signature: Bytes::copy_from_slice(&signer.sign(&message).to_bytes()),
        token: Bytes::new(),
        slot: Bytes::new(),
    }
}

pub(crate) async fn nobody_registers_with_what_belongs_to_another() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let member = Member::register(&server, 1).await;
    let mut client = member.client.clone();
    let key = server.parameters().manifest_key;
    let (own, other) = (SigningKey::from_bytes(&[31; 32]), SigningKey::from_bytes(&[32; 32]));

    let given_to_other = nonce_for(&mut client, &other).await;
    let given = nonce_for(&mut client, &own).await;
    for request in [
        register(&key, &own, &own, &given_to_other),
        register(&key, &own, &other, &given),
        register(&[9; 32], &own, &own, &given),
    ] {
        let refused = client.register(request).await.map(|_| ()).unwrap_err();
        assert_eq!(refusal(&refused), Refused::Signature);
    }
    // An account of small order has signatures that anybody can make.
    let mut weak = register(&key, &own, &own, &given);
    weak.account = Bytes::from_static(&[0; 32]);
    assert_eq!(refusal(&client.register(weak).await.map(|_| ()).unwrap_err()), Refused::Signature);
    for lengths in [(0, 32, 64), (31, 32, 64), (32, 33, 64), (32, 32, 63), (1 << 20, 32, 64)] {
        let bytes = |length| Bytes::from(vec![1; length]);
        let (account, nonce, signature) = (bytes(lengths.0), bytes(lengths.1), bytes(lengths.2));
        let refused = client
            .register(proto::RegisterRequest {
                account,
                nonce,
                signature,
                token: Bytes::new(),
                slot: Bytes::new(),
            })
            .await
            .map(|_| ())
            .unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed, "{lengths:?}");
    }
    // None of this has used the nonce up.
    client.register(register(&key, &own, &own, &given)).await.unwrap();
    honest.were_served("foreign registrations").await;
    server.shutdown().await.unwrap();
}

pub(crate) async fn calls_in_the_wrong_order_say_what_is_wrong() {
    let server = target(|config| config.retained = 1);
    let honest = Honest::start(&server).await;
    let mut member = Member::with_keys(&server, 1).await;
    let mut without_keys = Member::register(&server, 2).await;
    let mut events = member.watch().await;
    let round = events.fresh().await;
    let open = [
        member.mapping(round).await.unwrap_err(),
        member.send_query(round, vec![0; 16]).await.unwrap_err(),
        member.deposit(round.next(), &deposit(1, 1)).await.unwrap_err(),
        member.mapping(Round(u64::MAX)).await.unwrap_err(),
    ];
    assert!(open.iter().all(|status| refusal(status) == Refused::RoundNotReady), "{open:?}");

    let manifest = events.ready_of(round).await;
    let late = member.deposit(round, &deposit(1, 1)).await.unwrap_err();
    assert_eq!(refusal(&late), Refused::RoundClosed);
    // Somebody else's keys, and none at all.
    without_keys.keys = member.keys.clone();
    let dummies = vec![None; manifest.buckets.into()];
    let refused = without_keys.retrieve(&manifest, &dummies).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::UnknownKeys);
    without_keys.keys = Bytes::new();
    let refused = without_keys.retrieve(&manifest, &dummies).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::Malformed);

    events.ready_of(round.next()).await;
    let retired = [
        member.mapping(round).await.unwrap_err(),
        member.retrieve(&manifest, &dummies).await.unwrap_err(),
        member.mapping(Round(0)).await.unwrap_err(),
        member.deposit(Round(0), &deposit(1, 1)).await.unwrap_err(),
    ];
    assert!(retired.iter().all(|status| refusal(status) == Refused::RoundClosed), "{retired:?}");

    let request = proto::ManifestsRequest { session: Bytes::new(), first: 1, last: 1 };
    let refused = member.client.manifests(request).await.map(|_| ()).unwrap_err();
    assert_eq!(refusal(&refused), Refused::UnknownSession);
    honest.were_served("calls in the wrong order").await;
    server.shutdown().await.unwrap();
}

/// The session counts that stands in the first chunk; nobody slips another one in behind, nor the same one again.
pub(crate) async fn an_upload_belongs_to_the_session_that_began_it() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let mut attacker = Member::register(&server, 1).await;
    let mut victim = Member::with_keys(&server, 2).await;
    let keys = attacker.pir().public_keys();
    let chunk = |session: &Bytes, data: &[u8]| proto::KeysChunk {
        session: session.clone(),
        data: Bytes::copy_from_slice(data),
    };
    for slipped in [&victim.session, &attacker.session] {
        let chunks = [chunk(&attacker.session, &keys[..4]), chunk(slipped, &keys[4..])];
        let refused = attacker.client.upload_keys(tokio_stream::iter(chunks)).await.unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed);
    }
    let chunks = [chunk(&attacker.session, &keys[..4]), chunk(&Bytes::new(), &keys[4..])];
    attacker.client.upload_keys(tokio_stream::iter(chunks)).await.unwrap();
    let none = [chunk(&Bytes::new(), &keys[..4]), chunk(&attacker.session, &keys[4..])];
    let refused = attacker.client.upload_keys(tokio_stream::iter(none)).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::UnknownSession);
    // The victim's keys are still its own.
    let manifest = victim.watch().await.ready().await;
    victim.retrieve(&manifest, &vec![None; manifest.buckets.into()]).await.unwrap();
    honest.were_served("uploads under two sessions").await;
    server.shutdown().await.unwrap();
}
