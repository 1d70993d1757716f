//! Slots: one for each account, and nobody else's.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use rand::SeedableRng;
use sha2::{Digest, Sha256};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::table::{KNOCK_BYTES, SENT_BYTES};
use sotto_protocol::{CodeKind, Manifest, Round, Table};
use sotto_wire::{Refused, proto};

use crate::support::{self, Member, Server, connect, refusal, registered};

fn server(data: Option<&Path>) -> Server {
    support::server(|config| {
        config.code = CodeKind::Partitioned;
        config.data = data.map(Path::to_owned);
    })
}

async fn register(server: &Server, number: u8, slot: Bytes) -> Result<Bytes, Refused> {
    let mut client = connect(server).await;
    let key = server.parameters().manifest_key;
    let registered = registered(&mut client, &key, number, Bytes::new(), slot).await;
    registered.map(|answer| answer.slot).map_err(|status| refusal(&status))
}

fn number(slot: &Bytes) -> u32 {
    u32::from_le_bytes(slot[..4].try_into().unwrap())
}

/// What would let an account deposit where another is looked for.
#[tokio::test]
async fn a_slot_is_its_accounts_own_and_an_account_has_one() {
    let directory = tempfile::tempdir().unwrap();
    let first = server(Some(directory.path()));
    let one = register(&first, 1, Bytes::new()).await.unwrap();
    let two = register(&first, 2, Bytes::new()).await.unwrap();
    assert_eq!((one.len(), two.len()), (20, 20));
    assert_ne!(number(&one), number(&two));
    assert_eq!(register(&first, 1, Bytes::new()).await, Ok(one.clone()), "whoever did not hear of it");
    for length in [1, 19, 21] {
        let cut = Bytes::from([&one[..], &[0]].concat()).slice(..length);
        assert_eq!(register(&first, 1, cut).await, Err(Refused::Malformed), "{length} bytes");
    }
    assert_eq!(register(&first, 2, one.clone()).await, Err(Refused::Slot), "another's");
    assert_eq!(register(&first, 3, one.clone()).await, Err(Refused::Slot), "another's, by somebody new");
    for byte in 0..20 {
        let mut forged = one.to_vec();
        forged[byte] ^= 1;
        assert_eq!(register(&first, 1, forged.into()).await, Err(Refused::Slot), "byte {byte}");
    }
    assert_eq!(register(&first, 1, one.clone()).await, Ok(Bytes::new()));
    let other = register(&first, 1, Bytes::new()).await.unwrap();
    assert!(number(&other) != number(&one) && number(&other) != number(&two));
    assert_eq!(register(&first, 1, other.clone()).await, Ok(Bytes::new()));
    assert_eq!(register(&first, 1, Bytes::new()).await, Err(Refused::Slot), "a third one");
    first.shutdown().await.unwrap();

    let second = server(Some(directory.path()));
    assert_eq!(register(&second, 1, one.clone()).await, Ok(Bytes::new()));
    assert_eq!(register(&second, 2, one).await, Err(Refused::Slot));
    // Who never heard of its own, and nobody remembers it.
    let fresh = register(&second, 2, Bytes::new()).await.unwrap();
    assert!(number(&fresh) >= 32, "what is left of a lot is not handed out by another process");
    assert_eq!(register(&second, 2, Bytes::new()).await, Ok(fresh.clone()));
    assert_eq!(register(&second, 2, fresh).await, Ok(Bytes::new()));
    assert_eq!(register(&second, 2, two).await, Ok(Bytes::new()), "the first one is its own, too");
    let four = register(&second, 4, Bytes::new()).await.unwrap();
    assert!(number(&four) >= 32, "what is left of a lot is not handed out by another process");
    second.shutdown().await.unwrap();
}

/// A member with a slot.
async fn member(server: &Server, number_of: u8) -> (Member, u32) {
    let mut member = Member::register(server, number_of).await;
    let key = server.parameters().manifest_key;
    let answer = registered(&mut member.client, &key, number_of, Bytes::new(), Bytes::new()).await.unwrap();
    member.session = answer.session;
    (member, number(&answer.slot))
}

async fn send(member: &mut Member, round: Round, bytes: Vec<u8>) -> Result<(), Refused> {
    let request =
        proto::DepositRequest { session: member.session.clone(), round: round.0, deposit: bytes.into() };
    member.client.deposit(request).await.map(drop).map_err(|status| refusal(&status))
}

