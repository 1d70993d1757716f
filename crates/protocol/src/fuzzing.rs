//! One function for every decoder that meets bytes from outside. Each takes any bytes, decodes, and asserts what must
//! hold: no panic, nothing kept that is much larger than the input, and what decodes encodes to the same bytes again
//! where a format has one encoding only. The tests here and the crate `fuzz/` call them.

mod valid;

use ed25519_dalek::{Signer, SigningKey};

use crate::deposit::BOX_BYTES;
use crate::directory::DIRECTORY_BYTES;
use crate::group::{Group, Rekey};
use crate::invitation::Invitation;
use crate::manifest::{MANIFEST_BYTES, deposits_digest};
use crate::mapping::BloomMapping;
use crate::message::{Frame, GroupFrame};
use crate::pair::Pair;
use crate::pair::renewal::Renewal;
use crate::seal::{PLAINTEXT_BYTES, Plaintext};
use crate::secret::Secret;
use crate::stream::{TEXT_MAX, WINDOW};
use crate::{
    Client, CodeKind, Deposit, Directory, GroupCard, Label, Manifest, ManifestChain, Round, SignedDirectory,
    SignedManifest, Table, UnixMillis, armour, table,
};

pub use valid::valid;
use valid::{Counting, PAIRS, of_round, plaintext, share, valid_client_state};

/// A manifest, and its signature behind it.
pub fn fuzz_manifest(bytes: &[u8]) {
    let (manifest, rest) = bytes.split_at(bytes.len().min(MANIFEST_BYTES));
    if let Ok(decoded) = Manifest::decode(manifest) {
        assert_eq!(decoded.encode(), manifest);
        assert!(decoded.check().is_ok());
        let slots = decoded.code.has_slots();
        assert_eq!((decoded.code().is_ok(), decoded.table().is_some()), (!slots, slots));
        // What is made of a large table takes a while.
        if slots && decoded.entries < 1 << 16 {
            assert!(decoded.slot_code().is_ok());
        }
        // Nothing is sized by more than what the deposits explain.
        let mapping = decoded.mapping_bytes();
        let explained = (decoded.entries + 1) * u64::from(decoded.choices);
        assert!(mapping <= 1024 * 1024 + 3 * 4 * explained + 3 * 128 * 1024);
    }
    let key = SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes();
    if let Some(signed) = signed(manifest, rest) {
        if let Ok(verified) = signed.verify(&key) {
            assert_eq!(verified.encode(), signed.bytes);
        }
        // A key that the server's address gives is any 32 bytes, too.
        let _ = signed.verify(&core::array::from_fn(|i| signed.bytes[i]));
    }
}

/// A directory of nodes, and its signature behind it.
pub fn fuzz_directory(bytes: &[u8]) {
    let (directory, signature) = bytes.split_at(bytes.len().min(DIRECTORY_BYTES));
    let decoded = Directory::decode(directory);
    if let Ok(decoded) = &decoded {
        assert_eq!(&decoded.encode()[..], directory);
        let again = Directory::new(decoded.number(), decoded.round(), decoded.nodes().iter().cloned());
        assert_eq!(again.as_ref(), Ok(decoded));
    }
    let Ok(signed) = SignedDirectory::from_parts(directory, signature) else { return };
    let key = SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes();
    if let Ok(verified) = signed.verify(&[0; 32], &key) {
        assert_eq!(Ok(verified), decoded);
    }
    let _ = signed.verify(&[0; 32], &core::array::from_fn(|i| signed.bytes[i]));
}

fn signed(manifest: &[u8], signature: &[u8]) -> Option<SignedManifest> {
    Some(SignedManifest {
        bytes: manifest.try_into().ok()?,
        signature: *signature.first_chunk()?,
        segment: None,
    })
}

