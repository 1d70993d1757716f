//! The ledger: rounds that are not settled yet, and the sums of those that are.

use core::time::Duration;
use std::collections::BTreeMap;

use sotto_protocol::Round;
use tokio::time::Instant;

use super::page::Page;
use super::tell::{Line, Sum};

/// So long after a later round is ready, one that is not never will be.
const NEVER: Duration = Duration::from_secs(30);

/// All rounds.
pub(super) struct Book {
    pub(super) pages: BTreeMap<Round, Page>,
    clients: usize,
    pub(super) sum: Sum,
    last_complete: Option<Instant>,
}

impl Book {
    pub(super) fn new(clients: usize) -> Self {
        Self { pages: BTreeMap::new(), clients, sum: Sum::default(), last_complete: None }
    }

    /// Takes a round out that is settled, and says what became of it.
    pub(super) fn settle(&mut self, round_length: Duration) -> Option<Line> {
        let round = self.settled()?;
        let next = self.pages.get(&round.next()).and_then(|next| next.opened);
        let mut page = self.pages.remove(&round)?;
        if page.ready.is_none() {
            page.give_up();
        }
        let complete = page.is_complete(self.clients);
        if complete {
            let now = Instant::now();
            let gap = self.last_complete.replace(now).map_or(Duration::ZERO, |last| now - last);
            self.sum.longest = self.sum.longest.max(gap);
        }
        self.sum.rounds += 1;
        self.sum.complete += u64::from(complete);
        self.sum.acknowledged += page.acknowledged;
        self.sum.retrievable += page.retrievable;
        self.sum.lost += page.lost;
        self.sum.unreached += page.unreached;
        let end = next.or_else(|| Some(page.opened? + round_length));
        let ready = page.ready.as_ref();
        Some(Line {
            round: round.0,
            clients: self.clients as u64,
            acknowledged: page.acknowledged,
            retrievable: page.retrievable,
            lost: page.lost,
            unreached: page.unreached,
            complete,
            ready_s: ready.zip(end).map(|(ready, end)| ready.at.saturating_duration_since(end).as_secs_f64()),
            node: ready.map(|ready| ready.node + 1),
        })
    }

    fn settled(&self) -> Option<Round> {
        let never = |page: &Page| page.ready.as_ref().is_some_and(|ready| ready.at.elapsed() >= NEVER);
        let later = self.pages.iter().rev().find(|(_, page)| never(page)).map(|(round, _)| *round);
        let done = |round: &Round, page: &Page| {
            let gone = page.ready.is_none() && page.depositing == 0;
            page.is_settled() || (gone && (later > Some(*round) || self.gone_for_long(page)))
        };
        self.pages.iter().find(|(round, page)| done(round, page)).map(|(round, _)| *round)
    }

    /// Whether rounds went on for long after this one, though their pages are settled.
    fn gone_for_long(&self, page: &Page) -> bool {
        let since =
            self.last_complete.zip(page.opened).map(|(last, opened)| last.saturating_duration_since(opened));
        since.is_some_and(|since| since >= NEVER)
    }

    /// What was acknowledged in rounds that are not settled.
    pub(super) fn open(&self) -> u64 {
        self.pages.values().map(|page| page.acknowledged).sum()
    }
}
