//! What is valid, to be altered: encodings, conversations that stand, and a generator that is none.

use std::sync::LazyLock;

use ed25519_dalek::SigningKey;

use crate::deposit::BOX_BYTES;
use crate::invitation::Invitation;
use crate::manifest::deposits_digest;
use crate::mapping::BloomMapping;
use crate::message::Frame;
use crate::pair::Pair;
use crate::pair::renewal::Share;
use crate::seal::{PLAINTEXT_BYTES, Plaintext};
use crate::secret::Secret;
use crate::{
    Client, CodeKind, Deposit, Directory, GroupCard, Label, Manifest, OwnSlot, Round, SealedBox,
    SignedDirectory, UnixMillis, table,
};

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

pub(super) fn valid_client_state(code: CodeKind) -> Vec<u8> {
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

pub(super) fn plaintext(bytes: &[u8]) -> Plaintext {
    Plaintext::new(core::array::from_fn::<u8, PLAINTEXT_BYTES, _>(|i| bytes.get(i).copied().unwrap_or(0)))
}

/// The plaintext with the round in which it comes, without which all others would be refused at once.
pub(super) fn of_round(bytes: &[u8], round: u64) -> Plaintext {
    let mut plaintext = plaintext(bytes);
    plaintext[16..24].copy_from_slice(&round.to_le_bytes());
    plaintext
}

pub(super) fn share(number: u8) -> Share {
    Share::new(Secret::new([number; 32]))
}

/// Both sides of conversations before the handshake, behind it, and while keys are renewed, as they are stored: made once, however
/// many inputs come.
pub(super) static PAIRS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
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
pub(super) struct Counting(pub(super) u64);

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
