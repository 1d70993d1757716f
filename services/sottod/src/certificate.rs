//! A node's certificate, by which clients know that whoever answers belongs to the cluster.

mod shown;
#[cfg(test)]
mod wire;

use core::time::Duration;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ed25519_dalek::pkcs8::{EncodePrivateKey, KeypairBytes};
use ed25519_dalek::{Signer, SigningKey};
use pem_rfc7468::LineEnding;
use rand::TryRng;
use rand::rngs::SysRng;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyUsagePurpose,
    PublicKeyData, SerialNumber, SignatureAlgorithm,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError as Invalid, RootCertStore, ServerConfig, version};
use sotto_wire::RootKey;
use sotto_wire::root::{APPLICATION, NODE_NAME, ROOT_NAME, node_name};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::key_file::is_private;

pub(crate) use shown::Shown;

/// How long a new certificate is valid.
const VALID: Duration = Duration::from_secs(825 * DAY);
/// Days before its end from which on an operator is told.
pub(crate) const NOTICE_DAYS: u64 = 30;
/// Days that one looks ahead.
const DAYS_AHEAD: u64 = 10 * 366;
/// Clocks of clients may be so far behind.
const SLACK: Duration = Duration::from_secs(DAY);
const DAY: u64 = 86_400;

/// Certificates, a node's own first, and the key of the first.
pub(crate) struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: Zeroizing<Vec<u8>>,
    /// Where the two are read from.
    files: Option<[PathBuf; 2]>,
}

impl Certificate {
    /// A new one for a new key, signed by a root, for a node as clients know it.
    pub(crate) fn issue(root: &SigningKey) -> Result<Self, CertificateError> {
        Self::issue_for(root, NODE_NAME, &[ExtendedKeyUsagePurpose::ServerAuth])
    }

    /// A new one for a new key, signed by a root, for a name and what its holder may be.
    pub(crate) fn issue_for(
        root: &SigningKey,
        name: &str,
        purposes: &[ExtendedKeyUsagePurpose],
    ) -> Result<Self, CertificateError> {
        let mut random = Zeroizing::new([0; 48]);
        SysRng.try_fill_bytes(random.as_mut_slice()).map_err(|_| CertificateError::Randomness)?;
        let (seed, serial) = random.split_at(32);
        let node =
            SigningKey::from_bytes(&Zeroizing::new(seed.try_into().map_err(|_| CertificateError::Made)?));
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(|_| CertificateError::Made)?;
        let now = OffsetDateTime::now_utc();
        (params.not_before, params.not_after) = (now - SLACK, now + VALID);
        params.distinguished_name = named(name);
        // A serial number is positive.
        let serial: Vec<u8> = serial
            .iter()
            .enumerate()
            .map(|(at, byte)| if at == 0 { byte & 0x7f | 1 } else { *byte })
            .collect();
        params.serial_number = Some(SerialNumber::from(serial));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes.to_vec();
        let mut issuer = CertificateParams::default();
        issuer.distinguished_name = named(ROOT_NAME);
        issuer.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = Issuer::from_params(&issuer, Ed25519::new(root));
        let certificate =
            params.signed_by(&Ed25519::new(&node), &issuer).map_err(|_| CertificateError::Made)?;
        Ok(Self { chain: vec![certificate.der().clone()], key: pkcs8(&node)?, files: None })
    }