/// A chain of manifests, 3 bytes for each: its number, which one it calls its predecessor, and whether it is announced
/// or fetched later.
pub fn fuzz_manifest_chain(bytes: &[u8]) {
    let mut chain = ManifestChain::default();
    let mut seen: Vec<Manifest> = Vec::new();
    for step in bytes.as_chunks::<3>().0.iter().take(512) {
        let before = usize::from(step[1]);
        let previous = seen.len().checked_sub(1 + before).map_or([step[1]; 32], |at| seen[at].digest());
        let newest = chain.newest().map_or(1, |(round, _)| round.0);
        let manifest = Manifest {
            version: crate::MANIFEST_VERSION,
            round: Round((newest + u64::from(step[0] % 8)).saturating_sub(3)),
            entries: u64::from(step[0] / 8),
            engine: "none".to_owned(),
            code: CodeKind::Single,
            retrieve: 1,
            buckets: 1,
            choices: 1,
            mapping_kind: crate::manifest::MAPPING_BLOOM,
            bucket_size: 1,
            round_seed: [0; 32],
            mapping_digest: [0; 32],
            deposits_digest: [0; 32],
            buckets_digest: [0; 32],
            profile: [0; 16],
            hint_digest: [0; 32],
            previous,
        };
        let known = chain.prefix_of(manifest.round);
        match step[2] % 4 {
            0 => {
                let from = seen.len().saturating_sub(8);
                let _ = chain.fill_gap(&seen[from..]);
            }
            1 => {
                let _ = chain.fill_gap(core::slice::from_ref(&manifest));
            }
            _ => {
                let accepted = chain.accept(&manifest).is_ok();
                assert!(!accepted || known.is_none(), "another manifest for a known round");
                assert!(!accepted || chain.newest().is_some_and(|(round, _)| round == manifest.round));
            }
        }
        if let Some(known) = chain.prefix_of(manifest.round) {
            assert!(!chain.contradicts(manifest.round, known));
        }
        if let Some((first, last)) = chain.missing() {
            assert!(first <= last, "a gap of nothing");
        }
        seen.push(manifest);
        let size = postcard::experimental::serialized_size(&chain).unwrap_or(usize::MAX);
        assert!(size < 8 << 10, "the chain grows");
    }
}

/// A manifest, and a mapping behind it. The digest is put right, so that also what a lying server signs is read.
pub fn fuzz_mapping(bytes: &[u8]) {
    let (manifest, encoded) = bytes.split_at(bytes.len().min(MANIFEST_BYTES));
    let Ok(mut manifest) = Manifest::decode(manifest) else { return };
    let _ = BloomMapping::decode(encoded, &manifest);
    manifest.mapping_digest = BloomMapping::digest(encoded);
    let (Ok(mapping), Ok(code)) = (BloomMapping::decode(encoded, &manifest), manifest.code()) else { return };
    assert!(mapping.filter_memory() <= 2 * encoded.len() + 128 * usize::from(manifest.buckets));
    for number in 0..4 {
        let label = Label([number * 85; 16]);
        for content in 0..=code.contents() {
            let hits = mapping.hits(&*code, content, &label);
            assert!(hits.len() <= manifest.bucket_size as usize && hits.is_sorted());
            assert!(hits.iter().all(|position| *position < manifest.bucket_size as usize));
        }
    }
}

/// A deposit.
pub fn fuzz_deposit(bytes: &[u8]) {
    if let Ok(deposit) = Deposit::decode(bytes) {
        assert_eq!(deposit.encode(), bytes);
        let digest = deposits_digest(core::slice::from_ref(&deposit));
        assert!(digest != deposits_digest(&[]));
    }
}

/// Deposits of 304 bytes each, as a server with slots stores them, and before them a byte for the size of the table: nothing
/// lies beyond it, and nothing moves but what was deposited.
pub fn fuzz_table(bytes: &[u8]) {
    let Some((lots, rest)) = bytes.split_first() else { return };
    let Some(table) = Table::holding(u32::from(*lots)) else { return };
    let deposits: Vec<Deposit> =
        rest.chunks(304).take(64).filter_map(|bytes| Deposit::decode(bytes).ok()).collect();
    let mut boxes = vec![0; table.places() as usize * BOX_BYTES];
    table.lay(&deposits, &[*lots; 32]).fill_all(&mut boxes);
    let mut backwards = vec![0; boxes.len()];
    let reversed: Vec<Deposit> = deposits.iter().rev().cloned().collect();
    table.lay(&reversed, &[*lots; 32]).fill_all(&mut backwards);
    assert!(boxes == backwards, "the order of deposits shows");
    let (places, _) = boxes.as_chunks::<BOX_BYTES>();
    let filled = places.iter().take(table.slots() as usize).filter(|place| **place != [0; BOX_BYTES]).count();
    assert!(filled <= deposits.len());
    for deposit in &deposits {
        let knock = Label(core::array::from_fn(|at| deposit.label.0.get(4 + at).copied().unwrap_or(0)));
        let (place, at) = table.cell(&knock);
        assert!((table.slots()..table.places()).contains(&place) && at.end <= BOX_BYTES);
    }
    let label = Label(core::array::from_fn(|at| rest.get(at).copied().unwrap_or(0)));
    let told = table::told(&label, rest.get(16..24).unwrap_or_default());
    assert!(told.is_none_or(|slot| {
        let again = table::telling(&label, slot);
        rest.get(16..24) == again.0.get(4..12)
    }));
}

