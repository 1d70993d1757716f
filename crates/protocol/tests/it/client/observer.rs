//! Somebody who found a group's card and has all boxes, and knows the specification but no code of ours.

use std::collections::BTreeMap;

use aes_gcm_siv::aead::{Aead as _, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit as _, Nonce};
use data_encoding::BASE32_NOPAD;
use hkdf::Hkdf;
use sha2::Sha256;

fn expand<const N: usize>(key: &[u8; 32], domain: &str, fields: &[&[u8]]) -> [u8; N] {
    let mut output = [0; N];
    let info = [domain.as_bytes(), &[0], &fields.concat()].concat();
    Hkdf::<Sha256>::from_prk(key).unwrap().expand(&info, &mut output).unwrap();
    output
}

/// All that the card opens of the boxes of rounds before `end`, with the round of each.
pub(super) fn open_all<const BOX: usize>(
    card: &str,
    end: u64,
    boxes: &BTreeMap<(usize, [u8; 16]), [u8; BOX]>,
) -> Vec<(u64, Vec<u8>)> {
    let card = card.strip_prefix("sotto-group-1-").unwrap().to_ascii_uppercase();
    let card = BASE32_NOPAD.decode(card.as_bytes()).unwrap();
    let (id, secret): (&[u8], [u8; 32]) = (&card[8..24], card[24..56].try_into().unwrap());
    let start = u64::from_le_bytes(card[56..64].try_into().unwrap());
    let mut opened = Vec::new();
    for member in 0..usize::from(card[88]) {
        let identity = &card[89 + 48 * member + 16..][..32];
        let mut chain: [u8; 32] = expand(&secret, "sotto v1 group chain", &[id, &[0; 4], identity]);
        for round in start..end {
            let key: [u8; 32] = expand(&chain, "sotto v1 round key", &[]);
            let label: [u8; 16] = expand(&key, "sotto v1 message label", &[&[0; 4]]);
            let message: [u8; 32] = expand(&key, "sotto v1 message key", &[&[0; 4]]);
            let aad = [b"sotto v1 box".as_slice(), &[0], &round.to_le_bytes(), &label].concat();
            let cipher = Aes256GcmSiv::new(&message.into());
            for sealed in boxes.iter().filter(|((_, other), _)| *other == label).map(|(_, sealed)| sealed) {
                let content = cipher.decrypt(&Nonce::default(), Payload { msg: sealed, aad: &aad });
                opened.push((round, content.unwrap()));
            }
            chain = expand(&chain, "sotto v1 chain step", &[]);
        }
    }
    opened
}