    /// One from two files, PEM.
    pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let read = |path: &Path, error: pem::Error| match error {
            pem::Error::Io(source) => CertificateError::File { path: path.to_owned(), source },
            _ => CertificateError::Malformed(path.to_owned()),
        };
        let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| read(certificate, error))?;
        if chain.is_empty() {
            return Err(CertificateError::Malformed(certificate.to_owned()));
        }
        let opened = File::open(key).and_then(|file| is_private(&file));
        if !opened.map_err(|source| CertificateError::File { path: key.to_owned(), source })? {
            return Err(CertificateError::Exposed(key.to_owned()));
        }
        let parsed = PrivateKeyDer::from_pem_file(key).map_err(|error| read(key, error))?;
        let PrivateKeyDer::Pkcs8(parsed) = parsed else {
            return Err(CertificateError::Malformed(key.to_owned()));
        };
        let files = Some([certificate.to_owned(), key.to_owned()]);
        Ok(Self { chain, key: Zeroizing::new(parsed.secret_pkcs8_der().to_vec()), files })
    }

    /// Certificate and key as files hold them.
    ///
    /// # Errors
    /// [`CertificateError::Made`] if they are longer than memory.
    pub(crate) fn to_pem(&self) -> Result<(String, Zeroizing<String>), CertificateError> {
        let chain: Result<String, _> =
            self.chain.iter().map(|certificate| pem_of("CERTIFICATE", certificate)).collect();
        Ok((chain?, Zeroizing::new(pem_of("PRIVATE KEY", &self.key)?)))
    }

    /// Whether clients that know this root will accept it, and its key is there.
    pub(crate) fn check(&self, root: &RootKey) -> Result<(), CertificateError> {
        self.check_at(root, &node_name(), UnixTime::now())?;
        self.certified().map(|_| ())
    }

    /// Whether whoever knows this root and asks for this name will accept it at a time.
    pub(crate) fn check_at(
        &self,
        root: &RootKey,
        name: &ServerName<'_>,
        at: UnixTime,
    ) -> Result<(), CertificateError> {
        verify(&self.chain, root, name, at)
    }

    /// Certificates and key as TLS takes them.
    ///
    /// # Errors
    /// [`CertificateError::Key`] if the key is another one's.
    fn certified(&self) -> Result<Arc<CertifiedKey>, CertificateError> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.to_vec()));
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(self.chain.clone(), key, &provider);
        certified.map(Arc::new).map_err(|_| CertificateError::Key)
    }
}

