//! The certificate by which the nodes of a cluster know each other. Its name says which node it is, and is never that of a
//! node as clients know it: neither of the two certificates passes for the other.

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

use crate::certificate::{Certificate, CertificateError, Shown, server_config};
use crate::cluster::NodeId;
use crate::secrets::{IdentityError, write_pem};

const KEY: &str = "peer.key";
const CERTIFICATE: &str = "peer.pem";

/// A node's certificate for the other nodes of its cluster.
pub(crate) struct PeerCertificate {
    shown: Arc<Shown>,
}

impl PeerCertificate {
    /// A new one for a node, written to a directory.
    pub(crate) fn create(directory: &Path, this: NodeId, root: &SigningKey) -> Result<(), IdentityError> {
        let purposes = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = Certificate::issue_for(root, &name(this), &purposes)?;
        write_pem(&certificate, &[directory.join(CERTIFICATE), directory.join(KEY)])
    }

    /// The one in a directory, if other nodes would accept it.
    pub(crate) fn load(directory: &Path, this: NodeId, root: &RootKey) -> Result<Self, CertificateError> {
        let certificate = Certificate::load(&directory.join(CERTIFICATE), &directory.join(KEY))?;
        match certificate.check_at(root, &server_name(this), UnixTime::now()) {
            Err(CertificateError::Foreign) => Err(CertificateError::ForeignPeer),
            checked => checked,
        }?;
        Self::of(&certificate, this, root)
    }

    fn of(certificate: &Certificate, this: NodeId, root: &RootKey) -> Result<Self, CertificateError> {
        Ok(Self { shown: Shown::new(certificate, root, server_name(this))? })
    }

    /// How a node speaks TLS with nodes that connect to it: as with clients, but every one shows a certificate of this root
    /// for the number of a node.
    pub(crate) fn server_config(&self, root: &RootKey) -> Result<Arc<ServerConfig>, CertificateError> {
        let roots = Arc::new(RootCertStore { roots: vec![root.trust_anchor()] });
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let of_root = WebPkiClientVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|_| CertificateError::ForeignPeer)?;
        server_config(Arc::new(OfPeers(of_root)), Arc::clone(&self.shown) as Arc<_>)
    }

    /// How a node speaks TLS with a node that it connects to, and asks for by its [`server_name`].
    pub(crate) fn client_config(&self, root: &RootKey) -> Result<Arc<ClientConfig>, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|_| CertificateError::Key)?
            .with_root_certificates(RootCertStore { roots: vec![root.trust_anchor()] })
            .with_client_cert_resolver(Arc::clone(&self.shown) as Arc<_>);
        config.alpn_protocols = vec![APPLICATION.to_vec()];
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// What is shown, to whoever watches over it.
    pub(crate) fn shown(&self) -> Arc<Shown> {
        Arc::clone(&self.shown)
    }
}

/// The name by which a node asks for another.
pub(crate) fn server_name(node: NodeId) -> ServerName<'static> {
    ServerName::try_from(name(node)).expect("a number and words are a name of DNS")
}

fn name(node: NodeId) -> String {
    match node {
        NodeId::Voter(number) => format!("{number}{VOTER}"),
        NodeId::Answerer(number) => format!("{number}{ANSWERER}"),
    }
}

/// The ends of names.
const VOTER: &str = ".peer.sotto.invalid";
const ANSWERER: &str = ".answerer.sotto.invalid";

/// The node that showed a certificate, which TLS has verified. Nodes come and go, and nobody keeps a list of those that may: that
/// the root has signed it is enough.
pub(crate) fn node_of(certificate: &CertificateDer<'_>) -> Option<NodeId> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    certificate.valid_dns_names().find_map(|shown| {
        let node = match shown.strip_suffix(VOTER) {
            Some(number) => NodeId::Voter(number.parse().ok()?),
            None => NodeId::Answerer(shown.strip_suffix(ANSWERER)?.parse().ok()?),
        };
        (name(node) == shown).then_some(node)
    })
}

