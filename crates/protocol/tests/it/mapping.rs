//! The mapping from labels to positions: every label is found, wrong positions are rare, hostile bytes are harmless.

use pbc::Encoding;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use sotto_protocol::error::Malformed;
use sotto_protocol::manifest::{MAPPING_BLOOM, MAPPING_FORMER};
use sotto_protocol::mapping::Outcome;
use sotto_protocol::{BloomMapping, CodeKind, Error, Label, Lookup, MANIFEST_VERSION, Manifest, Round};

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
        CodeKind::Partitioned | CodeKind::Standing => unreachable!("there is no mapping"),
    };
    let mut manifest = Manifest {
        version: MANIFEST_VERSION,
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
        profile: [0x77; 16],
        hint_digest: [0x88; 32],
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
fn position(encoding: &Encoding, number: u32, bucket: usize) -> usize {
    let holds = |codeword: &pbc::Codeword| codeword.elements().contains(&number);
    encoding.contents()[bucket].iter().position(holds).unwrap()
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
            for content in code.holders(&label.0) {
                let position = position(&sealed.encoding, number, content);
                assert!(mapping.hits(&*code, content, label).contains(&position), "n = {size}");
            }
        }
    }
}

/// A label's box is read but where its bucket shows the label at two positions, which about one in a hundred does, and
/// the coin falls wrong. The scan of a whole bucket takes a wrong position for 15 % of the labels at 2^15 elements.
#[test]
fn a_wrong_position_is_rare() {
    let labels = labels(1 << 15, 1);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for retrieve in [1, 16] {
        let sealed = seal(&labels, retrieve);
        let code = sealed.manifest.code().unwrap();
        let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
        let (mut wrong, mut ambiguous, mut deferred) = (0, 0, 0);
        let sample = 2000;
        let numbered: Vec<(u32, &Label)> = (0..).zip(&labels).take(sample).collect();
        for batch in numbered.chunks(retrieve.into()) {
            let wanted: Vec<Label> = batch.iter().map(|(_, label)| **label).collect();
            let lookup = Lookup::new(&*code, &mapping, &wanted, &mut rng);
            for ((number, _), reading) in batch.iter().zip(lookup.readings()) {
                let Some(bucket) = reading.buckets().first().copied() else {
                    deferred += 1;
                    continue;
                };
                let read = lookup.targets()[bucket.to_usize()].unwrap();
                let right = read == position(&sealed.encoding, *number, code.content_of(bucket));
                match reading.outcome() {
                    Outcome::Found => assert!(right),
                    Outcome::Ambiguous => ambiguous += 1,
                    outcome => panic!("a label that is there is {outcome:?}"),
                }
                wrong += usize::from(!right);
            }
        }
        // About one label in a million is.
        assert_eq!(deferred, 0);
        println!("k = {retrieve}: of {sample} labels {ambiguous} ambiguous, {wrong} read wrong");
        assert!(ambiguous * 50 < sample && wrong <= ambiguous);
    }
}

#[test]
fn absent_labels_are_told_from_present_ones() {
    let present = labels(4096, 2);
    let absent = labels(2000, 3);
    let sealed = seal(&present, 16);
    let code = sealed.manifest.code().unwrap();
    let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut seem_present = 0;
    for wanted in absent.chunks(16) {
        let lookup = Lookup::new(&*code, &mapping, wanted, &mut rng);
        seem_present += wanted.len() - lookup.count(Outcome::Absent);
    }
    assert!(seem_present <= 1, "{seem_present} of 2000 absent labels seem present");
}

/// Where a label is read must not depend on what the mapping says of it or of others: not even that it is there.
#[test]
fn buckets_are_scheduled_before_the_mapping_is_looked_at() {
    let (labels, wanted) = (labels(1000, 2), labels(16, 3));
    let (full, empty) = (seal(&labels, 16), seal(&[], 16));
    let code = full.manifest.code().unwrap();
    let read = |sealed: &Sealed, wanted: &[Label]| -> Vec<Vec<pbc::BucketIndex>> {
        let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let lookup = Lookup::new(&*code, &mapping, wanted, &mut rng);
        lookup.readings().iter().map(|reading| reading.buckets()).collect()
    };
    assert_eq!(full.manifest.round_seed, empty.manifest.round_seed);
    assert_eq!(read(&full, &wanted), read(&empty, &wanted));
    assert_eq!(read(&full, &labels[..16]), read(&empty, &labels[..16]));
}

/// Which of its candidates serves a label is drawn: the first is not preferred, nor does the order of wishes decide.
#[test]
fn every_candidate_serves_a_label_equally_often() {
    let (labels, wanted) = (labels(100, 2), labels(16, 3));
    let sealed = seal(&labels, 16);
    let code = sealed.manifest.code().unwrap();
    let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut served = [0_u32; 3];
    for _ in 0..6_000 {
        let lookup = Lookup::new(&*code, &mapping, &wanted[..1], &mut rng);
        let bucket = lookup.readings()[0].buckets()[0];
        let holders = code.holders(&wanted[0].0);
        served[holders.iter().position(|holder| *holder == bucket.to_usize()).unwrap()] += 1;
    }
    // Five standard deviations.
    assert!(served.iter().all(|served| served.abs_diff(2_000) < 183), "{served:?}");
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
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for wanted in labels.chunks_exact(4).take(400) {
            let lookup = Lookup::new(&*code, &mapping, wanted, &mut rng);
            for (wanted, reading) in wanted.iter().zip(lookup.readings()) {
                let bytes = |bucket: &pbc::BucketIndex| {
                    let at = 16 * lookup.targets()[bucket.to_usize()].unwrap();
                    &buckets[bucket.to_usize()][at..at + 16]
                };
                let codewords: Vec<&[u8]> = reading.buckets().iter().map(bytes).collect();
                if codewords.is_empty() {
                    continue;
                }
                sums += usize::from(codewords.len() > 1);
                let element = code.decode(&codewords).unwrap();
                read += usize::from(element == wanted.0.map(|byte| byte ^ 0x5a));
            }
        }
        println!("{:?}: {read} of 1600 labels read, {sums} of them as sums", sealed.manifest.code);
        // A few keys are deferred, and a filter errs now and then.
        assert!(read >= 1590, "{:?}: {read} of 1600 labels read", sealed.manifest.code);
        assert_eq!(sums > 0, sealed.manifest.code == CodeKind::Hybrid, "{sums} sums read");
    }
}

