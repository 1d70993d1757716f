//! The secret keys in a data directory, and why they, and what goes with them, cannot be used.

use std::fs;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use rand::TryRng;
use rand::rngs::SysRng;
use sotto_files::replace;
use sotto_wire::RootKey;
use zeroize::Zeroizing;

use crate::certificate::{Certificate, CertificateError};
use crate::key_file::{KeyFileError, create_key, load_key};

/// The file of the secret half of the root key.
pub(crate) const ROOT: &str = "root.key";

/// The secret half of a directory's root key, in a file or else in the directory; `None` if it is not there.
pub(crate) fn root_key(
    directory: &Path,
    file: Option<&Path>,
    public: &RootKey,
) -> Result<Option<SigningKey>, IdentityError> {
    let path = file.map_or_else(|| directory.join(ROOT), Path::to_owned);
    let Some(seed) = load_key(&path).map_err(|source| key_error(&path, source))? else { return Ok(None) };
    let root = SigningKey::from_bytes(&seed);
    if RootKey(root.verifying_key().to_bytes()) == *public {
        Ok(Some(root))
    } else {
        Err(IdentityError::Mismatch(path))
    }
}

/// A key that must be there.
pub(crate) fn secret(directory: &Path, name: &str) -> Result<Zeroizing<[u8; 32]>, IdentityError> {
    let path = directory.join(name);
    let seed = load_key(&path).map_err(|source| key_error(&path, source))?;
    seed.ok_or(IdentityError::Missing(path))
}

/// A key that is made if it is not there.
pub(crate) fn load_or_create(directory: &Path, name: &str) -> Result<Zeroizing<[u8; 32]>, IdentityError> {
    let path = directory.join(name);
    match load_key(&path).map_err(|source| key_error(&path, source))? {
        Some(seed) => Ok(seed),
        None => create_key(&path).map_err(|source| key_error(&path, source)),
    }
}

/// Writes a certificate and its key to these two files.
pub(crate) fn write_pem(certificate: &Certificate, files: &[PathBuf; 2]) -> Result<(), IdentityError> {
    let (chain, key) = certificate.to_pem()?;
    let [certificate, private] = files;
    // A crash in between leaves a certificate for another key, which is found at the next start.
    for (path, text, mode) in [(private, key.as_str(), 0o600), (certificate, chain.as_str(), 0o644)] {
        replace(path, text.as_bytes(), mode).map_err(|source| key_error(path, source.into()))?;
    }
    Ok(())
}

/// Makes a file that is, byte for byte, another one. Both are small, and this program wrote the other.
pub(crate) fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), IdentityError> {
    let bytes = Zeroizing::new(fs::read(from).map_err(|source| key_error(from, source.into()))?);
    replace(to, &bytes, mode).map_err(|source| key_error(to, source.into()))
}

/// Why a key cannot be read.
pub(crate) fn key_error(path: &Path, source: KeyFileError) -> IdentityError {
    IdentityError::File { path: path.to_owned(), source }
}

/// A new key.
pub(crate) fn seed() -> Result<Zeroizing<[u8; 32]>, IdentityError> {
    let mut seed = Zeroizing::new([0; 32]);
    SysRng.try_fill_bytes(seed.as_mut_slice()).map_err(|_| IdentityError::Randomness)?;
    Ok(seed)
}

/// Why a server has no identity.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: KeyFileError,
    },
    /// A file that the others need is not there.
    #[error("{}: it is missing; restore it from a backup", .0.display())]
    Missing(PathBuf),
    /// The file that says who the server is says something else.
    #[error("{}: it is not what was written; restore it from a backup", .0.display())]
    Malformed(PathBuf),
    /// A key of another cluster.
    #[error("{}: it does not belong to this cluster's root key; restore the file that does", .0.display())]
    Mismatch(PathBuf),
    /// The configuration is not what the root key has signed.
    #[error(
        "the root key has not signed what the configuration announces, and is not here; sign it with 'sottod certify \
         --root FILE', and start again"
    )]
    Unsigned,
    /// Queries cannot stand under the seeds that there are.
    #[error(
        "the seeds of this data directory begin in the middle of eight rounds, so that queries cannot stand for these; set \
         'addressing = \"slots\"', or begin with another data directory"
    )]
    Epochs,
    /// Seeds cannot be made.
    #[error("the seeds of rounds cannot be made: {0}")]
    Seeds(sotto_protocol::Error),
    /// The node's certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// No key can be drawn.
    #[error("the operating system gives no randomness")]
    Randomness,
}
