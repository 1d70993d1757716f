//! Keys that a computer which solves discrete logarithms does not find out either.
//!
//! Two who have met talk under keys that follow from X25519 alone. With their first messages they agree on others: the inviter
//! *offers* a key of ML-KEM-768 and one of X25519, the invited one *answers* with a ciphertext, a key of X25519 and the round
//! in which the new chains begin. Both travel as numbered messages, in parts, repeated until acknowledged, and the new chains
//! replace the old ones:
//!
//! ```text
//! offer   = encapsulation key, 1184 bytes | X25519 key, 32 bytes
//! answer  = first round, u64 LE | ciphertext, 1088 bytes | X25519 key, 32 bytes
//! secret  = HKDF-Extract("sotto v1 renewal secret", ML-KEM secret | X25519 secret)
//! root    = HKDF-Expand(secret, "sotto v1 renewed root" | 0 | SHA-256(offer) | SHA-256(answer))
//! chain   = HKDF-Expand(root, "sotto v1 pair chain" | 0 | direction)
//! ```
//!
//! The inviter speaks under the new keys from the block of rounds after it has read the answer, and first *confirms* that it has
//! it, by a message of one byte; the invited one speaks under them from the block after it has read anything under them. Until
//! then each listens under both. So neither ever speaks where the other does not listen, whatever is lost. The confirmation is
//! repeated until acknowledged, and so each hears the other under the new keys: then the old ones are gone.
//!
//! What offers and answers are made of comes from one secret of each side, independent of its key in the handshake. New
//! randomness is mixed in with every round until it is used, so that who took a disk before that, and only listens after it, does
//! not have it:
//!
//! ```text
//! share         = HKDF-Extract("sotto v1 renewal share", share before | 32 random bytes)
//! seed (d or z) = HKDF-Expand(share, "sotto v1 renewal key" | 0 | 0 or 1)
//! randomness    = HKDF-Expand(share, "sotto v1 renewal randomness" | 0 | SHA-256(offer))
//! X25519 secret = HKDF-Expand(share, "sotto v1 renewal exchange" | 0)
//! ```

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};

use super::Chains;
use super::handshake::exchange_key;
use crate::error::Malformed;
use crate::reaction::block;
use crate::secret::Secret;
use crate::secret::kem::{KemSeed, encapsulate};
use crate::{Error, Round, domain};

const KEY_BYTES: usize = 32;
const ROUND_BYTES: usize = 8;

/// What the inviter says when it has the answer.
const CONFIRMATION: [u8; 1] = [0];

const MALFORMED: Error = Error::Malformed(Malformed::Message);

/// From which all that one side sends in a renewal comes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Share(Secret);

