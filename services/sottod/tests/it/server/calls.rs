//! Every call over real gRPC, right and wrong.

use crate::support::{Member, Server, connect, deposit, refusal, server, server_of, session};
use bytes::Bytes;
use mpir::sealpir;
use rand::SeedableRng;
use rand::rngs::StdRng;
use sotto_protocol::PROTOCOL_VERSION;
use sotto_protocol::audit::{Statement, answer_digest, query_digest};
use sotto_protocol::deposit::{BOX_BYTES, DEPOSIT_BYTES};
use sotto_protocol::manifest::{bucket_digest, buckets_digest, deposits_digest};
use sotto_protocol::mapping::Outcome;
use sotto_protocol::{ChainStep, CodeKind, Deposit, Lookup, ManifestChain, Round};
use sotto_wire::{Info, Refused, proto};
use tonic::Code;

#[tokio::test]
async fn what_is_deposited_is_retrieved_by_label() {
    deposit_and_retrieve(server(|_| {})).await;
}

/// The hybrid with two cubes: boxes of one quarter are read as sums.
#[tokio::test]
async fn what_is_deposited_is_retrieved_by_every_code() {
    for (code, buckets) in [(CodeKind::Hybrid, Some(18)), (CodeKind::Hybrid, None), (CodeKind::Single, None)]
    {
        let server = server(|config| (config.code, config.buckets) = (code, buckets));
        assert_eq!(server.parameters().code, code);
        deposit_and_retrieve(server).await;
    }
}

#[tokio::test]
async fn what_is_deposited_is_retrieved_privately() {
    deposit_and_retrieve(server_of(sealpir(), |config| config.round_ms = 1000)).await;
}

