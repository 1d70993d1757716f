//! The keys of both ends, and TLS under them alone.

use core::fmt;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use rand::Rng as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::alg_id::ED25519;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, public_key_to_spki};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme, version,
};
use zeroize::Zeroizing;

/// Bytes of a key, secret or public.
pub(crate) const KEY_BYTES: usize = 32;
/// What stands before an Ed25519 secret in PKCS #8 (RFC 8410, section 7).
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The key of one end.
#[derive(Clone)]
pub(crate) struct Key(Zeroizing<[u8; KEY_BYTES]>);

/// The public half of the other end's.
pub(crate) type Public = [u8; KEY_BYTES];

impl Key {
    pub(crate) fn new() -> Self {
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        rand::make_rng::<rand::rngs::StdRng>().fill_bytes(&mut seed[..]);
        Self(seed)
    }

    /// From [`Key::secret`].
    pub(crate) fn from_secret(secret: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        Self(secret)
    }

    pub(crate) fn secret(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    pub(crate) fn public(&self) -> Public {
        SigningKey::from_bytes(&self.0).verifying_key().to_bytes()
    }

    fn certified(&self) -> Result<Arc<CertifiedKey>, Error> {
        let mut encoded = Zeroizing::new(Vec::with_capacity(PKCS8.len() + KEY_BYTES));
        encoded.extend(PKCS8);
        encoded.extend(self.0.iter());
        let signing = rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&encoded[..]))?;
        let shown = CertificateDer::from(public_key_to_spki(&ED25519, self.public()).to_vec());
        Ok(Arc::new(CertifiedKey::new(vec![shown], signing)))
    }

    /// How the participant speaks with whom it `knows`, and with nobody else: version 1.3, no resumption, so that every connection has
    /// keys of its own and who is no longer known does not come back.
    ///
    /// # Errors
    /// If TLS cannot be spoken so.
    pub(crate) fn server_config(&self, knows: Knows) -> Result<Arc<ServerConfig>, Error> {
        let provider = provider();
        let clients = Arc::new(Clients { knows, provider: Arc::clone(&provider) });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.certified()?)));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// How a device speaks with the participant of that key, and with nobody else.
    ///
    /// # Errors
    /// If TLS cannot be spoken so.
    pub(crate) fn client_config(&self, participant: Public) -> Result<Arc<ClientConfig>, Error> {
        let provider = provider();
        let server = Arc::new(Server { participant, provider: Arc::clone(&provider) });
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(server)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(self.certified()?)));
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// What a device asks for; it is not sent, and nothing is compared with it.
pub(crate) fn no_name() -> ServerName<'static> {
    ServerName::try_from("device.sotto.invalid").expect("the name is one of DNS")
}

/// The key that an end has shown.
pub(crate) fn shown(certificates: Option<&[CertificateDer<'_>]>) -> Option<Public> {
    let [shown] = certificates? else { return None };
    let key: Public = shown.as_ref().last_chunk().copied()?;
    (*public_key_to_spki(&ED25519, key) == *shown.as_ref()).then_some(key)
}

/// Whether somebody with this key may come in.
pub(crate) type Knows = Arc<dyn Fn(&Public) -> bool + Send + Sync>;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn unknown() -> Error {
    CertificateError::ApplicationVerificationFailure.into()
}

/// Whether an end has signed with the key that it shows.
fn is_signed(
    provider: &CryptoProvider,
    message: &[u8],
    shown: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
    verify_tls13_signature_with_raw_key(message, &key, signature, &provider.signature_verification_algorithms)
}

struct Clients {
    knows: Knows,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clients(..)")
    }
}

impl ClientCertVerifier for Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let key = shown(Some(core::slice::from_ref(end_entity))).filter(|_| intermediates.is_empty());
        match key.is_some_and(|key| (self.knows)(&key)) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(unknown()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(unknown())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        is_signed(&self.provider, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

struct Server {
    participant: Public,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server(..)")
    }
}

impl ServerCertVerifier for Server {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let key = shown(Some(core::slice::from_ref(end_entity))).filter(|_| intermediates.is_empty());
        match key == Some(self.participant) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(unknown()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(unknown())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        is_signed(&self.provider, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
