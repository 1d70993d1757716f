//! What a state file is, byte by byte (integers little-endian).
//!
//! ```text
//! file    = "sotto state" | version, u8 | SHA-256 of the rest (32) | rest
//! export  = "sotto export" | version, u8 = 1 | SHA-256 of the rest (32) | rest as of version 2
//! body    = length of the address, u16 | the server's address | the client's snapshot
//! rest    = body                                                                       of version 1
//!         = memory, KiB, u32 | passes, u32 | salt (16) | nonce (24) | sealed padded    of version 2
//! padded  = length of the body, u64 | body | zeros up to a multiple of 16 KiB
//! ```
//!
//! Version 2 is closed with a passphrase. What is padded is sealed by XChaCha20-Poly1305 under the 32 bytes that Argon2id (version 1.3,
//! one lane) makes of passphrase and salt, with all from "sotto state" to the salt but for the SHA-256 as associated data. An export is the
//! same with a beginning of its own: no program takes it for a state, which would go on where it was written.

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
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) const HEAD_BYTES: usize = MAGIC.len() + 1 + DIGEST_BYTES;

/// What files begin with that are closed with a passphrase, as part of what their seal protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    State,
    Export,
}

const EXPORT: &[u8; 12] = b"sotto export";
const EXPORT_VERSION: u8 = 1;

impl Beginning {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::State => [&MAGIC[..], &[CLOSED]].concat(),
            Self::Export => [&EXPORT[..], &[EXPORT_VERSION]].concat(),
        }
    }

    pub(super) fn associated(self, cost_and_salt: &[u8]) -> Vec<u8> {
        [&self.bytes(), cost_and_salt].concat()
    }
}

/// A file, closed if there is a key.
pub(crate) fn encode(address: &Address, snapshot: &[u8], key: Option<&Key>) -> Zeroizing<Vec<u8>> {
    let body = encode_body(address, snapshot);
    match key {
        None => frame(&[&MAGIC[..], &[OPEN]].concat(), &body),
        Some(key) => frame(&Beginning::State.bytes(), &key.close(Beginning::State, &body)),
    }
}

/// An export.
pub(crate) fn encode_export(address: &Address, snapshot: &[u8], key: &Key) -> Zeroizing<Vec<u8>> {
    let rest = key.close(Beginning::Export, &encode_body(address, snapshot));
    frame(&Beginning::Export.bytes(), &rest)
}

/// What an export holds for whoever has the passphrase.
pub(crate) fn decode_export(bytes: &[u8]) -> Result<Closed<'_>, Problem> {
    Closed::decode(Beginning::Export, whole(check_export(bytes)?)?)
}

/// By what [`check_export`] tells an export.
pub(crate) const EXPORT_BEGINNING_BYTES: usize = EXPORT.len() + 1;

/// What is behind the beginning of an export, if it has one.
pub(crate) fn check_export(bytes: &[u8]) -> Result<&[u8], Problem> {
    let none = Problem::Damaged("it is no export");
    let Some(rest) = bytes.strip_prefix(EXPORT) else { return Err(none) };
    match rest.split_first() {
        None => Err(SHORT),
        Some((0, _)) => Err(none),
        Some((&EXPORT_VERSION, rest)) => Ok(rest),
        Some(_) => Err(Problem::Newer),
    }
}

fn encode_body(address: &Address, snapshot: &[u8]) -> Zeroizing<Vec<u8>> {
    let address = address.to_string();
    let mut body = Zeroizing::new(Vec::with_capacity(2 + address.len() + snapshot.len()));
    // An address has less than 5,000 characters.
    body.extend((address.len() as u16).to_le_bytes());
    body.extend(address.as_bytes());
    body.extend(snapshot);
    body
}

fn frame(beginning: &[u8], rest: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(beginning.len() + DIGEST_BYTES + rest.len()));
    bytes.extend(beginning);
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
    let rest = whole(rest)?;
    match *version {
        OPEN => decode_body(rest).map(|(address, snapshot)| Content::Open(address, snapshot)),
        CLOSED => Closed::decode(Beginning::State, rest).map(Content::Closed),
        _ => Err(Problem::Damaged("its version is none")),
    }
}

/// What stands behind a checksum, if that holds: before anybody is asked for a passphrase.
fn whole(bytes: &[u8]) -> Result<&[u8], Problem> {
    let Some((digest, rest)) = bytes.split_first_chunk::<DIGEST_BYTES>() else { return Err(SHORT) };
    match Sha256::digest(rest)[..] == digest[..] {
        true => Ok(rest),
        false => Err(Problem::Damaged("its checksum does not hold")),
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
    frame(&[&MAGIC[..], &[version]].concat(), rest).to_vec()
}
