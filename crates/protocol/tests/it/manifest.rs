//! Manifests: the published layout, and a client that nobody can show two worlds.

use std::collections::BTreeSet;

use ed25519_dalek::SigningKey;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use sotto_protocol::manifest::{
    FormerManifest, HEADS_KEPT, MANIFEST_BYTES, MAPPING_BLOOM, MAPPING_FORMER, MAPPING_NONE, bucket_digest,
    buckets_digest, deposits_digest, expected_bucket_size, hint_digest, seed, unit_hint_digests,
};
use sotto_protocol::{
    ChainStep, CodeKind, CodeShape, Deposit, Error, Label, MANIFEST_VERSION, Manifest, ManifestChain, Round,
    SealedBox, SignedManifest,
};

const GOLDEN: &str = include_str!("../golden/manifest.hex");
/// With the mapping of before.
const GOLDEN_FORMER: &str = include_str!("../golden/manifest-3-former.hex");
const GOLDEN_1: &str = include_str!("../golden/manifest-1.hex");
const GOLDEN_2: &str = include_str!("../golden/manifest-2.hex");

fn manifest(round: u64, previous: [u8; 32]) -> Manifest {
    Manifest {
        version: MANIFEST_VERSION,
        round: Round(round),
        entries: 0x0001_0203,
        engine: "seal-pir".to_owned(),
        code: CodeKind::Cuckoo,
        retrieve: 16,
        buckets: 32,
        choices: 3,
        mapping_kind: MAPPING_BLOOM,
        bucket_size: 0x1A00,
        round_seed: [0x11; 32],
        mapping_digest: [0x22; 32],
        deposits_digest: [0x33; 32],
        buckets_digest: [0x66; 32],
        profile: [0x77; 16],
        hint_digest: [0x88; 32],
        previous,
    }
}

