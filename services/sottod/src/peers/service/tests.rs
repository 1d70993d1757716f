//! Whom a node lets follow it.

use std::sync::Arc;
use std::time::Duration;

use sotto_log::testing::{Simulated, options};
use sotto_log::{Entry, Fed, Feeding, FollowingLog, Food, LogId, Role, Upstream, log_id};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request};

use super::proto::FollowRequest;
use super::{CATCHING_UP, Peer as _, PeerService, convert};
use crate::cluster::NodeId;
use crate::peers::{FOLLOWERS, Member};
use crate::rounds::Rounds;

/// What is committed, as the test says.
struct ByHand(Option<mpsc::Receiver<Fed>>);

impl Upstream for ByHand {
    async fn follow(&mut self, _: Option<LogId>) -> Option<Feeding> {
        Some(Box::pin(ReceiverStream::new(self.0.take()?)))
    }

    async fn is_better_there(&mut self, _: Option<LogId>) -> bool {
        false
    }
}

/// A node that can be followed.
struct Node {
    service: PeerService,
    role: watch::Sender<Role>,
    committed: mpsc::Sender<Fed>,
    _log: FollowingLog,
    _joining: watch::Sender<Option<Member>>,
}

impl Node {
    async fn start() -> Self {
        let (committed, receiver) = mpsc::channel(1);
        let mut joined = None;
        let (disk, pace) = (Arc::new(Simulated::default()), || Duration::ZERO);
        let joining = |kept, _| joined = Some(kept);
        let upstream = ByHand(Some(receiver));
        let log = FollowingLog::start_inline(upstream, joining, disk, options(1), pace).await.unwrap();
        let (role, now) = watch::channel(Role::Follows { leader: None });
        let member = Member { raft: None, kept: joined.unwrap(), role: now };
        let (joining, joined) = watch::channel(Some(member));
        let service = PeerService {
            this: NodeId::Voter(2),
            joins: false,
            joined,
            followers: Arc::new(Semaphore::new(FOLLOWERS)),
            snapshots: Semaphore::new(1),
            rounds: Rounds::of_nobody(),
        };
        Self { service, role, committed, _log: log, _joining: joining }
    }

    /// Commits entries up to this one.
    async fn commits(&self, entries: core::ops::RangeInclusive<u64>) {
        let entry = |index| Entry { log_id: log_id(1, 1, index), payload: openraft::EntryPayload::Blank };
        let what = Food::Entries(entries.map(entry).collect());
        self.committed.send(Fed { leader: Some(1), what }).await.unwrap();
        sleep(Duration::from_millis(1)).await;
    }

    /// Whether somebody is let in who has everything up to an entry, and would follow a leader or not.
    async fn lets_in(&self, last: Option<u64>, leader: bool) -> Result<(), Code> {
        let last = last.map(|index| convert::put_log_id(&log_id(1, 1, index)));
        let request = Request::new(FollowRequest { last, leader });
        self.service.follow(request).await.map(|_| ()).map_err(|status| status.code())
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_another_choice_follows_only_who_has_news_for_it() {
    let node = Node::start().await;
    node.commits(0..=4).await;
    // It knows of nobody who leads, or leads itself: somebody who finds nobody else may follow it all the same.
    for role in [Role::Follows { leader: None }, Role::Leads { term: 1 }] {
        node.role.send_replace(role);
        assert_eq!(node.lets_in(Some(4), false).await, Err(Code::Unavailable), "{role:?}");
        assert_eq!(node.lets_in(Some(4), true).await, Ok(()), "{role:?}");
    }
    node.role.send_replace(Role::Follows { leader: Some(1) });
    for last in [None, Some(0), Some(4)] {
        assert_eq!(node.lets_in(last, false).await, Ok(()), "{last:?}");
    }
    // It is behind, and has nothing to tell until it has caught up; for a moment that is waited for.
    assert_eq!(node.lets_in(Some(5), false).await, Err(Code::Unavailable));
    assert_eq!(node.lets_in(Some(5), true).await, Ok(()));
    let late = async {
        sleep(CATCHING_UP / 2).await;
        node.commits(5..=5).await;
    };
    assert_eq!(tokio::join!(node.lets_in(Some(5), false), late).0, Ok(()));
    // Another log is another one, however long.
    let other =
        Request::new(FollowRequest { last: Some(convert::put_log_id(&log_id(2, 1, 3))), leader: false });
    assert_eq!(node.service.follow(other).await.map(|_| ()).unwrap_err().code(), Code::FailedPrecondition);
    // Whoever was refused has given its place back.
    sleep(Duration::from_secs(1)).await;
    assert_eq!(node.service.followers.available_permits(), FOLLOWERS);
}
