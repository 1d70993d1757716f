//! Who reaches whom, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use openraft::errors::{ReplicationClosed, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, TransferLeaderResponse, VoteRequest,
    VoteResponse,
};
use openraft::{BasicNode, Raft};
use rand::RngExt;
use rand::rngs::StdRng;
use sotto_log::{
    Called, Doing, GroupLink, GroupNetwork, RaftSnapshot, Role, Sent, StateMachine, Tenure, TokenId,
    TypeConfig, Vote,
};
use sotto_protocol::server::Account;
use sotto_protocol::{Deposit, Round};
use sotto_wire::Refused;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::forward::{Forward, Forwarded, Lost};
use crate::peers::Member;
use crate::rounds::{Place, Rounds};

/// What a call costs whose answer never comes.
const SILENCE: Duration = Duration::from_millis(600);

/// All ways between nodes.
#[derive(Clone)]
pub(super) struct Net(Arc<Mutex<Inner>>);

struct Inner {
    dice: StdRng,
    /// Calls and answers lost of a thousand.
    lost: u32,
    /// Longest time on the way, ms.
    way_ms: u64,
    /// Ways that are cut, in one direction.
    cut: BTreeSet<(u64, u64)>,
    members: BTreeMap<u64, Member>,
    rounds: BTreeMap<u64, Rounds>,
}

impl Net {
    pub(super) fn new(dice: StdRng, lost: u32, way_ms: u64) -> Self {
        let (cut, members, rounds) = Default::default();
        Self(Arc::new(Mutex::new(Inner { dice, lost, way_ms, cut, members, rounds })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(super) fn joined(&self, number: u64, member: Member) {
        self.lock().members.insert(number, member);
    }

    pub(super) fn serves(&self, number: u64, rounds: Rounds) {
        self.lock().rounds.insert(number, rounds);
    }

    pub(super) fn gone(&self, number: u64) {
        let mut inner = self.lock();
        inner.members.remove(&number);
        inner.rounds.remove(&number);
    }

    pub(super) fn cut(&self, from: u64, to: u64) {
        self.lock().cut.insert((from, to));
    }

    pub(super) fn heal(&self) {
        self.lock().cut.clear();
    }

    pub(super) fn calm(&self) {
        let mut inner = self.lock();
        (inner.lost, inner.way_ms) = (0, 3);
        inner.cut.clear();
    }

    /// What serves people at a node.
    pub(super) fn rounds(&self, number: u64) -> Option<Rounds> {
        self.lock().rounds.get(&number).cloned()
    }

    pub(super) fn role(&self, number: u64) -> Option<Role> {
        self.lock().members.get(&number).map(|member| *member.role.borrow())
    }

    /// What a node's part in the log's group is, if it votes.
    pub(super) fn raft(&self, number: u64) -> Option<Raft<TypeConfig, StateMachine>> {
        self.member(number)?.raft
    }

    fn member(&self, number: u64) -> Option<Member> {
        self.lock().members.get(&number).cloned()
    }

    /// One message on its way; whether it arrives.
    async fn travel(&self, from: u64, to: u64) -> bool {
        let (arrives, way) = {
            let mut inner = self.lock();
            let (lost, way_ms) = (inner.lost, inner.way_ms);
            let lost = inner.dice.random_range(0..1000) < lost;
            let way = inner.dice.random_range(0..=way_ms);
            (!lost && !inner.cut.contains(&(from, to)), way)
        };
        sleep(Duration::from_millis(way)).await;
        arrives
    }
}

/// The ways out of one life of a node.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) net: Net,
    pub(super) from: u64,
    /// Whatever a machine does that has no power, nobody hears of it.
    pub(super) power: CancellationToken,
}

impl Way {
    /// A call, which is answered or not.
    pub(super) async fn call<T, F: Future<Output = Option<T>>>(
        &self,
        to: u64,
        call: impl FnOnce(Member) -> F,
    ) -> Option<T> {
        let there = !self.power.is_cancelled() && self.net.travel(self.from, to).await;
        let answer = match self.net.member(to).filter(|_| there && !self.power.is_cancelled()) {
            Some(member) => call(member).await,
            None => None,
        };
        let back = answer.is_some() && self.net.travel(to, self.from).await && !self.power.is_cancelled();
        if !back {
            sleep(SILENCE).await;
        }
        answer.filter(|_| back)
    }
}

fn unreachable() -> Unreachable<TypeConfig> {
    Unreachable::new(&std::io::Error::other("nobody answers"))
}

pub(super) struct Link {
    way: Way,
    to: u64,
}

impl GroupNetwork for Way {
    fn reach(&mut self, to: u64, _: &BasicNode) -> Box<dyn GroupLink> {
        Box::new(Link { way: self.clone(), to })
    }
}

impl GroupLink for Link {
    fn append(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Called<'_, AppendEntriesResponse<TypeConfig>> {
        Box::pin(async move {
            let answer =
                self.way.call(self.to, |to| async move { to.raft?.append_entries(request).await.ok() });
            answer.await.ok_or_else(|| unreachable().into())
        })
    }

    fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        before: bool,
        _: RPCOption,
    ) -> Called<'_, VoteResponse<TypeConfig>> {
        let vote = move |to: Member| async move {
            let raft = to.raft?;
            if before { raft.pre_vote(request).await.ok() } else { raft.vote(request).await.ok() }
        };
        Box::pin(async move { self.way.call(self.to, vote).await.ok_or_else(|| unreachable().into()) })
    }

