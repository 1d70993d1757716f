//! What the keys of a handshake depend on: whatever may not be exchanged unnoticed, and nothing that a finder has.

use std::collections::BTreeSet;

use aes_gcm_siv::aead::Aead;
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use ed25519_dalek::SigningKey;

use super::{Agreement, KEY_BYTES, Keys, REQUEST_BYTES, Terms, exchange_key};
use crate::domain;
use crate::secret::Secret;

const ALICE: u8 = 1;
const BOB: u8 = 2;
const BASE: [u8; 32] = [7; 32];

fn secret(number: u8) -> Secret {
    Secret::new([number; 32])
}

fn keys(number: u8) -> Keys {
    let identity = SigningKey::from_bytes(&[number; 32]).verifying_key().to_bytes();
    Keys { exchange: exchange_key(&secret(number)), identity }
}

/// The secret agreed by the owner of one exchange secret with that of another one.
fn agreed(base: [u8; 32], own: u8, other: u8) -> Agreement {
    Agreement::new(&Secret::new(base), &secret(own), &keys(other).exchange).unwrap()
}

fn terms() -> Terms {
    Terms { mark: [3; 8], inviter: keys(ALICE), invited: keys(BOB) }
}

fn request(terms: &Terms) -> [u8; REQUEST_BYTES] {
    let identity = SigningKey::from_bytes(&[BOB; 32]);
    agreed(BASE, BOB, ALICE).request(terms, &identity).unwrap().try_into().unwrap()
}

/// The base follows from the invitation's string and the public keys stand in it and in the request: they alone make no
/// secret, and neither does one exchange secret without the other's key.
#[test]
fn an_agreed_secret_takes_an_exchange_secret_and_the_others_key_and_the_invitation() {
    let both = [agreed(BASE, ALICE, BOB), agreed(BASE, BOB, ALICE)];
    assert_eq!(both[0].0.bytes(), both[1].0.bytes());
    let others =
        [agreed(BASE, ALICE, 4), agreed(BASE, 4, BOB), agreed(BASE, 4, 5), agreed([8; 32], ALICE, BOB)];
    let all: BTreeSet<[u8; 32]> = both.iter().chain(&others).map(|agreement| *agreement.0.bytes()).collect();
    assert_eq!(all.len(), 1 + others.len());
}

/// A finder of the invitation has its secret, hence the base, and every public key. Whatever takes the place of what the
/// two agreed on, the request that he recorded stays closed.
#[test]
fn who_finds_the_invitation_does_not_read_who_asked() {
    let request = request(&terms());
    let base = Secret::new(BASE);
    let (inviter, invited) = (keys(ALICE), keys(BOB));
    let mut guesses: Vec<Secret> = vec![base.clone(), Secret::new([0; 32])];
    guesses.extend([inviter.exchange, inviter.identity, invited.exchange, BASE].map(Secret::new));
    let mixed: Vec<Secret> =
        guesses.iter().map(|guess| Secret::extract(domain::HANDSHAKE_SECRET, [&base, guess])).collect();
    for guess in guesses.into_iter().chain(mixed) {
        let finder = Agreement(guess);
        assert!(finder.open(terms().mark, inviter, &request).is_err());
        let ciphers =
            [finder.cipher(&inviter, &invited.exchange), Aes256GcmSiv::new(finder.0.bytes().into())];
        for cipher in ciphers {
            assert!(cipher.decrypt(&Nonce::default(), &request[KEY_BYTES..]).is_err());
        }
    }
    assert!(agreed(BASE, ALICE, BOB).open(terms().mark, inviter, &request).is_ok());
}

/// Not even to the one who agreed on the secret with the sender: whoever stands under another identity, or hands the
/// request on under another key of its own.
#[test]
fn a_request_is_closed_to_another_inviter_and_under_another_exchange_key() {
    let (request, agreement) = (request(&terms()), agreed(BASE, ALICE, BOB));
    let open = |inviter: &Keys, exchange: &[u8; 32]| {
        agreement.cipher(inviter, exchange).decrypt(&Nonce::default(), &request[KEY_BYTES..]).is_ok()
    };
    let (inviter, invited) = (keys(ALICE), keys(BOB));
    assert!(open(&inviter, &invited.exchange));
    assert!(!open(&Keys { identity: keys(4).identity, ..inviter }, &invited.exchange));
    assert!(!open(&Keys { exchange: keys(4).exchange, ..inviter }, &invited.exchange));
    assert!(!open(&inviter, &keys(4).exchange));
}

/// Two who believe different things of who they are have no key in common, whatever was signed.
#[test]
fn the_keys_of_a_conversation_follow_from_all_four_public_keys() {
    let (agreement, other) = (agreed(BASE, ALICE, BOB), keys(4));
    let Terms { mark, inviter, invited } = terms();
    let changed = [
        terms(),
        Terms { inviter: Keys { exchange: other.exchange, ..inviter }, ..terms() },
        Terms { inviter: Keys { identity: other.identity, ..inviter }, ..terms() },
        Terms { invited: Keys { exchange: other.exchange, ..invited }, ..terms() },
        Terms { invited: Keys { identity: other.identity, ..invited }, ..terms() },
        Terms { mark, inviter: invited, invited: inviter },
    ];
    let roots: BTreeSet<[u8; 32]> = changed.iter().map(|terms| *agreement.root(terms).bytes()).collect();
    assert_eq!(roots.len(), changed.len());
}