/// What is inside a box of a conversation of two and of a group, as it comes from a contact who writes anything.
pub fn fuzz_message(bytes: &[u8]) {
    let plaintext = plaintext(bytes);
    let round = Round(u64::from_le_bytes(core::array::from_fn(|i| plaintext[16 + i])));
    if let Ok(frame) = Frame::decode(&plaintext, round) {
        assert!(frame.encode().is_ok_and(|again| *again == *plaintext));
    }
    let mut signature = [0; 64];
    let keep = |_: &Plaintext, with: &[u8; 64]| {
        signature = *with;
        true
    };
    if let Ok(frame) = GroupFrame::decode(&plaintext, round, keep) {
        assert!(frame.encode(|_| signature).is_ok_and(|again| *again == *plaintext));
    }
}

/// Sealed boxes: none opens but the one that was sealed under the key.
pub fn fuzz_box(bytes: &[u8]) {
    let chain = || crate::ratchet::Chain::new(Round(1), Secret::new([7; 32]));
    let (Some(sealing), Some(opening)) = (chain().take(Round(1)), chain().take(Round(1))) else {
        return;
    };
    let genuine = sealing.sealing(0).seal(&plaintext(bytes));
    let key = opening.opening(0);
    assert!(key.open(&genuine.sealed.0).is_some_and(|opened| *opened == *plaintext(bytes)));
    assert!(bytes == genuine.sealed.0 || key.open(bytes).is_none());
}

/// A conversation with a contact whose messages are any bytes: 273 for each, the first of which chooses the keys under
/// which it came; and one who renews keys by all of them.
pub fn fuzz_pair(bytes: &[u8]) {
    for (mut renewal, length) in
        [(Renewal::Offered(share(6), Round(8)), 1128), (Renewal::Awaiting(share(7)), 1216)]
    {
        let taken = renewal.take(bytes, Round(20));
        assert_eq!(taken.is_ok(), matches!(renewal, Renewal::Changing(_)));
        assert!(taken.is_err() || bytes.len() == length);
    }
    assert_eq!(PAIRS.len(), 6);
    for stored in PAIRS.iter() {
        let pair: Result<Pair, _> = postcard::from_bytes(stored);
        let Ok(mut pair) = pair else { unreachable!("what was stored is read") };
        for (round, message) in (50..).zip(bytes.chunks(1 + PLAINTEXT_BYTES).take(64)) {
            let Some((epoch, content)) = message.split_first() else { return };
            let plaintext = of_round(content, round);
            // Of requests, of the conversation, or those that replace them.
            let keys = [0, 1, 4][usize::from(epoch % 3)];
            let taken = pair.receive(keys, &plaintext, Round(round), Round(round + 1), &[]);
            assert!(taken.is_err() || Frame::decode(&plaintext, Round(round)).is_ok());
            let size = postcard::experimental::serialized_size(&pair).unwrap_or(usize::MAX);
            assert!(
                size <= TEXT_MAX + WINDOW as usize * 300 + 4096,
                "the conversation grows to {size} bytes"
            );
        }
    }
}

