//! What somebody can compute who has an invitation's string and nothing else, by the page of the protocol.

use aes_gcm_siv::aead::{Aead, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use data_encoding::BASE32_NOPAD;
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use sotto_protocol::{Deposit, Invitation};

const PREFIX: &str = "sotto-invite-3-";

/// The bytes of an invitation.
pub(crate) fn bytes(invitation: &Invitation) -> Vec<u8> {
    let text = invitation.to_string();
    let symbols = text.strip_prefix(PREFIX).unwrap().to_uppercase();
    let mut bytes = BASE32_NOPAD.decode(symbols.as_bytes()).unwrap();
    bytes.truncate(bytes.len() - 4);
    bytes
}

/// The string of altered bytes.
pub(crate) fn invitation(bytes: &[u8]) -> Invitation {
    let check = Sha256::new_with_prefix(b"sotto v1 string checksum\0")
        .chain_update(PREFIX)
        .chain_update([0])
        .chain_update(bytes)
        .finalize();
    let symbols = BASE32_NOPAD.encode(&[bytes, &check[..4]].concat()).to_lowercase();
    format!("{PREFIX}{symbols}").parse().unwrap()
}

/// A chain that follows from the string alone.
pub(crate) struct Finder {
    round: u64,
    chain: [u8; 32],
}

impl Finder {
    /// The chain of requests.
    pub(crate) fn new(invitation: &Invitation) -> Self {
        Self::of(invitation, b"sotto v1 request chain\0")
    }

    /// The chain under another domain.
    pub(crate) fn of(invitation: &Invitation, info: &[u8]) -> Self {
        let bytes = bytes(invitation);
        let secret = bytes[9..41].try_into().unwrap();
        let round = u64::from_le_bytes(bytes[105..113].try_into().unwrap());
        Self { round, chain: expand(&secret, info) }
    }

    /// Label and key of the box of a round, from the one it stands at on.
    fn keys(&mut self, round: u64) -> ([u8; 16], [u8; 32]) {
        while self.round < round {
            self.chain = expand(&self.chain, b"sotto v1 chain step\0");
            self.round += 1;
        }
        let key = expand(&self.chain, b"sotto v1 round key\0");
        let label: [u8; 16] = expand(&key, b"sotto v1 message label\0\0\0\0\0");
        (label, expand(&key, b"sotto v1 message key\0\0\0\0\0"))
    }

    /// The label of a round.
    pub(crate) fn label(&mut self, round: u64) -> [u8; 16] {
        self.keys(round).0
    }

    /// What it reads of a round's deposits: under its label, opened.
    pub(crate) fn read(&mut self, round: u64, deposits: &[Deposit]) -> Vec<Option<Vec<u8>>> {
        let (label, key) = self.keys(round);
        let aad = [b"sotto v1 box\0".as_slice(), &round.to_le_bytes(), &label].concat();
        let cipher = Aes256GcmSiv::new(&key.into());
        let open = |deposit: &Deposit| {
            cipher.decrypt(&Nonce::default(), Payload { msg: &deposit.sealed.0, aad: &aad }).ok()
        };
        deposits.iter().filter(|deposit| deposit.label.0 == label).map(open).collect()
    }
}

fn expand<const N: usize>(key: &[u8; 32], info: &[u8]) -> [u8; N] {
    let mut output = [0; N];
    Hkdf::<Sha256>::from_prk(key).unwrap().expand(info, &mut output).unwrap();
    output
}
