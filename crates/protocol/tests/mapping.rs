//! The mapping from labels to positions: every label is found, wrong positions are rare, hostile bytes are harmless.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

use pbc::{Encoding, Oracle, Plan};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use sotto_protocol::manifest::MAPPING_BLOOM;
use sotto_protocol::mapping::Outcome;
use sotto_protocol::{
    BloomMapping, CodeKind, Error, Label, LabelOracle, Manifest, Mapping, PROTOCOL_VERSION, Round,
};

struct Sealed {
    manifest: Manifest,
    encoding: Encoding,
    encoded: Vec<u8>,
}

fn label(rng: &mut ChaCha8Rng) -> Label {
    let mut label = [0; 16];
    rng.fill_bytes(&mut label);
    Label(label)
}

fn labels(count: usize, seed: u64) -> Vec<Label> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| label(&mut rng)).collect()
}

fn seal(labels: &[Label], retrieve: u16) -> Sealed {
    seal_with(if retrieve == 1 { CodeKind::Single } else { CodeKind::Cuckoo }, labels, retrieve)
}

fn seal_with(code: CodeKind, labels: &[Label], retrieve: u16) -> Sealed {
    let (buckets, choices) = match code {
        CodeKind::Cuckoo => (2 * retrieve, 3),
        CodeKind::Hybrid => (9 * retrieve, 2),
        CodeKind::Single => (retrieve, 1),
    };
    let mut manifest = Manifest {
        version: PROTOCOL_VERSION,
        round: Round(1),
        entries: labels.len() as u64,
        engine: "test".to_owned(),
        code,
        retrieve,
        buckets,
        choices,
        mapping_kind: MAPPING_BLOOM,
        bucket_size: 1,
        round_seed: [5; 32],
        mapping_digest: [0; 32],
        deposits_digest: [0; 32],
        buckets_digest: [0x66; 32],
        previous: [0; 32],
    };
    let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
    let code = manifest.code().unwrap();
    let encoding = code.encode(&keys);
    manifest.bucket_size = encoding.largest().max(1) as u32;
    let encoded =
        BloomMapping::build(&manifest.round_seed, &*code, &encoding, labels, manifest.bucket_size).unwrap();
    manifest.mapping_digest = BloomMapping::digest(&encoded);
    assert_eq!(manifest.check(), Ok(()));
    assert_eq!(encoded.len() as u64, BloomMapping::encoded_bytes(manifest.shape(), manifest.bucket_size));
    Sealed { manifest, encoding, encoded }
}

/// The true position of element `number` in a bucket.
fn position(encoding: &Encoding, number: u32, bucket: pbc::BucketIndex) -> usize {
    let holds = |codeword: &pbc::Codeword| codeword.elements().contains(&number);
    encoding.buckets()[bucket.to_usize()].iter().position(holds).unwrap()
}

#[test]
fn every_label_is_found_where_it_stands() {
    use CodeKind::{Cuckoo, Hybrid, Single};

    let sizes = (1..=64).chain([100, 257, 1000, 2500, 5000]);
    let codes = [(Single, 1), (Single, 4), (Cuckoo, 4), (Cuckoo, 16), (Hybrid, 2), (Hybrid, 16)];
    for (size, (code, retrieve)) in sizes.flat_map(|size| codes.map(|code| (size, code))) {
        let labels = labels(size, size as u64);
        let sealed = seal_with(code, &labels, retrieve);
        let code = sealed.manifest.code().unwrap();
        let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
        for (number, label) in (0..).zip(&labels).take(300) {
            for (bucket, hits) in mapping.lookup(&*code, label) {
                let position = position(&sealed.encoding, number, bucket);
                assert!(hits.count >= 1 && (hits.first..=hits.last).contains(&position), "n = {size}");
            }
        }
    }
}