/// Accepts certificates of a root that are for a node's name. The root alone would not do: a certificate of a node as
/// clients know it is of the same root, and may say nothing of what it is for.
#[derive(Debug)]
struct OfPeers(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for OfPeers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.0.verify_client_cert(own, others, now)?;
        match node_of(own) {
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
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
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

    use super::{PeerCertificate, node_of, server_name};
    use crate::certificate::{Certificate, CertificateError, Shown};
    use crate::cluster::NodeId;
    use crate::cluster::NodeId::{Answerer, Voter};

    fn root(seed: u8) -> (SigningKey, RootKey) {
        let root = SigningKey::from_bytes(&[seed; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        (root, key)
    }

    fn peer(seed: u8, node: NodeId) -> PeerCertificate {
        let directory = tempfile::tempdir().unwrap();
        let (root, key) = root(seed);
        PeerCertificate::create(directory.path(), node, &root).unwrap();
        PeerCertificate::load(directory.path(), node, &key).unwrap()
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
        let (one, three) = (peer(1, Voter(1)), peer(1, Voter(3)));
        let server = three.server_config(&key).unwrap();
        let server = meet(one.client_config(&key).unwrap(), server_name(Voter(3)), server).unwrap();
        let shown = server.peer_certificates().and_then(<[_]>::first).unwrap();
        assert_eq!(node_of(shown), Some(Voter(1)));
        assert_eq!(server.protocol_version(), Some(ProtocolVersion::TLSv1_3));
        assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
    }

    #[test]
    fn an_answerer_is_known_though_nobody_lists_it_and_never_passes_for_a_voter() {
        let (secret, key) = root(1);
        let voter = peer(1, Voter(1));
        let answerer = peer(1, Answerer(2));
        let there = answerer.client_config(&key).unwrap();
        let server = meet(there, server_name(Voter(1)), voter.server_config(&key).unwrap()).unwrap();
        let shown = server.peer_certificates().and_then(<[_]>::first).unwrap();
        assert_eq!(node_of(shown), Some(Answerer(2)));
        let here = voter.client_config(&key).unwrap();
        let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        assert!(
            meet(here.clone(), server_name(Voter(2)), answerer.server_config(&key).unwrap()).is_err(),
            "asked for as a voter"
        );
        meet(here, server_name(Answerer(2)), answerer.server_config(&key).unwrap()).unwrap();
        // Of another root, and with numbers that are none.
        let foreign = peer(2, Answerer(2)).client_config(&key).unwrap();
        assert!(meet(foreign, server_name(Voter(1)), voter.server_config(&key).unwrap()).is_err());
        for name in [
            "02.peer.sotto.invalid",
            "02.answerer.sotto.invalid",
            "x.answerer.sotto.invalid",
            "2.x.answerer.sotto.invalid",
            "answerer.sotto.invalid",
        ] {
            let certificate = Certificate::issue_for(&secret, name, &both).unwrap();
            let posing = PeerCertificate::of(&certificate, Answerer(2), &key).unwrap();
            let there = posing.client_config(&key).unwrap();
            assert!(
                meet(there, server_name(Voter(1)), voter.server_config(&key).unwrap()).is_err(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_node_that_answers_for_another_one_is_refused() {
        let (_, key) = root(1);
        let server = peer(1, Voter(3)).server_config(&key).unwrap();
        assert!(meet(peer(1, Voter(1)).client_config(&key).unwrap(), server_name(Voter(2)), server).is_err());
    }

    #[test]
    fn whoever_shows_no_certificate_or_one_of_another_cluster_is_refused() {
        let (_, ours) = root(1);
        let two = peer(1, Voter(2));
        let refused = |client: Arc<ClientConfig>| {
            meet(client, server_name(Voter(2)), two.server_config(&ours).unwrap()).is_err()
        };
        // As a client it knows the root, and has nothing to show.
        assert!(refused(ours.client_config().unwrap()));
        // It knows our root, and shows what another one has signed.
        assert!(refused(peer(2, Voter(1)).client_config(&ours).unwrap()));
        // Nobody keeps a list of those that may.
        assert!(!refused(peer(1, Voter(9)).client_config(&ours).unwrap()));
        assert!(!refused(peer(1, Voter(3)).client_config(&ours).unwrap()));
    }

    #[test]
    fn neither_a_nodes_certificate_for_clients_nor_its_certificate_for_nodes_passes_for_the_other() {
        let (secret, key) = root(1);
        let one = peer(1, Voter(1));
        let for_clients = Certificate::issue(&secret).unwrap();
        // To a client.
        let client = key.client_config().unwrap();
        assert!(
            meet(
                client.clone(),
                node_name(),
                Shown::new(&for_clients, &key, node_name()).unwrap().server_config().unwrap()
            )
            .is_ok()
        );
        assert!(meet(client, node_name(), one.shown.server_config().unwrap()).is_err());
        // To a node that connects, and to one that answers; also if it does not say what it is for.
        let unsaid = Certificate::issue_for(&secret, NODE_NAME, &[]).unwrap();
        let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let for_both = Certificate::issue_for(&secret, NODE_NAME, &both).unwrap();
        for certificate in [for_clients, unsaid, for_both] {
            let posing = PeerCertificate::of(&certificate, Voter(2), &key).unwrap();
            let here = one.client_config(&key).unwrap();
            assert!(meet(here, server_name(Voter(2)), posing.server_config(&key).unwrap()).is_err());
            let there = posing.client_config(&key).unwrap();
            assert!(meet(there, server_name(Voter(1)), one.server_config(&key).unwrap()).is_err());
        }
        // A certificate that is only for servers does not connect to a node, whatever its name.
        let answers = Certificate::issue_for(&secret, "2.peer.sotto.invalid", &both[..1]).unwrap();
        let posing = PeerCertificate::of(&answers, Voter(2), &key).unwrap();
        let there = posing.client_config(&key).unwrap();
        assert!(meet(there, server_name(Voter(1)), one.server_config(&key).unwrap()).is_err());
    }

    #[test]
    fn a_certificate_for_another_number_or_of_another_root_is_told_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let ((secret, ours), (_, theirs)) = (root(1), root(2));
        PeerCertificate::create(directory.path(), Voter(2), &secret).unwrap();
        let load = |node, root| PeerCertificate::load(directory.path(), node, root).map(|_| ());
        load(Voter(2), &ours).unwrap();
        assert!(matches!(load(Answerer(2), &ours), Err(CertificateError::ForeignPeer)));
        assert!(matches!(load(Voter(1), &ours), Err(CertificateError::ForeignPeer)));
        assert!(matches!(load(Voter(2), &theirs), Err(CertificateError::ForeignPeer)));
    }
}
