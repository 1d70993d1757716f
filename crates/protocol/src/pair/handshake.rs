//! What two people who meet derive and sign.
//!
//! ```text
//! base      = HKDF-Expand(invitation secret, "sotto v1 handshake base" | 0)
//! x         = X25519 of one's own exchange secret and the other's exchange key
//! secret    = HKDF-Extract("sotto v1 handshake secret", base | x)
//! keys      = X25519 exchange key, 32 bytes | Ed25519 identity key, 32 bytes
//! root      = HKDF-Expand(secret, "sotto v1 pair root" | 0 | keys of the inviter | keys of the invited)
//! chain     = HKDF-Expand(root, "sotto v1 pair chain" | 0 | direction)         0 from the inviter, 1 from the invited
//! signature = Ed25519(identity key, "sotto v1 handshake signature" | 0 | mark of the invitation, 8 bytes | direction, u8
//!                                   | keys of the inviter | keys of the invited)
//! request   = exchange key of the invited, 32 bytes
//!             | AES-256-GCM-SIV(request key, nonce of zeros, identity key of the invited | signature of direction 1)
//! request key = HKDF-Expand(secret, "sotto v1 request key" | 0 | keys of the inviter | exchange key of the invited)
//! answer    = signature of direction 0
//! ```

use aes_gcm_siv::aead::Aead;
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::error::Malformed;
use crate::invitation::{Invitation, InvitationMark};
use crate::secret::Secret;
use crate::{Error, domain};

const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
const TAG_BYTES: usize = 16;
/// Bytes of a request.
pub(crate) const REQUEST_BYTES: usize = KEY_BYTES + KEY_BYTES + SIGNATURE_BYTES + TAG_BYTES;
/// Bytes of an answer.
pub(crate) const ANSWER_BYTES: usize = SIGNATURE_BYTES;

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

/// What both sign: this invitation, and the keys of both.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Terms {
    pub(crate) mark: InvitationMark,
    pub(crate) inviter: Keys,
    pub(crate) invited: Keys,
}

impl Terms {
    fn signed(&self, by_inviter: bool) -> Vec<u8> {
        let (inviter, invited) = (self.inviter.encode(), self.invited.encode());
        let direction = u8::from(!by_inviter);
        let domain = domain::HANDSHAKE_SIGNATURE.as_bytes();
        [domain, &[0], &self.mark, &[direction], &inviter, &invited].concat()
    }

    pub(crate) fn sign(&self, by_inviter: bool, identity: &SigningKey) -> [u8; SIGNATURE_BYTES] {
        identity.sign(&self.signed(by_inviter)).to_bytes()
    }

    /// Strictly, which also refuses keys of small order.
    pub(crate) fn is_signed(&self, by_inviter: bool, signature: &[u8; SIGNATURE_BYTES]) -> bool {
        let identity = if by_inviter { self.inviter.identity } else { self.invited.identity };
        let signature = Signature::from_bytes(signature);
        VerifyingKey::from_bytes(&identity)
            .is_ok_and(|key| key.verify_strict(&self.signed(by_inviter), &signature).is_ok())
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

    /// From which the chains of the conversation come.
    pub(crate) fn root(&self, terms: &Terms) -> Secret {
        self.0.expand(domain::PAIR_ROOT, &[&terms.inviter.encode(), &terms.invited.encode()])
    }

    fn cipher(&self, inviter: &Keys, exchange: &[u8; KEY_BYTES]) -> Aes256GcmSiv {
        let key = self.0.expand(domain::REQUEST_KEY, &[&inviter.encode(), exchange]);
        Aes256GcmSiv::new(key.bytes().into())
    }

    /// The one request that is ever sealed with this secret: signatures of Ed25519 are deterministic.
    ///
    /// # Errors
    /// None in fact: 96 bytes are within the limits of the cipher.
    pub(crate) fn request(&self, terms: &Terms, identity: &SigningKey) -> Result<Vec<u8>, Error> {
        let signature = terms.sign(false, identity);
        let plaintext = [terms.invited.identity.as_slice(), &signature].concat();
        let cipher = self.cipher(&terms.inviter, &terms.invited.exchange);
        let sealed = cipher.encrypt(&Nonce::default(), plaintext.as_slice()).map_err(|_| MALFORMED)?;
        Ok([terms.invited.exchange.as_slice(), &sealed].concat())
    }

    /// The identity in a request, proven.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it was not sealed for this inviter, or its signature does not hold.
    pub(crate) fn open(
        &self,
        mark: InvitationMark,
        inviter: Keys,
        request: &[u8; REQUEST_BYTES],
    ) -> Result<Terms, Error> {
        let (exchange, sealed) = request.split_first_chunk::<KEY_BYTES>().ok_or(MALFORMED)?;
        let opened = self.cipher(&inviter, exchange).decrypt(&Nonce::default(), sealed);
        let opened = Zeroizing::new(opened.map_err(|_| MALFORMED)?);
        let (identity, signature) = opened.split_first_chunk::<KEY_BYTES>().ok_or(MALFORMED)?;
        let invited = Keys { exchange: *exchange, identity: *identity };
        let terms = Terms { mark, inviter, invited };
        let signature = signature.try_into().map_err(|_| MALFORMED)?;
        if !terms.is_signed(false, &signature) {
            return Err(MALFORMED);
        }
        Ok(terms)
    }
}

#[cfg(test)]
mod tests;