/// Somebody who deposits under another's label must not be able to hide that deposit for good.
#[test]
fn each_of_two_equal_labels_is_read_half_of_the_time() {
    let mut labels = labels(3000, 4);
    labels[77] = labels[1234];
    let sealed = seal(&labels, 16);
    let code = sealed.manifest.code().unwrap();
    let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut read = [0_u32; 2];
    for _ in 0..1000 {
        let lookup = Lookup::new(&*code, &mapping, &[labels[5], labels[77], labels[6]], &mut rng);
        assert_eq!(lookup.count(Outcome::Ambiguous), 1);
        let reading = &lookup.readings()[1];
        assert_eq!(reading.crowded(), (3, 3));
        let bucket = reading.buckets()[0].to_usize();
        let position = lookup.targets()[bucket].unwrap();
        match sealed.encoding.buckets()[bucket][position].elements() {
            [77] => read[0] += 1,
            [1234] => read[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    // Five standard deviations.
    assert!(read.iter().all(|read| read.abs_diff(500) < 80), "{read:?}");
}

/// Were they one coin, whoever deposited one of two labels twice would see by it how that of another one fell.
#[test]
fn the_coins_of_two_labels_are_independent() {
    let mut labels = labels(3000, 4);
    (labels[77], labels[78]) = (labels[1234], labels[1235]);
    let sealed = seal(&labels, 16);
    let code = sealed.manifest.code().unwrap();
    let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut read = [0_u32; 4];
    for _ in 0..1000 {
        let lookup = Lookup::new(&*code, &mapping, &[labels[77], labels[78]], &mut rng);
        let which = |number: usize, first: u32| {
            let bucket = lookup.readings()[number].buckets()[0].to_usize();
            let position = lookup.targets()[bucket].unwrap();
            usize::from(sealed.encoding.buckets()[bucket][position].elements() == [first])
        };
        read[which(0, 77) + 2 * which(1, 78)] += 1;
    }
    // Five standard deviations.
    assert!(read.iter().all(|read| read.abs_diff(250) < 69), "{read:?}");
}

/// Filters of other labels, or for smaller buckets, would hide boxes from everybody.
#[test]
fn a_mapping_is_of_all_labels_and_of_buckets_that_hold_them() {
    let labels = labels(100, 1);
    let sealed = seal(&labels, 4);
    let (code, size) = (sealed.manifest.code().unwrap(), sealed.manifest.bucket_size);
    let built = |labels: &[Label], size| {
        BloomMapping::build(&sealed.manifest.round_seed, &*code, &sealed.encoding, labels, size).is_ok()
    };
    assert_eq!(
        [built(&labels, size), built(&labels[1..], size), built(&labels, size - 1)],
        [true, false, false]
    );
}

#[test]
fn an_empty_round_has_a_mapping_that_finds_nothing() {
    for retrieve in [1, 16] {
        let sealed = seal(&[], retrieve);
        let mapping = BloomMapping::decode(&sealed.encoded, &sealed.manifest).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let lookup = Lookup::new(&*sealed.manifest.code().unwrap(), &mapping, &labels(50, 5), &mut rng);
        assert_eq!(lookup.count(Outcome::Absent), 50);
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
        assert_eq!(bytes, 12 + 16 * (4 + 192 * bucket_size.div_ceil(64) as usize));
    }
}

#[test]
fn hostile_bytes_are_refused() {
    let sealed = seal(&labels(200, 6), 4);
    let malformed = |bytes: &[u8], manifest: &Manifest| {
        assert_eq!(BloomMapping::decode(bytes, manifest).err(), Some(Error::Malformed(Malformed::Mapping)));
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
    // A manifest of a round whose mapping is of another kind.
    malformed(&sealed.encoded, &Manifest { mapping_kind: MAPPING_FORMER, ..sealed.manifest.clone() });
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
        (CodeKind::Single, 1, 1936, "a857ca1c525adc0cd8f4bf68df480890524ad13120feb896e06f20004c224927"),
        (CodeKind::Single, 4, 1936, "a857ca1c525adc0cd8f4bf68df480890524ad13120feb896e06f20004c224927"),
        (CodeKind::Cuckoo, 4, 3116, "94a0b8d12cbc9daebbe828474f85794e448e8f34beb6edb4a4a68150399325e8"),
        (CodeKind::Hybrid, 4, 3148, "d9ec832b64b886cbe69a3458989a493aeeb2a4510994f8ee430e5f7ba0c0890e"),
    ] {
        let sealed = seal_with(code, &labels, retrieve);
        assert_eq!(sealed.encoded.len(), bytes);
        let digest: String =
            sealed.manifest.mapping_digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, expected, "{code:?}, k = {retrieve}");
    }
}
