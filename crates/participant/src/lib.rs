//! The driver of a [`Client`]: it connects, follows the rounds, and keeps the fixed trace.
//!
//! In every round that the server opens, a participant makes the same calls: one deposit at `deposit_ms` after the round
//! opened; when the round is ready, one mapping download at once and one multi-query, of all buckets, at `query_ms`
//! after. Which calls leave, in which order, how large and when, follows from the server's parameters and its
//! announcements alone: not from contacts, texts, what was received, or what failed. What is late or broken is replaced
//! by random bytes of the same size, and every error is kept until the round's calls are made. A call that found no
//! answer is repeated with the same bytes. Every 64 rounds new keys for retrieval are uploaded between the deposit and
//! the end of a round, on a schedule that follows from the account's public key.
//!
//! [`host`] is what it asks of the machine, [`audit`] checks answers and shows to anybody that one was wrong, and [`RoundCost`] says
//! what all of this costs. Programs for people are built on it.
#![forbid(unsafe_code)]

pub mod audit;
mod auditing;
mod coming;
mod command;
mod cost;
mod deposit;
mod driver;
mod error;
mod event;
pub mod host;
mod keeper;
mod keys;
mod link;
mod nodes;
mod person;
mod report;
mod retrieval;
mod sessions;
mod slots;
mod stand_in;
mod standing;
mod turn;

use std::sync::Arc;

use ed25519_dalek::SigningKey;
use sotto_protocol::audit::AuditCoins;
use sotto_protocol::client::{Client, MessageId};
use sotto_protocol::{ConversationId, ConversationSummary};
use sotto_session::{ConnectError, ConnectionSettings};
use tokio::sync::{mpsc, oneshot, watch};

use coming::{Come, Coming};
use command::{Ask, Change, Command};
use driver::{Audits, Driver};
use host::{Disk, Host, System};
use keeper::Keeper;
use keys::{Generation, Keyring};
use nodes::Nodes;
use person::Person;
use slots::Slots;
use turn::Turn;

pub use cost::{RoundCost, rounds_to_arrive};
pub use error::HandleError;
pub use event::{Event, Events, Finding, Step, Trouble};
pub use nodes::known_nodes;
pub use report::{Phase, RoundReport};

/// Takes part in a server's rounds, with the PIR engine that the server announces.
#[derive(Debug)]
pub struct Participant(());

impl Participant {
    /// Connects, registers, uploads the PIR keys, and takes part until [`Handle::stop`], or until the handle is gone.
    ///
    /// With a disk, every change is on it before it shows on the wire. Later parameters that the server announces
    /// under its root's signature are taken over, at this moment only: a change while it takes part is
    /// [`ConnectError::Changed`] in [`Event::ConnectionLost`], and wants another start.
    ///
    /// # Errors
    /// [`ConnectError`] if the first connection fails, with every node of the server. One that is lost later is opened again.
    pub async fn start(
        client: Client,
        disk: Option<Box<dyn Disk>>,
        settings: ConnectionSettings,
    ) -> Result<(Handle, Events), ConnectError> {
        Self::start_on(Arc::new(System), client, disk, settings).await
    }

    /// The same on a given machine. Everything that the participant does follows from what this machine, the server and
    /// the handle give it, and from the time that passes.
    ///
    /// # Errors
    /// As for [`Participant::start`].
    pub async fn start_on(
        host: Arc<dyn Host>,
        client: Client,
        disk: Option<Box<dyn Disk>>,
        settings: ConnectionSettings,
    ) -> Result<(Handle, Events), ConnectError> {
        let failed = || ConnectError::EngineFails;
        let drawn = match settings.engines.get(&client.server().engine) {
            Some(engine) => Some((engine.name(), Generation::draw(&host, engine).await.ok_or_else(failed)?)),
            None => None,
        };

        let account_seed = zeroize::Zeroizing::new(*client.account_seed());
        let account = SigningKey::from_bytes(&account_seed).verifying_key().to_bytes();
        let nodes = Nodes::kept(
            settings.address.root_key().0,
            client.server(),
            disk.as_ref().and_then(|disk| disk.directory()),
        );
        let engines = settings.engines.clone();
        let mut turn = Turn::new(settings, account, client.server().mode, nodes.directory());
        let mut coming = Coming { host: Arc::clone(&host), client, disk, drawn };
        let (node, come) = coming.by_turns(&mut turn).await?;
        let Coming { client, disk, .. } = coming;
        let Come { session, engine, keys, gate, upload } = come;

        let open = session.open();
        let audits =
            Audits::new(AuditCoins::new(&account_seed), session.root_key(), engines, session.announced());
        let public = keys.public.clone();
        let keys = Keyring::new(&account_seed, keys, open);
        let (tell_pinned, pinned) = watch::channel(client.server().clone());
        let account =
            link::Account { seed: account_seed, public: account, slot: client.slot().cloned(), pinned };
        let (sessions, news, node) =
            link::start(Arc::clone(&host), session, (node, turn, nodes), account, public);
        let (commands, received) = mpsc::unbounded_channel();
        let (person, told) = Person::new();
        let slots = Slots::new(&client);
        let keeper = Keeper::start(Arc::clone(&host), client, disk);
        let gate = (gate, tell_pinned);
        let driver = Driver::new(host, engine, keeper, gate, slots, keys, sessions, person, upload, audits);
        tokio::spawn(driver.run(received, news));
        Ok((Handle { commands, node }, told))
    }
}

