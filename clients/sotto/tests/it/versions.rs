//! Servers of other versions, or of none.

use crate::support::loopback;
use ed25519_dalek::SigningKey;
use sotto::Address;
use sotto_protocol::{CodeKind, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters};
use sotto_session::{ConnectError, Connection, ConnectionSettings};
use sotto_wire::root::endorse;
use sotto_wire::{Host, Info, Refused, RootKey, Transport, proto};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// Answers `Info` in one way and nothing else.
struct Other(Result<proto::InfoResponse, Refused>);

type Nothing<T> = tokio_stream::Empty<Result<T, Status>>;

#[tonic::async_trait]
impl proto::sotto_server::Sotto for Other {
    type WatchStream = Nothing<proto::RoundEvent>;
    type MappingStream = Nothing<proto::MappingChunk>;
    type RetrieveStream = Nothing<proto::AnswerChunk>;
    type RetrieveAgainStream = Nothing<proto::AnswerChunk>;
    type HintStream = Nothing<proto::HintChunk>;
    type UnitStream = Nothing<proto::UnitChunk>;
    type ManifestsStream = Nothing<proto::SignedManifest>;

    async fn info(&self, _: Request<proto::InfoRequest>) -> Result<Response<proto::InfoResponse>, Status> {
        self.0.clone().map(Response::new).map_err(Status::from)
    }

    async fn challenge(
        &self,
        _: Request<proto::ChallengeRequest>,
    ) -> Result<Response<proto::ChallengeResponse>, Status> {
        Err(Refused::Internal.into())
    }

    async fn register(
        &self,
        _: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::RegisterResponse>, Status> {
        Err(Refused::Internal.into())
    }

    async fn close(&self, _: Request<proto::CloseRequest>) -> Result<Response<proto::CloseResponse>, Status> {
        Err(Refused::Internal.into())
    }

    async fn upload_keys(
        &self,
        _: Request<Streaming<proto::KeysChunk>>,
    ) -> Result<Response<proto::UploadKeysResponse>, Status> {
        Err(Refused::Internal.into())
    }

    async fn watch(&self, _: Request<proto::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Refused::Internal.into())
    }

    async fn deposit(
        &self,
        _: Request<proto::DepositRequest>,
    ) -> Result<Response<proto::DepositResponse>, Status> {
        Err(Refused::Internal.into())
    }

    async fn mapping(
        &self,
        _: Request<proto::MappingRequest>,
    ) -> Result<Response<Self::MappingStream>, Status> {
        Err(Refused::Internal.into())
    }

    async fn retrieve(
        &self,
        _: Request<Streaming<proto::QueryChunk>>,
    ) -> Result<Response<Self::RetrieveStream>, Status> {
        Err(Refused::Internal.into())
    }

    async fn retrieve_again(
        &self,
        _: Request<proto::RetrieveAgainRequest>,
    ) -> Result<Response<Self::RetrieveAgainStream>, Status> {
        Err(Refused::Internal.into())
    }

    async fn hint(&self, _: Request<proto::HintRequest>) -> Result<Response<Self::HintStream>, Status> {
        Err(Refused::Internal.into())
    }

    async fn unit(&self, _: Request<proto::UnitRequest>) -> Result<Response<Self::UnitStream>, Status> {
        Err(Refused::Internal.into())
    }

    async fn manifests(
        &self,
        _: Request<proto::ManifestsRequest>,
    ) -> Result<Response<Self::ManifestsStream>, Status> {
        Err(Refused::Internal.into())
    }
}

fn root() -> SigningKey {
    SigningKey::from_bytes(&[3; 32])
}

/// What a client makes of a server that answers so.
async fn meets(answer: Result<proto::InfoResponse, Refused>) -> ConnectError {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let at = listener.local_addr().unwrap();
    let service = proto::sotto_server::SottoServer::new(Other(answer));
    let server = Server::builder().add_service(service);
    let serving = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let root = RootKey(root().verifying_key().to_bytes());
    let address = Address::new(Transport::Plaintext, Host::Ip(at.ip()), at.port(), root).unwrap();
    let settings = ConnectionSettings { allow_no_privacy: true, ..ConnectionSettings::new(address) };
    let met = Connection::open(&settings).await.unwrap().info().await;
    serving.abort();
    met.unwrap_err()
}

fn info(protocol_version: u16) -> proto::InfoResponse {
    announced(|parameters| parameters.protocol_version = protocol_version)
}

/// What a server announces under the root's signature.
fn announced(change: impl FnOnce(&mut ServerParameters)) -> proto::InfoResponse {
    let mut parameters = ServerParameters {
        protocol_version: PROTOCOL_VERSION,
        serial: 1,
        seeds: SeedCommitment { first: Round(1), segments: 1, root: [1; 32] },
        manifest_key: [3; 32],
        engine: "noop-no-privacy".into(),
        security_bits: 0,
        code: CodeKind::Cuckoo,
        retrieve: 4,
        buckets: 8,
        choices: 3,
        retained: 2,
        mode: RoundMode::Deadline,
        round_ms: 1000,
        deposit_ms: 100,
        lookup_ms: 100,
        query_ms: 200,
        deposit_spread_ms: 0,
        query_spread_ms: 0,
        key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
    };
    change(&mut parameters);
    let endorsement = endorse(&root(), &parameters);
    Info { parameters, open: Default::default(), endorsement, token_required: false }.into()
}

#[tokio::test]
async fn another_version_is_named_with_what_to_do() {
    let newer = PROTOCOL_VERSION + 1;
    let told = meets(Ok(info(newer))).await;
    assert_eq!(told, ConnectError::Version { theirs: Some(newer) });
    let ours = format!("this program version {PROTOCOL_VERSION}");
    assert!(told.to_string().contains(&ours) && told.to_string().contains("update"), "{told}");
    // An honest server does not even answer.
    assert_eq!(meets(Err(Refused::Version)).await, ConnectError::Version { theirs: None });
}

#[tokio::test]
async fn parameters_that_cannot_be_are_refused_before_they_are_used() {
    let odd = proto::InfoResponse { buckets: 1 << 20, ..info(PROTOCOL_VERSION) };
    assert!(matches!(meets(Ok(odd)).await, ConnectError::NoServer(_)));
    let contradictory = announced(|parameters| parameters.lookup_ms = 300);
    assert!(matches!(meets(Ok(contradictory)).await, ConnectError::Parameters(_)));
    let unsaid = proto::InfoResponse { manifest_key: Default::default(), ..info(PROTOCOL_VERSION) };
    assert!(matches!(meets(Ok(unsaid)).await, ConnectError::NoServer(_)));
}
