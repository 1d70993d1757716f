//! One function for every decoder that meets bytes from outside. Each takes any bytes, decodes, and asserts what must
//! hold: no panic, nothing kept that is much larger than the input, and what decodes encodes to the same bytes again
//! where a format has one encoding only. The tests here and the crate `fuzz/` call them.

use std::sync::LazyLock;

use ed25519_dalek::{Signer, SigningKey};

use crate::deposit::BOX_BYTES;
use crate::directory::DIRECTORY_BYTES;
use crate::group::{Group, Rekey};
use crate::invitation::Invitation;
use crate::manifest::{MANIFEST_BYTES, deposits_digest};
use crate::mapping::BloomMapping;
use crate::message::{Frame, GroupFrame};
use crate::pair::Pair;
use crate::pair::renewal::{Renewal, Share};
use crate::seal::{PLAINTEXT_BYTES, Plaintext};
use crate::secret::Secret;
use crate::stream::{TEXT_MAX, WINDOW};
use crate::{
    Client, CodeKind, Deposit, Directory, GroupCard, Label, Manifest, ManifestChain, OwnSlot, Round,
    SealedBox, SignedDirectory, SignedManifest, Table, UnixMillis, armour, table,
};

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

/// Valid encodings to begin with: of manifests, manifests with mappings, and so on, by the name of the function.
#[must_use]
pub fn valid(decoder: &str) -> Vec<Vec<u8>> {
    match decoder {
        "manifest" | "mapping" | "answers" => [
            (CodeKind::Cuckoo, 4, 12, 3),
            (CodeKind::Single, 1, 1, 1),
            (CodeKind::Single, 3, 3, 1),
            (CodeKind::Hybrid, 4, 18, 2),
            (CodeKind::Partitioned, 4, 12, 3),
        ]
        .map(valid_round)
        .into(),
        "client_state" => [CodeKind::Cuckoo, CodeKind::Partitioned].map(valid_client_state).into(),
        "invitation" => vec![valid_invitation().to_string().into_bytes()],
        "card" => [Vec::new(), vec![5, 0, 1 << 20]].into_iter().filter_map(valid_card).collect(),
        "announcement" => vec![valid_parameters(CodeKind::Cuckoo).encode().to_vec()],
        "box" => vec![vec![0; 288]],
        "deposit" => vec![vec![7; 304]],
        "directory" => [0, 2, 64].into_iter().filter_map(valid_directory).collect(),
        "table" => {
            let deposits = (0..5_u8).map(|slot| table::stored(u32::from(slot % 4), &[slot; 12]).0);
            vec![deposits.fold(vec![3], |bytes, key| [bytes, key.to_vec(), vec![key[0]; BOX_BYTES]].concat())]
        }
        _ => valid_messages(),
    }
}

const START: (Round, UnixMillis) = (Round(1), UnixMillis(1_000));

/// A manifest with the mapping of a few deposits behind it.
fn valid_round((code, retrieve, buckets, choices): (CodeKind, u16, u16, u8)) -> Vec<u8> {
    let deposits: Vec<Deposit> =
        (0..5).map(|i| Deposit { label: Label([i; 16]), sealed: SealedBox([i; 288]) }).collect();
    let mut manifest = Manifest {
        version: crate::MANIFEST_VERSION,
        round: Round(9),
        entries: 5,
        engine: "none".to_owned(),
        code,
        retrieve,
        buckets,
        choices,
        mapping_kind: crate::manifest::mapping_kind(code),
        bucket_size: 5,
        round_seed: [5; 32],
        mapping_digest: [0; 32],
        deposits_digest: deposits_digest(&deposits),
        buckets_digest: [0; 32],
        profile: [0; 16],
        hint_digest: [0; 32],
        previous: [6; 32],
    };
    if code.has_slots() {
        manifest.deposits_digest = [0; 32];
        (manifest.entries, manifest.bucket_size) =
            (33, 33_u32.div_ceil((buckets / u16::from(choices)).into()));
        return manifest.encode().to_vec();
    }
    let labels: Vec<Label> = deposits.iter().map(|deposit| deposit.label).collect();
    let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
    let mapping = manifest
        .code()
        .and_then(|code| BloomMapping::build(&manifest.round_seed, &*code, &code.encode(&keys), &labels, 5));
    let mapping = mapping.unwrap_or_default();
    manifest.mapping_digest = BloomMapping::digest(&mapping);
    [&manifest.encode()[..], &mapping].concat()
}