fn chain_of(rounds: u64) -> Vec<Manifest> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for round in 1..=rounds {
        let previous = manifests.last().map_or([0; 32], Manifest::digest);
        manifests.push(manifest(round, previous));
    }
    manifests
}

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn public_key() -> [u8; 32] {
    key().verifying_key().to_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_layout_is_the_published_one() {
    for (mapping_kind, golden) in [(MAPPING_BLOOM, GOLDEN), (MAPPING_FORMER, GOLDEN_FORMER)] {
        let manifest = Manifest { mapping_kind, ..manifest(0x0102_0304_0506_0708, [0x44; 32]) };
        let signed = SignedManifest::sign(&manifest, &key());
        let digest = hex(&manifest.digest());
        let actual = format!("{}\n{}\n{digest}\n", hex(&signed.bytes), hex(&signed.signature));
        assert_eq!(actual, golden, "a change of the layout needs a new version");
        assert_eq!(Manifest::decode(&signed.bytes), Ok(manifest.clone()));
        assert_eq!(hex(&manifest.head_prefix()), digest[..16]);
    }
}

#[test]
fn the_digest_of_deposits_is_the_published_one() {
    let deposit = |byte| Deposit { label: Label([byte; 16]), sealed: SealedBox([byte; 288]) };
    let digest = deposits_digest(&[deposit(1), deposit(2)]);
    assert_eq!(hex(&digest), "c726d1f2181a78dd2631794c5180b93d8e0a7eece8a20b4b819c2d2deec2cc0a");
}

/// A chain of manifests goes on over changes of versions.
#[test]
fn manifests_of_earlier_versions_are_known_by_their_digests() {
    let unhex = |line: &str| -> Vec<u8> {
        (0..line.len() / 2).map(|at| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap()).collect()
    };
    for (version, golden) in [(1, GOLDEN_1), (2, GOLDEN_2)] {
        let mut lines = golden.lines().map(unhex);
        let (mut bytes, signature) = (lines.next().unwrap(), lines.next().unwrap().try_into().unwrap());
        let former = FormerManifest::new(version, &bytes, signature).unwrap();
        assert_eq!(former.digest(&public_key()).unwrap().to_vec(), lines.next().unwrap());
        assert_eq!(former.version(), version);
        assert!(Manifest::decode(&bytes).is_err());
        bytes[9] ^= 1;
        let bent = FormerManifest::new(version, &bytes, signature).unwrap();
        assert!(bent.digest(&public_key()).is_err());
        for other in [0, 3 - version, MANIFEST_VERSION] {
            assert!(FormerManifest::new(other, &bytes, signature).is_err());
        }
    }
}

#[test]
fn a_part_of_a_hint_stands_in_its_place() {
    let digest = |parts: &[&[u8]]| hint_digest(&unit_hint_digests(parts.iter().copied()));
    let all: [&[&[u8]]; 6] =
        [&[], &[b""], &[b"", b""], &[b"one", b"two"], &[b"two", b"one"], &[b"onetwo", b""]];
    let digests: BTreeSet<[u8; 32]> = all.map(digest).into();
    assert_eq!(digests.len(), all.len());
}

#[test]
fn the_digest_of_buckets_is_the_published_one() {
    let buckets = [bucket_digest(0, &[1; 576]), bucket_digest(1, &[2; 576])];
    assert_eq!(hex(&buckets_digest(&buckets)), include_str!("../golden/buckets.hex").trim_end());
    assert_ne!(bucket_digest(0, &[1; 576]), bucket_digest(1, &[1; 576]), "a bucket stands in its place");
}

#[test]
fn a_truncated_or_oversized_manifest_is_refused() {
    let bytes = manifest(1, [0; 32]).encode();
    for length in 0..MANIFEST_BYTES {
        assert!(Manifest::decode(&bytes[..length]).is_err());
    }
    assert!(Manifest::decode(&[&bytes[..], &[0]].concat()).is_err());
}

/// With slots nothing is left to choose but one of the sizes that tables have.
#[test]
fn a_manifest_with_slots_says_nothing_that_its_table_does_not() {
    let good = Manifest {
        code: CodeKind::Partitioned,
        mapping_kind: MAPPING_NONE,
        entries: 18 * 33,
        retrieve: 4,
        buckets: 12,
        choices: 3,
        bucket_size: 149,
        mapping_digest: [0; 32],
        deposits_digest: [0; 32],
        ..manifest(1, [0; 32])
    };
    assert_eq!(Manifest::decode(&good.encode()), Ok(good.clone()));
    type Spoil = fn(&mut Manifest);
    let spoils: [(Spoil, &str); 8] = [
        (|bad| bad.mapping_kind = MAPPING_BLOOM, "manifest-mapping"),
        (|bad| bad.mapping_kind = MAPPING_FORMER, "manifest-mapping"),
        (|bad| bad.mapping_digest[31] = 1, "manifest-digests"),
        (|bad| bad.deposits_digest[0] = 1, "manifest-digests"),
        (|bad| bad.bucket_size -= 1, "manifest-bucket-size"),
        (|bad| bad.bucket_size += 1, "manifest-bucket-size"),
        (|bad| bad.entries += 1, "manifest-table"),
        (|bad| (bad.entries, bad.bucket_size) = (17 * 33, 141), "manifest-table"),
    ];
    for (spoil, reason) in spoils {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert_eq!(Manifest::decode(&bad.encode()).unwrap_err().code(), reason);
    }
}

/// What a server prepares for before a round is made, and a planner counts with.
#[test]
fn so_large_are_buckets_of_so_many_accounts() {
    let shape = |kind, retrieve, buckets, choices| CodeShape { kind, retrieve, buckets, choices };
    let slots = shape(CodeKind::Partitioned, 4, 12, 3);
    // 18 lots of 32 slots, which are 33 places each, in four groups of three buckets.
    assert_eq!(expected_bucket_size(slots, 576), Some(149));
    // A mean of 24,576 copies, and 393 more in the fullest of 32.
    let labels = shape(CodeKind::Cuckoo, 16, 32, 3);
    assert_eq!(expected_bucket_size(labels, 262_144), Some(24_969));
    assert_eq!(
        [0, 1, (1 << 24) + 1].map(|accounts| expected_bucket_size(labels, accounts)),
        [None, Some(1), None]
    );
}

/// Where queries stand, all rounds of an epoch have one query seed and one code, as long as their tables have one size, and each a
/// seed of its own for everything else.
#[test]
fn rounds_of_an_epoch_are_asked_in_one_way_and_whitened_each_in_its_own() {
    let last = [7; 32];
    let standing = |round: u64, lots: u64| {
        let seed = (round..1_015).fold(last, |seed, _| seed::step(&seed));
        let manifest = Manifest {
            code: CodeKind::Standing,
            mapping_kind: MAPPING_NONE,
            entries: lots * 33,
            retrieve: 4,
            buckets: 12,
            choices: 3,
            bucket_size: (lots * 33).div_ceil(4) as u32,
            mapping_digest: [0; 32],
            deposits_digest: [0; 32],
            round_seed: seed,
            ..manifest(round, [0; 32])
        };
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest.clone()));
        manifest
    };
    let root = [9; 32];
    let seeds = |manifest: &Manifest| (manifest.query_seed(&root), manifest.retrieval_seed(&root));
    let place = |manifest: &Manifest| manifest.slot_code().unwrap().places(77).as_slice().to_vec();
    let (query, first) = seeds(&standing(1_000, 18));
    assert_eq!(
        data_encoding::HEXLOWER.encode(&query),
        "c9c260c123aa5aecda4c23da255e005a64892c2a11644e01750318f83acadd1c",
        "from the text of the protocol, for other implementations"
    );
    let mut whitening = BTreeSet::from([first]);
    for round in 1_001..=1_007 {
        let manifest = standing(round, 18);
        assert_eq!((seeds(&manifest).0, place(&manifest)), (query, place(&standing(1_000, 18))));
        assert!(whitening.insert(seeds(&manifest).1));
    }
    for other in [standing(999, 18), standing(1_008, 18), standing(1_003, 20)] {
        assert!(seeds(&other).0 != query && place(&other) != place(&standing(1_000, 18)));
    }
    let partitioned = Manifest { code: CodeKind::Partitioned, ..standing(1_003, 18) };
    assert_eq!(seeds(&partitioned).0, seeds(&partitioned).1);
}

