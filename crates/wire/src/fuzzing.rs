//! One function for every message and conversion of this crate. Each takes any bytes, decodes, and asserts what must hold.
//! The tests here and the crate `fuzz/` call them.

use bytes::Bytes;
use prost::Message;
use sotto_protocol::manifest::MANIFEST_BYTES;
use sotto_protocol::{SignedDirectory, SignedManifest};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::status::REASON;
use crate::{Failure, Info, Join, Refused, Token, convert, fixed, proto, split};

/// Every message of the schema: what decodes encodes to a message that is the same, and no larger than the bytes that came.
pub fn fuzz_messages(bytes: &[u8]) {
    survives::<proto::InfoRequest>(bytes);
    survives::<proto::ChallengeRequest>(bytes);
    survives::<proto::ChallengeResponse>(bytes);
    survives::<proto::RegisterRequest>(bytes);
    survives::<proto::RegisterResponse>(bytes);
    survives::<proto::KeysChunk>(bytes);
    survives::<proto::UploadKeysResponse>(bytes);
    survives::<proto::WatchRequest>(bytes);
    survives::<proto::RoundEvent>(bytes);
    survives::<proto::MappingRequest>(bytes);
    survives::<proto::MappingChunk>(bytes);
    survives::<proto::QueryChunk>(bytes);
    survives::<proto::AnswerChunk>(bytes);
    survives::<proto::UnitRequest>(bytes);
    survives::<proto::UnitChunk>(bytes);
    survives::<proto::HintRequest>(bytes);
    survives::<proto::RetrieveAgainRequest>(bytes);
    survives::<proto::HintChunk>(bytes);
    survives::<proto::ManifestsRequest>(bytes);
    if let Some(info) = survives::<proto::InfoResponse>(bytes)
        && let Ok(checked) = Info::try_from(info.clone())
    {
        assert_eq!(proto::InfoResponse::from(checked), info);
    }
    if let Some(manifest) = survives::<proto::SignedManifest>(bytes)
        && let Ok(checked) = SignedManifest::try_from(&manifest)
    {
        assert_eq!(proto::SignedManifest::from(&checked), manifest);
    }
    if let Some(directory) = survives::<proto::Directory>(bytes)
        && let Ok(checked) = SignedDirectory::try_from(&directory)
    {
        assert_eq!(proto::Directory::from(&checked), directory);
    }
    if let Some(request) = survives::<proto::DepositRequest>(bytes)
        && let Ok(deposit) = convert::deposit(&request.deposit)
    {
        assert_eq!(deposit.encode(), request.deposit[..]);
    }
    if let Some(request) = survives::<proto::DepositRequest>(bytes)
        && let Ok(deposit) = convert::deposit_in_table(&request.deposit, 7)
    {
        assert_eq!(deposit.encode()[..4], [7, 0, 0, 0]);
        assert_eq!(deposit.encode()[4..], request.deposit[..]);
    }
    if let Ok(Some(slot)) = convert::slot(bytes) {
        assert_eq!(convert::encode_slot(&slot), bytes);
    }
    assert_eq!(fixed::<32>(bytes, "field").is_ok(), bytes.len() == 32);
}

fn survives<M: Message + Default + PartialEq>(bytes: &[u8]) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    let encoded = message.encode_to_vec();
    assert!(encoded.len() <= bytes.len(), "{} bytes from {}", encoded.len(), bytes.len());
    assert!(M::decode(&*encoded).is_ok_and(|again| again == message));
    Some(message)
}

/// A token as people pass it on.
pub fn fuzz_token(bytes: &[u8]) {
    if let Ok(token) = String::from_utf8_lossy(bytes).parse::<Token>() {
        let again = token.to_string().parse::<Token>();
        assert!(again.is_ok_and(|again| again.bytes() == token.bytes()));
    }
}

