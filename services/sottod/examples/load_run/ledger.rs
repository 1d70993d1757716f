//! What became of the deposits, judged round by round: a server forgets rounds, and so does this.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sotto_protocol::deposit::arrange;
use sotto_protocol::manifest::{Manifest, deposits_digest};
use sotto_protocol::{Deposit, Round};
use sotto_wire::Failure;

/// What clients tell.
pub(crate) enum News {
    /// A deposit is on its way.
    Sent { round: Round },
    /// The call has ended.
    Ended { round: Round, deposit: Box<Deposit>, fate: Fate },
    /// A round can be retrieved.
    Ready(Box<Manifest>),
}

pub(crate) enum Fate {
    Acknowledged { after: Duration },
    Refused(String),
    Unknown(String),
}

impl Fate {
    pub(crate) fn of<T>(answer: Result<T, Failure>, sent: Instant) -> Self {
        match answer {
            Ok(_) => Self::Acknowledged { after: sent.elapsed() },
            Err(failure @ Failure::Refused(_)) => Self::Refused(word(failure)),
            // It may be there or not.
            Err(failure) => Self::Unknown(word(failure)),
        }
    }
}

/// The reason word of a refusal; for want of one, what the call met with.
pub(crate) fn word(failure: Failure) -> String {
    match failure {
        Failure::Refused(refused) => refused.reason().to_owned(),
        Failure::Unreachable => "unreachable".to_owned(),
        Failure::Nonsense(code) => format!("{code:?}"),
        Failure::Flood => "flood".to_owned(),
    }
}

/// Deposits of all rounds.
#[derive(Default)]
pub(crate) struct Ledger {
    rounds: BTreeMap<Round, Page>,
    /// Of the judged rounds.
    pub(crate) totals: Totals,
    /// Times until the acknowledgement, microseconds.
    pub(crate) acknowledgements: Vec<u32>,
    pub(crate) refusals: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) sent: u64,
    pub(crate) acknowledged: u64,
    /// Acknowledged, and shown to be in the log exactly once by the manifest's digest of all deposits.
    pub(crate) stored: u64,
    /// Acknowledged in rounds with calls that got no answer, whose digest therefore says nothing; there are at least as
    /// many deposits as were acknowledged. With slots, all: the digest is that of a table, with boxes of the server's in it.
    pub(crate) counted: u64,
    /// Acknowledged in rounds that never got a manifest: they can never be retrieved.
    pub(crate) abandoned: u64,
    /// Acknowledged, in rounds whose manifest says otherwise.
    pub(crate) lost: u64,
}

#[derive(Default)]
struct Page {
    on_their_way: usize,
    acknowledged: Vec<Deposit>,
    unknown: u64,
    manifest: Option<Box<Manifest>>,
}

impl Ledger {
    pub(crate) fn note(&mut self, news: News) {
        match news {
            News::Sent { round } => {
                self.totals.sent += 1;
                self.page(round).on_their_way += 1;
            }
            News::Ended { round, deposit, fate } => {
                let page = self.page(round);
                page.on_their_way -= 1;
                match fate {
                    Fate::Acknowledged { after } => {
                        page.acknowledged.push(*deposit);
                        self.totals.acknowledged += 1;
                        self.acknowledgements.push(after.as_micros().try_into().unwrap_or(u32::MAX));
                    }
                    Fate::Refused(word) => *self.refusals.entry(word).or_default() += 1,
                    Fate::Unknown(word) => {
                        page.unknown += 1;
                        *self.refusals.entry(word).or_default() += 1;
                    }
                }
                self.judge(round);
            }
            News::Ready(manifest) => {
                let round = manifest.round;
                self.page(round).manifest = Some(manifest);
                self.judge(round);
                // Manifests come in order: rounds before it that have none never get one.
                let gone: Vec<Round> = self.rounds.range(..round).map(|(round, _)| *round).collect();
                gone.into_iter().for_each(|round| self.give_up(round));
            }
        }
    }

    /// Calls that have not ended.
    pub(crate) fn on_their_way(&self) -> usize {
        self.rounds.values().map(|page| page.on_their_way).sum()
    }

    /// Rounds that have no manifest yet, with what was acknowledged.
    pub(crate) fn take_open(&mut self) -> impl Iterator<Item = (Round, Vec<Deposit>)> {
        core::mem::take(&mut self.rounds).into_iter().map(|(round, page)| (round, page.acknowledged))
    }

    fn page(&mut self, round: Round) -> &mut Page {
        self.rounds.entry(round).or_default()
    }

    fn give_up(&mut self, round: Round) {
        let Some(page) = self.rounds.get(&round) else { return };
        if page.manifest.is_none() && page.on_their_way == 0 {
            self.totals.abandoned += page.acknowledged.len() as u64;
            self.rounds.remove(&round);
        }
    }

    fn judge(&mut self, round: Round) {
        let Some(page) = self.rounds.get(&round) else { return };
        if page.on_their_way > 0 || page.manifest.is_none() {
            return;
        }
        let Some(Page { mut acknowledged, unknown, manifest: Some(manifest), .. }) =
            self.rounds.remove(&round)
        else {
            return;
        };
        let many = acknowledged.len() as u64;
        arrange(&mut acknowledged, &manifest.round_seed);
        if unknown == 0 && deposits_digest(&acknowledged) == manifest.deposits_digest {
            self.totals.stored += many;
        } else if manifest.code.has_slots()
            || (unknown > 0 && (many..=many + unknown).contains(&manifest.entries))
        {
            self.totals.counted += many;
        } else {
            self.totals.lost += many;
        }
    }
}
