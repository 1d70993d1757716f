//! What two people who meet derive and sign.
//!
//! ```text
//! base      = HKDF-Expand(invitation secret, "sotto v1 handshake base" | 0)
//! x         = X25519 of one's own exchange secret and the other's exchange key
//! secret    = HKDF-Extract("sotto v1 handshake secret", base | x)
//! keys      = X25519 exchange key, 32 bytes | Ed25519 identity key, 32 bytes
//! offer     = SHA-256(encapsulation key of the invited, 1,184 bytes)
//! taken     = SHA-256(offer | ciphertext of the inviter, 1,088 bytes)
//! signature = Ed25519(identity key, "sotto v1 hybrid signature" | 0 | mark of the invitation, 8 bytes | direction, u8
//!                                   | keys of the inviter | keys of the invited | t)
//!             t is the offer in direction 1, from the invited, and taken in direction 0, from the inviter
//! request   = exchange key of the invited, 32 bytes
//!             | AES-256-GCM-SIV(request key, nonce of zeros, identity key of the invited | signature of direction 1
//!                                                            | encapsulation key)
//! request key  = HKDF-Expand(secret, "sotto v1 request key" | 0 | keys of the inviter | exchange key of the invited)
//! answer    = signature of direction 0 | ciphertext
//! answer chain = HKDF-Expand(secret, "sotto v1 answer chain" | 0)
//! hybrid base  = HKDF-Expand(secret, "sotto v1 hybrid base" | 0)
//! k         = the secret in the ciphertext, by ML-KEM-768
//! hybrid    = HKDF-Extract("sotto v1 hybrid secret", hybrid base | k)
//! root      = HKDF-Expand(hybrid, "sotto v1 hybrid root" | 0 | keys of the inviter | keys of the invited | taken)
//! chain     = HKDF-Expand(root, "sotto v1 pair chain" | 0 | direction)
//! ```

use aes_gcm_siv::aead::Aead;
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::error::Malformed;
use crate::invitation::{Invitation, InvitationMark};
use crate::secret::Secret;
use crate::secret::kem::{CIPHERTEXT_BYTES, ENCAPSULATION_KEY_BYTES};
use crate::{Error, domain};

const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
const TAG_BYTES: usize = 16;
/// Bytes of a request.
pub(crate) const REQUEST_BYTES: usize =
    KEY_BYTES + KEY_BYTES + SIGNATURE_BYTES + ENCAPSULATION_KEY_BYTES + TAG_BYTES;
/// Bytes of an answer.
pub(crate) const ANSWER_BYTES: usize = SIGNATURE_BYTES + CIPHERTEXT_BYTES;

const MALFORMED: Error = Error::Malformed(Malformed::Message);

/// The public keys of one side.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keys {
    pub(crate) exchange: [u8; KEY_BYTES],
    pub(crate) identity: [u8; KEY_BYTES],
}

impl Keys {
    fn encode(&self) -> [u8; 2 * KEY_BYTES] {
        let mut bytes = [0; 2 * KEY_BYTES];
        let (exchange, identity) = bytes.split_at_mut(KEY_BYTES);
        exchange.copy_from_slice(&self.exchange);
        identity.copy_from_slice(&self.identity);
        bytes
    }
}

/// The public half of an exchange secret.
pub(crate) fn exchange_key(exchange: &Secret) -> [u8; KEY_BYTES] {
    PublicKey::from(&StaticSecret::from(*exchange.bytes())).to_bytes()
}

/// What of an invitation's secret goes into the agreement: not the labels of requests.
pub(crate) fn base(invitation: &Invitation) -> Secret {
    invitation.secret.expand(domain::HANDSHAKE_BASE, &[])
}

/// What both sign: this invitation, the keys of both, and what the invited one offers for a key encapsulation.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Terms {
    pub(crate) mark: InvitationMark,
    pub(crate) inviter: Keys,
    pub(crate) invited: Keys,
    /// Digest of the encapsulation key.
    pub(crate) offer: [u8; 32],
}

/// The digest by which an encapsulation key is signed.
pub(crate) fn offer(key: &[u8; ENCAPSULATION_KEY_BYTES]) -> [u8; 32] {
    Sha256::digest(key).into()
}

impl Terms {
    /// The digest by which encapsulation key and ciphertext are signed.
    fn taken(&self, ciphertext: &[u8]) -> [u8; 32] {
        Sha256::new_with_prefix(self.offer).chain_update(ciphertext).finalize().into()
    }

    /// With the ciphertext by the inviter, without one by the invited.
    fn signed(&self, ciphertext: Option<&[u8]>) -> Vec<u8> {
        let (inviter, invited) = (self.inviter.encode(), self.invited.encode());
        let (direction, digest) = match ciphertext {
            Some(ciphertext) => (0, self.taken(ciphertext)),
            None => (1, self.offer),
        };
        let domain = domain::HYBRID_SIGNATURE.as_bytes();
        [domain, &[0], &self.mark, &[direction], &inviter, &invited, &digest].concat()
    }

    /// The signature of the inviter under a ciphertext, or of the invited under what it offers.
    pub(crate) fn sign(&self, ciphertext: Option<&[u8]>, identity: &SigningKey) -> [u8; SIGNATURE_BYTES] {
        identity.sign(&self.signed(ciphertext)).to_bytes()
    }