/// The content of places, as far as one retrieval can read them: of the first always.
async fn read(member: &mut Member, manifest: &Manifest, places: &[u32]) -> Vec<(u32, Vec<u8>)> {
    let code = manifest.slot_code().unwrap();
    let mut targets = vec![None; manifest.buckets.into()];
    let mut of_buckets = vec![None; manifest.buckets.into()];
    for place in places {
        let free = code.places(*place).into_iter().find(|(bucket, _)| targets[bucket.to_usize()].is_none());
        if let Some((bucket, position)) = free {
            targets[bucket.to_usize()] = Some(position);
            of_buckets[bucket.to_usize()] = Some(*place);
        }
    }
    let answers = member.retrieve(manifest, &targets).await.unwrap();
    let mut read: Vec<(u32, Vec<u8>)> =
        of_buckets.into_iter().zip(answers).filter_map(|(place, answer)| Some((place?, answer))).collect();
    read.sort_by_key(|(read, _)| places.iter().position(|place| place == read));
    read
}

#[tokio::test]
async fn boxes_lie_in_the_slots_of_their_accounts_and_there_is_no_mapping() {
    let server = server(None);
    let (mut one, slot) = member(&server, 1).await;
    let (mut other, others) = member(&server, 2).await;
    let mut events = one.watch().await;
    one.upload().await.unwrap();
    let round = events.fresh().await;
    let sent = |fill: u8| vec![fill; SENT_BYTES];
    assert_eq!(send(&mut one, round, sent(7)).await, Ok(()));
    assert_eq!(send(&mut one, round, sent(7)).await, Ok(()), "once more");
    assert_eq!(send(&mut one, round, sent(8)).await, Err(Refused::Quota), "a slot claimed twice");
    for bytes in [0, 299, 301, 304] {
        assert_eq!(send(&mut other, round, vec![0; bytes]).await, Err(Refused::Malformed), "{bytes} bytes");
    }
    let manifest = events.ready_of(round).await;
    let table = manifest.table().unwrap();
    assert_eq!((table, manifest.entries), (Table::holding(1).unwrap(), 33));
    let (place, cell) = table.cell(&sotto_protocol::Label([7; 16]));
    let wanted: Vec<u32> = [slot, place].into_iter().chain((0..32).filter(|empty| *empty != slot)).collect();
    let read = read(&mut one, &manifest, &wanted).await;
    assert_eq!(read[0], (slot, vec![7; BOX_BYTES]));
    assert_eq!((read[1].0, &read[1].1[cell]), (place, &[7; KNOCK_BYTES - 4][..]));
    // What nobody has deposited is nobody's: neither zeros nor the same twice.
    let mut seen = BTreeSet::new();
    for (place, cover) in &read[2..] {
        let ones: u32 = cover.iter().map(|byte| byte.count_ones()).sum();
        assert!((950..1350).contains(&ones), "{ones} of 2304 bits in place {place}");
        assert!(seen.insert(cover));
    }
    assert!(seen.len() >= 5, "{}", seen.len());
    assert!(others < 32);
    let refused = one.mapping(round).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::Malformed);
    server.shutdown().await.unwrap();
}

/// Where nobody has said anything there is a table like any other, and it grows before there are more people than slots.
#[tokio::test]
async fn tables_without_deposits_are_rounds_and_tables_grow() {
    let server = server(None);
    let (mut one, slot) = member(&server, 1).await;
    let mut events = one.watch().await;
    one.upload().await.unwrap();
    let empty = events.ready().await;
    assert_eq!(empty.entries, 33);
    let mut slots = BTreeSet::from([slot]);
    for number in 2..=70 {
        slots.insert(member(&server, number).await.1);
    }
    assert_eq!(slots.len(), 70, "nobody has another's");
    // Of the watch before, what was told while people registered is still to be read, and may be long over.
    let mut events = one.watch().await;
    let round = events.fresh().await;
    assert_eq!(send(&mut one, round, vec![9; SENT_BYTES]).await, Ok(()));
    let grown = events.ready_of(round).await;
    assert_eq!(grown.entries, 3 * 33);
    assert_eq!(read(&mut one, &grown, &[slot]).await, [(slot, vec![9; BOX_BYTES])]);
    server.shutdown().await.unwrap();
}