#[test]
fn impossible_numbers_are_refused_before_anything_is_sized_by_them() {
    let spoils: [fn(&mut Manifest); 19] = [
        |m| m.version = MANIFEST_VERSION - 1,
        |m| m.mapping_kind = 0,
        |m| m.engine.clear(),
        |m| m.retrieve = 0,
        |m| m.retrieve = 257,
        |m| m.retrieve = 1,
        |m| m.buckets = 15,
        |m| m.buckets = 1025,
        |m| m.choices = 0,
        |m| m.choices = 9,
        |m| m.entries = (1 << 24) + 1,
        |m| m.entries = u64::MAX,
        |m| m.bucket_size = 0,
        |m| m.bucket_size = 5000, // Fewer places than codewords.
        |m| m.bucket_size = u32::MAX,
        |m| m.code = CodeKind::Single,
        |m| m.code = CodeKind::Hybrid,
        |m| (m.code, m.choices, m.buckets) = (CodeKind::Hybrid, 2, 32),
        // Copies lie in four of nine buckets, so that these are not enough places.
        |m| (m.code, m.choices, m.buckets, m.bucket_size) = (CodeKind::Hybrid, 2, 144, 0x0600),
    ];
    for spoil in spoils {
        let mut bad = manifest(1, [0; 32]);
        spoil(&mut bad);
        assert!(bad.check().is_err());
        assert!(Manifest::decode(&bad.encode()).is_err());
    }
    // The most messages, of which there are three copies in 32 buckets: a mean of 1,572,864. Twice as many and 128 is the most.
    let with = |entries, bucket_size| Manifest { entries, bucket_size, ..manifest(1, [0; 32]) }.check();
    assert!([1_572_864, 3_145_856].iter().all(|size| with(1 << 24, *size).is_ok()));
    assert!([1_572_863, 3_145_857].iter().all(|size| with(1 << 24, *size).is_err()));
    assert_eq!((with(5, 5), with(5, 6).is_err()), (Ok(()), true), "more places than messages");
    let empty = Manifest { entries: 0, bucket_size: 1, ..manifest(1, [0; 32]) };
    assert_eq!(Manifest::decode(&empty.encode()), Ok(empty));
}

/// The byte behind the engine's name says which code; without one the numbers of the others would be believed.
#[test]
fn every_code_is_read_with_its_own_numbers_only() {
    let cuckoo = manifest(1, [0; 32]);
    let hybrid =
        Manifest { code: CodeKind::Hybrid, buckets: 144, choices: 2, bucket_size: 0x0900, ..cuckoo.clone() };
    let single = Manifest {
        code: CodeKind::Single,
        buckets: 16,
        choices: 1,
        bucket_size: 0x0001_0203,
        ..cuckoo.clone()
    };
    for (byte, good) in [(0, cuckoo), (1, hybrid), (2, single)] {
        let encoded = good.encode();
        assert_eq!(encoded[59], byte);
        assert_eq!(Manifest::decode(&encoded), Ok(good));
        for other in (0..=255).filter(|other| *other != byte) {
            let mut bad = encoded;
            bad[59] = other;
            assert!(Manifest::decode(&bad).is_err(), "{byte} as {other}");
        }
    }
}

