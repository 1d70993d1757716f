//! Who a server is: the root of its cluster, its own keys, and the key that makes registration tokens.
//!
//! The secret half of the root key makes certificates and signs what the server announces, see `announcement`. A server
//! needs it for neither to serve, so the file may be kept elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use sotto_files::replace;
use sotto_protocol::base32::BASE32;
use sotto_wire::RootKey;
use zeroize::Zeroizing;

use crate::announcement;
use crate::certificate::Certificate;
use crate::manifest_keys;
use crate::secrets::{
    IdentityError, ROOT, copy, key_error, load_or_create, root_key, secret, seed, write_pem,
};
use crate::slots::SlotKey;
use crate::tokens::TokenKey;

const MANIFEST: &str = "manifest.key";
const TOKENS: &str = "token.key";
const SLOTS: &str = "slot.key";
const NODE_KEY: &str = "node.key";
const NODE_CERTIFICATE: &str = "node.pem";
/// What is public of all that; written last, so that it is there if all of it is.
const IDENTITY: &str = "identity";
/// Longer than any identity.
const IDENTITY_MAX: u64 = 4096;

/// What a server is known by.
pub(crate) struct Identity {
    pub(crate) root: RootKey,
    pub(crate) manifest: SigningKey,
    pub(crate) tokens: TokenKey,
    pub(crate) slots: SlotKey,
    /// Shown by TLS.
    pub(crate) certificate: Certificate,
}

/// The public part, as its file holds it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Public {
    /// The root key, base32.
    root: String,
    /// The root's signature under the manifest key, which servers of version 1 announced.
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "it is read over")]
    endorsement: Option<String>,
}

/// Where a node's certificate and its key are, if not in the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificates, PEM, the node's own first.
    pub certificate: PathBuf,
    /// Its key, PEM (PKCS #8).
    pub key: PathBuf,
}

impl Identity {
    /// One that ends with the process: a new one, or that which follows from the seed of its manifest key; with its root
    /// key, and the secret of its seeds.
    pub(crate) fn ephemeral(
        manifest_seed: Option<&[u8; 32]>,
    ) -> Result<(Self, SigningKey, Zeroizing<[u8; 32]>), IdentityError> {
        let manifest = match manifest_seed {
            Some(seed) => SigningKey::from_bytes(seed),
            None => SigningKey::from_bytes(&*seed()?),
        };
        let (root, _) = Hkdf::<Sha256>::extract(Some(b"sotto ephemeral root"), manifest.as_bytes());
        let root = SigningKey::from_bytes(&Zeroizing::new(root.into()));
        let (seeds, _) = Hkdf::<Sha256>::extract(Some(b"sotto ephemeral seeds"), manifest.as_bytes());
        let identity = Self {
            root: RootKey(root.verifying_key().to_bytes()),
            manifest,
            tokens: TokenKey::new(seed()?),
            slots: SlotKey::new(seed()?),
            certificate: Certificate::issue(&root)?,
        };
        Ok((identity, root, Zeroizing::new(seeds.into())))
    }

    /// The one in a directory.
    pub(crate) fn load(directory: &Path, files: Option<&CertificateFiles>) -> Result<Self, IdentityError> {
        let path = directory.join(IDENTITY);
        let root = read_public(&path)?;
        let announced = announcement::manifest_key(directory, &root)?;
        let name = manifest_keys::file(announced.map_or(1, |(_, number)| number));
        let manifest = SigningKey::from_bytes(&*secret(directory, &name)?);
        if announced.is_some_and(|(key, _)| key != manifest.verifying_key().to_bytes()) {
            return Err(IdentityError::Mismatch(directory.join(name)));
        }
        let certificate = match files {
            Some(files) => Certificate::load(&files.certificate, &files.key)?,
            None => Certificate::load(&directory.join(NODE_CERTIFICATE), &directory.join(NODE_KEY))?,
        };
        certificate.check(&root)?;
        let tokens = TokenKey::new(secret(directory, TOKENS)?);
        // Directories of before have none.
        let slots = SlotKey::new(load_or_create(directory, SLOTS)?);
        Ok(Self { root, manifest, tokens, slots, certificate })
    }