/// How a server speaks TLS with whoever shows a certificate that this verifier accepts: version 1.3, HTTP/2, no resumption, so
/// that every connection has keys of its own.
///
/// # Errors
/// [`CertificateError::Key`] if TLS cannot be spoken so.
pub(crate) fn server_config(
    clients: Arc<dyn ClientCertVerifier>,
    shown: Arc<dyn ResolvesServerCert>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|_| CertificateError::Key)?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![APPLICATION.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Whether whoever knows a root and asks for a name will accept a certificate at a time.
fn verify(
    chain: &[CertificateDer<'_>],
    root: &RootKey,
    name: &ServerName<'_>,
    at: UnixTime,
) -> Result<(), CertificateError> {
    let roots = Arc::new(RootCertStore { roots: vec![root.trust_anchor()] });
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
        .build()
        .map_err(|_| CertificateError::Foreign)?;
    let (own, others) = chain.split_first().ok_or(CertificateError::Foreign)?;
    match verifier.verify_server_cert(own, others, name, &[], at) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InvalidCertificate(Invalid::Expired | Invalid::ExpiredContext { .. })) => {
            Err(CertificateError::Expired)
        }
        Err(_) => Err(CertificateError::Foreign),
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn pem_of(label: &str, der: &[u8]) -> Result<String, CertificateError> {
    pem_rfc7468::encode_string(label, LineEnding::LF, der).map_err(|_| CertificateError::Made)
}

/// A key in PKCS #8, without its public half (RFC 8410).
fn pkcs8(key: &SigningKey) -> Result<Zeroizing<Vec<u8>>, CertificateError> {
    let key = KeypairBytes { secret_key: key.to_bytes(), public_key: None };
    Ok(key.to_pkcs8_der().map_err(|_| CertificateError::Made)?.to_bytes())
}

/// An Ed25519 key as the maker of certificates wants it.
struct Ed25519<'a> {
    key: &'a SigningKey,
    public: [u8; 32],
}

impl<'a> Ed25519<'a> {
    fn new(key: &'a SigningKey) -> Self {
        Self { key, public: key.verifying_key().to_bytes() }
    }
}

impl PublicKeyData for Ed25519<'_> {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

impl rcgen::SigningKey for Ed25519<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.key.sign(message).to_bytes().to_vec())
    }
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{}: {source}; 'sottod certify' makes the node's certificate and key anew", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: it holds no certificate or key (PKCS #8) in PEM", .0.display())]
    Malformed(PathBuf),
    /// Others can read the key.
    #[error("{}: others can read it; make it private with chmod 600", .0.display())]
    Exposed(PathBuf),
    /// Clients would take the server for an impostor.
    #[error(
        "the node's certificate was not made by this cluster's root key for the name {NODE_NAME}; 'sottod certify' \
         makes one"
    )]
    Foreign,
    /// Other nodes would take the node for an impostor, or for another one.
    #[error(
        "the certificate for the cluster's other nodes was not made by this cluster's root key for this node's number; \
         'sottod certify' makes one"
    )]
    ForeignPeer,
    /// It is no longer, or not yet, valid.
    #[error("the node's certificate has ended; make a new one with 'sottod certify', and look at the clock")]
    Expired,
    /// The key is for something else.
    #[error("the node's key does not go with its certificate; 'sottod certify' makes both anew")]
    Key,
    /// It could not be made.
    #[error("the certificate could not be made: this is a fault of the program")]
    Made,
    /// No key can be drawn.
    #[error("the operating system gives no randomness")]
    Randomness,
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use data_encoding::HEXLOWER;
    use ed25519_dalek::SigningKey;
    use rcgen::CertificateParams;
    use rustls::pki_types::UnixTime;
    use sotto_wire::RootKey;
    use sotto_wire::root::{ROOT_NAME, node_name};

    use super::{Certificate, CertificateError, DAY};

    #[test]
    fn a_certificate_is_accepted_under_its_root_in_its_time_and_not_otherwise() {
        let root = SigningKey::from_bytes(&[1; 32]);
        let certificate = Certificate::issue(&root).unwrap();
        let key = RootKey(root.verifying_key().to_bytes());
        certificate.check(&key).unwrap();
        let other = RootKey(SigningKey::from_bytes(&[2; 32]).verifying_key().to_bytes());
        assert!(matches!(certificate.check(&other), Err(CertificateError::Foreign)));
        let in_days = |days: u64| {
            UnixTime::since_unix_epoch(Duration::from_secs(UnixTime::now().as_secs() + days * DAY))
        };
        certificate.check_at(&key, &node_name(), in_days(824)).unwrap();
        assert!(matches!(
            certificate.check_at(&key, &node_name(), in_days(826)),
            Err(CertificateError::Expired)
        ));
        let shown = super::Shown::new(&certificate, &key, node_name()).unwrap();
        assert!((823..=825).contains(&shown.days_left()));
    }

    /// Section 10.3 of RFC 8410.
    #[test]
    fn a_nodes_key_has_the_published_bytes() {
        let seed =
            HEXLOWER.decode(b"d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842").unwrap();
        let key = super::pkcs8(&SigningKey::from_bytes(&seed.try_into().unwrap())).unwrap();
        let expected = "-----BEGIN PRIVATE KEY-----\n\
                        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                        -----END PRIVATE KEY-----\n";
        assert_eq!(super::pem_of("PRIVATE KEY", &key).unwrap(), expected);
    }

    #[test]
    fn what_clients_trust_is_what_a_certificate_of_the_root_says() {
        let root = SigningKey::from_bytes(&[1; 32]);
        let mut params = CertificateParams::default();
        params.distinguished_name = super::named(ROOT_NAME);
        params.serial_number = Some(1.into());
        let certificate = params.self_signed(&super::Ed25519::new(&root)).unwrap();
        let anchor = webpki::anchor_from_trusted_cert(certificate.der()).unwrap();
        assert_eq!(anchor, RootKey(root.verifying_key().to_bytes()).trust_anchor());
    }

    #[test]
    fn a_certificate_survives_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = Certificate::issue(&SigningKey::from_bytes(&[1; 32])).unwrap();
        let (chain, key) = certificate.to_pem().unwrap();
        let (chain_path, key_path) = (directory.path().join("chain"), directory.path().join("key"));
        std::fs::write(&chain_path, chain).unwrap();
        std::fs::write(&key_path, key.as_bytes()).unwrap();
        std::fs::set_permissions(&key_path, Permissions::from_mode(0o640)).unwrap();
        let exposed = Certificate::load(&chain_path, &key_path);
        assert!(matches!(exposed, Err(CertificateError::Exposed(_))));
        std::fs::set_permissions(&key_path, Permissions::from_mode(0o600)).unwrap();
        std::fs::set_permissions(&chain_path, Permissions::from_mode(0o600)).unwrap();
        let loaded = Certificate::load(&chain_path, &key_path).unwrap();
        assert_eq!(loaded.chain, certificate.chain);
        assert_eq!(*loaded.key, *certificate.key);
        loaded.certified().unwrap();
        assert!(matches!(Certificate::load(&key_path, &key_path), Err(CertificateError::Malformed(_))));
        assert!(matches!(Certificate::load(&chain_path, &chain_path), Err(CertificateError::Malformed(_))));
    }

    #[test]
    fn a_key_that_does_not_go_with_its_certificate_is_refused() {
        let root = SigningKey::from_bytes(&[1; 32]);
        let (one, other) = (Certificate::issue(&root).unwrap(), Certificate::issue(&root).unwrap());
        let mixed = Certificate { chain: one.chain, key: other.key, files: None };
        assert!(matches!(mixed.certified(), Err(CertificateError::Key)));
    }
}
