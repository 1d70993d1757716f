//! What a server announces now, and the secrets with which it signs manifests and receipts.
//!
//! ```text
//! manifest.key       the secret of the first manifest key
//! manifest-N.key     of the Nth
//! announcement.next  an announcement that names the next one, until the log has it
//! ```
//!
//! A key that follows is announced in the log, so that every node takes it up in front of the same round. Its secret is
//! looked for when that happens, and then again and again: it may be brought while the server runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use sotto_protocol::{Round, ServerParameters, Succession};
use sotto_wire::{Announced, Endorsement, RootKey};
use tokio::sync::watch;

use crate::announcement;
use crate::secrets::{self, IdentityError};

/// The file of the secret of a manifest key, by its number.
pub(crate) fn file(number: u32) -> String {
    if number == 1 { "manifest.key".to_owned() } else { format!("manifest-{number}.key") }
}

/// Whether a file holds the secret of a manifest key.
pub(crate) fn is_file(name: &str) -> bool {
    let number = name.strip_prefix("manifest-").and_then(|rest| rest.strip_suffix(".key"));
    let number = number.map_or(Some(1), |number| number.parse().ok());
    number.is_some_and(|number| file(number) == name)
}

/// What is announced, with the secrets that there are of its keys.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) parameters: ServerParameters,
    /// The root key's signature under the parameters.
    pub(crate) endorsement: Endorsement,
    keys: Vec<SigningKey>,
}

impl Said {
    /// The secret that signs a round's manifest and receipts, if there is one and it is here.
    pub(crate) fn signing_key(&self, round: Round) -> Option<&SigningKey> {
        let public = self.parameters.manifest_key_of(round)?;
        self.keys.iter().find(|key| key.verifying_key().to_bytes() == public)
    }

    /// As it is told.
    pub(crate) fn announced(&self) -> Announced {
        Announced::new(&self.parameters, self.endorsement)
    }

    /// Whether the secret of the announced key is not here.
    pub(crate) fn lacks_key(&self) -> bool {
        !self.keys.iter().any(|key| key.verifying_key().to_bytes() == self.parameters.manifest_key)
    }
}

/// Says it, and looks for the secrets.
pub(crate) struct Announcing {
    said: watch::Sender<Arc<Said>>,
    /// Secrets that are in no directory.
    given: Vec<SigningKey>,
    directory: Option<PathBuf>,
}

/// Why an announcement is not gone by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("the root key has not signed it")]
    Unsigned,
    #[error("it does not follow on what is announced")]
    NoSuccessor,
    #[error("it changes more than the manifest key; that takes 'sottod certify' and a restart")]
    MoreThanKeys,
}

impl Announcing {
    /// With these secrets, and those in a directory if there is one.
    pub(crate) fn new(
        given: Vec<SigningKey>,
        directory: Option<PathBuf>,
        parameters: ServerParameters,
        endorsement: Endorsement,
    ) -> Self {
        let said = Said { parameters, endorsement, keys: Vec::new() };
        // What is in a directory is forgotten with its file.
        let given = if directory.is_some() { Vec::new() } else { given };
        let this = Self { said: watch::Sender::new(Arc::new(said)), given, directory };
        this.look_for_keys();
        this
    }

    pub(crate) fn said(&self) -> Arc<Said> {
        Arc::clone(&self.said.borrow())
    }

    pub(crate) fn hear(&self) -> watch::Receiver<Arc<Said>> {
        self.said.subscribe()
    }

