//! Who follows the rounds, and what they are told.

use std::collections::HashMap;
use std::sync::Arc;

use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::server::Account;
use sotto_protocol::{Round, SignedDirectory};
use sotto_wire::Announced;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// News that a watcher may be behind before it is dropped.
const BACKLOG: usize = 64;

/// What happened to a round, and when; or where the nodes are.
#[derive(Clone, Debug)]
pub(crate) enum RoundNews {
    Opened {
        round: Round,
        at: Instant,
    },
    Ready {
        manifest: Arc<SignedManifest>,
        at: Instant,
    },
    /// Where the nodes are.
    Directory(Arc<SignedDirectory>),
    /// What the server says of itself.
    Announced(Arc<Announced>),
}

/// Everybody who takes part now.
pub(super) struct Watchers {
    news: broadcast::Sender<RoundNews>,
    announced: Option<RoundNews>,
    newest_open: Option<RoundNews>,
    newest_ready: Option<RoundNews>,
    directory: Option<RoundNews>,
    watchers: HashMap<Account, Watcher>,
    generations: u64,
}

struct Watcher {
    generation: u64,
    replaced: CancellationToken,
}

/// A new watcher's view: what it missed, then what comes.
pub(super) struct Joined {
    pub(super) generation: u64,
    missed: Vec<RoundNews>,
    news: broadcast::Receiver<RoundNews>,
    replaced: CancellationToken,
}

impl Default for Watchers {
    fn default() -> Self {
        Self {
            news: broadcast::channel(BACKLOG).0,
            announced: None,
            newest_open: None,
            newest_ready: None,
            directory: None,
            watchers: HashMap::new(),
            generations: 0,
        }
    }
}

impl Watchers {
    /// `open` is the round that takes deposits now, if any.
    pub(super) fn join(&mut self, account: Account, open: Option<Round>) -> Joined {
        self.generations += 1;
        let watcher = Watcher { generation: self.generations, replaced: CancellationToken::new() };
        let is_open =
            |news: &&RoundNews| matches!(news, RoundNews::Opened { round, .. } if Some(*round) == open);
        let rounds = self.newest_ready.iter().chain(self.newest_open.iter().filter(is_open));
        let missed = self.announced.iter().chain(&self.directory).chain(rounds).cloned().collect();
        let joined = Joined {
            generation: self.generations,
            missed,
            news: self.news.subscribe(),
            replaced: watcher.replaced.clone(),
        };
        if let Some(older) = self.watchers.insert(account, watcher) {
            older.replaced.cancel();
        }
        joined
    }

    /// Whether the account takes part no longer: this watch was its newest.
    pub(super) fn leave(&mut self, account: &Account, generation: u64) -> bool {
        let newest = self.watchers.get(account).is_some_and(|watcher| watcher.generation == generation);
        if newest {
            self.watchers.remove(account);
        }
        newest
    }

    pub(super) fn len(&self) -> usize {
        self.watchers.len()
    }

    pub(super) fn has(&self, account: &Account) -> bool {
        self.watchers.contains_key(account)
    }

    /// Ends all watches: what this node would tell is not what is.
    pub(super) fn end_all(&mut self) {
        // Whoever listens to the old one hears that it is gone.
        self.news = broadcast::channel(BACKLOG).0;
    }

    pub(super) fn opened(&mut self, round: Round) {
        let news = RoundNews::Opened { round, at: Instant::now() };
        self.newest_open = Some(news.clone());
        self.tell(news);
    }

    /// Tells the newest round that opened once more, to whom silence would mean that this node knows of none.
    pub(super) fn still_open(&self) {
        self.newest_open.iter().cloned().for_each(|news| self.tell(news));
    }

    pub(super) fn ready(&mut self, manifest: SignedManifest) {
        let news = RoundNews::Ready { manifest: Arc::new(manifest), at: Instant::now() };
        self.newest_ready = Some(news.clone());
        self.tell(news);
    }

    pub(super) fn directory(&mut self, directory: SignedDirectory) {
        let news = RoundNews::Directory(Arc::new(directory));
        self.directory = Some(news.clone());
        self.tell(news);
    }

    /// Tells it to whoever watches, and to whoever begins to, before all else.
    pub(super) fn announced(&mut self, announced: Announced) {
        let news = RoundNews::Announced(Arc::new(announced));
        self.announced = Some(news.clone());
        self.tell(news);
    }

    fn tell(&self, news: RoundNews) {
        // Without an audience nothing is lost.
        let _ = self.news.send(news);
    }
}

/// One account's view of the rounds; the account takes part as long as this exists.
pub(crate) struct Watch {
    missed: std::vec::IntoIter<RoundNews>,
    news: broadcast::Receiver<RoundNews>,
    replaced: CancellationToken,
    leave: Option<Box<dyn FnOnce() + Send>>,
}

/// Why a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The watcher did not keep up.
    Slow,
    /// The account watches elsewhere.
    Replaced,
    /// The server ends.
    Stopped,
}

impl Watch {
    pub(super) fn new(joined: Joined, leave: Box<dyn FnOnce() + Send>) -> Self {
        let Joined { missed, news, replaced, .. } = joined;
        Self { missed: missed.into_iter(), news, replaced, leave: Some(leave) }
    }

    /// The next news: first what was missed, that is what is announced, where the nodes are, the newest ready round and the
    /// round that is open.
    pub(crate) async fn next(&mut self) -> Result<RoundNews, WatchEnd> {
        if let Some(missed) = self.missed.next() {
            return Ok(missed);
        }
        tokio::select! {
            biased;
            () = self.replaced.cancelled() => Err(WatchEnd::Replaced),
            news = self.news.recv() => news.map_err(|error| match error {
                broadcast::error::RecvError::Lagged(_) => WatchEnd::Slow,
                broadcast::error::RecvError::Closed => WatchEnd::Stopped,
            }),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(leave) = self.leave.take() {
            leave();
        }
    }
}