#[test]
fn the_name_of_the_engine_has_one_encoding() {
    let named = |length| Manifest { engine: "x".repeat(length), ..manifest(1, [0; 32]) };
    assert_eq!(Manifest::decode(&named(31).encode()), Ok(named(31)));
    assert!(named(32).check().is_err());
    let bytes = manifest(1, [0; 32]).encode();
    for (at, byte) in [(28, b' '), (28, 0x80), (28 + 20, b'x'), (28 + 30, b'x')] {
        let mut bad = bytes;
        bad[at] = byte;
        assert!(Manifest::decode(&bad).is_err());
    }
}

#[test]
fn a_forged_manifest_is_refused() {
    let forged = SignedManifest::sign(&manifest(1, [0; 32]), &SigningKey::from_bytes(&[8; 32]));
    assert!(matches!(forged.verify(&public_key()), Err(Error::Manifest(_))));
    // A small-order key would verify many a signature.
    let mut weak = forged;
    weak.signature = [0; 64];
    let mut identity = [0; 32];
    identity[0] = 1;
    weak.signature[0] = 1;
    assert!(weak.verify(&identity).is_err());
}

proptest! {
    #[test]
    fn a_flipped_bit_is_noticed(bit in 0..8 * (MANIFEST_BYTES + 64)) {
        let mut signed = SignedManifest::sign(&manifest(5, [9; 32]), &key());
        let (byte, mask) = (bit / 8, 1 << (bit % 8));
        if byte < MANIFEST_BYTES {
            signed.bytes[byte] ^= mask;
        } else {
            signed.signature[byte - MANIFEST_BYTES] ^= mask;
        }
        prop_assert!(signed.verify(&public_key()).is_err());
    }

    #[test]
    fn any_bytes_are_refused_or_read_exactly(bytes in any::<[[u8; 47]; 4]>()) {
        let bytes = bytes.concat();
        if let Ok(manifest) = Manifest::decode(&bytes) {
            prop_assert_eq!(manifest.encode().to_vec(), bytes);
        }
    }

    /// Whatever is left out and however the rest is supplied, an honest server's history ends in one chain.
    #[test]
    fn an_honest_history_with_gaps_is_accepted(
        seen in proptest::collection::btree_set(1..60_u64, 1..20),
        portion in 1..9_usize,
    ) {
        let manifests = chain_of(60);
        let mut chain = ManifestChain::default();
        for round in &seen {
            prop_assert!(chain.accept(&manifests[*round as usize - 1]).is_ok());
        }
        let missing: Vec<Manifest> = chain.missing().map_or(Vec::new(), |(first, last)| {
            manifests[first.0 as usize - 1..last.0 as usize].to_vec()
        });
        let gaps = seen.iter().zip(seen.iter().skip(1)).any(|(a, b)| a + 1 != *b);
        prop_assert_eq!(gaps, !missing.is_empty());
        for portion in missing.chunks(portion) {
            prop_assert_eq!(chain.fill_gap(portion), Ok(()));
        }
        prop_assert_eq!(chain.missing(), None);
    }

    /// One manifest of the gap replaced by another, wherever it is: noticed, once.
    #[test]
    fn a_forged_history_is_noticed(last in 3..30_u64, forged in 2..29_u64) {
        let forged = forged.min(last - 1);
        let mut manifests = chain_of(last);
        let mut chain = ManifestChain::default();
        chain.accept(&manifests[0]).unwrap();
        chain.accept(&manifests[last as usize - 1]).unwrap();
        manifests[forged as usize - 1].round_seed = [0xFF; 32];
        let missing = &manifests[1..last as usize - 1];
        prop_assert!(matches!(chain.fill_gap(missing), Err(Error::Manifest(_))));
        prop_assert_eq!(chain.missing(), None);
    }
}

#[test]
fn a_fork_is_noticed_and_changes_nothing() {
    let manifests = chain_of(3);
    let mut chain = ManifestChain::default();
    assert_eq!(chain.accept(&manifests[0]), Ok(ChainStep::First));
    assert_eq!(chain.accept(&manifests[1]), Ok(ChainStep::Next));
    let before = chain.clone();

    let other = Manifest { round_seed: [0xFF; 32], ..manifests[1].clone() };
    assert!(matches!(chain.accept(&other), Err(Error::Manifest(_))));
    let successor = manifest(3, other.digest());
    assert!(matches!(chain.accept(&successor), Err(Error::Manifest(_))));
    assert_eq!(chain, before);
    assert_eq!(chain.accept(&manifests[2]), Ok(ChainStep::Next));
}