/// The scan of a whole bucket takes a wrong position for 15 % of the labels at 2^15 elements a bucket.
#[test]
fn a_wrong_position_is_rare() {
    let labels = labels(1 << 15, 1);
    for retrieve in [1, 16] {
        let sealed = seal(&labels, retrieve);
        let code = sealed.manifest.code().unwrap();
        let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
        let (mut wrong, mut lost, mut dropped, mut candidates) = (0, 0, 0, 0);
        let sample = 2000;
        for (number, label) in (0..).zip(&labels).take(sample) {
            let oracle = LabelOracle::new(&mapping, &*code, &[*label]);
            let mut usable = 0;
            for (bucket, _) in mapping.lookup(&*code, label) {
                candidates += 1;
                match oracle.position(0, &label.0, bucket) {
                    Some(found) if found == position(&sealed.encoding, number, bucket) => usable += 1,
                    Some(_) => wrong += 1,
                    None => dropped += 1,
                }
            }
            lost += usize::from(usable == 0);
        }
        println!(
            "k = {retrieve}: of {candidates} candidates {wrong} wrong, {dropped} dropped; {lost} of {sample} lost"
        );
        assert!(wrong * 500 < candidates && lost * 500 < sample && dropped * 50 < candidates);
    }
}

#[test]
fn absent_labels_are_told_from_present_ones() {
    let present = labels(4096, 2);
    let absent = labels(2000, 3);
    let sealed = seal(&present, 16);
    let code = sealed.manifest.code().unwrap();
    let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
    let oracle = LabelOracle::new(&mapping, &*code, &absent);
    let taken = oracle.outcomes().iter().filter(|outcome| **outcome != Outcome::Absent).count();
    assert!(taken <= 1, "{taken} of 2000 absent labels seem present");
    let plan = Plan::new(&*code, &oracle.keys(), &oracle);
    assert!(plan.targets.iter().filter(|target| target.is_some()).count() <= taken);
}

/// A box that the hybrid code reads as a sum, or four times one database, is the one that was wanted.
#[test]
fn every_code_reads_the_boxes_wanted_through_its_mapping() {
    let labels = labels(3000, 7);
    let boxes: Vec<u8> = labels.iter().flat_map(|label| label.0.map(|byte| byte ^ 0x5a)).collect();
    for (code, retrieve) in [(CodeKind::Single, 4), (CodeKind::Cuckoo, 4), (CodeKind::Hybrid, 4)] {
        let sealed = seal_with(code, &labels, retrieve);
        let code = sealed.manifest.code().unwrap();
        let buckets = sealed.encoding.materialise(16, &boxes, sealed.manifest.bucket_size as usize).unwrap();
        let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
        let (mut read, mut sums) = (0, 0);
        for wanted in labels.chunks_exact(4).take(400) {
            let oracle = LabelOracle::new(&mapping, &*code, wanted);
            let keys = oracle.keys();
            let plan = Plan::new(&*code, &keys, &oracle);
            for key in 0..keys.len() {
                let bytes = |bucket: &pbc::BucketIndex| {
                    let at = 16 * plan.targets[bucket.to_usize()].unwrap();
                    &buckets[bucket.to_usize()][at..at + 16]
                };
                let codewords: Vec<&[u8]> = plan.assignment(key).iter().map(bytes).collect();
                if codewords.is_empty() {
                    continue;
                }
                sums += usize::from(codewords.len() > 1);
                let element = code.decode(&codewords).unwrap();
                read += usize::from(element == wanted[oracle.wanted(key).unwrap()].0.map(|byte| byte ^ 0x5a));
            }
        }
        println!("{:?}: {read} of 1600 labels read, {sums} of them as sums", sealed.manifest.code);
        // A few keys are deferred, and a filter errs now and then.
        assert!(read >= 1590, "{:?}: {read} of 1600 labels read", sealed.manifest.code);
        assert_eq!(sums > 0, sealed.manifest.code == CodeKind::Hybrid, "{sums} sums read");
    }
}

/// Somebody who deposits under another's label must not be able to hide that deposit.
#[test]
fn both_of_two_equal_labels_are_read() {
    let mut labels = labels(3000, 4);
    labels[77] = labels[1234];
    let sealed = seal(&labels, 16);
    let code = sealed.manifest.code().unwrap();
    let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
    let wanted = [labels[5], labels[77], labels[6]];
    let oracle = LabelOracle::new(&mapping, &*code, &wanted);
    assert_eq!(oracle.outcomes(), [Outcome::Found, Outcome::Ambiguous, Outcome::Found]);
    let keys = oracle.keys();
    assert_eq!(
        (keys.len(), oracle.wanted(1), oracle.wanted(3), oracle.wanted(4)),
        (4, Some(1), Some(1), None)
    );

    let plan = Plan::new(&*code, &keys, &oracle);
    let mut read: Vec<u32> = (0..4)
        .flat_map(|key| {
            let bucket = plan.assignment(key)[0].to_usize();
            sealed.encoding.buckets()[bucket][plan.targets[bucket].unwrap()].elements().to_vec()
        })
        .collect();
    read.sort_unstable();
    assert_eq!(read, [5, 6, 77, 1234]);
}

