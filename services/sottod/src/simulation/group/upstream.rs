//! Nodes that a simulated answerer follows.

use std::sync::Arc;
use std::time::Duration;

use sotto_log::{Behind, Fed, Feeding, Food, LogId, Role, SIGN_OF_LIFE, Upstream, decode_entry};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;

use super::net::Way;
use crate::peers::Member;
use crate::simulation::world::World;

/// All that an answerer may follow, the last it followed first.
pub(super) struct Upstreams {
    pub(super) way: Way,
    pub(super) world: Arc<World>,
    pub(super) candidates: Vec<u64>,
}

impl Upstream for Upstreams {
    async fn follow(&mut self, last: Option<LogId>) -> Option<Feeding> {
        // Whoever was followed has been lost.
        self.candidates.rotate_left(1);
        for to in self.candidates.clone() {
            let is_of_log = |member: Member| async move {
                let Some(last) = last else { return Some(true) };
                Some(member.kept.is_of_log(last).await.ok()? != Some(false))
            };
            match self.way.call(to, is_of_log).await {
                None => {}
                Some(false) => self.world.violated(format_args!("node {to} has another log")),
                Some(true) => {
                    let (sender, receiver) = mpsc::channel(1);
                    tokio::spawn(tell(self.way.clone(), Arc::clone(&self.world), to, last, sender));
                    return Some(Box::pin(ReceiverStream::new(receiver)));
                }
            }
        }
        None
    }

    /// So that feeds are left that would go on, too.
    async fn is_better_there(&mut self, _: Option<LogId>) -> bool {
        true
    }
}

/// As a connection does: what is lost ends it.
async fn tell(way: Way, world: Arc<World>, to: u64, mut last: Option<LogId>, sender: mpsc::Sender<Fed>) {
    loop {
        let ask = |member: Member| async move {
            let leader = match *member.role.borrow() {
                Role::Leads { .. } => Some(to),
                Role::Follows { leader } => leader,
            };
            Some((leader, member.kept.behind(last).await.ok()?))
        };
        let Some((leader, behind)) = way.call(to, ask).await else { return };
        let what = match behind {
            Behind::Nothing => Food::Entries(Vec::new()),
            Behind::Entries(entries, upto) => {
                last = Some(upto);
                let entries: Result<Vec<_>, _> = entries.iter().map(|entry| decode_entry(entry)).collect();
                let Ok(entries) = entries else {
                    world.violated(format_args!("node {to} sends what is no entry"));
                    return;
                };
                Food::Entries(entries)
            }
            Behind::Snapshot(bytes, upto) => {
                last = upto;
                Food::Snapshot(bytes)
            }
        };
        let is_idle = matches!(&what, Food::Entries(entries) if entries.is_empty());
        if sender.send(Fed { leader, what }).await.is_err() {
            return;
        }
        if is_idle {
            sleep(SIGN_OF_LIFE.min(Duration::from_millis(50))).await;
        }
    }
}