#[test]
fn a_replay_is_noticed() {
    let manifests = chain_of(HEADS_KEPT as u64 + 10);
    let mut chain = ManifestChain::default();
    for manifest in &manifests {
        chain.accept(manifest).unwrap();
    }
    for old in [0, 5, 20, manifests.len() - 1] {
        let round = manifests[old].round;
        assert_eq!(chain.accept(&manifests[old]), Err(Error::RoundReplayed(round)));
    }
}

#[test]
fn a_round_that_was_never_published_is_no_gap() {
    let mut chain = ManifestChain::default();
    let first = manifest(1, [0; 32]);
    chain.accept(&first).unwrap();
    assert_eq!(chain.accept(&manifest(4, first.digest())), Ok(ChainStep::Next));
}

#[test]
fn a_gap_names_the_rounds_to_fetch_and_the_longest_one_stays() {
    let manifests = chain_of(9);
    let mut chain = ManifestChain::default();
    chain.accept(&manifests[0]).unwrap();
    let gap = |from, to| ChainStep::Gap { missing_from: Round(from), missing_to: Round(to) };
    assert_eq!(chain.accept(&manifests[3]), Ok(gap(2, 3)));
    assert_eq!(chain.accept(&manifests[6]), Ok(gap(5, 6)));
    assert_eq!(chain.missing(), Some((Round(2), Round(6))));
    assert_eq!(chain.fill_gap(&manifests), Ok(()));
    assert_eq!(chain.missing(), None);
    for known in &manifests[..7] {
        assert_eq!(chain.prefix_of(known.round), Some(known.head_prefix()));
    }
}

/// Whether a round was published that somebody names is known from the oldest head on, and that is the oldest that is forgotten.
#[test]
fn what_was_missed_takes_its_place_among_what_is_remembered() {
    let mut manifests: Vec<Manifest> = Vec::new();
    for round in [1, 3, 4, 6, 8] {
        let previous = manifests.last().map_or([0; 32], Manifest::digest);
        manifests.push(manifest(round, previous));
    }
    let mut chain = ManifestChain::default();
    for number in [0, 4] {
        chain.accept(&manifests[number]).unwrap();
    }
    assert_eq!(chain.fill_gap(&manifests[1..4]), Ok(()));
    for unpublished in [2, 5, 7] {
        assert!(chain.contradicts(Round(unpublished), [0; 8]), "{unpublished}");
    }
    assert!(!chain.contradicts(Round(0), [0; 8]) && !chain.contradicts(Round(9), [0; 8]));
    assert_eq!(chain.newest(), Some((Round(8), manifests[4].head_prefix())));
    let mut previous = manifests[4].clone();
    for round in 9..9 + HEADS_KEPT as u64 - 4 {
        previous = manifest(round, previous.digest());
        chain.accept(&previous).unwrap();
    }
    assert_eq!([1, 3].map(|round| chain.prefix_of(Round(round)).is_some()), [false, true]);
}

/// Whatever is supplied, a gap does not stay open for want of manifests that nobody has any more.
#[test]
fn a_gap_whose_beginning_nobody_has_is_given_up_with_what_was_before_it() {
    let manifests = chain_of(9);
    for supplied in [&manifests[..0], &manifests[4..8], &manifests[..2], &manifests[8..]] {
        let mut chain = ManifestChain::default();
        for number in [0, 1, 8] {
            chain.accept(&manifests[number]).unwrap();
        }
        assert!(!chain.contradicts(Round(4), [0; 8]), "nothing is known while a gap is open");
        assert!(matches!(chain.fill_gap(supplied), Err(Error::Unknown(_))));
        assert_eq!((chain.missing(), chain.prefix_of(Round(2))), (None, None));
        assert_eq!(chain.prefix_of(Round(9)), Some(manifests[8].head_prefix()));
        assert!(!chain.contradicts(Round(4), [0; 8]), "nor of what was before one that was given up");
    }
}

#[test]
fn heads_are_remembered_for_a_bounded_time() {
    let manifests = chain_of(HEADS_KEPT as u64 + 1);
    let mut chain = ManifestChain::default();
    for manifest in &manifests {
        chain.accept(manifest).unwrap();
    }
    assert_eq!(chain.prefix_of(Round(1)), None);
    for manifest in &manifests[1..] {
        assert_eq!(chain.prefix_of(manifest.round), Some(manifest.head_prefix()));
    }
    let newest = manifests.last().map(|manifest| (manifest.round, manifest.head_prefix()));
    assert_eq!(chain.newest(), newest);
    let heads: BTreeSet<_> = manifests.iter().map(Manifest::head_prefix).collect();
    assert_eq!(heads.len(), manifests.len());
}