/// A group with a member who signs any bytes; some of them are new keys for the group.
pub fn fuzz_group(bytes: &[u8]) {
    let keys = [SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32])];
    let name = |number: usize| ["alice", "bob"][number].to_owned();
    let member = |number: usize| (name(number), keys[number].verifying_key().to_bytes());
    let (members, start) = (vec![member(0), member(1)], (Round(1), UnixMillis(0)));
    let Ok(card) = GroupCard::new([3; 8], "desk", (members, Vec::new()), start, &mut Counting(0)) else {
        return;
    };
    let Ok(mut group) = Group::new(&card, member(0).1, Round(1)) else { return };
    for (round, message) in (20..).zip(bytes.chunks(1 + PLAINTEXT_BYTES).take(32)) {
        let Some((kind, content)) = message.split_first() else { return };
        if kind % 4 == 0 {
            if let Some(rekey) = content.get(..61).and_then(|content| Rekey::decode(content).ok()) {
                assert_eq!(rekey.encode()[..], content[..61]);
                let _ = group.offer(kind / 4 % 3, rekey, Round(round));
                group.tend(Round(8 * round));
            }
        } else {
            let (epoch, label) = (u32::from(kind / 4 % 2), Label([*kind; 16]));
            let mut plaintext = of_round(content, round);
            plaintext[40..104].fill(0);
            let signature = keys[1].sign(&group.signed(epoch, 1, label, &plaintext)).to_bytes();
            plaintext[40..104].copy_from_slice(&signature);
            let _ = group.receive((epoch, 1), label, &plaintext, Round(round));
        }
        let size = postcard::experimental::serialized_size(&group).unwrap_or(usize::MAX);
        assert!(size <= 2 * (TEXT_MAX + WINDOW as usize * 300) + 8192, "the group grows to {size} bytes");
    }
}

/// Invitations, as text and behind a checksum that holds.
pub fn fuzz_invitation(bytes: &[u8]) {
    for text in
        [String::from_utf8_lossy(bytes).into_owned(), armour::encode("sotto-invite-3-", bytes).to_string()]
    {
        if let Ok(invitation) = text.parse::<Invitation>() {
            assert_eq!(invitation.to_string(), text.trim().to_ascii_lowercase());
        }
    }
}

/// Announcements.
pub fn fuzz_announcement(bytes: &[u8]) {
    if let Ok(parameters) = crate::ServerParameters::decode(bytes) {
        assert_eq!(parameters.encode()[..], *bytes);
        let _ = (parameters.check(), parameters.manifest_key_of(Round(1)));
    }
}

/// Group cards, as text and behind a checksum that holds.
pub fn fuzz_card(bytes: &[u8]) {
    for text in [
        String::from_utf8_lossy(bytes).into_owned(),
        armour::encode("sotto-group-1-", bytes).to_string(),
        armour::encode("sotto-group-2-", bytes).to_string(),
    ] {
        if let Ok(card) = text.parse::<GroupCard>() {
            assert_eq!(card.to_string(), text.trim().to_ascii_lowercase());
            assert!(card.members().len() <= 8);
        }
    }
}

/// A client's state, as it is and behind a checksum that holds.
pub fn fuzz_client_state(bytes: &[u8]) {
    let checked = crate::client::checked(bytes);
    for state in [bytes, &checked] {
        let Ok(client) = Client::restore(state) else { continue };
        let snapshot = client.snapshot();
        assert!(snapshot.len() <= state.len(), "a snapshot has more bytes than it came from");
        assert!(Client::restore(&snapshot).is_ok_and(|again| *again.snapshot() == *snapshot));
        let _ = (client.conversations(), client.newest_round(), client.missing_manifests());
    }
}

/// The answers to a retrieval, and the mapping before it, if there is one: a client with a contact looks up and takes what
/// comes.
pub fn fuzz_answers(bytes: &[u8]) {
    for code in [CodeKind::Cuckoo, CodeKind::Partitioned] {
        answers(bytes, &valid_client_state(code));
    }
}

fn answers(bytes: &[u8], state: &[u8]) {
    let mut rng = Counting(1);
    let Ok(mut client) = Client::restore(state) else { return };
    let (now, round) = (UnixMillis(2_000), client.newest_round().next());
    if client.open_round(round, now, &mut rng).is_err() {
        return;
    }
    let (manifest, rest) = bytes.split_at(bytes.len().min(MANIFEST_BYTES));
    if let Ok(mut manifest) = Manifest::decode(manifest) {
        manifest.round = round;
        if !manifest.code.has_slots() {
            manifest.mapping_digest = BloomMapping::digest(rest);
        }
        let key = SigningKey::from_bytes(&[1; 32]);
        client.ready(&SignedManifest::sign(&manifest, &key));
    }
    let retrieval = client.lookup(round, rest, &mut rng);
    assert_eq!(retrieval.targets.len(), usize::from(client.server().buckets));
    let elements = rest.chunks(288).map(|element| Some(element.to_vec())).collect();
    client.received(retrieval, elements);
}

#[cfg(test)]
mod tests;
