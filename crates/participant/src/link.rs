//! Keeps a session open and passes on what the server says about rounds.
//!
//! A session is lost when its node is: the other nodes are asked at once, and after everybody was asked, there is a pause. A
//! session that never worked, or ended as soon as it began, counts as an attempt that failed: nodes that take sessions and drop
//! them are not asked more often than such that take none. A node that keeps a session and tells nothing of rounds, because it is
//! cut off from the others, is as good as lost, if there are others. If another node has a session ready, that is the session at
//! once.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use sotto_protocol::{Error, OwnSlot, RoundMode, ServerParameters, SignedDirectory};
use sotto_session::{RoundNews, Session};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::StreamExt as _;
use zeroize::Zeroizing;

use super::keys::PublicKeys;
use super::nodes::Nodes;
use super::sessions::Sessions;
use super::stand_in::StandIn;
use super::turn::Turn;
use crate::host::Host;
use sotto_session::{ConnectError, Connection, ConnectionSettings};

/// News that the driver has not heard yet; a server with more to say has to wait.
const NEWS_MAX: usize = 64;
/// A node that has told nothing of rounds for so many of their lengths, and for so long, does not know of them.
const SILENT_ROUNDS: u32 = 5;
const SILENT: Duration = Duration::from_secs(10);

/// What the driver hears from the link.
pub(crate) enum News {
    /// The server says something about a round; with the moment it came.
    Round(RoundNews, Instant),
    /// A newer directory of the server's nodes, as it is kept.
    Directory(Vec<u8>),
    /// A directory was refused.
    BadDirectory(Error),
    /// There is no session, or it has been replaced.
    Lost(ConnectError),
    /// There is a session again.
    Restored,
}

/// Whose session it is, and what is kept of the server.
pub(crate) struct Account {
    pub(crate) seed: Zeroizing<[u8; 32]>,
    pub(crate) public: [u8; 32],
    pub(crate) slot: Option<OwnSlot>,
    pub(crate) pinned: watch::Receiver<ServerParameters>,
}

impl Account {
    /// Opens a session with a node that has taken the account before.
    pub(crate) async fn connect(
        &self,
        host: &Arc<dyn Host>,
        node: &ConnectionSettings,
    ) -> Result<Session, ConnectError> {
        let connection = Connection::open_on(host.clone(), node).await?;
        let pinned = self.pinned.borrow().clone();
        let slot = self.slot.as_ref().filter(|_| pinned.code.has_slots());
        connection.register(&self.seed, &pinned, None, slot).await
    }
}

struct Link {
    host: Arc<dyn Host>,
    /// The node of the session, or the one that was asked last.
    node: ConnectionSettings,
    turn: Turn,
    nodes: Nodes,
    account: Arc<Account>,
    stand_in: StandIn,
    current: watch::Sender<Option<Session>>,
    /// Where the node is, for the person.
    told: watch::Sender<String>,
    discarded: mpsc::UnboundedReceiver<Session>,
    news: mpsc::Sender<News>,
    pause: Duration,
    /// Whether anything was heard of rounds in this session.
    heard: bool,
}

/// Starts the link with a session that is open with a node, the one that its turn has come to, on which the keys are uploaded.
pub(crate) fn start(
    host: Arc<dyn Host>,
    session: Session,
    (node, turn, nodes): (ConnectionSettings, Turn, Nodes),
    account: Account,
    keys: PublicKeys,
) -> (Sessions, mpsc::Receiver<News>, watch::Receiver<String>) {
    let (current, sessions) = watch::channel(None);
    let (discard, discarded) = mpsc::unbounded_channel();
    let (offer, offered) = watch::channel(keys);
    let (news, heard) = mpsc::channel(NEWS_MAX);
    let (pause, account) = (node.retry_first, Arc::new(account));
    let stand_in = StandIn::new(Arc::clone(&host), Arc::clone(&account), offered);
    let (told, at) = watch::channel(node.address.authority());
    let link = Link {
        host,
        node,
        turn,
        nodes,
        account,
        stand_in,
        current,
        told,
        discarded,
        news,
        pause,
        heard: false,
    };
    tokio::spawn(link.run(session));
    (Sessions::new(sessions, discard, offer), heard, at)
}