impl Share {
    pub(crate) fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Mixes a round's randomness in.
    pub(crate) fn mix(&mut self, fresh: &Secret) {
        self.0 = Secret::extract(domain::RENEWAL_SHARE, [&self.0, fresh]);
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> [u8; 32] {
        *self.0.bytes()
    }

    fn seed(&self) -> KemSeed {
        let half = |number: u8| self.0.expand(domain::RENEWAL_KEY, &[&[number]]);
        KemSeed::new(half(0), half(1))
    }

    fn exchange(&self) -> Secret {
        self.0.expand(domain::RENEWAL_EXCHANGE, &[])
    }

    /// What the inviter sends.
    pub(crate) fn offer(&self) -> Vec<u8> {
        [self.seed().encapsulation_key().as_slice(), &exchange_key(&self.exchange())].concat()
    }

    /// What the invited one sends to an offer, and the root of the new keys, which begin with a round.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no honest inviter offers that.
    pub(crate) fn answer(&self, offer: &[u8], first: Round) -> Result<(Vec<u8>, Secret), Error> {
        let (key, other) = offer.split_last_chunk::<KEY_BYTES>().ok_or(MALFORMED)?;
        let randomness = self.0.expand(domain::RENEWAL_RANDOMNESS, &[&digest(offer)]);
        let (ciphertext, shared) = encapsulate(key, &randomness).map_err(|_| MALFORMED)?;
        let own = exchange_key(&self.exchange());
        let answer = [first.0.to_le_bytes().as_slice(), &ciphertext, &own].concat();
        let root = root(&shared, &self.agree(other)?, offer, &answer);
        Ok((answer, root))
    }

    /// The root that an answer to this side's offer leads to, and the round in which its keys begin.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no honest peer answers that.
    pub(super) fn take(&self, answer: &[u8]) -> Result<(Secret, Round), Error> {
        let (first, rest) = answer.split_first_chunk::<ROUND_BYTES>().ok_or(MALFORMED)?;
        let (ciphertext, other) = rest.split_last_chunk::<KEY_BYTES>().ok_or(MALFORMED)?;
        let shared = self.seed().decapsulate(ciphertext).map_err(|_| MALFORMED)?;
        let root = root(&shared, &self.agree(other)?, &self.offer(), answer);
        Ok((root, Round(u64::from_le_bytes(*first))))
    }

    /// # Errors
    /// [`Error::Malformed`] for a key of small order, with which anybody would know the secret.
    fn agree(&self, other: &[u8; KEY_BYTES]) -> Result<Secret, Error> {
        let shared = StaticSecret::from(*self.exchange().bytes()).diffie_hellman(&PublicKey::from(*other));
        if !shared.was_contributory() {
            return Err(MALFORMED);
        }
        Ok(Secret::new(shared.to_bytes()))
    }
}

fn root(shared: &Secret, exchanged: &Secret, offer: &[u8], answer: &[u8]) -> Secret {
    let secret = Secret::extract(domain::RENEWAL_SECRET, [shared, exchanged]);
    secret.expand(domain::RENEWED_ROOT, &[&digest(offer), &digest(answer)])
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// How far a side is.
#[derive(Serialize, Deserialize)]
pub(crate) enum Renewal {
    /// The inviter, until the answer has come, and when it began to offer.
    Offered(Share, Round),
    /// The invited one, until the offer has come.
    Awaiting(Share),
    /// Both keys are there.
    Changing(Box<Changing>),
}

/// The new keys beside the old ones.
#[derive(Serialize, Deserialize)]
pub(crate) struct Changing {
    chains: Chains,
    /// What is said when the next block begins, answer or confirmation; empty then.
    says: Vec<u8>,
    /// The other one has the new keys: with the inviter always, with the invited one as soon as it has heard that.
    known: bool,
    /// Something came under the new keys.
    heard: bool,
    /// Whether this side speaks under the new keys, as the present block began.
    speaks: bool,
    block: u64,
}

/// What follows when a block of rounds begins.
pub(crate) enum Begun {
    /// Nothing.
    Nothing,
    /// This is to be said.
    Says(Vec<u8>),
    /// The new keys are the keys now.
    Renewed,
}

impl Renewal {
    /// Opens a round.
    pub(crate) fn begin(&mut self, round: Round) -> Begun {
        let Self::Changing(changing) = self else { return Begun::Nothing };
        if changing.block == block(round) {
            return Begun::Nothing;
        }
        changing.block = block(round);
        changing.speaks = changing.known;
        if changing.known && changing.heard {
            return Begun::Renewed;
        }
        match core::mem::take(&mut changing.says) {
            nothing if nothing.is_empty() => Begun::Nothing,
            says => Begun::Says(says),
        }
    }

    /// The new keys, if they are there.
    pub(crate) fn into_chains(self) -> Option<Chains> {
        match self {
            Self::Changing(changing) => Some(changing.chains),
            Self::Offered(..) | Self::Awaiting(_) => None,
        }
    }

    /// The new keys, once they are there, and whether this side speaks under them.
    pub(crate) fn chains(&mut self) -> Option<(&mut Chains, bool)> {
        match self {
            Self::Changing(changing) => Some((&mut changing.chains, changing.speaks)),
            Self::Offered(..) | Self::Awaiting(_) => None,
        }
    }

    /// The share that is not used yet.
    pub(crate) fn share(&mut self) -> Option<&mut Share> {
        match self {
            Self::Awaiting(share) => Some(share),
            Self::Offered(..) | Self::Changing(_) => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn share_bytes(&self) -> Option<[u8; 32]> {
        match self {
            Self::Offered(share, _) | Self::Awaiting(share) => Some(share.bytes()),
            Self::Changing(_) => None,
        }
    }

    /// Something came under the new keys.
    pub(crate) fn hear(&mut self) {
        if let Self::Changing(changing) = self {
            (changing.known, changing.heard) = (true, true);
        }
    }

    /// Takes an offer or an answer, `next` being the first round that is not opened. A second one means nothing.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no honest peer says that.
    pub(crate) fn take(&mut self, content: &[u8], next: Round) -> Result<(), Error> {
        let (chains, says, known) = match self {
            Self::Offered(share, since) => {
                let (root, first) = share.take(content)?;
                // The answer was made when the offer had been said, and said in its first round or later.
                if first >= next || first < *since {
                    return Err(MALFORMED);
                }
                (Chains::new(&root, first, next, true)?, CONFIRMATION.to_vec(), true)
            }
            Self::Awaiting(share) => {
                let (answer, root) = share.answer(content, next)?;
                (Chains::new(&root, next, next, false)?, answer, false)
            }
            Self::Changing(_) => return Ok(()),
        };
        // What was read shows when the next block begins.
        let block = block(next.back(1));
        let changing = Changing { chains, says, known, heard: false, speaks: false, block };
        *self = Self::Changing(Box::new(changing));
        Ok(())
    }

    /// Whether the other may have gone on to keys that one of this state, kept aside, never has, or never speaks under.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Offered(..) | Self::Awaiting(_) => true,
            Self::Changing(changing) => !changing.known,
        }
    }
}