    /// Whether a directory holds one.
    pub(crate) fn exists(directory: &Path) -> bool {
        directory.join(IDENTITY).exists()
    }

    /// Makes a new one in a directory, and its root key. Whatever of it an earlier attempt left is used.
    pub(crate) fn create(directory: &Path) -> Result<(), IdentityError> {
        let root = SigningKey::from_bytes(&*load_or_create(directory, ROOT)?);
        Self::create_under(directory, &root)
    }

    /// Makes a new one in a directory under a root key that is kept elsewhere.
    pub(crate) fn create_under(directory: &Path, root: &SigningKey) -> Result<(), IdentityError> {
        load_or_create(directory, MANIFEST)?;
        load_or_create(directory, TOKENS)?;
        load_or_create(directory, SLOTS)?;
        write_certificate(directory, root)?;
        let root = RootKey(root.verifying_key().to_bytes()).to_string();
        let public = Public { root, endorsement: None };
        let path = directory.join(IDENTITY);
        let text = toml::to_string(&public).map_err(|_| IdentityError::Malformed(path.clone()))?;
        replace(&path, text.as_bytes(), 0o644).map_err(|source| key_error(&path, source.into()))
    }

    /// Makes a node's certificate anew, with the root key of the directory or of another file, and hands that out.
    pub(crate) fn certify(directory: &Path, root: Option<&Path>) -> Result<SigningKey, IdentityError> {
        let root = Self::root_key_for(directory, root)?;
        write_certificate(directory, &root)?;
        Ok(root)
    }

    /// The root key of a directory's identity, of this file or in the directory.
    pub(crate) fn root_key_for(directory: &Path, root: Option<&Path>) -> Result<SigningKey, IdentityError> {
        let public = read_public(&directory.join(IDENTITY))?;
        let missing = || IdentityError::Missing(root.map_or_else(|| directory.join(ROOT), Path::to_owned));
        root_key(directory, root, &public)?.ok_or_else(missing)
    }

    /// Gives a directory the identity of another one, which is all that nodes of a cluster have in common, and a certificate
    /// of its own.
    pub(crate) fn copy(from: &Path, to: &Path, root: &SigningKey) -> Result<(), IdentityError> {
        let root_key = RootKey(root.verifying_key().to_bytes());
        let number = announcement::manifest_key(from, &root_key)?.map_or(1, |(_, number)| number);
        for name in [&manifest_keys::file(number), TOKENS, SLOTS] {
            copy(&from.join(name), &to.join(name), 0o600)?;
        }
        // While a key is announced that does not sign yet, the one before is needed, too.
        let former = manifest_keys::file(number.saturating_sub(1));
        if number > 1 && from.join(&former).exists() {
            copy(&from.join(&former), &to.join(&former), 0o600)?;
        }
        write_certificate(to, root)?;
        copy(&from.join(IDENTITY), &to.join(IDENTITY), 0o644)
    }

    /// The key that makes a directory's registration tokens.
    pub(crate) fn token_key(directory: &Path) -> Result<TokenKey, IdentityError> {
        Ok(TokenKey::new(secret(directory, TOKENS)?))
    }
}

fn write_certificate(directory: &Path, root: &SigningKey) -> Result<(), IdentityError> {
    let files = [directory.join(NODE_CERTIFICATE), directory.join(NODE_KEY)];
    write_pem(&Certificate::issue(root)?, &files)
}

/// Whose server a directory is of.
pub(crate) fn root_of(directory: &Path) -> Result<RootKey, IdentityError> {
    read_public(&directory.join(IDENTITY))
}

