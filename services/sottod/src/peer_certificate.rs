//! The certificate by which the nodes of a cluster know each other. Its name says which node it is, and is never that of a
//! node as clients know it: neither of the two certificates passes for the other.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use rcgen::ExtendedKeyUsagePurpose;
use rustls::client::Resumption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError as Invalid, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore,
    ServerConfig, SignatureScheme, version,
};
use sotto_wire::RootKey;
use sotto_wire::root::APPLICATION;

use crate::certificate::{Certificate, CertificateError, Expiry};
use crate::secrets::{IdentityError, write_pem};

const KEY: &str = "peer.key";
const CERTIFICATE: &str = "peer.pem";

/// A node's certificate for the other nodes of its cluster, and by which names it knows them.
pub(crate) struct PeerCertificate {
    certificate: Certificate,
    number: u64,
    names: Names,
}

/// The number of a node by the name in its certificate, of all nodes there are.
#[derive(Clone, Debug)]
struct Names(Arc<BTreeMap<u64, ServerName<'static>>>);

impl PeerCertificate {
    /// A new one for the node with this number, written to a directory.
    pub(crate) fn create(directory: &Path, number: u64, root: &SigningKey) -> Result<(), IdentityError> {
        let purposes = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = Certificate::issue_for(root, &name(number), &purposes)?;
        write_pem(&certificate, &[directory.join(CERTIFICATE), directory.join(KEY)])
    }

    /// The one in a directory, if other nodes would accept it. `numbers` are those of all nodes.
    pub(crate) fn load(
        directory: &Path,
        number: u64,
        numbers: impl Iterator<Item = u64>,
        root: &RootKey,
    ) -> Result<Self, CertificateError> {
        let certificate = Certificate::load(&directory.join(CERTIFICATE), &directory.join(KEY))?;
        let names = Names(Arc::new(numbers.map(|number| (number, server_name(number))).collect()));
        let loaded = Self { certificate, number, names };
        loaded.check_at(root, UnixTime::now())?;
        loaded.server_config(root)?;
        Ok(loaded)
    }

    fn check_at(&self, root: &RootKey, at: UnixTime) -> Result<(), CertificateError> {
        match self.certificate.check_at(root, &server_name(self.number), at) {
            Err(CertificateError::Foreign) => Err(CertificateError::ForeignPeer),
            checked => checked,
        }
    }

    /// How a node speaks TLS with nodes that connect to it: as with clients, but every one shows a certificate of this root
    /// for the number of a node.
    pub(crate) fn server_config(&self, root: &RootKey) -> Result<Arc<ServerConfig>, CertificateError> {
        let roots = Arc::new(RootCertStore { roots: vec![root.trust_anchor()] });
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let of_root = WebPkiClientVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|_| CertificateError::ForeignPeer)?;
        self.certificate.server_config_for(Arc::new(OfPeers { of_root, names: self.names.clone() }))
    }

    /// How a node speaks TLS with a node that it connects to, and asks for by its [`server_name`].
    pub(crate) fn client_config(&self, root: &RootKey) -> Result<Arc<ClientConfig>, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (chain, key) = self.certificate.shown();
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|_| CertificateError::Key)?
            .with_root_certificates(RootCertStore { roots: vec![root.trust_anchor()] })
            .with_client_auth_cert(chain, key)
            .map_err(|_| CertificateError::Key)?;
        config.alpn_protocols = vec![APPLICATION.to_vec()];
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// When it ends.
    pub(crate) fn expiry(&self, root: &RootKey) -> Expiry {
        self.certificate.expiry(root, server_name(self.number))
    }

    /// The number of the node that showed this certificate, which TLS has verified.
    pub(crate) fn peer_number(&self, certificate: &CertificateDer<'_>) -> Option<u64> {
        self.names.number(certificate)
    }
}

/// The name by which a node asks for the node with this number.
pub(crate) fn server_name(number: u64) -> ServerName<'static> {
    ServerName::try_from(name(number)).expect("a number and words are a name of DNS")
}

fn name(number: u64) -> String {
    format!("{number}.peer.sotto.invalid")
}

impl Names {
    fn number(&self, certificate: &CertificateDer<'_>) -> Option<u64> {
        let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
        let valid = |name| certificate.verify_is_valid_for_subject_name(name).is_ok();
        self.0.iter().find(|(_, name)| valid(name)).map(|(number, _)| *number)
    }
}

/// Accepts certificates of a root that are for one of these names. The root alone would not do: a certificate of a node as
/// clients know it is of the same root, and may say nothing of what it is for.
#[derive(Debug)]
struct OfPeers {
    of_root: Arc<dyn ClientCertVerifier>,
    names: Names,
}

