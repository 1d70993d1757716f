//! What is read back after crashes, and by whom.

use std::fs;
use std::io;
use std::path::Path;

use zeroize::Zeroizing;

use super::{CHUNK_BYTES, CONTENT_BYTES, SealedLog, read};

const KEY: [u8; 32] = [7; 32];

fn record(text: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(text.to_vec())
}

fn make(path: &Path, records: &[&[u8]]) -> SealedLog {
    SealedLog::create(path, &KEY, b"test", records.iter().map(|text| record(text))).unwrap()
}

fn reopen(path: &Path) -> (SealedLog, Vec<Vec<u8>>, bool) {
    let opened = SealedLog::open(path, &KEY, b"test", false).unwrap();
    (opened.log, opened.records.iter().map(|record| record.to_vec()).collect(), opened.is_damaged)
}

#[test]
fn what_is_appended_is_read_back_in_order() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("log");
    let long = vec![5; 3 * CONTENT_BYTES];
    let mut log = make(&path, &[b"one", b"", &long]);
    log.append(&[record(b"two"), record(&long)]).unwrap();
    drop(log);
    let (mut log, found, is_damaged) = reopen(&path);
    assert_eq!(found, [b"one".to_vec(), vec![], long.clone(), b"two".to_vec(), long.clone()]);
    assert!(!is_damaged);
    // Beyond the room that was there.
    for _ in 0..100 {
        log.append(&[record(&long)]).unwrap();
    }
    log.touch().unwrap();
    drop(log);
    let (_, found, is_damaged) = reopen(&path);
    assert!(found.len() == 105 && found.iter().skip(4).all(|record| *record == long) && !is_damaged);
}

/// A write that is cut off leaves some of its bytes, not necessarily the first.
#[test]
fn of_what_is_being_appended_a_crash_leaves_all_or_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("log");
    let mut log = make(&path, &[b"one"]);
    log.append(&[record(b"two")]).unwrap();
    let before = fs::read(&path).unwrap();
    let long = vec![6; 2 * CONTENT_BYTES + 10];
    log.append(&[record(b"three"), record(&long)]).unwrap();
    drop(log);
    let after = fs::read(&path).unwrap();
    let first = (0..before.len()).find(|at| before[*at] != after[*at]).unwrap() / CHUNK_BYTES * CHUNK_BYTES;
    let old = vec![b"one".to_vec(), b"two".to_vec()];
    let new = [old.clone(), vec![b"three".to_vec(), long]].concat();
    let mut seen = [0, 0];
    // Which of the three chunks were written, and of one of them how much.
    for written in 0..8_u8 {
        for part in [0, 1, 17, 600, CHUNK_BYTES - 1] {
            let mut bytes = before.clone();
            for chunk in 0..3 {
                let at = first + chunk * CHUNK_BYTES;
                let end = if written >> chunk & 1 == 1 { CHUNK_BYTES } else { part };
                bytes[at..at + end].copy_from_slice(&after[at..at + end]);
            }
            fs::write(&path, &bytes).unwrap();
            let (mut log, found, is_damaged) = reopen(&path);
            let whole = written == 7;
            assert_eq!(found, if whole { new.clone() } else { old.clone() }, "{written:b} {part}");
            assert!(!is_damaged);
            seen[usize::from(whole)] += 1;
            // What is left does not join what is appended next, also if that is cut off, too.
            let at = if whole { first + 3 * CHUNK_BYTES } else { first };
            log.append(&[record(b"four"), record(&vec![7; 2 * CONTENT_BYTES])]).unwrap();
            drop(log);
            let appended = fs::read(&path).unwrap();
            for cut in [CHUNK_BYTES, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES] {
                let mut bytes = bytes.clone();
                bytes[at..at + cut].copy_from_slice(&appended[at..at + cut]);
                fs::write(&path, &bytes).unwrap();
                let (_, again, is_damaged) = reopen(&path);
                let more = if cut == 3 * CHUNK_BYTES { 2 } else { 0 };
                assert_eq!(again[..found.len()], found, "{written:b} {part} {cut}");
                assert!(again.len() == found.len() + more && !is_damaged, "{written:b} {part} {cut}");
            }
        }
    }
    assert_eq!(seen, [35, 5]);
}

#[test]
fn nobody_without_the_key_reads_it_or_sees_where_it_ends() {
    let home = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| home.path().join(name));
    make(&one, &[]);
    let mut log = make(&other, &[b"a precious text"]);
    for _ in 0..50 {
        log.append(&[record(b"a precious text")]).unwrap();
    }
    let [empty, full] = [&one, &other].map(|path| fs::read(path).unwrap());
    assert_eq!(empty.len(), full.len());
    assert!(!full.windows(8).any(|window| window == b"precious"));
    let differ = (0..full.len()).filter(|at| empty[*at] != full[*at]).count();
    // But for magic, version and zeros of the head all bytes are as if drawn, in both.
    let drawn = full.len() - CHUNK_BYTES + 56;
    let expected = drawn * 255 / 256;
    assert!(differ.abs_diff(expected) < 500, "{differ} of {drawn}");
    let opened = SealedLog::open(&other, &[8; 32], b"test", true).map(|_| ());
    assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidData);
    let opened = SealedLog::open(&other, &KEY, b"another", true).map(|_| ());
    assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(read(&other).unwrap().len(), 51);
}

#[test]
fn what_is_missing_in_the_middle_shows_and_the_rest_is_read() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("log");
    let mut log = make(&path, &[b"one"]);
    for text in [b"two", b"six"] {
        log.append(&[record(text)]).unwrap();
    }
    let whole = fs::read(&path).unwrap();
    let mut changed = whole.clone();
    changed[2 * CHUNK_BYTES + 99] ^= 1;
    fs::write(&path, &changed).unwrap();
    let (_, found, is_damaged) = reopen(&path);
    assert_eq!((found, is_damaged), (vec![b"one".to_vec(), b"six".to_vec()], true));
    // A chunk that was moved is as good as none.
    let mut moved = whole.clone();
    moved.copy_within(CHUNK_BYTES..2 * CHUNK_BYTES, 2 * CHUNK_BYTES);
    fs::write(&path, &moved).unwrap();
    assert!(reopen(&path).2);
    for (place, kind) in [(0, io::ErrorKind::InvalidData), (30, io::ErrorKind::InvalidData)] {
        let mut changed = whole.clone();
        changed[place] ^= 1;
        fs::write(&path, &changed).unwrap();
        assert_eq!(SealedLog::open(&path, &KEY, b"test", false).err().unwrap().kind(), kind);
    }
    let mut newer = whole.clone();
    newer[9] = 2;
    fs::write(&path, &newer).unwrap();
    assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::Unsupported);
    for cut in [0, 50, CHUNK_BYTES - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
    fs::write(&path, &whole[..2 * CHUNK_BYTES + 5]).unwrap();
    assert_eq!(read(&path).unwrap().len(), 1);
}
