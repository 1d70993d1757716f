//! What a node that has no vote is told for as long as it follows this one: everything that is committed, in order.

use std::convert::Infallible;

use bytes::Bytes;
use sotto_log::{Behind, LogError, LogId, Role, SIGN_OF_LIFE};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{Member, proto};
use crate::cluster::NodeId;

/// Nodes that may follow one: what it sends to them is so many times what it gets.
pub(crate) const FOLLOWERS: usize = 4;
/// Bytes of a snapshot in one message.
const PIECE: usize = 1 << 20;

pub(super) type Feed = ReceiverStream<Result<proto::FollowResponse, Status>>;

/// Who follows, and whom.
pub(super) struct Followers {
    pub(super) this: NodeId,
    pub(super) member: Member,
    /// Whether this node may be the leader.
    pub(super) leader: bool,
    /// One of the places for followers, which is kept.
    pub(super) place: OwnedSemaphorePermit,
}

/// Tells what comes behind an entry, until nobody listens, or this node leads and should not.
pub(super) fn feed(followers: Followers, last: Option<LogId>) -> Feed {
    let Followers { this, member, leader, place } = followers;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _place = place;
        let why = match (Feeding { this, member, leader, sender: sender.clone() }).run(last).await {
            Ended::Left => return,
            Ended::Leads => LEADS,
            Ended::Log(error) => {
                tracing::warn!(%error, "a node that follows this one is told no more");
                "the log has ended here"
            }
        };
        // Whoever listens may have left.
        let _ = sender.send(Err(Status::unavailable(why))).await;
    });
    ReceiverStream::new(receiver)
}

/// Said to who should follow another node.
pub(super) const LEADS: &str = "this node leads; others can be followed as well";

struct Feeding {
    this: NodeId,
    member: Member,
    leader: bool,
    sender: mpsc::Sender<Result<proto::FollowResponse, Status>>,
}

/// Why nothing more is told.
enum Ended {
    /// Nobody listens.
    Left,
    /// This node has begun to lead.
    Leads,
    Log(LogError),
}

impl Feeding {
    async fn run(mut self, last: Option<LogId>) -> Ended {
        let Err(ended) = self.tell_all(last).await;
        ended
    }

    async fn tell_all(&mut self, mut last: Option<LogId>) -> Result<Infallible, Ended> {
        let mut changes = self.member.kept.changes();
        loop {
            changes.mark_unchanged();
            let leads = matches!(*self.member.role.borrow_and_update(), Role::Leads { .. });
            if leads && !self.leader {
                return Err(Ended::Leads);
            }
            match self.member.kept.behind(last).await.map_err(Ended::Log)? {
                Behind::Entries(entries, upto) => {
                    self.tell(proto::FollowResponse { entries, ..self.sign_of_life() }).await?;
                    last = Some(upto);
                }
                Behind::Snapshot(bytes, upto) => {
                    self.tell_snapshot(bytes.into()).await?;
                    last = upto;
                }
                Behind::Nothing => {
                    self.tell(self.sign_of_life()).await?;
                    tokio::select! {
                        biased;
                        () = self.sender.closed() => return Err(Ended::Left),
                        changed = changes.changed() => changed.map_err(|_| Ended::Left)?,
                        changed = self.member.role.changed() => changed.map_err(|_| Ended::Left)?,
                        () = tokio::time::sleep(SIGN_OF_LIFE) => {}
                    }
                }
            }
        }
    }

    fn sign_of_life(&self) -> proto::FollowResponse {
        let leader = match (*self.member.role.borrow(), self.this) {
            (Role::Leads { .. }, NodeId::Voter(number)) => Some(number),
            (Role::Follows { leader }, _) => leader,
            (Role::Leads { .. }, NodeId::Answerer(_)) => None,
        };
        proto::FollowResponse { leader: leader.unwrap_or(0), ..proto::FollowResponse::default() }
    }

    async fn tell(&self, response: proto::FollowResponse) -> Result<(), Ended> {
        self.sender.send(Ok(response)).await.map_err(|_| Ended::Left)
    }

    async fn tell_snapshot(&self, bytes: Bytes) -> Result<(), Ended> {
        let mut at = 0;
        while at < bytes.len() {
            let end = bytes.len().min(at + PIECE);
            let (snapshot, snapshot_ends) = (bytes.slice(at..end), end == bytes.len());
            self.tell(proto::FollowResponse { snapshot, snapshot_ends, ..self.sign_of_life() }).await?;
            at = end;
        }
        Ok(())
    }
}
