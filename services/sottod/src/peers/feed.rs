//! What a node that has no vote is told for as long as it follows this one: everything that is committed, in order.

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{Member, proto};
use crate::cluster::NodeId;
use crate::log::{Behind, LogError, LogId, Role, SIGN_OF_LIFE};

/// Nodes that may follow one: what it sends to them is so many times what it gets.
pub(crate) const FOLLOWERS: usize = 4;
/// Bytes of a snapshot in one message.
const PIECE: usize = 1 << 20;

pub(super) type Feed = ReceiverStream<Result<proto::FollowResponse, Status>>;

/// Tells what comes behind an entry, until nobody listens. `place` is kept meanwhile.
pub(super) fn feed(this: NodeId, member: Member, last: Option<LogId>, place: OwnedSemaphorePermit) -> Feed {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _place = place;
        let feeding = Feeding { this, member, sender: sender.clone() };
        if let Err(Ended::Log(error)) = feeding.run(last).await {
            tracing::warn!(%error, "a node that follows this one is told no more");
            // Whoever listens may have left.
            let _ = sender.send(Err(Status::unavailable("the log has ended here"))).await;
        }
    });
    ReceiverStream::new(receiver)
}

struct Feeding {
    this: NodeId,
    member: Member,
    sender: mpsc::Sender<Result<proto::FollowResponse, Status>>,
}

/// Why nothing more is told.
enum Ended {
    /// Nobody listens.
    Left,
    Log(LogError),
}

impl Feeding {
    async fn run(mut self, mut last: Option<LogId>) -> Result<(), Ended> {
        let mut changes = self.member.kept.changes();
        loop {
            changes.mark_unchanged();
            self.member.role.mark_unchanged();
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
