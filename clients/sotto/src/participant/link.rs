//! Keeps a session open and passes on what the server says about rounds.

use core::time::Duration;
use std::sync::Arc;

use sotto_protocol::{OwnSlot, ServerParameters};
use sotto_session::{RoundNews, Session};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use tokio_stream::StreamExt as _;
use zeroize::Zeroizing;

use super::sessions::Sessions;
use crate::host::Host;
use crate::{ConnectError, Connection, ConnectionSettings};

/// News that the driver has not heard yet; a server with more to say has to wait.
const NEWS_MAX: usize = 64;

/// What the driver hears from the link.
pub(super) enum News {
    /// The server says something about a round; with the moment it came.
    Round(RoundNews, Instant),
    /// There is no session.
    Lost(ConnectError),
    /// There is a session again.
    Restored,
}

/// Whose session it is, and what is kept of the server.
pub(super) struct Account {
    pub(super) seed: Zeroizing<[u8; 32]>,
    pub(super) slot: Option<OwnSlot>,
    pub(super) pinned: ServerParameters,
}

struct Link {
    host: Arc<dyn Host>,
    settings: ConnectionSettings,
    account: Account,
    current: watch::Sender<Option<Session>>,
    discarded: mpsc::UnboundedReceiver<Session>,
    news: mpsc::Sender<News>,
    pause: Duration,
}

/// Starts the link with a session that is open, on which the keys are uploaded.
pub(super) fn start(
    host: Arc<dyn Host>,
    session: Session,
    settings: ConnectionSettings,
    account: Account,
) -> (Sessions, mpsc::Receiver<News>) {
    let (current, sessions) = watch::channel(None);
    let (discard, discarded) = mpsc::unbounded_channel();
    let (news, heard) = mpsc::channel(NEWS_MAX);
    let pause = settings.retry_first;
    let link = Link { host, settings, account, current, discarded, news, pause };
    tokio::spawn(link.run(session));
    (Sessions::new(sessions, discard), heard)
}

impl Link {
    async fn run(mut self, mut session: Session) {
        let news = self.news.clone();
        let follow = async {
            loop {
                self.current.send_replace(Some(session.clone()));
                let error = self.follow(&session).await;
                self.current.send_replace(None);
                if self.news.send(News::Lost(error)).await.is_err() {
                    return;
                }
                session = self.reconnect().await;
                if self.news.send(News::Restored).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = news.closed() => {}
            () = follow => {}
        }
    }

    /// Passes on what the server says until the session ends, and says why it did.
    async fn follow(&mut self, session: &Session) -> ConnectError {
        let authority = self.settings.address.authority();
        let mut rounds = match session.watch().await {
            Ok(rounds) => core::pin::pin!(rounds),
            Err(failure) => return ConnectError::of(failure, authority),
        };
        loop {
            tokio::select! {
                biased;
                Some(discarded) = self.discarded.recv() => {
                    if session.is(&discarded) {
                        return ConnectError::Refused(sotto_wire::Refused::UnknownSession);
                    }
                }
                event = rounds.next() => match event {
                    Some(Ok(event)) => {
                        self.pause = self.settings.retry_first;
                        // Nobody listens only when the driver is gone, and then `run` ends.
                        let _ = self.news.send(News::Round(event, Instant::now())).await;
                    }
                    Some(Err(failure)) => return ConnectError::of(failure, authority),
                    None => return ConnectError::Unreachable(authority),
                },
            }
        }
    }

    /// Tries until it succeeds, telling every new reason why it does not.
    async fn reconnect(&mut self) -> Session {
        let mut told = None;
        loop {
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(self.settings.retry_most);
            match self.connect().await {
                Ok(session) => return session,
                Err(ConnectError::Unreachable(_)) => {}
                Err(error) if told.as_ref() == Some(&error) => {}
                Err(error) => {
                    told = Some(error.clone());
                    let _ = self.news.send(News::Lost(error)).await;
                }
            }
        }
    }

    async fn connect(&self) -> Result<Session, ConnectError> {
        let connection = Connection::open_on(self.host.clone(), &self.settings).await?;
        let Account { seed, slot, pinned } = &self.account;
        let slot = slot.as_ref().filter(|_| pinned.code.has_slots());
        connection.register(seed, pinned, None, slot).await
    }
}
