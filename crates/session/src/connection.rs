//! A connection to a server, and whom to believe there.

use core::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ed25519_dalek::{Signer as _, SigningKey};
use sotto_protocol::{OwnSlot, PROTOCOL_VERSION, RoundMode, ServerParameters, Succession};
use sotto_wire::convert::{encode_slot, slot as parse_slot};
use sotto_wire::proto::sotto_client::SottoClient;
use sotto_wire::{Failure, Info, Token, fixed, limits, proto, register};
use tonic::transport::Channel;

use crate::session::{nonsense, within};
use crate::transport::{Peers, channel_on, endpoint};
use crate::{Announced, ConnectError, ConnectionSettings, Dial, Session, Tcp, check, verify};

/// Flow-control window of one stream: at 20 ms of round trip still 200 MB/s.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// A connection to a server, without a session.
#[derive(Clone)]
pub struct Connection {
    client: SottoClient<Channel>,
    settings: ConnectionSettings,
    peers: Arc<Peers>,
}

impl Connection {
    /// Connects to a node, the first of the address.
    ///
    /// # Errors
    /// [`ConnectError::Unreachable`] or [`ConnectError::WrongKey`].
    pub async fn open(settings: &ConnectionSettings) -> Result<Self, ConnectError> {
        Self::open_on(Arc::new(Tcp), settings).await
    }

    /// Connects by a given way.
    ///
    /// # Errors
    /// As for [`Connection::open`].
    pub async fn open_on(
        dialler: Arc<dyn Dial>,
        settings: &ConnectionSettings,
    ) -> Result<Self, ConnectError> {
        let endpoint = endpoint(&settings.address)?
            .connect_timeout(settings.connect_timeout)
            .http2_keep_alive_interval(settings.keep_alive)
            .keep_alive_timeout(settings.keep_alive_timeout)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .tcp_nodelay(true);
        let (peers, patience) = (Arc::<Peers>::default(), settings.connect_timeout);
        let channel = channel_on(dialler, Arc::clone(&peers), endpoint, &settings.address, patience).await?;
        let client = SottoClient::new(channel)
            .max_decoding_message_size(limits::MESSAGE_MAX)
            .max_encoding_message_size(limits::MESSAGE_MAX);
        Ok(Self { client, settings: settings.clone(), peers })
    }

    /// What the server says of itself, checked against what this program accepts: its version, its engine, its
    /// security, its time slots, and its key, for which the root key of the address must vouch. Closed loop is accepted
    /// from this machine alone, by the address of whoever answered; this connection then reaches no other any more.
    ///
    /// # Errors
    /// The [`ConnectError`] that says what is wrong.
    pub async fn info(&self) -> Result<Info, ConnectError> {
        let authority = || self.settings.address.authority();
        let request = proto::InfoRequest { protocol_version: PROTOCOL_VERSION.into() };
        let mut client = self.client.clone();
        let answer = within(self.settings.call_timeout, client.info(request)).await;
        let answer = answer.map_err(|failure| ConnectError::of(failure, authority()))?;
        let info = Info::try_from(answer).map_err(|_| ConnectError::NoServer(authority()))?;
        let ConnectionSettings { engines, address, allow_no_privacy, .. } = &self.settings;
        check(engines, &info, address.root_key(), *allow_no_privacy)?;
        if info.parameters.mode == RoundMode::ClosedLoop && !self.peers.only_loopback() {
            return Err(ConnectError::ClosedLoop);
        }
        Ok(info)
    }

    /// Opens a session for the account with this Ed25519 seed, which is created if it is new; some servers want a token
    /// then, and some give it a slot, which is to be shown from then on ([`Session::given_slot`]). Parameters must be those that the account was made for.
    ///
    /// # Errors
    /// As for [`verify`]; [`ConnectError::Changed`] if the server's parameters are later ones than the pinned and differ in
    /// more than the manifest key.
    pub async fn register(
        &self,
        account_seed: &[u8; 32],
        pinned: &ServerParameters,
        token: Option<&Token>,
        slot: Option<&OwnSlot>,
    ) -> Result<Session, ConnectError> {
        let (info, succession) = self.meet(pinned).await?;
        // Another manifest key is taken over while the session goes on, which begins with telling it.
        if succession == Succession::Later && !info.parameters.differs_in_keys_alone(pinned) {
            return Err(ConnectError::Changed);
        }
        self.session(account_seed, &info, token, slot).await
    }

    /// What the server says of itself, and how that stands to what the account keeps.
    ///
    /// # Errors
    /// As for [`verify`].
    pub async fn meet(&self, pinned: &ServerParameters) -> Result<(Info, Succession), ConnectError> {
        let info = self.info().await?;
        let ConnectionSettings { engines, address, allow_no_privacy, .. } = &self.settings;
        let succession = verify(engines, &info, address.root_key(), Some(pinned), *allow_no_privacy)?;
        Ok((info, succession))
    }

    /// Opens a session under an announcement that the account keeps.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn session(
        &self,
        account_seed: &[u8; 32],
        info: &Info,
        token: Option<&Token>,
        slot: Option<&OwnSlot>,
    ) -> Result<Session, ConnectError> {
        let session = self.open_session(account_seed, info, token, slot).await;
        session.map_err(|failure| ConnectError::of(failure, self.settings.address.authority()))
    }

    async fn open_session(
        &self,
        account_seed: &[u8; 32],
        info: &Info,
        token: Option<&Token>,
        slot: Option<&OwnSlot>,
    ) -> Result<Session, Failure> {
        let key = SigningKey::from_bytes(account_seed);
        let account = key.verifying_key().to_bytes();
        let deadline = self.settings.call_timeout;
        let mut client = self.client.clone();
        let request = proto::ChallengeRequest { account: Bytes::copy_from_slice(&account) };
        let challenge = within(deadline, client.challenge(request)).await?;
        let nonce = fixed::<32>(&challenge.nonce, "nonce").map_err(nonsense)?;
        let signed = register::message(&info.parameters.manifest_key, &account, &nonce);
        let request = proto::RegisterRequest {
            account: Bytes::copy_from_slice(&account),
            nonce: challenge.nonce,
            signature: Bytes::copy_from_slice(&key.sign(&signed).to_bytes()),
            token: token.map_or_else(Bytes::new, |token| Bytes::copy_from_slice(token.bytes())),
            slot: slot.map(encode_slot).unwrap_or_default(),
        };
        let registered = within(deadline, client.register(request)).await?;
        fixed::<32>(&registered.session, "session").map_err(nonsense)?;
        let given = parse_slot(&registered.slot).map_err(nonsense)?;
        // Who has shown none and is given none would be heard by nobody; nor would who takes another than its contacts know.
        if given.is_some() != (info.parameters.code.has_slots() && slot.is_none()) {
            return Err(Failure::Nonsense(tonic::Code::DataLoss));
        }
        let announced = Announced::new(&info.parameters, info.endorsement);
        Ok(Session {
            client,
            settings: self.settings.clone(),
            token: registered.session,
            open: info.open,
            given,
            announced: Arc::new(Mutex::new(announced)),
            peers: Arc::clone(&self.peers),
        })
    }
}

impl Connection {
    /// Where it leads, and how patiently.
    #[must_use]
    pub fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.settings.address).finish_non_exhaustive()
    }
}
