//! The certificate that a node shows now: another one as soon as its files hold another one that others will accept.
//! Connections that there are stay as they are.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use core::time::Duration;

use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SignatureScheme};
use sotto_wire::RootKey;

use super::{Certificate, CertificateError, DAY, DAYS_AHEAD, server_config, verify};

/// How it is shown, to whom.
#[derive(Debug)]
pub(crate) struct Shown {
    root: RootKey,
    /// By which others ask for the node.
    name: ServerName<'static>,
    /// The certificates, and the key.
    files: Option<[PathBuf; 2]>,
    now: RwLock<Arc<CertifiedKey>>,
}

impl Shown {
    /// Shows a certificate to whoever knows a root and asks for a name; whether they accept it is looked at by others.
    ///
    /// # Errors
    /// [`CertificateError::Key`] if its key is another one's.
    pub(crate) fn new(
        certificate: &Certificate,
        root: &RootKey,
        name: ServerName<'static>,
    ) -> Result<Arc<Self>, CertificateError> {
        let now = RwLock::new(certificate.certified()?);
        Ok(Arc::new(Self { root: *root, name, files: certificate.files.clone(), now }))
    }

    /// Looks at the files; whether another one is shown from now on.
    ///
    /// # Errors
    /// [`CertificateError`] if what they hold cannot be shown: it stays with the one before.
    pub(crate) fn renew(&self) -> Result<bool, CertificateError> {
        let Some([chain, key]) = &self.files else { return Ok(false) };
        let new = Certificate::load(chain, key)?;
        if new.chain == self.chain() {
            return Ok(false);
        }
        new.check_at(&self.root, &self.name, UnixTime::now())?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = new.certified()?;
        Ok(true)
    }

    /// Whole days for which it will be accepted, as far as one looks ahead.
    pub(crate) fn days_left(&self) -> u64 {
        let (now, chain) = (UnixTime::now().as_secs(), self.chain());
        let valid = |days: u64| {
            let at = UnixTime::since_unix_epoch(Duration::from_secs(now.saturating_add(days * DAY)));
            verify(&chain, &self.root, &self.name, at).is_ok()
        };
        // Valid after so many days, and not after so many.
        let (mut least, mut most) = (0, DAYS_AHEAD + 1);
        while least + 1 < most {
            let middle = least.midpoint(most);
            if valid(middle) { least = middle } else { most = middle }
        }
        least
    }

    /// How a server speaks TLS with it, with whoever comes.
    ///
    /// # Errors
    /// [`CertificateError::Key`] if TLS cannot use it.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, CertificateError> {
        server_config(WebPkiClientVerifier::no_client_auth(), Arc::clone(self) as Arc<_>)
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.certified().cert.clone()
    }

    fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use ed25519_dalek::SigningKey;
    use sotto_wire::RootKey;
    use sotto_wire::root::node_name;

    use super::Shown;
    use crate::certificate::{Certificate, CertificateError};

    fn write(path: &Path, text: &[u8]) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn what_others_would_refuse_is_not_shown_in_place_of_what_they_take() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["chain", "key"].map(|name| directory.path().join(name));
        let root = SigningKey::from_bytes(&[1; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        let put = |certificate: &Certificate, both: bool| {
            let (chain, key) = certificate.to_pem().unwrap();
            write(&files[1], key.as_bytes());
            if both {
                write(&files[0], chain.as_bytes());
            }
        };
        let first = Certificate::issue(&root).unwrap();
        put(&first, true);
        let loaded = Certificate::load(&files[0], &files[1]).unwrap();
        let shown = Shown::new(&loaded, &key, node_name()).unwrap();
        assert!(matches!(shown.renew(), Ok(false)));
        // Half of what somebody writes.
        let second = Certificate::issue(&root).unwrap();
        write(&files[0], second.to_pem().unwrap().0.as_bytes());
        assert!(matches!(shown.renew(), Err(CertificateError::Key)));
        assert_eq!(shown.chain(), first.chain);
        put(&second, false);
        assert!(matches!(shown.renew(), Ok(true)));
        assert_eq!(shown.chain(), second.chain);
        assert!(matches!(shown.renew(), Ok(false)));
        // Of another cluster, and nothing at all.
        put(&Certificate::issue(&SigningKey::from_bytes(&[2; 32])).unwrap(), true);
        assert!(matches!(shown.renew(), Err(CertificateError::Foreign)));
        fs::remove_file(&files[0]).unwrap();
        assert!(matches!(shown.renew(), Err(CertificateError::File { .. })));
        assert_eq!(shown.chain(), second.chain);
        assert!((823..=825).contains(&shown.days_left()));
    }
}
