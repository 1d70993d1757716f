//! What a state file is, byte by byte (integers little-endian).
//!
//! ```text
//! file    = "sotto state" | version, u8 | SHA-256 of the rest (32) | rest
//! body    = length of the address, u16 | the server's address | the client's snapshot
//! rest    = body                                                                       of version 1
//!         = memory, KiB, u32 | passes, u32 | salt (16) | nonce (24) | sealed padded    of version 2
//! padded  = length of the body, u64 | body | zeros up to a multiple of 16 KiB
//! ```
//!
//! Version 2 is closed with a passphrase. What is padded is sealed by XChaCha20-Poly1305 under the 32 bytes that Argon2id (version 1.3,
//! one lane) makes of passphrase and salt, with all from "sotto state" to the salt but for the SHA-256 as associated data.

use std::path::Path;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::StoreError;
use super::passphrase::{Closed, Key};
use crate::Address;

const MAGIC: &[u8; 11] = b"sotto state";
const OPEN: u8 = 1;
const CLOSED: u8 = 2;
const DIGEST_BYTES: usize = 32;
pub(crate) const HEAD_BYTES: usize = MAGIC.len() + 1 + DIGEST_BYTES;

/// What a file of version 2 begins with, as part of what its seal protects.
pub(super) fn associated(cost_and_salt: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &[CLOSED], cost_and_salt].concat()
}

/// A file, closed if there is a key.
pub(crate) fn encode(address: &Address, snapshot: &[u8], key: Option<&Key>) -> Zeroizing<Vec<u8>> {
    let address = address.to_string();
    let mut body = Zeroizing::new(Vec::with_capacity(2 + address.len() + snapshot.len()));
    // An address has less than 5,000 characters.
    body.extend((address.len() as u16).to_le_bytes());
    body.extend(address.as_bytes());
    body.extend(snapshot);
    match key {
        None => frame(OPEN, &body),
        Some(key) => frame(CLOSED, &key.close(&body)),
    }
}

fn frame(version: u8, rest: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(HEAD_BYTES + rest.len()));
    bytes.extend(MAGIC);
    bytes.push(version);
    bytes.extend(Sha256::digest(rest));
    bytes.extend(rest);
    bytes
}

/// Why a file is not read.
pub(crate) enum Problem {
    Damaged(&'static str),
    Newer,
    /// Closed with another passphrase.
    Passphrase,
    /// There is not so much memory, MiB.
    Memory(u32),
}

impl Problem {
    pub(super) fn at(self, directory: &Path) -> StoreError {
        let directory = directory.to_owned();
        match self {
            Self::Damaged(what) => StoreError::Damaged { directory, what },
            Self::Newer => StoreError::Newer(directory),
            Self::Passphrase => StoreError::Passphrase(directory),
            Self::Memory(memory) => StoreError::Memory { directory, memory },
        }
    }
}

/// What a file holds.
pub(crate) enum Content<'a> {
    /// The server's address and the client's snapshot.
    Open(Address, &'a [u8]),
    /// The same for whoever has the passphrase.
    Closed(Closed<'a>),
}

const SHORT: Problem = Problem::Damaged("it is cut short");

pub(crate) fn decode(bytes: &[u8]) -> Result<Content<'_>, Problem> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(Problem::Damaged("it is no state file"));
    };
    let Some((version, rest)) = rest.split_first() else { return Err(SHORT) };
    if *version > CLOSED {
        return Err(Problem::Newer);
    }
    let Some((digest, rest)) = rest.split_first_chunk::<DIGEST_BYTES>() else { return Err(SHORT) };
    // Before anybody is asked for a passphrase.
    if Sha256::digest(rest)[..] != digest[..] {
        return Err(Problem::Damaged("its checksum does not hold"));
    }
    match *version {
        OPEN => decode_body(rest).map(|(address, snapshot)| Content::Open(address, snapshot)),
        CLOSED => Closed::decode(rest).map(Content::Closed),
        _ => Err(Problem::Damaged("its version is none")),
    }
}

pub(crate) fn decode_body(body: &[u8]) -> Result<(Address, &[u8]), Problem> {
    let Some((length, rest)) = body.split_first_chunk::<2>() else { return Err(SHORT) };
    let Some((address, snapshot)) = rest.split_at_checked(u16::from_le_bytes(*length).into()) else {
        return Err(SHORT);
    };
    let address = core::str::from_utf8(address).ok().and_then(|address| address.parse().ok());
    Ok((address.ok_or(Problem::Damaged("its server address is none"))?, snapshot))
}

/// Any bytes as a state file of a version whose checksum holds.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn checked(version: u8, rest: &[u8]) -> Vec<u8> {
    frame(version, rest).to_vec()
}
