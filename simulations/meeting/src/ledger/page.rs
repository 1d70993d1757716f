//! One round in the ledger.

use sotto_protocol::mapping::Outcome;
use sotto_protocol::{Deposit, Manifest};
use tokio::time::Instant;

use super::account::Retrieved;

/// How many different clients look for a box before it counts as lost: of a Bloom mapping a look-up may err, or find no free
/// bucket.
const TRIES: u8 = 3;

/// A box that was acknowledged and has not come back yet.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) deposit: Deposit,
    tries: u8,
}

/// When, and where first, a round could be retrieved.
pub(super) struct Ready {
    pub(super) manifest: Manifest,
    pub(super) at: Instant,
    pub(super) node: usize,
}

/// A round.
#[derive(Default)]
pub(super) struct Page {
    /// When it began to take deposits; nothing if that was not heard.
    pub(super) opened: Option<Instant>,
    pub(super) ready: Option<Ready>,
    /// Deposits and retrievals under way.
    pub(super) depositing: usize,
    pub(super) asking: usize,
    wanted: Vec<Wanted>,
    /// Which clients have asked: each may once.
    used: Vec<bool>,
    pub(super) acknowledged: u64,
    pub(super) retrievable: u64,
    pub(super) lost: u64,
    pub(super) unreached: u64,
}

impl Page {
    /// A deposit's call has ended, with an acknowledgement if there is a deposit.
    pub(super) fn deposited(&mut self, deposit: Option<Deposit>) {
        self.depositing = self.depositing.saturating_sub(1);
        if let Some(deposit) = deposit {
            self.acknowledged += 1;
            self.wanted.push(Wanted { deposit, tries: 0 });
        }
    }

    /// Up to `most` boxes that a client is to retrieve, and which client: one that has not asked yet, from `from` on.
    pub(super) fn next(&mut self, clients: usize, from: usize, most: usize) -> Option<(usize, Vec<Wanted>)> {
        if self.wanted.is_empty() {
            return None;
        }
        self.used.resize(clients, false);
        let free = (0..clients).map(|step| (from + step) % clients).find(|client| !self.used[*client]);
        let Some(client) = free else {
            self.unreached += self.wanted.len() as u64;
            self.wanted.clear();
            return None;
        };
        self.used[client] = true;
        self.asking += 1;
        let rest = self.wanted.len().saturating_sub(most);
        Some((client, self.wanted.split_off(rest)))
    }

    /// What came of a retrieval of these.
    pub(super) fn retrieved(&mut self, wanted: Vec<Wanted>, retrieved: Retrieved) {
        self.asking = self.asking.saturating_sub(1);
        let judged = match retrieved {
            Retrieved::Judged(judged) => {
                judged.into_iter().map(|(_, outcome, right)| Some((outcome, right))).collect()
            }
            Retrieved::Unreached => vec![None; wanted.len()],
        };
        for (Wanted { deposit, tries }, judged) in wanted.into_iter().zip(judged) {
            match judged {
                Some((_, true)) => self.retrievable += 1,
                _ if tries + 1 < TRIES => self.wanted.push(Wanted { deposit, tries: tries + 1 }),
                Some((Outcome::Absent | Outcome::Found, false)) => self.lost += 1,
                // Nobody has read it, but it may be there: others look as long as there are any.
                Some((Outcome::Ambiguous | Outcome::Deferred, false)) => {
                    self.wanted.push(Wanted { deposit, tries });
                }
                None => self.unreached += 1,
            }
        }
    }

    /// The round never comes: what was acknowledged of it is lost.
    pub(super) fn give_up(&mut self) {
        self.lost += self.wanted.len() as u64;
        self.wanted.clear();
    }

    /// Whether nothing is to come any more.
    pub(super) fn is_settled(&self) -> bool {
        self.ready.is_some() && self.depositing == 0 && self.asking == 0 && self.wanted.is_empty()
    }

    /// Whether every client's box was acknowledged and came back.
    pub(super) fn is_complete(&self, clients: usize) -> bool {
        self.acknowledged == clients as u64 && self.retrievable == self.acknowledged
    }
}

#[cfg(test)]
mod tests {
    use sotto_protocol::Round;
    use sotto_protocol::mapping::Outcome;

    use super::super::account::{Retrieved, random_deposit};
    use super::{Page, TRIES, Wanted};

    fn page(deposits: usize) -> Page {
        let mut page = Page { depositing: deposits, ..Page::default() };
        (0..deposits).for_each(|_| page.deposited(Some(random_deposit(Round(1)))));
        page
    }

    fn answer(page: &mut Page, wanted: Vec<Wanted>, outcome: Outcome, right: bool) {
        let judged = wanted.iter().map(|wanted| (wanted.deposit.clone(), outcome, right)).collect();
        page.retrieved(wanted, Retrieved::Judged(judged));
    }

    #[test]
    fn clients_divide_boxes_and_each_asks_once() {
        let mut page = page(5);
        let (first, some) = page.next(3, 2, 2).unwrap();
        let (second, more) = page.next(3, 2, 2).unwrap();
        let (third, rest) = page.next(3, 2, 2).unwrap();
        assert_eq!(
            [(first, some.len()), (second, more.len()), (third, rest.len())],
            [(2, 2), (0, 2), (1, 1)]
        );
        assert!(page.next(3, 2, 2).is_none());
        for wanted in [some, more, rest] {
            answer(&mut page, wanted, Outcome::Found, true);
        }
        assert!(page.is_complete(5) && page.lost == 0 && page.unreached == 0);
    }

    #[test]
    fn what_nobody_finds_is_lost_and_what_nobody_could_ask_for_is_not() {
        let mut lost = page(1);
        for client in 0..usize::from(TRIES) {
            let (asked, wanted) = lost.next(9, 0, 4).unwrap();
            assert_eq!(asked, client);
            answer(&mut lost, wanted, Outcome::Absent, false);
        }
        assert!(lost.next(9, 0, 4).is_none());
        assert_eq!((lost.lost, lost.unreached), (1, 0));

        let mut unreached = page(1);
        while let Some((_, wanted)) = unreached.next(9, 0, 4) {
            unreached.retrieved(wanted, Retrieved::Unreached);
        }
        assert_eq!((unreached.lost, unreached.unreached), (0, 1));

        // A box that is read by nobody because another one is in its way.
        let mut hidden = page(1);
        while let Some((_, wanted)) = hidden.next(9, 0, 4) {
            answer(&mut hidden, wanted, Outcome::Ambiguous, false);
        }
        assert_eq!((hidden.lost, hidden.unreached), (0, 1));
        let mut gone = page(2);
        gone.give_up();
        assert_eq!(gone.lost, 2);
    }
}
