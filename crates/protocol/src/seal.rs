//! Sealed boxes: AES-256-GCM-SIV (RFC 8452) under a key that serves for exactly one message, hence with a zero nonce.
//!
//! The cipher resists misuse of nonces: where somebody has restored an old state and a server replays old rounds to it, so
//! that a key seals two messages after all, the two show whether they are equal, and nothing else.
//!
//! ```text
//! box (288 bytes)  = ciphertext (272) | tag (16)
//! associated data  = "sotto v1 box" | 0 | round, u64 LE | label (16)
//! ```

use core::fmt;

use aes_gcm_siv::aead::{Aead, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::deposit::{BOX_BYTES, LABEL_BYTES, SELECTOR_BYTES};
use crate::secret::Secret;
use crate::{Deposit, Label, Round, SealedBox, domain};

/// Bytes of what is sealed: header and body.
pub(crate) const PLAINTEXT_BYTES: usize = BOX_BYTES - 16;

/// Header and body of a message before it is sealed.
pub(crate) type Plaintext = Zeroizing<[u8; PLAINTEXT_BYTES]>;

/// Seals one message, and is consumed by that.
pub(crate) struct SealingKey {
    round: Round,
    label: Label,
    key: Secret,
}

/// Opens the message sealed under its twin. It may be tried on several boxes, since anybody can deposit another box
/// under the same label.
#[derive(Serialize, Deserialize)]
pub(crate) struct OpeningKey {
    round: Round,
    label: [u8; LABEL_BYTES],
    key: Secret,
}

impl SealingKey {
    pub(crate) fn new(round: Round, label: Label, key: Secret) -> Self {
        Self { round, label, key }
    }

    pub(crate) fn label(&self) -> Label {
        self.label
    }

    /// The only way a deposit comes into being, for messages and for cover.
    pub(crate) fn seal(self, plaintext: &Plaintext) -> Deposit {
        let aad = associated_data(self.round, self.label);
        let message = Payload { msg: plaintext.as_slice(), aad: &aad };
        let ciphertext = cipher(&self.key).encrypt(&Nonce::default(), message);
        let sealed = ciphertext.ok().and_then(|bytes| bytes.try_into().ok());
        let sealed = sealed.expect("272 bytes are within the limits of the cipher and grow by a tag of 16");
        Deposit { label: self.label, sealed: SealedBox(sealed) }
    }
}

impl OpeningKey {
    pub(crate) fn new(round: Round, label: Label, key: Secret) -> Self {
        Self { round, label: label.0, key }
    }

    pub(crate) fn label(&self) -> Label {
        Label(self.label)
    }

    /// The same key once more: it opens nothing else.
    pub(crate) fn again(&self) -> Self {
        Self { round: self.round, label: self.label, key: self.key.clone() }
    }

    /// The same key for a knock in another cell, whose box it does not open.
    pub(crate) fn aimed(mut self, selector: [u8; SELECTOR_BYTES]) -> Self {
        self.label = self.label().aimed(selector).0;
        self
    }

    /// The plaintext, if these are the bytes of a box sealed under this key's twin.
    pub(crate) fn open(&self, sealed: &[u8]) -> Option<Plaintext> {
        let aad = associated_data(self.round, self.label());
        let message = Payload { msg: sealed, aad: &aad };
        let plaintext = Zeroizing::new(cipher(&self.key).decrypt(&Nonce::default(), message).ok()?);
        Some(Zeroizing::new(plaintext.as_slice().try_into().ok()?))
    }
}

fn cipher(key: &Secret) -> Aes256GcmSiv {
    Aes256GcmSiv::new(key.bytes().into())
}

fn associated_data(round: Round, label: Label) -> Vec<u8> {
    [domain::BOX.as_bytes(), &[0], &round.0.to_le_bytes(), &label.0].concat()
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKey").field("round", &self.round).finish_non_exhaustive()
    }
}

impl fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpeningKey").field("round", &self.round).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{PLAINTEXT_BYTES, Plaintext};
    use crate::ratchet::Chain;
    use crate::secret::Secret;
    use crate::{Label, Round};

    fn chain() -> Chain {
        Chain::new(Round(1), Secret::new([7; 32]))
    }

    #[test]
    fn a_box_opens_under_its_own_label_and_round_only() {
        let plaintext = Plaintext::new([5; PLAINTEXT_BYTES]);
        let deposit = chain().take(Round(1)).unwrap().sealing(0).seal(&plaintext);
        let key = chain().take(Round(1)).unwrap().opening(0);
        assert_eq!(key.open(&deposit.sealed.0), Some(plaintext.clone()));
        for at in 0..deposit.sealed.0.len() {
            let mut damaged = deposit.sealed.0;
            damaged[at] ^= 1;
            assert!(key.open(&damaged).is_none());
        }
        for length in [0, 15, 16, 287] {
            assert!(key.open(&deposit.sealed.0[..length]).is_none());
        }
        let secret = || Secret::new(*key.key.bytes());
        assert!(super::OpeningKey::new(Round(2), key.label(), secret()).open(&deposit.sealed.0).is_none());
        assert!(super::OpeningKey::new(Round(1), Label([0; 16]), secret()).open(&deposit.sealed.0).is_none());
        let other = chain().take(Round(2)).unwrap().opening(0);
        assert!(other.label() != key.label() && other.open(&deposit.sealed.0).is_none());
    }

    #[test]
    fn secrets_do_not_print_themselves() {
        let key = chain().take(Round(1)).unwrap();
        let printed = format!("{:?} {key:?} {:?}", chain(), Secret::new([7; 32]));
        assert!(printed.contains("Secret(..)") && !printed.contains("7, 7"));
        let sealing = key.sealing(0);
        assert_eq!(format!("{sealing:?}"), "SealingKey { round: Round(1), .. }");
    }
}