impl ClientCertVerifier for OfPeers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.of_root.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.of_root.verify_client_cert(own, others, now)?;
        match self.names.number(own) {
            Some(_) => Ok(verified),
            None => Err(Invalid::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.of_root.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.of_root.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.of_root.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ed25519_dalek::SigningKey;
    use rcgen::ExtendedKeyUsagePurpose;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, ProtocolVersion, ServerConfig, ServerConnection};
    use sotto_wire::RootKey;
    use sotto_wire::root::{NODE_NAME, node_name};

    use super::{PeerCertificate, server_name};
    use crate::certificate::{Certificate, CertificateError};

    const NUMBERS: [u64; 3] = [1, 2, 3];

    fn root(seed: u8) -> (SigningKey, RootKey) {
        let root = SigningKey::from_bytes(&[seed; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        (root, key)
    }

    fn peer(seed: u8, number: u64) -> PeerCertificate {
        let directory = tempfile::tempdir().unwrap();
        let (root, key) = root(seed);
        PeerCertificate::create(directory.path(), number, &root).unwrap();
        PeerCertificate::load(directory.path(), number, NUMBERS.into_iter(), &key).unwrap()
    }

    /// A handshake to its end, or to the first complaint; whom the server saw.
    fn meet(
        client: Arc<ClientConfig>,
        name: ServerName<'static>,
        server: Arc<ServerConfig>,
    ) -> Result<ServerConnection, rustls::Error> {
        let mut client = ClientConnection::new(client, name)?;
        let mut server = ServerConnection::new(server)?;
        loop {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            while client.wants_write() {
                client.write_tls(&mut there).unwrap();
            }
            let mut reader = there.as_slice();
            while !reader.is_empty() {
                server.read_tls(&mut reader).unwrap();
                server.process_new_packets()?;
            }
            while server.wants_write() {
                server.write_tls(&mut back).unwrap();
            }
            let mut reader = back.as_slice();
            while !reader.is_empty() {
                client.read_tls(&mut reader).unwrap();
                client.process_new_packets()?;
            }
            if there.is_empty() && back.is_empty() {
                assert!(!client.is_handshaking() && !server.is_handshaking());
                return Ok(server);
            }
        }
    }

    #[test]
    fn a_node_is_known_by_its_number_to_whoever_it_connects_to() {
        let (_, key) = root(1);
        let (one, three) = (peer(1, 1), peer(1, 3));
        let server = three.server_config(&key).unwrap();
        let server = meet(one.client_config(&key).unwrap(), server_name(3), server).unwrap();
        let shown = server.peer_certificates().and_then(<[_]>::first).unwrap();
        assert_eq!(three.peer_number(shown), Some(1));
        assert_eq!(server.protocol_version(), Some(ProtocolVersion::TLSv1_3));
        assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
    }

    #[test]
    fn a_node_that_answers_for_another_one_is_refused() {
        let (_, key) = root(1);
        let server = peer(1, 3).server_config(&key).unwrap();
        assert!(meet(peer(1, 1).client_config(&key).unwrap(), server_name(2), server).is_err());
    }

    #[test]
    fn whoever_shows_no_certificate_or_one_of_another_cluster_or_number_is_refused() {
        let (_, ours) = root(1);
        let two = peer(1, 2);
        let refused = |client: Arc<ClientConfig>| {
            meet(client, server_name(2), two.server_config(&ours).unwrap()).is_err()
        };
        // As a client it knows the root, and has nothing to show.
        assert!(refused(ours.client_config().unwrap()));
        // It knows our root, and shows what another one has signed.
        assert!(refused(peer(2, 1).client_config(&ours).unwrap()));
        // A number that is no node's.
        let directory = tempfile::tempdir().unwrap();
        PeerCertificate::create(directory.path(), 9, &root(1).0).unwrap();
        let ninth = PeerCertificate::load(directory.path(), 9, [9].into_iter(), &ours).unwrap();
        assert!(refused(ninth.client_config(&ours).unwrap()));
        assert!(!refused(peer(1, 3).client_config(&ours).unwrap()));
    }

    #[test]
    fn neither_a_nodes_certificate_for_clients_nor_its_certificate_for_nodes_passes_for_the_other() {
        let (secret, key) = root(1);
        let one = peer(1, 1);
        let for_clients = Certificate::issue(&secret).unwrap();
        // To a client.
        let client = key.client_config().unwrap();
        assert!(meet(client.clone(), node_name(), for_clients.server_config().unwrap()).is_ok());
        assert!(meet(client, node_name(), one.certificate.server_config().unwrap()).is_err());
        // To a node that connects, and to one that answers; also if it does not say what it is for.
        let unsaid = Certificate::issue_for(&secret, NODE_NAME, &[]).unwrap();
        let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let for_both = Certificate::issue_for(&secret, NODE_NAME, &both).unwrap();
        for certificate in [for_clients, unsaid, for_both] {
            let posing = PeerCertificate { certificate, number: 2, names: one.names.clone() };
            let here = one.client_config(&key).unwrap();
            assert!(meet(here, server_name(2), posing.server_config(&key).unwrap()).is_err());
            let there = posing.client_config(&key).unwrap();
            assert!(meet(there, server_name(1), one.server_config(&key).unwrap()).is_err());
        }
        // A certificate that is only for servers does not connect to a node, whatever its name.
        let answers = Certificate::issue_for(&secret, "2.peer.sotto.invalid", &both[..1]).unwrap();
        let posing = PeerCertificate { certificate: answers, number: 2, names: one.names.clone() };
        let there = posing.client_config(&key).unwrap();
        assert!(meet(there, server_name(1), one.server_config(&key).unwrap()).is_err());
    }

    #[test]
    fn a_certificate_for_another_number_or_of_another_root_is_told_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let ((secret, ours), (_, theirs)) = (root(1), root(2));
        PeerCertificate::create(directory.path(), 2, &secret).unwrap();
        let load = |number, root| {
            PeerCertificate::load(directory.path(), number, NUMBERS.into_iter(), root).map(|_| ())
        };
        load(2, &ours).unwrap();
        assert!(matches!(load(1, &ours), Err(CertificateError::ForeignPeer)));
        assert!(matches!(load(2, &theirs), Err(CertificateError::ForeignPeer)));
    }
}