/// A directory of so many nodes, as the holder of key 1 signs it for the root of zeros.
fn valid_directory(nodes: usize) -> Option<Vec<u8>> {
    let nodes = (0..nodes).map(|number| format!("node-{number}.example.org:7370"));
    let directory = Directory::new(3, Round(9), nodes).ok()?;
    let signed = SignedDirectory::sign(&directory, &[0; 32], &SigningKey::from_bytes(&[1; 32]));
    Some([&signed.bytes[..], &signed.signature].concat())
}

/// Of the side whose exchange secret and identity are numbered 4 and 1.
fn valid_invitation() -> Invitation {
    let identity = SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes();
    let exchange = crate::pair::handshake::exchange_key(&Secret::new([4; 32]));
    let expires = UnixMillis(2_000_000);
    Invitation::new([3; 8], (exchange, identity), START, expires, &mut Counting(0))
}

fn valid_card(slots: Vec<u32>) -> Option<Vec<u8>> {
    let members = ["alice", "bob", "carol"].map(|name| (name.to_owned(), [name.as_bytes()[0]; 32]));
    let card = GroupCard::new([3; 8], "desk", (members.into(), slots), START, &mut Counting(0)).ok()?;
    Some(card.to_string().into_bytes())
}

/// A client with a contact, a group and something to say; of a server with slots, with a slot and a contact.
fn valid_parameters(code: CodeKind) -> crate::ServerParameters {
    crate::ServerParameters {
        protocol_version: crate::PROTOCOL_VERSION,
        serial: 1,
        manifest_key: SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes(),
        seeds: crate::SeedCommitment::default(),
        engine: "none".to_owned(),
        security_bits: 128,
        code,
        retrieve: 4,
        buckets: 12,
        choices: 3,
        retained: 2,
        mode: crate::RoundMode::Deadline,
        round_ms: 1000,
        deposit_ms: 100,
        lookup_ms: 200,
        query_ms: 300,
        deposit_spread_ms: 0,
        query_spread_ms: 0,
        key_epoch: crate::KeyEpoch::ENDLESS,
    }
}

fn valid_client_state(code: CodeKind) -> Vec<u8> {
    let mut rng = Counting(0);
    let server = valid_parameters(code);
    let settings = crate::Settings { conversations: 2 };
    let Ok(mut client) = Client::new("alice", server, settings, START, &mut rng) else { return Vec::new() };
    let roster = [("bob".to_owned(), SigningKey::from_bytes(&[2; 32]).verifying_key().to_bytes())];
    if code.has_slots() {
        client.keep_slot(OwnSlot { number: 7, credential: [8; 16] });
    }
    let group = |client: &mut Client, rng: &mut Counting| {
        client.create_group("desk", &roster, rng).is_ok()
            && client.find("desk").is_some_and(|desk| client.queue_text(desk, "to say").is_ok())
    };
    let made = client.invite("bob", START.1, &mut rng).is_ok()
        && (code.has_slots() || group(&mut client, &mut rng))
        && client.open_round(START.0, START.1, &mut rng).is_ok();
    if made { client.snapshot().to_vec() } else { Vec::new() }
}