    /// Strictly, which also refuses keys of small order.
    pub(crate) fn is_signed(&self, ciphertext: Option<&[u8]>, signature: &[u8; SIGNATURE_BYTES]) -> bool {
        let signer = if ciphertext.is_some() { &self.inviter } else { &self.invited };
        let signature = Signature::from_bytes(signature);
        VerifyingKey::from_bytes(&signer.identity)
            .is_ok_and(|key| key.verify_strict(&self.signed(ciphertext), &signature).is_ok())
    }

    /// The answer of the inviter.
    pub(crate) fn answer(&self, ciphertext: &[u8], identity: &SigningKey) -> Vec<u8> {
        [&self.sign(Some(ciphertext), identity), ciphertext].concat()
    }

    /// The ciphertext of an answer that the inviter has signed.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is none.
    pub(crate) fn take<'a>(&self, answer: &'a [u8]) -> Result<&'a [u8], Error> {
        let (signature, ciphertext) = answer.split_first_chunk().ok_or(MALFORMED)?;
        if ciphertext.len() != CIPHERTEXT_BYTES || !self.is_signed(Some(ciphertext), signature) {
            return Err(MALFORMED);
        }
        Ok(ciphertext)
    }

    /// From which the chains of the conversation come: of what both kept of the handshake, of the secret in the
    /// ciphertext, and of all that was signed.
    pub(crate) fn root(&self, base: &Secret, shared: &Secret, ciphertext: &[u8]) -> Secret {
        let hybrid = Secret::extract(domain::HYBRID_SECRET, [base, shared]);
        let fields: [&[u8]; 3] = [&self.inviter.encode(), &self.invited.encode(), &self.taken(ciphertext)];
        hybrid.expand(domain::HYBRID_ROOT, &fields)
    }
}

/// The secret of a handshake.
pub(crate) struct Agreement(Secret);

impl Agreement {
    /// # Errors
    /// [`Error::Malformed`] for a key of small order, with which anybody would know the secret.
    pub(crate) fn new(base: &Secret, own: &Secret, other: &[u8; KEY_BYTES]) -> Result<Self, Error> {
        let shared = StaticSecret::from(*own.bytes()).diffie_hellman(&PublicKey::from(*other));
        if !shared.was_contributory() {
            return Err(MALFORMED);
        }
        let shared = Secret::new(shared.to_bytes());
        Ok(Self(Secret::extract(domain::HANDSHAKE_SECRET, [base, &shared])))
    }

    /// From which the chain of answers comes. Its labels are nobody's who finds the invitation later.
    pub(crate) fn answers(&self) -> Secret {
        self.0.expand(domain::ANSWER_CHAIN, &[])
    }

    /// What goes into the root of the conversation: neither the request opens with it nor do the labels of answers follow
    /// from it, so that it can be kept while the answer is waited for.
    pub(crate) fn base(&self) -> Secret {
        self.0.expand(domain::HYBRID_BASE, &[])
    }

    fn cipher(&self, inviter: &Keys, exchange: &[u8; KEY_BYTES]) -> Aes256GcmSiv {
        let key = self.0.expand(domain::REQUEST_KEY, &[&inviter.encode(), exchange]);
        Aes256GcmSiv::new(key.bytes().into())
    }

    /// The one request that is ever sealed with this secret: signatures of Ed25519 are deterministic.
    ///
    /// # Errors
    /// None in fact: 1,280 bytes are within the limits of the cipher.
    pub(crate) fn request(
        &self,
        terms: &Terms,
        key: &[u8; ENCAPSULATION_KEY_BYTES],
        identity: &SigningKey,
    ) -> Result<Vec<u8>, Error> {
        let signature = terms.sign(None, identity);
        let plaintext = [terms.invited.identity.as_slice(), &signature, key].concat();
        let cipher = self.cipher(&terms.inviter, &terms.invited.exchange);
        let sealed = cipher.encrypt(&Nonce::default(), plaintext.as_slice()).map_err(|_| MALFORMED)?;
        Ok([terms.invited.exchange.as_slice(), &sealed].concat())
    }

    /// The identity in a request, proven, and the encapsulation key that it has signed.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it was not sealed for this inviter, or its signature does not hold.
    pub(crate) fn open(
        &self,
        mark: InvitationMark,
        inviter: Keys,
        request: &[u8; REQUEST_BYTES],
    ) -> Result<(Terms, [u8; ENCAPSULATION_KEY_BYTES]), Error> {
        let (exchange, sealed) = request.split_first_chunk::<KEY_BYTES>().ok_or(MALFORMED)?;
        let opened = self.cipher(&inviter, exchange).decrypt(&Nonce::default(), sealed);
        let opened = Zeroizing::new(opened.map_err(|_| MALFORMED)?);
        let (identity, rest) = opened.split_first_chunk::<KEY_BYTES>().ok_or(MALFORMED)?;
        let (signature, key) = rest.split_first_chunk().ok_or(MALFORMED)?;
        let key = key.try_into().map_err(|_| MALFORMED)?;
        let invited = Keys { exchange: *exchange, identity: *identity };
        let terms = Terms { mark, inviter, invited, offer: offer(&key) };
        if !terms.is_signed(None, signature) {
            return Err(MALFORMED);
        }
        Ok((terms, key))
    }
}

#[cfg(test)]
mod tests;
