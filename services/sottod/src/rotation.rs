//! Making the manifest key that follows, with the root key: no server needs to run for that, and no node of a cluster
//! needs the root key.

use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use sotto_protocol::{Round, ServerParameters};
use sotto_wire::root::endorse;

use crate::announcement::{self, NEXT, end_of_key};
use crate::identity::{Identity, root_of};
use crate::manifest_keys::file;
use crate::secrets::{IdentityError, copy, load_or_create};

/// For so long in advance another key is announced, unless something else is said: ten minutes, ms.
pub(crate) const AHEAD_MS: u64 = 600_000;

/// What was made.
pub(crate) struct Made {
    /// The files, without their directory.
    pub(crate) files: [String; 2],
    /// The first round that the key signs.
    pub(crate) first: Round,
    /// The first that it does not sign any more.
    pub(crate) end: Option<Round>,
}

/// Why it was not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RotationError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(
        "{}: a manifest key is about to follow already: announce it with 'sottod keys announce', or remove this file to make \
         another announcement of it", .0.display()
    )]
    Pending(PathBuf),
    #[error("{}: nothing is announced there; 'sottod certify' signs it", .0.display())]
    Silent(PathBuf),
    #[error("{}: it is of another server", .0.display())]
    Foreign(PathBuf),
    #[error("{0}")]
    Protocol(#[from] sotto_protocol::Error),
}

/// How many rounds of a directory's server a key is announced in advance.
pub(crate) fn ahead(directory: &Path) -> Result<u64, RotationError> {
    let said = said(directory)?;
    Ok((AHEAD_MS / u64::from(said.round_ms.max(1))).max(8))
}

/// Makes the next manifest key of a directory, and the announcement that names it from a round on; both are copied to others
/// of the same server.
pub(crate) fn rotate(
    directory: &Path,
    root: Option<&Path>,
    from: Round,
    also: &[PathBuf],
) -> Result<Made, RotationError> {
    let public = root_of(directory)?;
    for other in also {
        if root_of(other)? != public {
            return Err(RotationError::Foreign(other.clone()));
        }
    }
    if announcement::next(directory, &public)?.is_some() {
        return Err(RotationError::Pending(directory.join(NEXT)));
    }
    let said = said(directory)?;
    let root = Identity::root_key_for(directory, root)?;
    let name = file(said.key_epoch.number.saturating_add(1));
    let key = SigningKey::from_bytes(&*load_or_create(directory, &name)?);
    // Where the one before does not end, this one does not either.
    let end = said.key_epoch.ends().map_or(said.key_epoch.end, |_| end_of_key(&said, from));
    let next = ServerParameters {
        serial: said.serial.saturating_add(1),
        manifest_key: key.verifying_key().to_bytes(),
        key_epoch: said.key_epoch.next(said.manifest_key, from, end),
        ..said.clone()
    };
    next.check_shape()?;
    next.succeeds(&said)?;
    announcement::write_next(directory, &next, &endorse(&root, &next))?;
    for other in also {
        copy(&directory.join(&name), &other.join(&name), 0o600)?;
        copy(&directory.join(NEXT), &other.join(NEXT), 0o644)?;
    }
    Ok(Made { files: [name, NEXT.to_owned()], first: from, end: next.key_epoch.ends() })
}

fn said(directory: &Path) -> Result<ServerParameters, RotationError> {
    let said = announcement::said(directory, &root_of(directory)?)?;
    said.ok_or_else(|| RotationError::Silent(directory.to_owned()))
}