#[test]
fn an_empty_round_has_a_mapping_that_finds_nothing() {
    for retrieve in [1, 16] {
        let sealed = seal(&[], retrieve);
        let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
        let oracle = LabelOracle::new(&mapping, &*sealed.manifest.code().unwrap(), &labels(50, 5));
        assert!(oracle.outcomes().iter().all(|outcome| *outcome == Outcome::Absent));
    }
}

/// The size must not tell how the labels fell.
#[test]
fn the_size_depends_on_the_published_shape_alone() {
    let sizes: Vec<_> = (10..14)
        .map(|seed| {
            let sealed = seal(&labels(500, seed), 8);
            (sealed.manifest.bucket_size, sealed.encoded.len())
        })
        .collect();
    for (bucket_size, bytes) in sizes {
        assert_eq!(bytes, 12 + 16 * (4 + 3 * bucket_size.max(64) as usize));
    }
}

#[test]
fn hostile_bytes_are_refused() {
    let sealed = seal(&labels(200, 6), 4);
    let malformed = |bytes: &[u8], manifest: &Manifest| {
        assert_eq!(BloomMapping::decode(bytes, manifest).err(), Some(Error::Malformed("mapping")));
    };
    let digested =
        |bytes: &[u8]| Manifest { mapping_digest: BloomMapping::digest(bytes), ..sealed.manifest.clone() };
    for length in [0, 1, 11, 12, 27, sealed.encoded.len() - 1] {
        malformed(&sealed.encoded[..length], &digested(&sealed.encoded[..length]));
    }
    let longer = [&sealed.encoded[..], &[0]].concat();
    malformed(&longer, &digested(&longer));
    // A changed byte, under the old digest.
    let mut changed = sealed.encoded.clone();
    changed[200] ^= 1;
    malformed(&changed, &sealed.manifest);
    // Header and counts that do not fit the manifest, under a matching digest.
    for at in 0..12 + 4 * 8 {
        let mut changed = sealed.encoded.clone();
        changed[at] ^= 1;
        malformed(&changed, &digested(&changed));
    }
    // A manifest that asks for terabytes.
    let huge = Manifest { bucket_size: u32::MAX, buckets: 1024, ..digested(&sealed.encoded) };
    malformed(&sealed.encoded, &huge);
}

/// The digests come from another implementation of the published layout, with SipHash of its own.
#[test]
fn the_encoding_is_the_published_one() {
    let labels: Vec<Label> = (0..300_u32)
        .map(|number| {
            let digest = Sha256::new_with_prefix("label").chain_update(number.to_le_bytes()).finalize();
            Label(digest[..16].try_into().unwrap())
        })
        .collect();
    for (code, retrieve, bytes, expected) in [
        (CodeKind::Single, 1, 1816, "42cd9d212b141f9f9e7ba013d08d0aba3aac021f3abf1d6350de2a3ff877fe22"),
        (CodeKind::Single, 4, 1816, "42cd9d212b141f9f9e7ba013d08d0aba3aac021f3abf1d6350de2a3ff877fe22"),
        (CodeKind::Cuckoo, 4, 3116, "d36ac627e1f4d5ed21d16c71d8425d1c387d1ed5effc37a6db06e563421a465c"),
        (CodeKind::Hybrid, 4, 3148, "51e63725920eb2f42bf0e335637fbaef69e67797a73e0a11b3ccad77a7be33f0"),
    ] {
        let sealed = seal_with(code, &labels, retrieve);
        assert_eq!(sealed.encoded.len(), bytes);
        let digest: String =
            sealed.manifest.mapping_digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, expected, "{code:?}, k = {retrieve}");
    }
}
