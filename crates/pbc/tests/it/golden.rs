//! The encoding is part of the protocol: another version of it must not pass unnoticed.

use data::{BLOCKS, hex};
use pbc::{BatchCode, BucketIndex, CuckooCode};

/// Server and client of different versions, or machines of another kind, would read garbage without an error.
#[test]
fn encoding_never_changes_silently() {
    assert_eq!(BLOCKS.lines().filter(|line| line.starts_with("code")).count(), 6);
    for block in BLOCKS.split("code ").skip(1) {
        let mut lines = block.lines();
        let header: Vec<&str> = lines.next().unwrap().split(' ').collect();
        let number = |i: usize| header[i].parse::<usize>().unwrap();
        let seed: [u8; 32] = hex(header[3]).try_into().unwrap();
        let code = CuckooCode::new(number(0), number(1), number(2), seed).unwrap();
        let of = |prefix| block.lines().filter_map(move |line| line.strip_prefix(prefix));

        let mut keys = Vec::new();
        for line in of("key ") {
            let fields: Vec<&str> = line.split(' ').collect();
            let key = hex(fields[0]);
            assert_eq!(code.order(&key), u64::from_str_radix(fields[1], 16).unwrap());
            let candidates: Vec<u32> = fields[2].split(',').map(|bucket| bucket.parse().unwrap()).collect();
            assert_eq!(code.candidates(&key).iter().map(|bucket| bucket.0).collect::<Vec<_>>(), candidates);
            keys.push(key);
        }
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();

        let encoding = code.encode(&keys);
        assert_eq!(encoding.buckets().len(), code.bucket_count());
        for (bucket, line) in encoding.buckets().iter().zip(of("bucket ")) {
            let elements: Vec<String> =
                bucket.iter().map(|codeword| codeword.elements()[0].to_string()).collect();
            assert_eq!(elements.join(","), line.trim_matches('-'));
        }
    }
}

/// The batch of one is not encoded: one bucket, everything in it once.
#[test]
fn a_batch_of_one_stores_every_element_once() {
    let code = CuckooCode::recommended(1, 3, [5; 32]).unwrap();
    assert_eq!((code.batch_size(), code.bucket_count(), code.choices()), (1, 1, 1));
    let keys: [&[u8]; 3] = [b"x", b"y", b"z"];
    assert_eq!(code.encode(&keys).codewords(), 3);
    assert_eq!(code.candidates(b"x").as_slice(), [BucketIndex(0)]);
    assert_eq!(code.schedule(&[b"y"], &|_, _| true).assignment(0), [BucketIndex(0)]);
}

mod data {
    pub(crate) const BLOCKS: &str = include_str!("../vectors/cuckoo-v1.txt");

    pub(crate) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }
}
