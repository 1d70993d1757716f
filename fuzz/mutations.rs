//! Bytes to fuzz with: arbitrary ones, and valid encodings damaged in the ways that matter to a parser. The tests of every
//! crate include this file.

use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::{collection, sample};

/// What numbers of a length are set to: none, one, the greatest of each width and of each sign.
const EXTREMES: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0xffff_ffff_ffff_ffff];

/// One thing that happens to an encoding.
type Damage = (u8, u32, u32, u64);

/// One in five is arbitrary; the others are valid encodings to which up to five things happened.
pub(crate) fn damaged(valid: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = collection::vec(any::<Damage>(), 0..6);
    let changed = (sample::select(valid), changes).prop_map(|(mut bytes, changes)| {
        changes.into_iter().for_each(|change| damage(&mut bytes, change));
        bytes
    });
    prop_oneof![1 => collection::vec(any::<u8>(), 0..700), 4 => changed]
}

fn damage(bytes: &mut Vec<u8>, (kind, at, other, value): Damage) {
    let length = bytes.len();
    if length == 0 {
        return bytes.extend(value.to_le_bytes());
    }
    let (at, other) = (at as usize % length, other as usize % length);
    match kind % 8 {
        0 => bytes[at] ^= 1 << (value % 8),
        1 => bytes[at] = value as u8,
        2 => bytes.truncate(at),
        3 => {
            bytes.remove(at);
        }
        4 => bytes.extend(value.to_le_bytes().iter().take(1 + other % 8)),
        // A number, wherever it may stand and however wide it may be.
        5 => {
            let extreme = EXTREMES[(value % 8) as usize].to_le_bytes();
            let width = [1, 2, 4, 8][(value / 8 % 4) as usize];
            bytes.iter_mut().skip(at).zip(&extreme[..width]).for_each(|(byte, extreme)| *byte = *extreme);
        }
        // A piece over another place, which makes fields equal that were not.
        6 => {
            let piece = bytes[at..(at + 1 + value as usize % 64).min(length)].to_vec();
            bytes.iter_mut().skip(other).zip(piece).for_each(|(byte, piece)| *byte = piece);
        }
        // A piece once more.
        _ => {
            let piece = bytes[at.min(other)..=at.max(other)].iter().take(512).copied().collect::<Vec<_>>();
            let rest = bytes.split_off(at);
            bytes.extend(piece);
            bytes.extend(rest);
        }
    }
}