async fn deposit_and_retrieve(server: Server) {
    let mut members = Vec::new();
    for number in 1..=4 {
        members.push(Member::with_keys(&server, number).await);
    }
    let mut events = members[0].watch().await;
    let round = events.fresh().await;
    for (number, member) in (1..).zip(&mut members) {
        member.deposit(round, &deposit(number, 0x10 + number)).await.unwrap();
    }
    let manifest = events.ready_of(round).await;
    assert_eq!(manifest.entries, 4);
    assert_eq!(manifest.shape(), server.parameters().shape());
    let sorted: Vec<Deposit> = (1..=4).map(|number| deposit(number, 0x10 + number)).collect();
    assert_eq!(manifest.deposits_digest, deposits_digest(&sorted), "the order must not tell who came first");

    let code = manifest.code().unwrap();
    let mapping = members[2].decoded_mapping(&manifest).await;
    let wanted = [1, 9, 2, 3].map(|number| deposit(number, 0).label);
    let lookup = Lookup::new(&*code, &mapping, &wanted, &mut StdRng::seed_from_u64(1));
    let elements = members[2].retrieve(&manifest, lookup.targets()).await.unwrap();
    for (key, expected) in [(0, 0x11), (2, 0x12), (3, 0x13)] {
        let codeword = |bucket: &pbc::BucketIndex| elements[bucket.to_usize()].as_slice();
        let codewords: Vec<&[u8]> = lookup.readings()[key].buckets().iter().map(codeword).collect();
        assert_eq!(code.decode(&codewords).unwrap(), [expected; BOX_BYTES]);
    }
    assert_eq!(lookup.readings()[1].outcome(), Outcome::Absent);
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_empty_round_is_a_round_like_any_other() {
    let server = server(|_| {});
    let mut member = Member::with_keys(&server, 1).await;
    let manifest = member.watch().await.ready().await;
    assert_eq!((manifest.entries, manifest.bucket_size), (0, 1));
    member.decoded_mapping(&manifest).await;
    let elements = member.retrieve(&manifest, &vec![None; manifest.buckets.into()]).await.unwrap();
    assert!(elements.iter().all(|element| element == &[0; BOX_BYTES]));
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn one_message_per_round_uses_the_unencoded_database() {
    let server = server(|config| config.retrieve = 1);
    let mut member = Member::with_keys(&server, 1).await;
    let mut events = member.watch().await;
    let round = events.fresh().await;
    member.deposit(round, &deposit(1, 5)).await.unwrap();
    let manifest = events.ready_of(round).await;
    assert_eq!((manifest.buckets, manifest.choices, manifest.bucket_size), (1, 1, 1));
    assert_eq!(member.retrieve(&manifest, &[Some(0)]).await.unwrap(), [[5; BOX_BYTES]]);
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn manifests_form_one_chain_and_can_be_fetched_again() {
    let server = server(|config| config.round_ms = 60);
    let mut member = Member::register(&server, 1).await;
    let mut events = member.watch().await;
    let mut chain = ManifestChain::default();
    let first = events.ready().await;
    assert_eq!(chain.accept(&first), Ok(ChainStep::First));
    for _ in 0..3 {
        assert_eq!(chain.accept(&events.ready().await), Ok(ChainStep::Next));
    }
    let last = chain.newest().unwrap().0;
    let request = |first: Round, last: Round| proto::ManifestsRequest {
        session: member.session.clone(),
        first: first.0,
        last: last.0,
    };
    let mut client = member.client.clone();
    let mut stream = client.manifests(request(first.round, last)).await.unwrap().into_inner();
    let mut manifests = 0;
    while stream.message().await.unwrap().is_some() {
        manifests += 1;
    }
    assert_eq!(manifests, 4);
    for (first, last) in [(2, 1), (0, 1024), (0, u64::MAX)] {
        let refused = client.manifests(request(Round(first), Round(last))).await.unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed);
    }
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn another_version_is_told_so() {
    let server = server(|_| {});
    let mut client = connect(&server).await;
    let refused = client
        .info(proto::InfoRequest { protocol_version: u32::from(PROTOCOL_VERSION) + 1 })
        .await
        .unwrap_err();
    assert_eq!(refusal(&refused), Refused::Version);
    let info = client
        .info(proto::InfoRequest { protocol_version: PROTOCOL_VERSION.into() })
        .await
        .unwrap()
        .into_inner();
    let info = Info::try_from(info).unwrap();
    assert_eq!(&info.parameters, server.parameters());
    info.parameters.check_shape().unwrap();
    assert!(info.parameters.check().is_err(), "clients must refuse an engine without privacy");
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_account_is_its_key_and_nobody_elses() {
    let server = server(|_| {});
    let mut client = connect(&server).await;
    // Signed for another server.
    let refused = session(&mut client, &[9; 32], 1).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::Signature);
    // A nonce that was never given out.
    let request = proto::RegisterRequest {
        account: Bytes::from_static(&[1; 32]),
        nonce: Bytes::from_static(&[2; 32]),
        signature: Bytes::from_static(&[3; 64]),
        token: Bytes::new(),
        slot: Bytes::new(),
    };
    assert_eq!(refusal(&client.register(request).await.map(|_| ()).unwrap_err()), Refused::Signature);
    // However many ask for challenges and never sign one, an account gets its session.
    for number in 0..5000_u32 {
        let mut account = [7; 32];
        account[..4].copy_from_slice(&number.to_be_bytes());
        let challenge = proto::ChallengeRequest { account: Bytes::copy_from_slice(&account) };
        client.challenge(challenge).await.unwrap();
    }
    session(&mut client, &server.parameters().manifest_key, 1).await.unwrap();
    let short = proto::ChallengeRequest { account: Bytes::from_static(&[1; 31]) };
    assert_eq!(refusal(&client.challenge(short).await.unwrap_err()), Refused::Malformed);
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn without_a_session_nothing_goes() {
    let server = server(|_| {});
    let mut member = Member::with_keys(&server, 1).await;
    for session in [Bytes::new(), Bytes::from_static(&[0; 32]), Bytes::from_static(&[0; 33])] {
        member.session = session;
        let request = proto::WatchRequest { session: member.session.clone() };
        let refused = [
            member.client.watch(request).await.map(|_| ()).unwrap_err(),
            member.deposit(Round(1), &deposit(1, 1)).await.unwrap_err(),
            member.mapping(Round(1)).await.unwrap_err(),
            member.send_query(Round(1), vec![0; 16]).await.unwrap_err(),
            member.upload().await.unwrap_err(),
        ];
        assert!(refused.iter().all(|status| refusal(status) == Refused::UnknownSession));
    }
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn deposits_are_one_per_round_and_never_late() {
    let server = server(|_| {});
    let mut member = Member::register(&server, 1).await;
    let mut events = member.watch().await;
    let round = events.fresh().await;
    member.deposit(round, &deposit(1, 1)).await.unwrap();
    member.deposit(round, &deposit(1, 1)).await.unwrap();
    let other = member.deposit(round, &deposit(1, 2)).await.unwrap_err();
    assert_eq!(refusal(&other), Refused::Quota);
    let early = member.deposit(round.next().next(), &deposit(1, 1)).await.unwrap_err();
    assert_eq!(refusal(&early), Refused::RoundNotReady);
    let next = events.opened().await;
    let late = member.deposit(round, &deposit(1, 1)).await.unwrap_err();
    assert_eq!(refusal(&late), Refused::RoundClosed);
    assert_eq!(events.ready_of(round).await.entries, 1);
    assert_eq!(events.ready_of(next).await.entries, 0, "nothing moves to another round");

    let request = |length| proto::DepositRequest {
        session: member.session.clone(),
        round: next.0,
        deposit: Bytes::from(vec![0; length]),
    };
    let mut client = member.client.clone();
    for length in [0, DEPOSIT_BYTES - 1, DEPOSIT_BYTES + 1] {
        assert_eq!(refusal(&client.deposit(request(length)).await.unwrap_err()), Refused::Malformed);
    }
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_not_taken_in() {
    let server = server(|_| {});
    let mut member = Member::register(&server, 1).await;
    let request = proto::DepositRequest {
        session: member.session.clone(),
        round: 1,
        deposit: Bytes::from(vec![0; sotto_wire::limits::MESSAGE_MAX]),
    };
    assert_eq!(member.client.deposit(request).await.unwrap_err().code(), Code::OutOfRange);
    assert!(
        member.client.info(proto::InfoRequest { protocol_version: PROTOCOL_VERSION.into() }).await.is_ok()
    );
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn keys_have_one_size() {
    let server = server(|_| {});
    let mut member = Member::register(&server, 1).await;
    let size = member.engine.public_keys_bytes();
    for lengths in [vec![0], vec![size - 1], vec![size + 1], vec![size, 1], vec![0, 0, 0], vec![1 << 20]] {
        let first = |number| if number == 0 { member.session.clone() } else { Bytes::new() };
        let chunk =
            |(number, length)| proto::KeysChunk { session: first(number), data: vec![0; length].into() };
        let chunks: Vec<_> = lengths.into_iter().enumerate().map(chunk).collect();
        let refused = member.client.upload_keys(tokio_stream::iter(chunks)).await.unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed);
    }
    let none: [proto::KeysChunk; 0] = [];
    let refused = member.client.upload_keys(tokio_stream::iter(none)).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::Malformed);
    member.upload().await.unwrap();
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn multi_queries_are_one_per_round_of_one_size_under_known_keys() {
    let server = server(|config| config.round_ms = 1000);
    let mut member = Member::with_keys(&server, 1).await;
    let manifest = member.watch().await.ready().await;
    let round = manifest.round;
    let size = member.sizes(&manifest).request.bytes();

    for length in [0, size - 1, size + 1, size + (1 << 20)] {
        let refused = member.send_query(round, vec![0; length]).await.unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed, "{length} bytes");
    }
    let early = member.send_query(round.next(), vec![0; size]).await.unwrap_err();
    assert_eq!(refusal(&early), Refused::RoundNotReady);
    let late = member.send_query(round.back(1), vec![0; size]).await.unwrap_err();
    assert_eq!(refusal(&late), Refused::RoundClosed);
    let keys = std::mem::replace(&mut member.keys, Bytes::from_static(&[9; 32]));
    let unknown = member.send_query(round, vec![0; size]).await.unwrap_err();
    assert_eq!(refusal(&unknown), Refused::UnknownKeys);
    member.keys = keys;
    // None of these has used the quota up.
    let answers = member.send_query(round, vec![0; size]).await.unwrap();
    assert_eq!(member.send_query(round, vec![0; size]).await.unwrap(), answers, "the same bytes again");
    let mut other = vec![0; size];
    other[15] = 1;
    let refused = member.send_query(round, other.clone()).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::Quota);

    // Somebody else may ask, even nonsense.
    let mut second = Member::with_keys(&server, 2).await;
    let refused = second.send_query(round, other).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::Malformed);
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_new_watcher_hears_of_the_newest_ready_and_the_open_round() {
    let server = server(|config| config.round_ms = 400);
    let mut member = Member::register(&server, 1).await;
    let ready = member.watch().await.ready().await;
    let mut second = Member::register(&server, 2).await;
    let mut events = second.watch().await;
    assert_eq!(events.ready().await, ready);
    assert_eq!(events.opened().await, ready.round.next());
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_second_watch_of_an_account_ends_the_first() {
    let server = server(|_| {});
    let mut member = Member::register(&server, 1).await;
    let mut first = member.watch().await;
    let mut second = member.watch().await;
    let ended = loop {
        match first.stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the end has a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!(refusal(&ended), Refused::UnknownSession);
    second.opened().await;
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn closed_loop_goes_on_when_everybody_is_done() {
    let server = server(|config| {
        config.mode = sotto_protocol::RoundMode::ClosedLoop;
        config.round_ms = 1;
    });
    let mut a = Member::with_keys(&server, 1).await;
    let mut b = Member::with_keys(&server, 2).await;
    let (mut a_events, mut b_events) = (a.watch().await, b.watch().await);
    for number in 1..=5 {
        let round = Round(number);
        assert_eq!((a_events.opened().await, b_events.opened().await), (round, round));
        a.deposit(round, &deposit(1, number as u8)).await.unwrap();
        b.deposit(round, &deposit(2, number as u8)).await.unwrap();
        let manifest = a_events.ready().await;
        assert_eq!((manifest.round, manifest.entries), (round, 2));
        assert_eq!(b_events.ready().await, manifest);
        let dummies = vec![None; manifest.buckets.into()];
        a.retrieve(&manifest, &dummies).await.unwrap();
        b.retrieve(&manifest, &dummies).await.unwrap();
    }
    // One leaves, and the other is not held up.
    drop((b_events, b));
    let round = a_events.opened().await;
    a.deposit(round, &deposit(1, 1)).await.unwrap();
    assert_eq!(a_events.ready().await.entries, 1);
    server.shutdown().await.unwrap();
}

/// Whoever checks an answer needs the bucket that was published, and a receipt under what was sent.
#[tokio::test]
async fn a_bucket_is_what_was_published_and_answers_have_a_receipt() {
    let server = server(|config| config.round_ms = 1000);
    let mut member = Member::with_keys(&server, 1).await;
    let mut events = member.watch().await;
    let round = events.fresh().await;
    member.deposit(round, &deposit(1, 5)).await.unwrap();
    let manifest = events.ready_of(round).await;
    let (buckets, size) = (usize::from(manifest.buckets), manifest.bucket_size as usize);

    let bytes = member.unit(round, 3).await.unwrap();
    let (digests, boxes) = bytes.split_at(32 * buckets);
    let digests = digests.as_chunks::<32>().0;
    assert_eq!(boxes.len(), size * BOX_BYTES);
    assert_eq!(buckets_digest(digests), manifest.buckets_digest);
    assert_eq!(bucket_digest(3, boxes), digests[3]);
    // The same once more, as often as any lost answer; and no other of the round.
    assert_eq!(member.unit(round, 3).await.unwrap(), bytes);
    assert_eq!(refusal(&member.unit(round, 2).await.unwrap_err()), Refused::Quota);
    assert_eq!(refusal(&member.unit(round, buckets as u32).await.unwrap_err()), Refused::Malformed);
    let later = Round(round.0 + 1000);
    assert_eq!(refusal(&member.unit(later, 2).await.unwrap_err()), Refused::RoundNotReady);

    let sizes = member.sizes(&manifest);
    let query = {
        let mut rng = rand_chacha::ChaCha20Rng::from_seed([1; 32]);
        member.pir().cover(member.spec(&manifest), &mut rng).unwrap().bytes
    };
    let (answers, receipt) = member.ask(round, query.clone()).await.unwrap();
    let units = || (0..manifest.buckets).map(|number| (number, usize::from(number)));
    let queries: Vec<_> =
        units().map(|(number, unit)| query_digest(number, &query[sizes.request.range(unit)])).collect();
    let answers: Vec<_> =
        units().map(|(number, unit)| answer_digest(number, &answers[sizes.answer.range(unit)])).collect();
    let keys = member.keys[..].try_into().unwrap();
    let statement = Statement::new(round, manifest.digest(), keys, &queries, &answers);
    statement.verify(&member.manifest_key, &receipt[..].try_into().unwrap()).unwrap();
    server.shutdown().await.unwrap();
}