fn read_public(path: &Path) -> Result<RootKey, IdentityError> {
    let malformed = || IdentityError::Malformed(path.to_owned());
    let bytes = fs::metadata(path).map_err(|error| key_error(path, error.into()))?.len();
    if bytes > IDENTITY_MAX {
        return Err(malformed());
    }
    let text = fs::read_to_string(path).map_err(|error| key_error(path, error.into()))?;
    let public: Public = toml::from_str(&text).map_err(|_| malformed())?;
    let root = BASE32.decode(public.root.as_bytes()).map_err(|_| malformed())?;
    let root = root.try_into().map_err(|_| malformed())?;
    Ok(RootKey(root))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use mpir::noop;
    use sotto_protocol::Round;

    use super::{
        CertificateFiles, IDENTITY, Identity, IdentityError, MANIFEST, NODE_CERTIFICATE, NODE_KEY, ROOT,
        TOKENS,
    };
    use crate::announcement::{self, ANNOUNCEMENT, Wanted};
    use crate::certificate::CertificateError;
    use crate::config::Config;

    fn made(directory: &Path) -> Identity {
        Identity::create(directory).unwrap();
        let identity = Identity::load(directory, None).unwrap();
        let manifest_key = identity.manifest.verifying_key().to_bytes();
        let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
        config.allow_no_privacy = true;
        let parameters = config.parameters(&*noop(), manifest_key).unwrap();
        let wanted = Wanted { parameters, segments: 1, first: Round(1), covers: None, more: false };
        announcement::take_up(directory, &identity.root, None, wanted).unwrap();
        identity
    }

    #[test]
    fn an_identity_survives_a_restart_and_needs_no_root_key_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let first = made(directory.path());
        fs::remove_file(directory.path().join(ROOT)).unwrap();
        let second = Identity::load(directory.path(), None).unwrap();
        assert_eq!(first.root, second.root);
        assert_eq!(first.manifest.to_bytes(), second.manifest.to_bytes());
    }

    #[test]
    fn a_file_of_another_cluster_is_refused_and_named() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        made(theirs.path());
        for name in [MANIFEST, IDENTITY, NODE_KEY, NODE_CERTIFICATE, ANNOUNCEMENT] {
            let _ = fs::remove_dir_all(ours.path());
            fs::create_dir(ours.path()).unwrap();
            made(ours.path());
            fs::copy(theirs.path().join(name), ours.path().join(name)).unwrap();
            let error = Identity::load(ours.path(), None).err().expect(name).to_string();
            let named = [".key", "certificate", "announcement"].iter().any(|word| error.contains(word));
            assert!(named, "{name}: {error}");
        }
    }

    #[test]
    fn what_is_missing_is_never_made_anew_beside_the_rest() {
        for name in [MANIFEST, TOKENS] {
            let directory = tempfile::tempdir().unwrap();
            made(directory.path());
            fs::remove_file(directory.path().join(name)).unwrap();
            let missing = Identity::load(directory.path(), None).err().expect(name);
            assert!(matches!(missing, IdentityError::Missing(path) if path.ends_with(name)));
        }
    }

    #[test]
    fn the_root_renews_a_certificate_and_no_other_key_does() {
        let directory = tempfile::tempdir().unwrap();
        let root = made(directory.path()).root;
        let before = fs::read(directory.path().join(NODE_CERTIFICATE)).unwrap();
        // Kept on another machine.
        let elsewhere = tempfile::tempdir().unwrap();
        let kept = elsewhere.path().join("kept");
        fs::rename(directory.path().join(ROOT), &kept).unwrap();
        assert!(matches!(Identity::certify(directory.path(), None), Err(IdentityError::Missing(_))));
        Identity::certify(directory.path(), Some(&kept)).unwrap();
        assert_ne!(fs::read(directory.path().join(NODE_CERTIFICATE)).unwrap(), before);
        assert_eq!(Identity::load(directory.path(), None).unwrap().root, root);

        let manifest = directory.path().join(MANIFEST);
        let wrong = Identity::certify(directory.path(), Some(&manifest));
        assert!(matches!(wrong, Err(IdentityError::Mismatch(_))));
    }

    #[test]
    fn a_certificate_of_ones_own_must_be_of_the_same_root() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        made(ours.path());
        made(theirs.path());
        let files =
            |of: &Path| CertificateFiles { certificate: of.join(NODE_CERTIFICATE), key: of.join(NODE_KEY) };
        assert!(Identity::load(ours.path(), Some(&files(ours.path()))).is_ok());
        let foreign = Identity::load(ours.path(), Some(&files(theirs.path()))).err();
        assert!(matches!(foreign, Some(IdentityError::Certificate(CertificateError::Foreign))));
    }
}
