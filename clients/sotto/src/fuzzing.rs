//! What this crate reads from outside, with any bytes: addresses, state files, proofs. The tests here and the crate
//! `fuzz/` call these functions.

use bytes::Bytes;
use mpir::Engines;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::{MAPPING_BLOOM, SIGNATURE_BYTES};
use sotto_protocol::negotiation::ANNOUNCEMENT_BYTES;
use sotto_protocol::{CodeKind, MANIFEST_VERSION, Manifest, Round, SignedManifest};
use sotto_wire::{Host, RootKey, Transport};

use crate::Address;
use crate::daemon::{parcel, reply};
use crate::store::format::{self, Content};
use sotto_participant::audit::{Announced, Digests, Proof, Verdict, judge};

/// An address: what is one prints as one that is the same.
pub fn fuzz_address(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(address) = text.parse::<Address>() {
        assert!(address.to_string().parse::<Address>().is_ok_and(|again| again == address));
        let count = address.authorities().count();
        assert!(address.to_string().len() <= text.len() + 8 * count);
        assert!(address.in_order_of(&[1; 32], None).len() == count);
    }
}

/// A state file, as it is and behind a checksum that holds. What is read is written as a file that reads the same.
pub fn fuzz_state_file(bytes: &[u8]) {
    for file in [bytes, &format::checked(1, bytes), &format::checked(2, bytes)] {
        // One that is closed would be opened with what it says that this costs: its bounds are tested beside it.
        let Ok(Content::Open(address, snapshot)) = format::decode(file) else { continue };
        assert!(snapshot.len() < file.len());
        let again = format::encode(&address, snapshot, None);
        let read = format::decode(&again);
        assert!(matches!(read, Ok(Content::Open(other, same)) if other == address && same == snapshot));
    }
}

/// A proof against a server. What is read is written as the same bytes, and convicts nobody who has not signed it.
pub fn fuzz_proof(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok(proof) = Proof::decode(&bytes) else { return };
    assert!(proof.encode() == bytes);
    assert!(matches!(judge(&Engines::default(), &proof, &RootKey([1; 32])), Verdict::Invalid(_)));
}

/// A record of the history.
pub fn fuzz_history(bytes: &[u8]) {
    crate::daemon::history::fuzz(bytes);
}

/// A text that may be a reply, or a part of a file: what is one is written as it is read.
pub fn fuzz_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let (Some(reference), said) = reply::read(&text) {
        assert!(reference.write(said) == text);
    }
    if let Some(part) = parcel::read(&text) {
        assert!(part.number <= part.parts && !part.file.is_empty());
    }
}

/// Valid encodings to begin with.
#[must_use]
pub fn valid() -> Vec<Vec<u8>> {
    let local = Host::Ip(core::net::Ipv4Addr::LOCALHOST.into());
    let Ok(address) = Address::new(Transport::Plaintext, local, 7370, RootKey([7; 32])) else {
        return Vec::new();
    };
    let file = format::encode(&address, b"a snapshot", None).to_vec();
    let body = file[format::HEAD_BYTES..].to_vec();
    let key = "a".repeat(52);
    let host = |host: &str| format!("sotto://{host}:7370/{key}").into_bytes();
    vec![
        address.to_string().into_bytes(),
        file,
        body,
        host("localhost"),
        host("[::1]"),
        host("example.org"),
        proof().encode(),
        host("example.org:7370,[::1]:7370,192.0.2.7"),
        crate::daemon::history::valid(),
        reply::Reference::to(reply::Whose::Member(3), 77, "a text").write("said").into_bytes(),
        parcel().text(0).as_bytes().to_vec(),
        parcel().text(1).as_bytes().to_vec(),
    ]
}

fn parcel() -> parcel::Parcel {
    parcel::Parcel::new("map.png", vec![7; 90]).expect("it has a name and a content")
}

/// A proof that proves nothing.
fn proof() -> Proof {
    let manifest = Manifest {
        version: MANIFEST_VERSION,
        round: Round(9),
        entries: 1,
        engine: "noop-no-privacy".to_owned(),
        code: CodeKind::Single,
        retrieve: 1,
        buckets: 1,
        choices: 1,
        mapping_kind: MAPPING_BLOOM,
        bucket_size: 1,
        round_seed: [0; 32],
        mapping_digest: [1; 32],
        deposits_digest: [2; 32],
        buckets_digest: [3; 32],
        profile: [0; 16],
        hint_digest: [0; 32],
        previous: [4; 32],
    };
    Proof {
        announced: Announced { announcement: [5; ANNOUNCEMENT_BYTES], endorsement: [6; 64] },
        manifest: SignedManifest { bytes: manifest.encode(), signature: [7; SIGNATURE_BYTES], segment: None },
        receipt: [8; 64],
        unit: 0,
        digests: Digests { buckets: vec![[9; 32]], queries: vec![[10; 32]], answers: vec![[11; 32]] },
        keys: Bytes::from_static(b"keys"),
        query: Bytes::from_static(b"query"),
        answer: Bytes::from_static(b"answer"),
        boxes: Bytes::from_static(&[12; BOX_BYTES]),
        hints: Some(vec![[13; 32]]),
    }
}

#[cfg(test)]
mod tests;