    fn snapshot(
        &mut self,
        vote: Vote,
        snapshot: RaftSnapshot,
        _: Doing<'static, ReplicationClosed>,
    ) -> Sent<'_> {
        Box::pin(async move {
            let install =
                |to: Member| async move { to.raft?.install_full_snapshot(vote, snapshot).await.ok() };
            self.way.call(self.to, install).await.ok_or_else(|| unreachable().into())
        })
    }

    fn transfer(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        _: RPCOption,
    ) -> Called<'_, TransferLeaderResponse<TypeConfig>> {
        Box::pin(async move {
            let transfer = |to: Member| async move { to.raft?.handle_transfer_leader(request).await.ok() };
            self.way.call(self.to, transfer).await.ok_or_else(|| unreachable().into())
        })
    }
}

impl Forward for Way {
    fn deposits(
        &self,
        leader: u64,
        deposits: Vec<(Account, Round, Deposit, Option<Tenure>)>,
    ) -> Forwarded<Vec<Result<(), Refused>>> {
        let way = self.clone();
        Box::pin(async move {
            let rounds = way.net.rounds(leader).ok_or(Lost)?;
            let store = |to: Member| async move {
                if !matches!(*to.role.borrow(), Role::Leads { .. }) {
                    return None;
                }
                let mut results = Vec::new();
                for (account, round, deposit, tenure) in deposits {
                    results.push(rounds.deposit(account, round, deposit, tenure).await);
                }
                Some(results)
            };
            way.call(leader, store).await.ok_or(Lost)
        })
    }

    fn register(
        &self,
        leader: u64,
        account: Account,
        token: Option<TokenId>,
        shown: Option<Tenure>,
    ) -> Forwarded<Result<Option<Tenure>, Refused>> {
        let way = self.clone();
        Box::pin(async move {
            let rounds = way.net.rounds(leader).ok_or(Lost)?;
            let admit = |to: Member| async move {
                if !matches!(*to.role.borrow(), Role::Leads { .. }) {
                    return None;
                }
                Some(rounds.register(account, token, shown).await)
            };
            way.call(leader, admit).await.ok_or(Lost)
        })
    }

    fn close(&self, leader: u64, account: Account, tenure: Option<Tenure>) -> Forwarded<Result<(), Refused>> {
        let way = self.clone();
        Box::pin(async move {
            let rounds = way.net.rounds(leader).ok_or(Lost)?;
            let close = |to: Member| async move {
                if !matches!(*to.role.borrow(), Role::Leads { .. }) {
                    return None;
                }
                Some(rounds.close(account, tenure).await)
            };
            way.call(leader, close).await.ok_or(Lost)
        })
    }

    fn place(&self, leader: u64, place: Place) -> Forwarded<()> {
        let way = self.clone();
        Box::pin(async move {
            let rounds = way.net.rounds(leader).ok_or(Lost)?;
            let hear = |to: Member| async move {
                if !matches!(*to.role.borrow(), Role::Leads { .. }) {
                    return None;
                }
                rounds.place(place).await;
                Some(())
            };
            way.call(leader, hear).await.ok_or(Lost)
        })
    }
}