/// The slot waits for others that are given back; until it is somebody else's the account can be made anew with it.
#[tokio::test]
async fn a_closed_account_is_made_anew_with_its_slot_and_nobody_else_gets_it() {
    let directory = tempfile::tempdir().unwrap();
    let first = server(Some(directory.path()));
    let slot = register(&first, 1, Bytes::new()).await.unwrap();
    let mut client = connect(&first).await;
    let key = first.parameters().manifest_key;
    let session = registered(&mut client, &key, 1, Bytes::new(), slot.clone()).await.unwrap().session;
    client.close(proto::CloseRequest { session: session.clone() }).await.unwrap();
    let request = proto::DepositRequest { session, round: 1, deposit: vec![7; SENT_BYTES].into() };
    assert_eq!(refusal(&client.deposit(request).await.unwrap_err()), Refused::UnknownSession);
    let mut slots = BTreeSet::new();
    for number_of in 2..=70 {
        slots.insert(number(&register(&first, number_of, Bytes::new()).await.unwrap()));
    }
    assert_eq!((slots.len(), slots.contains(&number(&slot))), (69, false));
    assert_eq!(register(&first, 1, slot.clone()).await, Ok(Bytes::new()));
    first.shutdown().await.unwrap();
    let second = server(Some(directory.path()));
    assert_eq!(register(&second, 1, slot).await, Ok(Bytes::new()));
    second.shutdown().await.unwrap();
}

/// Whoever shows a slot where there are none has the wrong server.
#[tokio::test]
async fn a_server_without_slots_takes_none() {
    let server = support::server(|_| {});
    assert_eq!(register(&server, 1, Bytes::from(vec![0; 20])).await, Err(Refused::Malformed));
    assert_eq!(register(&server, 1, Bytes::new()).await, Ok(Bytes::new()));
    server.shutdown().await.unwrap();
}

/// What stands is answered by its name as by its bytes, to its account alone, in its epoch and in no other kind of round.
#[tokio::test]
async fn a_multi_query_that_stands_is_known_by_its_digest_to_whom_it_belongs() {
    let server = support::server(|config| config.code = CodeKind::Standing);
    let mut one = Member::with_keys(&server, 1).await;
    let mut two = Member::with_keys(&server, 2).await;
    let mut events = one.watch().await;
    let again = async |member: &mut Member, round: Round, query: &[u8]| {
        let request = proto::RetrieveAgainRequest {
            session: member.session.clone(),
            round: round.0,
            keys: member.keys.clone(),
            query: Bytes::copy_from_slice(query),
        };
        let mut stream = member.client.retrieve_again(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.message().await? {
            bytes.extend_from_slice(&chunk.data);
        }
        Ok::<_, tonic::Status>(bytes)
    };
    let mut known: Option<(Round, Vec<u8>)> = None;
    let mut answered = 0;
    while answered < 4 {
        let manifest = events.ready().await;
        let epoch = manifest.code.epoch(manifest.round);
        if let Some((of, query)) = known.clone().filter(|(of, _)| *of == epoch) {
            assert_eq!(of, epoch);
            let digest = Sha256::digest(&query);
            let named = again(&mut one, manifest.round, &digest).await.unwrap();
            assert_eq!(named, one.send_query(manifest.round, query).await.unwrap());
            let others = again(&mut two, manifest.round, &digest).await.unwrap_err();
            assert_eq!(refusal(&others), Refused::UnknownQuery);
            answered += 1;
            continue;
        }
        let targets = vec![None; manifest.buckets.into()];
        let mut rng = rand_chacha::ChaCha20Rng::from_seed([1; 32]);
        let query = one.pir().ask(one.spec(&manifest), &targets, &mut rng).unwrap().bytes;
        let digest = Sha256::digest(&query);
        assert_eq!(
            refusal(&again(&mut one, manifest.round, &digest).await.unwrap_err()),
            Refused::UnknownQuery
        );
        assert_eq!(
            refusal(&again(&mut one, manifest.round, &digest[1..]).await.unwrap_err()),
            Refused::Malformed
        );
        one.send_query(manifest.round, query.clone()).await.unwrap();
        known = Some((epoch, query));
    }
    server.shutdown().await.unwrap();

    let server = self::server(None);
    let mut one = Member::with_keys(&server, 1).await;
    let manifest = one.watch().await.ready().await;
    let refused = again(&mut one, manifest.round, &[0; 32]).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::Malformed, "where nothing stands");
    server.shutdown().await.unwrap();
}