impl Link {
    async fn run(mut self, mut session: Session) {
        let news = self.news.clone();
        let follow = async {
            loop {
                self.current.send_replace(Some(session.clone()));
                self.told.send_replace(self.node.address.authority());
                self.stand_in.want(self.turn.stand_ins());
                let began = Instant::now();
                let error = self.follow(&session).await;
                let lasted = began.elapsed();
                if self.heard && lasted >= self.node.retry_first {
                    self.turn.others();
                }
                self.turn.lasted(lasted);
                // Where another session of the account has ended this one, the node that has it may be this one by another name.
                let is_replaced = error == ConnectError::Refused(sotto_wire::Refused::UnknownSession);
                let left = self.node.address.clone();
                let ready = self.ready();
                self.turn.set_apart((is_replaced && ready.is_some()).then_some(left));
                // Before anybody is told, who may be busy.
                self.current.send_replace(ready.clone());
                if self.news.send(News::Lost(error)).await.is_err() {
                    return;
                }
                session = match ready {
                    Some(ready) => ready,
                    None => self.reconnect().await,
                };
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

    /// The session of the stand-in, if there is one, and it is still to be asked in this turn.
    fn ready(&mut self) -> Option<Session> {
        let (node, session) = self.stand_in.take()?;
        let is_left = self.turn.take(&node.address);
        is_left.then(|| {
            self.node = node;
            session
        })
    }

    /// Passes on what the server says until the session ends, and says why it did.
    async fn follow(&mut self, session: &Session) -> ConnectError {
        self.heard = false;
        let authority = self.node.address.authority();
        let mut rounds = match session.watch().await {
            Ok(rounds) => core::pin::pin!(rounds),
            Err(failure) => return ConnectError::of(failure, authority),
        };
        let mut heard = Instant::now();
        loop {
            let patience = self.silence().map(|silence| heard + silence);
            tokio::select! {
                biased;
                Some(discarded) = self.discarded.recv() => {
                    if session.is(&discarded) {
                        return ConnectError::Refused(sotto_wire::Refused::UnknownSession);
                    }
                }
                event = rounds.next() => match event {
                    Some(Ok(RoundNews::Directory(signed))) => self.learn(session, *signed).await,
                    Some(Ok(event)) => {
                        // What a node is it can say without knowing of any round.
                        if !matches!(event, RoundNews::Announced(_)) {
                            heard = Instant::now();
                            (self.pause, self.heard) = (self.node.retry_first, true);
                        }
                        // Nobody listens only when the driver is gone, and then `run` ends.
                        let _ = self.news.send(News::Round(event, Instant::now())).await;
                    }
                    Some(Err(failure)) => return ConnectError::of(failure, authority),
                    None => return ConnectError::Unreachable(authority),
                },
                () = until(patience) => return ConnectError::Unreachable(authority),
            }
        }
    }

    /// Goes by a directory if it is newer than what is known. In closed loop there is one machine.
    async fn learn(&mut self, session: &Session, signed: SignedDirectory) {
        let server = self.newest_announced(session);
        if server.mode == RoundMode::ClosedLoop {
            return;
        }
        let news = match self.nodes.hear(signed, &server) {
            Ok(false) => return,
            Ok(true) => {
                self.nodes.directory().into_iter().for_each(|directory| self.turn.learn(directory));
                self.stand_in.want(self.turn.stand_ins());
                News::Directory(self.nodes.encode())
            }
            Err(error) => News::BadDirectory(error),
        };
        // As for rounds.
        let _ = self.news.send(news).await;
    }

    /// What the server has said of itself last: the session may have told what is not taken over yet, and one that was held ready
    /// may be of before.
    fn newest_announced(&self, session: &Session) -> ServerParameters {
        let pinned = self.account.pinned.borrow().clone();
        let told = ServerParameters::decode(&session.announced().announcement);
        told.ok().filter(|told| told.serial > pinned.serial).unwrap_or(pinned)
    }

    /// After how much of it a node's silence is a loss. Rounds in closed loop have no length, and who has no other node waits.
    fn silence(&self) -> Option<Duration> {
        let rounds = Duration::from_millis(self.account.pinned.borrow().round_ms.into()) * SILENT_ROUNDS;
        self.turn.has_others().then_some(rounds.max(SILENT))
    }

    /// Tries until it succeeds, telling every new reason of a node why it does not.
    async fn reconnect(&mut self) -> Session {
        let mut told = BTreeMap::new();
        loop {
            let Some(node) = self.turn.next() else {
                sleep(self.turn.pause(self.pause)).await;
                self.pause = (self.pause * 2).min(self.node.retry_most);
                self.turn.again();
                continue;
            };
            self.node = node;
            let error = match self.account.connect(&self.host, &self.node).await {
                Ok(session) => return session,
                Err(error) => error,
            };
            if !error.is_of_node() {
                self.turn.end();
            }
            if matches!(error, ConnectError::Unreachable(_)) {
                continue;
            }
            if told.insert(self.node.address.authority(), error.clone()).as_ref() != Some(&error) {
                let _ = self.news.send(News::Lost(error)).await;
            }
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => core::future::pending().await,
    }
}
