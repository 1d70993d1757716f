//! Keys and ciphertexts that no client makes.

use bytes::Bytes;
use mpir::sealpir;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_wire::{Refused, proto, split};
use tonic::Status;

use super::honest::Honest;
use super::support::{Member, refusal};
use super::{target, target_of};

/// Bytes in front of keys, query and answer of the real engine.
const HEADER: usize = 4;
const SEED: u64 = 7;

fn random(length: usize, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    ChaCha20Rng::seed_from_u64(SEED ^ number).fill_bytes(&mut bytes);
    bytes
}

async fn upload(member: &mut Member, keys: Vec<u8>) -> Result<(), Status> {
    let session = member.session.clone();
    let first = move |number| if number == 0 { session.clone() } else { Bytes::new() };
    let chunk = |(number, data)| proto::KeysChunk { session: first(number), data };
    let chunks: Vec<_> = split(keys.into()).enumerate().map(chunk).collect();
    member.keys = member.client.upload_keys(tokio_stream::iter(chunks)).await?.into_inner().digest;
    Ok(())
}

pub(crate) async fn keys_that_are_none_are_refused_and_those_that_could_be_some_hurt_nobody() {
    let server = target_of(sealpir(), |config| config.round_ms = 3000);
    let honest = Honest::start(&server).await;
    let mut member = Member::register(&server, 1).await;
    let right = member.pir().public_keys();
    let size = sealpir().public_keys_bytes();
    assert_eq!(right.len(), size);

    let mut wrong: Vec<(&str, Vec<u8>)> =
        [0, 1, HEADER - 1, HEADER, HEADER + 31, HEADER + 32, size / 2, size - 1]
            .into_iter()
            .map(|length| ("cut short", right[..length].to_vec()))
            .collect();
    wrong.push(("too long", [right.as_slice(), &[0]].concat()));
    for at in 0..HEADER {
        let mut header = right.clone();
        header[at] ^= 1;
        wrong.push(("another header", header));
    }
    wrong.push(("zeros", vec![0; size]));
    wrong.push(("ones", vec![0xff; size]));
    let mut ones = right.clone();
    ones[HEADER..].fill(0xff);
    wrong.push(("coefficients out of range", ones));
    let mut last = right.clone();
    last[size - 16..].fill(0xff);
    wrong.push(("the last coefficient out of range", last));
    wrong.push(("random bytes", random(size, 0)));
    for (what, keys) in wrong {
        let length = keys.len();
        let refused = upload(&mut member, keys).await.unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed, "{what}, {length} bytes");
    }

    // Well-formed, and keys of nobody: whoever uploads them gets answers that say nothing.
    let mut zeros = right.clone();
    zeros[HEADER..].fill(0);
    upload(&mut member, zeros).await.unwrap();
    let mut events = member.watch().await;
    let manifest = events.ready().await;
    let buckets = usize::from(manifest.buckets);
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let request = member.pir().cover(member.spec(&manifest), &mut rng).unwrap();
    let answers = member.send_query(manifest.round, request.bytes).await.unwrap();
    assert_eq!(answers.len(), member.sizes(&manifest).answer.bytes());

    // The right keys under a digest that is not theirs.
    upload(&mut member, right).await.unwrap();
    member.keys = vec![0; 32].into();
    let manifest = events.ready().await;
    let refused = member.retrieve(&manifest, &vec![None; buckets]).await.unwrap_err();
    assert_eq!(refusal(&refused), Refused::UnknownKeys);
    honest.were_served("invalid keys").await;
    server.shutdown().await.unwrap();
}

/// One account for each query: what is answered uses the round's quota up.
pub(crate) async fn ciphertexts_that_no_client_makes_get_a_refusal_or_a_harmless_answer() {
    let server = target_of(sealpir(), |config| config.round_ms = 3000);
    let honest = Honest::start(&server).await;
    let mut members = Vec::new();
    for number in 1..=7 {
        members.push(Member::with_keys(&server, number).await);
    }
    let manifest = members[0].watch().await.ready().await;
    let (sizes, buckets) = (members[0].sizes(&manifest), usize::from(manifest.buckets));
    let size = sizes.request.range(0).len();
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let built = members[0].pir().cover(members[0].spec(&manifest), &mut rng).unwrap().bytes;
    let header = built[..HEADER].to_vec();
    // The last bits of a query pad it, and are zero.
    let each = |body: Vec<u8>| [header.as_slice(), &body[HEADER..size - 1], &[0]].concat().repeat(buckets);
    let padded = [header.as_slice(), &vec![0xff; size - HEADER]].concat().repeat(buckets);
    let last_wrong = {
        let mut query = built;
        query[(buckets - 1) * size] ^= 0xff;
        query
    };
    let queries = [
        ("zeros without a header", vec![0; size * buckets], false),
        ("random bytes without a header", random(size * buckets, 1), false),
        ("the last of the queries wrong", last_wrong, false),
        ("padding that is not zero", padded, false),
        ("all coefficients zero", each(vec![0; size]), true),
        ("all coefficients as large as can be", each(vec![0xff; size]), true),
        ("random coefficients", each(random(size, 2)), true),
    ];
    for ((what, query, answered), member) in queries.into_iter().zip(&mut members) {
        match member.send_query(manifest.round, query).await {
            Ok(answers) => {
                assert!(answered, "{what} was answered");
                assert_eq!(answers.len(), sizes.answer.bytes(), "{what}");
            }
            Err(refused) => {
                assert!(!answered, "{what}: {refused:?}");
                assert_eq!(refusal(&refused), Refused::Malformed, "{what}");
            }
        }
    }
    honest.were_served("invalid ciphertexts").await;
    server.shutdown().await.unwrap();
}

pub(crate) async fn queries_beyond_the_database_are_refused_by_the_engine_of_the_tests_too() {
    let server = target(|_| {});
    let honest = Honest::start(&server).await;
    let mut manifest = None;
    for number in 1..=8_u8 {
        let mut member = Member::with_keys(&server, number).await;
        let manifest = match &manifest {
            Some(manifest) => manifest,
            None => manifest.insert(member.watch().await.ready().await),
        };
        let size = member.sizes(manifest).request.bytes();
        let query = match number {
            1 => vec![0xff; size],
            _ => random(size, number.into()),
        };
        let refused = member.send_query(manifest.round, query).await.unwrap_err();
        assert_eq!(refusal(&refused), Refused::Malformed, "seed {SEED}");
    }
    honest.were_served("queries beyond the database").await;
    server.shutdown().await.unwrap();
}