/// A stream of chunks: the size that is expected, and then the sizes of the chunks, two bytes each.
pub fn fuzz_chunks(bytes: &[u8]) {
    let mut sizes = bytes.as_chunks::<2>().0.iter().map(|size| usize::from(u16::from_le_bytes(*size)));
    let expected = sizes.next().unwrap_or(0);
    let (mut join, mut sent) = (Join::exactly(expected), 0);
    for size in sizes {
        let taken = join.push(&vec![7; size][..]);
        assert!(join.len() <= expected);
        sent += if taken.is_ok() { size } else { 0 };
        assert_eq!(join.len(), sent);
    }
    assert_eq!(join.finish().is_ok(), sent == expected);
    let whole = Bytes::copy_from_slice(bytes);
    assert_eq!(split(whole).flatten().collect::<Vec<u8>>(), bytes);
}

/// A status that is no refusal of ours: a code, and a word.
pub fn fuzz_status(bytes: &[u8]) {
    let (code, word) = bytes.split_first().unwrap_or((&0, &[]));
    let mut metadata = MetadataMap::new();
    if let Ok(value) = MetadataValue::try_from(word) {
        metadata.insert(REASON, value);
    }
    let status = Status::with_metadata(Code::from(i32::from(*code)), String::from_utf8_lossy(word), metadata);
    if let Failure::Refused(refused) = Failure::from(&status) {
        assert_eq!(Status::from(refused).metadata().get(REASON).map(|word| word.as_bytes()), Some(word));
    }
}

/// Valid encodings to begin with.
#[must_use]
pub fn valid() -> Vec<Vec<u8>> {
    let [short, key, long] = [16, 32, 304].map(|size| Bytes::from(vec![7; size]));
    let manifest = || proto::SignedManifest {
        manifest: vec![1; MANIFEST_BYTES].into(),
        signature: vec![2; 64].into(),
        segment: vec![3; 128].into(),
    };
    let ready = proto::RoundReady { manifest: Some(manifest()), elapsed_ms: 5 };
    let opened = proto::RoundOpened { round: 9, elapsed_ms: 5 };
    let event = |event| proto::RoundEvent { event: Some(event) }.encode_to_vec();
    let info = proto::InfoResponse {
        protocol_version: 2,
        manifest_key: key.clone(),
        engine: "none".to_owned(),
        security_bits: 128,
        code: 0,
        retrieve: 4,
        buckets: 12,
        choices: 3,
        retained: 2,
        closed_loop: true,
        round_ms: 1000,
        deposit_ms: 100,
        lookup_ms: 200,
        query_ms: 300,
        deposit_spread_ms: 500,
        query_spread_ms: 600,
        open_round: 9,
        endorsement: vec![4; 64].into(),
        token_required: true,
        serial: 3,
        seed_first: 1,
        seed_segments: 8192,
        seed_root: key.clone(),
        key_epoch: 2,
        key_first: 5,
        key_end: 900,
        former_key: key.clone(),
    };
    let announced =
        proto::Announcement { announcement: vec![5; 205].into(), endorsement: vec![4; 64].into() };
    let key_again = key.clone();
    let again =
        proto::RetrieveAgainRequest { session: key.clone(), round: 9, keys: key.clone(), query: key.clone() };
    let query = proto::QueryChunk { session: key.clone(), round: 9, keys: key.clone(), data: short.clone() };
    vec![
        info.encode_to_vec(),
        manifest().encode_to_vec(),
        event(proto::round_event::Event::Ready(ready)),
        event(proto::round_event::Event::Opened(opened)),
        event(proto::round_event::Event::Directory(proto::Directory {
            directory: vec![6; 8208].into(),
            signature: vec![7; 64].into(),
        })),
        event(proto::round_event::Event::Announced(announced)),
        proto::DepositRequest { session: key.clone(), round: 9, deposit: long }.encode_to_vec(),
        proto::RegisterRequest {
            account: key.clone(),
            nonce: key.clone(),
            signature: vec![3; 64].into(),
            token: key,
            slot: vec![7; 20].into(),
        }
        .encode_to_vec(),
        query.encode_to_vec(),
        again.encode_to_vec(),
        proto::AnswerChunk { data: short.clone(), receipt: vec![5; 64].into() }.encode_to_vec(),
        proto::UnitRequest { session: key_again, round: 9, unit: 23 }.encode_to_vec(),
        proto::MappingChunk { data: short }.encode_to_vec(),
        [&[8][..], Refused::Busy.to_string().as_bytes()].concat(),
        b"\x08busy".to_vec(),
    ]
}

#[cfg(test)]
mod tests;