/// Messages of every kind, one behind the other, each behind a byte.
fn valid_messages() -> Vec<Vec<u8>> {
    use crate::message::Kind;

    let kinds = [Kind::Text, Kind::Acknowledgement, Kind::Rekey, Kind::Leave, Kind::Hello, Kind::Renewal];
    let message = |(number, kind): (usize, Kind)| {
        let frame = Frame {
            kind,
            flags: 0,
            sequence: u32::from(kind.is_numbered()),
            acknowledgement: 0,
            check: 0,
            before: 0,
            round: Round(20),
            head: Some((Round(9), [1; 8])),
            content: zeroize::Zeroizing::new(match kind {
                Kind::Text => vec![65; 40],
                Kind::Leave => vec![66; 81],
                Kind::Renewal => vec![67; 232],
                _ => Vec::new(),
            }),
        };
        let plaintext = frame.encode().map_or_else(|_| Vec::new(), |plaintext| plaintext.to_vec());
        [&[number as u8][..], &plaintext].concat()
    };
    let all: Vec<Vec<u8>> = kinds.into_iter().enumerate().map(message).collect();
    let bare = all.iter().map(|message| message[1..].to_vec());
    let offer = share(6).offer();
    let answer = share(7).answer(&offer, Round(8)).map(|(answer, _)| answer).unwrap_or_default();
    bare.chain([all.concat(), [all[0].clone(), all[0].clone()].concat()]).chain([offer, answer]).collect()
}

fn plaintext(bytes: &[u8]) -> Plaintext {
    Plaintext::new(core::array::from_fn::<u8, PLAINTEXT_BYTES, _>(|i| bytes.get(i).copied().unwrap_or(0)))
}

/// The plaintext with the round in which it comes, without which all others would be refused at once.
fn of_round(bytes: &[u8], round: u64) -> Plaintext {
    let mut plaintext = plaintext(bytes);
    plaintext[16..24].copy_from_slice(&round.to_le_bytes());
    plaintext
}

fn share(number: u8) -> Share {
    Share::new(Secret::new([number; 32]))
}

/// Both sides of conversations before the handshake, behind it, and while keys are renewed, as they are stored: made once, however
/// many inputs come.
static PAIRS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let sides = [0, 20, 45].into_iter().flat_map(|rounds| pair(rounds).into_iter().flatten());
    sides.filter_map(|pair| postcard::to_allocvec(&pair).ok()).collect()
});

/// Both sides of a conversation after so many rounds.
fn pair(rounds: u64) -> Option<[Pair; 2]> {
    let invitation = valid_invitation();
    let keys = [1, 2].map(|seed| SigningKey::from_bytes(&[seed; 32]));
    let mut one =
        Pair::inviting(&invitation, (Secret::new([4; 32]), Secret::new([6; 32])), START.1, Round(1)).ok()?;
    let mut other = Pair::accepting(
        &invitation,
        (&Secret::new([5; 32]), Secret::new([7; 32])),
        &keys[1],
        START.1,
        Round(1),
    )
    .ok()?;
    for round in (1..rounds).map(Round) {
        let turn = |number: usize| crate::turn::Turn {
            round,
            mine: true,
            slot: None,
            last: None,
            knocks: true,
            head: None,
            identity: &keys[number],
        };
        let (from_one, to_one) = one.open_round(&turn(0));
        let (from_other, to_other) = other.open_round(&turn(1));
        for (pair, deposit, listening) in [(&mut one, from_other, to_one), (&mut other, from_one, to_other)] {
            let Some(deposit) = deposit else { continue };
            for heard in listening.iter().filter(|heard| heard.key.label() == deposit.label) {
                let plaintext = heard.key.open(&deposit.sealed.0)?;
                pair.receive(heard.epoch, &plaintext, round, round.next(), &[]).ok()?;
            }
        }
    }
    assert_eq!([one.established(), other.established()], [rounds > 0; 2]);
    Some([one, other])
}

/// A generator that is none: it counts, so that every run does the same.
struct Counting(u64);

impl rand_core::TryRng for Counting {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.try_next_u64().map(|word| word as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Ok(self.0.rotate_left(17))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for byte in bytes {
            *byte = self.try_next_u64()? as u8;
        }
        Ok(())
    }
}

impl rand_core::TryCryptoRng for Counting {}

#[cfg(test)]
mod tests;