/// Speaks to a running participant.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    node: watch::Receiver<String>,
}

impl Handle {
    /// Host and port of the node that the session is with, or of the one that was asked last.
    #[must_use]
    pub fn node(&self) -> String {
        self.node.borrow().clone()
    }

    /// Hands in a text. It is stored when this returns, and sent in the conversation's turns until it is acknowledged.
    ///
    /// # Errors
    /// [`HandleError`].
    pub async fn queue_text(
        &self,
        conversation: ConversationId,
        text: &str,
    ) -> Result<MessageId, HandleError> {
        let text = zeroize::Zeroizing::new(text.to_owned());
        Ok(self.change(move |client| client.queue_text(conversation, &text)).await??)
    }

    /// All conversations.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub async fn conversations(&self) -> Result<Vec<ConversationSummary>, HandleError> {
        self.ask(|client| client.conversations()).await
    }

    /// Changes the client between two rounds' steps, and stores it: for invitations, groups and the like.
    ///
    /// # Errors
    /// [`HandleError::Stopped`], [`HandleError::Store`].
    pub async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Client) -> T + Send + 'static,
    ) -> Result<T, HandleError> {
        let (reply, answer) = oneshot::channel();
        let change: Change = Box::new(move |client| {
            let value = change(client);
            Box::new(move |stored| {
                // A caller that no longer waits does not need the value.
                let _ = reply.send(stored.map(|()| value));
            })
        });
        self.commands.send(Command::Change(change)).map_err(|_| HandleError::Stopped)?;
        answer.await.map_err(|_| HandleError::Stopped)?
    }

    /// Looks at the client without changing it.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Client) -> T + Send + 'static,
    ) -> Result<T, HandleError> {
        let (reply, answer) = oneshot::channel();
        let ask: Ask = Box::new(move |client| {
            let _ = reply.send(ask(client));
        });
        self.commands.send(Command::Ask(ask)).map_err(|_| HandleError::Stopped)?;
        answer.await.map_err(|_| HandleError::Stopped)
    }

    /// Checks so many answers, of one bucket each, in one of eight rounds in the mean; [`Event::Audited`] tells of each. That
    /// this happens shows on the wire: a participant checks an answer in one of 128 rounds by itself.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn audit(&self, answers: u32) -> Result<(), HandleError> {
        self.commands.send(Command::Audit(answers)).map_err(|_| HandleError::Stopped)
    }

    /// Leaves at once, in the middle of a round, and gives the client back; it is stored.
    ///
    /// # Errors
    /// [`HandleError::Stopped`] if it has been stopped before.
    pub async fn stop(&self) -> Result<Client, HandleError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Stop(reply)).map_err(|_| HandleError::Stopped)?;
        answer.await.map_err(|_| HandleError::Stopped)
    }

    /// Leaves a round after the calls of the rounds in progress are made, so that the moment of leaving follows from calls
    /// that everybody sees: when rounds go on, that takes about three of them, and little more if they do not. Without a
    /// session it is at once.
    ///
    /// # Errors
    /// [`HandleError::Stopped`] if it has been stopped before.
    pub async fn finish(&self) -> Result<Client, HandleError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Finish(reply)).map_err(|_| HandleError::Stopped)?;
        answer.await.map_err(|_| HandleError::Stopped)
    }
}
