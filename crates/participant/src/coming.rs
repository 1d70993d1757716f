//! Coming online: the first session, on which the keys are uploaded.

use core::time::Duration;
use std::sync::Arc;

use mpir::Engine;
use sotto_protocol::client::{Client, Settings};
use sotto_protocol::{Error, Round, ServerParameters, Succession, UnixMillis};
use sotto_session::{Session, engine};
use sotto_wire::limits::UPLOAD_ROUNDS;
use sotto_wire::{Failure, Refused};
use tokio::time::{Instant, sleep};

use super::Phase;
use super::keys::{Generation, PublicKeys};
use super::turn::Turn;
use crate::host::{Disk, Host, rng};
use sotto_session::{ConnectError, Connection, ConnectionSettings};

/// How long a busy server is asked to take the keys, and how soon again at first.
const UPLOAD_LONGEST: Duration = Duration::from_secs(60);
const UPLOAD_PAUSE: Duration = Duration::from_millis(500);

/// Somebody who comes.
pub(crate) struct Coming {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) client: Client,
    pub(crate) disk: Option<Box<dyn Disk>>,
    /// Keys for the engine of this name, if it is known before the server is asked.
    pub(crate) drawn: Option<(&'static str, Arc<Generation>)>,
}

/// What one who has come has.
pub(crate) struct Come {
    pub(crate) session: Session,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) keys: Arc<Generation>,
    pub(crate) gate: Client,
    pub(crate) upload: Phase,
}

impl Coming {
    /// Comes to a node of the server, the first in turn where that succeeds.
    ///
    /// # Errors
    /// Why it does with none: the first reason that says more than that nobody answers.
    pub(crate) async fn by_turns(
        &mut self,
        turn: &mut Turn,
    ) -> Result<(ConnectionSettings, Come), ConnectError> {
        let mut told = None;
        while let Some(node) = turn.next() {
            match self.to(&node).await {
                Ok(come) => return Ok((node, come)),
                Err(error) => told = Some(ConnectError::of_turn(told.take(), error)?),
            }
        }
        Err(told.unwrap_or_else(|| ConnectError::Unreachable(String::new())))
    }

    /// Comes to one node. What it has changed in the client until it fails holds for all.
    async fn to(&mut self, node: &ConnectionSettings) -> Result<Come, ConnectError> {
        let host = &self.host;
        let connection = Connection::open_on(host.clone(), node).await?;
        self.client.keep_root(node.address.root_key().0).map_err(ConnectError::Parameters)?;
        let (info, succession) = connection.meet(self.client.server()).await?;
        if succession == Succession::Later {
            self.client
                .adopt(info.parameters.clone(), (info.open, host.unix_now()))
                .map_err(ConnectError::Parameters)?;
            save(self.disk.as_deref(), &self.client)?;
        }
        let engine = Arc::clone(engine(&node.engines, self.client.server())?);
        let keys = match &self.drawn {
            Some((name, keys)) if *name == engine.name() => Arc::clone(keys),
            // What the server has changed is its engine.
            _ => {
                let keys = Generation::draw(host, &engine).await.ok_or(ConnectError::EngineFails)?;
                self.drawn = Some((engine.name(), Arc::clone(&keys)));
                keys
            }
        };
        let slot = self.client.slot().filter(|_| self.client.server().code.has_slots());
        let asked = host.unix_now();
        let session = connection.session(self.client.account_seed(), &info, None, slot).await?;
        if let Some(given) = session.given_slot() {
            self.client.keep_slot(given.clone());
            save(self.disk.as_deref(), &self.client)?;
        }
        let gate = gate(host, &self.client, (session.open(), asked)).map_err(ConnectError::Parameters)?;
        let started = Instant::now();
        let uploaded = upload(&session, &keys.public).await;
        uploaded.map_err(|failure| match failure {
            Failure::Refused(Refused::Quota) => {
                ConnectError::TooOften { seconds: until_counted_anew(self.client.server(), session.open()) }
            }
            failure => ConnectError::of(failure, node.address.authority()),
        })?;
        let upload = Phase { bytes: keys.public.encoded.len() as u64, time: started.elapsed() };
        Ok(Come { session, engine, keys, gate, upload })
    }
}

fn save(disk: Option<&dyn Disk>, client: &Client) -> Result<(), ConnectError> {
    let Some(disk) = disk else { return Ok(()) };
    disk.save(&client.snapshot()).map_err(|error| ConnectError::NotStored(error.to_string()))
}

/// A client of the same server with nobody to talk to, which joins in the open round: that one was open after it was asked for.
fn gate(host: &Arc<dyn Host>, client: &Client, joined: (Round, UnixMillis)) -> Result<Client, Error> {
    let settings = Settings { conversations: 1 };
    Client::new(client.name(), client.server().clone(), settings, joined, &mut rng(host))
}

/// Seconds until the server counts anew how often keys are brought, if rounds last as long as announced.
fn until_counted_anew(server: &ServerParameters, open: Round) -> u64 {
    let rounds = UPLOAD_ROUNDS - open.0 % UPLOAD_ROUNDS;
    rounds.saturating_mul(server.round_ms.into()).div_ceil(1000)
}

/// The first upload of the keys. Many newcomers may want to make it at the same time, so a server that is busy is asked
/// again for a while.
async fn upload(session: &Session, keys: &PublicKeys) -> Result<(), Failure> {
    let until = Instant::now() + UPLOAD_LONGEST;
    let mut pause = UPLOAD_PAUSE;
    loop {
        match session.upload_keys(keys.encoded.clone()).await {
            Err(Failure::Refused(Refused::Busy)) if Instant::now() + pause < until => {
                sleep(pause).await;
                pause = (pause * 2).min(UPLOAD_PAUSE * 8);
            }
            Err(failure) => return Err(failure),
            Ok(_) => return Ok(()),
        }
    }
}