    /// The parameters of an announcement that can follow on what is said; none if that is it, or is later.
    pub(crate) fn judge(
        &self,
        root: &RootKey,
        announced: &Announced,
    ) -> Result<Option<ServerParameters>, Unusable> {
        let parameters = announced.parameters(root).map_err(|_| Unusable::Unsigned)?;
        let said = self.said();
        if parameters.serial <= said.parameters.serial {
            return Ok(None);
        }
        parameters.check_shape().map_err(|_| Unusable::NoSuccessor)?;
        match parameters.succeeds(&said.parameters) {
            Ok(Succession::Later) if parameters.differs_in_keys_alone(&said.parameters) => {
                Ok(Some(parameters))
            }
            Ok(Succession::Later) => Err(Unusable::MoreThanKeys),
            Ok(Succession::Same) | Err(_) => Err(Unusable::NoSuccessor),
        }
    }

    /// Says it from now on, after it is in the directory: the next start begins with it.
    pub(crate) fn say(
        &self,
        parameters: ServerParameters,
        endorsement: Endorsement,
    ) -> Result<(), IdentityError> {
        if let Some(directory) = &self.directory {
            announcement::write(directory, &parameters, &endorsement)?;
            announcement::forget_next(directory)?;
        }
        let keys = self.said().keys.clone();
        self.said.send_replace(Arc::new(Said { parameters, endorsement, keys }));
        self.look_for_keys();
        Ok(())
    }

    /// Looks for the secrets of the announced keys, if the newest is not here.
    pub(crate) fn look_for_keys(&self) {
        if !self.said().lacks_key() {
            return;
        }
        let said = self.said();
        let ServerParameters { manifest_key, key_epoch, .. } = &said.parameters;
        let wanted =
            [(key_epoch.number, Some(*manifest_key)), (key_epoch.number - 1, key_epoch.former_key())];
        let known: Vec<SigningKey> = said.keys.iter().chain(&self.given).cloned().collect();
        let find = |(number, public): (u32, Option<[u8; 32]>)| {
            let public = public?;
            let is = |key: &SigningKey| key.verifying_key().to_bytes() == public;
            let known = known.iter().find(|key| is(key)).cloned();
            known.or_else(|| secret_of(self.directory.as_deref()?, number).filter(|key| is(key)))
        };
        let keys: Vec<SigningKey> = wanted.into_iter().filter_map(find).collect();
        self.said.send_if_modified(|said| {
            let changed = keys.len() != said.keys.len();
            *said = Arc::new(Said { keys, ..(**said).clone() });
            changed
        });
    }

    /// The secret with which an announcement names the next key, if it is here.
    pub(crate) fn has_key_of(&self, parameters: &ServerParameters) -> bool {
        let is = |key: &SigningKey| key.verifying_key().to_bytes() == parameters.manifest_key;
        let stored = self.directory.as_deref().and_then(|path| secret_of(path, parameters.key_epoch.number));
        self.given.iter().chain(&stored).any(is)
    }

    /// Deletes the secrets of keys that sign nothing any more: all rounds that can be asked for are of the newest key.
    pub(crate) fn forget_former(&self) -> Result<(), IdentityError> {
        let said = self.said();
        if said.lacks_key() || said.parameters.key_epoch.former_key().is_none() {
            return Ok(());
        }
        let Some(directory) = &self.directory else { return Ok(()) };
        let path = directory.join(file(said.parameters.key_epoch.number - 1));
        match fs::remove_file(&path) {
            Ok(()) => {
                tracing::info!(
                    "the secret of the former manifest key signs nothing any more, and is deleted"
                );
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(secrets::key_error(&path, error.into())),
        }
        self.said.send_if_modified(|said| {
            let mut now = (**said).clone();
            now.keys.retain(|key| key.verifying_key().to_bytes() == now.parameters.manifest_key);
            *said = Arc::new(now);
            false
        });
        Ok(())
    }
}

/// The secret of a number, if there is one that can be read.
fn secret_of(directory: &Path, number: u32) -> Option<SigningKey> {
    match secrets::secret(directory, &file(number)) {
        Ok(seed) => Some(SigningKey::from_bytes(&seed)),
        Err(IdentityError::Missing(_)) => None,
        Err(error) => {
            tracing::warn!(%error, "the secret of a manifest key cannot be read");
            None
        }
    }
}
